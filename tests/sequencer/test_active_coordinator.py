"""The coordinator that is Active (protocol §4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.machine.effects import DispatchRound
from rota.machine.events import ConnectionLost, ConnectionMade, StopRequested
from rota.model.config import Config
from rota.model.types import DelegationNumber, FlushPoint, HeartbeatNumber, NodeName, Party, RequestId, Rotation, Tried
from rota.sequencer.events import LedgerBack, LedgerLost, RoundDispatchFailed
from rota.sequencer.held_intent import State as TransactionState
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    EndorsementError,
    EndorsementRequest,
    EndorserSignature,
    HandedOver,
    HandedRound,
    Handover,
    HandoverReason,
    HandoverRequest,
    Rejection,
)
from rota.wire.messages import CoordinatorState as State
from rota.wire.sizes import intent_bytes
from tests.sequencer.coordinator_bench import (
    STALE,
    CoordinatorBench,
    active,
    answers,
    elect,
    endorsed_by_others,
    hand_over,
    handed,
    name_of,
    observing,
    parked,
    prepared,
    round_of,
    settled,
    standby,
    states_said,
    tried_elect,
)
from tests.sequencer.kit import A, B, C, intent, intent_id, transition

# Active: delegations.


def test_active_says_so_at_once_and_every_heartbeat() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1")
    bench.wait(1_500)
    beats = bench.said(CoordinatorHeartbeat, C)
    assert [beat.state for beat in beats] == [State.ACTIVE] * 4
    assert [beat.number.sequence for beat in beats] == sorted({beat.number.sequence for beat in beats})


def test_active_lists_to_each_sender_its_own_intents_and_their_states() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1")
    bench.delegate("C-1")
    bench.forget()
    bench.wait(500)
    [to_b], [to_c] = bench.said(CoordinatorHeartbeat, B), bench.said(CoordinatorHeartbeat, C)
    assert [(name_of(listed.intent), listed.state) for listed in to_b.intents] == [("B-1", "Assembling")]
    assert [(name_of(listed.intent), listed.state) for listed in to_c.intents] == [("C-1", "Pooled")]


def test_sticky_active_accepts_at_any_height() -> None:
    bench = active()
    bench.delegate("B-1", height=5_000)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_strict_active_rejects_another_range_and_accepts_its_own() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.delegate("B-1", height=120)
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.MISMATCHED_BLOCK_HEIGHT]
    bench.delegate("B-2", height=20)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_strict_active_that_is_outranked_rejects_with_the_leader() -> None:
    bench = CoordinatorBench(B, of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    bench.tell(ConnectionMade(A))
    bench.delegate("C-2")
    assert [(r.rejection, r.active) for r in bench.said(DelegationRejected, C)] == [
        (Rejection.NOT_PREFERRED_COORDINATOR, A)
    ]


def test_delegation_over_the_limit_is_accepted_in_part_and_the_rest_when_there_is_room() -> None:
    bench = active(config=Config(in_flight_max=2))
    bench.delegate("B-1", "B-2", "B-3")
    assert answers(bench, B) == [Answer.ACCEPTED, Answer.ACCEPTED, Answer.FULL]
    [(peer, request)] = bench.asked(AssembleRequest)
    bench.hear(peer, AssembleResponse(request.request_id, (parked("B-1"),)))
    bench.delegate("B-3")
    assert answers(bench, B) == [Answer.ACCEPTED]
    assert bench.state_of("B-2") is TransactionState.ASSEMBLING


def test_intent_that_is_delegated_again_is_held_where_it_was() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.assemble()
    bench.forget()
    bench.delegate("B-1", number=2)
    assert answers(bench, B) == [Answer.HELD]
    assert bench.state_of("B-1") is TransactionState.ENDORSEMENT_GATHERING
    assert bench.said(AssembleRequest) == []


@pytest.mark.parametrize("state", [TransactionState.READY_FOR_DISPATCH, TransactionState.DISPATCHED])
def test_intent_past_the_point_of_no_return_is_answered_as_dispatched(state: TransactionState) -> None:
    bench = active()
    bench.bring(state, transition("B-1"))
    bench.forget()
    bench.delegate("B-1", number=2)
    assert answers(bench, B) == [Answer.DISPATCHED]
    assert bench.said(DispatchConfirmationRequest) == []


def test_intent_that_is_on_the_chain_is_answered_as_confirmed_whoever_dispatched_it() -> None:
    bench = active()
    bench.block(1, settled(handed("B-1")))
    bench.delegate("B-1")
    assert answers(bench, B) == [Answer.CONFIRMED]
    assert bench.state_of("B-1") is None


def test_intent_that_reverted_here_is_rejected_with_the_reason_until_the_next_heartbeat() -> None:
    bench = active()
    bench.delegate("B-1")
    [(peer, request)] = bench.asked(AssembleRequest)
    reverted = AssemblyResult(intent_id("B-1"), AssemblyOutcome.REVERTED, DelegationNumber(1, 1), reason="no money")
    bench.hear(peer, AssembleResponse(request.request_id, (reverted,)))
    bench.delegate("B-1", number=2)
    answer = bench.said(DelegationAccepted, B)[-1].answers[0]
    assert (answer.answer, answer.reason) == (Answer.REJECTED, "no money")
    bench.wait(500)
    bench.delegate("B-1", number=3)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_acceptance_carries_the_number_of_our_latest_heartbeat() -> None:
    bench = active()
    bench.wait(1_000)
    bench.delegate("B-1")
    latest = bench.said(CoordinatorHeartbeat, B)[-1].number
    assert bench.said(DelegationAccepted, B)[-1].heartbeat == latest


def test_accepted_delegation_makes_those_that_it_lists_as_tried_silent() -> None:
    bench = active()
    bench.beat(C, State.STANDBY)
    bench.delegate("B-1", tried=(Tried(C, HeartbeatNumber(1, 1)),))
    assert bench.coordinator.observer.is_silent(C)


# Active: hand-over.


def test_active_with_nothing_to_flush_yields_to_a_requester_that_outranks_it_and_closes() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.block(400)
    bench.forget()
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5))]
    assert bench.state_of("C-1") is None
    said = bench.said(CoordinatorHeartbeat, C)[0]
    assert (said.state, said.successor, said.intents) == (State.CLOSING, B, ())


def test_active_with_a_dispatch_yields_by_flushing_and_tells_its_flush_points() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    made = transition("B-1", spent)
    bench.bring(TransactionState.DISPATCHED, made)
    bench.delegate("C-1")
    bench.block(400)
    opened = bench.transaction("B-1").round
    assert opened is not None
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.FLUSH
    point = HandedOver(FlushPoint(opened.digest, made.intent), made)
    shown = HandedRound(
        (made.leaf,), opened.valid_until_s, tuple(EndorserSignature(n, f"by {n}".encode()) for n in (B, C))
    )
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5), (point,), (shown,))]
    assert bench.state_of("C-1") is None
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


def test_active_that_yields_dispatches_what_is_ready_and_answers_only_when_that_is_written() -> None:
    bench = active()
    one, other = transition("B-1"), transition("B-2")
    bench.bring(TransactionState.CONFIRMING_DISPATCH, one, other)
    bench.permit("B-1")
    bench.block(400)
    assert bench.take(DispatchRound) == []
    bench.ask_to_yield(B, number=5)
    assert bench.state_of("B-2") is None
    assert bench.said(Handover) == []
    [dispatch] = bench.write_rounds()
    assert dispatch.transitions == (one,)
    assert dispatch.leaves == (one.leaf, other.leaf)
    [answer] = bench.said(Handover, B)
    assert [point.point.intent for point in answer.points] == [one.intent]


def test_handover_waits_for_a_dispatch_write_that_fails_at_first() -> None:
    bench = active()
    bench.bring(TransactionState.READY_FOR_DISPATCH, transition("B-1"))
    bench.block(400)
    bench.ask_to_yield(B)
    [dispatch] = bench.take(DispatchRound)
    bench.tell(RoundDispatchFailed(dispatch.digest, "signer is down"))
    assert bench.said(Handover) == []
    bench.wait(250)
    assert len(bench.write_rounds()) == 1
    assert len(bench.said(Handover, B)) == 1


def test_sticky_active_yields_to_one_it_outranks_whose_sender_tried_in_vain() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B


def test_strict_active_does_not_yield_because_it_was_tried() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.ACTIVE
    assert [beat.refused for beat in bench.said(CoordinatorHeartbeat, B)] == [B]


def test_active_refuses_one_that_it_outranks_with_a_heartbeat_at_once() -> None:
    bench = active()
    before = bench.coordinator.number
    bench.ask_to_yield(C)
    assert bench.state() is State.ACTIVE
    [said] = bench.said(CoordinatorHeartbeat, C)
    assert (said.state, said.refused) == (State.ACTIVE, C)
    assert said.number > before
    assert bench.said(Handover) == []


def test_one_that_yielded_to_a_tried_successor_redirects_to_it_while_that_is_live_in_this_range() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.beat(B)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [B]


def test_one_that_yielded_to_a_tried_successor_is_free_of_it_in_another_range() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.beat(B)
    bench.block(200)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT


# Active: healed partitions.


def test_active_yields_to_a_live_one_that_outranks_it() -> None:
    bench = active()
    bench.block(400)
    bench.beat(B)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.said(Handover) == []


def test_active_with_a_dispatch_yields_to_a_live_one_by_flushing() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    bench.beat(B)
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("state", [State.STANDBY, State.FLUSH, State.CLOSING])
def test_active_does_not_yield_to_one_that_is_not_live(state: State) -> None:
    bench = active()
    bench.block(400)
    bench.beat(B, state)
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []


def test_active_does_not_yield_to_the_one_whose_tried_successor_it_is() -> None:
    bench = tried_elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    bench.beat(A)
    assert bench.state() is State.ACTIVE


def test_one_that_took_over_by_rank_yields_when_the_old_one_outranks_it_again() -> None:
    bench = elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    bench.block(600)
    bench.beat(A)
    assert bench.state() is State.CLOSING


def test_active_asks_a_live_one_that_it_outranks_to_yield_with_one_id() -> None:
    bench = active()
    bench.beat(B)
    bench.beat(B)
    requests = bench.said(HandoverRequest, B)
    assert [request.reason for request in requests] == [HandoverReason.OUTRANKS] * 2
    assert len({request.request_id for request in requests}) == 1
    assert bench.state() is State.ACTIVE


def test_active_does_not_ask_again_because_it_was_refused() -> None:
    """Two that each believe to outrank the other would ask and refuse as fast as the network carries it."""
    bench = active()
    bench.beat(B)
    bench.beat(B, refused=A)
    assert len(bench.said(HandoverRequest, B)) == 1
    bench.beat(B)
    assert len(bench.said(HandoverRequest, B)) == 2


def test_active_that_asks_another_uses_a_new_id() -> None:
    bench = active()
    bench.beat(B)
    bench.beat(C)
    [one], [other] = bench.said(HandoverRequest, B), bench.said(HandoverRequest, C)
    assert one.request_id != other.request_id


def test_handover_to_an_active_resets_its_undispatched_transitions_that_conflict() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    mine = transition("B-1", spent)
    on_top, beside = transition("B-2", mine.outputs[0].id), transition("B-3")
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, mine, on_top, beside)
    bench.beat(C)
    bench.asked(AssembleRequest)
    hand_over(bench, handed("C-9", spent), peer=C)
    assert bench.state_of("B-3") is TransactionState.ENDORSEMENT_GATHERING
    [(_, request)] = bench.asked(AssembleRequest)
    assert request.intents == (intent_id("B-1"), intent_id("B-2"))
    assert request.snapshot.locks == (spent,)
    assert mine.outputs[0] not in request.snapshot.states


def test_handover_to_an_active_leaves_what_is_past_the_point_of_no_return() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.bring(TransactionState.READY_FOR_DISPATCH, transition("B-1", spent))
    bench.beat(C)
    hand_over(bench, handed("C-9", spent), peer=C)
    assert bench.state_of("B-1") is TransactionState.READY_FOR_DISPATCH


def test_handover_that_conflicts_with_another_foreign_transition_resets_nothing_of_ours() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.beat(C)
    hand_over(bench, handed("C-8", spent), handed("C-9", spent), peer=C)
    assert {placed.intent for placed in bench.coordinator.graph.foreign()} == {intent_id("C-8"), intent_id("C-9")}


def test_active_ignores_a_handover_that_it_did_not_ask_for() -> None:
    bench = active()
    bench.beat(C)
    point = handed("C-9")
    bench.hear(C, Handover(STALE, (point,), (round_of(point, B, C),)))
    bench.hear(B, Handover(bench.said(HandoverRequest, C)[0].request_id, (point,), (round_of(point, B, C),)))
    assert bench.coordinator.graph.foreign() == ()


# Active: ranges, endorsers, the ledger, stopping, resting.


def test_strict_active_yields_at_a_range_boundary_to_the_new_leader() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.delegate("C-1")
    bench.block(400)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.state_of("C-1") is None


def test_strict_active_with_a_dispatch_flushes_at_a_range_boundary() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    assert bench.state() is State.FLUSH


def test_strict_active_stays_when_it_leads_the_new_range_too() -> None:
    bench = active(height=200, of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.block(300)
    assert bench.state() is State.ACTIVE


def test_strict_active_passes_over_a_silent_leader_of_the_new_range() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(B))
    bench.block(500)
    assert bench.state() is State.ACTIVE


def test_strict_active_out_of_turn_stays_within_its_range() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(B))
    bench.block(500)
    bench.tell(ConnectionMade(B))
    bench.block(501)
    assert bench.state() is State.ACTIVE


def test_sticky_active_stays_whoever_leads_the_new_range() -> None:
    bench = active()
    bench.block(400)
    assert bench.state() is State.ACTIVE


def refusing_endorser(bench: CoordinatorBench, endorser: NodeName, accepted: NodeName | None) -> None:
    """An endorser says whom it accepts instead of us."""
    [(_, request)] = bench.asked(EndorsementRequest, endorser)
    error = EndorsementError(request.request_id, Rejection.NOT_PREFERRED_COORDINATOR, accepted)
    bench.hear(endorser, error)


def test_active_whose_endorser_follows_one_that_is_silent_here_steps_down() -> None:
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.coordinator.paused_until_ms == bench.now_ms + bench.config.step_down_pause_ms


def test_active_with_a_dispatch_steps_down_by_flushing() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("accepted", [None, A, C])
def test_active_stays_when_the_endorser_follows_nobody_or_us_or_one_that_is_heard_here(
    accepted: NodeName | None,
) -> None:
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    refusing_endorser(bench, B, accepted)
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.paused_until_ms == 0


def refused_by_followed_one(*followers: NodeName, brought: TransactionState) -> CoordinatorBench:
    """A outranks C, and C refuses to hand over; these endorsers of B and C, of whom one must sign, follow C."""
    bench = active(of=endorsed_by_others(threshold=1))
    if brought is not TransactionState.ENDORSEMENT_GATHERING:
        bench.bring(brought, transition("B-1"))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.beat(C)
    for endorser in followers:
        refusing_endorser(bench, endorser, C)
    assert bench.state() is State.ACTIVE, "C may still yield"
    bench.beat(C, refused=A)
    return bench


@pytest.mark.parametrize(
    ("brought", "then"),
    [(TransactionState.ENDORSEMENT_GATHERING, State.CLOSING), (TransactionState.DISPATCHED, State.FLUSH)],
)
def test_active_yields_to_the_one_that_refuses_it_when_too_many_endorsers_follow_that(
    brought: TransactionState, then: State
) -> None:
    """Seed 10 with a pace that counted too much: others had demoted A, and two were active for a minute."""
    bench = refused_by_followed_one(B, C, brought=brought)
    assert bench.state() is then
    assert bench.coordinator.successor == bench.coordinator.yielded_to == C
    assert bench.sequencer.observer.accepted == C


def test_active_stays_when_enough_endorsers_could_sign_beside_those_that_follow_the_one_that_refuses() -> None:
    bench = refused_by_followed_one(C, brought=TransactionState.ENDORSEMENT_GATHERING)
    assert bench.state() is State.ACTIVE


def test_active_does_not_yield_to_a_demoted_one_whoever_follows_it() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.sequencer.observer.demote(C)
    for endorser in (B, C):
        refusing_endorser(bench, endorser, C)
    bench.beat(C, refused=A)
    assert bench.state() is State.ACTIVE


def stepped_down() -> CoordinatorBench:
    """A has stepped down and said its goodbyes; nobody else is live."""
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    bench.wait(4_000)
    assert bench.state() is State.IDLE
    bench.forget()
    return bench


def test_one_that_stepped_down_does_not_choose_itself_for_a_while() -> None:
    bench = stepped_down()
    bench.submit("A-1")
    assert bench.said(DelegationCommand, B)
    assert bench.state() is State.IDLE


def test_one_that_stepped_down_chooses_itself_again_when_it_accepts_another_senders_delegation() -> None:
    bench = stepped_down()
    bench.delegate("B-2")
    assert bench.coordinator.paused_until_ms == 0
    bench.submit("A-1")
    assert bench.state_of("A-1") is not None


def test_own_senders_delegation_does_not_end_the_pause() -> None:
    bench = stepped_down()
    bench.delegate("A-1", peer=A)
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.paused_until_ms > bench.now_ms


def test_active_that_loses_its_ledger_closes_in_favour_of_the_next_of_the_ranking() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.tell(LedgerLost())
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.state_of("C-1") is None


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_and_loses_its_ledger_steps_aside(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    bench.tell(LedgerLost())
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions


def test_without_a_ledger_nothing_is_listed_as_dispatched() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.tell(LedgerLost())
    assert bench.state() is State.FLUSH
    bench.forget()
    bench.wait(500)
    assert [beat.intents for beat in bench.said(CoordinatorHeartbeat, B)] == [()]
    bench.tell(LedgerBack())
    bench.wait(500)
    assert len(bench.said(CoordinatorHeartbeat, B)[-1].intents) == 1


def every_state() -> list[CoordinatorBench]:
    """One bench in each state of the table."""
    flushing = active()
    flushing.bring(TransactionState.DISPATCHED, transition("B-1"))
    flushing.ask_to_yield(B, HandoverReason.TRIED)
    closing = active()
    closing.ask_to_yield(B, HandoverReason.TRIED)
    benches = [
        CoordinatorBench(A),
        observing(C, A, height=0),
        standby(),
        elect(C),
        prepared(handed("A-9")),
        active(),
        flushing,
        closing,
    ]
    assert {bench.state() for bench in benches} == set(State)
    return benches


def test_without_a_ledger_every_state_rejects_delegations_with_no_ledger() -> None:
    for bench in every_state():
        bench.tell(LedgerLost())
        bench.forget()
        bench.delegate("B-7", peer=B) if bench.node != B else bench.delegate("C-7", peer=C)
        assert [r.rejection for r in bench.said(DelegationRejected)] == [Rejection.NO_LEDGER]
        assert bench.said(DelegationAccepted) == []


def test_once_asked_to_stop_every_state_rejects_delegations() -> None:
    for bench in every_state():
        bench.tell(StopRequested())
        bench.forget()
        bench.delegate("B-7", peer=B) if bench.node != B else bench.delegate("C-7", peer=C)
        assert [r.rejection for r in bench.said(DelegationRejected)] == [Rejection.NO_LEDGER]


def test_who_acts_and_is_asked_to_stop_hands_over_to_the_next_that_is_not_silent() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.tell(ConnectionLost(B))
    bench.tell(StopRequested())
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == C
    assert bench.state_of("C-1") is None


def test_active_with_a_dispatch_that_is_asked_to_stop_flushes() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.tell(StopRequested())
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_and_is_asked_to_stop_closes(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    bench.tell(StopRequested())
    assert bench.state() is State.CLOSING


def test_active_with_nothing_in_memory_rests_after_the_idle_grace_and_its_last_heartbeat_says_closing() -> None:
    bench = active()
    bench.wait(3_000)
    assert bench.state() is State.ACTIVE
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert states_said(bench, B) == [State.ACTIVE] * 6 + [State.CLOSING]
    assert bench.said(CoordinatorHeartbeat, B)[-1].successor is None
    assert bench.coordinator.observer.accepted is None


def test_active_that_rests_goes_on_following_another_that_it_accepted() -> None:
    bench = active()
    bench.wait(3_000)
    bench.coordinator.observer.accept(B)
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert bench.coordinator.observer.accepted == B


def test_active_that_holds_something_does_not_rest() -> None:
    bench = active()
    bench.wait(2_500)
    bench.delegate("B-1")
    bench.wait(60_000)
    assert bench.state() is State.ACTIVE


def test_active_counts_its_idle_heartbeats_from_the_last_intent() -> None:
    bench = active()
    bench.wait(2_500)
    bench.delegate("B-1")
    bench.wait(500)
    [(peer, request), *_] = bench.asked(AssembleRequest)
    bench.hear(peer, AssembleResponse(request.request_id, (parked("B-1"),)))
    bench.wait(3_000)
    assert bench.state() is State.ACTIVE
    bench.wait(500)
    assert bench.state() is State.IDLE


def test_undispatched_intents_of_a_sender_that_is_silent_for_long_are_dropped() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.delegate("B-2")
    bench.delegate("C-1")
    bench.tell(ConnectionLost(B))
    bench.wait(500 + 59_999)
    assert bench.state_of("B-2") is not None
    bench.wait(1)
    assert bench.state_of("B-2") is None
    assert bench.state_of("B-1") is TransactionState.DISPATCHED
    assert bench.state_of("C-1") is not None


def test_a_sender_that_comes_back_in_time_loses_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.tell(ConnectionLost(B))
    bench.wait(40_000)
    bench.tell(ConnectionMade(B))
    bench.wait(500)
    bench.tell(ConnectionLost(B))
    bench.wait(40_000)
    assert bench.state_of("B-1") is not None


@pytest.mark.parametrize("over", [0, 1])
def test_delegation_of_an_intent_that_is_too_large_is_not_allowed(over: int) -> None:
    bench = active()
    large = replace(intent("B-1"), payload=b"")
    large = replace(large, payload=bytes(bench.config.intent_bytes_max - intent_bytes(large) + over))
    bench.forget()
    bench.hear(B, DelegationCommand(RequestId(9, 9), (Delegation(large, DelegationNumber(1, 1)),)))
    assert len(bench.said(DelegationRejected, B)) == over
    held = bench.sequencer.coordinator.transactions.get(large.id)
    assert (held is None) == bool(over)
    assert held is None or held.intent.payload == b"", "a coordinator keeps no payload"


@pytest.mark.parametrize("voids", [False, True])
def test_delegation_of_an_id_that_its_party_did_not_draw_is_not_allowed(voids: bool) -> None:
    """Whoever delegated an id first, or to void it and with a large number, owned it."""
    bench = active()
    squatted = replace(intent("A-1"), sender=Party("b@B"))
    bench.forget()
    delegation = Delegation(squatted, DelegationNumber(2**62, 1), is_voiding=voids)
    bench.hear(B, DelegationCommand(RequestId(9, 9), (delegation,)))
    assert [rejected.rejection for rejected in bench.said(DelegationRejected, B)] == [Rejection.NOT_ALLOWED]
    assert squatted.id not in bench.sequencer.coordinator.transactions
