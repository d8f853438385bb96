"""Check, sign, remember: what an endorser refuses, whom it accepts (protocol §5), and that it signs for one (S6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.events import ConnectionLost
from rota.model.digests import ROUND_LEAVES_MAX
from rota.model.types import (
    NEVER_HEARD,
    Digest,
    HeartbeatNumber,
    Leaf,
    Mode,
    NodeName,
    Party,
    RequestId,
    Rotation,
    StateId,
    Transition,
    Tried,
)
from rota.sequencer.effects import CheckRound
from rota.sequencer.endorser import ANSWERS_KEPT_MAX, CHECKS_OPEN_MAX
from rota.sequencer.events import BlockIndexed, LedgerBack, LedgerLost
from rota.sequencer.selection import ranking
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Refusal,
    Rejection,
)
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent_id,
    name_of,
    nonce_of,
    sender_of,
    transition,
    void_transition,
)

# In range 0 the ranking is A, B, C; in range 1 it is C, B, A. The bench is the lowest of range 0 unless told otherwise.
NEXT_RANGE = 100
VALID_UNTIL_S = GENESIS_S + 600
FIRST = RequestId(1, 1)


def endorser(**options: object) -> Bench:
    return Bench(**{"node": C, **options})  # type: ignore[arg-type]


def strict(**options: object) -> Bench:
    return endorser(of=contract(rotation=Rotation.STRICT), **options)


def request(
    *transitions: Transition,
    request_id: RequestId = FIRST,
    senders: tuple[Party, ...] | None = None,
    valid_until_s: int = VALID_UNTIL_S,
    tried: tuple[Tried, ...] = (),
    digest: Digest | None = None,
) -> EndorsementRequest:
    """A request that is right in every respect unless told otherwise."""
    members = transitions or (transition("A-1"),)
    right = digest_of(*(member.leaf for member in members), valid_until_s=valid_until_s)
    names = [name_of(member.intent) for member in members]
    parties = senders if senders is not None else tuple(map(sender_of, names))
    nonces = tuple(map(nonce_of, names))
    return EndorsementRequest(request_id, digest or right, members, parties, valid_until_s, tried, nonces=nonces)


def heartbeat(sequence: int = 1, state: CoordinatorState = CoordinatorState.ACTIVE) -> CoordinatorHeartbeat:
    return CoordinatorHeartbeat(HeartbeatNumber(1, sequence), state)


def responses(bench: Bench, to: NodeName = A) -> list[EndorsementResponse]:
    return bench.said(EndorsementResponse, to)


def refusal_of(bench: Bench, asked: EndorsementRequest) -> str:
    """Ask, and read why it was refused; nothing when it was not."""
    bench.hear(A, asked)
    answers = responses(bench)
    return answers[0].refusals[0].reason if answers else ""


def rejection_of(bench: Bench, peer: NodeName, asked: EndorsementRequest, height: int = 0) -> Rejection | None:
    """Ask, and read why that coordinator is not accepted now; nothing when it is."""
    bench.hear(peer, asked, height=height)
    errors = bench.said(EndorsementError, peer)
    return errors[-1].rejection if errors else None


# Check and sign.


def test_right_round_is_given_to_the_domain_before_anything_is_signed() -> None:
    bench = endorser()
    asked = request(transition("A-1"), transition("B-1"), senders=(Party("a@A"), Party("a@B")))
    bench.hear(A, asked)
    assert bench.take(CheckRound) == [
        CheckRound(ADDRESS, A, FIRST, asked.digest, asked.transitions, asked.senders, VALID_UNTIL_S)
    ]
    assert responses(bench) == []


def test_signature_of_the_domain_goes_to_the_coordinator() -> None:
    bench = endorser()
    asked = request()
    bench.hear(A, asked)
    bench.judge(A, FIRST, b"signature")
    assert responses(bench) == [EndorsementResponse(FIRST, asked.digest, b"signature")]


def test_refusals_of_the_domain_go_to_the_coordinator() -> None:
    bench = endorser()
    asked = request()
    bench.hear(A, asked)
    refusals = (Refusal(intent_id("A-1"), "not enough"),)
    bench.judge(A, FIRST, refusals=refusals)
    assert responses(bench) == [EndorsementResponse(FIRST, asked.digest, b"", refusals)]


def test_copy_while_it_is_being_checked_is_not_checked_again() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.hear(A, request())
    assert len(bench.take(CheckRound)) == 1


def test_every_copy_of_an_answered_request_gets_the_same_answer() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.judge(A, FIRST, b"signature")
    bench.take(CheckRound)
    bench.hear(A, request())
    bench.hear(A, request())
    assert [answer.signature for answer in responses(bench)] == [b"signature"] * 3
    assert bench.take(CheckRound) == []


def test_same_request_id_of_another_coordinator_is_another_request() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.judge(A, FIRST, b"signature")
    bench.take(CheckRound)
    bench.hear(B, request(tried=(Tried(A, NEVER_HEARD),)))
    assert responses(bench, B) == []
    assert [check.peer for check in bench.take(CheckRound)] == [B]


def test_answers_are_kept_up_to_a_bound_and_the_oldest_goes_first() -> None:
    bench = endorser()
    asked = [request(request_id=RequestId(1, number)) for number in range(ANSWERS_KEPT_MAX + 1)]
    for each in asked:
        bench.hear(A, each)
        bench.judge(A, each.request_id, b"signature")
    bench.forget()
    bench.hear(A, asked[1])
    assert bench.take(CheckRound) == []
    assert len(responses(bench)) == 1
    bench.hear(A, asked[0])
    assert len(bench.take(CheckRound)) == 1


def test_result_of_a_check_that_nobody_asked_for_is_not_sent() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.judge(A, RequestId(1, 99), b"signature")
    bench.judge(B, FIRST, b"signature")
    assert bench.said(EndorsementResponse) == []


def test_request_that_is_answered_is_answered_once() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.judge(A, FIRST, b"signature")
    bench.judge(A, FIRST, b"another")
    assert [answer.signature for answer in responses(bench)] == [b"signature"]


def test_domain_that_fails_is_told_as_unavailable_and_checked_again_when_asked_again() -> None:
    bench = endorser()
    made = transition("A-1")
    bench.hear(A, request(made))
    bench.judge(A, FIRST, unjudged=(made.leaf,))
    assert responses(bench) == []
    [error] = bench.said(EndorsementError, A)
    assert error == EndorsementError(FIRST, Rejection.UNAVAILABLE, unjudged=(made.leaf,))
    bench.hear(A, request(made))
    assert len(bench.take(CheckRound)) == 2


def test_round_that_is_not_judged_at_all_is_told_as_unavailable_and_signs_nothing() -> None:
    """A peer that has used up its budget: no leaf is at fault, and nobody is refused."""
    bench = endorser()
    made = transition("A-1")
    bench.hear(A, request(made))
    bench.judge(A, FIRST)
    assert responses(bench) == []
    assert bench.said(EndorsementError, A) == [EndorsementError(FIRST, Rejection.UNAVAILABLE)]


# What is refused without the domain (ledger: what the network must do).


def test_digest_that_is_not_that_of_the_leaves_is_refused_for_every_transition() -> None:
    bench = endorser()
    one, other = transition("A-1"), transition("A-2")
    bench.hear(A, request(one, other, digest=digest_of(other.leaf, one.leaf)))
    (answer,) = responses(bench)
    reason = "the digest is not that of the round's leaves"
    assert answer.refusals == tuple(Refusal(each.intent, reason, (), each.leaf) for each in (one, other))
    assert answer.signature == b""


def test_digest_of_another_validity_is_refused() -> None:
    wrong = digest_of(transition("A-1").leaf, valid_until_s=VALID_UNTIL_S - 1)
    assert refusal_of(endorser(), request(digest=wrong)) == "the digest is not that of the round's leaves"


SPENT, READ = StateId(Leaf(b"\x07" * 32), 0), StateId(Leaf(b"\x08" * 32), 1)


@pytest.mark.parametrize(
    "forged",
    [
        replace(transition("A-1"), leaf=Leaf(b"\x09" * 32)),
        replace(transition("A-1"), intent=intent_id("A-2")),
        replace(transition("A-1"), inputs=(SPENT,)),
        replace(transition("A-1", SPENT), inputs=()),
        replace(transition("A-1"), reads=(READ,)),
        replace(transition("A-1"), outputs=()),
        replace(transition("A-1"), info=(b"\x01" * 32,)),
    ],
    ids=["leaf", "intent", "one more input", "one input less", "read", "output", "info"],
)
def test_leaf_that_is_not_that_of_its_transition_is_refused(forged: Transition) -> None:
    bench = endorser()
    assert refusal_of(bench, request(forged)) == "the leaf is not that of the transition"
    assert bench.take(CheckRound) == []


def test_only_the_wrong_transitions_of_a_round_are_refused_and_nothing_is_signed() -> None:
    bench = endorser()
    forged = replace(transition("A-2"), inputs=(SPENT,))
    bench.hear(A, request(transition("A-1"), forged, transition("A-3")))
    (answer,) = responses(bench)
    assert [refusal.intent for refusal in answer.refusals] == [intent_id("A-2")]
    assert answer.signature == b""
    assert bench.take(CheckRound) == []


def test_every_copy_of_a_refused_request_gets_the_same_refusal() -> None:
    bench = endorser()
    bench.hear(A, request(transition("A-1", signature=b"")))
    bench.hear(A, request(transition("A-1", signature=b"")))
    first, second = responses(bench)
    assert first == second
    assert first.refusals


def test_transition_without_its_sender_signature_is_refused() -> None:
    unsigned = transition("A-1", signature=b"")
    assert refusal_of(endorser(), request(unsigned)) == "the sender's signature is missing"
    empty = void_transition("A-1", signature=b"")
    assert refusal_of(endorser(), request(empty)) == "the sender's signature is missing"


def test_round_that_is_valid_longer_than_its_sender_allows_is_refused() -> None:
    shorter = transition("A-1", valid_until_s=VALID_UNTIL_S - 1)
    reason = "the round is valid longer than its leaves allow"
    assert refusal_of(endorser(), request(shorter)) == reason
    assert refusal_of(endorser(), request(shorter, valid_until_s=VALID_UNTIL_S - 1)) == ""


def test_round_that_is_valid_too_far_ahead_of_our_own_block_is_refused() -> None:
    latest_s = GENESIS_S + Bench().config.validity_s + 60
    generous = transition("A-1", valid_until_s=latest_s + 1_000)
    reason = "the round is valid longer than its leaves allow"
    assert refusal_of(endorser(), request(generous, valid_until_s=latest_s)) == ""
    assert refusal_of(endorser(), request(generous, valid_until_s=latest_s + 1)) == reason


def test_round_that_is_no_longer_valid_is_refused() -> None:
    bench = endorser()
    assert refusal_of(bench, request(valid_until_s=GENESIS_S - 1)) == "the round is no longer valid"
    assert refusal_of(endorser(), request(valid_until_s=GENESIS_S)) == ""


def test_validity_is_judged_by_our_own_latest_block() -> None:
    bench = endorser()
    bench.tell(BlockIndexed(1, VALID_UNTIL_S + 1))
    assert refusal_of(bench, request()) == "the round is no longer valid"


def test_content_that_is_not_what_its_commitment_says_is_refused() -> None:
    right = transition("A-1")
    forged = replace(right, outputs=(replace(right.outputs[0], content=b"something else"),))
    assert refusal_of(endorser(), request(forged)) == "a state's content is not what its commitment says"


def test_content_that_we_may_not_see_is_not_judged() -> None:
    right = transition("A-1")
    hidden = replace(right, outputs=(replace(right.outputs[0], content=None),))
    assert refusal_of(endorser(), request(hidden)) == ""


# Who may ask at all.


def test_without_a_ledger_nobody_is_accepted() -> None:
    bench = endorser()
    bench.tell(LedgerLost())
    assert rejection_of(bench, A, request()) is Rejection.NO_LEDGER
    assert bench.take(CheckRound) == []
    bench.forget()
    bench.tell(LedgerBack())
    assert rejection_of(bench, A, request()) is None


def test_stranger_is_not_allowed() -> None:
    assert rejection_of(endorser(), D, request()) is Rejection.NOT_ALLOWED


def test_round_of_nothing_is_not_allowed() -> None:
    bench = endorser()
    empty = EndorsementRequest(FIRST, Digest(b"\x00" * 32), (), (), VALID_UNTIL_S)
    assert rejection_of(bench, A, empty) is Rejection.NOT_ALLOWED


def test_round_of_more_leaves_than_a_payload_counts_is_not_allowed() -> None:
    many = [transition(f"A-{number}") for number in range(ROUND_LEAVES_MAX + 1)]
    right = request(*many[:-1])
    assert rejection_of(endorser(), A, right) is None
    too_many = replace(right, transitions=tuple(many), senders=(*right.senders, Party("a@A")))
    assert rejection_of(endorser(), A, too_many) is Rejection.NOT_ALLOWED


def test_round_that_shows_an_intent_twice_is_not_allowed() -> None:
    """A coordinator could have one copy refused, and use the signed refusal as one of the other copy."""
    bench = endorser()
    made = transition("A-1")
    shown = request(replace(made, signature=b"forged"), made)
    assert rejection_of(bench, A, shown) is Rejection.NOT_ALLOWED
    assert not [effect for effect in bench.effects if isinstance(effect, CheckRound)]


def test_rejection_names_the_accepted_one_with_its_number_and_carries_our_height() -> None:
    bench = endorser(height=7)
    bench.hear(A, heartbeat(4))
    bench.forget()
    bench.hear(B, request())
    (error,) = bench.said(EndorsementError, B)
    assert error == EndorsementError(FIRST, Rejection.NOT_PREFERRED_COORDINATOR, A, HeartbeatNumber(1, 4))
    assert [effect.envelope.height for effect in bench.effects if hasattr(effect, "envelope")] == [7]


def test_rejection_names_nobody_when_nobody_is_accepted() -> None:
    bench = endorser()
    bench.hear(D, request())
    assert bench.said(EndorsementError, D) == [EndorsementError(FIRST, Rejection.NOT_ALLOWED, None, NEVER_HEARD)]


def test_rejection_is_no_refusal_and_is_not_kept() -> None:
    bench = endorser()
    bench.tell(LedgerLost())
    bench.hear(A, request())
    bench.tell(LedgerBack())
    bench.hear(A, request())
    assert responses(bench) == []
    assert len(bench.take(CheckRound)) == 1


# Sticky (protocol §5).


def test_sticky_endorser_that_follows_nobody_accepts_who_asks_in_its_range() -> None:
    bench = endorser()
    assert rejection_of(bench, B, request()) is None
    assert bench.sequencer.observer.accepted == B


@pytest.mark.parametrize("rotation", Rotation)
def test_coordinator_in_another_range_is_told_so(rotation: Rotation) -> None:
    bench = endorser(of=contract(rotation=rotation))
    asked = rejection_of(bench, A, request(), height=NEXT_RANGE)
    assert asked is Rejection.MISMATCHED_BLOCK_HEIGHT
    assert bench.sequencer.observer.accepted is None


def test_sticky_endorser_signs_for_the_one_it_follows_whatever_its_range() -> None:
    bench = endorser()
    bench.hear(B, heartbeat())
    assert rejection_of(bench, B, request(), height=NEXT_RANGE) is None


def test_strict_endorser_does_not_sign_for_the_one_it_follows_in_another_range() -> None:
    bench = strict()
    bench.hear(A, heartbeat())
    assert rejection_of(bench, A, request(), height=NEXT_RANGE) is Rejection.MISMATCHED_BLOCK_HEIGHT


def test_sticky_endorser_refuses_another_while_the_one_it_follows_is_live() -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat())
    assert rejection_of(bench, C, request()) is Rejection.NOT_PREFERRED_COORDINATOR
    assert bench.sequencer.observer.accepted == B


def test_sticky_endorser_accepts_one_that_outranks_the_one_it_follows() -> None:
    bench = endorser()
    bench.hear(B, heartbeat())
    assert rejection_of(bench, A, request()) is None
    assert bench.sequencer.observer.accepted == A


def test_sticky_endorser_accepts_another_when_the_one_it_follows_is_silent() -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat())
    bench.tell(ConnectionLost(B))
    assert rejection_of(bench, C, request()) is None
    assert bench.sequencer.observer.accepted == C


@pytest.mark.parametrize("state", [CoordinatorState.FLUSH, CoordinatorState.CLOSING])
def test_sticky_endorser_accepts_another_when_the_one_it_follows_is_not_live(state: CoordinatorState) -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat(1))
    bench.hear(B, heartbeat(2, state))
    assert rejection_of(bench, C, request()) is None


def test_sticky_endorser_accepts_another_that_tried_the_one_it_follows_with_our_number() -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat(4))
    asked = request(tried=(Tried(B, HeartbeatNumber(1, 4)),))
    assert rejection_of(bench, C, asked) is None
    assert bench.sequencer.observer.accepted == C
    assert bench.sequencer.observer.is_silent(B)


def test_sticky_endorser_that_knows_a_later_heartbeat_does_not_believe_in_vain() -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat(4))
    asked = request(tried=(Tried(B, HeartbeatNumber(1, 3)),))
    assert rejection_of(bench, C, asked) is Rejection.NOT_PREFERRED_COORDINATOR
    assert not bench.sequencer.observer.is_silent(B)


def test_that_somebody_else_was_tried_is_no_reason_to_leave_the_one_it_follows() -> None:
    bench = endorser(node=A)
    bench.hear(B, heartbeat(4))
    asked = request(tried=(Tried(A, HeartbeatNumber(9, 9)),))
    assert rejection_of(bench, C, asked) is Rejection.NOT_PREFERRED_COORDINATOR


# Strict (protocol §5).


def test_strict_endorser_accepts_the_leader_of_the_range() -> None:
    bench = strict()
    assert rejection_of(bench, A, request()) is None
    assert bench.sequencer.observer.accepted == A


def test_strict_endorser_refuses_who_does_not_lead_the_range() -> None:
    assert rejection_of(strict(), B, request()) is Rejection.NOT_PREFERRED_COORDINATOR


def test_strict_endorser_refuses_one_that_it_follows_but_that_does_not_lead() -> None:
    bench = strict()
    bench.hear(B, heartbeat())
    assert rejection_of(bench, B, request()) is Rejection.NOT_PREFERRED_COORDINATOR


def test_strict_endorser_accepts_the_next_when_the_leader_is_silent() -> None:
    bench = strict()
    bench.tell(ConnectionLost(A))
    assert rejection_of(bench, B, request()) is None


def test_strict_endorser_accepts_the_next_when_the_leader_was_tried_with_its_number() -> None:
    bench = strict()
    bench.hear(A, heartbeat(4))
    assert rejection_of(bench, B, request(tried=(Tried(A, HeartbeatNumber(1, 4)),))) is None


def test_strict_endorser_refuses_the_next_when_it_knows_a_later_heartbeat_of_the_leader() -> None:
    bench = strict()
    bench.hear(A, heartbeat(4))
    asked = request(tried=(Tried(A, HeartbeatNumber(1, 3)),))
    assert rejection_of(bench, B, asked) is Rejection.NOT_PREFERRED_COORDINATOR


def test_strict_endorser_needs_everybody_before_the_requester_to_be_out_of_the_way() -> None:
    of = contract(A, B, C, D, rotation=Rotation.STRICT)
    first, second, third, last = ranking(of, 0, A)
    bench = endorser(node=last, of=of)
    bench.tell(ConnectionLost(first))
    assert rejection_of(bench, third, request()) is Rejection.NOT_PREFERRED_COORDINATOR
    bench.forget()
    assert rejection_of(bench, third, request(tried=(Tried(second, NEVER_HEARD),))) is None


def test_strict_endorser_goes_by_the_ranking_of_its_own_range() -> None:
    bench = strict(node=B, height=NEXT_RANGE)
    assert rejection_of(bench, A, request(), height=NEXT_RANGE) is Rejection.NOT_PREFERRED_COORDINATOR
    bench.forget()
    assert rejection_of(bench, C, request(), height=NEXT_RANGE) is None


# Sender and static mode.


def test_in_sender_mode_each_node_may_ask_for_its_own() -> None:
    bench = endorser(of=contract(mode=Mode.SENDER))
    for number, node in enumerate((A, B, D)):
        asked = request(transition(f"{node}-1"), request_id=RequestId(1, number))
        assert rejection_of(bench, node, asked, height=NEXT_RANGE) is None
    assert len(bench.take(CheckRound)) == 3


def test_in_sender_mode_nobody_asks_for_another_node_intents() -> None:
    bench = endorser(of=contract(mode=Mode.SENDER))
    asked = request(transition("A-1"), transition("B-1"), senders=(Party("a@A"), Party("a@B")))
    assert rejection_of(bench, A, asked) is Rejection.NOT_ALLOWED


def test_in_sender_mode_the_endorser_signs_for_several_coordinators_at_a_time() -> None:
    bench = endorser(of=contract(mode=Mode.SENDER))
    bench.hear(A, request(senders=(Party("a@A"),), tried=(Tried(B, HeartbeatNumber(9, 9)),)))
    bench.hear(B, request(transition("B-1")))
    bench.judge(A, FIRST, b"for A")
    bench.judge(B, FIRST, b"for B")
    assert [answer.signature for answer in responses(bench, A)] == [b"for A"]
    assert [answer.signature for answer in responses(bench, B)] == [b"for B"]
    assert bench.sequencer.observer.accepted is None
    assert not bench.sequencer.observer.is_silent(B)


def test_in_static_mode_only_the_fixed_node_may_ask_in_whatever_range() -> None:
    bench = endorser(of=contract(B, mode=Mode.STATIC, endorsers=(A, B, C)))
    assert rejection_of(bench, A, request()) is Rejection.NOT_ALLOWED
    assert rejection_of(bench, B, request(), height=5 * NEXT_RANGE) is None
    bench.judge(B, FIRST, b"signature")
    assert [answer.signature for answer in responses(bench, B)] == [b"signature"]


# One coordinator at a time (S6).


def test_endorser_that_switched_while_it_checked_does_not_sign_for_the_first() -> None:
    bench = endorser()
    bench.hear(B, request())
    bench.hear(A, request())
    bench.judge(B, FIRST, b"for B")
    bench.judge(A, FIRST, b"for A")
    assert responses(bench, B) == []
    assert [answer.signature for answer in responses(bench, A)] == [b"for A"]


def test_endorser_that_heard_a_better_one_while_it_checked_does_not_sign_for_the_first() -> None:
    bench = endorser()
    bench.hear(B, request())
    bench.hear(A, heartbeat())
    bench.judge(B, FIRST, b"for B")
    assert responses(bench, B) == []


def test_signed_answer_is_not_repeated_to_one_that_is_no_longer_accepted() -> None:
    bench = endorser()
    bench.hear(B, request())
    bench.judge(B, FIRST, b"for B")
    bench.hear(A, heartbeat())
    bench.forget()
    assert rejection_of(bench, B, request()) is Rejection.NOT_PREFERRED_COORDINATOR
    assert responses(bench, B) == []


def test_check_that_was_dropped_by_a_switch_is_made_anew_when_the_first_is_accepted_again() -> None:
    bench = endorser()
    bench.hear(B, request())
    bench.hear(A, heartbeat())
    bench.judge(B, FIRST, b"for B")
    bench.tell(ConnectionLost(A))
    bench.take(CheckRound)
    bench.hear(B, request())
    assert [check.peer for check in bench.take(CheckRound)] == [B]


def test_request_that_does_not_name_a_sender_for_each_transition_is_not_allowed() -> None:
    bench = endorser(of=contract(mode=Mode.SENDER))
    assert rejection_of(bench, A, request(senders=())) is Rejection.NOT_ALLOWED


def test_checks_under_way_are_bounded() -> None:
    bench = endorser(of=contract(C, mode=Mode.SENDER, endorsers=(C,)))
    for peer in (A, B, C, D, NodeName("E")):
        for number in range(CHECKS_OPEN_MAX // 4):
            bench.hear(peer, request(transition(f"{peer}-1"), request_id=RequestId(1, number)))
    assert len(bench.sequencer.endorser.checking) == CHECKS_OPEN_MAX


def test_check_that_was_lost_is_made_again_when_the_request_is_repeated() -> None:
    bench = endorser()
    bench.hear(A, request())
    bench.hear(A, request())
    assert len(bench.take(CheckRound)) == 1
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(A, request())
    assert len(bench.take(CheckRound)) == 1


def test_intent_id_of_another_party_is_refused() -> None:
    """A member that uses the next id of another's page would have that one's user told of a payment it never made."""
    bench = endorser()
    squatted = request(transition("A-1"), senders=(Party("b@B"),))
    bench.hear(A, squatted)
    [answer] = responses(bench)
    assert [refusal.reason for refusal in answer.refusals] == ["the intent's id is not its party's"]


@pytest.mark.parametrize("nonce", [b"", b"A-1", bytes(16)], ids=["none", "short", "another"])
def test_intent_id_without_its_nonce_is_refused(nonce: bytes) -> None:
    bench = endorser()
    bench.hear(A, replace(request(), nonces=(nonce,)))
    [answer] = responses(bench)
    assert [refusal.reason for refusal in answer.refusals] == ["the intent's id is not its party's"]


def test_round_without_a_nonce_for_each_member_is_not_allowed() -> None:
    bench = endorser()
    assert rejection_of(bench, A, replace(request(), nonces=())) is Rejection.NOT_ALLOWED
