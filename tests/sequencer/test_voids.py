"""A prepared transition that is never committed is voided by k endorsers when another one waits for its states.

C endorses for the coordinator A: B leaves B-1 uncommitted, and D waits with D-1.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import DispatchRound
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import (
    DelegationNumber,
    KeptStates,
    Mode,
    NodeName,
    Party,
    RequestId,
    StateId,
    SubmitMode,
    Transition,
)
from rota.sequencer import voids as module
from rota.sequencer.effects import CheckRound, VerifyEndorsement
from rota.sequencer.events import BlocksRemoved, OutcomesFinal, RoundDispatched, RoundDispatchFailed
from rota.sequencer.held_intent import State
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorState,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Refusal,
    Rejection,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others
from tests.sequencer.kit import (
    ADDRESS,
    FORGED,
    GENESIS_S,
    A,
    B,
    C,
    contract,
    digest_of,
    intent_id,
    transition,
    void_transition,
)
from tests.sequencer.test_endorser import request, responses
from tests.sequencer.test_turns import HOLD_S, OF_FOUR, OTHER, STATE, VALIDITY_S, Endorsing, committed, prepared, voided

EXTERNAL = SubmitMode.EXTERNAL
MISSING = "the sender's signature is missing"
LEFT = prepared("B-1", STATE)
KEPT = KeptStates(LEFT.intent, LEFT.leaf, LEFT.inputs, LEFT.valid_until_s)


# The endorser.


class Voiding(Endorsing):
    """C, which is also asked to void intents."""

    def asked_to_void(self, name: str = "B-1", until_s: int | None = None) -> EndorsementRequest:
        """What A asks for: an empty transition without a signature, alone in its round."""
        self.count += 1
        until_s = self.now_s + 600 if until_s is None else until_s
        void = void_transition(name, b"", until_s)
        request_id, digest = RequestId(1, self.count), digest_of(void.leaf, valid_until_s=until_s)
        return EndorsementRequest(request_id, digest, (void,), (Party("@A"),), until_s, nonces=(b"",))

    def refusal_to_void(self, asked: EndorsementRequest | None = None) -> str:
        """Why it does not void the intent; nothing if it signs."""
        asked = asked or self.asked_to_void()
        self.bench.forget()
        self.bench.hear(A, asked)
        if self.bench.take(CheckRound):
            self.bench.judge(A, asked.request_id, b"signature")
        [answer] = responses(self.bench)
        assert bool(answer.refusals) is not bool(answer.signature)
        return answer.refusals[0].reason if answer.refusals else ""

    def refusal_of_waiting(self, name: str = "D-1", state: StateId = STATE) -> str:
        return self.refusal(prepared(name, state, at_s=self.now_s))


def left(of: object = OF_FOUR) -> Voiding:
    """B-1 was prepared and not committed for as long as its states are kept from all others."""
    endorsing = Voiding(of)  # type: ignore[arg-type]
    assert endorsing.refusal(LEFT) == ""
    endorsing.pass_time(HOLD_S + 1)
    return endorsing


def test_prepared_transition_that_is_left_uncommitted_is_voided_without_its_party_when_another_waits_for_it() -> None:
    endorsing = left()
    assert "kept" in endorsing.refusal_of_waiting()
    asked = endorsing.asked_to_void()
    endorsing.bench.forget()
    endorsing.bench.hear(A, asked)
    [order] = endorsing.bench.take(CheckRound)
    nothing = CheckRound(ADDRESS, A, asked.request_id, asked.digest, (), (), asked.valid_until_s)
    assert order == nothing, "the domain has nothing to judge"
    endorsing.bench.judge(A, asked.request_id, b"signature")
    [answer] = responses(endorsing.bench)
    assert (answer.signature, answer.refusals) == (b"signature", ())


def test_states_of_a_voided_intent_are_free_when_the_void_is_on_the_chain() -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == ""
    assert "kept" in endorsing.refusal_of_waiting(), "both may still be committed"
    endorsing.pass_time(1, voided("B-1"))
    assert endorsing.refusal_of_waiting() == ""


def test_coordinator_cannot_have_a_prepared_transition_voided_that_no_other_waits_for() -> None:
    endorsing = left()
    assert endorsing.refusal_to_void() == MISSING
    endorsing.refusal_of_waiting(state=OTHER)
    assert endorsing.refusal_to_void() == MISSING, "that one needs another state"


def test_prepared_transition_is_not_voided_before_its_time_has_passed_in_a_final_block() -> None:
    endorsing = Voiding()
    assert endorsing.refusal(LEFT) == ""
    endorsing.pass_time(HOLD_S)
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == MISSING
    endorsing.bench.block(endorsing.height + 1, time_s=endorsing.now_s + 1)
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == MISSING, "the block is not final"
    endorsing.bench.tell(OutcomesFinal(endorsing.now_s, ()))
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == ""


def test_new_version_of_a_prepared_transition_does_not_put_its_void_off() -> None:
    endorsing = Voiding()
    assert endorsing.refusal(LEFT) == ""
    endorsing.pass_time(HOLD_S)
    assert endorsing.refusal(prepared("B-1", STATE, OTHER, version=1)) == ""
    endorsing.pass_time(1)
    assert "kept" in endorsing.refusal_of_waiting(state=OTHER)
    assert endorsing.refusal_to_void() == ""


def test_endorser_counts_from_its_own_signature_and_not_from_reports_of_others() -> None:
    endorsing = Voiding()
    endorsing.bench.sequencer.kept.keep(KEPT)
    endorsing.pass_time(HOLD_S)
    assert endorsing.refusal(prepared("B-1", STATE, at_s=endorsing.now_s)) == ""
    endorsing.pass_time(1)
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == MISSING
    endorsing.pass_time(HOLD_S)
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == ""


def test_transition_that_the_domain_refuses_has_nothing_voided() -> None:
    endorsing = left()
    waiting = prepared("D-1", STATE, at_s=endorsing.now_s)
    endorsing.count += 1
    asked = RequestId(1, endorsing.count)
    endorsing.bench.hear(A, request(waiting, request_id=asked, valid_until_s=waiting.valid_until_s))
    refusal = Refusal(waiting.intent, "the coin is not yours", leaf=waiting.leaf)
    endorsing.bench.judge(A, asked, refusals=(refusal,))
    assert responses(endorsing.bench)[-1].refusals == (refusal,)
    assert endorsing.refusal_to_void() == MISSING


def test_states_that_the_domain_lacks_for_a_waiting_transition_are_asked_for_first() -> None:
    endorsing = left()
    waiting = prepared("D-1", STATE, at_s=endorsing.now_s)
    endorsing.count += 1
    asked = RequestId(1, endorsing.count)
    endorsing.bench.hear(A, request(waiting, request_id=asked, valid_until_s=waiting.valid_until_s))
    endorsing.bench.judge(A, asked, missing=(STATE,))
    assert [error.rejection for error in endorsing.bench.said(EndorsementError, A)] == [Rejection.MISSING_STATES]
    assert endorsing.refusal_to_void() == MISSING


def test_ordinary_transition_waits_for_nothing_that_is_left_and_has_nothing_voided() -> None:
    endorsing = left()
    assert endorsing.refusal(transition("D-1", STATE, valid_until_s=endorsing.now_s + 600)) == ""
    assert endorsing.refusal_to_void() == MISSING


def test_intent_that_was_never_prepared_here_is_not_voided_without_its_party() -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    assert endorsing.refusal(transition("B-2", OTHER, valid_until_s=endorsing.now_s + 600)) == ""
    assert endorsing.refusal_to_void(endorsing.asked_to_void("B-2")) == MISSING
    assert endorsing.refusal_to_void(endorsing.asked_to_void("D-1")) == MISSING


def test_prepared_transition_that_is_committed_is_not_voided() -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    outcome = committed(LEFT)
    endorsing.bench.block(endorsing.height + 1, outcome, time_s=endorsing.now_s)
    assert endorsing.refusal_to_void() == MISSING
    endorsing.bench.tell(BlocksRemoved(endorsing.height, (outcome,)))
    assert endorsing.refusal_to_void() == "", "its block is gone, and it stands in the way again"


def test_intent_that_waits_for_the_states_of_an_expired_one_is_wanted_no_longer() -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    endorsing.pass_time(VALIDITY_S)
    assert endorsing.bench.sequencer.kept.wanted == {}
    assert endorsing.refusal_to_void() == MISSING


def test_restarted_endorser_voids_what_it_has_on_its_disk_after_the_same_time_again() -> None:
    endorsing = Voiding(stored=StoredContract(endorsed=(KEPT,)))
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == MISSING
    endorsing.pass_time(HOLD_S + 1)
    assert "kept" in endorsing.refusal_of_waiting()
    assert endorsing.refusal_to_void() == ""


@pytest.mark.parametrize("flaw", ["digest", "validity", "past", "leaf"])
def test_void_is_a_round_like_any_other(flaw: str) -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    right = endorsing.asked_to_void()
    if flaw == "digest":
        assert endorsing.refusal_to_void(replace(right, digest=digest_of(LEFT.leaf))).startswith("the digest is not")
    elif flaw == "validity":
        late = endorsing.asked_to_void(until_s=endorsing.now_s + 10_000)
        assert endorsing.refusal_to_void(late) == "the round is valid longer than its leaves allow"
    elif flaw == "past":
        past = endorsing.asked_to_void(until_s=endorsing.now_s - 1)
        assert endorsing.refusal_to_void(past) == "the round is no longer valid"
    else:
        [void] = right.transitions
        other = replace(void, leaf=LEFT.leaf)
        digest = digest_of(LEFT.leaf, valid_until_s=right.valid_until_s)
        assert endorsing.refusal_to_void(replace(right, transitions=(other,), digest=digest)) != ""


def test_void_shares_no_round() -> None:
    endorsing = left()
    endorsing.refusal_of_waiting()
    right = endorsing.asked_to_void()
    more = transition("D-3", valid_until_s=right.valid_until_s)
    digest = digest_of(right.transitions[0].leaf, more.leaf, valid_until_s=right.valid_until_s)
    both = replace(
        right,
        digest=digest,
        transitions=(*right.transitions, more),
        senders=(Party("@A"), Party("a@D")),
        nonces=(b"", b""),
    )
    assert endorsing.refusal_to_void(both) == MISSING


# The coordinator.


def spend_in_vain(bench: CoordinatorBench, name: str = "C-1") -> None:
    """B, without which nothing is endorsed here, refuses a prepared transition on the state, which it keeps for B-1."""
    now_s = bench.sequencer.context.chain_time_s
    if bench.state_of(name) is None:
        bench.delegate(name, submit_mode=EXTERNAL)
    assemble(bench, prepared(name, STATE, at_s=now_s))
    [(_, asked), *_] = bench.asked(EndorsementRequest, B)
    bench.asked(EndorsementRequest)
    refusal = Refusal(intent_id(name), "a state is kept for a prepared transition", (KEPT,))
    bench.hear(B, EndorsementResponse(asked.request_id, asked.digest, b"", (refusal,)))


def assemble(bench: CoordinatorBench, made: Transition) -> None:
    """The slot's sender answers the last copy of its request."""
    peer, asked = bench.asked(AssembleRequest)[-1]
    result = AssemblyResult(made.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)
    bench.hear(peer, AssembleResponse(asked.request_id, (result,)))


def want(bench: CoordinatorBench) -> None:
    """Something waits for B-1."""
    bench.coordinator.voids.want(LEFT.intent, C)
    bench.tell(OutcomesFinal(bench.coordinator.kept.final_time_s, ()))


def coordinating(hold_s: int = HOLD_S + 1, **options: object) -> CoordinatorBench:
    """A has had B-1 prepared, and so much final chain time has passed since."""
    bench = active(**options)
    bench.delegate("B-1", submit_mode=EXTERNAL)
    bench.assemble(LEFT)
    bench.sign()
    bench.block(1, time_s=GENESIS_S + hold_s)
    bench.tell(OutcomesFinal(GENESIS_S + hold_s, ()))
    bench.forget()
    return bench


def asked_to_void(bench: CoordinatorBench) -> dict[NodeName, EndorsementRequest]:
    """Whom we ask to void B-1 now."""
    leaf = void_transition("B-1").leaf
    asked = bench.asked(EndorsementRequest)
    return {peer: request for peer, request in asked if request.transitions[0].leaf == leaf}


def sign_void(bench: CoordinatorBench, asked: dict[NodeName, EndorsementRequest], *endorsers: NodeName) -> None:
    for peer in endorsers or tuple(asked):
        request = asked[peer]
        bench.hear(peer, EndorsementResponse(request.request_id, request.digest, f"by {peer}".encode()))


def voids(bench: CoordinatorBench) -> list[DispatchRound]:
    return [order for order in bench.take(DispatchRound) if order.leaves == (void_transition("B-1").leaf,)]


def test_coordinator_has_endorsers_void_a_transition_that_keeps_another_away_and_dispatches_the_void() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    asked = asked_to_void(bench)
    assert list(asked) == [B, C]
    [void] = asked[B].transitions
    assert (void.is_empty, void.signature, asked[B].nonces) == (True, b"", (b"",))
    sign_void(bench, asked, B)
    assert voids(bench) == [], "both must sign"
    sign_void(bench, asked, C)
    [order] = voids(bench)
    assert (order.transitions, order.signatures) == ((void,), ((B, b"by B"), (C, b"by C")))
    assert order.digest == digest_of(void.leaf, valid_until_s=GENESIS_S + HOLD_S + 1 + bench.config.validity_s)
    bench.tell(RoundDispatched(order.digest, "0xsigner", 1))
    assert bench.coordinator.voids.open[LEFT.intent].is_dispatched
    bench.block(2, LedgerOutcome(LEFT.intent, void.leaf, order.digest, LedgerStatus.COMMITTED), time_s=GENESIS_S + 400)
    assert bench.coordinator.voids.open == {}


def test_waiting_transition_is_endorsed_when_the_void_is_on_the_chain() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    bench.block(2, voided("B-1"), time_s=GENESIS_S + HOLD_S + 2)
    assemble(bench, prepared("C-1", STATE, at_s=GENESIS_S + HOLD_S + 2))
    bench.sign()
    assert bench.state_of("C-1") is State.PREPARED


def test_nothing_is_voided_before_its_time_has_passed_in_a_final_block() -> None:
    bench = coordinating(HOLD_S)
    bench.delegate("C-1", submit_mode=EXTERNAL)
    bench.assemble(prepared("C-1", STATE))
    assert bench.transaction("C-1").transition is None
    assert bench.asked(EndorsementRequest) == [], "endorsers are not asked for what they would refuse"
    want(bench)
    assert asked_to_void(bench) == {}


def test_ordinary_transition_that_is_refused_has_nothing_voided() -> None:
    bench = coordinating()
    bench.delegate("C-1")
    bench.assemble(transition("C-1", STATE, valid_until_s=GENESIS_S + 900))
    for endorser in (B, C):
        [(_, request)] = bench.asked(EndorsementRequest, endorser)
        refusal = Refusal(intent_id("C-1"), "kept", (KEPT,))
        bench.hear(endorser, EndorsementResponse(request.request_id, request.digest, b"", (refusal,)))
    assert asked_to_void(bench) == {}


def test_endorsers_are_asked_a_few_times_by_new_ids_and_the_next_refusal_begins_again() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    ids: list[RequestId] = []
    for _ in range(module.ASKS_MAX):
        asked = asked_to_void(bench)
        ids += [request.request_id for request in asked.values()]
        bench.wait(bench.config.request_timeout_ms)
    assert len(set(ids)) == 2 * module.ASKS_MAX
    assert bench.coordinator.voids.open == {}
    spend_in_vain(bench)
    assert list(asked_to_void(bench)) == [B, C]


def test_who_has_signed_is_not_asked_again_and_who_refuses_is() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    asked = asked_to_void(bench)
    sign_void(bench, asked, B)
    refusal = Refusal(LEFT.intent, MISSING)
    bench.hear(C, EndorsementResponse(asked[C].request_id, asked[C].digest, b"", (refusal,)))
    bench.wait(bench.config.request_timeout_ms)
    again = asked_to_void(bench)
    assert list(again) == [C]
    sign_void(bench, again)
    assert len(voids(bench)) == 1


def test_answers_that_are_not_those_asked_for_count_for_nothing() -> None:
    bench = coordinating()
    bench.verifies = False
    spend_in_vain(bench)
    asked = asked_to_void(bench)
    request = asked[B]
    bench.hear(C, EndorsementResponse(request.request_id, request.digest, b"by B"))
    bench.hear(B, EndorsementResponse(RequestId(9, 9), request.digest, b"by B"))
    assert bench.take(VerifyEndorsement) == []
    bench.hear(B, EndorsementResponse(request.request_id, digest_of(LEFT.leaf), b"by B"))
    assert bench.take(VerifyEndorsement) == []
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"by B"))
    assert bench.take(VerifyEndorsement) == [], "a request is answered once"


def test_false_signature_counts_for_nothing() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    asked = asked_to_void(bench)
    bench.hear(B, EndorsementResponse(asked[B].request_id, asked[B].digest, FORGED))
    sign_void(bench, asked, C)
    assert voids(bench) == []
    assert list(bench.coordinator.voids.open[LEFT.intent].signatures) == [C]


def test_signature_that_is_verified_after_the_dispatch_changes_nothing() -> None:
    bench = coordinating(of=endorsed_by_others(threshold=1))
    want(bench)
    bench.verifies = False
    sign_void(bench, asked_to_void(bench))
    bench.verifies = True
    bench.verify()
    [order] = voids(bench)
    assert order.signatures == ((B, b"by B"),)


def test_own_signature_needs_no_verification() -> None:
    bench = CoordinatorBench(A, of=contract(A, B, C, threshold=1, endorsers=(A,)))
    bench.delegate("B-0", peer=B)
    kept = bench.sequencer.kept
    kept.sign(KEPT)
    kept.wanted[LEFT.intent] = None
    kept.final_time_s = GENESIS_S + HOLD_S + 1
    want(bench)
    [order] = bench.take(CheckRound)
    bench.verifies = False
    bench.judge(A, order.request_id, b"by A")
    assert len(voids(bench)) == 1


def test_one_void_of_an_intent_is_under_way_at_a_time() -> None:
    bench = coordinating()
    want(bench)
    want(bench)
    assert len(bench.asked(EndorsementRequest)) == 2


def test_voids_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_MAX", 0)
    bench = coordinating()
    spend_in_vain(bench)
    assert asked_to_void(bench) == {}


def test_void_is_an_empty_transition_of_the_sender_that_waits_where_another_node_pays() -> None:
    bench = coordinating(of=contract(A, mode=Mode.STATIC, endorsers=(B, C)))
    empties = bench.coordinator.empties
    want(bench)
    assert empties.accounts[C].used == 1
    bench.coordinator.voids.open.clear()
    while empties.may_take(C):
        empties.take(C)
    want(bench)
    assert bench.coordinator.voids.open == {}


def test_void_whose_dispatch_is_not_written_is_begun_again_by_the_next_refusal() -> None:
    bench = coordinating()
    spend_in_vain(bench)
    asked = asked_to_void(bench)
    sign_void(bench, asked)
    [order] = voids(bench)
    bench.tell(RoundDispatchFailed(digest_of(LEFT.leaf), "signer is down"))
    assert LEFT.intent in bench.coordinator.voids.open
    bench.tell(RoundDispatchFailed(order.digest, "signer is down"))
    assert bench.coordinator.voids.open == {}


def test_void_is_forgotten_when_it_is_skipped_or_expired_or_its_intent_is_used() -> None:
    for outcome in (
        LedgerOutcome(LEFT.intent, void_transition("B-1").leaf, digest_of(LEFT.leaf), LedgerStatus.SKIPPED),
        committed(LEFT),
    ):
        bench = coordinating()
        bench.coordinator.voids.want(LEFT.intent, C)
        other = LedgerOutcome(LEFT.intent, LEFT.leaf, digest_of(LEFT.leaf), LedgerStatus.SKIPPED)
        bench.block(2, other, time_s=GENESIS_S + HOLD_S + 2)
        assert LEFT.intent in bench.coordinator.voids.open, "the other version was skipped"
        bench.block(3, outcome, time_s=GENESIS_S + HOLD_S + 2)
        assert bench.coordinator.voids.open == {}
    bench = coordinating()
    bench.coordinator.voids.want(LEFT.intent, C)
    until_s = bench.coordinator.voids.open[LEFT.intent].transition.valid_until_s
    bench.block(2, time_s=until_s)
    assert LEFT.intent in bench.coordinator.voids.open
    bench.block(3, time_s=until_s + 1)
    assert bench.coordinator.voids.open == {}


def test_coordinator_that_left_its_role_voids_nothing() -> None:
    bench = coordinating()
    want(bench)
    asked = asked_to_void(bench)
    sign_void(bench, asked, B)
    bench.coordinator.state = CoordinatorState.CLOSING
    sign_void(bench, asked, C)
    assert voids(bench) == []
    bench.wait(bench.config.request_timeout_ms)
    assert bench.coordinator.voids.open == {}
    bench.coordinator.voids.want(LEFT.intent, C)
    assert bench.coordinator.voids.open == {}
