"""Rota's own duties in the simulator, on models of their contracts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rota.automation import shipped
from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.shipped import (
    ASK_FOR_STATES,
    CANCEL_ARGUMENTS,
    EXPIRED_LOCKS,
    LACKING_STATES,
    PROPOSALS_LOOKED_AT_MAX,
    PRUNABLE_COMPLETIONS,
    PRUNE_COMPLETIONS,
    AdvanceEpochs,
    AskForStates,
    CancelExpiredLocks,
    ExecuteProposals,
    PruneCompletions,
)
from rota.automation.strategies import Member
from rota.automation.triggers import Here, Read, Reverted
from rota.model.types import ContractAddress, NodeName
from rota.sim.automation import BEGIN_MS
from rota.testing import ModelContract, TriggerWorld, account_of, simulate_trigger, trigger_findings

EPOCHS, PROPOSALS = ContractAddress("0x" + "e0" * 20), ContractAddress("0x" + "f0" * 20)
NODES = 5
BOTH = pytest.mark.parametrize("strategy", list(Strategy))


class Proposals(ModelContract):
    """`contracts/Proposals.sol`, without what proposals call."""

    def __init__(self) -> None:
        self.votes: list[set[ContractAddress]] = []
        self.executed: set[int] = set()
        self.bad: set[int] = set()
        self.expired: set[int] = set()

    def isOpen(self, number: int) -> bool:
        return number not in self.executed | self.expired

    def members(self) -> list[ContractAddress]:
        return [account_of(f"node{number}") for number in range(NODES)]

    def requiredVotes(self) -> int:
        return (2 * NODES + 2) // 3

    def proposalOf(self, number: int) -> tuple[ContractAddress, bytes, int, bool]:
        if number >= len(self.votes):
            raise Reverted(f"UnknownProposal(id {number})")
        votes = 0 if number in self.expired else len(self.votes[number])
        return PROPOSALS, b"", votes, number in self.executed

    def propose(self) -> None:
        self.votes.append(set())

    def vote(self, number: int) -> None:
        self.votes[number].add(self.sender)
        self.emit(ExecuteProposals.VOTED, number, self.sender)

    def execute(self, number: int, member: ContractAddress) -> None:
        if member != self.sender:
            raise Reverted("NotYourName")
        if number in self.executed or len(self.votes[number]) < self.requiredVotes() or number in self.bad:
            raise Reverted("AlreadyExecuted, TooFewVotes or ProposalFailed")
        self.executed.add(number)
        self.emit(ExecuteProposals.EXECUTED, number, self.sender)


class Epochs(ModelContract):
    """`contracts/Epochs.sol`."""

    def __init__(self, duration_s: int) -> None:
        self.started_s, self.duration_s, self.count = BEGIN_MS // 1_000, duration_s, 0

    def membership(self) -> ContractAddress:
        return PROPOSALS

    def startedAt(self) -> int:
        return self.started_s

    def duration(self) -> int:
        return self.duration_s

    def epoch(self) -> int:
        return self.count

    def advance(self, member: ContractAddress) -> None:
        if member != self.sender:
            raise Reverted("NotYourName")
        if self.time_s < self.started_s + (self.count + 1) * self.duration_s:
            raise Reverted("TooEarly")
        self.count += 1
        self.emit(AdvanceEpochs.ADVANCED, self.count, self.sender)


@BOTH
@pytest.mark.parametrize("duration_s", [7, 60])
def test_every_epoch_is_advanced_once_while_nodes_come_and_go(strategy: Strategy, duration_s: int) -> None:
    reports = simulate_trigger(
        lambda: AdvanceEpochs(EPOCHS),
        {EPOCHS: Epochs(duration_s), PROPOSALS: Proposals()},
        seeds=range(4),
        minutes=10,
        strategy=strategy,
    )
    assert not trigger_findings(reports)
    for report in reports:
        # The last may be under way; a short epoch that was missed is made up for one by one.
        assert len(report.performed) >= 10 * 60 // duration_s - (1 if duration_s == 60 else 60)
        assert report.failed == 0


@BOTH
def test_every_proposal_with_its_votes_is_executed_once(strategy: Strategy) -> None:
    def act(world: TriggerWorld) -> None:
        for number in range(10):
            world.ledger_call(PROPOSALS, account_of("node0"), "propose")
            for voter in range(NODES if number % 2 else 2):
                at_ms = world.now_ms + 1_000 + 20_000 * number + 3_000 * voter
                world.at(at_ms, partial(world.ledger_call, PROPOSALS, account_of(f"node{voter}"), "vote", number))

    reports = simulate_trigger(
        lambda: ExecuteProposals(PROPOSALS), {PROPOSALS: Proposals()}, seeds=range(4), strategy=strategy, act=act
    )
    assert not trigger_findings(reports)
    for report in reports:
        assert sorted(report.performed) == [f"proposal/{PROPOSALS}/{number}" for number in range(1, 10, 2)]


def test_a_proposal_whose_call_fails_is_set_aside_and_holds_nobody_up() -> None:
    model = Proposals()
    model.bad.add(0)

    def act(world: TriggerWorld) -> None:
        for number in range(2):
            world.ledger_call(PROPOSALS, account_of("node0"), "propose")
            for voter in range(NODES):
                world.ledger_call(PROPOSALS, account_of(f"node{voter}"), "vote", number)

    (report,) = simulate_trigger(
        lambda: ExecuteProposals(PROPOSALS), {PROPOSALS: model}, seeds=[3], act=act, has_faults=False
    )
    assert report.performed == (f"proposal/{PROPOSALS}/1",)
    assert report.set_aside == (f"proposal/{PROPOSALS}/0",)
    assert not report.findings


@pytest.mark.slow
def test_proposals_that_expired_hide_no_later_one() -> None:
    model = Proposals()
    model.expired.update(range(PROPOSALS_LOOKED_AT_MAX))

    def act(world: TriggerWorld) -> None:
        for _ in range(PROPOSALS_LOOKED_AT_MAX + 1):
            world.ledger_call(PROPOSALS, account_of("node0"), "propose")
        for voter in range(NODES):
            world.ledger_call(PROPOSALS, account_of(f"node{voter}"), "vote", PROPOSALS_LOOKED_AT_MAX)

    (report,) = simulate_trigger(
        lambda: ExecuteProposals(PROPOSALS), {PROPOSALS: model}, seeds=[3], act=act, has_faults=False
    )
    assert report.performed == (f"proposal/{PROPOSALS}/{PROPOSALS_LOOKED_AT_MAX}",)


def test_open_proposals_without_their_votes_hide_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member proposes more than a look goes through, and votes for none but its own."""
    monkeypatch.setattr(shipped, "PROPOSALS_LOOKED_AT_MAX", 10)
    good, count = (3, 17, 18, 35), 36

    def act(world: TriggerWorld) -> None:
        for number in range(count):
            world.ledger_call(PROPOSALS, account_of("node0"), "propose")
            world.ledger_call(PROPOSALS, account_of("node0"), "vote", number)
        for number in good:
            for voter in range(NODES):
                world.ledger_call(PROPOSALS, account_of(f"node{voter}"), "vote", number)

    (report,) = simulate_trigger(
        lambda: ExecuteProposals(PROPOSALS), {PROPOSALS: Proposals()}, seeds=[3], act=act, has_faults=False
    )
    assert sorted(report.performed) == sorted(f"proposal/{PROPOSALS}/{number}" for number in good)
    assert not report.findings


def test_proposal_stays_a_task_while_others_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that a look does not list any more counts as done."""
    monkeypatch.setattr(shipped, "PROPOSALS_LOOKED_AT_MAX", 2)
    model, trigger = Proposals(), ExecuteProposals(PROPOSALS)
    for number in range(5):
        model.propose()
        model.votes[number].update(model.members() if number in (1, 4) else ())

    def answered(read: Read) -> object:
        return getattr(model, read.function.partition("(")[0])(*read.arguments)

    def listed() -> list[object]:
        work, answer = trigger.tasks(Here(NodeName("node0"), account_of("node0"), Member("node0"), 0)), None
        try:
            read: Any = next(work)
            while True:
                try:
                    answer = answered(read)
                except Reverted as error:
                    read = work.throw(error)
                else:
                    read = work.send(answer)
        except StopIteration as end:
            return [task.arguments[0] for task in end.value]

    assert [listed() for _ in range(4)] == [[1], [1], [1, 4], [1, 4]]
    model.executed.add(1)
    assert [listed() for _ in range(3)] == [[4], [4], [4]]


def test_each_node_asks_for_its_own_states_at_once() -> None:
    asked: list[str] = []

    def lacks(*_: str) -> tuple[tuple[str, int], ...]:
        return tuple((contract, 0) for contract in ("0xaa", "0xbb") if contract not in asked)

    (report,) = simulate_trigger(
        AskForStates,
        {},
        seeds=[1],
        nodes=1,
        has_faults=False,
        services={LACKING_STATES: lacks, ASK_FOR_STATES: asked.append},
        settings=TriggerSettings(polling_interval_ms=10_000),
    )
    assert asked == ["0xaa", "0xbb"]
    assert (report.won, report.lost, report.failed) == (2, 0, 0)


class Locks(ModelContract):
    """The public side of `contracts/Lockable.sol`, for locks that have expired."""

    def __init__(self, expiries_s: dict[bytes, int]) -> None:
        self.expiries_s = expiries_s
        self.returned: list[bytes] = []

    def getLock(self, lock: bytes) -> tuple[str, str, bytes, bytes, int]:
        if lock not in self.expiries_s:
            raise Reverted("LockNotActive")
        return EPOCHS, EPOCHS, b"s" * 32, b"c" + lock, self.expiries_s[lock]

    def isLockActive(self, lock: bytes) -> bool:
        return lock in self.expiries_s

    def cancelLock(self, lock: bytes, arguments: bytes, data: bytes) -> None:
        if lock not in self.expiries_s or arguments != b"args of c" + lock or self.time_s <= self.expiries_s[lock]:
            raise Reverted("LockNotActive, LockUnauthorized or TooFewSignatures")
        del self.expiries_s[lock]
        self.returned.append(lock)


@BOTH
def test_expired_locks_are_cancelled_once_by_any_member(strategy: Strategy) -> None:
    """One expires before the others, one never; of one this node does not know what cancels it."""
    begin_s = BEGIN_MS // 1_000
    expiries_s = {b"l%d" % n: begin_s + 60 * n for n in range(4)} | {b"forever": 2**64 - 1, b"hidden": begin_s}
    ended = Locks(dict(expiries_s))

    def expired(now_s: int) -> list[tuple[ContractAddress, bytes, int]]:
        # A node learns late that a lock has ended.
        return [(PROPOSALS, lock, end_s) for lock, end_s in expiries_s.items() if end_s < now_s]

    def arguments(contract: ContractAddress, leaf: bytes) -> bytes:
        assert contract == PROPOSALS
        return b"" if leaf == b"chidden" else b"args of " + leaf

    reports = simulate_trigger(
        CancelExpiredLocks,
        {PROPOSALS: ended},
        seeds=range(3),
        minutes=8,
        strategy=strategy,
        services={EXPIRED_LOCKS: expired, CANCEL_ARGUMENTS: arguments},
    )
    assert not trigger_findings(reports)
    for report in reports:
        assert sorted(report.performed) == [
            f"lock/{PROPOSALS}/{lock.hex()}" for lock in sorted(expiries_s) if lock[:1] == b"l"
        ]


def test_each_node_prunes_what_is_old_enough_once() -> None:
    kept_ms: list[int] = []
    pruned: list[int] = []

    def may_go(keep_ms: int) -> int:
        kept_ms.append(keep_ms)
        return 0 if 7 in pruned else 7

    (report,) = simulate_trigger(
        lambda: PruneCompletions.from_options({"keep_days": 30}),
        {},
        seeds=[1],
        nodes=1,
        has_faults=False,
        services={PRUNABLE_COMPLETIONS: may_go, PRUNE_COMPLETIONS: pruned.append},
    )
    assert pruned == [7]
    assert set(kept_ms) == {30 * 86_400_000}
    assert report.performed == ("completions/7",)
    for options in ({}, {"keep_days": 0}, {"keep_days": "30"}, {"keep_days": 30, "more": 1}):
        with pytest.raises(ValueError, match=r"^(keep_days|more): "):
            PruneCompletions.from_options(options)


@pytest.mark.parametrize("options", [{}, {"contract": "here"}, {"contract": EPOCHS, "more": 1}])
def test_options_that_are_wrong_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^(contract|more): "):
        AdvanceEpochs.from_options(options)
    with pytest.raises(ValueError, match="has no options of its own"):
        AskForStates.from_options({"contract": EPOCHS})
