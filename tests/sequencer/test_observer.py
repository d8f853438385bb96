"""What a node knows of the others: silence by each cause and its end, and whom it accepts (protocol §4.1)."""

from __future__ import annotations

import pytest

from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.model.types import NEVER_HEARD, HeartbeatNumber, Mode, NodeName, RequestId, Tried
from rota.sequencer.events import BlockIndexed, LedgerBack, LedgerLost
from rota.sequencer.observer import PEERS_KEPT_MAX, Observer
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, Envelope, StartupAcknowledgement
from tests.sequencer.kit import ADDRESS, A, B, Bench, C, D, contract

# In range 0 the ranking is A, B, C; in range 1 it is C, B, A.
NEXT_RANGE = 100

LIVE = [CoordinatorState.ELECT, CoordinatorState.PREPARED, CoordinatorState.ACTIVE]
NOT_LIVE = [state for state in CoordinatorState if state not in LIVE]


def heartbeat(
    sequence: int = 1, state: CoordinatorState = CoordinatorState.ACTIVE, incarnation: int = 1
) -> CoordinatorHeartbeat:
    return CoordinatorHeartbeat(HeartbeatNumber(incarnation, sequence), state)


def observer(bench: Bench) -> Observer:
    return bench.sequencer.observer


def say_something(bench: Bench, peer: NodeName, *, no_ledger: bool = False, height: int = 0) -> None:
    """A message that means nothing but that its author is there."""
    bench.hear(peer, StartupAcknowledgement(RequestId(9, 9)), no_ledger=no_ledger, height=height)


def at(bench: Bench, now_ms: int) -> Observer:
    """The observer at a later time, without anything else happening."""
    bench.sequencer.context.now_ms = now_ms
    return bench.sequencer.observer


# Silence: a stranger, the connection.


def test_stranger_is_taken_to_be_there() -> None:
    assert not observer(Bench()).is_silent(B)
    assert not observer(Bench()).is_gone(B)


def test_lost_connection_is_silence_until_it_is_made_again() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(B))
    assert observer(bench).is_silent(B)
    assert observer(bench).is_gone(B)
    assert not observer(bench).is_silent(C)
    bench.tell(ConnectionMade(B))
    assert not observer(bench).is_silent(B)
    assert not observer(bench).is_gone(B)


def test_any_message_ends_the_silence_of_a_lost_connection() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(B))
    say_something(bench, B)
    assert not observer(bench).is_silent(B)


# Silence: heartbeats.


def test_coordinator_that_restarted_and_sends_no_heartbeats_is_not_silent() -> None:
    """It coordinated in an earlier incarnation: nobody can expect heartbeats of the new one."""
    bench = Bench()
    bench.hear(B, heartbeat(incarnation=1))
    bench.hear(B, StartupAcknowledgement(RequestId(9, 9)), life=2)
    assert not at(bench, 100 * bench.config.silence_ms).is_silent(B)
    assert not at(bench, 100 * bench.config.silence_ms).is_gone(B)
    bench.now_ms = 100 * bench.config.silence_ms
    bench.hear(B, heartbeat(incarnation=2), life=2)
    assert at(bench, 101 * bench.config.silence_ms).is_silent(B)


@pytest.mark.parametrize("state", [CoordinatorState.STANDBY, *LIVE])
def test_acting_coordinator_is_silent_when_more_than_the_grace_are_missing(state: CoordinatorState) -> None:
    bench = Bench()
    bench.hear(B, heartbeat(state=state))
    silence_ms = bench.config.silence_ms
    assert not at(bench, silence_ms - 1).is_silent(B)
    assert not at(bench, silence_ms - 1).is_gone(B)
    assert at(bench, silence_ms).is_silent(B)
    assert at(bench, silence_ms).is_gone(B)


@pytest.mark.parametrize("state", [CoordinatorState.FLUSH, CoordinatorState.CLOSING])
def test_leaving_coordinator_may_stop_its_heartbeats_without_being_silent(state: CoordinatorState) -> None:
    bench = Bench()
    bench.hear(B, heartbeat(state=state))
    assert not at(bench, 100 * bench.config.silence_ms).is_silent(B)


def test_node_that_never_sent_a_heartbeat_is_not_missed() -> None:
    bench = Bench()
    say_something(bench, B)
    assert not at(bench, 100 * bench.config.silence_ms).is_silent(B)


def test_any_message_counts_as_a_sign_of_life() -> None:
    bench = Bench()
    bench.hear(B, heartbeat())
    bench.now_ms = 1_499
    say_something(bench, B)
    assert not at(bench, 2_998).is_silent(B)
    assert at(bench, 2_999).is_silent(B)


# Silence: tried by somebody whom we believe.


def test_member_that_was_tried_with_our_latest_number_is_silent_but_not_gone() -> None:
    bench = Bench()
    bench.hear(B, heartbeat(3))
    observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 3)),))
    assert observer(bench).is_silent(B)
    assert not observer(bench).is_gone(B)


def test_member_that_was_tried_with_a_lower_number_than_ours_is_not_silent() -> None:
    bench = Bench()
    bench.hear(B, heartbeat(3))
    observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 2)),))
    assert not observer(bench).is_silent(B)


def test_nobody_makes_us_believe_that_we_are_silent_ourselves() -> None:
    bench = Bench()
    observer(bench).believe_tried(D, (Tried(A, HeartbeatNumber(9, 9)),))
    assert not observer(bench).is_silent(A)
    assert observer(bench).peer(A).tried_as is None


def test_message_ends_being_tried_unless_it_says_no_ledger() -> None:
    bench = Bench()
    observer(bench).believe_tried(D, (Tried(B, NEVER_HEARD), Tried(C, NEVER_HEARD)))
    say_something(bench, B)
    say_something(bench, C, no_ledger=True)
    assert not observer(bench).is_silent(B)
    assert observer(bench).peer(C).tried_as is not None


def test_tried_with_an_older_number_does_not_end_being_tried() -> None:
    bench = Bench()
    bench.hear(B, heartbeat(3))
    observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 5)),))
    observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 1)),))
    assert observer(bench).peer(B).tried_as == HeartbeatNumber(1, 5)


def test_nobody_is_believed_to_have_tried_itself_in_vain() -> None:
    bench = Bench()
    observer(bench).believe_tried(B, (Tried(B, NEVER_HEARD), Tried(C, NEVER_HEARD)))
    assert not observer(bench).is_silent(B)
    assert observer(bench).is_silent(C)


def test_new_connection_is_a_sign_of_life_like_a_message() -> None:
    bench = Bench()
    bench.hear(B, heartbeat())
    observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 1)),))
    bench.now_ms = bench.config.silence_ms
    bench.tell(ConnectionMade(B))
    assert not observer(bench).is_silent(B)
    assert at(bench, 2 * bench.config.silence_ms).is_silent(B)


def test_hearsay_is_over_when_the_coordinator_that_we_follow_no_longer_says_so() -> None:
    bench = Bench()
    observer(bench).believe_tried(D, (Tried(B, NEVER_HEARD), Tried(C, NEVER_HEARD)))
    observer(bench).forget_tried((Tried(C, NEVER_HEARD),))
    assert not observer(bench).is_silent(B)
    assert observer(bench).is_silent(C)


def test_lost_connection_does_not_end_being_tried() -> None:
    bench = Bench()
    observer(bench).believe_tried(D, (Tried(B, NEVER_HEARD),))
    bench.tell(ConnectionLost(B))
    assert observer(bench).peer(B).tried_as == NEVER_HEARD


# Silence: no ledger.


def test_node_without_a_ledger_is_silent_until_a_message_says_otherwise() -> None:
    bench = Bench()
    say_something(bench, B, no_ledger=True)
    assert observer(bench).is_silent(B)
    assert not observer(bench).is_gone(B)
    say_something(bench, B)
    assert not observer(bench).is_silent(B)


def test_we_are_silent_ourselves_without_a_ledger() -> None:
    bench = Bench()
    bench.tell(LedgerLost())
    assert observer(bench).is_silent(A)
    assert not observer(bench).is_gone(A)
    bench.tell(LedgerBack())
    assert not observer(bench).is_silent(A)


def test_we_are_never_gone_however_long_we_have_not_heard_ourselves() -> None:
    bench = Bench()
    observer(bench).hear_heartbeat(A, heartbeat())
    assert not at(bench, 100_000).is_gone(A)
    assert not at(bench, 100_000).is_silent(A)


# How long.


def test_silence_is_measured_from_when_it_was_first_seen() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(B))
    assert at(bench, 1_000).silent_for_ms(B) == 0
    assert at(bench, 1_700).silent_for_ms(B) == 700


def test_silence_that_ended_is_measured_anew() -> None:
    bench = Bench()
    observer(bench).connection_changed(B, connected=False)
    assert at(bench, 1_000).silent_for_ms(B) == 0
    observer(bench).connection_changed(B, connected=True)
    assert at(bench, 1_500).silent_for_ms(B) == 0
    observer(bench).connection_changed(B, connected=False)
    assert at(bench, 2_000).silent_for_ms(B) == 0
    assert at(bench, 2_300).silent_for_ms(B) == 300


# Heartbeats.


def test_old_and_repeated_heartbeats_change_nothing() -> None:
    bench = Bench()
    bench.hear(B, heartbeat(5, CoordinatorState.ACTIVE))
    for sequence in (5, 4):
        assert not observer(bench).hear_heartbeat(B, heartbeat(sequence, CoordinatorState.CLOSING))
    assert observer(bench).is_live(B)
    assert observer(bench).peer(B).number == HeartbeatNumber(1, 5)


def test_heartbeat_of_a_later_life_is_the_newer_one() -> None:
    bench = Bench()
    bench.hear(B, heartbeat(5))
    assert observer(bench).hear_heartbeat(B, heartbeat(1, CoordinatorState.ELECT, incarnation=2))
    assert observer(bench).state_of(B) is CoordinatorState.ELECT


@pytest.mark.parametrize("state", CoordinatorState)
def test_live_is_elect_prepared_or_active(state: CoordinatorState) -> None:
    bench = Bench()
    observer(bench).hear_heartbeat(B, heartbeat(state=state))
    assert observer(bench).is_live(B) == (state in LIVE)
    assert observer(bench).state_of(B) is state


def test_node_without_heartbeats_is_idle_and_not_live() -> None:
    assert observer(Bench()).state_of(B) is CoordinatorState.IDLE
    assert not observer(Bench()).is_live(B)


def test_age_of_a_heartbeat_is_not_renewed_by_other_messages() -> None:
    bench = Bench()
    bench.now_ms = 100
    bench.hear(B, heartbeat())
    bench.now_ms = 350
    say_something(bench, B)
    assert observer(bench).heartbeat_age_ms(B) == 250


def test_heartbeat_of_a_stranger_is_not_taken_note_of() -> None:
    bench = Bench()
    bench.hear(D, heartbeat())
    assert observer(bench).accepted is None
    assert observer(bench).peer(D).number == NEVER_HEARD


def test_only_members_may_coordinate() -> None:
    seen = observer(Bench())
    assert [seen.may_coordinate(node) for node in (A, B, D)] == [True, True, False]


def test_in_sender_mode_only_we_coordinate_for_us() -> None:
    seen = observer(Bench(of=contract(mode=Mode.SENDER)))
    assert [seen.may_coordinate(node) for node in (A, B, D)] == [True, False, False]
    assert not seen.has_observation


@pytest.mark.parametrize("mode", [Mode.RING, Mode.STATIC])
def test_elsewhere_there_is_something_to_observe(mode: Mode) -> None:
    assert observer(Bench(of=contract(B, mode=mode))).has_observation


# The accepted coordinator.


def test_first_live_one_is_accepted() -> None:
    bench = Bench()
    bench.hear(C, heartbeat())
    assert observer(bench).accepted == C
    assert observer(bench).active == C


@pytest.mark.parametrize("state", NOT_LIVE)
def test_one_that_is_not_live_is_not_accepted(state: CoordinatorState) -> None:
    bench = Bench()
    observer(bench).hear_heartbeat(C, heartbeat(state=state))
    assert observer(bench).accepted is None


def test_live_one_of_lower_rank_does_not_replace_the_accepted_one() -> None:
    bench = Bench()
    bench.hear(B, heartbeat())
    bench.hear(C, heartbeat())
    assert observer(bench).accepted == B


def test_live_one_of_higher_rank_replaces_the_accepted_one() -> None:
    bench = Bench(node=A)
    bench.hear(C, heartbeat())
    bench.hear(B, heartbeat())
    assert observer(bench).accepted == B


def test_one_of_higher_rank_that_is_not_live_replaces_nobody() -> None:
    bench = Bench()
    bench.hear(C, heartbeat())
    bench.hear(B, heartbeat(state=CoordinatorState.STANDBY))
    assert observer(bench).accepted == C


@pytest.mark.parametrize("cause", ["connection", "heartbeats", "no ledger", "tried"])
def test_silent_one_is_replaced_by_any_live_one(cause: str) -> None:
    bench = Bench()
    bench.hear(B, heartbeat())
    if cause == "connection":
        bench.tell(ConnectionLost(B))
    elif cause == "heartbeats":
        bench.now_ms = bench.config.silence_ms
    elif cause == "no ledger":
        say_something(bench, B, no_ledger=True)
    else:
        observer(bench).believe_tried(D, (Tried(B, HeartbeatNumber(1, 1)),))
    bench.hear(C, heartbeat())
    assert observer(bench).accepted == C


@pytest.mark.parametrize("state", [CoordinatorState.FLUSH, CoordinatorState.CLOSING])
def test_leaving_one_stays_known_until_the_first_live_one_comes(state: CoordinatorState) -> None:
    bench = Bench()
    bench.hear(B, heartbeat(1))
    bench.hear(B, heartbeat(2, state))
    assert observer(bench).active == B
    bench.hear(C, heartbeat())
    assert observer(bench).active == C


def test_accepted_one_stays_accepted_by_its_own_next_heartbeat() -> None:
    bench = Bench()
    bench.hear(C, heartbeat(1))
    bench.hear(C, heartbeat(2, CoordinatorState.PREPARED))
    assert observer(bench).accepted == C


def test_we_are_not_the_other_active_one() -> None:
    seen = observer(Bench())
    seen.accept(A)
    assert seen.accepted == A
    assert seen.active is None


# Ranges and rank.


def test_height_of_a_node_is_what_it_said_last_also_after_a_reorganisation() -> None:
    """Else two nodes would each believe to outrank the other until the chain is as high again."""
    bench = Bench()
    say_something(bench, B, height=150)
    say_something(bench, B, height=20)
    assert observer(bench).range_of(B) == 0


def test_height_of_an_earlier_message_changes_nothing() -> None:
    bench = Bench()
    envelopes = [
        Envelope(ADDRESS, RequestId(1, number), 1, height, StartupAcknowledgement(RequestId(9, 9)))
        for number, height in ((1, 20), (2, 150))
    ]
    for envelope in reversed(envelopes):
        bench.tell(MessageReceived(B, envelope))
    assert observer(bench).range_of(B) == 1


def test_incarnation_of_a_node_never_goes_back() -> None:
    bench = Bench()
    bench.hear(B, StartupAcknowledgement(RequestId(9, 9)), life=3)
    bench.hear(B, StartupAcknowledgement(RequestId(9, 9)), life=2)
    assert observer(bench).peer(B).incarnation == 3


def test_our_own_range_is_that_of_our_index() -> None:
    bench = Bench()
    bench.tell(BlockIndexed(250, 1_000))
    assert observer(bench).range_of(A) == 2
    assert observer(bench).later_range(A, B) == 2


def test_rank_is_compared_at_the_later_range_of_the_two() -> None:
    bench = Bench()
    assert observer(bench).outranks(B, C)
    assert not observer(bench).outranks(C, B)
    say_something(bench, B, height=NEXT_RANGE)
    assert observer(bench).outranks(C, B)
    assert not observer(bench).outranks(B, C)


def test_rank_may_be_compared_at_a_given_range() -> None:
    assert observer(Bench()).outranks(C, A, 1)
    assert not observer(Bench()).outranks(C, A, 0)


def test_stranger_outranks_nobody_and_every_member_outranks_it() -> None:
    seen = observer(Bench())
    assert not seen.outranks(D, C)
    assert seen.outranks(C, D)
    assert not seen.outranks(C, C)


def test_preferred_is_the_first_of_the_ranking_that_is_not_silent() -> None:
    bench = Bench(node=C)
    assert observer(bench).preferred(0) == A
    bench.tell(ConnectionLost(A))
    assert observer(bench).preferred(0) == B
    assert observer(bench).preferred(0, frozenset({B})) == C
    assert observer(bench).preferred(0, frozenset({B, C})) is None


def test_tried_lists_the_silent_members_with_the_latest_number_of_each() -> None:
    bench = Bench(node=C)
    bench.hear(B, heartbeat(4))
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionLost(D))
    assert observer(bench).tried() == (Tried(B, HeartbeatNumber(1, 4)),)
    bench.tell(ConnectionLost(A))
    assert observer(bench).tried() == (Tried(A, NEVER_HEARD), Tried(B, HeartbeatNumber(1, 4)))


# Memory.


def test_strangers_are_forgotten_before_they_are_too_many_and_members_never() -> None:
    bench = Bench(of=contract(A, B, C))
    bench.tell(ConnectionLost(B))
    watching = observer(bench)
    for number in range(PEERS_KEPT_MAX + 10):
        watching.peer(NodeName(f"stranger {number}"))
    assert len(watching.peers) == PEERS_KEPT_MAX
    assert watching.is_silent(B)
    assert NodeName("stranger 0") not in watching.peers
    assert NodeName(f"stranger {PEERS_KEPT_MAX + 9}") in watching.peers


def test_committee_of_any_size_is_known_whole() -> None:
    members = tuple(NodeName(f"member {number}") for number in range(PEERS_KEPT_MAX + 1))
    watching = observer(Bench(node=members[0], of=contract(*members, mode=Mode.SENDER, endorsers=())))
    for member in members:
        watching.peer(member)
    assert len(watching.peers) == len(members)


def test_own_node_is_reachable_while_it_has_a_ledger() -> None:
    bench = Bench()
    observer = bench.sequencer.observer
    assert observer.is_reachable(bench.sequencer.context.node)
    bench.sequencer.context.has_ledger = False
    assert not observer.is_reachable(bench.sequencer.context.node)
