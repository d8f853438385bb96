"""An intent at its sender: accepted → delegated → permitted → final.

Theory of operation. The sender persisted the intent before its user got the id, and stays responsible
until its own chain index shows the outcome. Until then a coordinator is needed: Pending means that
none has the intent, as far as this node knows, and the sender machine looks for one. The coordinator requests
assembly (the answer carries the signature of the leaf) and later permission to dispatch that very leaf. The sender
gives one permission per delegation number, to the current delegate only, and records it: from then on a base-ledger
transaction may exist, and the intent is held for its submitter. Messages only speed things up; the chain decides.
A revert is reported only when no version can be committed any more (protocol §4.3): an intent that is to end is
Ending, and that decision is recorded.

Three machines of their own decide parts of this. Each stands in front of this one and passes on the events that
it does not handle: an external intent, which its user commits or another contract carries out, has its prepared
transition Issued (`external_issue.py`), one that ends is voided by an empty transition (`voiding.py`), and one whose id
the chain has under an unknown leaf is IdUsed while members are asked (`id_inquiry.py`).

No answer, receipt or report leaves before the records of its step and of all earlier ones are durable
(`engine/outbox.py`), so no rule waits for a write.
"""

from __future__ import annotations

from enum import Enum

from rota.machine.effects import IntentFinalised, ReplyToUser, ReportReceipt
from rota.machine.pacing import Pacing
from rota.machine.tables import Event, Ignored, Junction, Machine, Row, Table, outside, superstate
from rota.model.awaited import dependency_text
from rota.model.consistency import Authorised
from rota.model.types import CallFailure, DelegationNumber, IntentId, Leaf, Outcome, Receipt, Transition
from rota.sequencer.effects import (
    DistributeStates,
    EndingDecided,
    IntentParked,
    IntentResumed,
    JudgeFailure,
    PermissionGranted,
    SignTransition,
)
from rota.sequencer.events import FailureJudged
from rota.sequencer.external_issue import ExternalIssue
from rota.sequencer.id_inquiry import IdInquiry, InquiryDue
from rota.sequencer.sender_owner import OwningSender
from rota.sequencer.sender_transaction_events import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
    BegunAnew,
    CancelRequested,
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    ConfirmedSuccess,
    CoordinatorChanged,
    Created,
    Delegated,
    DependencyConfirmed,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    Dispatched,
    Dropped,
    GivenUp,
    HoldExpired,
    LeafClaimed,
    LeafUnclaimed,
    NonceAssigned,
    PartyResolved,
    PreparedIssued,
    Resumed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    VersionsVoid,
)
from rota.sequencer.sent_intent import (
    ASKED_FOR_PERMISSION,
    ASKED_TO_ASSEMBLE,
    HeldRequest,
    Permission,
    Restored,
    SentIntent,
)
from rota.sequencer.versions import may_be_pipelined, must_wait_to_sign
from rota.sequencer.voiding import EndingBegun, Voiding
from rota.wire.messages import AssemblyOutcome, AssemblyResult, ErrorCode


class State(Enum):
    """State of an intent at its sender (seed 2, and Issued, Ending and IdUsed)."""

    INITIAL = "Initial"
    PENDING = "Pending"
    DELEGATED = "Delegated"
    ASSEMBLING = "Assembling"
    SIGNING = "Signing"
    ENDORSEMENT_GATHERING = "EndorsementGathering"
    PREPARED = "Prepared"
    DISPATCHED = "Dispatched"
    SEQUENCED = "Sequenced"
    SUBMITTED = "Submitted"
    ISSUED = "Issued"
    ENDING = "Ending"
    PARKED = "Parked"
    CONFIRMED = "Confirmed"
    ID_USED = "IdUsed"
    REVERTED = "Reverted"

    # Each state exists once, so its address identifies it; Enum would hash the name at every table look-up.
    __hash__ = object.__hash__


BEING_ASSEMBLED = superstate("BeingAssembled", State.ASSEMBLING, State.SIGNING)
DELEGATED = superstate("WithDelegate", State.DELEGATED, BEING_ASSEMBLED, State.ENDORSEMENT_GATHERING)
UNPERMITTED = superstate("Unpermitted", State.PENDING, DELEGATED)
NUMBERED = superstate("Numbered", State.SEQUENCED, State.SUBMITTED)
PERMITTED = superstate("Permitted", State.PREPARED, State.DISPATCHED, NUMBERED)
UNDER_WAY = superstate("UnderWay", UNPERMITTED, PERMITTED)
RELEASED = superstate("Released", State.ISSUED, State.ENDING)
# No coordinator is needed: the user, the chain or time decides.
WAITING = (State.ISSUED, State.ENDING, State.PARKED)
OPEN = superstate("Open", UNDER_WAY, *WAITING)
# The chain has a transition under its id: one that its party signed, or an unknown one.
SETTLED = superstate("Settled", State.CONFIRMED, State.ID_USED)
ENDED = superstate("Ended", SETTLED, State.REVERTED)
KNOWN = superstate("Known", OPEN, ENDED)
# The last assembled version may be under way at the delegate without permission, or awaits a decision.
REFUSABLE = (State.PENDING, State.DELEGATED, State.ENDORSEMENT_GATHERING, State.ISSUED)


CANCELLED = "cancelled"
VOIDED = "voided on the chain"


# Guards, in the table's order.


def was_voided(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart its empty transition became final, but its receipt was not stored"""
    return transaction.was_voided


def was_used(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart another leaf used its id, but its receipt was not stored"""
    return transaction.confirmed_leaf is not None


def was_ending(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart it was decided to end"""
    return transaction.is_ending


def was_issued(transaction: SenderTransaction, event: Event) -> bool:
    """its prepared transition was given to its user before the restart"""
    return transaction.issued is not None


def was_parked(transaction: SenderTransaction, event: Event) -> bool:
    """it was parked before the restart"""
    return transaction.parked_reason is not None


def something_may_be_endorsed(transaction: SenderTransaction, event: Event) -> bool:
    """a version could have been endorsed and is not void yet"""
    return transaction.may_be_endorsed


def is_unknown_party(transaction: SenderTransaction, event: PartyResolved) -> bool:
    """there is no such party"""
    return not event.verifier and event.party in transaction.unresolved


def is_new_request(transaction: SenderTransaction, event: AssembleRequestReceived) -> bool:
    """request id greater than that of the last assembly; a copy has no effect"""
    return transaction.request_id is None or event.request_id > transaction.request_id


def was_permitted_before(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """that leaf is permitted already, under the current number: there is only one permission (S4)"""
    permission = transaction.permission
    is_standing = permission is not None and permission.number == transaction.number
    return is_standing and asks_for_permitted_leaf(transaction, event)


def asks_for_assembled_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for the leaf assembled for it, under the current number"""
    result = transaction.result
    is_ours = result is not None and result.transition is not None and result.transition.leaf == event.item.leaf
    return is_ours and transaction.is_current(event)


def asks_for_earlier_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for a leaf from before the restart of this node"""
    return transaction.result is None and transaction.is_current(event)


def asks_for_permitted_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """a repeated request for the permitted leaf"""
    permission = transaction.permission
    if permission is None or permission.leaf != event.item.leaf:
        return False
    return permission.delegate == event.peer and event.item.number >= permission.number


def is_delegating_to_peer(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """no other node is its delegate"""
    return transaction.delegate in (None, event.peer)


def is_held_signature(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """signed by its party, and the states came with the request or are stored"""
    held = transaction.held
    is_held = held is not None and held.verified_as == event.request_id
    return is_held and event.is_ours and (transaction.is_recorded() or transaction.shown_by_held() is not None)


def is_permitted_leaf(transaction: SenderTransaction, event: Dispatched | NonceAssigned | Submitted) -> bool:
    """permitted leaf, not skipped since, and its submitter was not left"""
    permission = transaction.permission
    if permission is None or permission.leaf in (transaction.skipped_leaf, transaction.left_leaf):
        return False
    return event.leaf in (None, permission.leaf)


def index_has_caught_up(transaction: SenderTransaction, event: SubmitterSilent) -> bool:
    """own index has caught up"""
    return transaction.context.has_ledger


def is_to_back_off(transaction: SenderTransaction, event: Dropped) -> bool:
    """not backing off already: repeated reports do not lengthen the backoff"""
    return transaction.state is not State.PENDING or transaction.not_before_ms <= transaction.context.now_ms


def is_by_another(transaction: SenderTransaction, event: ConfirmedSuccess) -> bool:
    """leaf is neither one that its party is known to have signed nor the empty one"""
    return event.leaf not in transaction.versions and not transaction.is_void(event.leaf)


def no_retry_is_left(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """a call of the permitted leaf failed, and `revert_retry_max` retries are used up (protocol §4.2)"""
    return transaction.has_no_retry_left(event.outcome)


def is_permitted_version(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """the permitted leaf failed"""
    return transaction.is_permitted(event.outcome.leaf)


def was_ending_passively(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was ending before that version was confirmed, and is not being voided"""
    return transaction.is_ending and not transaction.is_voiding


def was_issued_and_goes_on(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was issued, and is not ending"""
    return transaction.issued is not None and not transaction.is_ending


def is_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> bool:
    """the empty transition is on the chain"""
    return transaction.confirmed_leaf is not None and transaction.is_void(transaction.confirmed_leaf)


# Actions, in the table's order.


def restore_ending(transaction: SenderTransaction, event: Event) -> None:
    """It was to end before the restart, or was voided elsewhere: it waits for no dependency or party."""
    if transaction.was_voided:
        transaction.ending_reason = transaction.ending_reason or VOIDED
    transaction.wait_for_nobody()


def restore_used(transaction: SenderTransaction, event: Event) -> None:
    """Restore a final outcome, which the index does not report again."""
    transaction.wait_for_nobody()
    _inquire(transaction, event).handle(ConfirmationFinal())


def restore_issued(transaction: SenderTransaction, event: Event) -> None:
    """Restore Issued after a restart."""
    assert transaction.issue is not None, "what was issued is external"
    transaction.wait_for_nobody()
    transaction.issue.handle(event)


def restore_parked(transaction: SenderTransaction, event: Event) -> None:
    """Restore Parked after a restart."""
    transaction.reason = transaction.parked_reason or ""


def look_for_work(transaction: SenderTransaction, event: Event) -> None:
    """Backoff elapsed or a dependency resolved; the sender delegates it once nothing blocks it."""
    transaction.sender.look_for_work()


def end_for_dependency(transaction: SenderTransaction, event: DependencyReverted) -> None:
    """A dependency reverted, so this intent reverts."""
    transaction.ending_reason = f"depends on {dependency_text(event.dependency)}, which {event.reason}"


def end_for_party(transaction: SenderTransaction, event: PartyResolved) -> None:
    """A party is unknown, so this intent reverts."""
    transaction.ending_reason = f"unknown party {event.party}"


def begin_lease(transaction: SenderTransaction, event: Delegated) -> None:
    """Accepted: from now on the delegate's heartbeats must list it. Answer a held request now."""
    transaction.delegate_incarnation = event.incarnation
    transaction.accepted_at = event.heartbeat
    transaction.lease_ms = transaction.context.now_ms
    held, transaction.held = transaction.held, None
    if held is not None:
        request = DispatchConfirmationRequestReceived(held.peer, held.request_id, held.item)
        transaction.context.post(transaction.receiver, request)


def lose_delegation(transaction: SenderTransaction, event: CoordinatorChanged) -> None:
    """As far as this node knows, no coordinator has it."""
    transaction.reason = event.reason
    transaction.transition = None


def begin_assembly(transaction: SenderTransaction, event: AssembleRequestReceived) -> None:
    """Start the assembly; only the answer to the latest request counts. A request implies acceptance.

    With a request while permission is out, the delegate states that the permitted leaf was not dispatched or was
    skipped: the delegation number grows (protocol §4.3).
    """
    permission = transaction.permission
    if permission is not None and permission.number == transaction.number:
        transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    transaction.stop_hold()
    transaction.sender.transaction_came_further(transaction, ASKED_TO_ASSEMBLE)
    transaction.request_id = event.request_id
    transaction.begin_assembly()
    transaction.lease_ms = transaction.context.now_ms


def sign(transaction: SenderTransaction, event: Assembled) -> None:
    """Have the leaf signed by the `from` party and the parties that its plan adds."""
    transaction.transition, transaction.attesters = event.transition, event.attesters
    transaction.order = transaction.context.next_id()
    transaction.context.effects.append(
        SignTransition(
            transaction.intent.contract,
            transaction.order,
            transaction.intent.id,
            transaction.intent.sender,
            event.transition.leaf,
            event.transition.valid_until_s,
            nonce=transaction.intent.nonce,
            cosigners=tuple(signer.party for signer in event.attesters.signers),
        )
    )


def answer_assembled(transaction: SenderTransaction, event: AssembleAndSignSuccess) -> None:
    """Answer with the signed version, which may be endorsed from now on, until its validity ends."""
    unsigned = transaction.transition
    assert unsigned is not None, "what is signed was assembled"
    signed = unsigned.signed(event.signature)
    transaction.transition, transaction.attesters = signed, transaction.attesters.signed(event.cosignatures)
    transaction.failure_count = 0
    if not signed.is_empty:
        # The sender need not wait for the empty transition to expire: if it commits, the outcome is the one reported
        # anyway.
        transaction.forget_expired_versions()
        transaction.note_version(signed.leaf, signed.valid_until_s)
        transaction.void_after_s = max(transaction.void_after_s, signed.valid_until_s)
    _answer_slot(transaction, AssemblyOutcome.ASSEMBLED, signed)


def answer_revert(transaction: SenderTransaction, event: AssembleRevert) -> None:
    """The intent is not valid: it ends here, and its coordinator gets the reason."""
    transaction.ending_reason, transaction.ending_code = event.reason, event.code
    _answer_slot(transaction, AssemblyOutcome.REVERTED, None, event.reason)


def answer_park(transaction: SenderTransaction, event: AssemblePark) -> None:
    """Record it; its coordinator frees its place."""
    transaction.reason = transaction.parked_reason = event.reason
    transaction.context.persist(IntentParked(transaction.intent.id, event.reason))
    _answer_slot(transaction, AssemblyOutcome.PARKED, None, event.reason)


def answer_error(transaction: SenderTransaction, event: AssembleError) -> None:
    """The coordinator removes it; delegate again with backoff, or when one of its dependencies is confirmed."""
    transaction.reason = event.reason
    transaction.is_put_off = event.code is ErrorCode.CONTENTION and not transaction.is_kept_away
    transaction.sender.assembly.fail(transaction, event.reason, event.code)
    if event.lacks_states:
        transaction.sender.assembly.lacking[transaction.intent.id] = None
    transaction.not_before_ms = 0 if event.awaits_dependencies else transaction.retry_later()


def delegate_later(transaction: SenderTransaction, event: Dropped) -> None:
    """A delegate's report ends nothing: delegate again to the coordinator at that time, with a growing backoff."""
    transaction.reason = f"{event.peer} gave it up: {event.reason}"
    if event.was_refused:
        # The delegate is not at fault; until it has forgotten the intent it would reject it.
        transaction.needs_own_states, transaction.is_put_off = True, False
        config = transaction.context.config
        delay_ms = (config.closing_heartbeats + 2) * config.heartbeat_ms
        transaction.not_before_ms = transaction.look_after(delay_ms)
        return
    transaction.is_put_off = True
    transaction.not_before_ms = transaction.back_off(transaction.dropped_count)
    transaction.dropped_count += 1


def grant(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Give the one permission under this number."""
    assert transaction.result is not None
    made = transaction.result.transition
    assert made is not None
    _grant(transaction, HeldRequest(event.peer, event.request_id, event.item), made.valid_until_s)


def grant_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Permit a leaf signed before the restart, without assembling again."""
    shown = None if transaction.is_recorded() else transaction.shown_by_held()
    held, transaction.held = transaction.held, None
    assert held is not None
    if shown is not None:
        # The store has lost it. The signature over this leaf and bound was verified.
        transaction.sender.assembly.record(transaction, Authorised(shown))
    _grant(transaction, held, held.item.valid_until_s)


def refuse_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Refuse: wrong leaf if the signature is not our party's, else states missing."""
    held = transaction.held
    if held is not None and held.verified_as == event.request_id:
        transaction.held = None
        code = ErrorCode.STATES_MISSING if event.is_ours else ErrorCode.WRONG_LEAF
        transaction.sender.refuse_dispatch(held.peer, held.request_id, transaction.intent.id, code)


def hold_request(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Hold the request until the delegation is accepted, then answer (protocol §4.3)."""
    transaction.held = HeldRequest(event.peer, event.request_id, event.item)
    due_ms = transaction.context.after(transaction.context.config.request_timeout_ms)
    transaction.context.timers.set(transaction, "held", due_ms, HoldExpired())


def verify_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Verify that our party signed it before the restart; over the peer's rate ignore it, as the peer repeats it."""
    if not transaction.sender.may_have_verified(event.peer, transaction.intent.id, "leaf"):
        return
    item = event.item
    verified_as = transaction.verify(item.leaf, item.valid_until_s, item.signature)
    transaction.held = HeldRequest(event.peer, event.request_id, item, verified_as)


def grant_again(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Give the same answer for the same leaf."""
    transaction.sender.permit_dispatch(event.peer, event.request_id, transaction.intent.id)


def refuse(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Refuse: final, no coordinator, or for another delegate, number or leaf. The coordinator drops it."""
    if transaction.is_ended:
        code = ErrorCode.FINAL_INTENT
    elif not transaction.is_under_way or event.peer != transaction.delegate:
        code = ErrorCode.NOT_CURRENT_DELEGATE
    else:
        code = ErrorCode.STALE_DELEGATION if event.item.number < transaction.number else ErrorCode.WRONG_LEAF
    transaction.refuse(event, code)


def forget_held(transaction: SenderTransaction, event: HoldExpired) -> None:
    """Drop the held request; the coordinator repeats it if necessary."""
    transaction.held = None


def note_listed(transaction: SenderTransaction, event: Event) -> None:
    """Its submitter lists it: hold it for `submitter_grace` more."""
    transaction.start_hold()


def note_nonce(transaction: SenderTransaction, event: NonceAssigned) -> None:
    """Its base-ledger transaction has a nonce; hold it."""
    transaction.signer_and_nonce = (event.signer, event.nonce)
    transaction.start_hold()


def release(transaction: SenderTransaction, event: SubmitterSilent) -> None:
    """No submitter lists it, or its listing no longer counts: delegate again; the chain commits only one of the two."""
    transaction.stop_hold()
    transaction.reason = event.reason
    if event.is_left and transaction.permission is not None:
        transaction.left_leaf = transaction.permission.leaf


def keep_hold(transaction: SenderTransaction, event: SubmitterSilent) -> None:
    """The own index is behind, and the intent may be on the chain already: hold it."""
    transaction.start_hold()


def note_given_up(transaction: SenderTransaction, event: GivenUp) -> None:
    """Endorsers or its domain refuse it; an intent that is being voided keeps its first reason."""
    transaction.ending_reason = transaction.ending_reason or event.reason


def give_up_on_ledger(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """No retry is left. Its coordinator gives up too, but its message may be lost."""
    transaction.ending_reason = event.outcome.reason


def note_used(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """No other leaf can be committed any more; start the inquiry whether this one is ours."""
    note_confirmed(transaction, event)
    _inquire(transaction, event)


def note_confirmed(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """A version that our party signed, or the empty one, is on the chain."""
    transaction.stop_hold()
    transaction.confirmed_leaf = event.leaf
    if transaction.was_not_let_go(event.leaf):
        transaction.context.effects.append(DistributeStates(transaction.intent.contract, event.leaf))
    transaction.sender.transaction_ended(transaction)


def note_reverted(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Delegated at once: its coordinator retries, and if that is gone the lease moves the intent."""
    transaction.stop_hold()
    transaction.reason = event.outcome.reason
    transaction.lease_ms = transaction.context.now_ms
    transaction.accepted_at = transaction.sender.latest_number_of(transaction.delegate)
    _count(transaction, event)
    transaction.sender.ledger_reverted()


def count_revert(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Count the failure of a version permitted to an earlier delegate; the state does not change."""
    _count(transaction, event)


def forget_confirmation(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """The block of its confirmation is gone."""
    transaction.confirmed_leaf = None
    close_inquiry(transaction, event)


def close_inquiry(transaction: SenderTransaction, event: Event) -> None:
    """End the inquiry: the origin of the leaf on the chain is known, or its block is gone."""
    inquiry, transaction.inquiry = transaction.inquiry, None
    if inquiry is not None:
        inquiry.close()
        transaction.receiver = inquiry.behind


def watch_again(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """The block of its confirmation is gone: it is under way again."""
    forget_confirmation(transaction, event)
    transaction.start_hold()
    transaction.sender.look_for_work()


def report_confirmed(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """Final depth: report the receipt, which the index has stored, and forget the intent."""
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "what is confirmed has a leaf"
    receipt = Receipt(transaction.intent.id, Outcome.CONFIRMED, leaf=leaf)
    transaction.context.effects.append(ReportReceipt(receipt))
    transaction.sender.forget(transaction)


def note_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """It was voided, by this node or another: no version of it can be committed any more."""
    transaction.ending_reason = transaction.ending_reason or VOIDED


def begin_anew(transaction: SenderTransaction, event: BegunAnew) -> None:
    """Start over: clear what was permitted, held or awaited.

    The number grows, so that the permission for the next version, which may be empty, is the only one under it (S4).
    """
    transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    transaction.permission = transaction.result = transaction.transition = transaction.held = None
    transaction.skipped_leaf = None
    transaction.revert_count = transaction.failure_count = transaction.not_before_ms = 0
    transaction.reason = ""
    transaction.wait_for_nobody()


def accept_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """End the intent once no version can be committed; if none could be from the start, its receipt is the record."""
    transaction.ending_reason, transaction.ending_code = CANCELLED, ""
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def refuse_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """Permission is out, or it has ended: reply with its state."""
    error = f"cannot be cancelled: it is {transaction.state.value}"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Its user resumes it."""
    transaction.parked_reason = None
    transaction.context.persist(IntentResumed(transaction.intent.id))
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def refuse_resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Only a parked intent can be resumed."""
    error = f"cannot be resumed: it is {transaction.state.value}, not Parked"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


# Entry actions.


def enter_pending(transaction: SenderTransaction) -> None:
    """Have the sender look for a coordinator, unless the intent is known to fail."""
    transaction.sender.parties.resolve_for(transaction)
    if transaction.reverted_dependency is not None and not transaction.is_ending:
        transaction.context.post(transaction, transaction.reverted_dependency)
    if transaction.unknown_party is not None and not transaction.is_ending:
        transaction.context.post(transaction, PartyResolved(transaction.unknown_party, ""))
    transaction.sender.look_for_work()


def enter_prepared(transaction: SenderTransaction) -> None:
    """Hold it for its submitter from now on."""
    transaction.start_hold()


def enter_waiting(transaction: SenderTransaction) -> None:
    """It needs no coordinator for now: its user, the chain or time decides."""
    transaction.sender.transaction_ended(transaction)


def enter_ending(transaction: SenderTransaction) -> None:
    """Record the decision once, whatever the reason; then the voiding machine decides how it ends."""
    transaction.stop_hold()
    transaction.sender.assembly.leave(transaction, ErrorCode.CANCELLED)
    transaction.sender.transaction_ended(transaction)
    if not transaction.is_ending_recorded:
        assert transaction.ending_reason is not None, "what ends has a reason"
        transaction.is_ending_recorded = True
        record = EndingDecided(transaction.intent.id, transaction.ending_reason, transaction.ending_code)
        transaction.context.persist(record)
    if transaction.voiding is None:
        transaction.receiver = transaction.voiding = Voiding(transaction, transaction.receiver)
    transaction.context.post(transaction.voiding, EndingBegun())


def enter_reverted(transaction: SenderTransaction) -> None:
    """Record and report the receipt, and remove the intent from memory."""
    receipt = transaction.receipt()
    transaction.context.persist(IntentFinalised(receipt))
    transaction.context.effects.append(ReportReceipt(receipt))
    transaction.sender.transaction_ended(transaction)
    transaction.sender.forget(transaction)


def _inquire(transaction: SenderTransaction, event: Event) -> IdInquiry:
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "the leaf on the chain is known"
    transaction.receiver = transaction.inquiry = inquiry = IdInquiry(transaction, transaction.receiver, leaf)
    inquiry.handle(InquiryDue())
    return inquiry


def _answer_slot(
    transaction: SenderTransaction, outcome: AssemblyOutcome, transition: Transition | None, reason: str = ""
) -> None:
    made = (transition, reason, transaction.attesters)
    transaction.result = AssemblyResult(transaction.intent.id, outcome, transaction.number, *made)
    transaction.sender.assembly.finish(transaction, transaction.result)


def _grant(transaction: SenderTransaction, request: HeldRequest, valid_until_s: int) -> None:
    granted = transaction.number, request.peer, request.item.leaf, valid_until_s
    transaction.permission = Permission(*granted)
    transaction.sender.transaction_came_further(transaction, ASKED_FOR_PERMISSION)
    transaction.skipped_leaf = transaction.left_leaf = None  # An empty transition has the same leaf each time.
    transaction.dropped_count = 0
    transaction.context.persist(PermissionGranted(transaction.intent.id, *granted))
    transaction.sender.permit_dispatch(request.peer, request.request_id, transaction.intent.id)


def _count(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Count each version whose call failed once, however often its block is indexed, and have the domain judge it.

    Contention does not count, nor does the revert of a whole transaction, which its submitter may have caused.
    """
    outcome, is_new = event.outcome, transaction.skipped_leaf != event.outcome.leaf
    transaction.skipped_leaf, transaction.skipped_reason = outcome.leaf, outcome.reason
    if is_new and outcome.is_counted:
        transaction.revert_count += 1
        if not transaction.is_voiding:
            failure, intent = outcome.failure or CallFailure(), transaction.intent
            transaction.context.effects.append(JudgeFailure(intent.contract, intent, outcome.leaf, failure))


ENDS = Junction("Ends", ((something_may_be_endorsed, State.ENDING), (None, State.REVERTED)))

TABLE = Table(
    name="Sender's transaction",
    initial=State.INITIAL,
    written=(
        Row(State.INITIAL, Created, when=was_voided, then=State.REVERTED, do=restore_ending),
        Row(State.INITIAL, Created, when=was_used, then=State.ID_USED, do=restore_used),
        Row(State.INITIAL, Created, when=was_ending, then=State.ENDING, do=restore_ending),
        Row(State.INITIAL, Created, when=was_issued, then=State.ISSUED, do=restore_issued),
        Row(State.INITIAL, Created, when=was_parked, then=State.PARKED, do=restore_parked),
        Row(State.INITIAL, Created, then=State.PENDING),
        Row(OPEN, DependencyConfirmed, do=look_for_work),
        Row(OPEN, DependencyReverted, then=ENDS, do=end_for_dependency),
        Row(OPEN, PartyResolved, when=is_unknown_party, then=ENDS, do=end_for_party),
        Row(OPEN, PartyResolved, do=look_for_work),
        Row(State.PENDING, Delegated, then=State.DELEGATED, do=begin_lease),
        Row(DELEGATED, Delegated, do=begin_lease),
        Row(DELEGATED, CoordinatorChanged, then=State.PENDING, do=lose_delegation),
        Row(UNDER_WAY, AssembleRequestReceived, when=is_new_request, then=State.ASSEMBLING, do=begin_assembly),
        Row(State.ASSEMBLING, Assembled, then=State.SIGNING, do=sign),
        Row(State.SIGNING, AssembleAndSignSuccess, then=State.ENDORSEMENT_GATHERING, do=answer_assembled),
        Row(State.ASSEMBLING, AssembleRevert, then=ENDS, do=answer_revert),
        Row(State.ASSEMBLING, AssemblePark, then=State.PARKED, do=answer_park),
        Row(BEING_ASSEMBLED, AssembleError, then=State.PENDING, do=answer_error),
        Row(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=was_permitted_before,
            then=State.PREPARED,
            do=grant_again,
        ),
        Row(
            DELEGATED, DispatchConfirmationRequestReceived, when=asks_for_assembled_leaf, then=State.PREPARED, do=grant
        ),
        Row(DELEGATED, DispatchConfirmationRequestReceived, when=asks_for_earlier_leaf, do=verify_leaf),
        Row(State.PENDING, DispatchConfirmationRequestReceived, when=is_delegating_to_peer, do=hold_request),
        Row(PERMITTED, DispatchConfirmationRequestReceived, when=asks_for_permitted_leaf, do=grant_again),
        Row(KNOWN, DispatchConfirmationRequestReceived, do=refuse),
        Row(DELEGATED, SignatureVerified, when=is_held_signature, then=State.PREPARED, do=grant_held),
        Row(DELEGATED, SignatureVerified, do=refuse_held),
        Row(State.PENDING, HoldExpired, do=forget_held),
        Row(UNPERMITTED, PreparedIssued, then=State.ISSUED),
        Row(UNDER_WAY, Dispatched, when=is_permitted_leaf, then=State.DISPATCHED, do=note_listed),
        Row(State.SUBMITTED, NonceAssigned, when=is_permitted_leaf, do=note_nonce),
        Row(UNDER_WAY, NonceAssigned, when=is_permitted_leaf, then=State.SEQUENCED, do=note_nonce),
        Row(UNDER_WAY, Submitted, when=is_permitted_leaf, then=State.SUBMITTED, do=note_listed),
        Row(PERMITTED, SubmitterSilent, when=index_has_caught_up, then=State.PENDING, do=release),
        Row(PERMITTED, SubmitterSilent, do=keep_hold),
        Row(OPEN, GivenUp, then=State.ENDING, do=note_given_up),
        Row(UNPERMITTED, Dropped, when=is_to_back_off, then=State.PENDING, do=delegate_later),
        Row(OPEN, ConfirmedSuccess, when=is_by_another, then=State.ID_USED, do=note_used),
        Row(OPEN, ConfirmedSuccess, then=State.CONFIRMED, do=note_confirmed),
        Row(UNDER_WAY, ConfirmedReverted, when=no_retry_is_left, then=State.ENDING, do=give_up_on_ledger),
        Row(PERMITTED, ConfirmedReverted, when=is_permitted_version, then=State.DELEGATED, do=note_reverted),
        Row(UNPERMITTED, ConfirmedReverted, when=is_permitted_version, do=count_revert),
        Row(SETTLED, ConfirmationUndone, when=was_ending_passively, then=State.ENDING, do=forget_confirmation),
        Row(SETTLED, ConfirmationUndone, when=was_issued_and_goes_on, then=State.ISSUED, do=forget_confirmation),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.SUBMITTED, do=watch_again),
        Row(State.ID_USED, ConfirmationUndone, then=State.PENDING, do=forget_confirmation),
        Row(State.CONFIRMED, ConfirmationFinal, when=is_voided, then=State.REVERTED, do=note_voided),
        Row(State.CONFIRMED, ConfirmationFinal, do=report_confirmed),
        Row(State.ID_USED, LeafClaimed, then=State.CONFIRMED, do=close_inquiry),
        Row(State.ID_USED, LeafUnclaimed, then=State.REVERTED, do=close_inquiry),
        Row(OPEN, VersionsVoid, then=State.REVERTED),
        Row(RELEASED, BegunAnew, then=State.PENDING, do=begin_anew),
        Row(PERMITTED, CancelRequested, do=refuse_cancel),
        Row(OPEN, CancelRequested, then=ENDS, do=accept_cancel),
        Row(ENDED, CancelRequested, do=refuse_cancel),
        Row(State.PARKED, Resumed, then=State.PENDING, do=resume),
        Row(KNOWN, Resumed, do=refuse_resume),
        Row(State.PENDING, RetryDue, do=look_for_work),
    ),
    ignored=(
        Ignored(Created, (KNOWN,), "created once"),
        *(
            Ignored(
                event,
                outside(State.PENDING, State.PARKED),
                "it is not called back: the event counts when it is Pending again",
            )
            for event in (DependencyConfirmed, DependencyReverted, PartyResolved)
        ),
        Ignored(Delegated, outside(UNPERMITTED), "it is held for its submitter, or needs no coordinator"),
        Ignored(
            CoordinatorChanged,
            outside(DELEGATED),
            "it is held for its submitter, whatever the coordinator, or is not delegated",
        ),
        Ignored(AssembleRequestReceived, outside(UNDER_WAY), "the sender machine answers for it with an error"),
        *(
            Ignored(event, outside(place), "a late result changes nothing")
            for event, place in (
                (Assembled, State.ASSEMBLING),
                (AssembleRevert, State.ASSEMBLING),
                (AssemblePark, State.ASSEMBLING),
                (AssembleAndSignSuccess, State.SIGNING),
                (AssembleError, BEING_ASSEMBLED),
                (SignatureVerified, DELEGATED),
            )
        ),
        *(
            Ignored(event, (State.INITIAL,), "it is not known yet")
            for event in (DispatchConfirmationRequestReceived, Resumed)
        ),
        Ignored(CancelRequested, (State.INITIAL, State.ENDING), "it is not known yet, or the voiding answers"),
        Ignored(HoldExpired, outside(State.PENDING), "the held request has been answered"),
        Ignored(PreparedIssued, outside(UNPERMITTED), "it is issued only where no permission is out"),
        Ignored(Dispatched, (*outside(UNDER_WAY), NUMBERED), "only the chain counts there, or the nonce comes with it"),
        *(Ignored(event, outside(UNDER_WAY), "only the chain counts there") for event in (NonceAssigned, Submitted)),
        Ignored(SubmitterSilent, outside(PERMITTED), "no permission is out"),
        Ignored(GivenUp, (*outside(OPEN), State.ENDING, State.PARKED), "it waits, ends or has its outcome meanwhile"),
        Ignored(
            Dropped, outside(UNPERMITTED), "its submitter lists it or the hold ends, or it has ended or waits here"
        ),
        Ignored(ConfirmedSuccess, outside(OPEN), "it has its outcome"),
        Ignored(ConfirmedReverted, outside(UNDER_WAY), "no outcome is awaited"),
        Ignored(ConfirmationUndone, outside(SETTLED), "nothing was confirmed"),
        Ignored(ConfirmationFinal, outside(State.CONFIRMED), "nothing was confirmed, or the inquiry takes it"),
        *(
            Ignored(event, outside(State.ID_USED), "the leaf on the chain is gone")
            for event in (LeafClaimed, LeafUnclaimed)
        ),
        Ignored(VersionsVoid, (State.INITIAL, State.PARKED, ENDED), "it is not ending, or has ended"),
        Ignored(BegunAnew, outside(RELEASED), "it is under way again"),
        Ignored(RetryDue, outside(State.PENDING), "it is not waiting for a retry"),
    ),
    entry={
        State.PENDING: enter_pending,
        State.PREPARED: enter_prepared,
        State.ISSUED: enter_waiting,
        State.PARKED: enter_waiting,
        State.ENDING: enter_ending,
        State.REVERTED: enter_reverted,
    },
)


class SenderTransaction(SentIntent):
    """One intent of this node at its sender."""

    table = TABLE

    def __init__(self, sender: OwningSender[SenderTransaction], restored: Restored, is_new: bool) -> None:
        super().__init__(sender.context, restored, is_new, sender.latest_chain_time_s)
        self.sender = sender
        # The machine that takes its events: this one, or one in front of it.
        self.issue = ExternalIssue(self, self) if self.is_external else None
        self.receiver: Machine = self.issue or self
        self.voiding: Voiding | None = None
        self.inquiry: IdInquiry | None = None
        # The sender's queue that holds it, by its state.
        self.queue: dict[IntentId, SenderTransaction] | None = None

    @property
    def is_kept_away(self) -> bool:
        """Whether, by this node's knowledge, it cannot be endorsed before a prepared transition has an outcome."""
        return self.kept_from is not None and self.sender.coordinator.kept.is_taken(self.kept_from)

    @property
    def awaits_approval(self) -> bool:
        """Whether its coordinator has a version that endorsers named in its plan have to approve first."""
        return self.state is State.ENDORSEMENT_GATHERING and bool(self.attesters.endorsers)

    @property
    def is_held_up(self) -> bool:
        """Whether, by this node's knowledge, its states are reserved or an endorser of its plan is silent."""
        is_silent = self.sender.observer.is_silent
        return self.is_kept_away or (self.awaits_approval and any(map(is_silent, self.attesters.endorsers)))

    @property
    def needs_more_time(self) -> bool:
        """Whether it waits for its turn, for its next signature, or for the approval of endorsers named in its plan."""
        return self.may_wait_for_its_turn or must_wait_to_sign(self, self.sender.final_time_s) or self.awaits_approval

    @property
    def may_wait_for_its_turn(self) -> bool:
        """Whether, by this node's knowledge, endorsers may refuse it until others have had their turn (`turns.py`)."""
        return self.is_external and not self.is_voiding and self.context.now_ms < self.sender.rests_until_ms

    @property
    def has_left_states_unused(self) -> bool:
        """Whether it is external and a version that may have been endorsed took no effect."""
        if not self.is_external or not self.void_after_s:
            return False
        leaf = self.confirmed_leaf
        return self.state is State.REVERTED or (leaf is not None and self.is_void(leaf))

    def forget_expired_versions(self) -> None:
        """Forget versions that the chain can no longer commit: their bound has passed in final time (trust rule 3)."""
        final_time_s = self.sender.final_time_s
        for leaf, until_s in tuple(self.versions.items()):
            if until_s < final_time_s:
                del self.versions[leaf]
                if self.is_external:
                    self.sender.note_unused()

    @property
    def is_ready(self) -> bool:
        """Whether nothing at this node keeps it from being delegated."""
        return self._may_go and self.not_before_ms <= self.context.now_ms

    @property
    def is_with_delegate(self) -> bool:
        """Whether its delegate has it, or is the cause if it is not delegated."""
        return self.is_ready or (self._may_go and self.is_put_off)

    @property
    def _may_go(self) -> bool:
        return not self.unresolved and (not self.unmet or may_be_pipelined(self, self.sender.shows_states_of))

    @property
    def is_undispatched(self) -> bool:
        """Whether no permission is out, so that it follows the current coordinator."""
        return self.state in UNPERMITTED.states

    def refusable(self, leaf: Leaf) -> Transition | None:
        """Return the transition of this leaf if it is signed for the delegate's latest request and not permitted.

        One that another contract is to carry out can be refused until that is done.
        """
        made = self.to_be_carried if self.state is State.ISSUED else self.assembled
        return made if self.state in REFUSABLE and made is not None and made.leaf == leaf else None

    def is_issued_to_be_carried(self, leaf: Leaf) -> bool:
        """Whether the endorser's node has another contract decide about this leaf and carry it out."""
        return self.state is State.ISSUED and self.refusable(leaf) is not None

    @property
    def is_waiting_to_end(self) -> bool:
        """Whether it is Ending: its versions are to expire, or it is to be voided."""
        return self.state is State.ENDING

    @property
    def is_confirmed(self) -> bool:
        """Whether a version of it is on the chain."""
        return self.state is State.CONFIRMED

    @property
    def is_assembled(self) -> bool:
        """Whether its delegate has a version of it, or a permission."""
        return self.state is State.ENDORSEMENT_GATHERING or self.state in PERMITTED.states

    @property
    def is_under_way(self) -> bool:
        """Whether it has no outcome and needs a coordinator."""
        return self.state in UNDER_WAY.states

    @property
    def may_be_endorsed(self) -> bool:
        """Whether a version could have been endorsed and is not void yet."""
        return self.void_after_s > 0 and self.sender.final_time_s <= self.void_after_s

    @property
    def pacing(self) -> Pacing:
        """The pace at which peers may have this node verify signatures."""
        return self.sender.pacing

    def take_verdict(self, event: FailureJudged) -> None:
        """Take the domain's judgement of the version that failed last; "not worth a retry" ends the intent."""
        is_latest = event.leaf == self.skipped_leaf
        if is_latest and not event.is_worth_retrying and not self.is_ending:
            self.handle(GivenUp(self.skipped_reason))

    def record(self, own: Authorised) -> None:
        """Record a transition of its own."""
        self.sender.assembly.record(self, own)

    def leave_assembly(self, code: ErrorCode) -> None:
        """Stop awaiting the assembly under way."""
        self.held = None
        if self.state in BEING_ASSEMBLED.states:
            self.sender.assembly.leave(self, code)

    def refuse(self, event: DispatchConfirmationRequestReceived, code: ErrorCode) -> None:
        """Refuse a request for permission."""
        self.sender.refuse_dispatch(event.peer, event.request_id, self.intent.id, code)

    @property
    def is_ended(self) -> bool:
        """Whether it has its outcome."""
        return self.state in ENDED.states

    def changed(self, previous: Enum) -> None:
        """Update the sender's queues by state, and the history that `explain` shows."""
        self.sender.transaction_changed(self)
        self.since_ms = self.context.now_ms
        self.history.append((self.context.now_ms, self.state))
        if len(self.history) > self.context.config.history_max:
            del self.history[0]
