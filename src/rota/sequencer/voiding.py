"""The end of an intent that endorsers may have signed: voided by an empty transition, or by expiry of its versions.

Theory of operation. A revert is reported only when no version can be committed any more (protocol §4.3). So the
decision that an intent ends is recorded, and this machine is put in front of the sender's transaction, which is Ending.
Unless all versions are void already, the intent starts over as an empty transition, for which the domain is not asked;
its transaction is Pending again. When the empty transition is final, the transaction itself reverts. If
endorsers or the ledger refuse it, the transaction is Ending again and this machine is Expiring: it waits until the last
version that the party signed is no longer valid. Events that this machine does not handle go to the transaction.
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
    """The way in which an intent ends."""

    DECIDED = "Decided"
    VOIDING = "Voiding"
    EXPIRING = "Expiring"
    ENDED = "Ended"

    __hash__ = object.__hash__


PASSIVE = superstate("Passive", VoidingState.DECIDED, VoidingState.EXPIRING)
OPEN = superstate("Open", PASSIVE, VoidingState.VOIDING)


@dataclass(frozen=True, slots=True)
class EndingBegun(Event):
    """Raised by the transaction when it is Ending: choose how it can end."""


class Voidable(Protocol):
    """The parts of the transaction behind it that this machine uses."""

    intent: Intent
    is_voiding: bool
    reason: str
    confirmed_leaf: Leaf | None

    @property
    def context(self) -> Context:
        """The context of the step."""

    @property
    def is_waiting_to_end(self) -> bool:
        """Whether it is Ending."""

    @property
    def is_undispatched(self) -> bool:
        """Whether no permission is out."""

    @property
    def is_under_way(self) -> bool:
        """Whether it has no outcome and needs a coordinator."""

    @property
    def may_be_endorsed(self) -> bool:
        """Whether a version may be valid."""

    def is_void(self, leaf: Leaf) -> bool:
        """Whether this is the leaf of its empty transition."""

    def has_no_retry_left(self, outcome: LedgerOutcome) -> bool:
        """Whether the permitted version failed and retries are used up."""

    def refuse(self, event: DispatchConfirmationRequestReceived, code: ErrorCode) -> None:
        """Refuse a request for permission."""


# Guards, in the table's order.


def has_gone_on(voiding: Voiding, event: EndingBegun) -> bool:
    """the transaction is no longer Ending"""
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
    """the empty transition used up the retries"""
    return voiding.transaction.is_under_way and voiding.transaction.has_no_retry_left(event.outcome)


def ends_anyway(voiding: Voiding, event: CancelRequested) -> bool:
    """no other version is on the chain"""
    leaf = voiding.transaction.confirmed_leaf
    return leaf is None or voiding.transaction.is_void(leaf)


# Actions, in the table's order.


def end(voiding: Voiding, event: Event) -> None:
    """No version can be committed any more: the transaction reverts."""
    voiding.behind.handle(VersionsVoid())


def begin_voiding(voiding: Voiding, event: EndingBegun) -> None:
    """The transaction starts over, as an empty transition."""
    voiding.transaction.is_voiding = True
    voiding.behind.handle(BegunAnew())


def refuse_old_version(voiding: Voiding, event: DispatchConfirmationRequestReceived) -> None:
    """The coordinator drops its version; the intent is delegated to it again, to be voided."""
    refuse_cancelled(voiding, event)
    voiding.behind.handle(CoordinatorChanged("its coordinator had an older version of it"))


def refuse_cancelled(voiding: Voiding, event: DispatchConfirmationRequestReceived) -> None:
    """Refuse permission: the intent is ending."""
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
    """Reply that it is cancelled: it ends anyway."""
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
    """The voiding machine: the end of one intent of this node."""

    table = TABLE
    own = (EndingBegun,)

    def __init__(self, transaction: Voidable, behind: Machine) -> None:
        super().__init__(behind)
        self.transaction = transaction

    @property
    def has_failed(self) -> bool:
        """Whether the empty transition was refused."""
        return self.state is VoidingState.EXPIRING
