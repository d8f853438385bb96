"""The desk: every command passes through it, from its submission to its completion.

Theory of operation. A change is in flight once. A submission of a change that is not in flight is first recorded as in
flight; then the desk looks up whether the change was accepted within the period, hands its transaction over to the
sequencer, and only then acknowledges it. So at every moment while its transaction is under way a change is in flight or
among the acceptances: a second submission finds it in one or the other.

    submitted -> ADMITTED -> CHECKED -> HANDED_OVER -> AWAITED -> COMPLETED -> gone
                    |           |           |
                    +-----------+-----------+--> WITHDRAWN -> gone        it has no effect, and the caller gets an error

The outcome is the transaction's final receipt. Completion, acceptance and the end of being in flight are one database
transaction; then the caller is answered and subscribers are notified. Completions are written one batch at a time, in
the order of their offsets: subscribers see no gaps, and a batch whose write is in doubt is written again unchanged.

After a crash the store has the submissions in flight. If a submission was handed over, which its key shows, its receipt
is awaited; if not, no caller was told that it was, and it is checked and handed over now. Either way it ends with one
completion. A failure that is found after a crash is a completion, because no caller waits for an answer any more; one
that is found before the acknowledgement is the answer, and no completion.

The submitter of a change that is in flight gets the id of the other submission. That one must be sure to have a
completion: until then, the second submission waits behind the first.

The chain can take back blocks that were final. Then a published completion no longer holds, and a correction follows
it: a completion of the same submission with the offset of the one that it corrects. A success that is withdrawn is in
flight again, in the same database transaction, and ends with another completion when the chain has its transaction
again or cannot have it any more. Until then its change is neither a duplicate nor free to happen twice.

While the store or the sequencer is unavailable, a waiting caller gets that error and the submission is withdrawn;
without a caller the desk retries after a pause. A withdrawal is durable before the caller is answered: otherwise the
submission could return after a crash, long after its submitter got the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from rota.commands import errors
from rota.commands.changes import change_of
from rota.commands.effects import (
    Acknowledged,
    Answer,
    AnswerCall,
    AwaitEnd,
    Closing,
    DeskEffect,
    FindTransaction,
    HandOver,
    InFlight,
    LookUpAcceptance,
    LookUpPruning,
    Pause,
    Pruned,
    PublishStream,
    RemoveInFlight,
    WriteCompletions,
    WriteInFlight,
    WritePruning,
)
from rota.commands.events import (
    AcceptanceLookedUp,
    AcceptanceNotLookedUp,
    CommandSubmitted,
    CompletionsNotWritten,
    CompletionsWritten,
    Contradicted,
    DeskEvent,
    InFlightNotRemoved,
    InFlightNotWritten,
    InFlightRemoved,
    InFlightWritten,
    MaximumChanged,
    OutcomesContradicted,
    PruningLookedUp,
    PruningNotLookedUp,
    PruningNotWritten,
    PruningRequested,
    PruningWritten,
    RetryDue,
    TransactionEnded,
    TransactionHandedOver,
    TransactionNotFound,
    TransactionNotTaken,
    TransactionRefused,
)
from rota.commands.periods import Stream, effective_period, objection_to, pruning_horizon_us
from rota.model.types import IntentId
from rota.schema.commands import BEGIN_OFFSET, ChangeId, Completion, Failure

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class DeskLimits:
    """How many submissions the desk accepts, and how long it waits before a retry."""

    in_flight_max: int = 100_000
    batch_max: int = 512
    behind_max: int = 1_000
    retry_ms: int = 250


class Stage(Enum):
    """The stage of a submission."""

    ADMITTED = "being written down as in flight"
    CHECKED = "being looked up among the acceptances"
    FOUND = "being looked for among the transactions, after a crash"
    HANDED_OVER = "being handed over"
    AWAITED = "with the sequencer"
    COMPLETED = "being completed"
    WITHDRAWN = "being withdrawn"
    REOPENED = "being put in flight again, as its success no longer holds"


@dataclass(slots=True)
class Entry:
    """A submission in flight. One with a `call` has not been answered yet; after a crash none has one.

    `behind` are submissions of the same change that came before it was sure that this one will have a completion.
    """

    submission: InFlight
    stage: Stage
    call: int | None = None
    wants_outcome: bool = False
    transaction: IntentId | None = None
    farewell: Failure | None = None
    behind: list[CommandSubmitted] = field(default_factory=list)

    @property
    def is_promised(self) -> bool:
        """It will have a completion, whatever happens: it was handed over, or is from an earlier run."""
        return self.transaction is not None or (self.call is None and self.stage is not Stage.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Pruning:
    """An operator's request to prune, under way."""

    call: int
    offset: int
    published_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """A completion to be written, without its place in the stream."""

    submission: InFlight
    transaction: IntentId | None
    failure: Failure | None
    corrects: int | None = None
    reopens: bool = False


class Desk:
    """The desk of one node in one run. `stream` and `in_flight` come from the store."""

    def __init__(
        self, stream: Stream, in_flight: tuple[InFlight, ...], maximum_us: int, limits: DeskLimits | None = None
    ) -> None:
        self.stream = stream
        self.maximum_us = maximum_us
        self.limits: Final = limits or DeskLimits()
        self.entries: Final[dict[ChangeId, Entry]] = {each.change: Entry(each, Stage.FOUND) for each in in_flight}
        self._ended: Final[list[Ending]] = []
        self._writing: tuple[Closing, ...] = ()
        self._pruning: Pruning | None = None
        # Failed writes, to be ordered again.
        self._repeated: Final[list[WriteCompletions | WritePruning]] = []
        self._effects: list[DeskEffect] = []

    def begin(self) -> list[DeskEffect]:
        """Continue with the submissions that the previous run left in flight."""
        return [FindTransaction(entry.submission) for entry in self.entries.values()]

    def step(self, clock_us: int, event: DeskEvent) -> list[DeskEffect]:
        """Handle an event; returns the effects in order."""
        self._effects = []
        match event:
            case CommandSubmitted():
                self._take(clock_us, event)
            case PruningRequested() | PruningLookedUp() | PruningNotLookedUp() | PruningWritten() | PruningNotWritten():
                self._prune(clock_us, event)
            case MaximumChanged(maximum_us):
                self.maximum_us = maximum_us
            case CompletionsWritten():
                self._completed()
            case OutcomesContradicted(contradicted):
                for each in contradicted:
                    self._correct(each)
            case CompletionsNotWritten():
                self._repeat(WriteCompletions(self._writing))
            case RetryDue(None):
                self._retry_writes()
            case _:
                self._go_on(clock_us, event)
        self._write_next(clock_us)
        return self._effects

    @property
    def awaited_count(self) -> int:
        """How many are with the sequencer."""
        return sum(entry.stage is Stage.AWAITED for entry in self.entries.values())

    # From the submission to the hand-over.

    def _take(self, clock_us: int, event: CommandSubmitted) -> None:
        """Record it, unless its change is in flight: that is answered at once, and never as a completion."""
        change = change_of(event.command)
        existing = self.entries.get(change)
        if existing is not None:
            if existing.is_promised or len(existing.behind) >= self.limits.behind_max:
                self._answer(event.call, errors.in_flight(change, existing.submission.command.submission_id))
            else:
                existing.behind.append(event)
            return
        if len(self.entries) >= self.limits.in_flight_max:
            self._answer(event.call, errors.busy(f"{len(self.entries)} commands are in flight"))
            return
        period = effective_period(event.command.period, self.maximum_us, self.stream, clock_us)
        submission = InFlight(change, event.key, event.command, period, clock_us, event.transaction)
        self.entries[change] = Entry(submission, Stage.ADMITTED, event.call, event.wants_outcome)
        self._effects.append(WriteInFlight(submission))

    def _go_on(self, clock_us: int, event: DeskEvent) -> None:
        """Handle an event of one submission."""
        match event:
            case InFlightWritten(change):
                self._ask(change, Stage.CHECKED)
            case InFlightNotWritten(change, reason):
                # It may have been written all the same, so it is removed like one that was.
                self._withdraw(self.entries[change], errors.unavailable(reason))
            case AcceptanceLookedUp(change, acceptance):
                entry = self.entries[change]
                period, submitted_at_us = entry.submission.period, entry.submission.submitted_at_us
                objection = objection_to(change, period, self.stream, submitted_at_us, acceptance)
                if objection is not None:
                    self._end_unsent(entry, objection)
                else:
                    self._ask(change, Stage.HANDED_OVER)
            case AcceptanceNotLookedUp(change, reason):
                self._hold(self.entries[change], errors.unavailable(reason))
            case TransactionHandedOver(change, transaction):
                self._handed_over(self.entries[change], transaction)
            case TransactionNotFound(change):
                self._ask(change, Stage.CHECKED)
            case TransactionRefused(change, failure):
                self._end_unsent(self.entries[change], failure)
            case TransactionNotTaken(change, failure):
                self._hold(self.entries[change], failure)
            case TransactionEnded(change, failure):
                self._end(self.entries[change], failure)
            case InFlightRemoved(change):
                entry = self.entries.pop(change)
                if entry.farewell is not None:
                    self._answer_caller(entry, entry.farewell)
                for waiting in entry.behind:
                    self._take(clock_us, waiting)
            case InFlightNotRemoved(change):
                self._effects.append(Pause(self.limits.retry_ms, change))
            case RetryDue(change) if change is not None:
                self._ask(change, self.entries[change].stage)
            case _:
                raise AssertionError(f"the desk does not know {type(event).__name__}")

    def _ask(self, change: ChangeId, stage: Stage) -> None:
        """Order the next thing for a submission, for the first time or again."""
        entry = self.entries[change]
        entry.stage = stage
        match stage:
            case Stage.CHECKED:
                self._effects.append(LookUpAcceptance(change))
            case Stage.FOUND:
                self._effects.append(FindTransaction(entry.submission))
            case Stage.HANDED_OVER:
                self._effects.append(HandOver(entry.submission))
            case Stage.WITHDRAWN:
                self._effects.append(RemoveInFlight(entry.submission))
            case _:
                raise AssertionError(f"a submission that is {stage.value} is not asked about")

    def _handed_over(self, entry: Entry, transaction: IntentId) -> None:
        change, submission_id = entry.submission.change, entry.submission.command.submission_id
        entry.stage, entry.transaction = Stage.AWAITED, transaction
        self._effects.append(AwaitEnd(change, transaction))
        behind, entry.behind = entry.behind, []
        for event in behind:
            self._answer(event.call, errors.in_flight(change, submission_id))
        if not entry.wants_outcome:
            self._answer_caller(entry, Acknowledged(entry.submission.command.submission_id, transaction))

    def _end_unsent(self, entry: Entry, failure: Failure) -> None:
        """Before the acknowledgement a failure is the answer and no completion; after a crash it is a completion."""
        if entry.call is not None:
            self._withdraw(entry, failure)
        else:
            self._end(entry, failure)

    def _hold(self, entry: Entry, failure: Failure) -> None:
        """Something is unavailable now: the caller gets that error; without one the desk retries."""
        if entry.call is not None:
            self._withdraw(entry, failure)
        else:
            self._effects.append(Pause(self.limits.retry_ms, entry.submission.change))

    def _withdraw(self, entry: Entry, farewell: Failure) -> None:
        entry.farewell = farewell
        self._ask(entry.submission.change, Stage.WITHDRAWN)

    # Completions.

    @property
    def is_writing(self) -> bool:
        """Completions are being written."""
        return bool(self._writing or self._ended)

    def _end(self, entry: Entry, failure: Failure | None) -> None:
        entry.stage = Stage.COMPLETED
        self._ended.append(Ending(entry.submission, entry.transaction, failure))

    def _correct(self, contradicted: Contradicted) -> None:
        """A failure becomes a success. A success is in flight again, after the present submission of its change if any.

        A submission that is being checked against the acceptances must not miss the one that is withdrawn here.
        """
        submission, completion = contradicted.submission, contradicted.completion
        offset, transaction = completion.offset, completion.transaction
        on_the_way = (*(each.corrects for each in self._ended), *(each.completion.corrects for each in self._writing))
        if offset in on_the_way:
            return
        if completion.failure is not None:
            self._ended.append(Ending(submission, transaction, None, offset))
        elif submission.change not in self.entries:
            self.entries[submission.change] = Entry(submission, Stage.REOPENED, transaction=transaction)
            self._ended.append(Ending(submission, transaction, errors.finality_broken(offset), offset, reopens=True))

    def _write_next(self, clock_us: int) -> None:
        """Write all new endings as one batch, when the previous one is durable."""
        if self._writing or not self._ended:
            return
        batch = self._ended[: self.limits.batch_max]
        del self._ended[: self.limits.batch_max]
        submitted_at_us = max(ending.submission.submitted_at_us for ending in batch)
        now_us = self.stream.now_us(max(clock_us, submitted_at_us))
        self._writing = tuple(
            _closing(ending, offset, now_us) for offset, ending in enumerate(batch, self.stream.end + 1)
        )
        self._effects.append(WriteCompletions(self._writing))

    def _completed(self) -> None:
        """Durable: subscribers may see it, callers are answered, and the changes are no longer in flight."""
        written, self._writing = self._writing, ()
        latest = written[-1].completion
        self.stream = replace(self.stream, end=latest.offset, published_at_us=latest.published_at_us)
        for closing in written:
            change, completion = closing.submission.change, closing.completion
            if closing.reopens:
                assert completion.transaction is not None, "it had succeeded"
                self.entries[change].stage = Stage.AWAITED
                self._effects.append(AwaitEnd(change, completion.transaction))
            elif completion.corrects is None:
                self._answer_caller(self.entries.pop(change), completion)
        self._effects.append(PublishStream(self.stream))

    def _repeat(self, write: WriteCompletions | WritePruning) -> None:
        """After a pause; the other kind of write may still be under way, and is not ordered twice."""
        self._repeated.append(write)
        self._effects.append(Pause(self.limits.retry_ms))

    def _retry_writes(self) -> None:
        self._effects += self._repeated
        self._repeated.clear()

    # Pruning.

    def _prune(self, clock_us: int, event: DeskEvent) -> None:
        pruning = self._pruning
        match event:
            case PruningRequested():
                self._begin_pruning(clock_us, event)
                return
            case PruningLookedUp(published_at_us, safe_offset):
                assert pruning is not None, "it was asked for"
                if pruning.offset > safe_offset:
                    self._end_pruning(pruning, errors.unsafe_to_prune(pruning.offset, safe_offset))
                    return
                # From now on no period may reach into it: records that are looked up meanwhile may be gone already.
                self.stream = replace(self.stream, pruned=pruning.offset, pruned_at_us=published_at_us)
                self._pruning = replace(pruning, published_at_us=published_at_us)
                self._effects.append(PublishStream(self.stream))
                self._effects.append(WritePruning(pruning.offset, published_at_us))
            case PruningNotLookedUp(reason):
                assert pruning is not None, "it was asked for"
                self._end_pruning(pruning, errors.unavailable(reason))
            case PruningWritten():
                assert pruning is not None, "it was asked for"
                self._end_pruning(pruning, Pruned(pruning.offset))
            case _:
                assert pruning is not None, "it was asked for"
                assert pruning.published_at_us is not None, "it was looked up"
                self._repeat(WritePruning(pruning.offset, pruning.published_at_us))

    def _begin_pruning(self, clock_us: int, event: PruningRequested) -> None:
        if self._pruning is not None:
            self._answer(event.call, errors.busy(f"completions up to {self._pruning.offset} are being pruned"))
        elif event.offset < BEGIN_OFFSET:
            self._answer(event.call, errors.invalid_field("offset", f"must be 0 or more, not {event.offset}").failure)
        elif event.offset > self.stream.end:
            self._answer(event.call, errors.prune_beyond_end(event.offset, self.stream.end))
        elif event.offset <= self.stream.pruned:
            self._answer(event.call, Pruned(self.stream.pruned))
        else:
            self._pruning = Pruning(event.call, event.offset)
            horizon_us = pruning_horizon_us(self.stream, clock_us, self.maximum_us)
            self._effects.append(LookUpPruning(event.offset, horizon_us))

    def _end_pruning(self, pruning: Pruning, answer: Answer) -> None:
        self._pruning = None
        self._answer(pruning.call, answer)

    # Answers.

    def _answer_caller(self, entry: Entry, answer: Answer) -> None:
        """Each caller is answered once."""
        call, entry.call = entry.call, None
        if call is not None:
            self._answer(call, answer)

    def _answer(self, call: int, answer: Answer) -> None:
        self._effects.append(AnswerCall(call, answer))


def _closing(ending: Ending, offset: int, now_us: int) -> Closing:
    command = ending.submission.command
    completion = Completion(
        offset,
        now_us,
        command.application_id,
        command.command_id,
        command.parties,
        command.submission_id,
        ending.submission.period,
        ending.transaction,
        ending.failure,
        ending.corrects,
    )
    return Closing(ending.submission, completion, ending.reopens)
