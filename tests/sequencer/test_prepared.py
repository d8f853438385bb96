"""Prepared transitions at their sender: issued, acknowledged, committed, expired or cancelled (protocol §4.2).

A sends, and at height 400 B leads, C follows, and A itself comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.machine.effects import IntentFinalised, Persist, ReplyToUser, ReportReceipt
from rota.machine.events import CancelRequested, ResumeRequested, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import Digest, Intent, NodeName, Outcome, Party, Receipt, RequestId, SubmitMode, Transition
from rota.node.explanation import explain_at_sender
from rota.sequencer.effects import EndingDecided, ReportPrepared, TransitionIssued, VerifyEndorsers, VerifySignature
from rota.sequencer.events import (
    AssemblyFinished,
    BlocksRemoved,
    EndorsersVerified,
    OutcomesFinal,
    SignatureVerified,
    TransitionSigned,
)
from rota.sequencer.sender_transaction import State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.sequencer.turns import longest_rest_s
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    DelegationCommand,
    EndorserSignature,
    ErrorCode,
    IntentError,
    PreparedTransaction,
    PreparedTransactionAcknowledgement,
    Snapshot,
)
from tests.sequencer.kit import (
    ADDRESS,
    FORGED,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    digest_of,
    intent,
    prepared_transition,
    signed_leaf,
    transition,
    void_transition,
)
from tests.sequencer.test_sender_transaction import (
    HEIGHT,
    ID,
    accept,
    ask_assembly,
    ask_permission,
    final_at,
    is_being_voided,
    is_known,
    is_pending_and_goes_on,
    list_dispatched,
    machine,
    numbers,
    records,
    refusals,
    reverted,
    state,
)

MADE = prepared_transition("A-1")
PREPARED_UNTIL_S = GENESIS_S + 900
VOID = void_transition("A-1").leaf
EXTERNAL = SubmitMode.EXTERNAL


def external() -> Intent:
    return intent("A-1", submit_mode=EXTERNAL)


def pending() -> Bench:
    """An external intent, offered to B."""
    bench = Bench(height=HEIGHT)
    bench.submit("A-1", submit_mode=EXTERNAL)
    return bench


def assembled() -> Bench:
    """B has its signed transition, which a settlement contract is to commit."""
    bench = pending()
    accept(bench)
    ask_assembly(bench, 10)
    finish(bench, 10)
    return bench


def finish(bench: Bench, counter: int, version: int = 0) -> None:
    made = prepared_transition("A-1", version=version, signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, counter), ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, counter), ID, b"signed"))
    bench.take(Persist)


def prepared(
    made: Transition = MADE, *, valid_until_s: int = PREPARED_UNTIL_S, signers: str = "ABC"
) -> PreparedTransaction:
    """What its coordinator sends: a round of one, signed by all."""
    signatures = tuple(EndorserSignature(NodeName(name), f"by {name}".encode()) for name in signers)
    digest = digest_of(made.leaf, valid_until_s=valid_until_s)
    return PreparedTransaction(digest, (made.leaf,), valid_until_s, signatures, made)


def issued() -> Bench:
    """The prepared transition has come and is recorded."""
    bench = assembled()
    bench.hear(B, prepared(), height=HEIGHT)
    bench.take(Persist)
    return bench


def restarted(**options: object) -> Bench:
    """The second life of a node that went down with the external intent under way."""
    found = Restored(external(), **options)  # type: ignore[arg-type]
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    return bench


def acknowledged(bench: Bench, to: NodeName = B) -> int:
    """How often that node was told that we have it."""
    return bench.said(PreparedTransactionAcknowledgement, to).count(PreparedTransactionAcknowledgement(ID, MADE.leaf))


def outcome(status: LedgerStatus = LedgerStatus.COMMITTED, made: Transition = MADE) -> LedgerOutcome:
    return LedgerOutcome(ID, made.leaf, digest_of(made.leaf), status, "input spent", is_contention=True)


# No version is valid for longer than the first: states are kept until then.


def again(bench: Bench, counter: int, at_s: int) -> list[AssembleResponse]:
    """B has another version assembled at this time; what it gets."""
    bench.block(HEIGHT + counter, time_s=at_s)
    bench.forget()
    ask_assembly(bench, counter)
    made = replace(prepared_transition("A-1", version=counter, signature=b""), valid_until_s=at_s + 900)
    bench.tell(AssemblyFinished(RequestId(1, counter), ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, counter), ID, b"signed"))
    bench.take(Persist)
    return bench.said(AssembleResponse, B)


def test_later_version_of_an_external_intent_has_the_bound_of_the_first() -> None:
    bench = assembled()
    [answer] = again(bench, 11, GENESIS_S + 100)
    assert [each.transition.valid_until_s for each in answer.results if each.transition] == [PREPARED_UNTIL_S]
    assert machine(bench).void_after_s == PREPARED_UNTIL_S


def test_external_intent_waits_for_the_end_of_its_versions_when_another_would_be_too_short() -> None:
    bench = assembled()
    assert again(bench, 11, PREPARED_UNTIL_S - 299) == []
    [failed] = bench.said(AssembleError, B)
    assert [each.code for each in failed.errors] == [ErrorCode.FAILED]
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    [answer] = again(bench, 12, PREPARED_UNTIL_S + 1)
    assert [each.transition.valid_until_s for each in answer.results if each.transition] == [PREPARED_UNTIL_S + 901]


# Issuing.


def test_prepared_transition_is_recorded_acknowledged_and_given_to_the_user_in_one_step() -> None:
    bench = assembled()
    bench.verifies = False
    bench.hear(B, prepared(), height=HEIGHT)
    (order,) = bench.take(VerifyEndorsers)
    bench.forget()
    effects = bench.tell(EndorsersVerified(order.request_id, (True,) * len(order.signed), ID))
    assert state(bench) is State.ISSUED
    assert effects[0] == Persist(ADDRESS, (TransitionIssued(prepared(), PREPARED_UNTIL_S),))
    assert records(bench) == [TransitionIssued(prepared(), PREPARED_UNTIL_S)]
    assert acknowledged(bench) == 1
    assert bench.take(ReportPrepared) == [ReportPrepared(ADDRESS, prepared())]


def test_states_that_the_coordinator_may_not_see_are_those_that_we_made() -> None:
    bench = assembled()
    seen = replace(MADE, outputs=tuple(replace(made, content=None) for made in MADE.outputs))
    bench.hear(B, replace(prepared(), transition=seen), height=HEIGHT)
    assert records(bench) == [TransitionIssued(prepared(), PREPARED_UNTIL_S)]


def test_copies_are_acknowledged_again_and_neither_recorded_nor_reported_twice() -> None:
    bench = issued()
    assert acknowledged(bench) == 1
    bench.hear(B, prepared(), height=HEIGHT)
    assert acknowledged(bench) == 2
    assert len(bench.take(ReportPrepared)) == 1
    assert records(bench) == []


def test_another_version_is_acknowledged_and_changes_nothing() -> None:
    bench = issued()
    other = prepared_transition("A-1", version=1)
    bench.hear(C, prepared(other), height=HEIGHT)
    assert bench.said(PreparedTransactionAcknowledgement, C) == [PreparedTransactionAcknowledgement(ID, other.leaf)]
    assert machine(bench).issued == prepared()


@pytest.mark.parametrize(
    "flawed",
    [
        replace(prepared(), digest=Digest(b"d" * 32)),
        prepared(signers="AB"),
        replace(
            prepared(signers="AB"), signatures=(*prepared(signers="AB").signatures, EndorserSignature(A, b"again"))
        ),
        prepared(valid_until_s=PREPARED_UNTIL_S + 1),
        replace(prepared(), leaves=(transition("A-1").leaf,), digest=digest_of(transition("A-1").leaf)),
        replace(prepared(), transition=replace(MADE, info=(b"i" * 32,))),
    ],
    ids=["digest", "too few", "one of them twice", "too long", "not of the round", "not that leaf"],
)
def test_what_is_not_sound_is_not_issued(flawed: PreparedTransaction) -> None:
    bench = assembled()
    bench.hear(B, flawed, height=HEIGHT)
    assert state(bench) is State.ENDORSEMENT_GATHERING
    assert records(bench) == []
    assert bench.take(VerifySignature) == []
    assert acknowledged(bench) == 1, "it need not be sent again"


def test_coordinator_that_makes_up_endorsements_does_not_end_an_external_intent() -> None:
    """What nobody can commit would be the user's until it expires, and then reverted."""
    bench = assembled()
    forged = tuple(EndorserSignature(name, FORGED) for name in (A, B, C))
    bench.hear(B, replace(prepared(), signatures=forged), height=HEIGHT)
    assert state(bench) is State.ENDORSEMENT_GATHERING
    assert records(bench) == []
    assert acknowledged(bench) == 1, "it need not be sent again"


def test_prepared_transition_is_issued_when_its_endorsements_are_verified() -> None:
    bench = assembled()
    bench.verifies = False
    bench.hear(B, prepared(), height=HEIGHT)
    assert records(bench) == []
    [order] = bench.take(VerifyEndorsers)
    assert [each.endorser for each in order.signed] == [A, B, C]
    bench.tell(EndorsersVerified(order.request_id, (True,) * 3, ID))
    assert state(bench) is State.ISSUED


def test_intent_that_is_not_external_is_not_issued() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    bench.hear(B, prepared(), height=HEIGHT)
    assert (state(bench), acknowledged(bench)) == (State.PENDING, 1)


def test_unknown_intent_is_acknowledged() -> None:
    bench = Bench(height=HEIGHT)
    bench.hear(B, prepared(), height=HEIGHT)
    assert acknowledged(bench) == 1


def test_version_of_before_a_restart_is_issued_when_it_bears_our_signature() -> None:
    bench = restarted()
    bench.hear(C, prepared(), height=HEIGHT)
    (check,) = bench.take(VerifySignature)
    assert (check.party, check.leaf, check.signature) == (Party("a@A"), MADE.leaf, b"signed")
    bench.tell(SignatureVerified(check.request_id, ID, is_ours=True))
    assert state(bench) is State.ISSUED
    assert acknowledged(bench, C) == 1
    assert bench.take(ReportPrepared) == [ReportPrepared(ADDRESS, prepared())]


def test_version_that_does_not_bear_our_signature_is_declined() -> None:
    bench = restarted()
    bench.hear(C, prepared(), height=HEIGHT)
    (check,) = bench.take(VerifySignature)
    bench.tell(SignatureVerified(check.request_id, ID, is_ours=False))
    assert (state(bench), acknowledged(bench, C)) == (State.PENDING, 1)
    bench.tell(SignatureVerified(check.request_id, ID, is_ours=True))
    assert state(bench) is State.PENDING, "the verdict was given"


def test_version_whose_states_are_lost_to_us_is_declined() -> None:
    bench = restarted()
    lost = replace(MADE, outputs=tuple(replace(made, content=None) for made in MADE.outputs))
    bench.hear(C, prepared(lost), height=HEIGHT)
    assert bench.take(VerifySignature) == []
    assert acknowledged(bench, C) == 1


def test_older_version_is_issued_while_another_is_being_assembled() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    bench.forget()
    bench.hear(C, prepared(), height=HEIGHT)
    (check,) = bench.take(VerifySignature)
    bench.tell(SignatureVerified(check.request_id, ID, is_ours=True))
    assert state(bench) is State.ISSUED
    refused = IntentError(ID, ErrorCode.NOT_CURRENT_DELEGATE)
    assert bench.said(AssembleError, B) == [AssembleError(RequestId(1, 11), (refused,))]


# Nobody coordinates what is issued.


def test_no_submitter_gets_an_external_intent() -> None:
    bench = assembled()
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]
    assert state(bench) is State.ENDORSEMENT_GATHERING


def test_issued_intent_is_neither_assembled_nor_permitted_nor_delegated() -> None:
    bench = issued()
    bench.forget()
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.NOT_CURRENT_DELEGATE]
    bench.hear(B, AssembleRequest(RequestId(1, 11), (ID,), Snapshot()), height=HEIGHT)
    (error,) = bench.said(AssembleError, B)
    assert error.errors == (IntentError(ID, ErrorCode.NOT_CURRENT_DELEGATE),)
    list_dispatched(bench, leaf=MADE.leaf)
    bench.wait(60_000)
    assert bench.said(DelegationCommand) == []
    assert state(bench) is State.ISSUED


def test_issued_intent_cannot_be_resumed() -> None:
    bench = issued()
    bench.forget()
    bench.tell(ResumeRequested("user", ID))
    assert bench.take(ReplyToUser)[0].error == "cannot be resumed: it is Issued, not Parked"


def test_domain_may_prepare_external_intents_only() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    accept(bench)
    ask_assembly(bench, 10)
    bench.forget()
    finish(bench, 10)
    assert is_pending_and_goes_on(bench)
    (error,) = bench.said(AssembleError, B)
    assert error.errors[0].code is ErrorCode.FAILED
    assert "is not external" in error.errors[0].text


# How it ends.


def test_issued_intent_is_confirmed_by_our_own_index_whoever_committed_it() -> None:
    bench = issued()
    bench.block(HEIGHT + 1, outcome())
    assert state(bench) is State.CONFIRMED
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(),)))
    confirmed = Receipt(ID, Outcome.CONFIRMED, leaf=MADE.leaf)
    assert bench.take(ReportReceipt) == [ReportReceipt(confirmed)]


def test_skip_of_an_issued_intent_changes_nothing() -> None:
    bench = issued()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.ISSUED
    assert machine(bench).revert_count == 0


def test_reorganisation_makes_it_issued_again() -> None:
    bench = issued()
    bench.block(HEIGHT + 1, outcome())
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.ISSUED
    assert machine(bench).confirmed_leaf is None


def test_issued_intent_expires_when_its_validity_has_passed_in_a_final_block() -> None:
    bench = issued()
    bench.block(HEIGHT + 1, time_s=PREPARED_UNTIL_S + 1)
    final_at(bench, HEIGHT + 2, PREPARED_UNTIL_S)
    assert state(bench) is State.ISSUED
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert records(bench) == [IntentFinalised(reverted("the prepared transition has expired"))]


def test_issued_intent_is_explained() -> None:
    found = explain_at_sender(issued().sequencer, ID)
    assert found is not None
    assert found.waits_for == f"somebody to commit it before chain time {PREPARED_UNTIL_S}"


def cancelled() -> Bench:
    """The user has cancelled what it was given."""
    bench = issued()
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    return bench


def test_cancel_of_an_issued_intent_voids_it() -> None:
    bench = cancelled()
    assert records(bench) == [EndingDecided(ID, "cancelled")]
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID)]
    (delegation,) = bench.said(DelegationCommand, B)[-1].delegations
    assert delegation.is_voiding
    assert machine(bench).issued == prepared()
    bench.hear(B, prepared(), height=HEIGHT)
    assert (state(bench), acknowledged(bench)) == (State.PENDING, 1)


def test_cancel_of_what_has_expired_is_final_at_once() -> None:
    bench = issued()
    bench.sequencer.sender.final_time_s = PREPARED_UNTIL_S + 1
    bench.tell(CancelRequested("canceller", ID))
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]
    assert not is_known(bench)


def test_void_of_an_external_intent_is_permitted_like_any_other() -> None:
    bench = cancelled()
    accept(bench)
    ask_assembly(bench, 11)
    bench.tell(TransitionSigned(RequestId(1, 11), ID, b"signed"))
    assert machine(bench).void_after_s == PREPARED_UNTIL_S
    bench.block(HEIGHT + 1, outcome(made=void_transition("A-1")))
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(made=void_transition("A-1")),)))
    assert records(bench)[-1] == IntentFinalised(reverted("cancelled"))


@pytest.mark.parametrize("way", [pending, assembled])
def test_external_intent_that_ends_or_has_ended_declines_what_was_prepared(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.tell(CancelRequested("canceller", ID))
    assert is_known(bench) is (way is assembled), "without a version it has ended"
    bench.take(Persist)
    bench.hear(B, prepared(), height=HEIGHT)
    assert acknowledged(bench) == 1
    assert records(bench) == []
    assert bench.take(ReportPrepared) == []
    if way is assembled:
        assert is_being_voided(bench)
        assert machine(bench).issued is None


# Across restarts.


def test_issued_survives_a_restart_and_is_reported_again() -> None:
    bench = restarted(issued=prepared(), void_after_s=PREPARED_UNTIL_S)
    assert state(bench) is State.ISSUED
    assert bench.take(ReportPrepared) == [ReportPrepared(ADDRESS, prepared())]
    assert bench.said(DelegationCommand) == []
    bench.hear(C, prepared(), height=HEIGHT)
    assert acknowledged(bench, C) == 1
    final_at(bench, HEIGHT + 1, PREPARED_UNTIL_S + 1)
    receipt = reverted("the prepared transition has expired")
    assert bench.take(ReportReceipt) == [ReportReceipt(receipt)]
    assert not is_known(bench)


def test_restarted_sender_goes_by_the_recorded_bound_of_a_prepared_version() -> None:
    recorded = (signed_leaf(MADE),)
    bench = restarted(versions=recorded)
    assert machine(bench).void_after_s == PREPARED_UNTIL_S
    bench = restarted(ending_reason="cancelled", versions=recorded)
    assert numbers(bench, B)
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert is_being_voided(bench)
    assert bench.take(ReportReceipt) == []


@pytest.mark.parametrize("left_s", [1, 0, -1_000])
def test_prepared_transition_in_a_round_that_ends_soon_is_not_issued(left_s: int) -> None:
    """Nobody coordinates an intent that is issued: it would be dead until its own bound, a day later."""
    bench = assembled()
    bench.hear(B, prepared(valid_until_s=GENESIS_S + left_s), height=HEIGHT)
    assert state(bench) is not State.ISSUED


def test_restarted_sender_of_an_issued_intent_waits_for_no_party() -> None:
    found = Restored(replace(external(), parties=(Party("bob@B"),)), issued=prepared(), void_after_s=PREPARED_UNTIL_S)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    assert list(bench.sequencer.sender.transactions[ID].unresolved) == []


def test_sender_whose_prepared_transition_expired_rests() -> None:
    bench = issued()
    sender = bench.sequencer.sender
    transaction = sender.transactions[ID]
    transaction.versions[MADE.leaf] = PREPARED_UNTIL_S
    sender.rests_until_ms = 0
    sender.final_time_s = PREPARED_UNTIL_S
    transaction.forget_expired_versions()
    assert (MADE.leaf in transaction.versions, sender.rests_until_ms) == (True, 0)
    sender.final_time_s = PREPARED_UNTIL_S + 1
    transaction.forget_expired_versions()
    assert MADE.leaf not in transaction.versions
    assert sender.rests_until_ms == bench.now_ms + 1_000 * longest_rest_s(bench.config)
