"""All that the desk may ask for. Whoever runs it carries each out and tells what became of it (`events`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rota.commands.periods import Stream
from rota.model.types import IntentId
from rota.schema.commands import ChangeId, Command, Completion, Failure, Period


@dataclass(frozen=True, slots=True)
class InFlight:
    """A submission that has not ended, as the store has it. `period` is the effective one.

    By `submitted_at_us` it is judged, and its completion is not published with an earlier time: so the period that the
    completion tells holds, whatever the clock does in between.
    """

    change: ChangeId
    key: str
    command: Command
    period: Period
    submitted_at_us: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class DeskEffect:
    """Something is to be done."""


# The store.


@dataclass(frozen=True, slots=True)
class WriteInFlight(DeskEffect):
    """Insert it if its change is absent."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class LookUpAcceptance(DeskEffect):
    """When was this change accepted last?"""

    change: ChangeId


@dataclass(frozen=True, slots=True)
class RemoveInFlight(DeskEffect):
    """Forget this submission: nothing came of it."""

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
    """In one database transaction: completions, acceptances of those that happened, and no longer in flight.

    Asked for again in the same words when it may not have happened, it changes nothing the second time.
    """

    closings: tuple[Closing, ...]


@dataclass(frozen=True, slots=True)
class LookUpPruning(DeskEffect):
    """When was the completion at this offset published, and which is the latest before the horizon?"""

    offset: int
    horizon_us: int


@dataclass(frozen=True, slots=True)
class WritePruning(DeskEffect):
    """In one database transaction: forget completions and acceptances up to an offset, and note that."""

    offset: int
    published_at_us: int


# Transactions.


@dataclass(frozen=True, slots=True)
class FindTransaction(DeskEffect):
    """Was this submission handed over before the crash?"""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class HandOver(DeskEffect):
    """Give the transaction to the sequencer, under the submission's key."""

    submission: InFlight


@dataclass(frozen=True, slots=True)
class AwaitEnd(DeskEffect):
    """Tell when this transaction has its final receipt."""

    change: ChangeId
    transaction: IntentId


# Callers.


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The submission was handed over: there will be one completion of it."""

    submission_id: str
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class Pruned:
    """Completions up to this offset are forgotten."""

    offset: int


Answer: TypeAlias = Acknowledged | Completion | Pruned | Failure


@dataclass(frozen=True, slots=True)
class AnswerCall(DeskEffect):
    """Whoever called is told; one who has gone is not."""

    call: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class PublishStream(DeskEffect):
    """Completions up to this end may be shown to subscribers."""

    stream: Stream


# Time.


@dataclass(frozen=True, slots=True)
class Pause(DeskEffect):
    """Tell `RetryDue` after the pause."""

    pause_ms: int
    change: ChangeId | None = None
