"""How an intent ends that somebody may have endorsed: guards and actions of the sender's transaction (protocol §4.3).

The decision is recorded, whatever its reason. Then the intent is voided: it travels the ordinary way once more, as an
empty transition, and when that is on the chain no other version can be. Where that is not possible it waits until the
last version that we signed is no longer valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.machine.effects import ReplyToUser
from rota.machine.tables import Event
from rota.model.awaited import dependency_text
from rota.model.types import DelegationNumber
from rota.sequencer.effects import EndingDecided
from rota.sequencer.events.sender_transaction import (
    AssembleRevert,
    CancelRequested,
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    EndingBegun,
    FailureJudged,
    GivenUp,
    PartyResolved,
)
from rota.sequencer.rules import sender_transaction as rules
from rota.wire.messages import ErrorCode

if TYPE_CHECKING:
    from rota.sequencer.sender_transaction import SenderTransaction

CANCELLED = "cancelled"
VOIDED = "voided on the chain"


# Guards, in the table's order.


def was_voided(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart its empty transition was on the chain for good, but not its receipt on the disk"""
    return transaction.was_voided


def was_ending(transaction: SenderTransaction, event: Event) -> bool:
    """it was decided to end before"""
    return transaction.is_ending


def something_may_be_endorsed(transaction: SenderTransaction, event: Event) -> bool:
    """a version could have been endorsed and is not void yet"""
    return transaction.void_after_s > 0 and transaction.sender.final_time_s <= transaction.void_after_s


def asks_for_an_old_version(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """it is being voided, and the leaf is not the empty one"""
    return transaction.is_voiding and not transaction.is_void(event.item.leaf)


def is_voiding(transaction: SenderTransaction, event: Event) -> bool:
    """it is being voided"""
    return transaction.is_voiding


def void_has_failed(transaction: SenderTransaction, event: ConfirmedReverted) -> bool:
    """it is being voided, and its empty transition used the retries up"""
    return transaction.is_voiding and rules.no_retry_is_left(transaction, event)


def is_not_worth_retrying(transaction: SenderTransaction, event: FailureJudged) -> bool:
    """our domain says that the version which failed last on our index is not worth another attempt"""
    is_latest = event.leaf == transaction.skipped_leaf
    return is_latest and not event.is_worth_retrying and not transaction.is_ending


def is_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> bool:
    """what is on the chain is the empty transition"""
    return transaction.confirmed_leaf is not None and transaction.is_void(transaction.confirmed_leaf)


def was_ending_passively(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was ending before that version was confirmed, and not being voided"""
    return transaction.is_ending and not transaction.is_voiding


def ends_anyway(transaction: SenderTransaction, event: CancelRequested) -> bool:
    """it is being voided, and no other version is on the chain"""
    leaf = transaction.confirmed_leaf
    return transaction.is_voiding and (leaf is None or transaction.is_void(leaf))


def versions_are_void(transaction: SenderTransaction, event: EndingBegun) -> bool:
    """no version is valid any more"""
    return not something_may_be_endorsed(transaction, event)


def can_be_voided(transaction: SenderTransaction, event: EndingBegun) -> bool:
    """the empty transition has not failed; by endorsers or, where transitions are proved, by the party alone"""
    return not transaction.has_failed_to_void


# Actions, in the table's order.


def restore_ending(transaction: SenderTransaction, event: Event) -> None:
    """Decided before the restart, or voided by another: it waits for nobody any more."""
    if transaction.was_voided:
        transaction.ending_reason = transaction.ending_reason or VOIDED
    _wait_for_nobody(transaction)


def end_for_dependency(transaction: SenderTransaction, event: DependencyReverted) -> None:
    """When a dependency reverts, so does this."""
    transaction.ending_reason = f"depends on {dependency_text(event.dependency)}, which {event.reason}"


def end_for_party(transaction: SenderTransaction, event: PartyResolved) -> None:
    """An unknown party reverts."""
    transaction.ending_reason = f"unknown party {event.party}"


def answer_revert(transaction: SenderTransaction, event: AssembleRevert) -> None:
    """The intent is not valid: it ends here."""
    transaction.ending_reason, transaction.ending_code = event.reason, event.code
    rules.answer_reverted(transaction, event.reason)


def refuse_cancelled(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """It is ending."""
    transaction.sender.refuse_dispatch(event.peer, event.request_id, transaction.intent.id, ErrorCode.CANCELLED)


def refuse_old_version(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """The coordinator drops what it has; the intent is delegated to it anew, to be voided."""
    transaction.reason = "its coordinator had an older version of it"
    refuse_cancelled(transaction, event)


def note_given_up(transaction: SenderTransaction, event: GivenUp) -> None:
    """Too many endorsers refuse it."""
    transaction.ending_reason = event.reason


def give_up_on_ledger(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """Its coordinator gives up too, but its message may be lost."""
    transaction.ending_reason = event.outcome.reason


def give_up_on_verdict(transaction: SenderTransaction, event: FailureJudged) -> None:
    """It ends with the ledger's reason."""
    transaction.ending_reason = transaction.skipped_reason


def stop_voiding(transaction: SenderTransaction, event: GivenUp) -> None:
    """The empty transition is refused: the intent ends when its versions are no longer valid."""
    _stop_voiding(transaction, event.reason)


def stop_voiding_on_ledger(transaction: SenderTransaction, event: ConfirmedReverted) -> None:
    """The empty transition fails on the ledger: the intent ends when its versions are no longer valid."""
    _stop_voiding(transaction, event.outcome.reason)


def note_voided(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """Whoever voided it: no version of it can happen any more."""
    transaction.ending_reason = transaction.ending_reason or VOIDED


def accept_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """It ends when no version of it can happen any more; where none could, its receipt is the record."""
    transaction.ending_reason, transaction.ending_code = CANCELLED, ""
    agree_to_cancel(transaction, event)


def agree_to_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """It ends, now or already."""
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


def refuse_cancel(transaction: SenderTransaction, event: CancelRequested) -> None:
    """Permission is out, or it has ended: say where it is."""
    error = f"cannot be cancelled: it is {transaction.state.value}"
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id, error))


def begin_voiding(transaction: SenderTransaction, event: EndingBegun) -> None:
    """It travels once more, as an empty transition: what was permitted, held or awaited before is forgotten.

    The number grows, so that permission for the empty transition is the only one under it (S4).
    """
    transaction.is_voiding = True
    transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    transaction.permission = transaction.result = transaction.transition = None
    transaction.held = transaction.held_prepared = None
    transaction.skipped_leaf = None
    transaction.revert_count = transaction.failure_count = transaction.not_before_ms = 0
    transaction.reason = ""
    _wait_for_nobody(transaction)


# Entry action.


def enter_ending(transaction: SenderTransaction) -> None:
    """The decision is recorded once, whatever the reason; then the machine looks at how it can end."""
    rules.stop_hold(transaction)
    transaction.sender.assembly.leave(transaction, ErrorCode.CANCELLED)
    transaction.sender.transaction_ended(transaction)
    if not transaction.is_ending_recorded:
        assert transaction.ending_reason is not None, "what ends has a reason"
        transaction.is_ending_recorded = True
        record = EndingDecided(transaction.intent.id, transaction.ending_reason, transaction.ending_code)
        transaction.context.persist(record)
    transaction.context.post(transaction, EndingBegun())


def _stop_voiding(transaction: SenderTransaction, reason: str) -> None:
    transaction.is_voiding, transaction.has_failed_to_void = False, True
    transaction.reason = reason


def _wait_for_nobody(transaction: SenderTransaction) -> None:
    transaction.unmet.clear()
    transaction.unresolved.clear()
