"""One sequencer: each event reaches whom it concerns, and the record of a step comes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rota.machine.effects import (
    DispatchRound,
    IntentAccepted,
    LookUpVerifier,
    Persist,
    ReplyToUser,
    ReportReceipt,
    SendMessage,
)
from rota.machine.events import (
    CancelRequested,
    ConnectionLost,
    ConnectionMade,
    IntentSubmitted,
    ResumeRequested,
    StopRequested,
    Tick,
    VerifierLookedUp,
)
from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import (
    DelegationNumber,
    Digest,
    FlushPoint,
    HeartbeatNumber,
    Mode,
    NodeName,
    Outcome,
    Party,
    RequestId,
    Rotation,
)
from rota.sequencer.effects import AssembleIntents, PermissionGranted, SignTransition, VerifySignature
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    BlocksRemoved,
    LedgerBack,
    LedgerLost,
    OutcomesFinal,
    RoundDispatched,
    RoundDispatchFailed,
    RoundSubmitted,
    SignatureVerified,
    TransitionSigned,
)
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.sender_transaction import State as SenderSide
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    CoordinatorState,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    ErrorCode,
    HandedOver,
    HandedRound,
    Handover,
    HandoverReason,
    HandoverRequest,
    IntentAnswer,
    IntentError,
    ListedIntent,
    Message,
    Rejection,
    Snapshot,
    Startup,
    StartupAcknowledgement,
    SubmittedIntent,
    SubmitterHeartbeat,
    TransactionDispatched,
    TransactionReverted,
    VerifierRequest,
    VerifierResponse,
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
    intent,
    intent_id,
    nonce_of,
    transition,
)

A1, B1 = intent_id("A-1"), intent_id("B-1")
LEAF = transition("A-1").leaf
ASKED = RequestId(1, 50)
NEXT_RANGE = 100


@dataclass(frozen=True, slots=True)
class Unheard(Event):
    """Nobody raises it."""


@dataclass(frozen=True, slots=True)
class Gibberish(Message):
    """No node says it."""


def sender(**options: object) -> Bench:
    """A node whose coordinator is A in range 0: B, with one intent that A has accepted."""
    bench = Bench(**{"node": B, **options})  # type: ignore[arg-type]
    bench.submit("B-1")
    accept_delegation(bench)
    bench.forget()
    return bench


def accept_delegation(bench: Bench, coordinator: NodeName = A) -> None:
    command = bench.said(DelegationCommand, coordinator)[-1]
    answers = tuple(IntentAnswer(each.intent.id, Answer.ACCEPTED) for each in command.delegations)
    bench.hear(coordinator, DelegationAccepted(command.command_id, answers, HeartbeatNumber(1, 1)))


def coordinator(**options: object) -> Bench:
    """The fixed coordinator A of a contract that B and C endorse, with one intent of B."""
    of = contract(A, mode=Mode.STATIC, endorsers=(B, C))
    bench = Bench(**{"of": of, **options})  # type: ignore[arg-type]
    bench.hear(B, DelegationCommand(ASKED, (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    return bench


def sender_state(bench: Bench) -> object:
    return bench.sequencer.sender.transactions[B1].state


def coordinator_state(bench: Bench) -> object:
    return bench.sequencer.coordinator.transactions[B1].state


def ask_assembly(bench: Bench) -> None:
    bench.hear(A, AssembleRequest(ASKED, (B1,), Snapshot()))


def assemble(bench: Bench) -> None:
    ask_assembly(bench)
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.ASSEMBLED, transition("B-1", signature=b"")))
    bench.tell(TransitionSigned(ASKED, B1, b"signed"))
    bench.take(Persist)


def item(bench: Bench) -> DispatchItem:
    number = bench.sequencer.sender.transactions[B1].number
    return DispatchItem(B1, number, transition("B-1").leaf, b"signed", 1_600)


def ask_permission(bench: Bench) -> None:
    bench.hear(A, DispatchConfirmationRequest(ASKED, digest_of(transition("B-1").leaf), (item(bench),)))


def permit(bench: Bench) -> None:
    assemble(bench)
    ask_permission(bench)
    bench.take(Persist)


def submitted(count: int) -> tuple[SubmittedIntent, ...]:
    return (SubmittedIntent(B1, transition("B-1").leaf, "A", 0, count),)


def outcome(status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    return LedgerOutcome(B1, transition("B-1").leaf, digest_of(transition("B-1").leaf), status)


def answer_assembly(bench: Bench) -> None:
    request = bench.said(AssembleRequest, B)[-1]
    result = AssemblyResult(B1, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), transition("B-1"))
    bench.hear(B, AssembleResponse(request.request_id, (result,)))


def endorse(bench: Bench) -> None:
    answer_assembly(bench)
    for node in (B, C):
        request = bench.said(EndorsementRequest, node)[-1]
        bench.hear(node, EndorsementResponse(request.request_id, request.digest, b"signature"))


def get_permission(bench: Bench) -> None:
    endorse(bench)
    request = bench.said(DispatchConfirmationRequest, B)[-1]
    bench.hear(B, DispatchConfirmationResponse(request.request_id, (B1,)))


# Time.


def test_time_does_not_run_backwards() -> None:
    bench = Bench()
    bench.now_ms = 10
    bench.tell(Tick())
    bench.now_ms = 9
    with pytest.raises(AssertionError, match="time does not run backwards"):
        bench.tell(Tick())


def test_every_timer_that_has_run_out_is_dealt_with_in_one_step() -> None:
    bench = Bench(node=B)
    bench.submit("B-1")
    bench.forget()
    bench.now_ms = bench.config.delegation_timeout_ms
    bench.tell(Tick())
    assert len(bench.said(DelegationCommand, A)) == 1
    assert bench.sequencer.sender.delegate == B
    deadline_ms = bench.sequencer.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms > bench.now_ms


def test_idle_sequencer_has_no_deadline() -> None:
    assert Bench().sequencer.next_deadline_ms() is None


# The record of a step is the first of its effects (protocol §8).


def test_record_is_the_first_effect_of_its_step() -> None:
    bench = Bench(node=B)
    effects = bench.tell(IntentSubmitted("user", intent("B-1")))
    assert effects[0] == Persist(ADDRESS, (IntentAccepted(intent("B-1")),))
    assert ReplyToUser("user", intent_id("B-1")) in effects
    assert len(bench.said(DelegationCommand, A)) == 1


def test_message_to_the_own_node_is_delivered_within_the_step_that_records() -> None:
    bench = Bench(of=contract(A))
    effects = bench.tell(IntentSubmitted("user", intent("A-1")))
    assert effects[0] == Persist(ADDRESS, (IntentAccepted(intent("A-1")),))
    assert A1 in bench.sequencer.coordinator.transactions
    assert not [each for each in bench.effects if isinstance(each, SendMessage) and each.peer == A]
    assert [[each.id for each in order.intents] for order in bench.take(AssembleIntents)] == [[A1]]


def test_messages_to_the_own_node_are_delivered_within_each_of_two_steps_that_record() -> None:
    bench = Bench(of=contract(A))
    for name in ("A-1", "A-2"):
        bench.tell(IntentSubmitted("user", intent(name)))
    assert not [each for each in bench.effects if isinstance(each, SendMessage) and each.peer == A]
    assert list(bench.sequencer.coordinator.transactions) == [intent_id("A-1"), intent_id("A-2")]
    written = bench.take(Persist)
    assert written == [Persist(ADDRESS, (IntentAccepted(intent(name)),)) for name in ("A-1", "A-2")]


def test_permission_is_recorded_in_the_step_that_answers() -> None:
    bench = sender()
    assemble(bench)
    bench.forget()
    ask_permission(bench)
    (persist,) = bench.take(Persist)
    assert [type(record) for record in persist.records] == [PermissionGranted]
    assert bench.said(DispatchConfirmationResponse, A) == [DispatchConfirmationResponse(ASKED, (B1,))]


# From users.


@pytest.mark.parametrize("request_of", [ResumeRequested, CancelRequested])
def test_request_for_an_intent_that_is_not_under_way_is_answered(
    request_of: type[ResumeRequested] | type[CancelRequested],
) -> None:
    bench = Bench()
    bench.tell(request_of("user", A1))
    assert bench.take(ReplyToUser) == [ReplyToUser("user", A1, "there is no such intent under way at this node")]


def test_cancel_reaches_its_intent() -> None:
    bench = sender()
    bench.tell(CancelRequested("user", B1))
    assert [receipt.receipt.outcome for receipt in bench.take(ReportReceipt)] == [Outcome.REVERTED]
    assert [reply.error for reply in bench.take(ReplyToUser)] == [""]


def test_resume_reaches_its_intent() -> None:
    bench = sender()
    ask_assembly(bench)
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.PARKED, reason="not yet"))
    assert sender_state(bench) is SenderSide.PARKED
    bench.tell(ResumeRequested("user", B1))
    assert sender_state(bench) is SenderSide.PENDING


# Results of the domain, the signer and the key store.


def test_result_of_the_domain_goes_to_the_intent_and_then_to_the_signer() -> None:
    bench = sender()
    ask_assembly(bench)
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.ASSEMBLED, transition("B-1", signature=b"")))
    assert [sign.leaf for sign in bench.take(SignTransition)] == [transition("B-1").leaf]
    bench.tell(TransitionSigned(ASKED, B1, b"signed"))
    (response,) = bench.said(AssembleResponse, A)
    assert response.results[0].transition == transition("B-1")


def test_failure_of_the_domain_is_told_to_the_coordinator() -> None:
    bench = sender()
    ask_assembly(bench)
    bench.tell(AssemblyFailed(ASKED, B1, "no memory"))
    (error,) = bench.said(AssembleError, A)
    assert error.errors == (IntentError(B1, ErrorCode.FAILED, "no memory"),)


def test_verified_signature_of_before_a_restart_is_permitted() -> None:
    bench = Bench(node=B, stored=StoredContract((Restored(intent("B-1")),)), incarnation=2)
    bench.tell(Tick())
    accept_delegation(bench)
    with_states = DispatchItem(B1, DelegationNumber(1, 1), transition("B-1").leaf, b"signed", 1_600, transition("B-1"))
    bench.hear(A, DispatchConfirmationRequest(ASKED, Digest(b"\x01" * 32), (with_states,)))
    [asked] = bench.take(VerifySignature)
    assert asked.leaf == transition("B-1").leaf
    bench.tell(SignatureVerified(asked.request_id, asked.intent, is_ours=True))
    assert bench.said(DispatchConfirmationResponse, A) == [DispatchConfirmationResponse(ASKED, (B1,))]


def test_verified_signature_of_an_intent_that_is_gone_changes_nothing() -> None:
    bench = Bench()
    assert bench.tell(SignatureVerified(ASKED, A1, is_ours=True)) == []


def test_judgement_of_the_domain_goes_to_the_endorser() -> None:
    bench = Bench(node=C)
    asked = (transition("A-1"),)
    request = EndorsementRequest(ASKED, digest_of(LEAF), asked, (Party("a@A"),), 1_600, nonces=(nonce_of("A-1"),))
    bench.hear(A, request)
    bench.judge(A, ASKED, b"signature")
    assert [response.signature for response in bench.said(EndorsementResponse, A)] == [b"signature"]


def test_verifier_of_our_party_is_looked_up_and_sent_to_who_asked() -> None:
    bench = Bench()
    bench.hear(B, VerifierRequest(ASKED, Party("alice@A")))
    (look_up,) = bench.take(LookUpVerifier)
    assert (look_up.peer, look_up.request_id, look_up.party) == (B, ASKED, Party("alice@A"))
    bench.tell(VerifierLookedUp(B, ASKED, Party("alice@A"), "0xkey"))
    assert bench.said(VerifierResponse, B) == [VerifierResponse(ASKED, Party("alice@A"), "0xkey")]


def test_verifier_of_another_node_party_lets_the_intent_go() -> None:
    bench = Bench(node=B)
    bench.submit("B-1", parties=(Party("carol@C"),))
    (asked,) = bench.said(VerifierRequest, C)
    assert bench.said(DelegationCommand) == []
    bench.hear(C, VerifierResponse(asked.request_id, Party("carol@C"), "0xkey"))
    assert len(bench.said(DelegationCommand, A)) == 1


def test_event_that_nobody_knows_is_our_own_error() -> None:
    with pytest.raises(AssertionError, match="the sequencer does not know Unheard"):
        Bench().tell(Unheard())


def test_message_that_nobody_knows_is_our_own_error() -> None:
    with pytest.raises(AssertionError, match="the sequencer does not know Gibberish"):
        Bench().hear(B, Gibberish())


# A transaction's way at its sender.


def test_accepted_delegation_reaches_the_sender() -> None:
    assert sender_state(sender()) is SenderSide.DELEGATED


def test_rejected_delegation_reaches_the_sender() -> None:
    bench = Bench(node=B)
    bench.submit("B-1")
    (command,) = bench.said(DelegationCommand, A)
    redirect = DelegationRejected(command.command_id, Rejection.NOT_PREFERRED_COORDINATOR, active=C)
    bench.hear(A, redirect)
    assert len(bench.said(DelegationCommand, C)) == 1


def test_permission_request_for_an_intent_that_is_gone_is_refused() -> None:
    bench = Bench()
    gone = DispatchItem(A1, DelegationNumber(1, 1), LEAF, b"signed", 1_600)
    bench.hear(B, DispatchConfirmationRequest(ASKED, digest_of(LEAF), (gone,)))
    (error,) = bench.said(DispatchConfirmationError, B)
    assert error.errors == (IntentError(A1, ErrorCode.UNKNOWN_INTENT),)


@pytest.mark.parametrize(("count", "state"), [(0, SenderSide.SEQUENCED), (1, SenderSide.SUBMITTED)])
@pytest.mark.parametrize("kind", ["dispatched", "heartbeat"])
def test_coordinator_and_submitter_tell_how_far_it_is(kind: str, count: int, state: SenderSide) -> None:
    bench = sender()
    permit(bench)
    if kind == "dispatched":
        bench.hear(A, TransactionDispatched(digest_of(transition("B-1").leaf), submitted(count)))
    else:
        bench.hear(A, SubmitterHeartbeat(HeartbeatNumber(1, 1), submitted(count)))
    assert sender_state(bench) is state


def test_only_the_node_that_was_permitted_may_list_it() -> None:
    bench = sender()
    permit(bench)
    bench.hear(C, SubmitterHeartbeat(HeartbeatNumber(1, 1), submitted(1)))
    assert sender_state(bench) is SenderSide.PREPARED


def test_coordinator_that_gives_up_does_not_end_the_intent() -> None:
    bench = sender()
    number = bench.sequencer.sender.transactions[B1].number
    bench.hear(A, TransactionReverted(B1, number, transition("B-1").leaf, "refused"))
    assert sender_state(bench) is SenderSide.PENDING


def test_outcome_on_our_own_index_confirms_and_its_final_depth_reports() -> None:
    bench = sender()
    bench.signed(transition("B-1"))
    bench.block(1, outcome())
    assert sender_state(bench) is SenderSide.CONFIRMED
    assert bench.take(ReportReceipt) == []
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(),)))
    (report,) = bench.take(ReportReceipt)
    assert (report.receipt.outcome, report.receipt.leaf) == (Outcome.CONFIRMED, transition("B-1").leaf)


def test_cancelled_intent_ends_when_the_chain_is_final_beyond_its_validity() -> None:
    bench = sender()
    assemble(bench)
    bench.tell(CancelRequested("user", B1))
    valid_until_s = transition("B-1").valid_until_s
    bench.block(1, time_s=valid_until_s + 1)
    bench.tell(OutcomesFinal(valid_until_s, ()))
    assert bench.take(ReportReceipt) == []
    bench.tell(OutcomesFinal(valid_until_s + 1, ()))
    assert [each.receipt.outcome for each in bench.take(ReportReceipt)] == [Outcome.REVERTED]


def test_reorganisation_takes_height_and_confirmation_back() -> None:
    bench = sender()
    permit(bench)
    bench.block(7, outcome())
    bench.tell(BlocksRemoved(4, (outcome(),)))
    assert bench.sequencer.context.height == 4
    assert sender_state(bench) is SenderSide.SUBMITTED
    assert not bench.sequencer.coordinator.outcomes.is_committed(B1)


# A transaction's way at its coordinator.


def test_delegation_is_accepted_and_its_assembly_asked() -> None:
    bench = coordinator()
    (accepted,) = bench.said(DelegationAccepted, B)
    assert accepted.answers == (IntentAnswer(B1, Answer.ACCEPTED),)
    assert coordinator_state(bench) is CoordinatorSide.ASSEMBLING


def test_assembly_error_removes_the_intent() -> None:
    bench = coordinator()
    (request,) = bench.said(AssembleRequest, B)
    bench.hear(B, AssembleError(request.request_id, (IntentError(B1, ErrorCode.NOT_CURRENT_DELEGATE),)))
    assert bench.sequencer.coordinator.transactions == {}


def test_endorsements_lead_to_the_request_for_permission() -> None:
    bench = coordinator()
    endorse(bench)
    assert coordinator_state(bench) is CoordinatorSide.CONFIRMING_DISPATCH
    assert len(bench.said(DispatchConfirmationRequest, B)) == 1


def test_endorser_that_cannot_accept_us_now_is_asked_with_a_new_request() -> None:
    bench = coordinator()
    answer_assembly(bench)
    (request,) = bench.said(EndorsementRequest, C)
    bench.hear(C, EndorsementError(request.request_id, Rejection.NO_LEDGER))
    bench.wait(bench.config.request_timeout_ms)
    assert bench.said(EndorsementRequest, C)[-1].request_id > request.request_id


def test_permission_leads_to_dispatch_and_the_submitter_word_to_submission() -> None:
    bench = coordinator()
    get_permission(bench)
    assert coordinator_state(bench) is CoordinatorSide.READY_FOR_DISPATCH
    (order,) = bench.take(DispatchRound)
    bench.tell(RoundDispatched(order.digest, "A", 0))
    assert coordinator_state(bench) is CoordinatorSide.DISPATCHED
    assert len(bench.said(TransactionDispatched, B)) == 1
    bench.tell(RoundSubmitted(order.digest, 1))
    assert coordinator_state(bench) is CoordinatorSide.SUBMITTED


def test_dispatch_that_failed_is_tried_again_later() -> None:
    bench = coordinator()
    get_permission(bench)
    (order,) = bench.take(DispatchRound)
    bench.tell(RoundDispatchFailed(order.digest, "signer is down"))
    assert bench.take(DispatchRound) == []
    bench.wait(bench.config.retry_backoff_ms)
    assert bench.take(DispatchRound) == [order]


def test_permission_that_is_refused_removes_the_intent() -> None:
    bench = coordinator()
    endorse(bench)
    (request,) = bench.said(DispatchConfirmationRequest, B)
    bench.hear(B, DispatchConfirmationError(request.request_id, (IntentError(B1, ErrorCode.CANCELLED),)))
    assert bench.sequencer.coordinator.transactions == {}


def test_outcome_on_our_own_index_reaches_the_coordinator_too() -> None:
    bench = coordinator()
    bench.block(1, outcome())
    assert coordinator_state(bench) is CoordinatorSide.CONFIRMED


# Coordinators among themselves.


def heartbeat(
    sequence: int = 1, state: CoordinatorState = CoordinatorState.ACTIVE, **options: object
) -> CoordinatorHeartbeat:
    return CoordinatorHeartbeat(HeartbeatNumber(1, sequence), state, **options)  # type: ignore[arg-type]


def role(bench: Bench) -> object:
    return bench.sequencer.coordinator.state


def test_heartbeat_of_a_member_is_observed_and_one_of_a_stranger_is_not() -> None:
    bench = Bench(node=C)
    bench.hear(D, heartbeat())
    assert role(bench) is CoordinatorState.IDLE
    bench.hear(A, heartbeat())
    assert role(bench) is CoordinatorState.OBSERVING


def test_old_or_repeated_heartbeat_reaches_nobody() -> None:
    bench = sender()
    bench.hear(A, heartbeat(5, intents=(ListedIntent(B1, "Pooled"),)))
    bench.hear(A, heartbeat(5))
    bench.hear(A, heartbeat(4))
    assert sender_state(bench) is SenderSide.DELEGATED
    bench.hear(A, heartbeat(6))
    assert sender_state(bench) is SenderSide.PENDING


def test_heartbeat_makes_a_node_available_again() -> None:
    bench = Bench(node=B)
    bench.submit("B-1")
    bench.wait(bench.config.delegation_timeout_ms)
    assert not bench.sequencer.sender.is_available(A)
    bench.hear(A, heartbeat())
    assert bench.sequencer.sender.is_available(A)


def test_our_own_heartbeat_reaches_our_sender_but_not_our_coordinator() -> None:
    bench = Bench(of=contract(A))
    bench.submit("A-1")
    assert role(bench) is CoordinatorState.ACTIVE
    assert bench.sequencer.observer.accepted == A
    assert bench.sequencer.sender.transactions[A1].state is SenderSide.ASSEMBLING
    bench.wait(10 * bench.config.silence_ms)
    assert role(bench) is CoordinatorState.ACTIVE
    assert bench.sequencer.sender.transactions[A1].delegate == A


def test_handover_request_is_answered() -> None:
    bench = Bench()
    bench.hear(B, HandoverRequest(ASKED, HandoverReason.OUTRANKS))
    assert bench.said(Handover, B) == [Handover(ASKED)]


def test_handover_request_of_a_stranger_is_not_answered() -> None:
    bench = Bench()
    bench.hear(D, HandoverRequest(ASKED, HandoverReason.OUTRANKS))
    assert bench.said(Handover) == []


def silent_sender() -> Bench:
    """A coordinator whose only intent waits because its sender is silent."""
    bench = Bench()
    bench.hear(B, DelegationCommand(ASKED, (Delegation(intent("B-1"), DelegationNumber(1, 1)),)), no_ledger=True)
    assert coordinator_state(bench) is CoordinatorSide.POOLED
    return bench


def test_message_of_a_sender_that_was_silent_lets_its_intents_go_on_at_once() -> None:
    bench = silent_sender()
    bench.hear(B, StartupAcknowledgement(ASKED))
    assert coordinator_state(bench) is CoordinatorSide.ASSEMBLING


def test_new_connection_to_a_silent_sender_lets_its_intents_go_on_at_once() -> None:
    bench = coordinator()
    bench.tell(ConnectionLost(B))
    bench.wait(bench.config.assemble_timeout_ms + bench.config.retry_backoff_ms)
    assert coordinator_state(bench) is CoordinatorSide.POOLED
    bench.tell(ConnectionMade(B))
    assert coordinator_state(bench) is CoordinatorSide.ASSEMBLING


def test_handover_makes_who_asked_for_it_active() -> None:
    bench = Bench(node=A)
    bench.hear(B, heartbeat())
    bench.hear(C, DelegationCommand(ASKED, (Delegation(intent("C-1"), DelegationNumber(1, 1)),)))
    assert role(bench) is CoordinatorState.ELECT
    (request,) = bench.said(HandoverRequest, B)
    bench.hear(B, Handover(request.request_id))
    assert role(bench) is CoordinatorState.ACTIVE


def test_lost_connection_reaches_the_coordinator_that_waits_for_that_node() -> None:
    bench = Bench(node=A)
    bench.hear(B, heartbeat())
    bench.hear(C, DelegationCommand(ASKED, (Delegation(intent("C-1"), DelegationNumber(1, 1)),)))
    assert role(bench) is CoordinatorState.ELECT
    bench.tell(ConnectionLost(B))
    assert role(bench) is CoordinatorState.ACTIVE


def test_lost_connection_moves_the_sender_at_once() -> None:
    bench = sender()
    bench.tell(ConnectionLost(C))
    assert bench.sequencer.sender.delegate == A
    bench.tell(ConnectionLost(A))
    assert bench.sequencer.sender.delegate == B


def test_new_connection_to_the_only_coordinator_lets_the_sender_go_on_at_once() -> None:
    bench = Bench(node=B, of=contract(A))
    bench.tell(ConnectionLost(A))
    bench.submit("B-1")
    assert bench.said(DelegationCommand) == []
    bench.tell(ConnectionMade(A))
    assert len(bench.said(DelegationCommand, A)) == 1


def test_startup_makes_a_strict_sender_choose_again() -> None:
    bench = Bench(node=B, of=contract(rotation=Rotation.STRICT))
    bench.submit("B-1")
    bench.wait(bench.config.delegation_timeout_ms)
    assert bench.sequencer.sender.delegate == B
    bench.hear(A, Startup(ASKED))
    assert bench.sequencer.sender.delegate == A


def test_acknowledged_startup_is_not_repeated() -> None:
    bench = Bench(of=contract(A, B))
    bench.block(1, outcome())
    (notice,) = bench.said(Startup, B)
    bench.hear(B, StartupAcknowledgement(notice.startup_id))
    bench.wait(10 * bench.config.request_timeout_ms)
    assert bench.said(Startup, B) == [notice]


# Blocks, the ledger, the end.


def test_new_range_reaches_the_strict_sender() -> None:
    bench = sender(of=contract(A, C, B, rotation=Rotation.STRICT))
    bench.block(NEXT_RANGE - 1)
    assert bench.said(DelegationCommand, C) == []
    bench.block(NEXT_RANGE)
    assert len(bench.said(DelegationCommand, C)) == 1


def test_new_range_reaches_the_strict_coordinator() -> None:
    bench = Bench(node=A, of=contract(rotation=Rotation.STRICT))
    bench.hear(B, DelegationCommand(ASKED, (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    assert role(bench) is CoordinatorState.ACTIVE
    bench.block(NEXT_RANGE - 1)
    assert role(bench) is CoordinatorState.ACTIVE
    bench.block(NEXT_RANGE)
    assert role(bench) is CoordinatorState.CLOSING


def test_block_brings_height_and_chain_time() -> None:
    bench = Bench()
    bench.block(42, time_s=5_000)
    assert (bench.sequencer.context.height, bench.sequencer.context.chain_time_s) == (42, 5_000)


def test_assembly_that_was_asked_too_early_begins_when_our_index_is_there() -> None:
    bench = sender()
    bench.hear(A, AssembleRequest(ASKED, (B1,), Snapshot()), height=5)
    assert bench.take(AssembleIntents) == []
    bench.block(5)
    assert len(bench.take(AssembleIntents)) == 1


def test_coordinator_that_loses_its_ledger_steps_aside_and_says_so() -> None:
    bench = Bench()
    bench.hear(B, DelegationCommand(ASKED, (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    bench.forget()
    bench.tell(LedgerLost())
    assert role(bench) is CoordinatorState.CLOSING
    beats = [each.envelope for each in bench.effects if isinstance(each, SendMessage)]
    assert beats
    assert all(envelope.no_ledger for envelope in beats)


def test_own_node_is_available_again_when_its_ledger_is_back() -> None:
    bench = Bench(of=contract(A))
    bench.tell(LedgerLost())
    bench.submit("A-1")
    assert bench.sequencer.coordinator.transactions == {}
    bench.tell(LedgerBack())
    assert A1 in bench.sequencer.coordinator.transactions


def test_node_that_is_to_stop_hands_its_role_over() -> None:
    bench = Bench()
    bench.hear(B, DelegationCommand(ASKED, (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    bench.tell(StopRequested())
    assert role(bench) is CoordinatorState.CLOSING
    assert bench.said(CoordinatorHeartbeat, C)[-1].successor == B


# Restart.


def test_restored_intent_is_delegated_and_its_dependencies_are_known() -> None:
    stored = StoredContract(
        (Restored(intent("B-1", depends_on=(A1,))), Restored(intent("B-2", depends_on=(intent_id("B-9"),)))),
        outcomes=((A1, Outcome.CONFIRMED),),
    )
    bench = Bench(node=B, stored=stored, incarnation=2)
    bench.tell(Tick())
    (command,) = bench.said(DelegationCommand, A)
    assert [each.intent.id for each in command.delegations] == [B1]
    assert command.delegations[0].number.incarnation == 2


def test_dispatch_of_before_the_restart_is_a_flush_point_until_it_has_its_outcome() -> None:
    made = transition("B-1")
    point = HandedOver(FlushPoint(digest_of(made.leaf), B1), made)
    shown = HandedRound((made.leaf,), GENESIS_S + 600, ())
    bench = Bench(stored=StoredContract(dispatched=(point,), rounds=(shown,)), incarnation=2)
    bench.hear(B, HandoverRequest(ASKED, HandoverReason.OUTRANKS))
    assert bench.said(Handover, B)[-1].points == (point,)
    assert bench.said(Handover, B)[-1].rounds == (shown,)
    bench.block(1, outcome(LedgerStatus.SKIPPED))
    bench.hear(B, HandoverRequest(ASKED, HandoverReason.OUTRANKS))
    assert bench.said(Handover, B)[-1].points == ()
