"""Inquiry about an intent whose id the chain has under a leaf that its party is not known to have signed.

Theory of operation. Only a leaf that our party signed confirms the intent, and only the empty leaf of its id reverts it
(trust rule 1). Under any other leaf the sender's transaction is IdUsed, and this machine is in front of it. Our record
of that leaf may be lost, so our store and the members are asked for its transition, repeatedly. If one bears our
party's signature, that is recorded and the intent is confirmed. From when the block is final, members have
`id_used_grace` (Grace). If no member shows such a transition, the intent is reverted as `INTENT_ID_USED`: its user must
check before submitting again. Events that this machine does not handle go to the transaction.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from rota.machine.effects import FindStates
from rota.machine.pacing import VERIFIED_TIMES_MAX, Pacing
from rota.machine.tables import Event, Front, Ignored, Machine, Row, Table, outside, superstate
from rota.model.consistency import Authorised, Consistent
from rota.model.frozen import dataclass
from rota.model.sharing import holders_of
from rota.model.types import INTENT_ID_USED, Intent, Leaf, NodeName, RequestId
from rota.sequencer.context import Context
from rota.sequencer.sender_transaction_events import ConfirmationFinal, LeafClaimed, LeafUnclaimed, SignatureVerified
from rota.wire.messages import StateRequest


class InquiryState(Enum):
    """State of the inquiry."""

    ASKING = "Asking"
    GRACE = "Grace"
    OVER = "Over"

    __hash__ = object.__hash__


OPEN = superstate("Open", InquiryState.ASKING, InquiryState.GRACE)


@dataclass(frozen=True, slots=True)
class LeafShown(Event):
    """Raised by the sender: a member has sent a transition of the intent."""

    peer: NodeName
    transition: Consistent


@dataclass(frozen=True, slots=True)
class InquiryDue(Event):
    """Raised by our timer: the request to members is to be repeated, or their time is over."""


class Inquirable(Protocol):
    """The parts of the transaction behind it that this machine uses."""

    intent: Intent
    ending_reason: str | None
    ending_code: str
    confirmed_leaf: Leaf | None

    @property
    def context(self) -> Context:
        """The context of the step."""

    @property
    def pacing(self) -> Pacing:
        """The pace at which peers may have this node verify signatures."""

    def verify(self, leaf: Leaf, valid_until_s: int, signature: bytes) -> RequestId:
        """Order the verification of its party's signature."""

    def record(self, own: Authorised) -> None:
        """Record a transition of its own."""


# Guards, in the table's order.


def is_what_was_asked_for(inquiry: IdInquiry, event: LeafShown) -> bool:
    """the transition is that of the leaf on the chain, and none shown by this member is being verified"""
    shown = event.transition
    is_that_leaf = shown.leaf == inquiry.leaf and shown.intent == inquiry.transaction.intent.id
    return is_that_leaf and all(peer != event.peer for peer, _ in inquiry.shown.values())


def is_our_signature(inquiry: IdInquiry, event: SignatureVerified) -> bool:
    """our party signed the leaf on the chain"""
    return event.is_ours and event.request_id in inquiry.shown


def has_been_asked_for_long(inquiry: IdInquiry, event: InquiryDue) -> bool:
    """members have had `id_used_grace` since the block is final, and no transition shown is being verified"""
    context = inquiry.transaction.context
    return not inquiry.shown and context.now_ms - inquiry.final_ms >= context.config.id_used_grace_ms


# Actions, in the table's order.


def verify_shown(inquiry: IdInquiry, event: LeafShown) -> None:
    """Verify whether our party signed it, and until when; one per member at a time, so that a liar displaces no other.

    A few per member in an interval, too: otherwise a liar could have this node verify, and postpone the end, without
    bound.
    """
    transaction = inquiry.transaction
    key, interval_ms = (event.peer, transaction.intent.id, "shown"), transaction.context.config.request_timeout_ms
    if transaction.pacing.is_due(key, interval_ms, VERIFIED_TIMES_MAX):
        shown = event.transition
        request_id = transaction.verify(shown.leaf, shown.valid_until_s, shown.signature)
        inquiry.shown[request_id] = event.peer, shown


def record_shown(inquiry: IdInquiry, event: SignatureVerified) -> None:
    """Record our own version, which the store has lost: it is confirmed, and reported if its block is final."""
    _, shown = inquiry.shown.pop(event.request_id)
    inquiry.transaction.record(Authorised(shown))
    if inquiry.state is InquiryState.GRACE:
        inquiry.transaction.context.post(inquiry.behind, ConfirmationFinal())
    inquiry.behind.handle(LeafClaimed())


def forget_shown(inquiry: IdInquiry, event: SignatureVerified) -> None:
    """Drop it: not our party's signature."""
    inquiry.shown.pop(event.request_id, None)


def note_final(inquiry: IdInquiry, event: ConfirmationFinal) -> None:
    """From now on the members' time counts."""
    inquiry.final_ms = inquiry.transaction.context.now_ms


def end_as_used(inquiry: IdInquiry, event: InquiryDue) -> None:
    """No member shows that our party signed it."""
    transaction = inquiry.transaction
    transaction.ending_code = INTENT_ID_USED
    transaction.ending_reason = (
        f"{INTENT_ID_USED}: a transition that {transaction.intent.sender} is not known to have signed uses the intent's"
        f" id on the chain (leaf 0x{inquiry.leaf.hex()}); find out what it did before you submit this again"
    )
    inquiry.behind.handle(LeafUnclaimed())


def ask_members(inquiry: IdInquiry, event: Event) -> None:
    """Ask the own store first, then every member that may have the transition of that leaf, and repeat later."""
    context, leaf = inquiry.transaction.context, inquiry.leaf
    inquiry.shown.clear()
    context.effects.append(FindStates(context.contract.address, context.node, (leaf,)))
    for holder in holders_of(context.contract):
        if holder != context.node:
            context.send(holder, StateRequest((leaf,)))
    context.timers.set(inquiry, "inquiry", context.after(context.config.request_timeout_ms), InquiryDue())


TABLE = Table(
    name="Id inquiry",
    initial=InquiryState.ASKING,
    written=(
        Row(OPEN, LeafShown, when=is_what_was_asked_for, do=verify_shown),
        Row(OPEN, SignatureVerified, when=is_our_signature, then=InquiryState.OVER, do=record_shown),
        Row(OPEN, SignatureVerified, do=forget_shown),
        Row(OPEN, ConfirmationFinal, then=InquiryState.GRACE, do=note_final),
        Row(InquiryState.GRACE, InquiryDue, when=has_been_asked_for_long, then=InquiryState.OVER, do=end_as_used),
        Row(OPEN, InquiryDue, do=ask_members),
    ),
    ignored=tuple(
        Ignored(event, outside(OPEN), "the transaction has gone on")
        for event in (LeafShown, SignatureVerified, ConfirmationFinal, InquiryDue)
    ),
)


class IdInquiry(Front):
    """The id-inquiry machine; it asks members at once."""

    table = TABLE
    own = (LeafShown, InquiryDue)

    def __init__(self, transaction: Inquirable, behind: Machine, leaf: Leaf) -> None:
        super().__init__(behind)
        self.transaction = transaction
        self.leaf = leaf
        # Transitions of the leaf whose signatures are being verified, and the members that showed them.
        self.shown: dict[RequestId, tuple[NodeName, Consistent]] = {}
        self.final_ms = 0

    def close(self) -> None:
        """End the inquiry: the machine behind takes its events again."""
        self.transaction.context.timers.cancel_all(self)
