"""Who is passed over although it gives signs of life, and whose word is enough for it (protocol §4.1, §5).

In range 0 the ranking is A, B, C. Two of three must sign unless told otherwise: f is 1, and two accusers are enough.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.machine.events import ConnectionLost, Tick
from rota.model.config import Config
from rota.model.types import (
    NEVER_HEARD,
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    Tried,
)
from rota.sequencer.demotion import ACCUSATION_RANGES, Demotions
from rota.sequencer.observer import AHEAD_BLOCKS_MIN, STATE_CHARACTERS_MAX, Observer
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    EndorsementError,
    Handover,
    HandoverReason,
    HandoverRequest,
    ListedIntent,
    Rejection,
    StartupAcknowledgement,
)
from tests.sequencer.kit import A, B, Bench, C, D, contract, intent
from tests.sequencer.test_endorser import rejection_of, request

State = CoordinatorState
CONFIG = Config()
HUGE = HeartbeatNumber(2**62, 2**62)
TWO_OF_THREE = contract(threshold=2)
THREE_OF_FOUR = contract(A, B, C, D, threshold=3)


def accusation(node: NodeName) -> tuple[Tried, ...]:
    return (Tried(node, NEVER_HEARD, is_demoted=True),)


def beat(bench: Bench, peer: NodeName, sequence: int = 1, state: State = State.ACTIVE, height: int = 0) -> None:
    bench.hear(peer, CoordinatorHeartbeat(HeartbeatNumber(1, sequence), state), height=height)


def delegate(bench: Bench, peer: NodeName, tried: tuple[Tried, ...] = (), height: int = 0) -> None:
    given = Delegation(intent(f"{peer}-1"), DelegationNumber(1, 1))
    bench.hear(peer, DelegationCommand(RequestId(1, bench.now_ms + 1), (given,), tried), height=height)


def state(bench: Bench) -> CoordinatorState:
    return CoordinatorState(bench.sequencer.coordinator.state.value)


def observer(bench: Bench) -> Observer:
    return bench.sequencer.observer


def demotions(bench: Bench) -> Demotions:
    return bench.sequencer.observer.demotions


# Own experience.


def test_demoted_node_is_neither_live_nor_outranking_nor_preferred() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    known = observer(bench)
    assert known.is_live(A)
    assert known.outranks(A, B)
    known.demote(A)
    assert not known.is_live(A)
    assert not known.outranks(A, B)
    assert known.outranks(B, A)
    assert known.preferred(0) == B
    assert not known.is_silent(A)


def test_two_demoted_nodes_are_compared_by_rank() -> None:
    known = observer(Bench(node=C, of=TWO_OF_THREE))
    known.demote(A)
    known.demote(B)
    assert known.outranks(A, B)
    assert not known.outranks(B, A)


def test_heartbeat_of_a_demoted_node_does_not_make_it_accepted() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).demote(A)
    beat(bench, A)
    assert observer(bench).accepted is None
    assert state(bench) is State.IDLE


def test_another_live_one_takes_the_place_of_a_demoted_one() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    observer(bench).demote(A)
    beat(bench, B)
    assert observer(bench).accepted == B
    beat(bench, A, 2)
    assert observer(bench).accepted == B


def test_demotion_ends_with_time_and_each_lasts_longer_up_to_a_limit() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    context = bench.sequencer.context
    lasted = []
    for _ in range(8):
        observer(bench).demote(A)
        since_ms = context.now_ms
        while observer(bench).is_demoted(A):
            context.now_ms += 60_000
        lasted.append(context.now_ms - since_ms)
    assert lasted[:3] == [CONFIG.demotion_ms, 2 * CONFIG.demotion_ms, 4 * CONFIG.demotion_ms]
    assert lasted[-1] == CONFIG.demotion_max_ms


def test_node_at_which_something_ended_begins_anew() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    for _ in range(3):
        observer(bench).demote(A)
    demotions(bench).redeem(A)
    assert not observer(bench).is_demoted(A)
    observer(bench).demote(A)
    bench.sequencer.context.now_ms = CONFIG.demotion_ms
    assert not observer(bench).is_demoted(A)


def test_pardon_ends_all_demotions_and_tells_whether_there_was_one() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    assert not demotions(bench).pardon()
    observer(bench).demote(A)
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    assert demotions(bench).pardon()
    assert not observer(bench).is_demoted(A)
    assert not observer(bench).is_demoted(B)
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    assert not observer(bench).is_demoted(B), "it is not believed alone about the same one again"


# What others say.


def test_single_accuser_is_believed_about_one_member_and_not_about_another_for_some_ranges() -> None:
    bench = Bench(node=D, of=THREE_OF_FOUR)
    known = observer(bench)
    known.weigh(C, accusation(A), is_first_hand=True)
    assert known.is_demoted(A)
    known.weigh(C, accusation(B), is_first_hand=True)
    assert not known.is_demoted(B)
    assert not known.is_demoted(A), "who is no longer listed is no longer accused"
    known.weigh(C, accusation(A), is_first_hand=True)
    assert known.is_demoted(A), "about the same one it is believed again"
    bench.sequencer.context.height = 100 * ACCUSATION_RANGES
    known.weigh(C, accusation(B), is_first_hand=True)
    assert known.is_demoted(B)


def test_two_accusers_of_one_that_may_lie_are_believed_at_once() -> None:
    known = observer(Bench(node=D, of=THREE_OF_FOUR))
    known.weigh(C, accusation(A), is_first_hand=True)
    known.weigh(B, accusation(A), is_first_hand=True)
    for author in (B, C):
        known.weigh(author, accusation(NodeName("A")), is_first_hand=True)
    assert known.is_demoted(A)
    other = observer(Bench(node=A, of=THREE_OF_FOUR))
    other.weigh(C, (*accusation(D), *accusation(B)), is_first_hand=True)
    assert other.is_demoted(D)
    assert not other.is_demoted(B)
    other.weigh(D, accusation(B), is_first_hand=True)
    assert other.is_demoted(B)


def test_accepted_coordinator_is_the_one_about_whom_a_single_accuser_is_believed() -> None:
    bench = Bench(node=D, of=THREE_OF_FOUR)
    beat(bench, B)
    observer(bench).weigh(C, (*accusation(A), *accusation(B)), is_first_hand=True)
    assert observer(bench).is_demoted(B)
    assert not observer(bench).is_demoted(A)


def test_one_that_does_something_here_is_cleared_and_nobody_else() -> None:
    bench = Bench(node=D, of=THREE_OF_FOUR)
    observer(bench).weigh(C, accusation(A), is_first_hand=True)
    observer(bench).weigh(B, accusation(C), is_first_hand=True)
    demotions(bench).clear(A)
    assert not observer(bench).is_demoted(A)
    assert observer(bench).is_demoted(C)


def test_where_nobody_may_lie_one_accuser_is_enough() -> None:
    known = observer(Bench(node=C, of=contract()))
    known.weigh(B, accusation(A), is_first_hand=True)
    assert known.is_demoted(A)


def test_accusation_that_is_not_repeated_is_forgotten() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).weigh(B, accusation(A), is_first_hand=True)
    bench.sequencer.context.now_ms = CONFIG.demotion_ms
    assert not observer(bench).is_demoted(A)


def test_accuser_whom_we_have_demoted_ourselves_is_not_believed() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    observer(bench).demote(A)
    assert not observer(bench).is_demoted(B)


@pytest.mark.parametrize("author", [D, C])
def test_strangers_and_ourselves_accuse_nobody(author: NodeName) -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).weigh(author, accusation(A), is_first_hand=True)
    assert not demotions(bench).accusers


def test_accusations_of_us_or_of_strangers_are_ignored() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).weigh(A, (*accusation(C), *accusation(D)), is_first_hand=True)
    assert not demotions(bench).accusers


def test_in_sender_mode_nobody_is_accused() -> None:
    bench = Bench(node=C, of=contract(mode=Mode.SENDER))
    observer(bench).weigh(B, accusation(A), is_first_hand=True)
    assert not demotions(bench).accusers


def test_hearsay_does_not_go_round() -> None:
    """What a sender told us is passed on to endorsers, what a coordinator told us is not."""
    bench = Bench(node=C, of=contract())
    observer(bench).weigh(B, accusation(A), is_first_hand=False)
    assert observer(bench).is_demoted(A)
    assert observer(bench).tried() == ()
    observer(bench).weigh(B, accusation(A), is_first_hand=True)
    assert observer(bench).tried() == (Tried(A, NEVER_HEARD, is_demoted=True),)


# Endorsers.


def test_endorser_follows_the_next_coordinator_although_the_demoted_one_is_live() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    assert rejection_of(bench, B, request()) is Rejection.NOT_PREFERRED_COORDINATOR
    bench.forget()
    observer(bench).demote(A)
    assert rejection_of(bench, B, request()) is None
    beat(bench, A, 2)
    assert observer(bench).accepted == B
    assert rejection_of(bench, A, request(request_id=RequestId(1, 9))) is Rejection.NOT_PREFERRED_COORDINATOR


def test_endorser_believes_a_single_accuser_about_the_one_that_it_follows() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A, 7)
    assert rejection_of(bench, B, request(tried=accusation(A))) is None
    beat(bench, A, 8)
    assert observer(bench).accepted == B


def test_endorser_leaves_one_that_it_hears_on_a_single_word_once_in_some_ranges() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    assert rejection_of(bench, B, request(tried=(Tried(A, HUGE),))) is None
    beat(bench, A, 2)
    assert observer(bench).accepted == A
    again = request(request_id=RequestId(1, 2), tried=(Tried(A, HUGE),))
    assert rejection_of(bench, B, again) is Rejection.NOT_PREFERRED_COORDINATOR
    bench.forget()
    bench.block(100 * 2 * ACCUSATION_RANGES)
    later = request(request_id=RequestId(1, 3), tried=(Tried(A, HUGE),))
    beat(bench, A, 3, height=100 * 2 * ACCUSATION_RANGES)
    assert rejection_of(bench, B, later, height=100 * 2 * ACCUSATION_RANGES) is None


def test_strict_endorser_believes_a_single_word_for_one_range_in_some() -> None:
    bench = Bench(node=C, of=contract(threshold=2, rotation=Rotation.STRICT))
    beat(bench, A)
    for number in range(3):
        asked = request(request_id=RequestId(1, number), tried=(Tried(A, HUGE),))
        assert rejection_of(bench, B, asked) is None
        beat(bench, A, 2 + number)
    # In range 1 the ranking is C, B, A: of C itself nobody tells us; in range 3 it is A, B, C or another.
    context = bench.sequencer.context
    leads_b = next(r for r in range(1, 8) if context.ranking(r).index(A) < context.ranking(r).index(B))
    bench.block(100 * leads_b)
    beat(bench, A, 9, height=100 * leads_b)
    asked = request(request_id=RequestId(1, 9), tried=(Tried(A, HUGE), Tried(C, HUGE)))
    assert rejection_of(bench, B, asked, height=100 * leads_b) is Rejection.NOT_PREFERRED_COORDINATOR


def ask_for(bench: Bench, peer: NodeName, for_ms: int, step_ms: int = 1_000) -> Rejection | None:
    """A coordinator asks again and again; how the last request was answered."""
    found = None
    for _ in range(for_ms // step_ms):
        bench.now_ms += step_ms
        bench.forget()
        found = rejection_of(bench, peer, request(request_id=RequestId(1, bench.now_ms)))
    return found


def test_endorser_signs_for_the_only_one_that_asks_although_it_is_accused_and_outranked() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    assert ask_for(bench, B, CONFIG.progress_timeout_ms // 2) is Rejection.NOT_PREFERRED_COORDINATOR
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    beat(bench, A, 2)
    assert ask_for(bench, B, 1_000) is None
    assert observer(bench).accepted == B
    assert not observer(bench).is_demoted(B)
    assert demotions(bench).may_depose(B), "it was not believed about anybody"


def test_endorser_does_not_leave_one_that_asks_too() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    for second in range(2, 60):
        beat(bench, A, second)
        assert ask_for(bench, B, 1_000) is Rejection.NOT_PREFERRED_COORDINATOR
        if second % 10 == 0:
            assert rejection_of(bench, A, request(request_id=RequestId(2, second))) is None


def test_coordinator_that_asks_now_and_then_is_not_the_only_one_that_asks() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    observer(bench).weigh(A, accusation(B), is_first_hand=True)
    for sequence in range(2, 8):
        bench.now_ms += 25_000
        beat(bench, A, sequence)
        bench.forget()
        asked = request(request_id=RequestId(1, bench.now_ms))
        assert rejection_of(bench, B, asked) is Rejection.NOT_PREFERRED_COORDINATOR


def test_endorser_never_signs_for_one_that_it_has_demoted_itself() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    observer(bench).demote(B)
    assert ask_for(bench, B, CONFIG.demotion_ms - 1_000) is Rejection.NOT_PREFERRED_COORDINATOR


def test_own_endorser_signs_for_its_own_coordinator_although_that_was_left() -> None:
    bench = Bench(node=A, of=TWO_OF_THREE)
    observer(bench).demote(A)
    assert bench.sequencer.endorser.rejection_of(A, 0, request()) is None


# Coordinators.


def test_observing_node_takes_over_from_one_that_the_sender_has_demoted() -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    beat(bench, A)
    delegate(bench, C, accusation(A))
    assert state(bench) is State.ACTIVE
    beat(bench, A, 2)
    assert state(bench) is State.ACTIVE, "its heartbeats do not make us yield"
    assert [asked.reason for asked in bench.said(HandoverRequest, A)] == [HandoverReason.TRIED]


def test_hand_over_of_a_demoted_one_is_not_taken() -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    beat(bench, A)
    delegate(bench, C, accusation(A))
    beat(bench, A, 2)
    asked = bench.said(HandoverRequest, A)[0]
    bench.hear(A, Handover(asked.request_id))
    coordinator = bench.sequencer.coordinator
    assert state(bench) is State.ACTIVE
    assert coordinator.awaited_changed_ms == 0


def test_nobody_is_redirected_to_a_demoted_one() -> None:
    bench = Bench(node=C, of=contract(threshold=2, rotation=Rotation.STRICT))
    beat(bench, A)
    observer(bench).demote(A)
    delegate(bench, B, ())
    rejected = bench.said(DelegationRejected, B)[0]
    assert rejected.active == B


def test_member_that_has_demoted_its_own_coordinator_is_believed_about_itself() -> None:
    bench = Bench(node=B, of=contract(threshold=2, rotation=Rotation.STRICT))
    delegate(bench, A, accusation(A))
    assert state(bench) is State.ACTIVE, "A leads this range and sends every delegation away"
    assert demotions(bench).first_hand((A, B, C)) == (A,)
    bench.now_ms += 1
    delegate(bench, A, ())
    assert not observer(bench).is_demoted(A)


def test_member_that_is_silent_for_long_has_not_stepped_back() -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    delegate(bench, A, accusation(A))
    assert observer(bench).is_demoted(A)
    bench.now_ms += CONFIG.demotion_ms
    bench.tell(Tick())
    assert not observer(bench).is_demoted(A)


@pytest.mark.parametrize("forgive", [Demotions.pardon, lambda found: found.clear(A)])
def test_member_that_stepped_back_is_tried_again_with_all_others_or_when_it_does_something(
    forgive: Callable[[Demotions], object],
) -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    delegate(bench, A, accusation(A))
    delegate(bench, C, ())
    forgive(demotions(bench))
    assert not observer(bench).is_demoted(A)


def test_endorsement_request_of_a_member_that_lists_itself_does_not_depose_it() -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    demotions(bench).hear(A, accusation(A), accepted=None, is_first_hand=False)
    assert not observer(bench).is_demoted(A)


def test_redirected_sender_is_believed_alone_once_and_sent_back_the_next_time() -> None:
    bench = Bench(node=B, of=TWO_OF_THREE)
    beat(bench, A)
    tried = (Tried(A, HUGE),)
    delegate(bench, C, tried)
    assert len(bench.said(DelegationRejected, C)) == 1
    bench.now_ms += 1
    delegate(bench, C, tried)
    assert state(bench) is State.ELECT
    assert len(bench.said(DelegationAccepted, C)) == 1
    bench.hear(A, CoordinatorHeartbeat(HeartbeatNumber(1, 2), State.ACTIVE, refused=B))
    assert state(bench) is State.CLOSING
    bench.forget()
    for _ in range(2):
        bench.now_ms += 1
        delegate(bench, C, tried)
    assert len(bench.said(DelegationRejected, C)) == 2
    assert state(bench) is State.CLOSING


def test_active_yields_to_a_requester_that_it_outranks_once_in_some_ranges() -> None:
    bench = Bench(node=A, of=TWO_OF_THREE)
    for number in (1, 2):
        bench.now_ms += 1
        delegate(bench, B)
        assert state(bench) is State.ACTIVE
        bench.hear(C, HandoverRequest(RequestId(1, number), HandoverReason.TRIED))
        if number == 1:
            assert state(bench) is State.CLOSING
            bench.wait(5_000)
    assert state(bench) is State.ACTIVE


def test_refusal_of_one_that_was_demoted_meanwhile_does_not_make_elect_give_up() -> None:
    bench = Bench(node=B, of=contract())
    beat(bench, A)
    for _ in range(2):
        bench.now_ms += 1
        delegate(bench, C, (Tried(A, HUGE),))
    assert state(bench) is State.ELECT
    observer(bench).demote(A)
    bench.hear(A, CoordinatorHeartbeat(HeartbeatNumber(1, 2), State.ACTIVE, refused=B))
    assert state(bench) is State.ELECT


def test_standby_does_not_wait_for_a_demoted_one() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE, height=99)
    beat(bench, A, height=99)
    delegate(bench, B, height=100)
    assert state(bench) is State.STANDBY
    observer(bench).demote(A)
    bench.wait(500)
    assert state(bench) is State.ACTIVE


def test_one_endorser_that_follows_a_silent_one_does_not_make_us_step_down_while_enough_others_sign() -> None:
    bench = Bench(node=A, of=contract(A, B, C, D, threshold=3))
    coordinator = bench.sequencer.coordinator
    delegate(bench, B, tuple(Tried(node, NEVER_HEARD) for node in (B, C, D)))
    assert state(bench) is State.ACTIVE
    bench.tell(ConnectionLost(D))
    coordinator.endorser_follows(B, D)
    bench.tell(Tick())
    assert state(bench) is State.ACTIVE
    coordinator.endorser_follows(B, D)
    bench.tell(Tick())
    assert state(bench) is State.ACTIVE, "the same one again"
    coordinator.endorser_follows(C, D)
    bench.tell(Tick())
    assert state(bench) is State.CLOSING


# Heights, numbers and lists that peers claim.


def test_claimed_height_counts_one_range_ahead_at_most() -> None:
    bench = Bench(of=contract(), height=250)
    known = observer(bench)
    bench.hear(B, StartupAcknowledgement(RequestId(9, 9)), height=2**62)
    assert known.peer(B).height == 350
    assert known.later_range(A, B) == 3
    assert known.height_bound(B, 260) == 260
    assert known.height_bound(A, 2**62) == 2**62, "our own height needs no bound"


def test_where_ranges_are_short_a_few_blocks_count() -> None:
    bench = Bench(of=contract(range_size=2), height=10)
    assert observer(bench).height_bound(B, 2**62) == 10 + AHEAD_BLOCKS_MIN


def test_ranks_are_never_compared_in_a_range_before_our_own() -> None:
    bench = Bench(node=C, of=contract(), height=150)
    beat(bench, A, height=0)
    assert observer(bench).later_range(A, B) == 1


def test_peer_whose_height_was_waited_for_in_vain_counts_as_level_until_the_range_ends() -> None:
    bench = Bench(of=contract(), height=250)
    observer(bench).doubt(B)
    assert observer(bench).height_bound(B, 2**62) == 250
    assert observer(bench).height_bound(B, 7) == 7
    bench.block(300)
    assert observer(bench).height_bound(B, 2**62) == 400


def test_peer_whose_height_is_waited_for_in_vain_again_counts_as_level_for_longer_each_time() -> None:
    bench = Bench(of=contract(), height=250)
    ranges = []
    for _ in range(9):
        observer(bench).doubt(B)
        observer(bench).doubt(B)
        began = bench.sequencer.context.block_range
        while observer(bench).height_bound(B, 2**62) == bench.sequencer.context.height:
            bench.block(bench.sequencer.context.height + 100)
        ranges.append(bench.sequencer.context.block_range - began)
    assert ranges == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_huge_heartbeat_number_makes_nobody_unheard_but_its_author() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    bench.hear(B, CoordinatorHeartbeat(HUGE, State.ACTIVE), life=2**62)
    beat(bench, A)
    assert observer(bench).accepted == A
    assert observer(bench).peer(A).number == HeartbeatNumber(1, 1)


def test_list_of_a_peer_is_kept_up_to_a_bound() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    most = 2 * bench.config.in_flight_max
    listed = tuple(ListedIntent(IntentId(number.to_bytes(16, "big")), "Pooled") for number in range(most + 1))
    bench.hear(A, CoordinatorHeartbeat(HeartbeatNumber(1, 1), State.ACTIVE, listed, is_whole=True))
    assert observer(bench).peer(A).listing is None
    bench.hear(A, CoordinatorHeartbeat(HeartbeatNumber(1, 2), State.ACTIVE, listed[:most], is_whole=True))
    listing = observer(bench).peer(A).listing
    assert listing is not None
    assert listing.count == most


def test_list_with_names_of_states_that_no_coordinator_has_is_not_kept() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    listed = (ListedIntent(IntentId(bytes(16)), "x" * (STATE_CHARACTERS_MAX + 1)),)
    bench.hear(A, CoordinatorHeartbeat(HeartbeatNumber(1, 1), State.ACTIVE, listed, is_whole=True))
    assert observer(bench).peer(A).listing is None


def test_rejected_endorsement_request_names_whom_we_accept() -> None:
    bench = Bench(node=C, of=TWO_OF_THREE)
    beat(bench, A)
    observer(bench).demote(B)
    bench.hear(B, request())
    assert bench.said(EndorsementError, B)[0].accepted == A


def test_word_that_deposes_again_after_some_ranges_counts_from_then_on() -> None:
    bench = Bench(node=D, of=THREE_OF_FOUR)
    known, context = demotions(bench), bench.sequencer.context
    known.note_deposed(C)
    context.height = 100 * ACCUSATION_RANGES
    assert known.accusers[C].deposed_range == 0
    known.note_deposed(C)
    assert known.accusers[C].deposed_range == context.block_range
