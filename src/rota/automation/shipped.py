"""Rota's own triggers: those that any member may perform for all, and those of each node for itself.

    advance-epochs       begin the next epoch of an `Epochs` contract when it is due
    execute-proposals    execute proposals of a `Proposals` contract that have their votes
    ask-for-states       ask peers again for private states that this node lacks
    cancel-expired-locks give expired locks of tokens back to their owners, as far as this node knows them
    prune-completions    forget completions of commands that are old enough

The contracts of the first two come from the configuration, and they do not run without; the contract determines who may
act: its members, by the addresses of their accounts. Pruned completions are deleted, so an operator decides that they
may be, and how old they have to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from rota.automation.strategies import Member
from rota.automation.triggers import (
    Action,
    Ask,
    Call,
    Ending,
    Here,
    LedgerEvent,
    Read,
    Reverted,
    Sighting,
    Task,
    Trigger,
    Watch,
    Work,
)
from rota.model.types import ContractAddress

# The most gas that beginning an epoch takes; a test measures it.
ADVANCE_GAS: Final = 150_000
# The most gas that cancelling a lock takes; a test measures it.
CANCEL_GAS: Final = 200_000
PROPOSALS_LOOKED_AT_MAX: Final = 1_000
VOTES_REMEMBERED_MAX: Final = 1_000
# The node's service for states that it lacks.
LACKING_STATES: Final = "contracts that lack states"
ASK_FOR_STATES: Final = "ask peers for states"
# The node's service for locks with a record on the ledger.
EXPIRED_LOCKS: Final = "locks that have expired"
CANCEL_ARGUMENTS: Final = "what cancels a lock"
# The service of a node that takes commands.
PRUNABLE_COMPLETIONS: Final = "completions that may be pruned"
PRUNE_COMPLETIONS: Final = "prune completions"
DAY_MS: Final = 86_400_000

_LOCK_INFO: Final = ("address", "address", "bytes32", "bytes32", "uint64")
_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")


class _OfContract(Trigger):
    """A trigger for one contract, which its options name."""

    def __init__(self, contract: ContractAddress) -> None:
        self.contract: Final = contract

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """`contract` is its address."""
        for option in options:
            if option != "contract":
                raise ValueError(f"{option}: is not known; {cls.name} has the option contract")
        contract = options.get("contract")
        if not isinstance(contract, str) or not _ADDRESS.fullmatch(contract):
            raise ValueError(f"contract: must be an address, 0x and 40 hex digits, not {contract!r}")
        return cls(ContractAddress(contract.lower()))

    def member(self, here: Here) -> Member:
        """The address with which it acts."""
        return Member(here.account)


class AdvanceEpochs(_OfContract):
    """Every epoch is a task that is ready when the epoch is due; `Advanced` names the member that began it."""

    name: ClassVar[str] = "advance-epochs"
    ADVANCED: Final = "Advanced(uint256 indexed, address indexed)"

    def __init__(self, contract: ContractAddress) -> None:
        super().__init__(contract)
        self.watches = (Watch(contract, self.ADVANCED),)
        # The start of epoch 0 and the length of an epoch; neither ever changes.
        self._schedule: tuple[int, int] | None = None

    def members(self, here: Here) -> Work[tuple[Member, ...] | None]:
        """The members that may advance by the contract."""
        membership = yield Read(self.contract, "membership()", returns=("address",))
        found = yield Read(membership, "members()", returns=("address[]",))
        return tuple(Member(each) for each in found)

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """The next epoch; later ones follow one by one."""
        if self._schedule is None:
            started_s = yield Read(self.contract, "startedAt()", returns=("uint256",))
            duration_s = yield Read(self.contract, "duration()", returns=("uint256",))
            self._schedule = (started_s, duration_s)
        epoch = yield Read(self.contract, "epoch()", returns=("uint256",))
        return self._task(epoch + 1)

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """It has begun."""
        epoch = yield Read(self.contract, "epoch()", returns=("uint256",))
        return bool(epoch >= task.arguments[0])

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """With our own account; the contract takes it from no other."""
        return Call(self.contract, "advance(address)", (here.account,), ADVANCE_GAS)

    def seen(self, event: LedgerEvent, here: Here) -> Sighting:
        """One epoch has begun, and the next one becomes a task."""
        epoch, member = event.arguments
        return Sighting(self._task(epoch + 1), (Ending(self._id(epoch), Member(member)),))

    def done_in(self, tasks: tuple[Task, ...], events: tuple[LedgerEvent, ...], here: Here) -> tuple[str, ...]:
        """The epoch that began; it is a later one than the task's if another member was faster and the next was due."""
        return tuple(self._id(event.arguments[0]) for event in events)

    def _task(self, epoch: int) -> tuple[Task, ...]:
        if self._schedule is None:
            return ()
        started_s, duration_s = self._schedule
        return (Task(self._id(epoch), (started_s + epoch * duration_s) * 1_000, arguments=(epoch,)),)

    def _id(self, epoch: int) -> str:
        return f"epoch/{self.contract}/{epoch}"


class ExecuteProposals(_OfContract):
    """Every proposal with enough votes is a task; `Executed` names the member that executed it."""

    name: ClassVar[str] = "execute-proposals"
    VOTED: Final = "Voted(uint256 indexed, address indexed)"
    EXECUTED: Final = "Executed(uint256 indexed, address indexed)"

    def __init__(self, contract: ContractAddress) -> None:
        super().__init__(contract)
        self.watches = (Watch(contract, self.VOTED), Watch(contract, self.EXECUTED))
        # All proposals below this number are executed or have expired.
        self._first_open = 0
        # The place where the next listing begins, and what the last one found.
        self._look_from = 0
        self._found: tuple[int, ...] = ()
        self._voted_ms: Final[dict[int, int]] = {}

    def members(self, here: Here) -> Work[tuple[Member, ...] | None]:
        """The members of the contract."""
        found = yield Read(self.contract, "members()", returns=("address[]",))
        return tuple(Member(each) for each in found)

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """Proposals with enough votes that are not executed; each listing continues the previous one.

        A member may propose more than a listing goes through. Proposals that the previous listing found are read again.
        """
        required = yield Read(self.contract, "requiredVotes()", returns=("uint256",))
        first = max(self._look_from, self._first_open)
        self._look_from = first + PROPOSALS_LOOKED_AT_MAX
        found: list[int] = []
        for number in dict.fromkeys((*self._found, *range(first, self._look_from))):
            try:
                _, _, votes, is_executed = yield self._proposal(number)
            except Reverted:
                self._look_from = 0
                break
            if number == self._first_open and (is_executed or not (yield from self._is_open(number))):
                self._first_open += 1
            if not is_executed and votes >= required:
                found.append(number)
        self._found = tuple(sorted(found)[:PROPOSALS_LOOKED_AT_MAX])
        return tuple(Task(self._id(each), self._voted_ms.get(each, 0), arguments=(each,)) for each in self._found)

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """It is executed, or has lost its votes with members that have left."""
        required = yield Read(self.contract, "requiredVotes()", returns=("uint256",))
        number: Any = task.arguments[0]
        _, _, votes, is_executed = yield self._proposal(number)
        return bool(is_executed or votes < required)

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """With our own account."""
        return Call(self.contract, "execute(uint256,address)", (tasks[0].arguments[0], here.account))

    def seen(self, event: LedgerEvent, here: Here) -> Sighting:
        """A vote may be the last one that was missing."""
        number, member = event.arguments
        if event.event == self.EXECUTED:
            self._voted_ms.pop(number, None)
            return Sighting(endings=(Ending(self._id(number), Member(member)),))
        self._voted_ms[number] = event.ledger_ms
        if len(self._voted_ms) > VOTES_REMEMBERED_MAX:
            del self._voted_ms[next(iter(self._voted_ms))]
        return Sighting(is_look_wanted=True)

    def done_in(self, tasks: tuple[Task, ...], events: tuple[LedgerEvent, ...], here: Here) -> tuple[str, ...]:
        """The executed proposal."""
        return tuple(self._id(event.arguments[0]) for event in events if event.event == self.EXECUTED)

    def _proposal(self, number: int) -> Read:
        return Read(self.contract, "proposalOf(uint256)", (number,), ("address", "bytes", "uint256", "bool"))

    def _is_open(self, number: int) -> Work[bool]:
        """Whether it can still be executed; in contracts of earlier releases proposals do not expire."""
        try:
            return bool((yield Read(self.contract, "isOpen(uint256)", (number,), ("bool",))))
        except Reverted:
            return True

    def _id(self, number: int) -> str:
        return f"proposal/{self.contract}/{number}"


class AskForStates(Trigger):
    """Each contract of which this node lacks states is a task, as often as a question may help."""

    name: ClassVar[str] = "ask-for-states"
    is_local: ClassVar[bool] = True

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """The node knows these contracts, and how often it asked for each."""
        lacking = yield Ask(LACKING_STATES)
        return tuple(Task(f"states/{contract}/{asked}", arguments=(contract,)) for contract, asked in lacking)

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """It lacks nothing any more, or the node asked meanwhile."""
        lacking = yield Ask(LACKING_STATES, task.arguments)
        return task.id not in [f"states/{contract}/{asked}" for contract, asked in lacking]

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """A question to peers; a later listing sees the result."""
        return Ask(ASK_FOR_STATES, tasks[0].arguments)


class CancelExpiredLocks(Trigger):
    """Each expired lock is a task: the ledger lets every account cancel it.

    The node whose user made it offers it, and the notary's node a bounded number. Where two nodes are equally fast, the
    ledger refuses the second.
    """

    name: ClassVar[str] = "cancel-expired-locks"

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """Expired locks that this node knows, some at a time."""
        expired = yield Ask(EXPIRED_LOCKS, (here.ledger_ms // 1_000,))
        tasks = []
        for contract, lock, expires_at_s in expired:
            arguments = yield from self._arguments(contract, lock)
            if arguments:
                ready_ms = (expires_at_s + 1) * 1_000
                tasks.append(Task(f"lock/{contract}/{lock.hex()}", ready_ms, arguments=(contract, lock, arguments)))
        return tuple(tasks)

    def _arguments(self, contract: ContractAddress, lock: bytes) -> Work[bytes]:
        """The arguments in the ledger's record; `None` when there is none, or this node does not know its leaf."""
        try:
            record = yield Read(contract, "getLock(bytes32)", (lock,), _LOCK_INFO)
        except Reverted:
            return b""
        return bytes((yield Ask(CANCEL_ARGUMENTS, (contract, record[3]))))

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """It has ended."""
        contract, lock, _ = task.arguments
        assert isinstance(contract, str)
        return not (yield Read(ContractAddress(contract), "isLockActive(bytes32)", (lock,), ("bool",)))

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """With our own account. The owner gets everything back, and the caller nothing."""
        contract, lock, arguments = tasks[0].arguments
        call = (lock, arguments, b"")
        return Call(ContractAddress(str(contract)), "cancelLock(bytes32,bytes,bytes)", call, CANCEL_GAS)


class PruneCompletions(Trigger):
    """All completions that are old enough are one task."""

    name: ClassVar[str] = "prune-completions"
    is_local: ClassVar[bool] = True

    def __init__(self, keep_days: int) -> None:
        self._keep_ms: Final = keep_days * DAY_MS

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """`keep_days` is how long completions stay; never shorter than the longest supported deduplication."""
        for option in options:
            if option != "keep_days":
                raise ValueError(f"{option}: is not known; {cls.name} has the option keep_days")
        keep_days = options.get("keep_days")
        if not isinstance(keep_days, int) or isinstance(keep_days, bool) or keep_days < 1:
            raise ValueError(f"keep_days: must be a whole number of at least 1, not {keep_days!r}")
        return cls(keep_days)

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """The offset up to which they may be deleted."""
        offset = yield Ask(PRUNABLE_COMPLETIONS, (self._keep_ms,))
        return (Task(f"completions/{offset}", arguments=(offset,)),) if offset else ()

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """They are deleted."""
        offset: Any = yield Ask(PRUNABLE_COMPLETIONS, (self._keep_ms,))
        number: Any = task.arguments[0]
        return bool(offset < number)

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """An order to this node."""
        return Ask(PRUNE_COMPLETIONS, tasks[0].arguments)


SHIPPED: Final[tuple[type[Trigger], ...]] = (
    AdvanceEpochs,
    ExecuteProposals,
    AskForStates,
    CancelExpiredLocks,
    PruneCompletions,
)
