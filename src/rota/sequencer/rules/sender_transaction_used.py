"""An intent whose id the chain has under a leaf that its party is not known to have signed (trust rule 1).

Only a leaf that our party signed confirms the intent, and only the empty leaf of its id reverts it. Under anything else
the intent is IdUsed. Our record of that leaf may be lost, so members are asked for its transition: if it bears our
party's signature, that is recorded and the intent is confirmed. If nobody shows it for `id_used_grace`, counted from
when the block is final, the intent is reverted as `INTENT_ID_USED`: its user must look before it is submitted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.machine.effects import FindStates
from rota.machine.pacing import VERIFIED_TIMES_MAX
from rota.machine.tables import Event
from rota.model.consistency import Authorised
from rota.model.sharing import holders_of
from rota.model.types import INTENT_ID_USED
from rota.sequencer.effects import VerifySignature
from rota.sequencer.events.sender_transaction import (
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedSuccess,
    InquiryDue,
    LeafShown,
    SignatureVerified,
)
from rota.sequencer.rules import sender_transaction as rules
from rota.wire.messages import StateRequest

if TYPE_CHECKING:
    from rota.sequencer.sender_transaction import SenderTransaction


# Guards, in the table's order.


def was_used(transaction: SenderTransaction, event: Event) -> bool:
    """before the restart another leaf used its id, and its receipt is not on the disk"""
    return transaction.confirmed_leaf is not None


def is_by_another(transaction: SenderTransaction, event: ConfirmedSuccess) -> bool:
    """the leaf is neither one that our party is known to have signed nor the empty one"""
    return event.leaf not in transaction.versions and not transaction.is_void(event.leaf)


def is_what_was_asked_for(transaction: SenderTransaction, event: LeafShown) -> bool:
    """the transition is that of the leaf on the chain, and none that this member has shown is being verified"""
    shown = event.transition
    is_that_leaf = shown.leaf == transaction.confirmed_leaf and shown.intent == transaction.intent.id
    return is_that_leaf and all(peer != event.peer for peer, _ in transaction.shown.values())


def is_our_signature(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """our party signed the leaf on the chain"""
    return event.is_ours and event.request_id in transaction.shown


def has_been_asked_for_long(transaction: SenderTransaction, event: InquiryDue) -> bool:
    """members were asked for `id_used_grace` since the block is final, and nothing that they showed is looked at now"""
    if transaction.shown:
        return False
    final_ms, now_ms = transaction.used_for_good_ms, transaction.context.now_ms
    return final_ms is not None and now_ms - final_ms >= transaction.context.config.id_used_grace_ms


# Actions, in the table's order.


def restore_used(transaction: SenderTransaction, event: Event) -> None:
    """The block is final: what the index says of it is not said again."""
    transaction.used_for_good_ms = transaction.context.now_ms
    transaction.unmet.clear()
    transaction.unresolved.clear()
    ask_members(transaction, event)


def note_used(transaction: SenderTransaction, event: ConfirmedSuccess) -> None:
    """Nobody can commit our leaf any more; whether this one is ours is asked at once."""
    rules.note_confirmed(transaction, event)
    ask_members(transaction, event)


def forget_use(transaction: SenderTransaction, event: ConfirmationUndone) -> None:
    """Its block is gone: it goes on."""
    rules.forget_confirmation(transaction, event)
    transaction.used_for_good_ms = None
    transaction.shown.clear()
    transaction.context.timers.cancel(transaction, "inquiry")


def note_final(transaction: SenderTransaction, event: ConfirmationFinal) -> None:
    """From now on the time counts for which members are asked."""
    transaction.used_for_good_ms = transaction.context.now_ms


def ask_members(transaction: SenderTransaction, event: Event) -> None:
    """Our own store first, then everybody who may have the transition of that leaf, and again in a while."""
    context = transaction.context
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "the leaf on the chain is known"
    transaction.shown.clear()
    context.effects.append(FindStates(context.contract.address, context.node, (leaf,)))
    for holder in holders_of(context.contract):
        if holder != context.node:
            context.send(holder, StateRequest((leaf,)))
    context.timers.set(transaction, "inquiry", context.after(context.config.request_timeout_ms), InquiryDue())


def verify_shown(transaction: SenderTransaction, event: LeafShown) -> None:
    """Did our party sign it, and until when? One of each member at a time: a liar displaces nobody else's.

    Nor more of a member than a few in an interval: one that goes on would have us verify, and not end, for ever.
    """
    key, interval_ms = (event.peer, transaction.intent.id, "shown"), transaction.context.config.request_timeout_ms
    if not transaction.sender.pacing.is_due(key, interval_ms, VERIFIED_TIMES_MAX):
        return
    request_id, shown = transaction.context.next_id(), event.transition
    transaction.shown[request_id] = event.peer, shown
    transaction.context.effects.append(
        VerifySignature(
            transaction.intent.contract,
            request_id,
            transaction.intent.id,
            transaction.intent.sender,
            shown.leaf,
            shown.valid_until_s,
            shown.signature,
        )
    )


def record_shown(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Our own work, of which our disk has lost the record: it is confirmed, and reported if its block is final."""
    _, shown = transaction.shown.pop(event.request_id)
    transaction.sender.assembly.record(transaction, Authorised(shown))
    transaction.shown.clear()
    transaction.context.timers.cancel(transaction, "inquiry")
    if transaction.used_for_good_ms is not None:
        transaction.context.post(transaction, ConfirmationFinal())


def forget_shown(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Not our party's signature."""
    transaction.shown.pop(event.request_id, None)


def end_as_used(transaction: SenderTransaction, event: InquiryDue) -> None:
    """Nobody shows that it is ours."""
    leaf = transaction.confirmed_leaf
    assert leaf is not None, "the leaf on the chain is known"
    transaction.ending_code = INTENT_ID_USED
    transaction.ending_reason = (
        f"{INTENT_ID_USED}: a transition that {transaction.intent.sender} is not known to have signed uses the intent's"
        f" id on the chain (leaf 0x{leaf.hex()}); find out what it did before you submit this again"
    )
