"""How an intent ends that endorsers may have signed: voided by an empty transition, or when its versions expire.

Theory of operation. A revert is reported only when no version can happen any more (protocol §4.3). So the decision that
an intent ends is recorded, and this machine is put in front of the sender's transaction, which is Ending. Unless all
versions are void already, the intent travels again, as an empty transition, for which the domain is not asked; its
transaction is Pending again. When the empty transition is on the chain for good, the transaction itself reverts. If
endorsers or the ledger refuse it, the transaction is Ending again and this machine is Expiring: it waits until the last
version that the party signed is no longer valid. Whatever this machine does not decide goes to the transaction.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from rota.machine.effects import ReplyToUser
from rota.machine.tables import Event, Front, Ignored, Machine, Row, Table, outside, superstate
from rota.model.blocks import LedgerOutcome
from rota.model.frozen import dataclass
from rota.model.types import Intent, Leaf
from rota.sequencer.context import Context
from rota.sequencer.sender_transaction_events import (
    BegunAnew,
    CancelRequested,
    ConfirmedReverted,
    CoordinatorChanged,
    DispatchConfirmationRequestReceived,
    GivenUp,
    VersionsVoid,
)
from rota.wire.messages import ErrorCode


class VoidingState(Enum):
    """How the end of an intent comes."""

    DECIDED = "Decided"
    VOIDING = "Voiding"
    EXPIRING = "Expiring"
    ENDED = "Ended"

    __hash__ = object.__hash__


PASSIVE = superstate("Passive", VoidingState.DECIDED, VoidingState.EXPIRING)
OPEN = superstate("Open", PASSIVE, VoidingState.VOIDING)


@dataclass(frozen=True, slots=True)
class EndingBegun(Event):
    """Raised by the transaction when it is Ending: how can it end?"""


class Voidable(Protocol):
    """What this machine needs of the transaction behind it."""

    intent: Intent
    is_voiding: bool
    reason: str
    confirmed_leaf: Leaf | None

    @property
    def context(self) -> Context:
        """Its context."""

    @property
    def is_waiting_to_end(self) -> bool:
        """It is Ending."""

    @property
    def is_undispatched(self) -> bool:
        """No permission is out."""

    @property
    def is_under_way(self) -> bool:
        """It has no outcome, and a coordinator is to have it."""

    @property
    def may_be_endorsed(self) -> bool:
        """A version may be valid."""

    def is_void(self, leaf: Leaf) -> bool:
        """This is the leaf of its empty transition."""

    def has_no_retry_left(self, outcome: LedgerOutcome) -> bool:
        """The permitted version failed, and retries are used up."""

    def refuse(self, event: DispatchConfirmationRequestReceived, code: ErrorCode) -> None:
        """Refuse a permission."""


# Guards, in the table's order.


def has_gone_on(voiding: Voiding, event: EndingBegun) -> bool:
    """the transaction is not Ending any more"""
    return not voiding.transaction.is_waiting_to_end


def versions_are_void(voiding: Voiding, event: EndingBegun) -> bool:
    """no version is valid any more"""
    return not voiding.transaction.may_be_endorsed


def asks_for_an_old_version(voiding: Voiding, event: DispatchConfirmationRequestReceived) -> bool:
    """no permission is out, and the leaf is not the empty one"""
    return voiding.transaction.is_undispatched and not voiding.transaction.is_void(event.item.leaf)


def is_waiting(voiding: Voiding, event: Event) -> bool:
    """the transaction is Ending"""
    return voiding.transaction.is_waiting_to_end


def void_has_failed(voiding: Voiding, event: ConfirmedReverted) -> bool:
    """the empty transition used the retries up"""
    return voiding.transaction.is_under_way and voiding.transaction.has_no_retry_left(event.outcome)


def ends_anyway(voiding: Voiding, event: CancelRequested) -> bool:
    """no other version is on the chain"""
    leaf = voiding.transaction.confirmed_leaf
    return leaf is None or voiding.transaction.is_void(leaf)


# Actions, in the table's order.


def end(voiding: Voiding, event: Event) -> None:
    """No version can happen any more: the transaction reverts."""
    voiding.behind.handle(VersionsVoid())


def begin_voiding(voiding: Voiding, event: EndingBegun) -> None:
    """The transaction begins again, as an empty transition."""
    voiding.transaction.is_voiding = True
    voiding.behind.handle(BegunAnew())


def refuse_old_version(voiding: Voiding, event: DispatchConfirmationRequestReceived) -> None:
    """The coordinator drops what it has; the intent is delegated to it again, to be voided."""
    refuse_cancelled(voiding, event)
    voiding.behind.handle(CoordinatorChanged("its coordinator had an older version of it"))


def refuse_cancelled(voiding: Voiding, event: DispatchConfirmationRequestReceived) -> None:
    """It is ending."""
    voiding.transaction.refuse(event, ErrorCode.CANCELLED)


def stop_voiding(voiding: Voiding, event: GivenUp) -> None:
    """The empty transition is refused: the intent ends when its versions are no longer valid."""
    transaction = voiding.transaction
    transaction.is_voiding, transaction.reason = False, event.reason
    voiding.behind.handle(event)


def stop_voiding_on_ledger(voiding: Voiding, event: ConfirmedReverted) -> None:
    """The empty transition fails on the ledger: the intent ends when its versions are no longer valid."""
    stop_voiding(voiding, GivenUp(event.outcome.reason))


def agree_to_cancel(voiding: Voiding, event: CancelRequested) -> None:
    """It ends anyway."""
    transaction = voiding.transaction
    transaction.context.effects.append(ReplyToUser(event.reply_to, transaction.intent.id))


TABLE = Table(
    name="Voiding",
    initial=VoidingState.DECIDED,
    written=(
        Row(PASSIVE, EndingBegun, when=has_gone_on),
        Row(PASSIVE, EndingBegun, when=versions_are_void, then=VoidingState.ENDED, do=end),
        Row(VoidingState.DECIDED, EndingBegun, then=VoidingState.VOIDING, do=begin_voiding),
        Row(OPEN, VersionsVoid, then=VoidingState.ENDED, do=end),
        Row(
            VoidingState.VOIDING,
            DispatchConfirmationRequestReceived,
            when=asks_for_an_old_version,
            do=refuse_old_version,
        ),
        Row(PASSIVE, DispatchConfirmationRequestReceived, when=is_waiting, do=refuse_cancelled),
        Row(VoidingState.VOIDING, GivenUp, then=VoidingState.EXPIRING, do=stop_voiding),
        Row(
            VoidingState.VOIDING,
            ConfirmedReverted,
            when=void_has_failed,
            then=VoidingState.EXPIRING,
            do=stop_voiding_on_ledger,
        ),
        Row(VoidingState.VOIDING, CancelRequested, when=ends_anyway, do=agree_to_cancel),
        Row(PASSIVE, CancelRequested, when=is_waiting, do=agree_to_cancel),
    ),
    ignored=(
        Ignored(EndingBegun, outside(PASSIVE), "it is decided how it ends"),
        *(
            Ignored(event, outside(VoidingState.VOIDING), "no empty transition is under way")
            for event in (GivenUp, ConfirmedReverted)
        ),
        *(
            Ignored(event, (VoidingState.ENDED,), "the transaction has reverted")
            for event in (VersionsVoid, DispatchConfirmationRequestReceived, CancelRequested)
        ),
    ),
)


class Voiding(Front):
    """The end of one intent of this node."""

    table = TABLE
    own = (EndingBegun,)

    def __init__(self, transaction: Voidable, behind: Machine) -> None:
        super().__init__(behind)
        self.transaction = transaction

    @property
    def has_failed(self) -> bool:
        """The empty transition was refused."""
        return self.state is VoidingState.EXPIRING
