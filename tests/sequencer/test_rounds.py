"""Rounds: who goes together, who signs, who permits, and in which order they are dispatched (protocol §4.2, §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import DispatchRound, Effect, SendMessage
from rota.machine.events import ConnectionLost
from rota.model.config import Config
from rota.model.digests import leaf_of_transition
from rota.model.types import NEVER_HEARD, Call, Digest, NodeName, RequestId, StateId, Transition, Tried
from rota.sequencer.effects import CheckRound, VerifyEndorsement
from rota.sequencer.events import EndorsementVerified, RoundDispatched, RoundDispatchFailed, RoundSubmitted
from rota.sequencer.held_intent import State
from rota.wire.messages import (
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    ErrorCode,
    IntentError,
    Refusal,
    Rejection,
    TransactionDispatched,
)
from tests.sequencer.coordinator_bench import (
    CoordinatorBench,
    active,
    endorsed_by_others,
    handed,
    name_of,
    restarted,
    settled,
)
from tests.sequencer.kit import (
    ADDRESS,
    FORGED,
    GENESIS_S,
    SEPARATOR,
    A,
    B,
    C,
    D,
    contract,
    digest_of,
    intent_id,
    transition,
)

NOBODY = Digest(b"nobody")


def two_of_three() -> CoordinatorBench:
    """Of B, C and D two must sign; A coordinates."""
    return active(of=contract(A, B, C, endorsers=(B, C, D), threshold=2))


def open_request(bench: CoordinatorBench, endorser: NodeName) -> EndorsementRequest:
    """What an endorser was asked last; all that it was asked is then forgotten."""
    return bench.asked(EndorsementRequest, endorser)[-1][1]


def names(request: EndorsementRequest) -> list[str]:
    """The intents of a round, in order."""
    return [name_of(step.intent) for step in request.transitions]


def sign(bench: CoordinatorBench, endorser: NodeName, request: EndorsementRequest) -> None:
    """One endorser signs one request."""
    bench.hear(endorser, EndorsementResponse(request.request_id, request.digest, f"by {endorser}".encode()))


def accumulated(*made: Transition) -> CoordinatorBench:
    """While a first round is being endorsed these are assembled, in this order; then they go in one round."""
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-0"))
    for each in made:
        bench.delegate(name_of(each.intent))
        bench.assemble(each)
    bench.sign()
    bench.permit("B-0")
    bench.write_rounds()
    return bench


# Opening.


def test_lone_intent_is_a_round_of_one_and_goes_at_once() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, made)
    for endorser in (B, C):
        request = open_request(bench, endorser)
        assert request.digest == digest_of(made.leaf)
        assert request.transitions == (made,)
        assert request.senders == ("a@B",)
        assert request.valid_until_s == GENESIS_S + 600


def test_what_is_assembled_while_rounds_are_open_goes_together_in_assembly_order() -> None:
    bench = accumulated(transition("C-1"), transition("B-1"), transition("C-2"))
    assert names(open_request(bench, B)) == ["C-1", "B-1", "C-2"]


def test_round_takes_no_more_than_its_maximum() -> None:
    bench = active(config=Config(round_max=2, rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, *(transition(f"B-{number}") for number in range(3)))
    assert names(open_request(bench, C)) == ["B-0", "B-1"]
    bench.sign()
    assert bench.asked(EndorsementRequest, C) == []
    assert bench.state_of("B-2") is State.ENDORSEMENT_GATHERING


def test_no_more_rounds_are_being_endorsed_than_allowed() -> None:
    bench = active(config=Config(rounds_open_max=2))
    for number in range(3):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(f"B-{number}"))
    assert [names(request) for _, request in bench.asked(EndorsementRequest, C)] == [["B-0"], ["B-1"]]
    bench.sign()
    bench.wait(1_000)
    bench.sign()
    assert bench.transaction("B-2").round is not None


def test_round_that_waits_for_an_endorser_beyond_the_state_timeout_holds_up_no_other() -> None:
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-0"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.wait(9_999)
    assert bench.transaction("B-1").round is None
    bench.wait(1_001)
    assert bench.transaction("B-1").round is not None


def test_dispatches_of_before_a_restart_count_as_rounds_ahead() -> None:
    """The chain has not mined them: else every restart would put as many more before it."""
    before = (handed("A-1"), handed("A-2"))
    bench = restarted(*before, config=Config(dispatch_ahead_max=2))
    bench.delegate("B-1")
    bench.assemble()
    assert bench.asked(EndorsementRequest) == []
    bench.block(1, settled(before[0]))
    assert names(open_request(bench, B)) == ["B-1"]


def test_round_opens_only_while_few_stand_between_opening_and_confirmation() -> None:
    bench = active(config=Config(dispatch_ahead_max=2))
    first = transition("B-0")
    bench.bring(State.DISPATCHED, first)
    bench.bring(State.DISPATCHED, transition("B-1"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-3"))
    assert bench.asked(EndorsementRequest) == []
    bench.block(1, bench.outcome(first))
    assert names(open_request(bench, C)) == ["B-2", "B-3"]


def test_round_is_valid_no_longer_than_any_of_its_members_or_than_the_configured_validity() -> None:
    bench = active()
    early = transition("B-1", valid_until_s=GENESIS_S + 50)
    bench.bring(State.ENDORSEMENT_GATHERING, early, transition("B-2", valid_until_s=GENESIS_S + 9_000))
    assert open_request(bench, C).valid_until_s == GENESIS_S + 50
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-3", valid_until_s=GENESIS_S + 9_000))
    assert open_request(bench, C).valid_until_s == GENESIS_S + 600


def test_endorser_sees_a_states_bytes_only_when_it_is_on_the_list() -> None:
    bench = active()
    made = transition("B-1")
    secret = replace(made, outputs=(replace(made.outputs[0], distribution=(A, B)),))
    bench.bring(State.ENDORSEMENT_GATHERING, secret)
    assert open_request(bench, B).transitions[0].outputs[0].content is not None
    assert open_request(bench, C).transitions[0].outputs[0].content is None


def test_endorsers_are_told_who_is_silent_here() -> None:
    bench = active()
    bench.tell(ConnectionLost(C))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    assert open_request(bench, B).tried == (Tried(C, NEVER_HEARD),)


def test_contract_without_endorsers_asks_nobody() -> None:
    bench = active(of=contract(A, B, C, endorsers=(), threshold=0))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    assert bench.asked(EndorsementRequest) == []


# Endorsement.


def test_round_is_endorsed_when_as_many_as_needed_have_signed() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    to_b, to_d = open_request(bench, B), open_request(bench, D)
    sign(bench, B, to_b)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    sign(bench, D, to_d)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_signatures_of_those_who_signed_go_into_the_dispatch() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.sign(C, D)
    bench.permit()
    [dispatch] = bench.take(DispatchRound)
    assert dispatch.signatures == ((C, b"by C"), (D, b"by D"))


def test_signature_after_the_round_is_endorsed_changes_nothing() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    late = open_request(bench, D)
    bench.sign(B, C)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    sign(bench, D, late)
    bench.permit()
    [dispatch] = bench.take(DispatchRound)
    assert [node for node, _ in dispatch.signatures] == [B, C]


def test_second_signature_of_one_endorser_does_not_count() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    request = open_request(bench, B)
    sign(bench, B, request)
    sign(bench, B, request)
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"", (Refusal(intent_id("B-1"), "late"),)))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    bench.sign(C)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_signature_under_another_endorsers_request_does_not_count() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    sign(bench, C, open_request(bench, B))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_signature_over_another_digest_or_for_an_unknown_request_does_not_count() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    request = open_request(bench, B)
    sign(bench, B, replace(request, digest=NOBODY))
    sign(bench, B, replace(request, request_id=RequestId(0, 1)))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def forge(bench: CoordinatorBench, endorser: NodeName, request: EndorsementRequest) -> None:
    """Somebody answers for an endorser, or it signs with a wrong key."""
    bench.hear(endorser, EndorsementResponse(request.request_id, request.digest, FORGED))


def test_signature_of_another_counts_when_it_is_found_to_be_its_own() -> None:
    bench = active(of=endorsed_by_others(threshold=1), verifies=False)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    request = open_request(bench, B)
    sign(bench, B, request)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert bench.take(VerifyEndorsement) == [VerifyEndorsement(ADDRESS, B, request.digest, b"by B")]
    bench.tell(EndorsementVerified(B, request.digest, b"by B", is_valid=True))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_wrong_signature_is_never_counted_and_is_asked_for_again_under_a_new_id() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    first = open_request(bench, B)
    forge(bench, B, first)
    bench.sign(C)
    opened = bench.transaction("B-1").round
    assert opened is not None
    assert list(opened.signatures) == [C]
    assert opened.rejections == {B: "with a signature that is not its own"}
    sign(bench, B, first)
    assert list(opened.signatures) == [C], "the old request is over"
    bench.wait(1_000)
    second = open_request(bench, B)
    assert second.request_id > first.request_id
    sign(bench, B, second)
    bench.permit()
    [dispatch] = bench.take(DispatchRound)
    assert dispatch.signatures == ((C, b"by C"), (B, b"by B"))


def test_one_who_signs_wrongly_for_ever_holds_up_its_round_only_while_it_is_needed() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    for _ in range(5):
        forge(bench, B, open_request(bench, B))
        bench.wait(1_000)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    bench.sign(C, D)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


@pytest.mark.parametrize("is_valid", [True, False])
def test_verdict_that_comes_when_the_round_is_endorsed_or_gone_changes_nothing(is_valid: bool) -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    late = open_request(bench, D)
    bench.sign(B, C)
    bench.tell(EndorsementVerified(D, late.digest, b"by D", is_valid))
    bench.tell(EndorsementVerified(D, NOBODY, b"by D", is_valid))
    bench.permit()
    [dispatch] = bench.take(DispatchRound)
    assert [node for node, _ in dispatch.signatures] == [B, C]


def test_second_verdict_on_one_endorser_changes_nothing() -> None:
    bench = active(verifies=False)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    request = open_request(bench, B)
    bench.tell(EndorsementVerified(B, request.digest, b"by B", is_valid=True))
    bench.tell(EndorsementVerified(B, request.digest, FORGED, is_valid=False))
    opened = bench.transaction("B-1").round
    assert opened is not None
    assert opened.signatures == {B: b"by B"}
    assert opened.rejections == {}


def test_own_signature_needs_no_verdict() -> None:
    bench = active(of=contract(A, B, C, endorsers=(A,), threshold=1), verifies=False)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    [check] = bench.take(CheckRound)
    bench.judge(A, check.request_id, b"by A")
    assert bench.take(VerifyEndorsement) == []
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_round_is_no_larger_than_what_one_transaction_holds() -> None:
    bench = active(of=endorsed_by_others(threshold=0, endorsers=()))
    heavy = [with_calls(f"B-{number}", gas=6_000_000) for number in range(3)]
    bench.bring(State.ENDORSEMENT_GATHERING, *heavy)
    bench.permit()
    assert [len(dispatch.transitions) for dispatch in bench.take(DispatchRound)] == [2, 1]


def with_calls(name: str, gas: int) -> Transition:
    """A transition that calls a contract with this gas."""
    made = replace(transition(name), calls=(Call(ADDRESS, gas, b""),))
    leaf = leaf_of_transition(SEPARATOR, made)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(made.outputs))
    return replace(made, leaf=leaf, outputs=outputs)


def test_sender_whose_transitions_take_all_the_gas_of_a_round_does_not_go_before_all_others() -> None:
    """The attack: 64 transitions, each as dear as a round may be, were 64 rounds that everybody waited for."""
    bench = active(of=endorsed_by_others(endorsers=(C,)), config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-0"))
    dear = [with_calls(f"B-{number}", gas=9_000_000) for number in range(4)]
    for made in (*dear, transition("C-1"), transition("C-2", dear[3].outputs[0].id), transition("C-3")):
        bench.bring(State.ENDORSEMENT_GATHERING, made)
    orders = []
    for _ in range(6):
        request = open_request(bench, C)
        orders.append(names(request))
        sign(bench, C, request)
    assert orders == [["C-0"], ["B-0"], ["C-1", "C-3"], ["B-1"], ["B-2"], ["B-3", "C-2"]]


def test_missing_endorsers_are_asked_again_and_those_who_signed_are_not() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    sign(bench, B, open_request(bench, B))
    [(_, first)] = bench.asked(EndorsementRequest, C)
    bench.wait(1_000)
    assert bench.asked(EndorsementRequest) == [(C, first)]
    assert bench.transaction("B-1").request_count == 1


def test_missing_endorsers_are_asked_for_ever_but_less_often_after_the_state_timeout() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.wait(9_999)
    assert len(bench.asked(EndorsementRequest, C)) == 10
    bench.wait(10_000)
    assert 3 <= len(bench.asked(EndorsementRequest, C)) <= 6
    bench.wait(100_000)
    assert 10 <= len(bench.asked(EndorsementRequest, C)) <= 14
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_rejection_by_the_rules_of_acceptance_is_no_refusal_and_is_asked_again_with_a_new_id() -> None:
    bench = active(config=Config(endorse_retry_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    first = open_request(bench, B)
    bench.hear(B, EndorsementError(first.request_id, Rejection.MISMATCHED_BLOCK_HEIGHT))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    opened = bench.transaction("B-1").round
    assert opened is not None
    assert opened.rejections == {B: "MismatchedBlockHeight"}
    sign(bench, B, first)
    assert opened.signatures == {}
    bench.wait(1_000)
    second = open_request(bench, B)
    assert second.request_id > first.request_id
    sign(bench, B, second)
    bench.sign(C)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_rejection_that_is_not_for_the_current_request_changes_nothing() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    request = open_request(bench, B)
    bench.hear(C, EndorsementError(request.request_id, Rejection.NO_LEDGER))
    bench.hear(B, EndorsementError(RequestId(0, 1), Rejection.NO_LEDGER))
    opened = bench.transaction("B-1").round
    assert opened is not None
    assert opened.rejections == {}
    sign(bench, B, request)
    assert opened.signatures == {B: b"by B"}


# Refusals: k of n.


def test_refusal_of_one_more_than_needed_leaves_that_endorser_out() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.refuse(B, "B-1")
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    bench.wait(1_000)
    assert bench.asked(EndorsementRequest, B) == []
    bench.sign(C, D)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_transition_that_too_many_refuse_leaves_and_the_rest_is_asked_again() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.refuse(B, "B-1")
    bench.refuse(C, "B-1")
    assert bench.state_of("B-1") is State.POOLED
    assert names(open_request(bench, B)) == ["B-2"]
    assert bench.transaction("B-1").refused_count == 1
    assert bench.transaction("B-2").refused_count == 0


def test_answer_to_a_round_that_was_dissolved_changes_nothing() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    old = open_request(bench, C)
    bench.refuse(B, "B-1")
    sign(bench, C, old)
    bench.wait(500)
    opened = bench.transaction("B-2").round
    assert opened is not None
    assert opened.signatures == {}
    assert opened.digest != old.digest


def test_round_whose_endorsers_refuse_different_members_is_split_into_lone_rounds() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, *(transition(f"B-{number}") for number in range(1, 5)))
    bench.asked(EndorsementRequest, D)
    bench.refuse(B, "B-1")
    bench.refuse(C, "B-3")
    assert [names(request) for _, request in bench.asked(EndorsementRequest, D)] == [["B-1"], ["B-2"]]
    assert all(bench.transaction(f"B-{number}").refused_count == 0 for number in range(1, 5))
    bench.sign(B, C)
    bench.effects.clear()
    bench.wait(1_000)
    assert {name: len(_round_of(bench, name)) for name in ("B-3", "B-4")} == {"B-3": 1, "B-4": 1}


def _round_of(bench: CoordinatorBench, name: str) -> list[str]:
    opened = bench.transaction(name).round
    assert opened is not None
    return [name_of(intent) for intent in opened.members]


def test_the_undisputed_of_a_split_round_go_together_again() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, *(transition(f"B-{number}") for number in range(1, 5)))
    bench.refuse(B, "B-1")
    bench.refuse(C, "B-2")
    bench.asked(EndorsementRequest, D)
    bench.sign(B, C)
    assert [names(request) for _, request in bench.asked(EndorsementRequest, D)][-1] == ["B-3", "B-4"]


def test_refusal_of_what_is_not_in_the_round_rejects_no_member() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(B, "C-9")
    bench.refuse(C, "B-1")
    assert bench.transaction("B-1").refused_count == 0
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_one_that_goes_alone_joins_the_others_again_once_it_is_assembled_anew() -> None:
    bench = two_of_three()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.refuse(B, "B-1")
    bench.refuse(C, "B-2")
    assert _round_of(bench, "B-1") == ["B-1"]
    bench.effects = [effect for effect in bench.effects if not _asks_about(effect, "B-2")]
    bench.refuse(B, "B-1")
    bench.refuse(C, "B-1")
    bench.wait(250)
    assert bench.state_of("B-1") is State.ASSEMBLING
    bench.assemble()
    assert not bench.transaction("B-1").goes_alone


def _asks_about(effect: Effect, name: str) -> bool:
    body = effect.envelope.body if isinstance(effect, SendMessage) else None
    return isinstance(body, EndorsementRequest) and names(body) == [name]


def test_member_that_leaves_while_its_round_is_endorsed_dissolves_it() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"), transition("B-3"))
    sign(bench, B, open_request(bench, B))
    bench.block(1, settled(handed("B-2")))
    second = open_request(bench, B)
    assert names(second) == ["B-1", "B-3"]
    assert second.digest == digest_of(transition("B-1").leaf, transition("B-3").leaf)


def test_what_returns_from_a_dissolved_round_keeps_its_place_in_the_order_of_assembly() -> None:
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-3"))
    bench.asked(EndorsementRequest)
    bench.block(1, settled(handed("B-1")))
    assert names(open_request(bench, B)) == ["B-2", "B-3"]


def test_what_returns_from_a_dissolved_round_shares_no_round_with_what_stands_on_its_users() -> None:
    """Else two rounds would stand on one another, and neither would ever be dispatched. C dissolves the first."""
    bench = active()
    first = transition("B-1")
    second = transition("B-2", first.outputs[0].id)
    third = transition("B-3", second.outputs[0].id)
    fourth = transition("B-4", third.outputs[0].id)
    for name in ("B-8", "B-9"):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(name))
    fillers = bench.asked(EndorsementRequest)
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    for (peer, request), made in zip(fillers, (None, second, None, third), strict=True):
        sign(bench, peer, request)
        if made is not None:
            bench.bring(State.ENDORSEMENT_GATHERING, made)
    bench.bring(State.ENDORSEMENT_GATHERING, fourth)
    assert [name_of(intent) for intent in bench.transaction("C-1").round.members] == ["B-1", "C-1"]  # type: ignore[union-attr]
    bench.delegate("C-1", number=2, is_voiding=True)
    for _ in range(4):
        bench.sign()
        bench.permit()
        bench.write_rounds()
    assert [bench.state_of(f"B-{number}") for number in range(1, 5)] == [State.DISPATCHED] * 4


def test_transition_of_a_dissolved_round_shares_no_round_with_one_that_stands_on_a_round_of_its_users() -> None:
    """B-2 stands on B-1, and shares its round with B-5, on which B-3 stands: B-1 and B-3 must not share a round."""
    bench = active()
    first = transition("B-1")
    second, mate = transition("B-2", first.outputs[0].id), transition("B-5")
    third = transition("B-3", mate.outputs[0].id)
    for name in ("B-8", "B-9"):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(name))
    fillers = bench.asked(EndorsementRequest)
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    for (peer, request), made in zip(fillers, (None, (second, mate), None, (third,)), strict=True):
        sign(bench, peer, request)
        if made is not None:
            bench.bring(State.ENDORSEMENT_GATHERING, *made)
    assert [name_of(intent) for intent in bench.transaction("B-2").round.members] == ["B-2", "B-5"]  # type: ignore[union-attr]
    bench.delegate("C-1", number=2, is_voiding=True)
    for _ in range(4):
        bench.sign()
        bench.permit()
        bench.write_rounds()
    assert [bench.state_of(f"B-{number}") for number in (1, 2, 5, 3)] == [State.DISPATCHED] * 4


def test_member_that_leaves_before_its_round_opens_is_not_in_it() -> None:
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-0"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.block(1, settled(handed("B-1")))
    bench.sign()
    assert names(open_request(bench, B)) == ["B-2"]


# Permission.


def test_permission_is_asked_of_each_sender_for_all_its_intents_of_a_round_at_once() -> None:
    bench = accumulated(transition("C-1"), transition("B-1"), transition("C-2"))
    bench.sign()
    asked = bench.asked(DispatchConfirmationRequest)
    found = {peer: [name_of(item.intent) for item in request.items] for peer, request in asked}
    assert found == {C: ["C-1", "C-2"], B: ["B-1"]}
    made = transition("B-1")
    item = dict(asked)[B].items[0]
    assert (item.leaf, item.signature, item.valid_until_s) == (made.leaf, made.signature, made.valid_until_s)


def test_permission_is_asked_for_each_round_on_its_own() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.sign()
    asked = bench.asked(DispatchConfirmationRequest, B)
    assert [[name_of(item.intent) for item in request.items] for _, request in asked] == [["B-1"], ["B-2"]]
    assert len({request.digest for _, request in asked}) == 2


def test_permission_is_asked_again_until_it_is_answered_for_what_is_still_open() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"), transition("B-2"))
    [first] = bench.said(DispatchConfirmationRequest, B)
    bench.permit("B-1")
    bench.wait(1_000)
    [(_, second)] = bench.asked(DispatchConfirmationRequest, B)
    assert second.request_id == first.request_id
    assert [name_of(item.intent) for item in second.items] == ["B-2"]
    bench.hear(B, DispatchConfirmationResponse(first.request_id, (intent_id("B-2"),)))
    bench.wait(5_000)
    assert bench.asked(DispatchConfirmationRequest) == []


def test_permission_that_does_not_answer_the_current_request_changes_nothing() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    [request] = bench.said(DispatchConfirmationRequest, B)
    intents = (intent_id("B-1"),)
    errors = (IntentError(intent_id("B-1"), ErrorCode.CANCELLED),)
    for peer, request_id in ((C, request.request_id), (B, RequestId(0, 1))):
        bench.hear(peer, DispatchConfirmationResponse(request_id, intents))
        bench.hear(peer, DispatchConfirmationError(request_id, errors))
    bench.hear(B, DispatchConfirmationResponse(request.request_id, (intent_id("B-9"),)))
    bench.hear(B, DispatchConfirmationError(request.request_id, (IntentError(intent_id("B-9"), ErrorCode.CANCELLED),)))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_refusal_after_the_permission_changes_nothing() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"), transition("B-2"))
    [request] = bench.said(DispatchConfirmationRequest, B)
    bench.permit("B-1")
    bench.hear(B, DispatchConfirmationError(request.request_id, (IntentError(intent_id("B-1"), ErrorCode.CANCELLED),)))
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH


def test_permission_for_one_that_left_meanwhile_is_no_longer_asked() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"), transition("B-2"))
    bench.block(1, settled(handed("B-1")))
    bench.asked(DispatchConfirmationRequest)
    bench.wait(1_000)
    [(_, request)] = bench.asked(DispatchConfirmationRequest)
    assert [name_of(item.intent) for item in request.items] == ["B-2"]


def test_leaving_one_round_closes_no_permission_of_another() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    bench.bring(State.CONFIRMING_DISPATCH, transition("C-1"))
    bench.block(1, settled(handed("B-1")))
    bench.permit("C-1")
    assert bench.state_of("C-1") is State.READY_FOR_DISPATCH


# Dispatch.


def test_round_is_dispatched_when_every_member_is_permitted_with_all_that_the_chain_needs() -> None:
    bench = accumulated(transition("C-1"), transition("B-1"))
    bench.sign()
    [to_c], [to_b] = bench.said(DispatchConfirmationRequest, C), bench.said(DispatchConfirmationRequest, B)
    bench.hear(C, DispatchConfirmationResponse(to_c.request_id, (intent_id("C-1"),)))
    assert bench.take(DispatchRound) == []
    bench.hear(B, DispatchConfirmationResponse(to_b.request_id, (intent_id("B-1"),)))
    [dispatch] = bench.take(DispatchRound)
    leaves = (transition("C-1").leaf, transition("B-1").leaf)
    assert (dispatch.digest, dispatch.leaves) == (digest_of(*leaves), leaves)
    assert dispatch.transitions == (transition("C-1"), transition("B-1"))
    assert dispatch.senders == (C, B)
    assert dispatch.valid_until_s == GENESIS_S + 600


def test_member_whose_sender_refuses_is_left_out_and_the_signatures_stay_valid_for_the_rest() -> None:
    bench = active()
    one, other = transition("B-1"), transition("B-2")
    bench.bring(State.CONFIRMING_DISPATCH, one, other)
    [request] = bench.said(DispatchConfirmationRequest, B)
    bench.permit("B-2")
    bench.hear(B, DispatchConfirmationError(request.request_id, (IntentError(one.intent, ErrorCode.CANCELLED),)))
    [dispatch] = bench.take(DispatchRound)
    assert dispatch.leaves == (one.leaf, other.leaf)
    assert dispatch.transitions == (other,)
    assert dispatch.signatures == ((B, b"by B"), (C, b"by C"))
    assert bench.asked(EndorsementRequest) == []


def dependent_rounds() -> tuple[CoordinatorBench, Transition, Transition]:
    """Two rounds, both permitted; the second stands on the first, whose dispatch is not durable yet."""
    bench = active()
    first = transition("B-1")
    second = transition("C-1", first.outputs[0].id)
    bench.bring(State.READY_FOR_DISPATCH, first)
    bench.bring(State.READY_FOR_DISPATCH, second)
    assert bench.state_of("C-1") is State.READY_FOR_DISPATCH
    return bench, first, second


def test_round_is_dispatched_only_after_the_rounds_that_it_stands_on() -> None:
    bench, first, second = dependent_rounds()
    [dispatch] = bench.take(DispatchRound)
    assert dispatch.transitions == (first,)
    bench.tell(RoundDispatched(dispatch.digest, "signer", 1))
    [following] = bench.take(DispatchRound)
    assert following.transitions == (second,)


def test_round_is_dispatched_once() -> None:
    bench = active()
    bench.bring(State.READY_FOR_DISPATCH, transition("B-1"))
    assert len(bench.take(DispatchRound)) == 1
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    assert bench.take(DispatchRound) == []


def test_round_that_does_not_stand_on_it_passes_one_that_waits() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    bench.bring(State.CONFIRMING_DISPATCH, transition("C-1"))
    bench.permit("C-1")
    assert [dispatch.transitions for dispatch in bench.take(DispatchRound)] == [(transition("C-1"),)]


def test_failed_dispatch_write_is_tried_again_later_each_time_and_touches_nobody_else() -> None:
    bench = active()
    bench.bring(State.READY_FOR_DISPATCH, transition("B-1"))
    waits = []
    for _ in range(3):
        [dispatch] = bench.take(DispatchRound)
        bench.tell(RoundDispatchFailed(dispatch.digest, "signer is down"))
        waited_ms = 0
        while not any(isinstance(effect, DispatchRound) for effect in bench.effects):
            bench.wait(1)
            waited_ms += 1
        waits.append(waited_ms)
    assert 187 <= waits[0] <= 250 < waits[1] <= 500 < waits[2] <= 1_000
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH
    bench.bring(State.READY_FOR_DISPATCH, transition("C-1"))
    assert len(bench.write_rounds()) == 2
    assert bench.state_of("B-1") is State.DISPATCHED


def test_word_of_the_submitter_about_a_round_that_is_gone_changes_nothing() -> None:
    bench = active()
    bench.bring(State.READY_FOR_DISPATCH, transition("B-1"))
    bench.effects.clear()
    for event in (
        RoundDispatched(NOBODY, "s", 1),
        RoundDispatchFailed(NOBODY, "signer is down"),
        RoundSubmitted(NOBODY, 1),
    ):
        bench.tell(event)
    assert bench.effects == []
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH


def test_dispatch_is_told_to_each_sender_for_its_own_intents() -> None:
    bench = accumulated(transition("C-1"), transition("B-1"), transition("C-2"))
    bench.sign()
    bench.permit()
    bench.forget()
    bench.coordinator.confirm_and_dispatch()
    [dispatched] = [opened for opened in bench.coordinator.rounds.rounds.values() if len(opened.members) == 3]
    bench.tell(RoundDispatched(dispatched.digest, "signer", 4))
    told = {
        peer: [(name_of(each.intent), each.nonce) for each in message.intents]
        for peer, message in bench.asked(TransactionDispatched)
    }
    assert told == {C: [("C-1", 4), ("C-2", 4)], B: [("B-1", 4)]}


def test_submission_reaches_every_member_of_the_round() -> None:
    bench = active()
    bench.bring(State.DISPATCHED, transition("B-1"), transition("B-2"))
    opened = bench.transaction("B-1").round
    assert opened is not None
    bench.tell(RoundSubmitted(opened.digest, 1))
    assert [bench.state_of(name) for name in ("B-1", "B-2")] == [State.SUBMITTED] * 2


def test_round_stays_until_each_of_its_members_has_its_outcome() -> None:
    bench = active()
    one, other = transition("B-1"), transition("B-2")
    bench.bring(State.DISPATCHED, one, other)
    bench.block(1, bench.outcome(one))
    assert len(bench.coordinator.rounds.rounds) == 1
    bench.block(2, bench.outcome(other))
    assert bench.coordinator.rounds.rounds == {}
    assert bench.coordinator.rounds.round_by_request == {}


def test_round_that_is_over_leaves_no_timer_behind() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.READY_FOR_DISPATCH, made)
    [dispatch] = bench.take(DispatchRound)
    bench.tell(RoundDispatchFailed(dispatch.digest, "signer is down"))
    bench.block(1, bench.outcome(made))
    bench.forget()
    bench.wait(2_000)
    assert bench.take(DispatchRound) == []


def test_flush_points_are_what_is_past_the_point_of_no_return_and_has_no_outcome() -> None:
    bench = active()
    one, other = transition("B-1"), transition("B-2")
    bench.bring(State.DISPATCHED, one, other)
    bench.bring(State.READY_FOR_DISPATCH, transition("C-1"))
    bench.bring(State.CONFIRMING_DISPATCH, transition("C-2"))
    bench.block(1, bench.outcome(one))
    found = [name_of(transaction.intent.id) for transaction in bench.coordinator.dispatching.flush_points()]
    assert found == ["B-2", "C-1"]
    assert bench.coordinator.dispatching.has_unwritten_dispatch()
    bench.write_rounds()
    assert not bench.coordinator.dispatching.has_unwritten_dispatch()


@pytest.mark.parametrize("count", [1, 5])
def test_chain_of_any_length_in_one_round_costs_one_request_for_permission(count: int) -> None:
    bench = active()
    made: list[Transition] = []
    for number in range(count):
        made.append(transition(f"B-{number}", *(state.id for step in made[-1:] for state in step.outputs)))
    bench.bring(State.READY_FOR_DISPATCH, *made)
    assert [dispatch.transitions for dispatch in bench.take(DispatchRound)] == [tuple(made)]


def test_every_open_round_asks_its_missing_endorsers_again() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    bench.asked(EndorsementRequest)
    bench.wait(1_000)
    assert [names(request) for _, request in bench.asked(EndorsementRequest, B)] == [["B-1"], ["C-1"]]
