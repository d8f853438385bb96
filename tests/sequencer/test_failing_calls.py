"""A member's calls fail on the chain, again and again, in transitions on a state that all share (protocol §4.2).

A leads, B and C endorse. B has a public contract that refuses its calls; C needs the same state.
"""

from __future__ import annotations

from functools import cache

import pytest

from rota.machine.events import Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import Call, ContractAddress, DelegationNumber, IntentId, NodeName, StateId, Transition
from rota.sequencer.held_intent import State
from rota.sequencer.probation import SENDERS_MAX
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    ErrorCode,
    IntentError,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active
from tests.sequencer.kit import B, C, name_of, remade, transition

BLOCK_MS = 2_000
STEP_MS = 100
REFUSED = Call(ContractAddress("0x" + "ee" * 20), 100_000)


class Group:
    """One account that all members use: its state on the chain, and the intents of B and C that use it."""

    def __init__(self) -> None:
        self.bench: CoordinatorBench = active()
        self.tip = StateId(transition("X-1").leaf, 0)
        self.made: dict[IntentId, Transition] = {}
        self.count = {B: 0, C: 0}
        self.committed = {B: 0, C: 0}
        self.version = 0

    def submit(self, sender: NodeName) -> None:
        self.count[sender] += 1
        self.bench.delegate(f"{sender}-{self.count[sender]}")

    def answer(self) -> None:
        """The sender of the slot assembles on the latest free state of the account, or answers that there is none."""
        for peer, asked in self.bench.asked(AssembleRequest):
            locks, tip = set(asked.snapshot.locks), self.tip
            found = [state.id for state in asked.snapshot.states if state.id not in locks]
            results: list[AssemblyResult] = []
            errors: list[IntentError] = []
            tip = found[-1] if found else tip
            for intent in asked.intents:
                if tip in locks:
                    errors.append(IntentError(intent, ErrorCode.CONTENTION))
                    continue
                self.version += 1
                made: Transition = transition(name_of(intent), tip, version=self.version, valid_until_s=2**40)
                made = remade(made, calls=(REFUSED,)) if peer == B else made
                self.made[intent] = made
                tip = made.outputs[0].id
                kind = AssemblyOutcome.ASSEMBLED
                results.append(AssemblyResult(intent, kind, DelegationNumber(1, 1), made))
            if results:
                self.bench.hear(peer, AssembleResponse(asked.request_id, tuple(results)))
            if errors:
                self.bench.hear(peer, AssembleError(asked.request_id, tuple(errors)))

    def block(self, dispatched: list[Transition]) -> None:
        """B's calls fail; a transition on a state that is not there is skipped."""
        outcomes: list[LedgerOutcome] = []
        for made in dispatched:
            held = self.bench.coordinator.transactions.get(made.intent)
            if held is None or held.round is None or held.transition is not made:
                continue
            digest, sender = held.round.digest, held.sender
            if made.inputs != (self.tip,):
                status, more = LedgerStatus.SKIPPED, {"reason": "an input is not available", "is_contention": True}
            elif made.calls:
                status, more = LedgerStatus.SKIPPED, {"reason": "a call failed"}
            else:
                status, more = LedgerStatus.COMMITTED, {"inputs": made.inputs}
                self.tip = made.outputs[0].id
                self.committed[sender] += 1
            outcomes.append(LedgerOutcome(made.intent, made.leaf, digest, status, **more))  # type: ignore[arg-type]
        self.bench.block(self.bench.sequencer.context.height + 1, *outcomes)

    def live(self, for_ms: int, open_of_b: int) -> None:
        dispatched: list[Transition] = []
        for now_ms in range(0, for_ms, STEP_MS):
            for sender, most in ((B, open_of_b), (C, 1)):
                held = sum(each.sender == sender for each in self.bench.coordinator.transactions.values())
                for _ in range(held, most):
                    self.submit(sender)
            for _ in range(4):
                self.answer()
                self.bench.sign()
                self.bench.permit()
                dispatched += [made for order in self.bench.write_rounds() for made in order.transitions]
            # Drop heartbeats and other unused effects, so that later steps do not scan them again.
            self.bench.effects.clear()
            if now_ms % BLOCK_MS == 0:
                self.block(dispatched)
                dispatched.clear()
            self.bench.wait(STEP_MS)


@cache
def commits_of_c(open_of_b: int) -> int:
    """What C commits in two minutes while B has so many intents open."""
    group = Group()
    group.live(120_000, open_of_b)
    assert group.committed[B] == 0
    return group.committed[C]


@pytest.mark.parametrize("open_of_b", [1, 8])
def test_member_whose_calls_always_fail_leaves_a_state_that_all_share_to_the_others(open_of_b: int) -> None:
    """C has one intent at a time, and commits one in each block where B does not disturb it."""
    assert commits_of_c(open_of_b) >= 0.8 * commits_of_c(0)


def failed(bench: CoordinatorBench, *made: Transition) -> None:
    """The chain skips the first one for its call, and the others for what that does not make."""
    first, *others = made
    outcomes = [bench.outcome(first, LedgerStatus.SKIPPED, reason="a call failed")]
    more = {"reason": "an input is not available", "is_contention": True}
    outcomes += [bench.outcome(each, LedgerStatus.SKIPPED, **more) for each in others]
    bench.block(bench.sequencer.context.height + 1, *outcomes)


def test_call_that_fails_is_no_fault_where_no_other_sender_stands_on_it() -> None:
    bench = active()
    first, second = transition("B-1"), transition("B-2", transition("B-1").outputs[0].id)
    bench.bring(State.DISPATCHED, first, second)
    failed(bench, first, second)
    assert not bench.coordinator.probation.has(B)


def fail_under_others(bench: CoordinatorBench) -> None:
    """The chain skips B-1 for its call, and C-1, which stands on it."""
    maker = transition("B-1")
    user = transition("C-1", maker.outputs[0].id)
    bench.bring(State.DISPATCHED, maker)
    bench.bring(State.DISPATCHED, user)
    failed(bench, maker, user)


@pytest.mark.parametrize(("times", "is_paused"), [(3, False), (4, True)])
def test_sender_whose_calls_fail_under_others_more_often_than_one_intent_may_is_paused(
    times: int, is_paused: bool
) -> None:
    bench = active()
    probation = bench.coordinator.probation
    assert [probation.fails_others_too_often(B) for _ in range(times)] == [False] * times
    fail_under_others(bench)
    assert [probation.has(sender) for sender in (B, C)] == [is_paused, False]
    assert probation.is_paused(B) is is_paused


def test_call_that_fails_for_the_last_time_counts_too() -> None:
    bench = active()
    maker = transition("B-1")
    user = transition("C-1", maker.outputs[0].id)
    bench.bring(State.DISPATCHED, maker)
    bench.bring(State.DISPATCHED, user)
    bench.transaction("B-1").revert_count = bench.config.revert_retry_max
    failed(bench, maker, user)
    assert bench.state_of("B-1") is State.REVERTED
    assert bench.coordinator.probation.failing[B].times == 1


def test_failures_of_long_ago_are_excused_and_the_memory_of_senders_is_bounded() -> None:
    bench = active()
    probation = bench.coordinator.probation
    most = bench.config.revert_retry_max + 1
    assert [probation.fails_others_too_often(B) for _ in range(most + 1)] == [False] * most + [True]
    bench.wait(bench.config.probation_max_ms + 1)
    bench.tell(Tick())
    assert not probation.fails_others_too_often(B)
    for number in range(SENDERS_MAX):
        probation.fails_others_too_often(NodeName(f"n{number}"))
    assert len(probation.failing) == SENDERS_MAX
    assert B not in probation.failing
