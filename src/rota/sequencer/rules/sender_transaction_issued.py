"""Prepared transitions at their sender: guards and actions of the sender's transaction (protocol §4.2).

In submit mode `external` the endorsed transition comes here instead of to a submitter. It is recorded, acknowledged and
given to its user. From then on only the chain, its validity and the user decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rota.machine.tables import Event
from rota.model.consistency import Authorised, Consistent, consistent, is_whole
from rota.model.digests import round_digest
from rota.model.types import DelegationNumber, Leaf, NodeName, SubmitMode, Transition
from rota.sequencer.effects import ReportPrepared, TransitionIssued, VerifySignature
from rota.sequencer.events.sender_transaction import (
    ConfirmationUndone,
    DispatchConfirmationRequestReceived,
    PreparedTransactionReceived,
    SignatureVerified,
    VersionsVoid,
)
from rota.sequencer.states.sender_transaction import HeldPrepared, State
from rota.wire.messages import ErrorCode, PreparedTransaction, PreparedTransactionAcknowledgement

if TYPE_CHECKING:
    from rota.sequencer.sender_transaction import SenderTransaction


# Guards, in the table's order.


def was_issued(transaction: SenderTransaction, event: Event) -> bool:
    """its prepared transition was given to its user before"""
    return transaction.issued is not None


def is_external(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> bool:
    """no submitter is to have it: it is external, and not being voided"""
    return transaction.intent.is_external and not transaction.is_voiding


def is_what_we_assembled(transaction: SenderTransaction, event: PreparedTransactionReceived) -> bool:
    """sound, and the very leaf that we assembled last"""
    made = _assembled(transaction)
    is_ours = made is not None and made.leaf == event.prepared.transition.leaf
    return is_ours and _is_wanted(transaction, event.prepared)


def may_be_ours(transaction: SenderTransaction, event: PreparedTransactionReceived) -> bool:
    """sound, of an external intent that nobody is to void: of before a restart, or for another coordinator"""
    return _is_wanted(transaction, event.prepared) and is_whole(event.prepared.transition)


def bears_our_signature(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """the prepared transition that was sent to us bears our signature"""
    return event.is_ours and is_of_held_prepared(transaction, event)


def is_of_held_prepared(transaction: SenderTransaction, event: SignatureVerified) -> bool:
    """the verdict is on a prepared transition that was sent to us"""
    held = transaction.held_prepared
    return held is not None and held.request_id == event.request_id


def was_issued_and_goes_on(transaction: SenderTransaction, event: ConfirmationUndone) -> bool:
    """it was issued, and is not ending"""
    return transaction.issued is not None and not transaction.is_ending


def is_carried(transaction: SenderTransaction, event: VersionsVoid) -> bool:
    """another contract was to carry it out, and has not done so in time"""
    return transaction.intent.submit_mode is SubmitMode.CARRIED


# Actions, in the table's order.


def restore_issued(transaction: SenderTransaction, event: Event) -> None:
    """Issued survives restarts; whether its user was told before the last one is not known, so it is told again."""
    transaction.unmet.clear()
    transaction.unresolved.clear()
    _report(transaction)


def refuse_external(transaction: SenderTransaction, event: DispatchConfirmationRequestReceived) -> None:
    """No submitter is to have it: the coordinator drops it."""
    transaction.sender.refuse_dispatch(event.peer, event.request_id, transaction.intent.id, ErrorCode.WRONG_LEAF)


def issue(transaction: SenderTransaction, event: PreparedTransactionReceived) -> None:
    """With all the states that we made: the copy that came lacks those that its author may not see."""
    made = _assembled(transaction)
    assert made is not None, "what we assembled is known"
    _issue(transaction, event.peer, replace(event.prepared, transition=made))


def verify(transaction: SenderTransaction, event: PreparedTransactionReceived) -> None:
    """Did we sign that leaf, before our restart or for another coordinator?"""
    request_id = transaction.context.next_id()
    transaction.held = None
    transaction.held_prepared = HeldPrepared(event.peer, request_id, event.prepared)
    transition = event.prepared.transition
    transaction.context.effects.append(
        VerifySignature(
            transaction.intent.contract,
            request_id,
            transaction.intent.id,
            transaction.intent.sender,
            transition.leaf,
            transition.valid_until_s,
            transition.signature,
        )
    )


def decline(transaction: SenderTransaction, event: PreparedTransactionReceived) -> None:
    """We have it already, or have no use for it: either way it need not be sent again."""
    _acknowledge(transaction, event.peer, event.prepared.transition.leaf)


def issue_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Our own work of an earlier life, or for another coordinator: it is issued as it came."""
    held, transaction.held_prepared = transaction.held_prepared, None
    assert held is not None, "the guard has looked"
    # What is wanted is consistent, and its signature was verified.
    own = Authorised(Consistent(held.prepared.transition))
    transaction.sender.assembly.record(transaction, own)
    _issue(transaction, held.peer, held.prepared)


def decline_held(transaction: SenderTransaction, event: SignatureVerified) -> None:
    """Not our signature: we have no use for it."""
    held, transaction.held_prepared = transaction.held_prepared, None
    assert held is not None, "the guard has looked"
    _acknowledge(transaction, held.peer, held.prepared.transition.leaf)


def carry_anew(transaction: SenderTransaction, event: VersionsVoid) -> None:
    """No version of it can happen any more: it is assembled and endorsed again, and the other contract asked again."""
    transaction.number = DelegationNumber(transaction.context.incarnation, transaction.number.counter + 1)
    transaction.issued = transaction.result = transaction.transition = None
    transaction.held = transaction.held_prepared = transaction.held_refusals = None
    transaction.reason = "it was not carried out in time"


def note_expired(transaction: SenderTransaction, event: VersionsVoid) -> None:
    """Nobody has committed it in time."""
    transaction.ending_reason = "the prepared transition has expired"


# Entry action.


def enter_issued(transaction: SenderTransaction) -> None:
    """It is its user's now: nobody coordinates it."""
    transaction.sender.transaction_ended(transaction)


def _assembled(transaction: SenderTransaction) -> Transition | None:
    return transaction.result.transition if transaction.result is not None else None


def _is_wanted(transaction: SenderTransaction, prepared: PreparedTransaction) -> bool:
    """It is what it says, as far as can be told here, and we wait for such a thing."""
    transition = prepared.transition
    context = transaction.context
    return (
        transaction.intent.is_external
        and not transaction.is_voiding
        and transition.leaf in prepared.leaves
        and transition.intent == transaction.intent.id
        and consistent(context.separator, transition) is not None
        and prepared.digest == round_digest(context.separator, prepared.leaves, prepared.valid_until_s)
        and prepared.valid_until_s <= transition.valid_until_s
        and _leaves_time(context.chain_time_s, prepared)
    )


def _leaves_time(now_s: int, prepared: PreparedTransaction) -> bool:
    """At least half of what the party allows: nobody coordinates the intent once it is issued."""
    return 2 * (prepared.valid_until_s - now_s) >= prepared.transition.valid_until_s - now_s


def _issue(transaction: SenderTransaction, peer: NodeName, prepared: PreparedTransaction) -> None:
    """It is recorded, acknowledged to its coordinator and given to its user.

    What is being assembled for a coordinator meanwhile is not awaited by it in vain.
    """
    if transaction.state in (State.ASSEMBLING, State.SIGNING):
        transaction.sender.assembly.leave(transaction, ErrorCode.NOT_CURRENT_DELEGATE)
    transaction.held = None
    transaction.issued = prepared
    transaction.context.persist(TransitionIssued(prepared, transaction.void_after_s))
    _acknowledge(transaction, peer, prepared.transition.leaf)
    _report(transaction)


def _acknowledge(transaction: SenderTransaction, peer: NodeName, leaf: Leaf) -> None:
    transaction.context.send(peer, PreparedTransactionAcknowledgement(transaction.intent.id, leaf))


def _report(transaction: SenderTransaction) -> None:
    assert transaction.issued is not None, "what is reported was issued"
    transaction.context.effects.append(ReportPrepared(transaction.intent.contract, transaction.issued))
