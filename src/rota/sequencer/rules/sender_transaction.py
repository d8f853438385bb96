"""The guards and actions of the sender's transaction, in its table's order (protocol §4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.machine.effects import IntentFinalised, ReplyToUser, ReportReceipt
from rota.machine.tables import Event
from rota.model.awaited import dependency_text
from rota.model.consistency import Authorised, Consistent, consistent, is_whole
from rota.model.types import INTENT_ID_USED, NO_LEAF, CallFailure, DelegationNumber, Leaf, Outcome, Receipt, Transition
from rota.sequencer.effects import (
    DistributeStates,
    EndingDecided,
    IntentParked,
    IntentResumed,
    JudgeFailure,
    PermissionGranted,
    SignTransition,
)
from rota.sequencer.events.sender_transaction import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
    CancelRequested,
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    ConfirmedSuccess,
    CoordinatorChanged,
    Delegated,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    Dispatched,
    Dropped,
    GivenUp,
    HoldExpired,
    NonceAssigned,
    PartyResolved,
    Resumed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    VoidingBegun,
)
from rota.sequencer.id_inquiry import IdInquiry, InquiryDue
from rota.sequencer.states.sender_transaction import (
    ASKED_FOR_PERMISSION,
    ASKED_TO_ASSEMBLE,
    HeldRequest,
    Permission,
    State,
)
from rota.sequencer.voiding import EndingBegun, Voiding
from rota.wire.messages import AssemblyOutcome, AssemblyResult, ErrorCode

if TYPE_CHECKING:
    from rota.sequencer.sender_transaction import SenderTransaction

CANCELLED = "cancelled"
VOIDED = "voided on the chain"


# Guards, in the table's order.


def was_voided(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart its empty transition was on the chain for good, but not its receipt on the disk"""
    return transaction.was_voided


def was_used(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart another leaf used its id, and its receipt is not on the disk"""
    return transaction.confirmed_leaf is not None


def was_ending(transaction: SenderTransaction, event: Event) -> bool:
    """it was decided to end before"""
    return transaction.is_ending


def was_issued(transaction: SenderTransaction, event: Event) -> bool:
    """its prepared transition was given to its user before"""
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
    """greater than the request of the last assembly; a copy changes nothing"""
    return transaction.request_id is None or event.request_id > transaction.request_id


def was_permitted_before(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """that leaf is permitted already, under the current number: there is only one permission (S4)"""
    permission = transaction.permission
    is_standing = permission is not None and permission.number == transaction.number
    return is_standing and asks_for_permitted_leaf(transaction, event)


def asks_for_assembled_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for the leaf that we assembled for it, under the current number"""
    result = transaction.result
    is_ours = result is not None and result.transition is not None and result.transition.leaf == event.item.leaf
    return is_ours and _is_current(transaction, event)


def asks_for_earlier_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for a leaf of before our restart"""
    return transaction.result is None and _is_current(transaction, event)


def asks_for_permitted_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """a repeated request for the permitted leaf"""
    permission = transaction.permission
    if permission is None or permission.leaf != event.item.leaf:
        return False
    return permission.delegate == event.peer and event.item.number >= permission.number


def is_delegating_to_peer(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """we have not delegated elsewhere"""
    return transaction.delegate in (None, event.peer)


def is_held_signature(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """our signature, and the states came with the request or are on our disk"""
    held = transaction.held
    is_held = held is not None and held.verified_as == event.request_id
    return is_held and event.is_ours and (_is_recorded(transaction) or _shown_by_held(transaction) is not None)


def is_permitted_leaf(transaction: SenderTransaction, event: Dispatched | NonceAssigned | Submitted) -> bool:
    """the permitted leaf, and meanwhile it was not skipped nor its submitter left"""
    permission = transaction.permission
    if permission is None or permission.leaf in (transaction.skipped_leaf, transaction.left_leaf):
        return False
    return event.leaf in (None, permission.leaf)


def index_has_caught_up(transaction: SenderTransaction, event: SubmitterSilent) -> bool:
    """our index has caught up"""
    return transaction.context.has_ledger


def is_to_back_off(transaction: SenderTransaction, event: Dropped) -> bool:
    """it does not wait already: saying so again and again does not make it wait longer"""
    return transaction.state is not State.PENDING or transaction.not_before_ms <= transaction.context.now_ms


def is_by_another(transaction: SenderTransaction, event: ConfirmedSuccess) -> bool:
    """the leaf is neither one that our party is known to have signed nor the empty one"""
    return event.leaf not in transaction.versions and not transaction.is_void(event.leaf)


def no_retry_is_left(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """a call of the permitted leaf failed, and `revert_retry_max` retries are used up (protocol §4.2)"""
    return transaction.has_no_retry_left(event.outcome)


def is_permitted_version(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """the permitted leaf failed"""
    return transaction.is_permitted(event.outcome.leaf)


def was_ending_passively(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was ending before that version was confirmed, and not being voided"""
    return transaction.is_ending and not transaction.is_voiding


def was_issued_and_goes_on(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was issued, and is not ending"""
    return transaction.issued is not None and not transaction.is_ending


def is_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> bool:
    """what is on the chain is the empty transition"""
    return transaction.confirmed_leaf is not None and transaction.is_void(transaction.confirmed_leaf)


def _is_recorded(transaction: SenderTransaction) -> bool:
    """What we are asked to permit has its contents on our disk, since before it left; the empty one has none."""
    assert transaction.held is not None, "who asks has looked"
    item = transaction.held.item
    is_empty = transaction.is_ending and transaction.is_void(item.leaf)
    return is_empty or transaction.versions.get(item.leaf, -1) >= item.valid_until_s


def _shown_by_held(transaction: SenderTransaction) -> Consistent | None:
    """The transition that came with the request: it must be what was signed, with all that is for us."""
    assert transaction.held is not None, "who asks has looked"
    item = transaction.held.item
    sent = item.transition
    if sent is None or (sent.intent, sent.leaf) != (transaction.intent.id, item.leaf):
        return None
    if (sent.valid_until_s, sent.signature) != (item.valid_until_s, item.signature):
        return None
    return consistent(transaction.context.separator, sent) if is_whole(sent) else None


def _is_current(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """One permission per number (S4); a lower number counts only if it is from before our restart."""
    permission = transaction.permission
    if permission is not None and permission.number == transaction.number:
        return event.peer == transaction.delegate and permission.leaf == event.item.leaf
    is_old = event.item.number < transaction.number
    from_before_restart = event.item.number.incarnation < transaction.context.incarnation
    return event.peer == transaction.delegate and (not is_old or from_before_restart)


def _was_not_let_go(transaction: SenderTransaction, leaf: Leaf) -> bool:
    """We neither permitted it nor gave it to our user: who committed it has asked nobody, and may tell nobody."""
    permission, issued = transaction.permission, transaction.issued
    is_permitted = permission is not None and permission.leaf == leaf
    is_issued = issued is not None and issued.transition.leaf == leaf
    return not (is_permitted or is_issued or transaction.is_void(leaf))


# Actions, in the table's order.


def restore_ending(transaction: SenderTransaction, event: Event) -> None:
    """Decided before the restart, or voided by another: it waits for nobody any more."""
    if transaction.was_voided:
        transaction.ending_reason = transaction.ending_reason or VOIDED
    _wait_for_nobody(transaction)


def restore_used(transaction: SenderTransaction, event: Event) -> None:
    """The block is final: what the index says of it is not said again."""
    _wait_for_nobody(transaction)
    _inquire(transaction, event).handle(ConfirmationFinal())


def restore_issued(transaction: SenderTransaction, event: Event) -> None:
    """Issued survives restarts."""
    assert transaction.issue is not None, "what was issued is external"
    _wait_for_nobody(transaction)
    transaction.issue.handle(event)


def restore_parked(transaction: SenderTransaction, event: Event) -> None:
    """Parked survives restarts."""
    transaction.reason = transaction.parked_reason or ""


def look_for_work(transaction: SenderTransaction, event: Event) -> None:
    """A backoff has ended, or one is less to wait for: the sender delegates it when nothing is left."""
    transaction.sender.look_for_work()


def end_for_dependency(transaction: SenderTransaction, event: DependencyReverted) -> None:
    """When a dependency reverts, so does this."""
    transaction.ending_reason = f"depends on {dependency_text(event.dependency)}, which {event.reason}"


def end_for_party(transaction: SenderTransaction, event: PartyResolved) -> None:
    """An unknown party reverts."""
    transaction.ending_reason = f"unknown party {event.party}"


def begin_lease(transaction: SenderTransaction, event: Delegated) -> None:
    """Accepted: the delegate's heartbeats must list it from now on. A held request is answered now."""
    transaction.delegate_incarnation = event.incarnation
    transaction.accepted_at = event.heartbeat
    transaction.lease_ms = transaction.context.now_ms
    held, transaction.held = transaction.held, None
    if held is not None:
        request = DispatchConfirmationRequestReceived(held.peer, held.request_id, held.item)
        transaction.context.post(transaction.receiver, request)


def lose_delegation(transaction: SenderTransaction, event: CoordinatorChanged) -> None:
    """Nobody coordinates it as far as we know."""
    transaction.reason = event.reason
    transaction.transition = None


def begin_assembly(transaction: SenderTransaction, event: AssembleRequestReceived) -> None:
    """Only the answer to the latest request counts. To ask is to have accepted.

    By asking while permission is out, the delegate states that the permitted leaf was not dispatched or was
    skipped: the delegation number grows (protocol §4.3).
    """
    permission = transaction.permission
    if permission is not None and permission.number == transaction.number:
        transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    stop_hold(transaction)
    transaction.sender.transaction_came_further(transaction, ASKED_TO_ASSEMBLE)
    transaction.request_id = event.request_id
    transaction.begin_assembly()
    transaction.lease_ms = transaction.context.now_ms


def sign(transaction: SenderTransaction, event: Assembled) -> None:
    """The `from` party signs the leaf, and so do the parties that its plan adds."""
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
            transaction.intent.nonce,
            tuple(signer.party for signer in event.attesters.signers),
        )
    )


def answer_assembled(transaction: SenderTransaction, event: AssembleAndSignSuccess) -> None:
    """From now on this version may be endorsed, until its validity ends."""
    unsigned = transaction.transition
    assert unsigned is not None, "what is signed was assembled"
    signed = unsigned.signed(event.signature)
    transaction.transition, transaction.attesters = signed, transaction.attesters.signed(event.cosignatures)
    transaction.failure_count = 0
    if not signed.is_empty:
        # The empty transition is no version that we have to wait for: should it land, that is what we report anyway.
        transaction.forget_expired_versions()
        transaction.note_version(signed.leaf, signed.valid_until_s)
        transaction.void_after_s = max(transaction.void_after_s, signed.valid_until_s)
    _answer_slot(transaction, AssemblyOutcome.ASSEMBLED, signed)


def answer_revert(transaction: SenderTransaction, event: AssembleRevert) -> None:
    """The intent is not valid: it ends here, and its coordinator gets the reason."""
    transaction.ending_reason, transaction.ending_code = event.reason, event.code
    _answer_slot(transaction, AssemblyOutcome.REVERTED, None, event.reason)


def answer_park(transaction: SenderTransaction, event: AssemblePark) -> None:
    """Recorded; its coordinator frees its place."""
    transaction.reason = transaction.parked_reason = event.reason
    transaction.context.persist(IntentParked(transaction.intent.id, event.reason))
    _answer_slot(transaction, AssemblyOutcome.PARKED, None, event.reason)


def answer_error(transaction: SenderTransaction, event: AssembleError) -> None:
    """The coordinator removes it; we delegate again with backoff, or when what it depends on is confirmed."""
    transaction.reason = event.reason
    transaction.is_put_off = event.code is ErrorCode.CONTENTION and not transaction.is_kept_away
    transaction.sender.assembly.fail(transaction, event.reason, event.code)
    if event.lacks_states:
        transaction.sender.assembly.lacking[transaction.intent.id] = None
    transaction.not_before_ms = 0 if event.awaits_dependencies else retry_later(transaction)


def delegate_later(transaction: SenderTransaction, event: Dropped) -> None:
    """Its delegate's word ends nothing: delegated again, to whoever coordinates then, later each time."""
    transaction.reason = f"{event.peer} gave it up: {event.reason}"
    if event.was_refused:
        # The delegate did what it could; until it has forgotten the intent it would reject it.
        transaction.needs_own_states, transaction.is_put_off = True, False
        config = transaction.context.config
        delay_ms = (config.closing_heartbeats + 2) * config.heartbeat_ms
        transaction.not_before_ms = _look_after(transaction, delay_ms)
        return
    transaction.is_put_off = True
    transaction.not_before_ms = _back_off(transaction, transaction.dropped_count)
    transaction.dropped_count += 1


def grant(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """One permission for this number."""
    assert transaction.result is not None
    made = transaction.result.transition
    assert made is not None
    _grant(transaction, HeldRequest(event.peer, event.request_id, event.item), made.valid_until_s)


def grant_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """A leaf that we signed before our restart: permitted without assembling again."""
    shown = None if _is_recorded(transaction) else _shown_by_held(transaction)
    held, transaction.held = transaction.held, None
    assert held is not None
    if shown is not None:
        # Our disk has lost it. The signature of this leaf and bound was verified.
        transaction.sender.assembly.record(transaction, Authorised(shown))
    _grant(transaction, held, held.item.valid_until_s)


def refuse_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Not our signature, or the states are missing: say which."""
    held = transaction.held
    if held is not None and held.verified_as == event.request_id:
        transaction.held = None
        code = ErrorCode.STATES_MISSING if event.is_ours else ErrorCode.WRONG_LEAF
        transaction.sender.refuse_dispatch(held.peer, held.request_id, transaction.intent.id, code)


def hold_request(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Wait until our delegation is accepted, then answer (protocol §4.3)."""
    transaction.held = HeldRequest(event.peer, event.request_id, event.item)
    due_ms = transaction.context.after(transaction.context.config.request_timeout_ms)
    transaction.context.timers.set(transaction, "held", due_ms, HoldExpired())


def verify_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Did we sign that leaf before our restart? Asked too often, it is not looked at: the coordinator asks again."""
    if not transaction.sender.may_have_verified(event.peer, transaction.intent.id, "leaf"):
        return
    item = event.item
    verified_as = transaction.verify(item.leaf, item.valid_until_s, item.signature)
    transaction.held = HeldRequest(event.peer, event.request_id, item, verified_as)


def grant_again(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """The same answer for the same leaf."""
    transaction.sender.permit_dispatch(event.peer, event.request_id, transaction.intent.id)


def refuse(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """It has ended, nobody coordinates it, or for another delegate, delegation or leaf: the coordinator drops it."""
    if transaction.is_ended:
        code = ErrorCode.FINAL_INTENT
    elif not transaction.is_under_way or event.peer != transaction.delegate:
        code = ErrorCode.NOT_CURRENT_DELEGATE
    else:
        code = ErrorCode.STALE_DELEGATION if event.item.number < transaction.number else ErrorCode.WRONG_LEAF
    transaction.refuse(event, code)


def forget_held(transaction: SenderTransaction, event: HoldExpired) -> None:
    """The coordinator asks again if it still wants to know."""
    transaction.held = None


def note_listed(transaction: SenderTransaction, event: Event) -> None:
    """Its submitter lists it: hold it for `submitter_grace` more."""
    _start_hold(transaction)


def note_nonce(transaction: SenderTransaction, event: NonceAssigned) -> None:
    """The base-ledger transaction has its place."""
    transaction.signer_and_nonce = (event.signer, event.nonce)
    _start_hold(transaction)


def release(transaction: SenderTransaction, event: SubmitterSilent) -> None:
    """Nobody lists it, or that no longer counts: delegate anew; the chain lets only one of the two happen."""
    stop_hold(transaction)
    transaction.reason = event.reason
    if event.is_left and transaction.permission is not None:
        transaction.left_leaf = transaction.permission.leaf


def keep_hold(transaction: SenderTransaction, event: SubmitterSilent) -> None:
    """Our own index is behind: it may be on the chain already."""
    _start_hold(transaction)


def note_given_up(transaction: SenderTransaction, event: GivenUp) -> None:
    """Endorsers or its domain refuse it; a voided one keeps its own reason."""
    transaction.ending_reason = transaction.ending_reason or event.reason


def give_up_on_ledger(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Its coordinator gives up too, but its message may be lost."""
    transaction.ending_reason = event.outcome.reason


def note_used(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """Nobody can commit our leaf any more; whether this one is ours is asked at once."""
    note_confirmed(transaction, event)
    _inquire(transaction, event)


def note_confirmed(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """A version of it that our party signed is on the chain, or the empty one."""
    stop_hold(transaction)
    transaction.confirmed_leaf = event.leaf
    if _was_not_let_go(transaction, event.leaf):
        transaction.context.effects.append(DistributeStates(transaction.intent.contract, event.leaf))
    transaction.sender.transaction_ended(transaction)


def note_reverted(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Delegated again at once: its coordinator retries, and if that one is gone the lease moves it."""
    stop_hold(transaction)
    transaction.reason = event.outcome.reason
    transaction.lease_ms = transaction.context.now_ms
    transaction.accepted_at = transaction.sender.latest_number_of(transaction.delegate)
    _count(transaction, event)
    transaction.sender.ledger_reverted()


def count_revert(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """A version that we permitted to an earlier delegate failed: it counts, and the intent goes on where it is."""
    _count(transaction, event)


def forget_confirmation(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """Its block is gone."""
    transaction.confirmed_leaf = None
    close_inquiry(transaction, event)


def close_inquiry(transaction: SenderTransaction, event: Event) -> None:
    """It is known whose the leaf on the chain is, or it is gone."""
    inquiry, transaction.inquiry = transaction.inquiry, None
    if inquiry is not None:
        inquiry.close()
        transaction.receiver = inquiry.behind


def watch_again(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """Its block is gone: it is under way again."""
    forget_confirmation(transaction, event)
    _start_hold(transaction)
    transaction.sender.look_for_work()


def report_confirmed(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """Final depth: the receipt, which the index has made durable, is reported and the intent forgotten."""
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "what is confirmed has a leaf"
    receipt = Receipt(transaction.intent.id, Outcome.CONFIRMED, leaf=leaf)
    transaction.context.effects.append(ReportReceipt(receipt))
    transaction.sender.forget(transaction)


def note_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """Whoever voided it: no version of it can happen any more."""
    transaction.ending_reason = transaction.ending_reason or VOIDED


def begin_anew(transaction: SenderTransaction, event: VoidingBegun) -> None:
    """It travels once more, as an empty transition: what was permitted, held or awaited before is forgotten.

    The number grows, so that permission for the empty transition is the only one under it (S4).
    """
    transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    transaction.permission = transaction.result = transaction.transition = transaction.held = None
    transaction.skipped_leaf = None
    transaction.revert_count = transaction.failure_count = transaction.not_before_ms = 0
    transaction.reason = ""
    _wait_for_nobody(transaction)


def accept_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """It ends when no version of it can happen any more; where none could, its receipt is the record."""
    transaction.ending_reason, transaction.ending_code = CANCELLED, ""
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def refuse_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """Permission is out, or it has ended: say where it is."""
    error = f"cannot be cancelled: it is {transaction.state.value}"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Its user lets it go on."""
    transaction.parked_reason = None
    transaction.context.persist(IntentResumed(transaction.intent.id))
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def refuse_resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Only what is parked can be resumed."""
    error = f"cannot be resumed: it is {transaction.state.value}, not Parked"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


# Entry actions.


def enter_pending(transaction: SenderTransaction) -> None:
    """The sender is to find somebody who coordinates it, unless it learnt meanwhile that it cannot succeed."""
    transaction.sender.parties.resolve_for(transaction)
    if transaction.reverted_dependency is not None and not transaction.is_ending:
        transaction.context.post(transaction, transaction.reverted_dependency)
    if transaction.unknown_party is not None and not transaction.is_ending:
        transaction.context.post(transaction, PartyResolved(transaction.unknown_party, ""))
    transaction.sender.look_for_work()


def enter_prepared(transaction: SenderTransaction) -> None:
    """Held from now on for its submitter."""
    _start_hold(transaction)


def enter_waiting(transaction: SenderTransaction) -> None:
    """Nobody coordinates it: it is its user's."""
    transaction.sender.transaction_ended(transaction)


def enter_ending(transaction: SenderTransaction) -> None:
    """The decision is recorded once, whatever the reason; then the voiding looks at how it can end."""
    stop_hold(transaction)
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
    """Its receipt is recorded and reported, and the intent leaves memory."""
    receipt = _receipt(transaction)
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


def _wait_for_nobody(transaction: SenderTransaction) -> None:
    transaction.unmet.clear()
    transaction.unresolved.clear()


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


def _start_hold(transaction: SenderTransaction) -> None:
    due_ms = transaction.context.after(transaction.context.config.submitter_grace_ms)
    transaction.context.timers.set(transaction, "hold", due_ms, SubmitterSilent())


def stop_hold(transaction: SenderTransaction) -> None:
    """Nobody's listing is waited for any more."""
    transaction.context.timers.cancel(transaction, "hold")


def retry_later(transaction: SenderTransaction) -> int:
    """Set the timer of a backoff, later each time; when it ends."""
    due_ms = _back_off(transaction, transaction.failure_count)
    transaction.failure_count += 1
    return due_ms


def _back_off(transaction: SenderTransaction, attempt: int) -> int:
    config = transaction.context.config
    delay_ms = transaction.context.backoff_ms(attempt, config.retry_backoff_ms, config.retry_backoff_max_ms)
    return _look_after(transaction, delay_ms)


def _look_after(transaction: SenderTransaction, delay_ms: int) -> int:
    context = transaction.context
    due_ms = context.after(delay_ms)
    context.timers.set(transaction, "retry", due_ms, RetryDue())
    return due_ms


def _count(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Each version whose call failed counts once, however often its block is indexed, and our domain is asked about it.

    Contention does not count, nor does the revert of a whole transaction, which may be its submitter's doing.
    """
    outcome, is_new = event.outcome, transaction.skipped_leaf != event.outcome.leaf
    transaction.skipped_leaf, transaction.skipped_reason = outcome.leaf, outcome.reason
    if is_new and outcome.is_counted:
        transaction.revert_count += 1
        if not transaction.is_voiding:
            failure, intent = outcome.failure or CallFailure(), transaction.intent
            transaction.context.effects.append(JudgeFailure(intent.contract, intent, outcome.leaf, failure))


def _receipt(transaction: SenderTransaction) -> Receipt:
    assert transaction.ending_reason is not None, "what was reverted has a reason"
    leaf = transaction.confirmed_leaf if transaction.ending_code == INTENT_ID_USED else None
    return Receipt(
        transaction.intent.id,
        Outcome.REVERTED,
        transaction.ending_reason,
        leaf or NO_LEAF,
        code=transaction.ending_code,
    )
