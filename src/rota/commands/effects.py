"""The desk's orders. Its driver carries out each of them and reports the result (`events`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rota.commands.periods import Stream
from rota.model.types import IntentId
from rota.schema.commands import ChangeId, Command, Completion, Failure, Period


@dataclass(frozen=True, slots=True)
class InFlight:
    """A submission that has not ended, as the store has it. `period` is the effective one.

    It is judged by `submitted_at_us`, and its completion is not published with an earlier time: so the period in the
    completion holds, whatever the clock does in between.
    """

    change: ChangeId
    key: str
    command: Command
    period: Period
    submitted_at_us: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class DeskEffect:
    """An order of the desk."""


# The store.


@dataclass(frozen=True, slots=True)
class WriteInFlight(DeskEffect):
    """Insert it if its change is absent."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class LookUpAcceptance(DeskEffect):
    """Look up the last acceptance of this change."""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class RemoveInFlight(DeskEffect):
    """Delete this submission: it has no effect."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class Closing:
    """A submission that ends, and its completion.

    With `reopens` the completion withdraws an earlier success, and the submission is in flight again.
    """

    submission: InFlight
    completion: Completion
    reopens: bool = False


@dataclass(frozen=True, slots=True)
class WriteCompletions(DeskEffect):
    """In one database transaction: write completions, acceptances of the successes, and the end of being in flight.

    If the write is in doubt the desk orders it again unchanged, and the second write changes nothing.
    """

    closings: tuple[Closing, ...]


@dataclass(frozen=True, slots=True)
class LookUpPruning(DeskEffect):
    """Look up when the completion at this offset was published, and the latest one before the horizon."""

    offset: int
    horizon_us: int


@dataclass(frozen=True, slots=True)
class WritePruning(DeskEffect):
    """In one database transaction: delete completions and acceptances up to an offset, and record that."""

    offset: int
    published_at_us: int


# Transactions.


@dataclass(frozen=True, slots=True)
class FindTransaction(DeskEffect):
    """Look up whether this submission was handed over before the crash."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class HandOver(DeskEffect):
    """Give the transaction to the sequencer, under the submission's key."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class AwaitEnd(DeskEffect):
    """Report the final receipt of this transaction."""

    change: ChangeId
    transaction: IntentId


# Callers.


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The submission was handed over: it will have one completion."""

    submission_id: str
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class Pruned:
    """Completions up to this offset are deleted."""

    offset: int


Answer: TypeAlias = Acknowledged | Completion | Pruned | Failure


@dataclass(frozen=True, slots=True)
class AnswerCall(DeskEffect):
    """Answer a caller, if it is still there."""

    call: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class PublishStream(DeskEffect):
    """Completions up to this end may be shown to subscribers."""

    stream: Stream


# Time.


@dataclass(frozen=True, slots=True)
class Pause(DeskEffect):
    """Report `RetryDue` after the pause."""

    pause_ms: int
    change: ChangeId | None = None
