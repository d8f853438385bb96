"""All that the desk may be told: what users ask for, and what became of what it asked for itself.

What is about one change names it. A change is in flight once, and the desk is told the end of what it asked for before
it asks for the next thing, so that no event can be about an earlier submission of the same change.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.commands.acceptance import Acceptance
from rota.commands.effects import InFlight
from rota.model.types import IntentId
from rota.schema.commands import ChangeId, Command, Completion, Failure


@dataclass(frozen=True, slots=True)
class DeskEvent:
    """Something happened."""


# Users and operators.


@dataclass(frozen=True, slots=True)
class CommandSubmitted(DeskEvent):
    """A user submits a command; `call` is answered when it is handed over, or, if wanted, when its outcome is known.

    `key` is drawn for this submission alone: the transaction has it as its idempotency key. `transaction` is what the
    command does, in bytes that are nobody's business here.
    """

    call: int
    command: Command
    key: str
    transaction: bytes
    wants_outcome: bool = False


@dataclass(frozen=True, slots=True)
class PruningRequested(DeskEvent):
    """An operator wants completions up to this offset, itself included, to be forgotten."""

    call: int
    offset: int


@dataclass(frozen=True, slots=True)
class MaximumChanged(DeskEvent):
    """An operator has changed the maximum duration."""

    maximum_us: int


# The store.


@dataclass(frozen=True, slots=True)
class InFlightWritten(DeskEvent):
    """The submission is durable."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class InFlightNotWritten(DeskEvent):
    """The store did not take it, or did and could not say so."""

    change: ChangeId
    reason: str


@dataclass(frozen=True, slots=True)
class AcceptanceLookedUp(DeskEvent):
    """The latest acceptance of a change, if there is one."""

    change: ChangeId
    acceptance: Acceptance | None


@dataclass(frozen=True, slots=True)
class AcceptanceNotLookedUp(DeskEvent):
    """The store did not answer."""

    change: ChangeId
    reason: str


@dataclass(frozen=True, slots=True)
class InFlightRemoved(DeskEvent):
    """The submission is durably forgotten."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class InFlightNotRemoved(DeskEvent):
    """It may still be there."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class CompletionsWritten(DeskEvent):
    """The completions that were to be written are durable, with all that belongs to them."""


@dataclass(frozen=True, slots=True)
class CompletionsNotWritten(DeskEvent):
    """None of it may be there, or all of it."""


@dataclass(frozen=True, slots=True)
class PruningLookedUp(DeskEvent):
    """When the completion at the offset to be pruned was published, and up to which offset it would be safe."""

    published_at_us: int
    safe_offset: int


@dataclass(frozen=True, slots=True)
class PruningNotLookedUp(DeskEvent):
    """The store did not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class PruningWritten(DeskEvent):
    """What was to be forgotten is forgotten."""


@dataclass(frozen=True, slots=True)
class PruningNotWritten(DeskEvent):
    """It may still be there, or not."""


# Transactions.


@dataclass(frozen=True, slots=True)
class TransactionHandedOver(DeskEvent):
    """The sequencer has accepted it, durably, under this id; now or before a crash."""

    change: ChangeId
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class TransactionNotFound(DeskEvent):
    """It was not handed over before the crash."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class TransactionRefused(DeskEvent):
    """The node does not take it; it never will as it is."""

    change: ChangeId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TransactionNotTaken(DeskEvent):
    """The node cannot take it now; it was not accepted."""

    change: ChangeId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TransactionEnded(DeskEvent):
    """Its receipt is final; without a failure it was confirmed."""

    change: ChangeId
    failure: Failure | None = None


# Time.


@dataclass(frozen=True, slots=True)
class RetryDue(DeskEvent):
    """The pause before asking for something again is over."""

    change: ChangeId | None = None


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A published completion that the chain contradicts, and its submission, whose transaction's bytes are empty."""

    submission: InFlight
    completion: Completion


@dataclass(frozen=True, slots=True)
class OutcomesContradicted(DeskEvent):
    """The chain's word on these transactions has changed since their completions were published.

    Those that had succeeded are not on the chain for good any more; those that had failed are. The same is told again
    until its correction is durable.
    """

    contradicted: tuple[Contradicted, ...]
