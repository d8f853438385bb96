"""A sender spends what is spent already, again and again, and its coordinator pays for what the chain skips.

A leads, B and C endorse, and B spends.
"""

from __future__ import annotations

import pytest

from rota.machine.effects import DispatchRound
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import StateId, Transition
from rota.node.explanation import explain_at_coordinator
from rota.sequencer import recent_outcomes as module
from rota.sequencer.events import BlocksRemoved
from rota.sequencer.held_intent import State
from rota.sequencer.recent_outcomes import RecentOutcomes
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import AssembleRequest, EndorsementRequest
from tests.sequencer.coordinator_bench import CoordinatorBench, active, name_of
from tests.sequencer.kit import B, C, digest_of, intent_id, remade, transition

STATES = tuple(StateId(transition(f"X-{number}").leaf, 0) for number in range(1, 9))
STATE, OTHER = STATES[:2]


def committed(made: Transition) -> LedgerOutcome:
    digest = digest_of(made.leaf)
    return LedgerOutcome(made.intent, made.leaf, digest, LedgerStatus.COMMITTED, inputs=made.inputs)


def skipped(bench: CoordinatorBench, made: Transition, status: LedgerStatus = LedgerStatus.SKIPPED) -> LedgerOutcome:
    return bench.outcome(made, status, reason="an input is not available", is_contention=True)


def skip(bench: CoordinatorBench, *made: Transition) -> None:
    """These are dispatched, and the chain skips them."""
    bench.bring(State.DISPATCHED, *made)
    for each in made:
        bench.block(bench.sequencer.context.height + 1, skipped(bench, each))


def is_asked(bench: CoordinatorBench) -> bool:
    return bool(bench.said(AssembleRequest, B))


# What our own index knows as spent costs nothing.


@pytest.mark.parametrize("reads", [False, True], ids=["spends", "reads"])
def test_transition_on_a_state_that_our_index_knows_as_spent_enters_no_round(reads: bool) -> None:
    bench = active()
    bench.block(1, committed(transition("C-1", STATE)))
    made = remade(transition("B-1"), reads=(STATE,)) if reads else transition("B-1", STATE)
    bench.bring(State.ENDORSEMENT_GATHERING, made)
    assert bench.transaction("B-1").transition is None
    assert bench.said(EndorsementRequest) == []
    assert not bench.coordinator.probation.has(B), "its own index may be behind ours"


def test_restarted_coordinator_knows_what_was_spent_before() -> None:
    bench = active(stored=StoredContract(indexed=(committed(transition("C-1", STATE)),)))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1", STATE))
    assert bench.transaction("B-1").transition is None


def test_state_whose_spending_is_undone_may_be_spent() -> None:
    bench = active()
    spent = committed(transition("C-1", STATE))
    bench.block(1, spent)
    bench.tell(BlocksRemoved(0, (spent,)))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1", STATE))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


@pytest.mark.parametrize(
    "state", [State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH, State.READY_FOR_DISPATCH, State.DISPATCHED]
)
def test_transition_whose_input_is_spent_meanwhile_is_not_dispatched(state: State) -> None:
    bench = active()
    bench.bring(state, transition("B-1", STATE), transition("B-2", OTHER))
    bench.take(DispatchRound)
    bench.block(1, committed(transition("C-1", STATE)))
    is_dispatched = state in (State.READY_FOR_DISPATCH, State.DISPATCHED)
    assert (bench.transaction("B-1").transition is not None) is is_dispatched
    assert bench.transaction("B-2").transition is not None
    bench.sign()
    bench.permit()
    leaves = [made.leaf for order in bench.take(DispatchRound) for made in order.transitions]
    assert transition("B-1", STATE).leaf not in leaves


def test_memory_of_what_was_spent_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPENT_KEPT_MAX", 2)
    recent = RecentOutcomes()
    for number in range(3):
        recent.note(committed(transition(f"B-{number}", STATES[number])))
    assert [recent.are_unspent((state,)) for state in STATES[:3]] == [True, False, False]
    assert recent.may_be_spent_since((STATES[7],), 0), "what was forgotten may have been that"
    assert not recent.may_be_spent_since((STATES[7],), 1)


# What the chain skips although nobody was faster.


def test_sender_that_spends_what_was_spent_long_ago_is_paused() -> None:
    bench = active()
    skip(bench, transition("B-1", STATE))
    assert bench.coordinator.probation.has(B)
    assert "the chain skipped or reverted what B sent" in str(explain_at_coordinator(bench.sequencer, intent_id("B-1")))
    bench.forget()
    bench.wait(bench.config.probation_ms - 1)
    assert not is_asked(bench)
    bench.wait(1)
    assert is_asked(bench)


def test_sender_that_goes_on_spending_what_was_spent_is_paused_for_longer_each_time() -> None:
    bench = active()
    bench.delegate("B-1")
    pauses_s = []
    for version in range(8):
        made = transition("B-1", STATE, version=version, valid_until_s=2**40)
        bench.assemble(made)
        bench.sign()
        bench.permit()
        bench.write_rounds()
        bench.block(version + 1, skipped(bench, made))
        began_ms = bench.now_ms
        while not is_asked(bench):
            bench.forget()
            bench.wait(10_000)
        pauses_s.append((bench.now_ms - began_ms) // 1_000)
    assert pauses_s == [10, 20, 40, 80, 160, 320, 600, 600]


def test_sender_that_is_paused_gets_no_round_for_what_it_has_assembled() -> None:
    bench = active()
    bench.bring(State.DISPATCHED, transition("B-1", STATE))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2", OTHER), transition("B-3"))
    bench.asked(EndorsementRequest)
    bench.block(1, skipped(bench, transition("B-1", STATE)))
    assert bench.said(EndorsementRequest) == []
    bench.wait(bench.config.probation_ms)
    [asked] = bench.said(EndorsementRequest, C)[:1]
    assert [name_of(made.intent) for made in asked.transitions] == ["B-2"], "one transition at a time"
    assert len(bench.coordinator.rounds.rounds) == 1


def test_sender_that_was_paused_and_wastes_nothing_more_has_whole_rounds_again() -> None:
    bench = active()
    skip(bench, transition("B-1", STATE))
    bench.wait(bench.config.probation_ms)
    bench.assemble(transition("B-1", OTHER))
    bench.coordinator.probation.note_fault(B)
    for is_doubted in (True, False):
        assert bench.coordinator.probation.is_doubted(B) is is_doubted
        bench.wait(bench.config.probation_ms)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2"), transition("B-3"))
    assert max(len(opened.members) for opened in bench.coordinator.rounds.rounds.values()) == 2


def test_pause_of_one_sender_is_nobody_elses() -> None:
    bench = active()
    skip(bench, transition("B-1", STATE))
    bench.forget()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1", OTHER))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING


# Honest contention.


def test_sender_that_loses_a_race_for_a_state_is_not_punished_and_backs_off_from_the_second_time_on() -> None:
    bench = active()
    bench.delegate("B-1")
    for number in range(4):
        while not is_asked(bench):
            bench.wait(10)
        made = transition("B-1", STATES[number], version=number)
        bench.assemble(made)
        bench.sign()
        bench.permit()
        bench.write_rounds()
        began_ms = bench.now_ms
        bench.block(number + 1, committed(transition(f"C-{number}", STATES[number])), skipped(bench, made))
        assert is_asked(bench) is (number == 0)
        while not is_asked(bench):
            bench.wait(10)
        assert bench.now_ms - began_ms < bench.config.retry_backoff_ms * 2 ** (number + 1)
    assert not bench.coordinator.probation.has(B)


def test_sender_is_not_punished_for_what_its_transition_stands_on() -> None:
    bench = active()
    maker = transition("C-1")
    bench.bring(State.DISPATCHED, maker)
    made = transition("B-1", maker.outputs[0].id)
    bench.bring(State.DISPATCHED, made)
    bench.block(1, skipped(bench, made))
    assert not bench.coordinator.probation.has(B)


def test_sender_that_hides_a_spent_state_behind_one_that_it_makes_is_paused() -> None:
    bench = active()
    maker = transition("B-1")
    bench.bring(State.DISPATCHED, maker)
    made = transition("B-2", maker.outputs[0].id, STATE)
    bench.bring(State.DISPATCHED, made)
    bench.block(1, bench.outcome(maker), skipped(bench, made))
    assert bench.coordinator.probation.has(B)


@pytest.mark.parametrize("status", [LedgerStatus.REVERTED, LedgerStatus.SKIPPED])
def test_sender_is_not_punished_for_a_nonce_that_was_taken_or_a_block_that_went(status: LedgerStatus) -> None:
    bench = active()
    made = transition("B-1", STATE)
    bench.bring(State.DISPATCHED, made)
    if status is LedgerStatus.SKIPPED:
        bench.tell(BlocksRemoved(0, (committed(transition("C-9", OTHER)),)))
        bench.block(1, committed(transition("C-8")))
    bench.block(2, skipped(bench, made, status))
    assert not bench.coordinator.probation.has(B)
