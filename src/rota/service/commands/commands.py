"""Commands in a running node: the desk decides (`rota.commands.desk`), this module performs its effects.

Theory of operation. All events are given to the desk in one event loop, one at a time; its effects are begun at once,
in their order. Writes share the node's commits, and the look-ups of one turn of the loop share one read. The
transaction of a command is submitted to the node as any user's is, under a key of the command's own: if it is submitted
a second time after a crash, the node answers that it has it.

The chain may take back final blocks. Then a transaction has not ended until the chain has it again or cannot commit it
any more; published completions are compared with the store, at the start and whenever receipts have changed, and
corrected (`receipts_changed`).

The outcome is the receipt, as the node delivers it to waiters in this process. A receipt from an earlier run is looked
up at the start; in addition all awaited ones are looked up periodically, a few at a time, so that a notification that
was missed delays an outcome but does not lose it.

A caller that disconnects ends its own waiting and nothing else.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID, uuid4

from rota.commands import errors
from rota.commands.changes import command_of, parties_of, party_of
from rota.commands.desk import Desk, DeskLimits
from rota.commands.effects import (
    Acknowledged,
    Answer,
    AnswerCall,
    AwaitEnd,
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
from rota.commands.outcomes import failure_of
from rota.commands.periods import flaw_of_subscription
from rota.engine.accepting import PATIENCE_S, settled
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.model.types import FINALITY_BROKEN, IntentId, NodeName, Outcome, Receipt
from rota.ports import CommandStore, Unavailable
from rota.rpc.errors import ErrorCode, Rejected
from rota.schema.commands import (
    BEGIN_OFFSET,
    ChangeId,
    Checkpoint,
    CommandRejected,
    Completion,
    CompletionFilter,
    CompletionPage,
    Failure,
)
from rota.service import interface
from rota.service.commands.kept_submissions import decode_submission, encode_submission
from rota.service.submissions.repeating import Comparison

KEY_BYTES: Final = 16
START_RETRY_S: Final = 0.5
SWEEP_S: Final = 5.0
SWEPT_MAX: Final = 200
CONTRADICTED_MAX: Final = 500

Found = TypeVar("Found")


class TransactionDesk(Protocol):
    """Accepts the transactions of commands and provides their receipts."""

    async def submit(self, submission: interface.Submission) -> IntentId:
        """Submit a transaction; `errors.key_used` when its key was used."""
        ...

    async def transaction_with_key(self, key: str) -> IntentId | None:
        """Return the transaction with this key, from this run or an earlier one."""
        ...

    async def compared(self, submission: interface.Submission, intent: IntentId) -> Comparison:
        """Return the digest of the transaction, and whether the submission asks for the same.

        `Unavailable` when the store is away.
        """
        ...

    async def receipt(self, intent: IntentId) -> interface.ReceiptView | None:
        """Return the receipt, or None while the transaction has none."""
        ...

    async def may_return(self, intent: IntentId) -> bool:
        """Whether the chain may still commit a transaction whose final block it took back."""
        ...

    def expect_receipt(self, intent: IntentId) -> asyncio.Future[Receipt]:
        """Return a future for the receipt: one still to come in this run, or a recent one."""
        ...


def wall_clock_us() -> int:
    """Return the node's wall clock, by which durations are measured."""
    return time.time_ns() // 1_000


class CommandOffice:
    """`service.interface.Commands` of one run of a node. It accepts commands from `begin` on."""

    def __init__(
        self,
        name: NodeName,
        store: CommandStore,
        transactions: TransactionDesk,
        maximum_ms: int,
        clock_us: Callable[[], int] = wall_clock_us,
        limits: DeskLimits | None = None,
    ) -> None:
        self.name: Final = name
        self.store: Final = store
        self.transactions: Final = transactions
        self.counts: Final[Counter[str]] = Counter()
        self.patience_s = PATIENCE_S
        self._clock_us: Final = clock_us
        self._limits: Final = limits
        self._desk: Desk | None = None
        self._maximum_ms = maximum_ms
        self._maximum_changed = asyncio.Event()
        self._published = asyncio.Event()
        self._calls: Final[dict[int, asyncio.Future[Answer]]] = {}
        self._call_count = 0
        # The submissions of waiting callers, so that they need not be decoded from their bytes.
        self._at_hand: Final[dict[str, interface.Submission]] = {}
        self._lookups: Final[list[ChangeId]] = []
        self._is_looking_up = False
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._awaited: Final[dict[ChangeId, IntentId]] = {}
        self._expected: Final[set[asyncio.Future[Receipt]]] = set()
        self.failed: Callable[[BaseException], None] = _raise
        self._receipts_changed: Final = asyncio.Event()
        self._may_be_contradicted = True
        self._store_trouble: Final = Trouble()

    # The run.

    async def run(self) -> None:
        """Begin when the store answers, then process periodic work until cancelled."""
        await self.begin()
        while True:
            with suppress(Unavailable):
                await self._correct()
                await self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S):
                    await self._receipts_changed.wait()
            if self._receipts_changed.is_set():
                self._receipts_changed.clear()
                self._may_be_contradicted = True

    def receipts_changed(self) -> None:
        """Final receipts have changed, so completions may no longer hold: compare them."""
        self._receipts_changed.set()

    async def _correct(self) -> None:
        """Correct contradicted completions; the next sweep repeats this if some were found or are being written."""
        if not self._may_be_contradicted:
            return
        is_writing = self.desk.is_writing
        found = await self.store.contradicted(CONTRADICTED_MAX)
        self._may_be_contradicted = bool(found) or is_writing
        if found:
            catalogue.COMMAND_CORRECTED.log(completions=len(found))
            self.tell(OutcomesContradicted(found))

    async def begin(self) -> None:
        """Restore the stream and the commands in flight from the store, and continue them."""
        stream, in_flight = await self._answered(self.store.restore)
        self._desk = Desk(stream, in_flight, self._maximum_ms * 1_000, self._limits)
        if in_flight:
            catalogue.COMMAND_RESUMED.log(in_flight=len(in_flight))
        self._perform_all(self._desk.begin())

    async def close(self) -> None:
        """Cancel all work, as a crash would: the next run continues from the store."""
        ending: tuple[asyncio.Future[Any], ...] = (*self._tasks, *self._expected)
        for each in ending:
            each.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for call in self._calls.values():
            call.cancel()

    @property
    def desk(self) -> Desk:
        """The desk. `CommandRejected` before the store has returned the commands in flight."""
        if self._desk is None:
            raise CommandRejected(errors.unavailable(f"{self.name} has not begun to take commands"))
        return self._desk

    @property
    def has_begun(self) -> bool:
        """Whether it accepts commands."""
        return self._desk is not None

    # Commands.

    async def submit(self, submission: interface.CommandSubmission) -> interface.Acknowledgement:
        """Submit a command; returns once its transaction is handed over. `OUTCOME_UNKNOWN` if that takes too long."""
        submitted = self._submitted(submission, wants_outcome=False)
        try:
            async with asyncio.timeout(self.patience_s):
                answer = await self._ask(submitted)
        except TimeoutError:
            raise CommandRejected(errors.outcome_unknown(submitted.command.submission_id, self.patience_s)) from None
        match answer:
            case Acknowledged(submission_id, transaction):
                return interface.Acknowledgement(submission_id, transaction)
            case Completion():
                raise AssertionError("whoever does not want the outcome is acknowledged before it is known")
            case _:
                raise AssertionError(f"a submission is not answered with {answer}")

    async def submit_and_wait(self, submission: interface.CommandSubmission) -> Completion:
        """Submit a command and return its completion once durable."""
        answer = await self._ask(self._submitted(submission, wants_outcome=True))
        assert isinstance(answer, Completion), f"a submission is not answered with {answer}"
        return answer

    def _submitted(self, given: interface.CommandSubmission, *, wants_outcome: bool) -> CommandSubmitted:
        command = command_of(
            self.name,
            application_id=given.application_id,
            command_id=given.command_id,
            party=given.party,
            act_as=given.act_as,
            submission_id=given.submission_id or str(uuid4()),
            period=given.period,
        )
        sender = given.transaction.sender
        if not sender and len(command.parties) > 1:
            raise errors.missing_field("transaction.from", "as there are several parties")
        whole = party_of(self.name, "transaction.from", sender) if sender else command.parties[0]
        if whole not in command.parties:
            raise errors.invalid_field("transaction.from", f"must be one of the command's parties, not {whole}")
        if given.transaction.idempotency_key:
            raise errors.invalid_field("transaction.idempotencyKey", "must be left out: a command has its own")
        key = f"command {secrets.token_hex(KEY_BYTES)}"
        submission = replace(given.transaction, sender=whole, idempotency_key=key)
        self._at_hand[key] = submission
        return CommandSubmitted(self._next_call(), command, key, encode_submission(submission), wants_outcome)

    async def prune(self, offset: int) -> int:
        """Delete completions up to this offset."""
        answer = await self._ask(PruningRequested(self._next_call(), offset))
        assert isinstance(answer, Pruned), f"pruning is not answered with {answer}"
        return answer.offset

    async def _ask(self, event: CommandSubmitted | PruningRequested) -> Answer:
        """Give the desk an event and wait for the answer; a caller that stops waiting does not affect the desk."""
        awaited: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        submission = self._at_hand.get(event.key) if isinstance(event, CommandSubmitted) else None
        try:
            desk = self.desk
            self._calls[event.call] = awaited
            self._step(desk, event)
            answer = await awaited
        finally:
            self._calls.pop(event.call, None)
            if isinstance(event, CommandSubmitted):
                self._at_hand.pop(event.key, None)
        if isinstance(answer, Failure):
            raise CommandRejected(await self._compared(submission, answer))
        return answer

    async def _compared(self, submission: interface.Submission | None, failure: Failure) -> Failure:
        """Add to the failure of a duplicate whether it asks for the same; return any other failure unchanged.

        If they cannot be compared now, the failure is `unavailable`: a duplicate would count as a success.
        """
        existing = dict(failure.metadata).get("existing_transaction_id")
        if submission is None or failure.error_id != errors.DUPLICATE_COMMAND:
            return failure
        if existing is None:
            return errors.not_compared(failure, "an earlier release accepted it, and did not keep its transaction")
        try:
            found = await self.transactions.compared(submission, IntentId(UUID(existing).bytes))
        except Unavailable as trouble:
            return errors.unavailable(str(trouble))
        if found.is_same is None:
            return errors.not_compared(failure, found.reason)
        return errors.compared(failure, found.digest, found.is_same)

    def _next_call(self) -> int:
        self._call_count += 1
        return self._call_count

    # Completions.

    def subscription(self, application_id: str, parties: Sequence[str], begin_exclusive: int) -> CompletionFilter:
        """Return the filter for the completions of an application and of parties."""
        if not application_id:
            raise errors.missing_field("application_id")
        if begin_exclusive < BEGIN_OFFSET:
            raise errors.invalid_field("begin_exclusive", f"must be 0 or more, not {begin_exclusive}")
        named = [(f"parties[{place}]", each) for place, each in enumerate(parties)]
        if not named:
            raise errors.missing_field("parties")
        wanted = CompletionFilter(application_id, parties_of(self.name, named))
        flaw = flaw_of_subscription(begin_exclusive, self.desk.stream)
        if flaw is not None:
            raise CommandRejected(flaw)
        return wanted

    async def completions(self, wanted: CompletionFilter, after: int, limit: int) -> CompletionPage:
        """Return completions after an offset; if they were pruned meanwhile, an error."""
        end = self.desk.stream.end
        try:
            page = await self.store.completions(wanted, after, end, limit)
        except Unavailable as trouble:
            raise CommandRejected(errors.unavailable(str(trouble))) from trouble
        flaw = flaw_of_subscription(after, self.desk.stream)
        if flaw is not None:
            raise CommandRejected(flaw)
        return wanted.narrowed(page)

    async def published(self, after: int) -> None:
        """Wait until the end lies beyond this offset."""
        while self.desk.stream.end <= after:
            await self._published.wait()

    async def end(self) -> Checkpoint:
        """Return the present end of the stream."""
        stream = self.desk.stream
        return Checkpoint(stream.end, stream.published_at_us)

    # Configuration.

    def configuration(self) -> interface.CommandConfiguration:
        """Return the present configuration."""
        return interface.CommandConfiguration(self._maximum_ms)

    async def configurations(self) -> AsyncIterator[interface.CommandConfiguration]:
        """Yield the present configuration, then each change."""
        while True:
            told_ms = self._maximum_ms
            yield interface.CommandConfiguration(told_ms)
            while self._maximum_ms == told_ms:
                await self._maximum_changed.wait()

    def change_maximum(self, maximum_ms: int) -> None:
        """Apply a maximum that an operator has changed."""
        self._maximum_ms = maximum_ms
        if self._desk is not None:
            self._step(self._desk, MaximumChanged(maximum_ms * 1_000))
        self._maximum_changed = _set_anew(self._maximum_changed)

    # The desk.

    def tell(self, event: DeskEvent) -> None:
        """Give the desk an event."""
        assert self._desk is not None, "nothing is asked for before it has begun"
        self._step(self._desk, event)

    def _step(self, desk: Desk, event: DeskEvent) -> None:
        self._perform_all(desk.step(self._clock_us(), event))

    def _perform_all(self, effects: Sequence[DeskEffect]) -> None:
        for effect in effects:
            self.perform(effect)

    def perform(self, effect: DeskEffect) -> None:
        """Begin to perform an effect; its result becomes an event."""
        match effect:
            case AnswerCall(call, answer):
                self._answer(call, answer)
            case PublishStream():
                self._published = _set_anew(self._published)
            case Pause(pause_ms, change):
                self._begin(self._pause(pause_ms, change))
            case WriteInFlight(submission):
                self._begin(self._write_in_flight(submission))
            case LookUpAcceptance(change):
                self._look_up(change)
            case RemoveInFlight(submission):
                self._begin(self._remove_in_flight(submission))
            case WriteCompletions():
                self._begin(self._write_completions(effect))
            case LookUpPruning():
                self._begin(self._look_up_pruning(effect))
            case WritePruning(offset, published_at_us):
                written = self.store.prune(offset, published_at_us)
                self._begin(self._written(written, PruningWritten(), PruningNotWritten()))
            case FindTransaction(submission):
                self._begin(self._find(submission))
            case HandOver(submission):
                self._begin(self._hand_over(submission))
            case AwaitEnd(change, transaction):
                self._await_end(change, transaction)
            case _:
                raise AssertionError(f"the office does not know {type(effect).__name__}")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)

    def _answer(self, call: int, answer: Answer) -> None:
        if isinstance(answer, Failure):
            is_repeated = answer.error_id in (errors.DUPLICATE_COMMAND, errors.SUBMISSION_ALREADY_IN_FLIGHT)
            self.counts["duplicate" if is_repeated else "refused"] += 1
        waiting = self._calls.get(call)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _pause(self, pause_ms: int, change: ChangeId | None) -> None:
        await asyncio.sleep(pause_ms / 1_000)
        self.tell(RetryDue(change))

    # The store.

    async def _written(self, written: Awaitable[None], done: DeskEvent, failed: DeskEvent) -> None:
        try:
            await written
        except Unavailable as trouble:
            self._log_postponed("in flight", trouble)
            self.tell(failed)
        else:
            self._store_trouble.end()
            self.tell(done)

    async def _answered(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """Query the store until it answers: nothing can continue without it."""
        while True:
            try:
                return await ask()
            except Unavailable as trouble:
                self._log_postponed("read", trouble)
                await asyncio.sleep(START_RETRY_S)

    def _log_postponed(self, operation: str, trouble: Unavailable) -> None:
        if self._store_trouble.is_new(f"{operation}: {trouble}"):
            catalogue.COMMAND_POSTPONED.log(operation=operation, reason=str(trouble))

    async def _write_in_flight(self, submission: InFlight) -> None:
        try:
            await self.store.write_in_flight(submission)
        except Unavailable as trouble:
            self.tell(InFlightNotWritten(submission.change, str(trouble)))
        else:
            self.tell(InFlightWritten(submission.change))

    async def _remove_in_flight(self, submission: InFlight) -> None:
        done, failed = InFlightRemoved(submission.change), InFlightNotRemoved(submission.change)
        await self._written(self.store.remove_in_flight(submission), done, failed)

    async def _write_completions(self, order: WriteCompletions) -> None:
        try:
            await self.store.write_completions(order.closings)
        except Unavailable as trouble:
            self._log_postponed("completions", trouble)
            self.tell(CompletionsNotWritten())
            return
        self._store_trouble.end()
        for closing in order.closings:
            failure = closing.completion.failure
            is_duplicate = failure is not None and failure.error_id == errors.DUPLICATE_COMMAND
            self.counts["accepted" if failure is None else "duplicate" if is_duplicate else "refused"] += 1
        self.tell(CompletionsWritten())

    def _look_up(self, change: ChangeId) -> None:
        self._lookups.append(change)
        if not self._is_looking_up:
            self._is_looking_up = True
            self._begin(self._look_up_all())

    async def _look_up_all(self) -> None:
        """Look up all waiting changes in one read, until none has come meanwhile."""
        try:
            while self._lookups:
                changes = tuple(self._lookups)
                self._lookups.clear()
                try:
                    found = await self.store.latest_acceptances(changes)
                except Unavailable as trouble:
                    for change in changes:
                        self.tell(AcceptanceNotLookedUp(change, str(trouble)))
                else:
                    for change in changes:
                        self.tell(AcceptanceLookedUp(change, found.get(change)))
        finally:
            self._is_looking_up = False

    async def _look_up_pruning(self, order: LookUpPruning) -> None:
        try:
            point = await self.store.pruning_point(order.offset, order.horizon_us)
        except Unavailable as trouble:
            self.tell(PruningNotLookedUp(str(trouble)))
        else:
            self.tell(PruningLookedUp(*point))

    # Transactions.

    async def _find(self, submission: InFlight) -> None:
        """Look up whether it was handed over in an earlier run; repeat while the store is away."""
        found = await self._answered(lambda: self.transactions.transaction_with_key(submission.key))
        if found is None:
            self.tell(TransactionNotFound(submission.change))
            return
        self.tell(TransactionHandedOver(submission.change, found))
        with suppress(Unavailable):
            await self._look_at(submission.change, found)

    async def _hand_over(self, submission: InFlight) -> None:
        change = submission.change
        try:
            wanted = self._at_hand.get(submission.key) or decode_submission(submission.transaction, submission.key)
            # The acceptance must be known before it is reported: otherwise the change could happen twice.
            transaction = await settled(lambda: self.transactions.submit(wanted))
        except Rejected as flaw:
            existing = flaw.details.get("transactionId") if flaw.code is ErrorCode.KEY_USED else None
            if existing is None:
                field = f"transaction.{flaw.field}" if flaw.field else ""
                self.tell(TransactionRefused(change, errors.refused(field, flaw.message)))
                return
            transaction = IntentId(bytes.fromhex(str(existing).replace("-", "")))
        except Unavailable as trouble:
            self.tell(TransactionNotTaken(change, errors.unavailable(str(trouble))))
            return
        self.tell(TransactionHandedOver(change, transaction))

    def _await_end(self, change: ChangeId, transaction: IntentId) -> None:
        self._awaited[change] = transaction
        expected = self.transactions.expect_receipt(transaction)
        self._expected.add(expected)
        expected.add_done_callback(self._expected.discard)
        expected.add_done_callback(lambda receipt: self._receipt_came(change, transaction, receipt))

    def _receipt_came(self, change: ChangeId, transaction: IntentId, receipt: asyncio.Future[Receipt]) -> None:
        """End the command with its receipt. A run's end cancels the future; a broken finality is left to the sweep."""
        if receipt.cancelled():
            return
        told = receipt.result()
        if told.code == FINALITY_BROKEN:
            return
        is_confirmed = told.outcome is Outcome.CONFIRMED
        try:
            self._end(change, transaction, None if is_confirmed else failure_of(told.reason, told.code))
        except Exception as error:
            self.failed(error)

    async def _sweep(self) -> None:
        """Look up the longest awaited; those still open go to the back. `Unavailable` when the store is away."""
        for change, transaction in tuple(self._awaited.items())[:SWEPT_MAX]:
            await self._look_at(change, transaction)
            if change in self._awaited:
                self._awaited[change] = self._awaited.pop(change)

    async def _look_at(self, change: ChangeId, transaction: IntentId) -> None:
        view = await self.transactions.receipt(transaction)
        if view is None:
            return
        if view.failure_code != FINALITY_BROKEN:
            failure = None if view.success else failure_of(view.failure_message, view.failure_code)
            self._end(change, transaction, failure)
        elif not await self.transactions.may_return(transaction):
            self._end(change, transaction, errors.lost())

    def _end(self, change: ChangeId, transaction: IntentId, failure: Failure | None) -> None:
        """Report the end of a command's transaction to the desk, once."""
        if self._awaited.get(change) == transaction:
            del self._awaited[change]
            self.tell(TransactionEnded(change, failure))


def _set_anew(event: asyncio.Event) -> asyncio.Event:
    """Wake all waiters, and return a new event for later ones."""
    event.set()
    return asyncio.Event()


def _raise(error: BaseException) -> None:
    raise error
