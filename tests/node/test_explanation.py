"""Where is my transaction: in every state, what it waits for and who is in the way."""

from __future__ import annotations

from enum import Enum
from uuid import UUID

import pytest

from rota.chain.public_transaction import State as PublicState
from rota.directory.deployment_states import State as DeploymentState
from rota.machine.effects import ReportReceipt
from rota.machine.events import CancelRequested, ConnectionLost, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Outcome,
    Party,
    RequestId,
    StateId,
)
from rota.node.explanation import (
    MEANINGS,
    Explanation,
    Missing,
    explain_at_coordinator,
    explain_at_sender,
    explain_deployment,
)
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    OutcomesFinal,
    RoundDispatched,
    RoundSubmitted,
    TransitionSigned,
)
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.listing import Listing
from rota.sequencer.round import endorsers_missing
from rota.sequencer.sender_transaction import State as SenderSide
from rota.sequencer.sender_transaction_events import GivenUp
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
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
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    IntentAnswer,
    ListedIntent,
    MissingEndorser,
    Rejection,
    Snapshot,
    SubmittedIntent,
    TransactionDispatched,
    VerifierResponse,
)
from tests.directory.deployment_bench import ID, DeploymentBench
from tests.sequencer.kit import (
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    contract,
    digest_of,
    intent,
    intent_id,
    permission_of,
    transition,
)

B1, B2, C1 = intent_id("B-1"), intent_id("B-2"), intent_id("C-1")
ASKED = RequestId(1, 50)
LEAF = transition("B-1").leaf


# The sender's word: B sends, A leads range 0.


def at_sender(bench: Bench, of: IntentId = B1) -> Explanation:
    found = explain_at_sender(bench.sequencer, of)
    assert found is not None
    return found


def expect_sender(bench: Bench, state: SenderSide, waits_for: str, *who: NodeName) -> None:
    found = at_sender(bench)
    assert (found.state, found.waits_for, found.who) == (state.value, waits_for, who)


def pending(depends_on: tuple[IntentId, ...] = (), parties: tuple[Party, ...] = ()) -> Bench:
    bench = Bench(node=B)
    bench.submit("B-1", depends_on=depends_on, parties=parties)
    return bench


def delegated() -> Bench:
    bench = pending()
    answer_delegation(bench, Answer.ACCEPTED)
    return bench


def answer_delegation(bench: Bench, answer: Answer) -> None:
    (command,) = bench.said(DelegationCommand, A)
    accepted = DelegationAccepted(command.command_id, (IntentAnswer(B1, answer),), HeartbeatNumber(1, 1))
    bench.hear(A, accepted)


def assembling() -> Bench:
    bench = delegated()
    bench.hear(A, AssembleRequest(ASKED, (B1,), Snapshot()))
    return bench


def signing() -> Bench:
    bench = assembling()
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.ASSEMBLED, transition("B-1", signature=b"")))
    return bench


def gathering() -> Bench:
    bench = signing()
    bench.tell(TransitionSigned(ASKED, B1, b"signed"))
    bench.write_leaves()
    return bench


def prepared() -> Bench:
    bench = gathering()
    number = bench.sequencer.sender.transactions[B1].number
    item = DispatchItem(B1, number, LEAF, b"signed", GENESIS_S + 600)
    bench.hear(A, DispatchConfirmationRequest(ASKED, digest_of(LEAF), (item,)))
    bench.write()
    return bench


def dispatched() -> Bench:
    """A restarted sender that is told that its permitted leaf was dispatched, but not yet by whom and how."""
    permission = permission_of(DelegationNumber(1, 1), A, transition("B-1"))
    stored = StoredContract((Restored(intent("B-1"), permission=permission),))
    bench = Bench(node=B, stored=stored, incarnation=2)
    bench.tell(Tick())
    answer_delegation(bench, Answer.DISPATCHED)
    return bench


def listed(submission_count: int) -> Bench:
    bench = prepared()
    told = (SubmittedIntent(B1, LEAF, "A", 0, submission_count),)
    bench.hear(A, TransactionDispatched(digest_of(LEAF), told))
    return bench


def committed() -> LedgerOutcome:
    return LedgerOutcome(B1, LEAF, digest_of(LEAF), LedgerStatus.COMMITTED)


def test_intent_that_is_not_under_way_is_not_explained() -> None:
    assert explain_at_sender(Bench().sequencer, B1) is None
    assert explain_at_coordinator(Bench().sequencer, B1) is None


def test_pending_names_what_it_depends_on() -> None:
    others = (intent_id("B-8"), intent_id("B-9"))
    names = ", ".join(str(UUID(bytes=other)) for other in others)
    expect_sender(pending(depends_on=others), SenderSide.PENDING, f"what it depends on to be confirmed: {names}")


def test_pending_names_parties_without_verifiers_and_their_nodes_once() -> None:
    parties = (Party("carol@C"), Party("alice@A"), Party("chris@C"))
    bench = pending(parties=parties)
    expect_sender(bench, SenderSide.PENDING, "verifiers of carol@C, alice@A, chris@C", C, A)
    request_id = bench.sequencer.sender.parties.resolving[Party("carol@C")]
    bench.hear(C, VerifierResponse(request_id, Party("carol@C"), "0xkey"))
    expect_sender(bench, SenderSide.PENDING, "verifiers of alice@A, chris@C", A, C)


def test_pending_names_the_pause_and_the_failure_before_it() -> None:
    bench = assembling()
    bench.tell(AssemblyFailed(ASKED, B1, "no memory"))
    expect_sender(bench, SenderSide.PENDING, "a pause after a failure to end (no memory)")
    bench.wait(bench.config.retry_backoff_ms)
    assert at_sender(bench).waits_for == "its delegation to be accepted"


def test_pending_names_whom_it_is_being_delegated_to() -> None:
    expect_sender(pending(), SenderSide.PENDING, "its delegation to be accepted", A)


def test_pending_names_why_its_delegation_was_not_accepted() -> None:
    bench = pending()
    (command,) = bench.said(DelegationCommand, A)
    bench.hear(A, DelegationRejected(command.command_id, Rejection.MISMATCHED_BLOCK_HEIGHT, 0, 0))
    waits_for = "its delegation to be accepted (A answered MismatchedBlockHeight)"
    expect_sender(bench, SenderSide.PENDING, waits_for, A)


def test_pending_says_when_nobody_can_be_reached() -> None:
    bench = Bench(node=B, of=contract(A))
    bench.tell(ConnectionLost(A))
    bench.submit("B-1")
    waits_for = "its delegation to be accepted (no member of the committee can be reached)"
    expect_sender(bench, SenderSide.PENDING, waits_for)


def test_delegated_waits_for_its_coordinator_to_ask() -> None:
    expect_sender(delegated(), SenderSide.DELEGATED, "its coordinator to ask for its assembly", A)


def test_assembling_waits_for_our_own_domain() -> None:
    expect_sender(assembling(), SenderSide.ASSEMBLING, "the domain to assemble it", B)


def test_signing_waits_for_its_party() -> None:
    expect_sender(signing(), SenderSide.SIGNING, "a@B to sign it", B)


def test_endorsement_gathering_waits_for_its_coordinator() -> None:
    waits_for = "its coordinator to gather endorsements and ask for permission"
    expect_sender(gathering(), SenderSide.ENDORSEMENT_GATHERING, waits_for, A)


def beat_with(bench: Bench, sequence: int, *missing: MissingEndorser) -> None:
    """A's heartbeat lists our intent, and says which endorsers are missing."""
    listing = Listing()
    listing.apply((ListedIntent(B1, "Endorsement_Gathering"),), ())
    entries = tuple(ListedIntent(each, state) for each, state in listing.states.items())
    number, active = HeartbeatNumber(1, sequence), CoordinatorState.ACTIVE
    bench.hear(A, CoordinatorHeartbeat(number, active, entries, count=1, digest=listing.digest, missing=missing))


def test_sender_names_the_missing_endorser_since_when_and_what_it_answered_by_its_coordinators_word() -> None:
    bench = gathering()
    bench.wait(100)
    told = MissingEndorser(C, 40, "No\x1b\nLedger" + "!" * 100)
    beat_with(bench, 9, told, MissingEndorser(NodeName("Z"), 1, "no"))
    waits_for = "its coordinator to gather endorsements (not from C yet) and ask for permission"
    expect_sender(bench, SenderSide.ENDORSEMENT_GATHERING, waits_for, C)
    found = explain_at_sender(bench.sequencer, B1)
    assert found is not None
    said = ("NoLedger" + "!" * 100)[:80]
    assert found.missing == (Missing(C, bench.now_ms - 40, said, A),), "Z endorses nothing here"
    beat_with(bench, 10, MissingEndorser(C, 10**9))
    found = explain_at_sender(bench.sequencer, B1)
    assert found is not None
    assert [each.since_ms for each in found.missing] == [found.since_ms], "not before it began"
    beat_with(bench, 11)
    expect_sender(bench, SenderSide.ENDORSEMENT_GATHERING, waits_for.replace(" (not from C yet)", ""), A)


def test_coordinator_tells_each_sender_which_endorsers_its_rounds_lack_after_a_while() -> None:
    bench = gathered()
    endorse(bench, B)
    (request,) = bench.said(EndorsementRequest, C)[-1:]
    bench.hear(C, EndorsementError(request.request_id, Rejection.NO_LEDGER))
    bench.wait(bench.config.request_timeout_ms)
    assert {each.missing for each in bench.said(CoordinatorHeartbeat, B)} == {()}
    bench.forget()
    bench.wait(2 * bench.config.heartbeat_ms)
    told = bench.said(CoordinatorHeartbeat, B)[-1]
    assert [(each.endorser, each.said) for each in told.missing] == [(C, "NoLedger")]
    assert told.missing[0].age_ms > bench.config.request_timeout_ms
    found = explain_at_coordinator(bench.sequencer, B1)
    assert found is not None
    assert [(each.endorser, each.said, each.told_by) for each in found.missing] == [(C, "NoLedger", A)]


def test_prepared_waits_for_its_coordinator_to_dispatch() -> None:
    expect_sender(prepared(), SenderSide.PREPARED, "its coordinator to dispatch it", A)


def test_dispatched_waits_for_the_ledger() -> None:
    expect_sender(dispatched(), SenderSide.DISPATCHED, "the ledger", A)


@pytest.mark.parametrize(("count", "state"), [(0, SenderSide.SEQUENCED), (1, SenderSide.SUBMITTED)])
def test_sequenced_and_submitted_wait_for_the_ledger(count: int, state: SenderSide) -> None:
    expect_sender(listed(count), state, "the ledger", A)


def test_cancelled_intent_is_delegated_again_and_reports_why_it_ends() -> None:
    bench = gathering()
    bench.tell(CancelRequested("user", B1))
    expect_sender(bench, SenderSide.PENDING, "its delegation to be accepted", A)
    assert at_sender(bench).detail == "ending: cancelled"


def test_ending_reports_until_when_it_waits_and_why_it_cannot_be_voided() -> None:
    bench = gathering()
    bench.tell(CancelRequested("user", B1))
    bench.sequencer.sender.transactions[B1].receiver.handle(GivenUp("against the rules"))
    until = f"chain time {GENESIS_S + 600}, when no version of it is valid"
    expect_sender(bench, SenderSide.ENDING, f"{until} (it cannot be voided: against the rules)")
    assert at_sender(bench).detail == "ending: cancelled"


def test_reverted_is_explained_by_its_receipt_in_the_step_that_records_it() -> None:
    bench = assembling()
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.REVERTED, reason="no money"))
    assert explain_at_sender(bench.sequencer, B1) is None
    (report,) = bench.take(ReportReceipt)
    assert (report.receipt.outcome, report.receipt.reason) == (Outcome.REVERTED, "no money")


def test_parked_waits_for_its_user_and_names_the_reason() -> None:
    bench = assembling()
    bench.tell(AssemblyFinished(ASKED, B1, AssemblyOutcome.PARKED, reason="needs a signature"))
    expect_sender(bench, SenderSide.PARKED, "its user to resume it (needs a signature)")


def test_confirmed_waits_for_its_block_to_become_final() -> None:
    bench = delegated()
    bench.signed(transition("B-1"))
    bench.block(1, committed())
    expect_sender(bench, SenderSide.CONFIRMED, "its block to become final")
    bench.tell(OutcomesFinal(GENESIS_S, (committed(),)))
    assert explain_at_sender(bench.sequencer, B1) is None


def test_intent_whose_id_another_leaf_uses_waits_for_a_member_to_show_it() -> None:
    bench = delegated()
    bench.block(1, committed())
    expect_sender(bench, SenderSide.ID_USED, "a member to show whose transition uses its id on the chain", A, C)


def test_sender_tells_since_when_and_by_which_way_it_came() -> None:
    bench = Bench(node=B)
    bench.now_ms = 100
    bench.submit("B-1")
    bench.now_ms = 250
    answer_delegation(bench, Answer.ACCEPTED)
    found = at_sender(bench)
    assert found.since_ms == 250
    assert found.history == ((100, "Pending"), (250, "Delegated"))


def test_history_is_bounded_and_keeps_the_latest() -> None:
    bench = Bench(node=B, config=Config(history_max=1))
    bench.submit("B-1")
    answer_delegation(bench, Answer.ACCEPTED)
    assert at_sender(bench).history == ((0, "Delegated"),)


# The coordinator's word: A coordinates, B and C endorse.


def coordinator(**options: object) -> Bench:
    of = contract(A, mode=Mode.STATIC, endorsers=(B, C))
    return Bench(of=of, config=Config(**options))  # type: ignore[arg-type]


def delegate(bench: Bench, name: str) -> None:
    node = NodeName(name[0])
    bench.hear(node, DelegationCommand(ASKED, (Delegation(intent(name), DelegationNumber(1, 1)),)))


def assemble(bench: Bench, name: str, *inputs: StateId) -> None:
    node = NodeName(name[0])
    request = bench.said(AssembleRequest, node)[-1]
    made = transition(name, *inputs)
    result = AssemblyResult(intent_id(name), AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)
    bench.hear(node, AssembleResponse(request.request_id, (result,)))


def endorse(bench: Bench, *nodes: NodeName) -> None:
    """These endorsers sign the round that was opened last."""
    for node in nodes:
        request = bench.said(EndorsementRequest, node)[-1]
        bench.hear(node, EndorsementResponse(request.request_id, request.digest, b"signature"))


def permit(bench: Bench, node: NodeName, *intents: IntentId) -> None:
    request = bench.said(DispatchConfirmationRequest, node)[-1]
    bench.hear(node, DispatchConfirmationResponse(request.request_id, intents))


def expect_coordinator(bench: Bench, of: IntentId, state: CoordinatorSide, waits_for: str, *who: NodeName) -> None:
    found = explain_at_coordinator(bench.sequencer, of)
    assert found is not None
    assert (found.state, found.waits_for, found.who) == (state.value, waits_for, who)


def gathered() -> Bench:
    bench = coordinator()
    delegate(bench, "B-1")
    assemble(bench, "B-1")
    return bench


def ready() -> Bench:
    bench = gathered()
    endorse(bench, B, C)
    permit(bench, B, B1)
    return bench


def test_pooled_waits_for_its_sender_turn_and_names_the_coordinator_state() -> None:
    bench = coordinator()
    delegate(bench, "B-1")
    delegate(bench, "C-1")
    expect_coordinator(bench, C1, CoordinatorSide.POOLED, "the turn of C in assembly, as Active")


def test_preassembly_blocked_names_whose_assembly_it_waits_for() -> None:
    bench = coordinator()
    delegate(bench, "B-1")
    delegate(bench, "B-2")
    expect_coordinator(bench, B2, CoordinatorSide.PREASSEMBLY_BLOCKED, f"the assembly of {UUID(bytes=B1)}")


def test_assembling_names_its_sender() -> None:
    bench = coordinator()
    delegate(bench, "B-1")
    expect_coordinator(bench, B1, CoordinatorSide.ASSEMBLING, "its sender to assemble it", B)


def test_endorsement_gathering_names_the_endorsers_that_are_missing() -> None:
    bench = gathered()
    expect_coordinator(bench, B1, CoordinatorSide.ENDORSEMENT_GATHERING, "endorsements, 0 so far", B, C)
    endorse(bench, B)
    expect_coordinator(bench, B1, CoordinatorSide.ENDORSEMENT_GATHERING, "endorsements, 1 so far", C)


def test_endorsement_gathering_without_a_round_waits_for_one() -> None:
    bench = coordinator(rounds_open_max=1)
    delegate(bench, "B-1")
    assemble(bench, "B-1")
    delegate(bench, "C-1")
    assemble(bench, "C-1")
    expect_coordinator(bench, C1, CoordinatorSide.ENDORSEMENT_GATHERING, "a round to open")


def test_blocked_waits_for_what_it_stands_on() -> None:
    bench = gathered()
    delegate(bench, "C-1")
    assemble(bench, "C-1", StateId(Leaf(LEAF), 0))
    endorse(bench, B, C)
    expect_coordinator(bench, C1, CoordinatorSide.BLOCKED, "what it stands on to be ready for dispatch")


def test_confirming_dispatch_names_its_sender() -> None:
    bench = gathered()
    endorse(bench, B, C)
    expect_coordinator(bench, B1, CoordinatorSide.CONFIRMING_DISPATCH, "its sender's permission", B)


def test_ready_for_dispatch_waits_for_us() -> None:
    expect_coordinator(ready(), B1, CoordinatorSide.READY_FOR_DISPATCH, "its round to be dispatched", A)


def test_dispatched_and_submitted_wait_for_the_ledger_at_the_coordinator_too() -> None:
    bench = ready()
    digest = digest_of(LEAF)
    bench.tell(RoundDispatched(digest, "A", 0))
    expect_coordinator(bench, B1, CoordinatorSide.DISPATCHED, "the ledger")
    bench.tell(RoundSubmitted(digest, 1))
    expect_coordinator(bench, B1, CoordinatorSide.SUBMITTED, "the ledger")
    found = explain_at_coordinator(bench.sequencer, B1)
    assert found is not None
    assert found.detail == "nonce 0 of A, submissions: 1"


def test_what_has_ended_waits_for_nothing_until_it_is_forgotten() -> None:
    bench = ready()
    bench.block(1, committed())
    expect_coordinator(bench, B1, CoordinatorSide.CONFIRMED, "")
    bench.wait(bench.config.heartbeat_ms)
    assert explain_at_coordinator(bench.sequencer, B1) is None


def test_coordinator_tells_since_when() -> None:
    bench = coordinator()
    delegate(bench, "B-1")
    bench.now_ms = 400
    assemble(bench, "B-1")
    found = explain_at_coordinator(bench.sequencer, B1)
    assert found is not None
    assert found.since_ms == 400


def test_dispatched_intent_names_its_place_in_line() -> None:
    assert at_sender(gathering()).detail == ""
    assert at_sender(listed(1)).detail == "nonce 0 of A"


def test_repeated_requests_and_the_objections_of_the_missing_are_told() -> None:
    bench = gathered()
    bench.wait(bench.config.request_timeout_ms)
    asked = bench.said(EndorsementRequest, C)[-1]
    bench.hear(C, EndorsementError(asked.request_id, Rejection.MISMATCHED_BLOCK_HEIGHT))
    found = explain_at_coordinator(bench.sequencer, B1)
    assert found is not None
    assert found.detail == "repeated requests: 1, C answered MismatchedBlockHeight"


@pytest.mark.parametrize("machine", [SenderSide, CoordinatorSide, DeploymentState, PublicState, Outcome])
def test_every_state_that_a_transaction_can_be_in_has_a_meaning_in_words(machine: type[Enum]) -> None:
    for state in machine:
        assert len(MEANINGS[state].split()) > 2, state


def test_no_meaning_is_of_a_state_that_there_is_not() -> None:
    assert set(MEANINGS) == {*SenderSide, *CoordinatorSide, *DeploymentState, *PublicState, *Outcome}


@pytest.mark.parametrize("state", list(SenderSide))
def test_the_sender_says_in_every_state_what_is_awaited(state: SenderSide) -> None:
    bench = delegated()
    bench.sequencer.sender.transactions[B1].state = state
    found = at_sender(bench)
    assert (found.state, found.meaning) == (state.value, MEANINGS[state])
    assert found.waits_for
    assert found.history


@pytest.mark.parametrize("state", list(CoordinatorSide))
def test_the_coordinator_says_in_every_state_what_is_awaited(state: CoordinatorSide) -> None:
    bench = gathered()
    bench.sequencer.coordinator.transactions[B1].state = state
    found = explain_at_coordinator(bench.sequencer, B1)
    assert found is not None
    assert (found.state, found.meaning) == (state.value, MEANINGS[state])
    has_ended = state in (CoordinatorSide.CONFIRMED, CoordinatorSide.REVERTED, CoordinatorSide.FINAL)
    assert bool(found.waits_for) is not has_ended
    assert [text for _, text in found.history] == ["Pooled", "Assembling", "Endorsement_Gathering"]


@pytest.mark.parametrize("state", list(DeploymentState))
def test_a_deployment_says_in_every_state_what_is_awaited(state: DeploymentState) -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.node.deployments.own[ID].state = state
    found = explain_deployment(bench.node.deployments.own[ID])
    assert (found.state, found.meaning) == (state.value, MEANINGS[state])
    assert found.waits_for
    assert found.history


def test_missing_endorser_is_reported_to_the_senders_of_its_round_alone() -> None:
    bench = gathered()
    rounds = bench.sequencer.coordinator.rounds.rounds.values()
    assert endorsers_missing(rounds, B, bench.now_ms + 1, 0)
    assert endorsers_missing(rounds, NodeName("D"), bench.now_ms + 1, 0) == ()
