"""Private contracts' accounts, folded from their chains of states, and the machines that run them.

A state holds the changes since its predecessor. To run a contract at a state, all changes since its creation are
needed. They are folded once and cached: for each account all slots at one state, `head`, and the steps back from there.
Moving to another state costs as many steps as are between the two, whatever the account holds: transactions move it
ahead by one, an endorser that assembled ahead goes back by a slot, and steps that never came on the chain are undone.

A state's id binds its contents, through its leaf, so folded accounts never go stale; they can only be dropped. Then the
chain is followed back to its creation, with states from the host (`History`). The cache is bounded.

A node that starts passes all its states, one by one (`learn`). They are folded as they come; one that comes before its
predecessor waits for it. If a branch gets longer than the folded one, the account is moved to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rota.domains.base import History, Known, Rejected
from rota.domains.pente.changes import unpack_predecessor, unpack_slots
from rota.domains.pente.evm import Account, Address, Evm, Execution, Message
from rota.domains.pente.records import AccountState
from rota.domains.records import Record
from rota.model.types import StateId, address_bytes

ACCOUNTS_KEPT_MAX: Final = 16_384
SLOTS_KEPT_MAX: Final = 4_000_000
STEPS_KEPT_MAX: Final = 4_096
WAITING_MAX: Final = 65_536
# Every so many steps that are learned beyond the head, a path to them is searched.
LOOK_EVERY: Final = 64

# CREATE, CALL, CALLCODE, DELEGATECALL, CREATE2, STATICCALL.
_CALLS_OUT: Final = frozenset((0xF0, 0xF1, 0xF2, 0xF4, 0xF5, 0xFA))
_PUSH1: Final = 0x60
_PUSH32: Final = 0x7F

Heads = Mapping[Address, Known[AccountState]]


class Step(NamedTuple):
    """One state of an account: its predecessor, and its changes."""

    id: StateId
    address: Address
    predecessor: StateId | None
    number: int
    nonce: int
    code: bytes
    slots: Mapping[int, int]


class Undo(NamedTuple):
    """The values that a step on the path to the head has replaced."""

    nonce: int
    number: int
    slots: Mapping[int, int]


def step_of(known: Known[Record]) -> Step:
    """The step of a state. `Rejected` when its record is not that of an account."""
    record = known.record
    if not isinstance(record, AccountState):
        raise Rejected("predecessor", "must be the state of an account")
    predecessor = unpack_predecessor(record.predecessor)
    if (predecessor is None) != (record.number == 0) or (record.number > 0 and record.code):
        raise Rejected("number", "must be 0 for the first state of an account, which alone has code, and only for it")
    slots = unpack_slots(record.slots)
    return Step(known.id, address_bytes(record.address), predecessor, record.number, record.nonce, record.code, slots)


def calls_out(code: bytes) -> bool:
    """Whether code has an instruction that runs other code, or data that looks like one."""
    at = 0
    while at < len(code):
        instruction = code[at]
        if instruction in _CALLS_OUT:
            return True
        at += instruction - _PUSH1 + 2 if _PUSH1 <= instruction <= _PUSH32 else 1
    return False


@dataclass(slots=True)
class Chain:
    """An account at its head, the steps back from there, and recently seen steps.

    `path` leads from the oldest step that can be undone to the head; `floor` is the state before it.
    """

    address: Address
    head: StateId | None = None
    floor: StateId | None = None
    number: int = -1
    nonce: int = 0
    code: bytes = b""
    calls_out: bool = False
    slots: dict[int, int] = field(default_factory=dict)
    path: OrderedDict[StateId, Undo] = field(default_factory=OrderedDict)
    seen: OrderedDict[StateId, Step] = field(default_factory=OrderedDict)
    # Whether the chain has had a state of it. States from a coordinator are folded too, and may be made up.
    is_on_chain: bool = False
    # Steps by their missing predecessor.
    waiting: OrderedDict[StateId, Step] = field(default_factory=OrderedDict)

    def learn(self, step: Step) -> None:
        """Cache a step that may be needed soon."""
        self.seen[step.id] = step
        if len(self.seen) > STEPS_KEPT_MAX:
            self.seen.popitem(last=False)

    def wait(self, step: Step) -> None:
        """Keep a step whose predecessor may come later."""
        if step.predecessor is not None and step.predecessor not in self.path:
            self.waiting.setdefault(step.predecessor, step)
            if len(self.waiting) > WAITING_MAX:
                self.waiting.popitem(last=False)

    def steps_to(self, target: Known[Record], history: History) -> tuple[list[Step], StateId | None]:
        """The steps to a state, last first, and where they join our path; None for that if they never do."""
        return self._steps(target.id, lambda state: step_of(target if state == target.id else history.get(state)))

    def steps_seen_to(self, step: Step) -> tuple[list[Step], StateId | None] | None:
        """The same from the cached steps alone; None when one in between is missing."""
        try:
            return self._steps(step.id, lambda state: self.seen[state])
        except (KeyError, Rejected):
            return None

    def _steps(self, target: StateId, find: Callable[[StateId], Step]) -> tuple[list[Step], StateId | None]:
        steps: list[Step] = []
        at: StateId | None = target
        while at is not None and at not in self.path and at != self.floor:
            step = self.seen.get(at) or find(at)
            if step.address != self.address:
                raise Rejected("predecessor", "must be a state of the same account")
            # Every step has a lower number than its successor, so the loop ends.
            if steps and step.number != steps[-1].number - 1:
                raise Rejected("number", "must be one more than that of the state before")
            steps.append(step)
            at = step.predecessor
        return steps, at

    def go_back(self, to: StateId) -> dict[int, int]:
        """Undo the steps beyond a state of the path. Returns the slots that this changes."""
        changed: dict[int, int] = {}
        while self.head != to:
            _, undo = self.path.popitem()
            self.nonce, self.number = undo.nonce, undo.number
            self._set(undo.slots)
            changed.update(undo.slots)
            self.head = next(reversed(self.path), self.floor)
        return changed

    def go_on(self, step: Step) -> Mapping[int, int]:
        """Apply the next step. Returns the slots that this changes."""
        if step.number == 0:
            self.code, self.calls_out = step.code, calls_out(step.code)
        before = {number: self.slots.get(number, 0) for number in step.slots}
        self.path[step.id] = Undo(self.nonce, self.number, before)
        self.nonce, self.number, self.head = step.nonce, step.number, step.id
        self._set(step.slots)
        if len(self.path) > STEPS_KEPT_MAX:
            self.floor, _ = self.path.popitem(last=False)
        self.learn(step)
        return step.slots

    def begin_anew(self) -> None:
        """Drop the folded account and its path."""
        self.head = self.floor = None
        self.number, self.nonce, self.code = -1, 0, b""
        self.slots.clear()
        self.path.clear()

    def _set(self, slots: Mapping[int, int]) -> None:
        for number, value in slots.items():
            if value:
                self.slots[number] = value
            else:
                self.slots.pop(number, None)


@dataclass(slots=True)
class _Machine:
    """A machine that holds a copy of every account, and the accounts that exist in it now."""

    evm: Evm
    shown: dict[Address, None] = field(default_factory=dict)

    def show_only(self, addresses: Collection[Address]) -> None:
        """Make exactly these accounts exist."""
        for address in [address for address in self.shown if address not in addresses]:
            self.evm.hide(address)
            del self.shown[address]
        for address in addresses:
            if address not in self.shown:
                self.evm.show(address)
                self.shown[address] = None


class Accounts:
    """The accounts of a group at one node, and the machines that hold a copy of them.

    There is one machine for messages among a few accounts, and, once it is needed, another for those among all. With
    one for both, all accounts would be hidden and shown again for each transaction.
    """

    def __init__(self, make_evm: Callable[[], Evm]) -> None:
        self._make_evm: Final = make_evm
        self._few: Final = _Machine(make_evm())
        self._all: _Machine | None = None
        self._chains: Final[OrderedDict[Address, Chain]] = OrderedDict()
        self._slot_count = 0

    def learn(self, known: Known[Record]) -> None:
        """Add a state that this node knows, in any order; one that is malformed is ignored."""
        if not isinstance(known.record, AccountState):
            return
        try:
            step = step_of(known)
        except Rejected:
            return
        chain = self._chain(step.address)
        chain.is_on_chain = True
        chain.learn(step)
        if step.id in chain.path:
            return
        if step.predecessor == chain.head:
            following: Step | None = step
            while following is not None and following.number == chain.number + 1:
                self._move(chain, [following], following.predecessor)
                following = chain.waiting.pop(following.id, None)
        else:
            chain.wait(step)
            if step.number > chain.number and step.number % LOOK_EVERY == 0:
                way = chain.steps_seen_to(step)
                if way is not None:
                    self._move(chain, *way)
        self._forget_some()

    def has_seen(self, address: Address) -> bool:
        """Whether the chain has had a state of the account. At its start a node passes all states that it has."""
        chain = self._chains.get(address)
        return chain is not None and chain.is_on_chain

    def chain_at(self, address: Address, state: Known[Record], history: History) -> Chain:
        """The account at this state. `Lacking` when a state on the way there is not known."""
        chain = self._chain(address)
        if chain.head != state.id:
            steps, joint = chain.steps_to(state, history)
            self._move(chain, steps, joint)
        return chain

    def run(self, message: Message, heads: Heads, history: History) -> Execution:
        """Run a message where these accounts exist, each at its state, and no others."""
        return self._run(self._few, message, heads, history)

    def run_among_all(self, message: Message, heads: Heads, history: History) -> Execution:
        """The same on another machine, for calls with all or nearly all accounts of the group."""
        if self._all is None:
            self._all = _Machine(self._make_evm())
            for chain in self._chains.values():
                self._put(self._all, chain)
        return self._run(self._all, message, heads, history)

    def _run(self, machine: _Machine, message: Message, heads: Heads, history: History) -> Execution:
        for address, state in heads.items():
            self.chain_at(address, state, history)
        machine.show_only(heads)
        execution = machine.evm.run(message)
        self._forget_some()
        return execution

    @property
    def _machines(self) -> tuple[_Machine, ...]:
        return (self._few,) if self._all is None else (self._few, self._all)

    def _put(self, machine: _Machine, chain: Chain) -> None:
        if chain.head is not None:
            machine.evm.put(chain.address, Account(chain.nonce, chain.code, chain.slots))
            machine.shown[chain.address] = None

    def _chain(self, address: Address) -> Chain:
        chain = self._chains.setdefault(address, Chain(address))
        self._chains.move_to_end(address)
        return chain

    def _move(self, chain: Chain, steps: list[Step], joint: StateId | None) -> None:
        """Go back to where the steps leave the path, and apply them; the machines get the resulting changes."""
        slots_before = len(chain.slots)
        if joint is None:
            chain.begin_anew()
            for step in reversed(steps):
                chain.go_on(step)
            for machine in self._machines:
                self._put(machine, chain)
        else:
            changed = chain.go_back(joint)
            for step in reversed(steps):
                changed.update(chain.go_on(step))
            for machine in self._machines:
                machine.evm.change(chain.address, chain.nonce, changed)
        self._slot_count += len(chain.slots) - slots_before

    def _forget_some(self) -> None:
        """Drop the least recently used accounts, but not the last one; they can be folded again."""
        while len(self._chains) > 1 and (len(self._chains) > ACCOUNTS_KEPT_MAX or self._slot_count > SLOTS_KEPT_MAX):
            address, chain = self._chains.popitem(last=False)
            self._slot_count -= len(chain.slots)
            for machine in self._machines:
                machine.shown.pop(address, None)
                machine.evm.drop(address)
