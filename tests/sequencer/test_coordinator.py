"""The coordinator that follows or waits for the role: Idle, Observing, Standby, Elect, Prepared (protocol §4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, MessageReceived
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import (
    NEVER_HEARD,
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    Tried,
)
from rota.sequencer.coordinator_events import HeartbeatInterval, TransactionDispatchConfirmed
from rota.sequencer.held_intent import State as TransactionState
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    CoordinatorHeartbeat,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    Envelope,
    Handover,
    HandoverReason,
    HandoverRequest,
    IntentAnswer,
    Rejection,
)
from rota.wire.messages import CoordinatorState as State
from tests.sequencer.coordinator_bench import (
    STALE,
    CoordinatorBench,
    active,
    answers,
    elect,
    hand_over,
    handed,
    observing,
    prepared,
    settled,
    standby,
    states_said,
    tried_elect,
)
from tests.sequencer.kit import ADDRESS, A, B, C, D, contract, digest_of, intent, intent_id, transition

# Idle.


def test_idle_leader_accepts_a_delegation_and_is_active() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1", "B-2")
    assert bench.state() is State.ACTIVE
    accepted = bench.said(DelegationAccepted, B)[0]
    assert accepted.command_id == RequestId(1, 1)
    assert accepted.answers == (
        IntentAnswer(intent_id("B-1"), Answer.ACCEPTED),
        IntentAnswer(intent_id("B-2"), Answer.ACCEPTED),
    )
    assert states_said(bench, C) == [State.ACTIVE]


def test_answer_to_a_delegation_names_the_command_that_it_answers() -> None:
    bench = CoordinatorBench(A)
    command = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),))
    for copy in (77, 78):
        bench.tell(MessageReceived(B, Envelope(ADDRESS, RequestId(1, copy), 1, 0, command)))
    sent = [e.envelope for e in bench.take(SendMessage) if isinstance(e.envelope.body, DelegationAccepted)]
    assert [envelope.correlation_id for envelope in sent] == [RequestId(1, 1), RequestId(1, 1)]


def test_idle_node_that_is_outranked_names_the_leader() -> None:
    bench = CoordinatorBench(B)
    bench.delegate("C-1")
    assert bench.state() is State.IDLE
    [rejected] = bench.said(DelegationRejected, C)
    assert (rejected.rejection, rejected.active) == (Rejection.NOT_PREFERRED_COORDINATOR, A)
    assert not bench.coordinator.transactions


def test_idle_node_names_the_next_that_the_sender_has_not_tried() -> None:
    bench = CoordinatorBench(C)
    bench.delegate("B-1", tried=(Tried(A, NEVER_HEARD),))
    [rejected] = bench.said(DelegationRejected, B)
    assert rejected.active == B


def test_idle_node_in_another_range_answers_both_heights() -> None:
    bench = CoordinatorBench(A, height=50)
    bench.delegate("B-1", height=120)
    [rejected] = bench.said(DelegationRejected, B)
    assert rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT
    assert (rejected.provided_height, rejected.observed_height, rejected.active) == (120, 50, None)


def test_idle_node_accepts_when_all_that_outrank_it_were_tried() -> None:
    bench = CoordinatorBench(B)
    bench.delegate("C-1", tried=(Tried(A, NEVER_HEARD),))
    assert bench.state() is State.ACTIVE
    assert answers(bench, C) == [Answer.ACCEPTED]


def test_idle_node_accepts_when_all_that_outrank_it_are_silent_here() -> None:
    bench = CoordinatorBench(B)
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE


@pytest.mark.parametrize("state", [State.ELECT, State.PREPARED, State.ACTIVE, State.FLUSH])
def test_idle_node_observes_whoever_is_live_or_flushes(state: State) -> None:
    bench = CoordinatorBench(B)
    bench.beat(C, state)
    assert bench.state() is State.OBSERVING
    assert bench.coordinator.active == C


@pytest.mark.parametrize("state", [State.IDLE, State.OBSERVING, State.STANDBY, State.CLOSING])
def test_idle_node_does_not_observe_who_is_neither_live_nor_flushes(state: State) -> None:
    bench = CoordinatorBench(B)
    bench.beat(C, state)
    assert bench.state() is State.IDLE


def test_idle_node_that_hears_a_flush_goes_on_following_the_live_one() -> None:
    bench = CoordinatorBench(B)
    bench.coordinator.observer.accept(A)
    bench.beat(C, State.FLUSH)
    assert bench.state() is State.OBSERVING
    assert bench.coordinator.active == A


def test_idle_node_says_nothing() -> None:
    bench = CoordinatorBench(A)
    bench.wait(60_000)
    assert bench.effects == []
    assert bench.sequencer.next_deadline_ms() is None


def test_heartbeat_interval_means_nothing_to_an_idle_node() -> None:
    bench = CoordinatorBench(A)
    assert bench.coordinator.handle(HeartbeatInterval()) is None
    assert bench.coordinator.handle(TransactionDispatchConfirmed()) is None


@pytest.mark.parametrize("observes", [False, True])
def test_idle_or_observing_node_answers_a_handover_request_with_nothing_to_flush(observes: bool) -> None:
    bench = CoordinatorBench(B)
    if observes:
        bench.beat(A)
    bench.ask_to_yield(C, number=5)
    assert bench.said(Handover, C) == [Handover(RequestId(1, 5))]
    assert bench.state() is (State.OBSERVING if observes else State.IDLE)


# Whose delegation is allowed at all (§5.3).


def test_delegation_of_a_stranger_is_not_allowed() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("D-1")
    assert [r.rejection for r in bench.said(DelegationRejected, D)] == [Rejection.NOT_ALLOWED]
    assert bench.state() is State.IDLE


def test_delegation_of_another_nodes_intent_is_not_allowed() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("C-1", peer=B)
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_ALLOWED]
    assert bench.state() is State.IDLE


def test_static_coordinator_accepts_any_registered_node_at_any_height() -> None:
    bench = CoordinatorBench(A, of=contract(A, mode=Mode.STATIC, endorsers=(B,)))
    bench.delegate("D-1", height=5_000)
    assert bench.state() is State.ACTIVE


def test_node_that_the_ranking_does_not_hold_accepts_nothing_though_all_were_tried() -> None:
    bench = CoordinatorBench(B, of=contract(A, mode=Mode.STATIC, endorsers=(C,)))
    bench.delegate("C-1", tried=(Tried(A, NEVER_HEARD),))
    assert bench.state() is State.IDLE
    assert [r.rejection for r in bench.said(DelegationRejected, C)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_in_sender_mode_a_node_coordinates_for_itself_alone_and_heartbeats_to_nobody_else() -> None:
    bench = CoordinatorBench(A, of=contract(A, B, C, mode=Mode.SENDER, endorsers=(B, C)))
    bench.delegate("B-1")
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_ALLOWED]
    bench.submit("A-1")
    assert bench.state() is State.ACTIVE
    bench.wait(2_000)
    assert bench.said(CoordinatorHeartbeat) == []


def test_ids_of_a_contract_whose_transitions_are_proved_are_on_no_page() -> None:
    """They belong to one-time keys, which the chain checks; its issuer is named as an endorser all the same."""
    bench = CoordinatorBench(A, of=contract(A, B, C, mode=Mode.SENDER, endorsers=(B,), threshold=0))
    drawn = replace(intent("A-1"), id=IntentId(b"no page of alice"))
    command = DelegationCommand(RequestId(1, 1), (Delegation(drawn, DelegationNumber(1, 1)),), ())
    bench.hear(A, command, height=bench.sequencer.context.height)
    assert bench.said(DelegationRejected, A) == []
    assert bench.state() is State.ACTIVE


# Observing.


def test_observing_node_stays_so_while_heartbeats_come() -> None:
    bench = observing(B, A, height=0)
    for _ in range(10):
        bench.wait(1_000)
        bench.beat(A)
    assert bench.state() is State.OBSERVING


def test_observing_node_redirects_to_a_preferred_active_one_with_age_and_number_of_its_heartbeat() -> None:
    bench = observing(B, A, height=0)
    number = bench.beat(A)
    bench.wait(300)
    bench.delegate("C-1")
    [rejected] = bench.said(DelegationRejected, C)
    assert rejected.rejection is Rejection.NOT_PREFERRED_COORDINATOR
    assert (rejected.active, rejected.active_age_ms, rejected.active_number) == (A, 300, number)
    assert bench.state() is State.OBSERVING
    assert not bench.coordinator.transactions


def test_rank_is_compared_at_the_latest_of_the_active_ones_our_and_the_senders_range() -> None:
    bench = observing(B, C, height=0)
    bench.delegate("A-1", peer=A, height=100)
    [rejected] = bench.said(DelegationRejected, A)
    assert rejected.rejection is Rejection.NOT_PREFERRED_COORDINATOR
    assert rejected.active == C


def test_first_mention_as_tried_does_not_undo_a_redirect_that_was_never_made() -> None:
    bench = observing(B, A, height=0)
    bench.delegate("C-1", tried=(Tried(A, HeartbeatNumber(9, 9)),))
    assert [r.active for r in bench.said(DelegationRejected, C)] == [A]
    assert bench.state() is State.OBSERVING


def test_sender_that_tried_the_active_one_after_our_redirect_is_accepted() -> None:
    bench = observing(B, A, height=0)
    bench.delegate("C-1")
    told = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, told),))
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.TRIED]


def test_sender_that_tried_the_active_one_before_our_redirect_is_redirected_again() -> None:
    bench = observing(B, A, height=0)
    bench.beat(A)
    bench.delegate("C-1")
    told = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, HeartbeatNumber(told.incarnation, told.sequence - 1)),))
    assert bench.state() is State.OBSERVING


def test_a_redirect_is_remembered_per_sender() -> None:
    bench = observing(C, A, height=0)
    bench.delegate("C-1", peer=C)
    number = bench.beat(A)
    bench.delegate("B-1", tried=(Tried(A, number),))
    assert bench.state() is State.OBSERVING
    assert len(bench.said(DelegationRejected, B)) == 1


def test_observing_node_that_leads_in_the_senders_later_range_holds_in_standby() -> None:
    bench = observing(B, A, height=300)
    bench.delegate("C-1", height=400)
    assert bench.state() is State.STANDBY
    assert answers(bench, C) == [Answer.ACCEPTED]
    assert states_said(bench, C) == [State.STANDBY]
    assert bench.said(HandoverRequest) == []


def test_observing_node_does_not_hold_for_a_later_range_in_which_another_leads() -> None:
    bench = observing(C, A, height=300)
    bench.delegate("B-1", height=400)
    assert bench.state() is State.OBSERVING
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.MISMATCHED_BLOCK_HEIGHT]


def test_observing_node_rejects_a_sender_that_is_in_an_earlier_range() -> None:
    bench = observing(B, A, height=400)
    bench.delegate("C-1", height=300)
    [rejected] = bench.said(DelegationRejected, C)
    assert rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT
    assert (rejected.provided_height, rejected.observed_height) == (300, 400)


def test_observing_node_is_active_at_once_when_the_active_one_is_silent_here_too() -> None:
    bench = observing(B, A, height=0)
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []


def test_observing_node_asks_the_active_one_that_it_outranks_to_yield() -> None:
    bench = observing(B, A, height=400)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.OUTRANKS]
    assert answers(bench, C) == [Answer.ACCEPTED]


@pytest.mark.parametrize("leaving", [State.FLUSH, State.CLOSING])
def test_observing_node_asks_one_that_leaves_although_it_is_outranked(leaving: State) -> None:
    bench = observing(B, A, height=0)
    bench.beat(A, leaving)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT
    assert len(bench.said(HandoverRequest, A)) == 1


def test_observing_node_that_follows_one_who_is_not_yet_live_redirects_to_it() -> None:
    bench = observing(B, C, height=0)
    bench.coordinator.observer.accept(A)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [A]
    assert bench.state() is State.OBSERVING


def test_observing_node_in_strict_rejects_what_the_ranking_does_not_give_it() -> None:
    bench = observing(C, A, height=400, rotation=Rotation.STRICT)
    bench.delegate("B-1")
    assert bench.state() is State.OBSERVING
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_observing_node_in_strict_accepts_what_the_ranking_gives_it() -> None:
    bench = observing(B, A, height=400, rotation=Rotation.STRICT)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT


def test_observing_node_is_idle_when_the_active_one_is_silent() -> None:
    bench = observing(B, A, height=0)
    bench.tell(ConnectionLost(A))
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert bench.coordinator.observer.accepted is None


def test_observing_node_is_idle_when_the_heartbeats_end_although_other_messages_come() -> None:
    bench = observing(B, A, height=0)
    for _ in range(4):
        bench.wait(400)
        bench.hear(A, Handover(STALE))
    assert not bench.coordinator.observer.is_silent(A)
    assert bench.state() is State.IDLE


# Standby.


def test_standby_asks_the_active_one_when_its_range_is_reached() -> None:
    bench = standby()
    bench.block(99)
    assert bench.state() is State.STANDBY
    bench.block(100)
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.OUTRANKS]


def test_standby_whose_range_is_reached_is_active_when_nobody_is_to_be_asked() -> None:
    bench = standby()
    bench.tell(ConnectionLost(A))
    bench.block(100)
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []
    assert len(bench.said(AssembleRequest, D)) == 1


def test_standby_is_active_when_the_active_one_was_silent_for_the_handover_timeout() -> None:
    bench = standby()
    bench.tell(ConnectionLost(A))
    bench.wait(500 + 2_999)
    assert bench.state() is State.STANDBY
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_standby_with_nobody_to_wait_for_counts_from_its_own_beginning() -> None:
    bench = standby()
    bench.coordinator.observer.accepted = None
    bench.wait(2_500)
    assert bench.state() is State.STANDBY
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_standby_that_hears_the_active_one_waits_for_its_range() -> None:
    bench = standby()
    for _ in range(9):
        bench.wait(500)
        bench.beat(A)
    assert bench.state() is State.STANDBY
    assert bench.asked(AssembleRequest) == []


def test_standby_whose_range_does_not_come_stops_waiting_and_doubts_the_sender() -> None:
    bench = standby()
    for _ in range(10):
        bench.wait(500)
        bench.beat(A)
    assert bench.state() is State.CLOSING
    assert bench.state_of("D-1") is None
    bench.delegate("D-2", height=2**62)
    assert bench.state() is State.CLOSING, "who overstated its height is not believed again in this range"


def test_sender_that_claims_a_height_beyond_all_bounds_is_waited_for_one_range_at_most() -> None:
    bench = observing(B, A, height=300)
    bench.delegate("C-1", height=2**62)
    assert bench.coordinator.standby_range <= bench.sequencer.context.block_range + 1


def test_standby_in_strict_accepts_only_at_the_range_that_it_waits_for() -> None:
    bench = observing(B, A, height=300, rotation=Rotation.STRICT)
    bench.delegate("C-1", height=400)
    assert bench.state() is State.STANDBY
    bench.forget()
    bench.delegate("C-2", height=400)
    assert answers(bench, C) == [Answer.ACCEPTED]
    bench.delegate("A-3", peer=A, height=300)
    assert bench.state_of("A-3") is None
    assert [r.rejection for r in bench.said(DelegationRejected, A)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_standby_compares_with_a_live_one_at_the_delegations_range() -> None:
    bench = standby()
    bench.beat(A)
    assert bench.state() is State.STANDBY
    bench.beat(C, height=0)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == C


def test_standby_compares_with_a_requester_at_the_delegations_range() -> None:
    bench = standby()
    bench.ask_to_yield(A)
    assert bench.state() is State.STANDBY
    bench.ask_to_yield(C)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, C) == [Handover(RequestId(1, 7))]


# Standby, Elect, Prepared alike.


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_holds_what_is_delegated(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    before = bench.state()
    bench.forget()
    bench.delegate("B-2", peer=B)
    assert bench.state() is before
    if bench.node != B:
        assert answers(bench, B) == [Answer.ACCEPTED]
    assert bench.state_of("B-2") is not None
    assert bench.said(AssembleRequest) == []


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_abandons_for_a_live_one_that_outranks_it(is_prepared: bool) -> None:
    bench = elect(C)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    bench.forget()
    bench.beat(B)
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions
    said = bench.said(CoordinatorHeartbeat, A)
    assert [(heartbeat.state, heartbeat.successor) for heartbeat in said] == [(State.CLOSING, B)]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_does_not_abandon_for_one_that_it_outranks(is_prepared: bool) -> None:
    bench = elect(B, A)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    before = bench.state()
    bench.beat(C)
    bench.ask_to_yield(C)
    assert bench.state() is before


@pytest.mark.parametrize("state", [State.STANDBY, State.CLOSING, State.FLUSH])
def test_elect_does_not_abandon_for_one_that_is_not_live(state: State) -> None:
    bench = elect(C)
    bench.beat(B, state)
    assert bench.state() is State.ELECT


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_yields_to_a_requester_that_outranks_it_and_answers(is_prepared: bool) -> None:
    bench = elect(C)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5))]


def test_who_asks_because_the_active_one_was_tried_stays_though_that_one_is_live_and_better() -> None:
    bench = tried_elect()
    bench.beat(A)
    bench.ask_to_yield(A)
    assert bench.state() is State.ELECT


def test_who_asks_because_the_active_one_was_tried_still_yields_to_a_third_that_is_better() -> None:
    bench = observing(C, A, height=0)
    bench.delegate("B-1")
    number = bench.said(DelegationRejected, B)[0].active_number
    bench.delegate("B-1", tried=(Tried(A, number),))
    assert bench.state() is State.ELECT
    bench.beat(B)
    assert bench.state() is State.CLOSING


# Elect.


def test_elect_repeats_its_request_every_request_timeout_with_the_same_id() -> None:
    bench = elect()
    for _ in range(2):
        bench.wait(999)
        bench.beat(A)
        bench.wait(1)
    requests = bench.said(HandoverRequest, A)
    assert len(requests) == 3
    assert len(set(requests)) == 1


def test_elect_is_active_when_the_handover_has_no_flush_points() -> None:
    bench = elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    assert len(bench.said(AssembleRequest, C)) == 1


def test_elect_is_prepared_when_the_handover_has_flush_points() -> None:
    bench = elect()
    hand_over(bench, handed("A-9"))
    assert bench.state() is State.PREPARED
    assert bench.said(AssembleRequest) == []


def test_elect_does_not_wait_for_flush_points_that_its_own_index_has_seen() -> None:
    bench = elect()
    done = handed("A-9")
    bench.block(401, settled(done, LedgerStatus.SKIPPED))
    hand_over(bench, done)
    assert bench.state() is State.ACTIVE
    assert bench.said(AssembleRequest, C)[0].snapshot.locks == ()


def test_elect_takes_only_the_answer_to_its_current_request_from_the_one_that_it_asked() -> None:
    bench = elect()
    request = bench.said(HandoverRequest, A)[0]
    bench.hear(A, Handover(STALE), height=400)
    bench.hear(C, Handover(request.request_id), height=400)
    assert bench.state() is State.ELECT


def test_elect_is_active_when_nobody_answers_for_the_handover_timeout() -> None:
    bench = elect()
    for _ in range(5):
        bench.wait(500)
        bench.beat(A)
    bench.wait(499)
    assert bench.state() is State.ELECT
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_elect_is_active_at_once_when_the_old_ones_connection_is_lost() -> None:
    bench = elect()
    bench.tell(ConnectionLost(C))
    assert bench.state() is State.ELECT
    bench.tell(ConnectionLost(A))
    assert bench.state() is State.ACTIVE


def test_elect_is_active_when_the_old_ones_heartbeats_are_missing() -> None:
    bench = elect()
    bench.wait(1_499)
    assert bench.state() is State.ELECT
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_elect_does_not_take_one_that_was_only_tried_to_be_gone() -> None:
    bench = tried_elect()
    assert bench.coordinator.observer.is_silent(A)
    bench.wait(500)
    assert bench.state() is State.ELECT


def test_elect_that_is_refused_abandons_and_names_the_one_that_refused() -> None:
    bench = elect()
    bench.forget()
    bench.beat(A, refused=B)
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions
    assert bench.said(CoordinatorHeartbeat, C)[0].successor == A


@pytest.mark.parametrize(
    ("peer", "refused", "state"), [(A, C, State.ACTIVE), (C, B, State.ACTIVE), (A, B, State.CLOSING)]
)
def test_elect_heeds_only_a_live_refusal_of_the_one_that_it_asked(
    peer: NodeName, refused: NodeName, state: State
) -> None:
    bench = elect()
    bench.beat(peer, state, refused=refused)
    assert bench.state() is State.ELECT


# Prepared.


def test_prepared_is_active_when_every_flush_point_has_an_outcome_skipped_included() -> None:
    one, other = handed("A-8"), handed("A-9")
    bench = prepared(one, other)
    bench.block(401, settled(one))
    assert bench.state() is State.PREPARED
    bench.block(402, settled(other, LedgerStatus.SKIPPED))
    assert bench.state() is State.ACTIVE


def test_prepared_does_not_count_a_skip_of_another_version() -> None:
    point = handed("A-9")
    bench = prepared(point)
    older = LedgerOutcome(
        point.point.intent, Leaf(b"older".ljust(32)), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED
    )
    bench.block(401, older)
    assert bench.state() is State.PREPARED


def test_prepared_counts_another_version_of_the_intent_that_was_committed() -> None:
    point = handed("A-9")
    bench = prepared(point)
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.COMMITTED)
    bench.block(401, other)
    assert bench.state() is State.ACTIVE


def test_intent_is_not_assembled_on_its_own_version_that_was_handed_over() -> None:
    """That version may never be mined, and of what was dropped or has failed only its submitter knows."""
    spent = transition("X-1").outputs[0].id
    point = handed("A-9", spent)
    bench = prepared(point)
    for _ in range(60):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    bench.delegate("A-9", number=2)
    bench.assemble()
    [(_, request)] = bench.asked(AssembleRequest, A)
    assert request.intents == (intent_id("A-9"),)
    assert request.snapshot.locks == ()
    assert point.transition.outputs[0] not in request.snapshot.states


def test_prepared_is_active_after_the_flush_timeout() -> None:
    bench = prepared(handed("A-9"))
    for _ in range(59):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    assert bench.state() is State.PREPARED
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_prepared_is_active_when_the_old_one_is_silent_and_nothing_is_indexed_for_the_request_timeout() -> None:
    one, other = handed("A-8"), handed("A-9")
    bench = prepared(one, other)
    bench.tell(ConnectionLost(A))
    bench.wait(900)
    bench.block(401, settled(one))
    bench.wait(999)
    assert bench.state() is State.PREPARED
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_prepared_waits_while_the_old_one_is_heard() -> None:
    bench = prepared(handed("A-9"))
    for _ in range(10):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    assert bench.state() is State.PREPARED


def test_imported_locks_and_states_are_what_the_next_slot_is_assembled_on() -> None:
    spent = transition("X-1").outputs[0].id
    point = handed("A-9", spent)
    bench = prepared(point)
    for _ in range(60):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    snapshot = bench.said(AssembleRequest, C)[0].snapshot
    assert snapshot.locks == (spent,)
    assert snapshot.states == point.transition.outputs


def test_handover_is_answered_with_the_bytes_of_a_state_only_to_nodes_on_its_list() -> None:
    bench = active()
    made = transition("B-1")
    secret = replace(made, outputs=(replace(made.outputs[0], distribution=(A, B)),))
    bench.bring(TransactionState.DISPATCHED, secret)
    bench.block(400)
    bench.ask_to_yield(B)
    bench.ask_to_yield(C)
    [to_b], [to_c] = bench.said(Handover, B), bench.said(Handover, C)
    assert to_b.points[0].transition.outputs[0].content is not None
    assert to_c.points[0].transition.outputs[0].content is None
    assert to_b.points[0].transition.outputs[0].id == to_c.points[0].transition.outputs[0].id
