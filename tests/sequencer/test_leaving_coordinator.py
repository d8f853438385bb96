"""The coordinator that leaves or comes back: Flush, Closing, restarts, reorganisations (protocol §4.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.events import ConnectionLost
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import DelegationNumber, Leaf, NodeName, RequestId
from rota.sequencer.events import BlocksRemoved
from rota.sequencer.held_intent import State as TransactionState
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    DelegationRejected,
    Handover,
    HandoverReason,
    ListingRequest,
    TransactionDispatched,
)
from rota.wire.messages import CoordinatorState as State
from tests.sequencer.coordinator_bench import (
    SIGNER,
    CoordinatorBench,
    active,
    answers,
    handed,
    name_of,
    restarted,
    settled,
    states_said,
    tried_elect,
)
from tests.sequencer.kit import A, B, C, digest_of, intent_id, transition

# Flush and Closing.


def flushing() -> CoordinatorBench:
    """A has one dispatch without an outcome, and has yielded to B in range 4."""
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    bench.ask_to_yield(B)
    assert bench.state() is State.FLUSH
    bench.forget()
    return bench


def test_flush_names_its_successor_and_lists_what_it_flushes() -> None:
    bench = flushing()
    bench.wait(500)
    [said] = bench.said(CoordinatorHeartbeat, B)
    assert (said.state, said.successor) == (State.FLUSH, B)
    assert (said.is_whole, said.intents, said.gone, said.count) == (False, (), (), 1), "nothing has changed"
    bench.hear(B, ListingRequest(said.number), height=400)
    whole = bench.said(CoordinatorHeartbeat, B)[-1]
    assert (whole.state, whole.successor, whole.is_whole) == (State.FLUSH, B, True)
    assert [listed.state for listed in whole.intents] == ["Dispatched"]


def test_flush_closes_when_no_flush_point_is_open() -> None:
    bench = flushing()
    bench.block(401, settled(handed("C-9")))
    assert bench.state() is State.FLUSH
    bench.block(402, bench.outcome(transition("B-1")))
    assert bench.state() is State.CLOSING


def test_flush_that_hears_of_a_skip_does_not_retry_but_lets_the_intent_go() -> None:
    bench = flushing()
    bench.block(401, bench.outcome(transition("B-1"), LedgerStatus.SKIPPED, is_contention=True))
    assert bench.state_of("B-1") is None
    assert bench.state() is State.CLOSING


def test_flush_does_not_take_a_failure_of_an_older_version_for_its_flush_points_outcome() -> None:
    bench = flushing()
    older = LedgerOutcome(intent_id("B-1"), Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(401, older)
    assert bench.state() is State.FLUSH
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


@pytest.mark.parametrize("peer", [B, C])
def test_flush_or_closing_answers_whoever_asks_with_what_is_open(peer: NodeName) -> None:
    bench = flushing()
    bench.ask_to_yield(peer, number=8)
    [answer] = bench.said(Handover, peer)
    assert [point.point.intent for point in answer.points] == [intent_id("B-1")]
    bench.block(402, bench.outcome(transition("B-1")))
    bench.ask_to_yield(peer, number=9)
    assert bench.said(Handover, peer)[-1] == Handover(RequestId(1, 9))


def test_closing_observes_after_its_goodbyes_when_another_is_live() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.forget()
    for _ in range(6):
        bench.wait(500)
        bench.beat(B)
    assert bench.state() is State.CLOSING
    assert states_said(bench, C) == [State.CLOSING] * 6
    bench.wait(500)
    assert bench.state() is State.OBSERVING


def test_closing_is_idle_after_its_goodbyes_when_nobody_is_live() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.wait(3_499)
    assert bench.state() is State.CLOSING
    bench.wait(1)
    assert bench.state() is State.IDLE


@pytest.mark.parametrize("is_flushing", [True, False])
def test_flush_or_closing_treats_a_delegation_as_observing_does(is_flushing: bool) -> None:
    bench = flushing()
    if not is_flushing:
        bench.block(402, bench.outcome(transition("B-1")))
    bench.beat(B)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [B]
    bench.tell(ConnectionLost(B))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE
    assert answers(bench, C) == [Answer.ACCEPTED]


def test_one_that_flushes_and_is_active_again_still_waits_for_its_own_dispatch() -> None:
    bench = flushing()
    bench.tell(ConnectionLost(B))
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert request.snapshot.states == transition("B-1").outputs
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


# A restart, and the memory of the store.


def test_active_loads_the_locks_and_states_of_its_own_unconfirmed_dispatches() -> None:
    spent = transition("X-1").outputs[0].id
    point = handed("B-1", spent)
    bench = restarted(point)
    bench.delegate("C-1")
    snapshot = bench.said(AssembleRequest, C)[0].snapshot
    assert (snapshot.locks, snapshot.states) == ((spent,), point.transition.outputs)


def test_intent_that_was_dispatched_before_the_restart_is_answered_so() -> None:
    bench = restarted(handed("B-1"))
    bench.delegate("B-1", "B-2")
    assert answers(bench, B) == [Answer.DISPATCHED, Answer.ACCEPTED]


@pytest.mark.parametrize("observes", [False, True])
def test_idle_or_observing_node_answers_with_the_dispatches_of_its_store(observes: bool) -> None:
    point = handed("A-1")
    bench = restarted(point, node=B)
    if observes:
        bench.beat(A)
    bench.ask_to_yield(C)
    assert bench.said(Handover, C)[0].points == (point,)


def test_stored_dispatch_is_a_flush_point_until_it_has_its_outcome() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.delegate("C-1")
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.FLUSH
    bench.block(1, settled(point))
    assert bench.state() is State.CLOSING


def test_skip_of_another_version_leaves_a_stored_dispatch_open() -> None:
    point = handed("B-1")
    bench = restarted(point)
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(1, other)
    assert bench.coordinator.has_flush_points
    bench.block(2, settled(point, LedgerStatus.SKIPPED))
    assert not bench.coordinator.has_flush_points


def test_what_stands_on_a_foreign_dispatch_stays_when_that_commits() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.transition.outputs[0].id))
    bench.block(1, settled(point))
    assert bench.state_of("C-1") is TransactionState.ENDORSEMENT_GATHERING
    assert bench.coordinator.graph.foreign() == ()


def test_what_stands_on_a_foreign_dispatch_is_reset_when_that_is_skipped() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.transition.outputs[0].id))
    bench.block(1, settled(point, LedgerStatus.SKIPPED))
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING
    assert bench.said(AssembleRequest, C)[-1].snapshot.states == ()


def test_what_stands_on_a_foreign_dispatch_is_reset_when_another_version_commits() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.transition.outputs[0].id))
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.COMMITTED)
    bench.block(1, other)
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING


def test_failure_of_another_version_leaves_what_stands_on_a_foreign_dispatch() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.transition.outputs[0].id))
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(1, other)
    assert bench.state_of("C-1") is TransactionState.ENDORSEMENT_GATHERING


def test_dispatched_user_of_a_lost_foreign_dispatch_stays_but_nothing_more_is_built_on_it() -> None:
    point = handed("B-1")
    bench = restarted(point)
    user = transition("C-1", point.transition.outputs[0].id)
    bench.bring(TransactionState.DISPATCHED, user)
    bench.block(1, settled(point, LedgerStatus.SKIPPED))
    assert bench.state_of("C-1") is TransactionState.DISPATCHED
    bench.delegate("C-2")
    assert bench.said(AssembleRequest, C)[-1].snapshot.states == ()


def test_foreign_user_of_a_lost_foreign_dispatch_is_withdrawn_too() -> None:
    first = handed("B-1")
    second = handed("B-2", first.transition.outputs[0].id)
    bench = restarted(first, second)
    bench.delegate("C-0")
    bench.block(1, settled(first, LedgerStatus.SKIPPED))
    bench.assemble()
    bench.delegate("C-1")
    assert [state.id.leaf for state in bench.said(AssembleRequest, C)[-1].snapshot.states] == [transition("C-0").leaf]


# Reorganisation.


def test_reorganisation_forgets_that_an_intent_is_on_the_chain() -> None:
    bench = active()
    outcome = settled(handed("B-1"))
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (outcome,)))
    bench.delegate("B-1")
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_reorganisation_resets_what_was_assembled_on_a_state_that_is_gone() -> None:
    bench = active()
    point = handed("B-1")
    bench.block(1, settled(point))
    bench.bring(
        TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.transition.outputs[0].id), transition("C-2")
    )
    bench.tell(BlocksRemoved(0, (settled(point),)))
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING
    assert bench.state_of("C-2") is TransactionState.ENDORSEMENT_GATHERING


def test_undone_skip_does_not_bring_a_dispatch_back() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.DISPATCHED, made)
    outcome = bench.outcome(made)
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (replace(outcome, status=LedgerStatus.SKIPPED),)))
    assert bench.state_of("B-1") is TransactionState.CONFIRMED


def test_dispatch_is_told_to_its_senders_once_it_is_durable() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.READY_FOR_DISPATCH, made)
    assert bench.said(TransactionDispatched) == []
    [dispatch] = bench.write_rounds()
    [told] = bench.said(TransactionDispatched, B)
    assert told.digest == dispatch.digest
    assert [(each.intent, each.leaf, each.signer, each.nonce) for each in told.intents] == [
        (made.intent, made.leaf, SIGNER, 1)
    ]


def test_heartbeats_list_what_is_confirmed_but_not_what_is_reverted() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.DISPATCHED, made)
    bench.block(1, bench.outcome(made))
    bench.delegate("B-2")
    [(peer, request)] = bench.asked(AssembleRequest)
    reverted = AssemblyResult(intent_id("B-2"), AssemblyOutcome.REVERTED, DelegationNumber(1, 1), reason="no")
    bench.hear(peer, AssembleResponse(request.request_id, (reverted,)))
    bench.forget()
    bench.wait(500)
    [said] = bench.said(CoordinatorHeartbeat, B)
    assert [(name_of(listed.intent), listed.state) for listed in said.intents] == [("B-1", "Confirmed")]
    assert not bench.coordinator.transactions


def test_one_that_began_alone_is_nobodys_tried_successor_whomever_it_had_asked_before() -> None:
    bench = tried_elect()
    bench.beat(A, refused=B)
    assert bench.state() is State.CLOSING
    bench.tell(ConnectionLost(A))
    bench.delegate("C-2")
    assert bench.state() is State.ACTIVE
    bench.beat(A)
    assert bench.state() is State.CLOSING
