"""The plan of a transaction adds signing parties and endorsers that must approve its round (protocol §4.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import IntentFinalised, Persist, ReportReceipt
from rota.machine.events import ConnectionLost
from rota.model.digests import approval_digest, refusal_digest
from rota.model.types import (
    COSIGNERS_MAX,
    NO_ATTESTERS,
    REQUIRED_MAX,
    Attesters,
    DelegationNumber,
    HeartbeatNumber,
    NodeName,
    Party,
    PartySignature,
    RequestId,
    StateId,
    SubmitMode,
    Transition,
)
from rota.node.explanation import explain_at_coordinator, explain_at_sender
from rota.sequencer.attestation import Unapproved, attesters_at, flaw_of_attesters
from rota.sequencer.effects import CheckRound, SignTransition, VerifyEndorsement, VerifyParties
from rota.sequencer.events import (
    AssemblyFinished,
    EndorsementVerified,
    EndorsersVerified,
    PartiesVerified,
    RoundChecked,
    TransitionSigned,
)
from rota.sequencer.held_intent import State as Held
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    CoordinatorState,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    EndorserSignature,
    ListedIntent,
    MissingEndorser,
    Rejection,
    Snapshot,
    TransactionReverted,
)
from tests.sequencer import test_sender_transaction as sending
from tests.sequencer.coordinator_bench import CoordinatorBench, active, refusal_by
from tests.sequencer.kit import (
    FORGED,
    SEPARATOR,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    intent_id,
    name_of,
    prepared_transition,
    transition,
)
from tests.sequencer.test_endorser import FIRST, endorser, request, responses
from tests.sequencer.test_probation import rounds
from tests.sequencer.test_progress import CONFIG, HEIGHT, TIMEOUT_MS, TWO_OF_THREE, Delegate

OTHER = Party("b@B")
BY_D = Attesters(endorsers=(D,))
BY_C_AND_D = Attesters(endorsers=(C, D))
COSIGNED = Attesters((PartySignature(OTHER, b"cosigned"),))


def coordinator(**options: object) -> CoordinatorBench:
    """A coordinates, and two of the three endorsers B, C and D must sign."""
    return active(of=contract(A, B, C, endorsers=(B, C, D), threshold=2), **options)


def assemble(bench: CoordinatorBench, *made: tuple[Transition, Attesters]) -> None:
    """The slot's sender answers with these transitions and whom their plans add."""
    [(peer, asked)] = bench.asked(AssembleRequest)
    found = {each.intent: (each, attesters) for each, attesters in made}
    results = tuple(
        AssemblyResult(
            one,
            AssemblyOutcome.ASSEMBLED,
            DelegationNumber(1, 1),
            found.get(one, (transition(name_of(one)), NO_ATTESTERS))[0],
            attesters=found.get(one, (None, NO_ATTESTERS))[1],
        )
        for one in asked.intents
    )
    bench.hear(peer, AssembleResponse(asked.request_id, results))


def planned(*names: str, attesters: Attesters = BY_D) -> CoordinatorBench:
    """These intents are assembled, with this plan."""
    bench = coordinator()
    bench.delegate(*names)
    assemble(bench, *((transition(name), attesters) for name in names))
    return bench


def requests(bench: CoordinatorBench) -> dict[NodeName, EndorsementRequest]:
    return dict(bench.asked(EndorsementRequest))


def answer(bench: CoordinatorBench, peer: NodeName, asked: EndorsementRequest, signature: bytes | None = None) -> None:
    signature = f"by {peer}".encode() if signature is None else signature
    bench.hear(peer, EndorsementResponse(asked.request_id, asked.digest, signature))


# What a plan may add.


def named(*parties: str, endorsers: tuple[NodeName, ...] = ()) -> Attesters:
    return Attesters(tuple(PartySignature(Party(party), b"signed") for party in parties), endorsers)


@pytest.mark.parametrize(
    ("attesters", "reason"),
    [
        (NO_ATTESTERS, ""),
        (named("b@A", endorsers=(B,)), ""),
        (named("b@A", "b@A"), "its plan must add at most 4 different signers"),
        (named(*(f"{n}@A" for n in range(COSIGNERS_MAX + 1))), "its plan must add at most 4 different signers"),
        (named(endorsers=(B, B)), "its plan must add at most 16 different endorsers"),
        (named(endorsers=(B,) * (REQUIRED_MAX + 1)), "its plan must add at most 16 different endorsers"),
        (named("b@B"), "its plan adds b@B as a signer, which must be another party of A"),
        (named("a@A"), "its plan adds a@A as a signer, which must be another party of A"),
        (named(endorsers=(D,)), "its plan adds D, which does not endorse in this contract"),
    ],
)
def test_plan_adds_few_parties_of_the_senders_node_and_endorsers_of_the_contract(
    attesters: Attesters, reason: str
) -> None:
    assert flaw_of_attesters(contract(), Party("a@A"), attesters) == reason


def test_plan_is_empty_in_a_contract_without_endorsement() -> None:
    reason = "its plan adds attesters, and this contract has no endorsement"
    assert flaw_of_attesters(contract(threshold=0), Party("a@A"), named("b@A")) == reason


# The sender.


def finish(bench: Bench, attesters: Attesters, version: int = 0) -> None:
    made = transition("A-1", version=version, signature=b"")
    kind = AssemblyOutcome.ASSEMBLED
    bench.tell(AssemblyFinished(RequestId(1, 10), sending.ID, kind, made, attesters=attesters))


def sender_with(attesters: Attesters) -> Bench:
    """An intent of A is with B; its domain has assembled it with this plan, and its parties have signed it."""
    bench = Bench(of=contract(threshold=2), height=HEIGHT)
    bench.submit("A-1")
    sending.accept(bench)
    sending.ask_assembly(bench, 10)
    finish(bench, attesters)
    signatures = tuple(f"by {signer.party}".encode() for signer in attesters.signers)
    bench.tell(TransitionSigned(RequestId(1, 10), sending.ID, b"signed", signatures))
    bench.take(Persist)
    return bench


def test_parties_that_a_plan_adds_sign_with_the_sender_and_go_with_the_answer() -> None:
    plan = Attesters((PartySignature(Party("b@A")),), (C,))
    bench = sender_with(plan)
    [order] = bench.take(SignTransition)
    assert order.cosigners == (Party("b@A"),)
    [response] = bench.said(AssembleResponse, B)
    assert response.results[0].attesters == Attesters((PartySignature(Party("b@A"), b"by b@A"),), (C,))


def test_plan_that_cannot_be_had_reverts_the_intent_with_the_reason() -> None:
    bench = Bench(of=contract(threshold=2), height=HEIGHT)
    bench.submit("A-1")
    sending.accept(bench)
    sending.ask_assembly(bench, 10)
    finish(bench, BY_D)
    reason = "its plan adds D, which does not endorse in this contract"
    assert bench.take(ReportReceipt) == [ReportReceipt(sending.reverted(reason))]
    assert sending.records(bench) == [IntentFinalised(sending.reverted(reason))]
    assert not sending.is_known(bench)


def test_revert_has_no_attesters_though_the_version_before_had_some() -> None:
    bench = sender_with(Attesters(endorsers=(C,)))
    sending.ask_assembly(bench, 11)
    kind = AssemblyOutcome.REVERTED
    bench.tell(AssemblyFinished(RequestId(1, 11), sending.ID, kind, reason="no funds"))
    assert sending.machine(bench).answered_attesters == NO_ATTESTERS


def give_up(bench: Bench, *endorsers: NodeName) -> None:
    refusals = tuple(EndorserSignature(node, b"refused") for node in endorsers)
    made = transition("A-1")
    bench.hear(B, TransactionReverted(sending.ID, DelegationNumber(1, 1), made.leaf, "refused", refusals))


def test_refusal_of_one_endorser_that_the_plan_names_ends_the_intent() -> None:
    bench = sender_with(Attesters(endorsers=(C,)))
    give_up(bench, C)
    assert sending.is_being_voided(bench)


def test_refusal_of_one_endorser_that_the_plan_does_not_name_ends_nothing() -> None:
    bench = sender_with(Attesters(endorsers=(C,)))
    give_up(bench, B)
    assert sending.is_pending_and_goes_on(bench)


def test_false_refusal_in_the_name_of_an_endorser_that_the_plan_names_ends_nothing() -> None:
    """Two refusals, of which that of the named endorser is forged: the other alone is not more than n - k."""
    bench = sender_with(Attesters(endorsers=(C,)))
    bench.verifies = False
    give_up(bench, B, C)
    held = sending.machine(bench).held_refusals
    assert held is not None
    bench.tell(EndorsersVerified(held.request_id, (True, False), sending.ID))
    assert sending.is_pending_and_goes_on(bench)


def test_refusal_of_a_weakened_plan_is_verified_against_the_plan_that_the_sender_made() -> None:
    """A coordinator that shows fewer attesters has a refusal of something that the sender did not make."""
    bench = sender_with(Attesters(endorsers=(C,)))
    bench.verifies = False
    give_up(bench, C)
    [order] = [effect for effect in bench.effects if hasattr(effect, "signed")]
    made, party = transition("A-1"), Party("a@A")
    [signed] = order.signed
    assert signed.digest == refusal_digest(SEPARATOR, party, made, Attesters(endorsers=(C,)))
    assert signed.digest != refusal_digest(SEPARATOR, party, made)


def delegate_with(attesters: Attesters, *names: str) -> Delegate:
    """B has asked A to assemble these, and their plans add these."""
    delegate = Delegate(*names, of=TWO_OF_THREE, config=CONFIG)
    for number, name in enumerate(names, 1):
        asked = AssembleRequest(RequestId(1, number), (intent_id(name),), Snapshot())
        delegate.bench.hear(B, asked, height=HEIGHT)
        made = transition(name, signature=b"")
        finished = AssemblyFinished(RequestId(1, number), intent_id(name), AssemblyOutcome.ASSEMBLED, made)
        delegate.bench.tell(replace(finished, attesters=attesters))
        delegate.bench.tell(TransitionSigned(RequestId(1, number), intent_id(name), b"signed"))
        delegate.bench.take(Persist)
    return delegate


def test_coordinator_has_more_time_for_intents_that_endorsers_have_to_approve() -> None:
    delegate = delegate_with(Attesters(endorsers=(C,)), "A-1")
    delegate.live(2 * TIMEOUT_MS)
    assert not delegate.is_left()
    delegate.live(3 * TIMEOUT_MS)
    assert delegate.is_left()


def test_coordinator_is_not_blamed_while_an_endorser_that_the_plan_names_is_silent() -> None:
    delegate = delegate_with(Attesters(endorsers=(C,)), "A-1")
    delegate.bench.tell(ConnectionLost(C))
    delegate.live(6 * TIMEOUT_MS)
    assert not delegate.is_left()


# The coordinator.


def test_named_endorsers_approve_a_round_before_endorsers_are_asked_to_sign_it() -> None:
    bench = planned("B-1", attesters=BY_C_AND_D)
    bench.verifies = False
    first = requests(bench)
    assert set(first) == {C, D}
    assert all(asked.asks_approval and asked.attesters == (BY_C_AND_D,) for asked in first.values())
    answer(bench, C, first[C])
    [order] = bench.take(VerifyEndorsement)
    assert order.digest == approval_digest(SEPARATOR, first[C].digest)
    bench.tell(EndorsementVerified(C, order.digest, order.signature, True))
    assert requests(bench) == {}
    answer(bench, D, first[D])
    bench.verify()
    second = requests(bench)
    assert set(second) == {B, C, D}
    approvals = (EndorserSignature(C, b"by C"), EndorserSignature(D, b"by D"))
    assert all(asked.approvals == approvals and not asked.asks_approval for asked in second.values())
    assert all(asked.request_id != first[C].request_id for asked in second.values())
    for node in (B, C):
        answer(bench, node, second[node])
        [order] = bench.take(VerifyEndorsement)
        assert order.digest == second[node].digest
        bench.tell(EndorsementVerified(node, order.digest, order.signature, True))
    assert bench.state_of("B-1") is Held.CONFIRMING_DISPATCH


def test_approval_is_not_counted_as_a_signature_of_the_round() -> None:
    """Its verdict comes when the round is being signed already: it is about another digest."""
    bench = planned("B-1")
    asked = requests(bench)[D]
    answer(bench, D, asked)
    bench.tell(EndorsementVerified(C, approval_digest(SEPARATOR, asked.digest), b"by C", True))
    [opened] = bench.coordinator.rounds.rounds.values()
    assert opened.signatures == {}


def test_verdict_on_a_signature_of_the_round_does_not_count_as_an_approval() -> None:
    bench = planned("B-1")
    asked = requests(bench)[D]
    bench.tell(EndorsementVerified(D, asked.digest, b"by D", True))
    [opened] = bench.coordinator.rounds.rounds.values()
    assert opened.is_approving
    assert opened.signatures == {}


def test_false_approval_is_asked_for_again() -> None:
    bench = planned("B-1")
    answer(bench, D, requests(bench)[D], FORGED)
    [opened] = bench.coordinator.rounds.rounds.values()
    assert opened.is_approving
    bench.wait(bench.config.request_timeout_ms + 1)
    again = requests(bench)[D]
    assert again.asks_approval
    bench.wait(bench.config.request_timeout_ms)
    answer(bench, D, again)
    assert not opened.is_approving


def test_round_has_one_plan() -> None:
    bench = coordinator()
    bench.delegate("B-1", "B-2", "B-3")
    made = [transition(name) for name in ("B-1", "B-2", "B-3")]
    assemble(bench, (made[0], BY_D), (made[1], Attesters(endorsers=(C,))), (made[2], BY_D))
    assert rounds(bench) == [(B, ["B-1", "B-3"]), (B, ["B-2"])]


def test_planned_transitions_share_no_round_with_others_and_nothing_is_built_on_them() -> None:
    bench = coordinator()
    bench.delegate("B-1", "B-2")
    planned_one = transition("B-1")
    on_it = transition("B-2", StateId(planned_one.leaf, 0))
    assemble(bench, (planned_one, BY_D), (on_it, NO_ATTESTERS))
    assert bench.state_of("B-2") in (Held.POOLED, Held.ASSEMBLING)
    assert rounds(bench) == [(B, ["B-1"])]
    [(_, again)] = bench.asked(AssembleRequest)
    assert again.snapshot.states == ()


def test_plan_with_signers_alone_shares_rounds_with_others() -> None:
    bench = coordinator()
    bench.delegate("B-1", "B-2")
    other = named("b@B")
    assemble(bench, (transition("B-1"), other))
    assert rounds(bench) == [(None, ["B-1", "B-2"])]
    asked = requests(bench)[C]
    assert asked.attesters == (other, NO_ATTESTERS)
    assert not asked.asks_approval


def test_signatures_of_added_parties_are_verified_before_a_new_sender_shares_a_round() -> None:
    bench = coordinator()
    bench.verifies_parties = False
    bench.delegate("B-1")
    assemble(bench, (transition("B-1"), named("b@B")))
    [order] = bench.take(VerifyParties)
    assert order.attesters == (named("b@B"),)
    bench.tell(PartiesVerified(order.request_id, (transition("B-1").leaf,)))
    assert rounds(bench) == [(B, ["B-1"])]


def test_plan_that_names_a_stranger_is_no_transition_and_a_fault() -> None:
    bench = coordinator()
    bench.delegate("B-1")
    assemble(bench, (transition("B-1"), Attesters(endorsers=(NodeName("X"),))))
    assert bench.state_of("B-1") is None
    assert bench.coordinator.probation.has(B)


def test_refusal_of_one_named_endorser_suffices_and_is_the_evidence() -> None:
    bench = planned("B-1")
    bench.refuse(D, "B-1")
    assert bench.said(TransactionReverted, B) == [], "it is tried again on a fresh snapshot"
    while not bench.said(TransactionReverted, B):
        bench.wait(100)
        if bench.said(AssembleRequest):
            assemble(bench, (transition("B-1"), BY_D))
            bench.refuse(D, "B-1")
    [told] = bench.said(TransactionReverted, B)
    assert told.refusals == (EndorserSignature(D, refusal_by(D)),)


def test_silent_named_endorser_is_named_and_others_are_not_held_up() -> None:
    bench = planned("B-1")
    bench.wait(3 * bench.config.request_timeout_ms)
    told = explain_at_coordinator(bench.sequencer, intent_id("B-1"))
    assert told is not None
    assert (told.waits_for, told.who) == ("the approval of the endorsers that its plan names, 0 so far", (D,))
    assert [each.endorser for each in told.missing] == [D]
    heard = bench.said(CoordinatorHeartbeat, B)[-1]
    assert [each.endorser for each in heard.missing] == [D]
    bench.forget()
    bench.delegate("B-2")
    bench.delegate("C-1")
    while bench.said(AssembleRequest):
        assemble(bench)
    bench.sign(B, C)
    assert bench.state_of("B-2") is bench.state_of("C-1") is Held.CONFIRMING_DISPATCH
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING


def test_rounds_without_approval_do_not_count_against_their_senders_own() -> None:
    bench = coordinator()
    names = [f"B-{number}" for number in range(1, 5)]
    plans = [BY_D, Attesters(endorsers=(D, C)), Attesters(endorsers=(D, B)), Attesters(endorsers=(C,))]
    bench.delegate(*names)
    assemble(bench, *((transition(name), plan) for name, plan in zip(names, plans, strict=True)))
    assert [members for _, members in rounds(bench)] == [["B-1"], ["B-2"]], "two rounds of a sender's own at a time"
    bench.wait(2 * bench.config.request_timeout_ms)
    assert [members for _, members in rounds(bench)] == [["B-1"], ["B-2"], ["B-3"], ["B-4"]]


SHARED = StateId(transition("X-1").leaf, 0)


def test_transition_that_is_not_approved_in_time_gives_way_to_others() -> None:
    bench = coordinator()
    bench.delegate("B-1")
    assemble(bench, (transition("B-1", SHARED), BY_D))
    bench.delegate("C-1")
    assert bench.asked(AssembleRequest)[0][1].snapshot.locks == (SHARED,)
    bench.wait(bench.config.request_timeout_ms + 1)
    bench.forget()
    bench.delegate("C-2")
    bench.wait(bench.config.assemble_timeout_ms)
    [asked, *_] = bench.asked(AssembleRequest)
    assert asked[1].snapshot.locks == ()
    bench.hear(
        C,
        AssembleResponse(
            asked[1].request_id,
            tuple(
                AssemblyResult(
                    one,
                    AssemblyOutcome.ASSEMBLED,
                    DelegationNumber(1, 1),
                    transition(name_of(one), *((SHARED,) if one == intent_id("C-1") else ())),
                )
                for one in asked[1].intents
            ),
        ),
    )
    assert bench.state_of("C-1") is Held.ENDORSEMENT_GATHERING
    assert bench.state_of("B-1") in (Held.POOLED, Held.ASSEMBLING)


def test_senders_that_are_not_approved_in_time_do_not_give_way_to_one_another() -> None:
    """They would reset each other without end."""
    bench = coordinator()
    unapproved: Unapproved = bench.coordinator.unapproved
    bench.delegate("B-1")
    assemble(bench, (transition("B-1", SHARED), BY_D))
    placed = bench.coordinator.graph.placed
    unapproved.note(B)
    assert bench.coordinator.giving_way_to(C, placed) == {transition("B-1", SHARED).leaf}
    unapproved.note(C)
    assert bench.coordinator.giving_way_to(C, placed) == frozenset()
    bench.now_ms += bench.config.state_timeout_ms + 1
    bench.sequencer.context.now_ms = bench.now_ms
    unapproved.note(D)
    assert [*unapproved.senders] == [D], "expired entries are deleted"
    assert not unapproved.has(B)


def test_approved_transition_gives_way_to_no_sender() -> None:
    bench = planned("B-1")
    bench.coordinator.unapproved.note(B)
    answer(bench, D, requests(bench)[D])
    assert not bench.transaction("B-1").is_unapproved
    assert bench.coordinator.giving_way_to(C, bench.coordinator.graph.placed) == frozenset()


def test_round_that_waits_for_named_endorsers_is_given_up_at_its_bound() -> None:
    bench = planned("B-1")
    bench.block(1, time_s=transition("B-1").valid_until_s + 1)
    assert bench.state_of("B-1") in (Held.POOLED, Held.ASSEMBLING)
    assert rounds(bench) == []


def test_named_endorser_that_lacks_a_state_or_fails_is_asked_again_for_its_approval() -> None:
    bench = planned("B-1", "B-2")
    asked = requests(bench)[D]
    bench.hear(D, EndorsementError(asked.request_id, Rejection.UNAVAILABLE, unjudged=(transition("B-1").leaf,)))
    bench.wait(bench.config.request_timeout_ms)
    again = requests(bench)[D]
    assert again.asks_approval
    bench.hear(D, EndorsementError(again.request_id, Rejection.MISSING_STATES, missing=(SHARED.leaf,)))
    bench.wait(bench.config.request_timeout_ms)
    assert requests(bench)[D].asks_approval


def test_sender_learns_which_endorser_has_not_approved() -> None:
    bench = sender_with(Attesters(endorsers=(C,)))
    missing, listed = (MissingEndorser(C, 1_500, ""),), (ListedIntent(sending.ID, "Endorsement_Gathering"),)
    number = HeartbeatNumber(1, 9)
    bench.hear(B, CoordinatorHeartbeat(number, CoordinatorState.ACTIVE, listed, missing=missing), height=HEIGHT)
    told = explain_at_sender(bench.sequencer, sending.ID)
    assert told is not None
    words = "its coordinator to gather the approval of C, endorsements (not from C yet) and ask for permission"
    assert (told.waits_for, told.who) == (words, (C,))


# The endorser.


def shown(
    *attesters: Attesters,
    approvals: tuple[NodeName, ...] = (),
    asks_approval: bool = False,
    made: tuple[Transition, ...] = (),
    request_id: RequestId = FIRST,
) -> EndorsementRequest:
    asked = request(*(made or (transition("A-1"),)), request_id=request_id)
    given = tuple(EndorserSignature(node, f"by {node}".encode()) for node in approvals)
    return replace(asked, attesters=attesters, approvals=given, asks_approval=asks_approval)


def reason_of(bench: Bench, asked: EndorsementRequest) -> str:
    bench.hear(A, asked)
    answers = responses(bench)
    return answers[-1].refusals[0].reason if answers else ""


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (shown(Attesters(endorsers=(B,))), "the round is not approved by B"),
        (shown(Attesters(endorsers=(B, C)), approvals=(B,)), "the round is not approved by C"),
        (shown(Attesters(endorsers=(B,)), approvals=(B,)), ""),
        (shown(Attesters(endorsers=(B, C)), asks_approval=True), ""),
        (
            shown(Attesters(endorsers=(B,)), asks_approval=True),
            "its plan does not name C, which is asked to approve it",
        ),
        (shown(Attesters(endorsers=(D,)), approvals=(D,)), "its plan adds D, which does not endorse in this contract"),
        (shown(named("b@B")), "its plan adds b@B as a signer, which must be another party of A"),
        (shown(named("b@A")), ""),
    ],
)
def test_endorser_refuses_a_round_that_is_not_approved_or_has_no_good_plan(
    asked: EndorsementRequest, reason: str
) -> None:
    bench = endorser()
    assert reason_of(bench, asked) == reason
    assert len(bench.take(CheckRound)) == (not reason)


def test_endorser_refuses_the_members_of_a_round_with_another_plan() -> None:
    bench = endorser()
    made = (transition("A-1"), transition("A-2"))
    plans = (Attesters(endorsers=(B,)), Attesters(endorsers=(A,)))
    bench.hear(A, shown(*plans, approvals=(B,), made=made))
    [refused] = responses(bench)
    assert [(each.intent, each.reason, each.signature) for each in refused.refusals] == [
        (intent_id("A-2"), "the transactions of a round have one plan", b"")
    ]


def test_request_with_attesters_of_some_members_only_is_not_well_formed() -> None:
    bench = endorser()
    made = (transition("A-1"), transition("A-2"))
    bench.hear(A, shown(NO_ATTESTERS, made=made))
    assert [error.rejection for error in bench.said(EndorsementError, A)] == [Rejection.NOT_ALLOWED]


def test_domain_gets_the_plan_and_the_approvals_to_judge_by() -> None:
    bench = endorser()
    plan = Attesters((PartySignature(Party("b@A"), b"signed"),), (B,))
    bench.hear(A, shown(plan, approvals=(B,)))
    [order] = bench.take(CheckRound)
    assert (order.attesters, order.asks_approval) == ((plan,), False)
    assert order.approvals == (EndorserSignature(B, b"by B"),)
    assert attesters_at(order.attesters, 0) == plan
    assert attesters_at((), 0) == NO_ATTESTERS


def test_nothing_is_kept_for_an_approval() -> None:
    """An approval commits nothing; the signature does, and then the states of a prepared transition are kept."""
    bench = endorser()
    made, plan = (prepared_transition("A-1", SHARED),), Attesters(endorsers=(C,))
    until_s = made[0].valid_until_s
    asked = replace(request(*made, valid_until_s=until_s), attesters=(plan,), asks_approval=True)
    bench.hear(A, asked)
    bench.judge(A, FIRST, b"approved")
    assert [each.signature for each in responses(bench)] == [b"approved"]
    assert bench.take(Persist) == []
    assert not bench.sequencer.endorser.kept.signed
    second = RequestId(1, 2)
    approvals = (EndorserSignature(C, b"approved"),)
    bench.hear(A, replace(asked, request_id=second, asks_approval=False, approvals=approvals))
    bench.judge(A, second, b"signed")
    assert bench.sequencer.endorser.kept.signed, "now they are kept, before the signature leaves"


def test_request_for_an_approval_does_not_take_the_place_of_one_for_a_signature() -> None:
    """Under its id, so that the signature would leave as an approval, for which nothing is kept."""
    bench = endorser()
    plan = Attesters(endorsers=(C,))
    asked = shown(plan, approvals=(C,))
    bench.hear(A, asked)
    bench.now_ms += bench.config.request_timeout_ms + 1
    bench.hear(A, replace(asked, asks_approval=True))
    check = bench.sequencer.endorser.checking[A, FIRST]
    assert not check.request.asks_approval
    bench.tell(RoundChecked(A, FIRST, b"signed", digest=asked.digest))
    assert [each.signature for each in responses(bench)] == [b"signed"]


def test_external_intent_with_a_plan_is_prepared_when_it_is_approved_and_signed() -> None:
    bench = coordinator()
    bench.delegate("B-1", submit_mode=SubmitMode.EXTERNAL)
    assemble(bench, (transition("B-1"), BY_D))
    bench.sign(D)
    bench.sign(B, C)
    assert bench.state_of("B-1") is Held.PREPARED
