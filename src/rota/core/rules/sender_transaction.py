"""The guards and actions of the sender's transaction, in its table's order (protocol §4.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rota.core.effects import (
    CancelAccepted,
    IntentFinalised,
    IntentParked,
    IntentResumed,
    PermissionGranted,
    ReplyToUser,
    ReportReceipt,
    SignTransition,
    VerifySignature,
)
from rota.core.events.sender_transaction import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
    CancelDurable,
    CancelNotWritten,
    CancelRequested,
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    ConfirmedSuccess,
    CoordinatorChanged,
    Delegated,
    DependencyConfirmed,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    Dispatched,
    GivenUp,
    HoldExpired,
    NonceAssigned,
    ParkDurable,
    ParkNotWritten,
    PartyResolved,
    PermissionDurable,
    PermissionNotWritten,
    ReceiptDurable,
    ReceiptNotWritten,
    Resumed,
    ResumeDurable,
    ResumeFailed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    dependency_event,
)
from rota.core.machine import Event
from rota.core.states.sender_transaction import HeldRequest, Permission
from rota.messages import AssemblyOutcome, AssemblyResult, ErrorCode
from rota.types import DelegationNumber, Outcome, Receipt, Transition

if TYPE_CHECKING:
    from rota.core.sender_transaction import SenderTransaction


# Guards, in the table's order.


def was_parked(transaction: SenderTransaction, event: Event) -> bool:
    """it was parked before the restart"""
    return transaction.parked_reason is not None


def was_cancelled(transaction: SenderTransaction, event: Event) -> bool:
    """it was cancelled before the restart"""
    return transaction.is_cancelled


def is_unknown_party(transaction: SenderTransaction, event: PartyResolved) -> bool:
    """there is no such party"""
    return not event.verifier and event.party in transaction.unresolved


def is_unknown_party_of_old(transaction: SenderTransaction, event: PartyResolved) -> bool:
    """there is no such party, but a version of before a restart could have been endorsed"""
    return is_unknown_party(transaction, event) and something_may_be_endorsed(transaction, event)


def is_new_request(transaction: SenderTransaction, event: AssembleRequestReceived) -> bool:
    """greater than the request of the last assembly; a copy changes nothing"""
    return transaction.request_id is None or event.request_id > transaction.request_id


def something_may_be_endorsed(transaction: SenderTransaction, event: Event) -> bool:
    """a version could have been endorsed and is not void yet"""
    return transaction.void_after_s > 0 and transaction.sender.final_time_s <= transaction.void_after_s


def asks_for_assembled_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for the leaf that we assembled for it, under the current number"""
    result = transaction.result
    is_ours = result is not None and result.transition is not None and result.transition.leaf == event.item.leaf
    return is_ours and _is_current(transaction, event)


def asks_for_earlier_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """the current delegate asks for a leaf of before our restart"""
    return transaction.result is None and _is_current(transaction, event)


def is_being_written(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """a copy, while the permission is being written: the write is answered, or the next copy"""
    return asks_for_permitted_leaf(transaction, event) and not transaction.is_permission_durable


def is_that_permission(transaction: SenderTransaction, event: PermissionDurable | PermissionNotWritten) -> bool:
    """the permission under that number is still the latest"""
    return transaction.permission is not None and transaction.permission.number == event.number


def asks_for_permitted_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """a repeated request for the permitted leaf"""
    permission = transaction.permission
    if permission is None or permission.transition.leaf != event.item.leaf:
        return False
    return permission.delegate == event.peer and event.item.number >= permission.number


def is_delegating_to_peer(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """we have not delegated elsewhere"""
    return transaction.delegate in (None, event.peer)


def is_held_signature(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """our signature, and the states came with the request or are on our disk"""
    return event.is_ours and _states_of_held(transaction) is not None


def is_permitted_leaf(transaction: SenderTransaction, event: Dispatched | NonceAssigned | Submitted) -> bool:
    """the permitted leaf, and it was not skipped meanwhile"""
    permission = transaction.permission
    if permission is None or transaction.skipped_leaf == permission.transition.leaf:
        return False
    return event.leaf in (None, permission.transition.leaf)


def index_has_caught_up(transaction: SenderTransaction, event: SubmitterSilent) -> bool:
    """our index has caught up"""
    return transaction.context.has_ledger


def no_retry_is_left(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """the permitted leaf failed, and by the domain's word or the count it is not retried (protocol §4.2)"""
    outcome = event.outcome
    is_counted = is_permitted_version(transaction, event) and not outcome.is_contention
    used_up = transaction.revert_count >= transaction.context.config.revert_retry_max
    return is_counted and (used_up or not outcome.is_retryable)


def is_permitted_version(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """the permitted leaf failed"""
    permission = transaction.permission
    return permission is not None and permission.transition.leaf == event.outcome.leaf


def _states_of_held(transaction: SenderTransaction) -> Transition | None:
    """The transition that we are asked to permit: from the request, or from the permission of before our restart."""
    held, permission = transaction.held, transaction.permission
    if held is None:
        return None
    if permission is not None and permission.transition.leaf == held.item.leaf:
        return permission.transition
    return held.item.transition


def was_ending(transaction: SenderTransaction, event: Event) -> bool:
    """it was ending before that version was confirmed"""
    return transaction.is_ending


def ends_by_that_cancel(transaction: SenderTransaction, event: CancelNotWritten) -> bool:
    """it ends by that cancel alone"""
    is_last = transaction.cancels_open == 1
    return is_last and transaction.ends_by_cancel and not transaction.is_cancelled


def is_cancelled_otherwise(transaction: SenderTransaction, event: Event) -> bool:
    """it ends for another reason, or another cancel is durable or under way"""
    return not transaction.ends_by_cancel or transaction.is_cancelled or transaction.cancels_open > 0


def may_end(transaction: SenderTransaction, event: Event) -> bool:
    """its cancel, if it ends by one, is durable"""
    return transaction.is_cancelled or not transaction.ends_by_cancel


def _is_current(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """One permission per number (S4); a lower number counts only if it is from before our restart."""
    permission = transaction.permission
    if permission is not None and permission.number == transaction.number:
        return event.peer == transaction.delegate and permission.transition.leaf == event.item.leaf
    is_old = event.item.number < transaction.number
    from_before_restart = event.item.number.incarnation < transaction.context.incarnation
    return event.peer == transaction.delegate and (not is_old or from_before_restart)


# Actions, in the table's order.


def restore_parked(transaction: SenderTransaction, event: Event) -> None:
    """Parked survives restarts."""
    transaction.reason = transaction.parked_reason or ""


def note_dependency(transaction: SenderTransaction, event: DependencyConfirmed) -> None:
    """One dependency less; the sender delegates it when none is left."""
    transaction.unmet.pop(event.intent, None)
    transaction.sender.look_for_work()


def note_party(transaction: SenderTransaction, event: PartyResolved) -> None:
    """One party less to resolve."""
    transaction.unresolved.pop(event.party, None)
    transaction.sender.look_for_work()


def end_for_party(transaction: SenderTransaction, event: PartyResolved) -> None:
    """An unknown party reverts."""
    transaction.reason = f"unknown party {event.party}"


def end_for_dependency(transaction: SenderTransaction, event: DependencyReverted) -> None:
    """When a dependency reverts, so does this."""
    transaction.reason = f"depends on {event.intent.hex()}, which was reverted"


def begin_lease(transaction: SenderTransaction, event: Delegated) -> None:
    """Accepted: the delegate's heartbeats must list it from now on. A held request is answered now."""
    transaction.delegate_incarnation = event.incarnation
    transaction.accepted_at = event.heartbeat
    transaction.lease_ms = transaction.context.now_ms
    held, transaction.held = transaction.held, None
    if held is not None:
        transaction.context.post(transaction, DispatchConfirmationRequestReceived(*held))


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
    _stop_hold(transaction)
    transaction.request_id = event.request_id
    transaction.result = None
    transaction.lease_ms = transaction.context.now_ms


def sign(transaction: SenderTransaction, event: Assembled) -> None:
    """The `from` party signs the leaf."""
    assert transaction.request_id is not None, "assembly has a request"
    transaction.transition = event.transition
    transaction.context.effects.append(
        SignTransition(
            transaction.intent.contract,
            transaction.request_id,
            transaction.intent.id,
            transaction.intent.sender,
            event.transition.leaf,
        )
    )


def answer_assembled(transaction: SenderTransaction, event: AssembleAndSignSuccess) -> None:
    """From now on this version may be endorsed, until its validity ends."""
    unsigned = transaction.transition
    assert unsigned is not None, "what is signed was assembled"
    signed = replace(unsigned, signature=event.signature)
    transaction.transition = signed
    transaction.failure_count = 0
    transaction.void_after_s = max(transaction.void_after_s, signed.valid_until_s)
    _answer_slot(transaction, AssemblyOutcome.ASSEMBLED, signed)


def answer_revert(transaction: SenderTransaction, event: AssembleRevert) -> None:
    """The intent is not valid: it ends here."""
    transaction.reason = event.reason
    _answer_slot(transaction, AssemblyOutcome.REVERTED, None, event.reason)


def answer_park(transaction: SenderTransaction, event: AssemblePark) -> None:
    """Durable first, then the coordinator is told and frees its place."""
    transaction.reason = event.reason
    record = IntentParked(transaction.intent.id, event.reason)
    transaction.context.persist(record, transaction, ParkDurable(), ParkNotWritten())


def answer_error(transaction: SenderTransaction, event: AssembleError) -> None:
    """The coordinator removes it; we delegate again with backoff."""
    transaction.reason = event.reason
    transaction.sender.assembly.fail(transaction, event.reason)
    _back_off(transaction)


def grant(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """One permission for this number: durable first, then the answer leaves."""
    assert transaction.result is not None
    assert transaction.result.transition is not None
    _grant(transaction, HeldRequest(event.peer, event.request_id, event.item), transaction.result.transition)


def grant_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """A leaf that we signed before our restart: permitted without assembling again."""
    states = _states_of_held(transaction)
    held, transaction.held = transaction.held, None
    assert held is not None
    assert states is not None
    _grant(transaction, held, states)


def refuse_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Not our signature, or the states are missing: say which."""
    held, transaction.held = transaction.held, None
    if held is not None:
        code = ErrorCode.STATES_MISSING if event.is_ours else ErrorCode.WRONG_LEAF
        transaction.sender.refuse_dispatch(held.peer, held.request_id, transaction.intent.id, code)


def hold_request(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Wait until our delegation is accepted, then answer (protocol §4.3)."""
    transaction.held = HeldRequest(event.peer, event.request_id, event.item)
    due_ms = transaction.context.after(transaction.context.config.request_timeout_ms)
    transaction.context.timers.set(transaction, "held", due_ms, HoldExpired())


def verify_leaf(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Did we sign that leaf before our restart?"""
    transaction.held = HeldRequest(event.peer, event.request_id, event.item)
    transaction.context.effects.append(
        VerifySignature(
            transaction.intent.contract,
            event.request_id,
            transaction.intent.id,
            transaction.intent.sender,
            event.item.leaf,
            event.item.signature,
        )
    )


def grant_again(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """The same answer for the same leaf."""
    transaction.sender.permit_dispatch(event.peer, event.request_id, transaction.intent.id)


def answer_permitted(transaction: SenderTransaction, event: PermissionDurable) -> None:
    """Durable: the permission is given."""
    transaction.is_permission_durable = True
    transaction.sender.permit_dispatch(event.peer, event.request_id, transaction.intent.id)


def refuse_stale(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """An older delegation, another delegate, or another leaf: the coordinator drops it."""
    if event.peer != transaction.delegate:
        code = ErrorCode.NOT_CURRENT_DELEGATE
    else:
        code = ErrorCode.STALE_DELEGATION if event.item.number < transaction.number else ErrorCode.WRONG_LEAF
    transaction.sender.refuse_dispatch(event.peer, event.request_id, transaction.intent.id, code)


def refuse_parked(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """Nobody coordinates it while it is parked."""
    transaction.sender.refuse_dispatch(
        event.peer, event.request_id, transaction.intent.id, ErrorCode.NOT_CURRENT_DELEGATE
    )


def refuse_cancelled(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """It is ending."""
    transaction.sender.refuse_dispatch(event.peer, event.request_id, transaction.intent.id, ErrorCode.CANCELLED)


def refuse_final(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """It has ended."""
    transaction.sender.refuse_dispatch(event.peer, event.request_id, transaction.intent.id, ErrorCode.FINAL_INTENT)


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
    """Nobody lists it: delegate anew; the chain lets only one of the two happen."""
    transaction.reason = "its submitter is silent"


def keep_hold(transaction: SenderTransaction, event: SubmitterSilent) -> None:
    """Our own index is behind: it may be on the chain already."""
    _start_hold(transaction)


def note_given_up(transaction: SenderTransaction, event: GivenUp) -> None:
    """Submitter and coordinator have given up."""
    transaction.reason = event.reason


def note_confirmed(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """A version of it is on the chain; which one does not matter."""
    _stop_hold(transaction)
    transaction.confirmed_leaf = event.leaf
    transaction.sender.transaction_ended()


def note_reverted(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Delegated again at once: its coordinator retries, and if that one is gone the lease moves it."""
    _stop_hold(transaction)
    transaction.reason = event.outcome.reason
    transaction.lease_ms = transaction.context.now_ms
    transaction.accepted_at = transaction.sender.latest_number_of(transaction.delegate)
    _count(transaction, event)
    transaction.sender.ledger_reverted()


def count_revert(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """A version that we permitted to an earlier delegate failed: it counts, and the intent goes on where it is."""
    _count(transaction, event)


def give_up_on_ledger(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Its coordinator gives up too, but its message may be lost."""
    transaction.reason = event.outcome.reason


def restore_cancelled(transaction: SenderTransaction, event: Event) -> None:
    """A cancel survives restarts."""
    transaction.reason = "cancelled"


def watch_again(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """Its block is gone: it is under way again."""
    transaction.confirmed_leaf = None
    _start_hold(transaction)
    transaction.sender.look_for_work()


def report_confirmed(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """Final depth: the receipt, which the index has made durable, is reported and the intent forgotten."""
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "what is confirmed has a leaf"
    receipt = Receipt(transaction.intent.id, Outcome.CONFIRMED, leaf=leaf)
    transaction.context.effects.append(ReportReceipt(receipt))
    transaction.sender.forget(transaction)


def accept_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """It ends when every version of it is void; the user is told when that is durable."""
    transaction.reason = "cancelled"
    transaction.ends_by_cancel = True
    write_cancel(transaction, event)


def write_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """Durable first, also when it is ending already."""
    transaction.cancels_open += 1
    done, failed = CancelDurable(event.reply_to), CancelNotWritten(event.reply_to)
    transaction.context.persist(CancelAccepted(transaction.intent.id), transaction, done, failed)


def cancel_at_once(transaction: SenderTransaction, event: CancelRequested) -> None:
    """No version of it was ever assembled: the receipt itself is the record."""
    transaction.reason = "cancelled"
    transaction.reply_to = event.reply_to


def tell_cancelled(transaction: SenderTransaction, event: CancelDurable) -> None:
    """Then the user is told."""
    transaction.cancels_open -= 1
    transaction.is_cancelled = True
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def tell_not_cancelled(transaction: SenderTransaction, event: CancelNotWritten) -> None:
    """Not durable, so not cancelled, although it may end for another reason: the user is told."""
    transaction.cancels_open -= 1
    if not is_cancelled_otherwise(transaction, event):
        transaction.is_ending = transaction.ends_by_cancel = False
    error = "the cancellation could not be written; try again"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def withdraw_cancel(transaction: SenderTransaction, event: CancelNotWritten) -> None:
    """Not durable, so not cancelled: the user is told, and the intent goes on."""
    tell_not_cancelled(transaction, event)


def refuse_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """Permission is out, or it has ended: say where it is."""
    error = f"cannot be cancelled: it is {transaction.state.value}"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def write_resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Durable first."""
    record = IntentResumed(transaction.intent.id)
    done, failed = ResumeDurable(event.reply_to), ResumeFailed(event.reply_to)
    transaction.context.persist(record, transaction, done, failed)


def resume(transaction: SenderTransaction, event: ResumeDurable) -> None:
    """Then the user is told, and it is delegated."""
    transaction.parked_reason = None
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def report_unresumed(transaction: SenderTransaction, event: ResumeFailed) -> None:
    """It stays parked, and the user is told."""
    error = "the resumption could not be written; try again"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def refuse_resume(transaction: SenderTransaction, event: Resumed) -> None:
    """Only what is parked can be resumed."""
    error = f"cannot be resumed: it is {transaction.state.value}, not Parked"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def forget_permission(transaction: SenderTransaction, event: PermissionNotWritten) -> None:
    """It was never given, and its coordinator has asked anew meanwhile."""
    _go_back_to_earlier_permission(transaction)


def withdraw_permission(transaction: SenderTransaction, event: PermissionNotWritten) -> None:
    """The permission is not durable, so it was not given; the coordinator asks again."""
    _go_back_to_earlier_permission(transaction)


def answer_parked(transaction: SenderTransaction, event: ParkDurable) -> None:
    """Durable: now the coordinator is told and frees its place."""
    _answer_slot(transaction, AssemblyOutcome.PARKED, None, transaction.reason)


def forget_assembly(transaction: SenderTransaction, event: ParkNotWritten) -> None:
    """Parking is not durable and was not told: assemble when asked again."""
    transaction.request_id = None
    transaction.sender.look_for_work()


def write_again(transaction: SenderTransaction, event: ReceiptNotWritten) -> None:
    """The receipt must become durable before it is told: again, with backoff."""
    context = transaction.context
    config = context.config
    delay_ms = context.backoff_ms(transaction.failure_count, config.retry_backoff_ms, config.retry_backoff_max_ms)
    transaction.failure_count += 1
    context.timers.set(transaction, "retry", context.after(delay_ms), RetryDue())


def finalise_again(transaction: SenderTransaction, event: RetryDue) -> None:
    """Try to write the receipt again."""
    _finalise(transaction)


def forget(transaction: SenderTransaction, event: ReceiptDurable) -> None:
    """Durable: now it is told, and goes out of memory."""
    if transaction.reply_to:
        transaction.context.effects.append(ReplyToUser(transaction.reply_to, transaction.intent.id))
    transaction.context.effects.append(ReportReceipt(_receipt(transaction)))
    transaction.sender.forget(transaction)


def look_for_work(transaction: SenderTransaction, event: RetryDue) -> None:
    """A backoff has ended."""
    transaction.sender.look_for_work()


# Entry actions.


def enter_pending(transaction: SenderTransaction) -> None:
    """The sender is to find somebody who coordinates it; what became known while a permission was out counts now."""
    transaction.sender.parties.resolve_for(transaction)
    for other in transaction.unmet:
        if other in transaction.ended_dependencies:
            transaction.context.post(transaction, dependency_event(other, transaction.ended_dependencies[other]))
    transaction.sender.look_for_work()


def enter_prepared(transaction: SenderTransaction) -> None:
    """Held from now on for its submitter."""
    _start_hold(transaction)


def enter_parked(transaction: SenderTransaction) -> None:
    """Nothing is to be sent for it until its user resumes it."""
    transaction.sender.transaction_ended()


def enter_ending(transaction: SenderTransaction) -> None:
    """It ends when no version can happen any more."""
    transaction.is_ending = True
    _stop_hold(transaction)
    transaction.sender.transaction_ended()


def enter_reverted(transaction: SenderTransaction) -> None:
    """Durable first, then it is told."""
    _finalise(transaction)
    transaction.sender.transaction_ended()


def _answer_slot(
    transaction: SenderTransaction, outcome: AssemblyOutcome, transition: Transition | None, reason: str = ""
) -> None:
    result = AssemblyResult(transaction.intent.id, outcome, transaction.number, transition, reason)
    transaction.result = result
    transaction.sender.assembly.finish(transaction, result)


def _go_back_to_earlier_permission(transaction: SenderTransaction) -> None:
    """One that is on the disk stands, whatever became of a later one."""
    transaction.permission = transaction.earlier_permission
    transaction.is_permission_durable = transaction.permission is not None


def _grant(transaction: SenderTransaction, request: HeldRequest, transition: Transition) -> None:
    if transaction.is_permission_durable:
        transaction.earlier_permission = transaction.permission
    transaction.permission = Permission(transaction.number, request.peer, transition)
    transaction.is_permission_durable = False
    record = PermissionGranted(transaction.intent.id, transaction.number, request.peer, transition)
    done = PermissionDurable(transaction.number, request.peer, request.request_id)
    transaction.context.persist(record, transaction, done, PermissionNotWritten(transaction.number))


def _start_hold(transaction: SenderTransaction) -> None:
    due_ms = transaction.context.after(transaction.context.config.submitter_grace_ms)
    transaction.context.timers.set(transaction, "hold", due_ms, SubmitterSilent())


def _stop_hold(transaction: SenderTransaction) -> None:
    transaction.context.timers.cancel(transaction, "hold")


def _back_off(transaction: SenderTransaction) -> None:
    context = transaction.context
    config = context.config
    delay_ms = context.backoff_ms(transaction.failure_count, config.retry_backoff_ms, config.retry_backoff_max_ms)
    transaction.failure_count += 1
    transaction.not_before_ms = context.after(delay_ms)
    context.timers.set(transaction, "retry", transaction.not_before_ms, RetryDue())


def _finalise(transaction: SenderTransaction) -> None:
    record = IntentFinalised(_receipt(transaction))
    transaction.context.persist(record, transaction, ReceiptDurable(), ReceiptNotWritten())


def _count(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Each failed version counts once, however often its block is indexed; contention does not count."""
    if transaction.skipped_leaf != event.outcome.leaf:
        transaction.revert_count += not event.outcome.is_contention
    transaction.skipped_leaf = event.outcome.leaf


def _receipt(transaction: SenderTransaction) -> Receipt:
    return Receipt(transaction.intent.id, Outcome.REVERTED, transaction.reason)
