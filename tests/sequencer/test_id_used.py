"""Only a leaf that its party signed confirms an intent; the id may be used by another (trust rules 1 and 4).

A sends, and at height 400 B leads, as in `test_sender_transaction.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.exchange.effects import StatesReceived
from rota.machine.effects import FindStates, IntentFinalised, Persist, ReplyToUser, ReportReceipt
from rota.machine.events import CancelRequested, ResumeRequested, Tick
from rota.machine.pacing import VERIFIED_TIMES_MAX
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import void_leaf
from rota.model.types import (
    INTENT_ID_USED,
    DelegationNumber,
    Digest,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    StateId,
    Transition,
)
from rota.node.events import StatesFound
from rota.sequencer.effects import EndingDecided, LeavesSigned, TransitionIssued, VerifySignature
from rota.sequencer.events import (
    AssemblyFinished,
    BlocksRemoved,
    OutcomesFinal,
    SignatureVerified,
    TransitionSigned,
    TransitionsShown,
)
from rota.sequencer.sender_transaction import State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.sequencer.versions import VERSIONS_MAX
from rota.wire.messages import (
    AssembleError,
    AssembleResponse,
    AssemblyOutcome,
    DispatchConfirmationRequest,
    DispatchItem,
    ErrorCode,
    PreparedTransaction,
    StateDistribution,
    StateDistributionAcknowledgement,
    StateRequest,
)
from tests.node import node_bench
from tests.sequencer import test_prepared as p
from tests.sequencer import test_sender_transaction as x
from tests.sequencer import test_voiding as v
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    SEPARATOR,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent,
    intent_id,
    prepared_transition,
    signed_leaf,
    transition,
    void_transition,
)

OURS = transition("A-1", version=7)
GRACE_MS = Config().id_used_grace_ms


def committed(made: Transition = OURS) -> LedgerOutcome:
    return LedgerOutcome(x.ID, made.leaf, digest_of(made.leaf), LedgerStatus.COMMITTED)


def used(way: Callable[[], Bench] = x.prepared, *, is_final: bool = False) -> Bench:
    """The chain has a leaf under the intent's id of which the sender has no record."""
    bench = way()
    bench.forget()
    bench.block(x.HEIGHT + 1, committed())
    if is_final:
        bench.tell(OutcomesFinal(GENESIS_S, (committed(),)))
    return bench


def show(bench: Bench, peer: NodeName = B, made: Transition = OURS) -> list[VerifySignature]:
    """A member sends a transition; what is asked of the key store."""
    bench.tell(TransitionsShown(peer, (Consistent(made),)))
    return bench.take(VerifySignature)


def judge(bench: Bench, asked: VerifySignature, *, is_ours: bool) -> None:
    bench.tell(SignatureVerified(asked.request_id, asked.intent, is_ours))


def receipts(bench: Bench) -> list[Receipt]:
    return [report.receipt for report in bench.take(ReportReceipt)]


def version(number: int, made_at_s: int = GENESIS_S) -> Authorised:
    return transition("A-1", version=number, valid_until_s=made_at_s + 600)


# Another leaf under our id.


@pytest.mark.parametrize("way", [x.pending, x.delegated, x.assembling, x.assembled, x.prepared, x.submitted, x.parked])
def test_commit_under_our_id_of_a_leaf_that_we_never_signed_does_not_confirm(way: Callable[[], Bench]) -> None:
    bench = used(way, is_final=True)
    assert x.state(bench) is State.ID_USED
    bench.wait(GRACE_MS - 1)
    assert x.state(bench) is State.ID_USED
    assert receipts(bench) == []
    bench.wait(bench.config.request_timeout_ms)
    (receipt,) = receipts(bench)
    assert (receipt.outcome, receipt.code, receipt.leaf) == (Outcome.REVERTED, INTENT_ID_USED, OURS.leaf)
    assert receipt.reason.startswith(f"{INTENT_ID_USED}: a transition that a@A is not known to have signed")
    assert x.records(bench) == [IntentFinalised(receipt)]
    assert bench.sequencer.sender.transactions == {}


def test_nothing_ends_while_the_block_that_uses_the_id_is_not_final() -> None:
    bench = used()
    bench.wait(2 * GRACE_MS)
    assert x.state(bench) is State.ID_USED
    bench.tell(OutcomesFinal(GENESIS_S, (committed(),)))
    bench.wait(GRACE_MS - 1)
    assert x.state(bench) is State.ID_USED
    assert receipts(bench) == []
    bench.wait(bench.config.request_timeout_ms)
    assert [(receipt.outcome, receipt.code) for receipt in receipts(bench)] == [(Outcome.REVERTED, INTENT_ID_USED)]
    assert not x.is_known(bench)


def test_own_store_and_every_member_are_asked_for_the_leaf_until_it_ends() -> None:
    bench = used(is_final=True)
    assert bench.take(FindStates) == [FindStates(ADDRESS, A, (OURS.leaf,))]
    assert bench.said(StateRequest, A) == []
    for peer in (B, C):
        assert bench.said(StateRequest, peer) == [StateRequest((OURS.leaf,))]
    bench.forget()
    bench.wait(bench.config.request_timeout_ms)
    assert len(bench.take(FindStates)) == 1
    assert bench.said(StateRequest, C) == [StateRequest((OURS.leaf,))]


def test_leaf_that_a_member_shows_with_our_signature_is_recorded_and_confirms_in_one_step() -> None:
    bench = used(is_final=True)
    (asked,) = show(bench)
    assert (asked.party, asked.leaf, asked.valid_until_s) == ("a@A", OURS.leaf, OURS.valid_until_s)
    bench.forget()
    effects = bench.tell(SignatureVerified(asked.request_id, asked.intent, is_ours=True))
    assert effects[0] == Persist(ADDRESS, (LeavesSigned((OURS,)),))
    assert x.records(bench) == [LeavesSigned((OURS,))]
    assert bench.take(ReportReceipt) == [ReportReceipt(Receipt(x.ID, Outcome.CONFIRMED, leaf=OURS.leaf))]
    bench.wait(2 * GRACE_MS)
    assert bench.take(ReportReceipt) == []


def test_leaf_that_is_shown_before_its_block_is_final_is_confirmed_and_reported_when_it_is() -> None:
    bench = used()
    (asked,) = show(bench)
    judge(bench, asked, is_ours=True)
    assert x.state(bench) is State.CONFIRMED
    assert x.machine(bench).versions[OURS.leaf] == OURS.valid_until_s
    assert bench.take(ReportReceipt) == []
    bench.tell(OutcomesFinal(GENESIS_S, (committed(),)))
    assert [report.receipt.outcome for report in bench.take(ReportReceipt)] == [Outcome.CONFIRMED]


def test_leaf_that_a_member_shows_without_our_signature_does_not_confirm() -> None:
    bench = used(is_final=True)
    (asked,) = show(bench)
    judge(bench, asked, is_ours=False)
    assert x.records(bench) == []
    assert x.state(bench) is State.ID_USED
    bench.wait(GRACE_MS + bench.config.request_timeout_ms)
    (receipt,) = receipts(bench)
    assert receipt.code == INTENT_ID_USED


def test_liar_who_shows_the_leaf_with_a_false_signature_displaces_nobody_elses() -> None:
    bench = used(is_final=True)
    (honest,) = show(bench, C)
    (false,) = show(bench, B, replace(OURS, signature=b"forged"))
    assert show(bench, B, replace(OURS, signature=b"forged again")) == [], "one of each member at a time"
    judge(bench, false, is_ours=False)
    judge(bench, honest, is_ours=True)
    assert [report.receipt.outcome for report in bench.take(ReportReceipt)] == [Outcome.CONFIRMED]


@pytest.mark.parametrize(
    "other",
    [transition("A-1", version=8), replace(OURS, intent=intent_id("A-2"))],
    ids=["another leaf", "another intent"],
)
def test_what_is_shown_and_was_not_asked_for_is_not_verified(other: Transition) -> None:
    bench = used()
    assert show(bench, made=other) == []
    assert x.state(bench) is State.ID_USED


def test_member_that_shows_a_false_signature_again_and_again_has_few_verified_and_the_intent_ends() -> None:
    """The attack: something that it showed was being verified whenever the end was due."""
    bench = used(is_final=True)
    for _ in range(GRACE_MS // bench.config.request_timeout_ms + 1):
        verified = 0
        for _ in range(4 * VERIFIED_TIMES_MAX):
            for asked in show(bench):
                verified += 1
                judge(bench, asked, is_ours=False)
        assert verified <= 2 * VERIFIED_TIMES_MAX
        bench.wait(bench.config.request_timeout_ms)
    assert [receipt.code for receipt in receipts(bench)] == [INTENT_ID_USED]


def test_leaf_that_a_restarted_sender_verified_and_permitted_confirms_the_intent() -> None:
    bench = x.restarted()
    x.accept(bench)
    x.ask_permission(bench, 20, with_states=True)
    x.verified(bench, 20)
    bench.block(x.HEIGHT + 1, x.outcome())
    assert x.state(bench) is State.CONFIRMED


def test_verified_leaf_of_another_version_does_not_confirm_the_one_on_the_chain() -> None:
    bench = x.restarted()
    x.accept(bench)
    x.ask_permission(bench, 20, with_states=True)
    x.verified(bench, 20)
    bench.block(x.HEIGHT + 1, committed())
    assert x.state(bench) is State.ID_USED


def test_inquiry_does_not_end_while_a_leaf_that_was_shown_is_looked_at() -> None:
    """Else the intent would be reported as reverted, although a version that its party signed is on the chain."""
    bench = used(is_final=True)
    bench.wait(GRACE_MS - 1)
    show(bench)
    bench.wait(1)
    assert x.state(bench) is State.ID_USED
    (asked,) = show(bench)
    judge(bench, asked, is_ours=True)
    assert [receipt.outcome for receipt in receipts(bench)] == [Outcome.CONFIRMED]
    bench.wait(GRACE_MS + bench.config.request_timeout_ms)
    assert receipts(bench) == []


# What users and coordinators may ask of it meanwhile.


def test_intent_whose_id_is_used_is_neither_cancelled_nor_resumed_nor_permitted_nor_assembled() -> None:
    bench = used()
    bench.tell(CancelRequested("user", x.ID))
    bench.tell(ResumeRequested("user", x.ID))
    x.ask_permission(bench, 21)
    x.ask_assembly(bench, 11)
    assert x.state(bench) is State.ID_USED
    assert x.refusals(bench) == [ErrorCode.FINAL_INTENT]
    (error,) = bench.said(AssembleError, B)
    assert error.errors[0].code is ErrorCode.FINAL_INTENT


def test_prepared_transition_of_an_intent_whose_id_is_used_is_declined() -> None:
    bench = used(p.assembled)
    bench.hear(B, p.prepared(), height=x.HEIGHT)
    assert p.acknowledged(bench) == 1
    assert x.machine(bench).issued is None


def test_issued_transition_of_an_intent_whose_id_another_leaf_uses_stays_issued() -> None:
    bench = p.issued()
    bench.block(x.HEIGHT + 1, committed())
    assert x.state(bench) is State.ID_USED
    assert x.machine(bench).issued == p.prepared()


def test_cancelled_intent_whose_id_another_leaf_uses_keeps_its_decision() -> None:
    bench = x.assembled()
    bench.forget()
    bench.tell(CancelRequested("user", x.ID))
    assert bench.take(ReplyToUser) == [ReplyToUser("user", x.ID)]
    bench.block(x.HEIGHT + 1, committed())
    assert x.state(bench) is State.ID_USED
    assert x.machine(bench).ending_reason == "cancelled"
    assert x.records(bench) == [EndingDecided(x.ID, "cancelled")]


# The empty leaf, whoever brought it.


@pytest.mark.parametrize("way", [x.pending, x.prepared, x.submitted, x.parked])
def test_empty_leaf_that_another_brought_reverts_the_intent_safely(way: Callable[[], Bench]) -> None:
    bench = way()
    void = void_transition("A-1")
    bench.block(x.HEIGHT + 1, committed(void))
    assert x.state(bench) is State.CONFIRMED
    bench.tell(OutcomesFinal(GENESIS_S, (committed(void),)))
    assert receipts(bench) == [Receipt(x.ID, Outcome.REVERTED, "voided on the chain")]


def test_restored_intent_that_another_voided_without_a_decided_end_is_reverted() -> None:
    found = Restored(intent("A-1"), was_voided=True)
    bench = Bench(height=x.HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    assert receipts(bench) == [Receipt(x.ID, Outcome.REVERTED, "voided on the chain")]


# Reorganisations and restarts.


@pytest.mark.parametrize(
    ("way", "goes_on"),
    [
        (x.pending, State.PENDING),
        (x.submitted, State.PENDING),
        (v.voiding, State.PENDING),
        (v.ending, State.ENDING),
        (p.issued, State.ISSUED),
    ],
    ids=["pending", "submitted", "voiding", "ending", "issued"],
)
def test_reorganisation_undoes_the_use_of_an_id(way: Callable[[], Bench], goes_on: State) -> None:
    bench = way()
    is_voiding = x.machine(bench).is_voiding
    bench.block(x.HEIGHT + 1, committed())
    assert x.state(bench) is State.ID_USED
    asked = show(bench)
    bench.tell(BlocksRemoved(x.HEIGHT, (committed(),)))
    assert x.state(bench) is goes_on
    assert x.machine(bench).confirmed_leaf is None
    for each in asked:
        judge(bench, each, is_ours=True)
    bench.forget()
    bench.wait(bench.config.request_timeout_ms)
    assert bench.take(FindStates) == []
    assert x.state(bench) is goes_on
    assert x.machine(bench).is_voiding is is_voiding
    assert bench.sequencer.sender.doubtful == {}


def test_restarted_sender_asks_again_whose_leaf_uses_the_id_and_ends_after_the_grace() -> None:
    waiting = intent("A-1", depends_on=(intent_id("X-1"),))
    found = Restored(waiting, used_leaf=OURS.leaf)
    bench = Bench(height=x.HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    assert x.state(bench) is State.ID_USED
    assert bench.take(FindStates) == [FindStates(ADDRESS, A, (OURS.leaf,))]
    bench.wait(GRACE_MS + bench.config.request_timeout_ms)
    (receipt,) = receipts(bench)
    assert (receipt.code, receipt.leaf) == (INTENT_ID_USED, OURS.leaf)


# In the node: our own store, and what members send.


def node_with_used_id() -> tuple[node_bench.NodeBench, Transition]:
    bench = node_bench.NodeBench(contracts=(replace(contract(A, B, C), address=ADDRESS),))
    bench.submit("A-1")
    made = transition("A-1", version=7)
    bench.block((ADDRESS, committed(made)))
    assert bench.sender_state(x.ID) is State.ID_USED
    return bench, made


def test_own_store_that_has_the_transition_shows_it() -> None:
    bench, made = node_with_used_id()
    bench.tell(StatesFound(ADDRESS, A, Digest(made.leaf), (made,)))
    assert [asked.leaf for asked in bench.all(VerifySignature)] == [made.leaf]
    assert bench.said(StateDistribution, A) == []


def test_inconsistent_transition_of_our_own_store_is_not_shown() -> None:
    bench, made = node_with_used_id()
    bench.tell(StatesFound(ADDRESS, A, Digest(made.leaf), (replace(made, info=(b"i" * 32,)),)))
    bench.tell(StatesFound(node_bench.NOWHERE, A, Digest(made.leaf), (made,)))
    assert bench.all(VerifySignature) == []


def test_states_that_a_member_sends_show_the_leaf_and_are_stored() -> None:
    bench, made = node_with_used_id()
    bench.hear(C, StateDistribution(Digest(made.leaf), (made,)))
    (asked,) = bench.all(VerifySignature)
    assert asked.leaf == made.leaf
    assert bench.records(StatesReceived) == [StatesReceived(Digest(made.leaf), (Consistent(made),), peer=C)]


def test_endorser_keeps_what_it_has_seen_of_a_leaf_that_is_not_ours() -> None:
    bench = x.pending()
    bench.sequencer.endorser.seen.note(OURS, A)
    bench.block(x.HEIGHT + 1, committed())
    assert bench.sequencer.endorser.seen.find((OURS.leaf,)) == (OURS,)


# A leaf is recorded in the step in which it leaves.


def signing() -> Bench:
    """The party has signed, and B has its answer."""
    bench = x.assembling()
    bench.forget()
    made = transition("A-1", signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 10), x.ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, 10), x.ID, b"signed"))
    return bench


def test_leaf_is_recorded_once_in_the_step_that_answers_and_copies_get_the_same_answer() -> None:
    bench = x.assembling()
    made = transition("A-1", signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 10), x.ID, AssemblyOutcome.ASSEMBLED, made))
    bench.forget()
    effects = bench.tell(TransitionSigned(RequestId(1, 10), x.ID, b"signed"))
    assert effects[0] == Persist(ADDRESS, (LeavesSigned((transition("A-1"),)),))
    (first,) = bench.said(AssembleResponse, B)
    x.ask_assembly(bench, 10)
    assert bench.said(AssembleResponse, B) == [first, first]
    assert x.records(bench) == [LeavesSigned((transition("A-1"),))]


def test_leaves_of_a_slot_that_replaces_another_are_recorded_too() -> None:
    bench = signing()
    x.ask_assembly(bench, 11)
    bench.forget()
    made = transition("A-1", version=1, signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 11), x.ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, 11), x.ID, b"signed"))
    assert x.records(bench) == [LeavesSigned((transition("A-1", version=1),))]


def test_leaf_that_is_signed_again_keeps_its_latest_bound() -> None:
    bench = x.assembling()
    x.finish_assembly(bench, 10, valid_until_s=GENESIS_S + 900)
    x.ask_assembly(bench, 11)
    x.finish_assembly(bench, 11, valid_until_s=GENESIS_S + 300)
    assert x.machine(bench).versions == {transition("A-1").leaf: GENESIS_S + 900}


def test_expired_versions_are_forgotten() -> None:
    bench = x.assembled()
    x.final_at(bench, x.HEIGHT + 1, GENESIS_S + 601)
    bench.forget()
    x.ask_assembly(bench, 11)
    made = transition("A-1", version=1, valid_until_s=GENESIS_S + 1_201, signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 11), x.ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, 11), x.ID, b"signed"))
    assert list(x.machine(bench).versions) == [made.leaf]


def restarted_with_versions(count: int, signed_at_s: int = GENESIS_S) -> Bench:
    recorded = tuple(version(number, signed_at_s) for number in range(count))
    bench = x.restarted(versions=recorded)
    x.accept(bench)
    bench.forget()
    return bench


def asked_to_assemble(bench: Bench, counter: int) -> bool:
    """Whether a request is taken, not refused."""
    before = len(bench.said(AssembleError, B))
    x.ask_assembly(bench, counter)
    refused = bench.said(AssembleError, B)[before:]
    assert all(error.code is ErrorCode.FAILED for message in refused for error in message.errors)
    return not refused


def test_half_of_the_versions_may_follow_one_another_and_the_rest_are_spaced() -> None:
    assert asked_to_assemble(restarted_with_versions(VERSIONS_MAX // 2 - 1), 10)
    bench = restarted_with_versions(VERSIONS_MAX // 2)
    assert not asked_to_assemble(bench, 10)
    apart_s = bench.config.validity_s // (VERSIONS_MAX // 2)
    bench.block(x.HEIGHT + 1, time_s=GENESIS_S + apart_s - 1)
    assert not asked_to_assemble(bench, 11)
    bench.block(x.HEIGHT + 2, time_s=GENESIS_S + apart_s)
    assert asked_to_assemble(bench, 12)


def test_no_intent_has_more_live_versions_than_are_recorded() -> None:
    bench = restarted_with_versions(VERSIONS_MAX)
    bench.block(x.HEIGHT + 1, time_s=GENESIS_S + 599)
    assert not asked_to_assemble(bench, 10)
    x.final_at(bench, x.HEIGHT + 2, GENESIS_S + 601)
    assert asked_to_assemble(bench, 11)


def test_external_intent_spaces_its_versions_by_the_time_for_which_they_are_valid() -> None:
    recorded = tuple(signed_leaf(prepared_transition("A-1", version=number)) for number in range(VERSIONS_MAX // 2))
    bench = p.restarted(versions=recorded)
    x.accept(bench)
    apart_s = bench.config.prepared_validity_s // (VERSIONS_MAX // 2)
    bench.block(x.HEIGHT + 1, time_s=GENESIS_S + apart_s - 1)
    assert not asked_to_assemble(bench, 10)
    bench.block(x.HEIGHT + 2, time_s=GENESIS_S + apart_s)
    assert asked_to_assemble(bench, 11)


def test_void_is_assembled_however_many_versions_there_are() -> None:
    recorded = tuple(version(number) for number in range(VERSIONS_MAX))
    bench = x.restarted(ending_reason="cancelled", versions=recorded)
    x.accept(bench)
    assert asked_to_assemble(bench, 10)
    assert x.state(bench) is State.SIGNING


# A planted state: what a coordinator sends is not what was signed.

HONEST = transition("A-1")
STATE = HONEST.outputs[0]
PLANTED = [
    replace(HONEST, outputs=(replace(STATE, content=b"a million"),)),
    replace(HONEST, outputs=(replace(STATE, id=StateId(HONEST.leaf, 1)),)),
    replace(HONEST, outputs=(replace(STATE, commitment=b"c" * 32, content=None, distribution=(D,)),)),
    replace(HONEST, intent=intent_id("A-2")),
    replace(HONEST, valid_until_s=HONEST.valid_until_s + 1),
    replace(HONEST, signature=b"another"),
    replace(HONEST, leaf=transition("A-1", version=1).leaf),
    replace(HONEST, outputs=(replace(STATE, content=None),)),
    void_transition("A-1"),
]
KINDS = ["content", "ids", "commitment", "intent", "bound", "signature", "leaf", "without our content", "empty"]


@pytest.mark.parametrize("planted", PLANTED, ids=KINDS)
def test_planted_state_in_a_request_for_permission_grants_and_persists_nothing(planted: Transition) -> None:
    bench = x.restarted()
    x.accept(bench)
    item = DispatchItem(x.ID, x.FIRST, HONEST.leaf, HONEST.signature, HONEST.valid_until_s, planted)
    request = DispatchConfirmationRequest(RequestId(1, 20), digest_of(HONEST.leaf), (item,))
    bench.hear(B, request, height=x.HEIGHT)
    x.verified(bench, 20)
    assert x.refusals(bench) == [ErrorCode.STATES_MISSING]
    assert x.records(bench) == []
    assert x.machine(bench).permission is None
    assert x.state(bench) is State.DELEGATED


def test_empty_leaf_is_permitted_only_to_void() -> None:
    bench = x.restarted()
    x.accept(bench)
    void = void_transition("A-1")
    item = DispatchItem(x.ID, x.FIRST, void.leaf, void.signature, void.valid_until_s)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 20), digest_of(void.leaf), (item,)), height=x.HEIGHT)
    x.verified(bench, 20)
    assert x.records(bench) == []
    assert x.machine(bench).permission is None


MADE = p.MADE
ISSUED_STATE = MADE.outputs[0]


@pytest.mark.parametrize(
    "planted",
    [
        replace(MADE, outputs=(replace(ISSUED_STATE, content=b"a million"),)),
        replace(MADE, outputs=(replace(ISSUED_STATE, id=StateId(MADE.leaf, 1)),)),
        replace(MADE, outputs=(replace(ISSUED_STATE, commitment=b"c" * 32, content=None, distribution=(D,)),)),
        replace(MADE, intent=intent_id("A-2")),
        replace(MADE, outputs=(replace(ISSUED_STATE, content=None),)),
    ],
    ids=["content", "ids", "commitment", "intent", "without our content"],
)
def test_planted_state_in_a_prepared_transaction_issues_and_persists_nothing(planted: Transition) -> None:
    bench = p.restarted()
    x.accept(bench)
    bench.forget()
    sent: PreparedTransaction = replace(p.prepared(), transition=planted)
    bench.hear(B, sent, height=x.HEIGHT)
    assert bench.take(VerifySignature) == []
    assert x.records(bench) == []
    assert x.machine(bench).issued is None


def test_prepared_transaction_of_an_earlier_life_is_recorded_with_its_leaf() -> None:
    bench = p.restarted()
    x.accept(bench)
    bench.forget()
    bench.hear(B, p.prepared(), height=x.HEIGHT)
    (asked,) = bench.take(VerifySignature)
    judge(bench, asked, is_ours=True)
    recorded, issued = x.records(bench)
    assert recorded == LeavesSigned((MADE,))
    assert isinstance(issued, TransitionIssued)


@pytest.mark.parametrize("planted", [PLANTED[0], PLANTED[1], PLANTED[6]], ids=["content", "ids", "leaf"])
def test_planted_state_in_a_distribution_is_neither_stored_nor_acknowledged_nor_shown(planted: Transition) -> None:
    bench, made = node_with_used_id()
    sound = transition("A-1", version=7)
    bench.hear(C, StateDistribution(digest_of(made.leaf), (sound, planted)))
    assert bench.records(StatesReceived) == []
    assert bench.said(StateDistributionAcknowledgement, C) == []
    assert bench.all(VerifySignature) == []


@pytest.mark.parametrize(("is_void", "code"), [(False, INTENT_ID_USED), (True, "")], ids=["another leaf", "empty leaf"])
def test_intent_whose_id_was_used_before_it_was_submitted_ends(is_void: bool, code: str) -> None:
    """Ids count upwards on a page of the chain: enough lying endorsers can burn the next one."""
    bench = Bench(height=x.HEIGHT)
    leaf = void_leaf(SEPARATOR, x.ID) if is_void else Leaf(b"b" * 32)
    outcome = LedgerOutcome(x.ID, leaf, Digest(bytes(32)), LedgerStatus.COMMITTED)
    bench.block(x.HEIGHT + 1, outcome)
    bench.tell(OutcomesFinal(GENESIS_S, (outcome,)))
    bench.submit("A-1")
    bench.wait(bench.config.id_used_grace_ms + bench.config.request_timeout_ms)
    [receipt] = receipts(bench)
    assert (receipt.outcome, receipt.code) == (Outcome.REVERTED, code)


def test_verdict_on_one_leaf_permits_no_other_that_was_asked_for_under_the_same_id() -> None:
    """Two requests in one frame: a leaf that the party signed, and another one that nobody did."""
    true, false = transition("A-1"), transition("A-1", version=666, signature=b"forged", valid_until_s=2**62)
    bench = x.restarted(versions=(true,))
    x.accept(bench)
    for made in (true, false):
        item = DispatchItem(x.ID, DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s, made)
        request = DispatchConfirmationRequest(RequestId(1, 20), digest_of(made.leaf), (item,))
        bench.hear(B, request, height=x.HEIGHT)
    for asked in bench.take(VerifySignature):
        bench.tell(SignatureVerified(asked.request_id, asked.intent, asked.leaf == true.leaf))
    assert not [each for persist in bench.take(Persist) for each in persist.records if isinstance(each, LeavesSigned)]
    assert false.leaf not in x.machine(bench).versions
    assert x.machine(bench).void_after_s < 2**62


def test_permission_is_not_given_for_a_copy_whose_contents_were_taken_out_with_their_lists() -> None:
    """No leaf binds the lists that say who may see what: without the contents our own change would be lost to us."""
    bench = x.restarted()
    x.accept(bench)
    made = transition("A-1")
    stripped = replace(made, outputs=tuple(replace(each, content=None, distribution=(B,)) for each in made.outputs))
    item = DispatchItem(x.ID, DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s, stripped)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 20), digest_of(made.leaf), (item,)), height=x.HEIGHT)
    x.verified(bench, 20)
    assert x.state(bench) is State.DELEGATED
    assert x.refusals(bench) == [ErrorCode.STATES_MISSING]


@pytest.mark.parametrize("is_void", [False, True])
def test_intent_whose_id_was_used_before_ends_only_when_the_block_is_final(is_void: bool) -> None:
    """What a reorganisation may still take back is no outcome: the intent goes on when it does."""
    made = void_transition("A-1") if is_void else OURS
    bench = Bench(height=x.HEIGHT)
    bench.block(x.HEIGHT + 1, committed(made))
    bench.submit("A-1")
    bench.wait(2 * GRACE_MS)
    assert receipts(bench) == []
    bench.tell(BlocksRemoved(x.HEIGHT, (committed(made),)))
    assert not x.machine(bench).is_ended
    bench.block(x.HEIGHT + 1, committed(made))
    bench.tell(OutcomesFinal(GENESIS_S, (committed(made),)))
    bench.wait(2 * GRACE_MS)
    (receipt,) = receipts(bench)
    assert receipt.outcome is Outcome.REVERTED


def test_restarted_sender_of_a_used_id_waits_for_no_dependency_and_no_party() -> None:
    waiting = replace(intent("A-1", depends_on=(intent_id("X-1"),)), parties=(Party("bob@B"),))
    found = Restored(waiting, used_leaf=OURS.leaf)
    bench = Bench(height=x.HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    restored = bench.sequencer.sender.transactions[waiting.id]
    assert x.state(bench) is State.ID_USED
    assert (list(restored.unmet), list(restored.unresolved)) == ([], [])


def test_transitions_that_members_showed_are_forgotten_with_the_block_that_used_the_id() -> None:
    bench = used()
    show(bench)
    transaction = bench.sequencer.sender.transactions[x.ID]
    inquiry = transaction.inquiry
    assert inquiry is not None
    assert bench.sequencer.context.timers.is_set(inquiry, "inquiry")
    bench.tell(BlocksRemoved(x.HEIGHT, (committed(),)))
    assert x.state(bench) is not State.ID_USED
    assert (transaction.inquiry, transaction.receiver) == (None, transaction)
    assert not bench.sequencer.context.timers.is_set(inquiry, "inquiry")
