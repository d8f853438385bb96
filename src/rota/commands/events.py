"""The inputs of the desk: requests of users, and the results of its own orders.

An event about one change names it. A change is in flight once, and the desk gets the result of an order before it gives
the next one, so no event can be about an earlier submission of the same change.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.commands.acceptance import Acceptance
from rota.commands.effects import InFlight
from rota.model.types import IntentId
from rota.schema.commands import ChangeId, Command, Completion, Failure


@dataclass(frozen=True, slots=True)
class DeskEvent:
    """An input of the desk."""


# Users and operators.


@dataclass(frozen=True, slots=True)
class CommandSubmitted(DeskEvent):
    """A user submits a command; `call` is answered when it is handed over, or, if wanted, when its outcome is known.

    `key` is drawn for this submission alone: the transaction has it as its idempotency key. `transaction` is the
    content of the command, in bytes that this package does not interpret.
    """

    call: int
    command: Command
    key: str
    transaction: bytes
    wants_outcome: bool = False


@dataclass(frozen=True, slots=True)
class PruningRequested(DeskEvent):
    """An operator wants completions up to and including this offset to be deleted."""

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
    """The store did not write it, or its write is in doubt."""

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
    """The submission is durably deleted."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class InFlightNotRemoved(DeskEvent):
    """It may still be there."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class CompletionsWritten(DeskEvent):
    """The completions are durable, with all records that belong to them."""


@dataclass(frozen=True, slots=True)
class CompletionsNotWritten(DeskEvent):
    """Either all of it is durable or nothing."""


@dataclass(frozen=True, slots=True)
class PruningLookedUp(DeskEvent):
    """When the completion at the offset to be pruned was published, and up to which offset pruning would be safe."""

    published_at_us: int
    safe_offset: int


@dataclass(frozen=True, slots=True)
class PruningNotLookedUp(DeskEvent):
    """The store did not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class PruningWritten(DeskEvent):
    """The pruned records are deleted."""


@dataclass(frozen=True, slots=True)
class PruningNotWritten(DeskEvent):
    """They may be deleted or not."""


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
    """The node does not accept it, and never will unchanged."""

    change: ChangeId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TransactionNotTaken(DeskEvent):
    """The node cannot accept it now; it was not accepted."""

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
    """The pause before a retry is over."""

    change: ChangeId | None = None


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A published completion that the chain contradicts, and its submission, whose transaction's bytes are empty."""

    submission: InFlight
    completion: Completion


@dataclass(frozen=True, slots=True)
class OutcomesContradicted(DeskEvent):
    """The chain's outcome of these transactions has changed since their completions were published.

    Successes that are no longer on the chain, and failures that are, each final. The event is repeated until its
    correction is durable.
    """

    contradicted: tuple[Contradicted, ...]
