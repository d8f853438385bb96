"""Changes that happen exactly once, whatever crashes: the two strategies of command deduplication, as one call each.

    with Journal(Path("payments.journal")) as journal:
        commands = client.commands(journal, application_id="payroll", act_as=("alice",))
        for verdict in await commands.resume():             # after a crash: complete the open changes
            ...
        verdict = await commands.exactly_once("salary of May, carol", transaction)

Theory of operation. The application names its change. The journal keeps, before anything is sent, the command id under
which the change is submitted, the offset since which it must not have happened, and each submission that leaves. Every
submission of a change has the same command id, so that the node accepts one of them and tells the others apart.

    exactly_once          by offset: no clock is involved, and it may take as long as it takes
    exactly_once_within   by duration: nothing is sent any more when `bound_ms` is over. The node is asked to remember
                          for longer: also for the time that an attempt may be under way, and for slack

Each ends in one of three ways. *Succeeded*: it happened, once, also for a duplicate. *Failed*: it did not happen and
will not, because every submission got a definite answer. *Unknown*: some submission got none, or one that is not
definite (`CommandError.is_definite`), and the attempts have ended; it may have happened or may happen yet. That
no submission was reported in flight proves nothing.

The reaction to each error is a table (docs/commands.md); where that needs knowledge of the business,
`worth_retrying` is asked. A period that is weaker than the one asked for is taken only with `accept_weaker`, because
the change may then happen twice.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final
from uuid import uuid4

from rota.client.errors import Refused, Unreachable
from rota.client.journal import Journal, JournalEntry, with_attempt, without_attempt
from rota.client.jsonrpc import JsonRpc, Payees

COMMAND_REJECTED: Final = -32_002
TIMEOUT_MS_MAX: Final = 25_000
# So much later than it was given up may a submission arrive at the node, and so much may clocks differ.
SLACK_MS: Final = 60_000
# These codes are not final for a submission, unless the node marks them as definite.
NOT_DEFINITE: Final = ("UNAVAILABLE", "UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED")
PAGE_MAX: Final = 500
OTHERS_PAGES_MAX: Final = 20

# The ids that have a reaction of their own.
FINALITY_BROKEN: Final = "FINALITY_BROKEN"
# A command id that was used for another transaction.
CONFLICT: Final = "COMMAND_ID_USED"
# As a deduplication offset: everything that the node still knows.
EVER: Final = 0
DUPLICATE_COMMAND: Final = "DUPLICATE_COMMAND"
NOT_COMPARED: Final = "NOT_COMPARED"
SUBMISSION_ALREADY_IN_FLIGHT: Final = "SUBMISSION_ALREADY_IN_FLIGHT"
INVALID_DEDUPLICATION_PERIOD: Final = "INVALID_DEDUPLICATION_PERIOD"
PARTICIPANT_PRUNED_DATA_ACCESSED: Final = "PARTICIPANT_PRUNED_DATA_ACCESSED"


@dataclass(frozen=True, slots=True)
class CommandError:
    """Why a submission was refused or did not happen. `is_lost` is one that was never answered."""

    code: str
    error_id: str
    message: str
    metadata: Mapping[str, str]
    is_lost: bool = False

    @property
    def is_definite(self) -> bool:
        """Whether nothing came of the submission, for good."""
        told = self.metadata.get("definite_answer", "")
        return not self.is_lost and (told == "true" or (told != "false" and self.code not in NOT_DEFINITE))

    @property
    def is_unknown_payee(self) -> bool:
        """The node refused it because it names a party that is not known, or of which that could not be checked."""
        return self.error_id == "TRANSACTION_REFUSED" and self.metadata.get("field", "").endswith("payees")


class Outcome(Enum):
    """How a change ended, as far as its application can know."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a change. A success has the offset of its completion, where it is known; anything else an error.

    `done_before_ms` is when the change was accepted, if that was before this journal knew of it. With `not_since_ms`
    the node knows only that it was not accepted since then, because it has forgotten older ones.
    """

    change: str
    outcome: Outcome
    completion_offset: int | None = None
    submission_id: str = ""
    error: CommandError | None = None
    done_before_ms: int | None = None
    not_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take, how often it is tried, and how long is waited in between, doubling."""

    timeout_ms: int = 10_000
    attempts_max: int = 20
    pause_ms: int = 100
    pause_max_ms: int = 5_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")


WorthRetrying = Callable[[CommandError], bool]


def unavailable_is_worth_retrying(error: CommandError) -> bool:
    """What the caller gets who gives no `worth_retrying`: the world may be better soon, a refusal stays one."""
    return error.code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNKNOWN", "INTERNAL")


class Commands:
    """The commands of one application and its parties at one node; always the same node for one change.

    With `uses_stream` submissions are acknowledged and their outcomes read from the completions; otherwise each call
    waits for its outcome.
    """

    def __init__(
        self,
        node: JsonRpc,
        journal: Journal,
        *,
        application_id: str,
        act_as: Sequence[str],
        uses_stream: bool = False,
        patience: Patience | None = None,
        worth_retrying: WorthRetrying = unavailable_is_worth_retrying,
        accept_weaker: bool = False,
        payees: Payees = "known",
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._raw: Final = RawCommands(node, application_id, act_as)
        self._journal: Final = journal
        self._uses_stream: Final = uses_stream
        self._patience: Final = patience or Patience()
        self._worth_retrying: Final = worth_retrying
        self._accept_weaker: Final = accept_weaker
        self._payees: Final = payees
        self._now_ms: Final = now_ms
        self._monotonic_ms: Final = monotonic_ms
        # When each change that has a bound began, by a clock that does not jump.
        self._began_ms: Final[dict[str, int]] = {}

    async def exactly_once(
        self, change: str, transaction: Mapping[str, object], *, command_id: str | None = None
    ) -> Verdict:
        """Have a change happen once, however long it takes.

        A `command_id` of the caller's own that the journal does not know may have been used with another journal: then
        everything counts that the node still knows.
        """
        return await self._run(self._begun(change, transaction, command_id), transaction)

    async def exactly_once_within(
        self, bound_ms: int, change: str, transaction: Mapping[str, object], *, command_id: str | None = None
    ) -> Verdict:
        """Have a change happen once, when nothing needs to be sent after this time."""
        if bound_ms < 1:
            raise ValueError(f"bound_ms: must be at least 1, not {bound_ms}")
        return await self._run(self._begun(change, transaction, command_id, bound_ms), transaction)

    def _begun(
        self, change: str, transaction: Mapping[str, object], command_id: str | None, bound_ms: int | None = None
    ) -> JournalEntry:
        """What the journal knows of a change, from now on at least that it began."""
        since = None if command_id is None else EVER
        new = JournalEntry(change, command_id or str(uuid4()), transaction, self._now_ms(), bound_ms, since)
        entry = self._journal.begin(new)
        if entry is new:
            self._began_ms[change] = self._monotonic_ms()
        return entry

    async def resume(self) -> list[Verdict]:
        """Complete the changes that were open before a crash, in the order in which they began."""
        return [await self._run(entry, entry.transaction) for entry in self._journal.unended]

    # The strategies. Steps are numbered as in the seed; both differ in the period alone.

    async def _run(self, entry: JournalEntry, transaction: Mapping[str, object]) -> Verdict:
        if _written(transaction) != _written(entry.transaction):
            message = "the journal has this change with another transaction: this one was not submitted"
            return Verdict(entry.change, Outcome.FAILED, error=CommandError("ALREADY_EXISTS", CONFLICT, message, {}))
        if entry.outcome:
            return _remembered(entry)
        verdict = await _Attempts(self, entry.change).run()
        # A change stays open if its outcome is unknown or it never reached the node: the next resumption may do better.
        # So does a payment to an unknown party: its user may create the party, or confirm the name.
        error = verdict.error
        is_for_good = error is None or (error.is_definite and not error.is_unknown_payee)
        if verdict.outcome is not Outcome.UNKNOWN and is_for_good:
            # Another run of the same change may have come to its end first.
            entry = self._journal.update(
                entry.change, lambda now: now if now.outcome else replace(now, outcome=_kept(verdict))
            )
            return _remembered(entry)
        return verdict

    def _elapsed_ms(self, entry: JournalEntry) -> int:
        """The time since a change with a bound began, by the clock that shows more.

        Of one from before a restart the calendar alone knows; where that was set back, the bound counts as over.
        """
        by_calendar_ms, now_ms = self._now_ms() - entry.began_at_ms, self._monotonic_ms()
        if entry.change not in self._began_ms:
            known_ms = by_calendar_ms if by_calendar_ms >= 0 else entry.bound_ms or 0
            self._began_ms[entry.change] = now_ms - known_ms
        return max(by_calendar_ms, now_ms - self._began_ms[entry.change])


class _Attempts:
    """The attempts at one change in one run of the application."""

    def __init__(self, commands: Commands, change: str) -> None:
        self._change: Final = change
        self._raw: Final = commands._raw
        self._journal: Final = commands._journal
        self._patience: Final = commands._patience
        self._uses_stream: Final = commands._uses_stream
        self._accept_weaker: Final = commands._accept_weaker
        self._payees: Final = commands._payees
        self._worth_retrying: Final = commands._worth_retrying
        self._elapsed_ms: Final = commands._elapsed_ms
        self._weaker_ms: int | None = None
        self._not_since_ms: int | None = None
        self._after = 0
        self._timeout_ms = self._patience.timeout_ms
        self._pause_ms = self._patience.pause_ms

    @property
    def _entry(self) -> JournalEntry:
        entry = self._journal.entry(self._change)
        assert entry is not None, "a change is remembered before it is attempted"
        return entry

    async def run(self) -> Verdict:
        error: CommandError | None = None
        for attempt in range(self._patience.attempts_max):
            if attempt:
                await self._pause()
            if self._entry.outcome:
                return _remembered(self._entry)
            if self._is_over():
                message = f"the bound of {self._entry.bound_ms} ms is over; another submission could happen twice"
                return self._unended(CommandError("DEADLINE_EXCEEDED", "BOUND_IS_OVER", message, {}))
            # Step 2: where the outcome will be looked for, and, the first time, since when it must not have happened.
            error = await self._take_offset()
            if error is None:
                verdict, error = await self._submit()
                if verdict is not None:
                    return verdict
            assert error is not None, "an open change has a reason"
            if not await self._goes_on_after(error):
                return self._unended(error)
        assert error is not None, "something is attempted at least once"
        return self._unended(error)

    async def _submit(self) -> tuple[Verdict | None, CommandError | None]:
        """Steps 3 and 4: one submission, and its outcome."""
        submission_id = str(uuid4())
        self._journal.update(self._change, lambda entry: with_attempt(entry, submission_id))
        verdict: Verdict | None = None
        error: CommandError | None = None
        try:
            if self._uses_stream:
                await self._raw.submit(self._command(submission_id))
                verdict, error = await self._outcome_of(submission_id)
            else:
                outcome = await self._raw.submit_and_wait(self._command(submission_id), self._timeout_ms)
                verdict = self._succeeded(int(outcome["completionOffset"]), submission_id)
        except CommandFailed as failed:
            error = failed.error
        if error is None or error.is_definite:
            self._journal.update(self._change, lambda entry: without_attempt(entry, submission_id))
        if error is not None and error.error_id == DUPLICATE_COMMAND:
            return self._duplicate(error), None
        if error is not None and error.error_id == SUBMISSION_ALREADY_IN_FLIGHT and self._uses_stream:
            return await self._outcome_of_existing(error)
        return verdict, error

    async def _outcome_of_existing(self, error: CommandError) -> tuple[Verdict | None, CommandError | None]:
        """Wait for the submission in flight. Its completion lies after the offset that was taken before this one.

        Another journal's may be for another transaction: the node compares the two when this one is submitted again.
        """
        existing = error.metadata["existing_submission_id"]
        is_ours = existing in self._entry.open_attempts
        verdict, ended = await self._outcome_of(existing, pages_max=OTHERS_PAGES_MAX)
        return (verdict, ended) if is_ours else (None, error)

    async def _goes_on_after(self, error: CommandError) -> bool:
        """The seed's table: whether, and with what, it is tried again."""
        if error.error_id == INVALID_DEDUPLICATION_PERIOD:
            return self._accept_weaker and self._weaken(error)
        if error.error_id == PARTICIPANT_PRUNED_DATA_ACCESSED:
            # Nothing was ever sent that could have happened before: a later offset is then as good.
            is_safe = not self._entry.open_attempts and self._entry.attempts <= 1
            return (is_safe or self._accept_weaker) and self._move_offset(error)
        if error.code == "DEADLINE_EXCEEDED":
            self._timeout_ms = min(self._timeout_ms * 2, TIMEOUT_MS_MAX)
            return True
        if error.is_lost or error.code == "ABORTED":
            return True
        return self._worth_retrying(error)

    # Periods.

    async def _take_offset(self) -> CommandError | None:
        """Where completions end now; remembered before the first submission of an unbounded change."""
        is_first = self._entry.bound_ms is None and self._entry.offset is None
        if not self._uses_stream and not is_first:
            return None
        try:
            self._after = await self._raw.end()
        except CommandFailed as failed:
            return failed.error
        if is_first:
            # Another run of the same change may have been first.
            after = self._after
            self._journal.update(
                self._change, lambda now: now if now.offset is not None else replace(now, offset=after)
            )
        return None

    def _command(self, submission_id: str) -> dict[str, object]:
        period: dict[str, object]
        if self._entry.bound_ms is None or self._entry.offset is not None:
            period = {"deduplicationOffset": self._entry.offset}
        else:
            # The last attempt leaves before the bound is over, and may be under way until it is given up.
            duration_ms = self._weaker_ms or self._entry.bound_ms + self._raw.timeout_ms + SLACK_MS
            period = {"deduplicationDuration": f"{duration_ms / 1_000:.3f}s"}
        return {
            "commandId": self._entry.command_id,
            "submissionId": submission_id,
            "transaction": {"payees": self._payees, **self._entry.transaction},
            **period,
        }

    def _weaken(self, error: CommandError) -> bool:
        """What the node offers instead; the change may now happen twice within the period that was asked for."""
        longest, earliest = error.metadata.get("longest_duration"), error.metadata.get("earliest_offset")
        if self._entry.offset is None and longest is not None:
            self._weaker_ms = int(float(longest.removesuffix("s")) * 1_000)
            return True
        if self._entry.offset is not None and earliest is not None:
            self._journal.update(self._change, lambda entry: replace(entry, offset=int(earliest)))
            return True
        return False

    def _move_offset(self, error: CommandError) -> bool:
        """The last pruned offset: the node still knows the commands from there on."""
        earliest = int(error.metadata["earliest_offset"])
        if self._entry.offset == EVER and "earliest_at_ms" in error.metadata:
            self._not_since_ms = int(error.metadata["earliest_at_ms"])
        self._journal.update(self._change, lambda entry: replace(entry, offset=earliest))
        return True

    def _is_over(self) -> bool:
        bound_ms = self._entry.bound_ms
        return bound_ms is not None and self._elapsed_ms(self._entry) >= bound_ms

    # Outcomes.

    async def _outcome_of(
        self, submission_id: str, pages_max: int | None = None
    ) -> tuple[Verdict | None, CommandError | None]:
        """Read completions until that of a submission comes, which it will while the node can be reached.

        An error here is about the reading: what became of the submission is then not known. Another's submission is not
        waited for without an end: a further submission returns the same.
        """
        after, failures, pages = self._after, 0, 0
        while True:
            if pages == pages_max:
                return None, CommandError("ABORTED", "NO_COMPLETION", f"{submission_id} has no completion yet", {})
            pages += 1
            try:
                page = await self._raw.completions(after, PAGE_MAX, self._timeout_ms)
            except CommandFailed as failed:
                failures += 1
                if not failed.error.is_lost or failures >= self._patience.attempts_max:
                    return None, replace(failed.error, is_lost=True)
                await self._pause()
                continue
            failures = 0
            own = [each for each in page["completions"] if each["submissionId"] == submission_id]
            # The latest counts: it corrects those before it. One that withdraws a success is followed by another.
            if own and (own[-1].get("failure") or {}).get("errorId") != FINALITY_BROKEN:
                return self._judged(own[-1])
            after = page["checkpoint"]

    def _judged(self, completion: dict[str, Any]) -> tuple[Verdict | None, CommandError | None]:
        failure = completion.get("failure")
        if failure is None:
            return self._succeeded(completion["offset"], completion["submissionId"]), None
        error = _error_of(failure["message"], failure)
        if error.error_id == DUPLICATE_COMMAND:
            # The node compares transactions only when it answers a submission: another one is compared.
            return None, replace(error, code="ABORTED", error_id=NOT_COMPARED)
        return None, error

    def _succeeded(self, offset: int, submission_id: str) -> Verdict:
        return Verdict(self._entry.change, Outcome.SUCCEEDED, offset, submission_id, not_since_ms=self._not_since_ms)

    def _duplicate(self, error: CommandError) -> Verdict:
        """It was accepted before: for the change that is a success, unless that was or may be another transaction."""
        offset = error.metadata.get("completion_offset")
        submission_id = error.metadata.get("existing_submission_id", "")
        if error.metadata.get("same") == "false":
            return Verdict(self._entry.change, Outcome.FAILED, error=replace(error, error_id=CONFLICT))
        if error.metadata.get("same") != "true" and submission_id not in self._entry.open_attempts:
            # The node cannot compare that one with this request, and this journal did not send it.
            return Verdict(self._entry.change, Outcome.UNKNOWN, error=replace(error, error_id=NOT_COMPARED))
        accepted_at_ms = error.metadata.get("accepted_at_ms")
        is_earlier = accepted_at_ms is not None and not self._has_sent
        return Verdict(
            self._entry.change,
            Outcome.SUCCEEDED,
            int(offset) if offset is not None else None,
            submission_id,
            done_before_ms=int(accepted_at_ms) if accepted_at_ms is not None and is_earlier else None,
        )

    @property
    def _has_sent(self) -> bool:
        """Whether this journal has submitted it before: then the acceptance may be that submission's."""
        return self._entry.attempts > 1

    def _unended(self, error: CommandError) -> Verdict:
        """It failed for certain only if it is known of every submission how it ended."""
        outcome = Outcome.UNKNOWN if self._entry.open_attempts else Outcome.FAILED
        return Verdict(self._entry.change, outcome, error=error)

    async def _pause(self) -> None:
        await asyncio.sleep(self._pause_ms / 1_000)
        self._pause_ms = min(self._pause_ms * 2, self._patience.pause_max_ms)


# What the node offers, without a strategy.


class CommandFailed(Exception):
    """A call about commands was refused, or not answered."""

    def __init__(self, error: CommandError) -> None:
        super().__init__(f"{error.code} / {error.error_id}: {error.message}")
        self.error: Final = error


class RawCommands:
    """The plain services; `CommandFailed` when they refuse or do not answer."""

    def __init__(self, node: JsonRpc, application_id: str = "", act_as: Sequence[str] = ()) -> None:
        self._node: Final = node
        self._application_id: Final = application_id
        self._act_as: Final = tuple(act_as)
        self.timeout_ms: Final = node.limits.timeout_ms

    async def submit(self, command: Mapping[str, object]) -> dict[str, Any]:
        """Acknowledged: there will be one completion."""
        return dict(await self._call("cmd_submit", self._whole(command)))

    async def submit_and_wait(self, command: Mapping[str, object], timeout_ms: int) -> dict[str, Any]:
        """The outcome of a command that happened."""
        wait_ms = min(timeout_ms, TIMEOUT_MS_MAX)
        return dict(await self._call("cmd_submitAndWait", self._whole(command), wait_ms))

    async def completions(self, after: int, limit: int, timeout_ms: int) -> dict[str, Any]:
        """Some completions after an offset, and how far they were read."""
        parameters = (self._act_as, after, self._application_id or None, limit, min(timeout_ms, TIMEOUT_MS_MAX))
        return dict(await self._call("cmd_completions", *parameters))

    async def follow(self, after: int, timeout_ms: int = TIMEOUT_MS_MAX) -> AsyncIterator[dict[str, Any]]:
        """All completions after an offset: those that there are, then those that come."""
        while True:
            page = await self.completions(after, PAGE_MAX, timeout_ms)
            for completion in page["completions"]:
                yield completion
            after = page["checkpoint"]

    async def end(self) -> int:
        """Where completions end now."""
        return int(await self._call("cmd_completionEnd"))

    async def configuration(self) -> dict[str, Any]:
        """What submitters may rely on."""
        return dict(await self._call("cmd_configuration"))

    async def prune(self, offset: int) -> int:
        """Forget completions up to an offset."""
        return int(await self._call("cmd_prune", offset))

    def _whole(self, command: Mapping[str, object]) -> dict[str, object]:
        return {"applicationId": self._application_id, "actAs": list(self._act_as), **command}

    async def _call(self, method: str, *parameters: object) -> Any:  # noqa: ANN401  # whatever it answers
        try:
            return await self._node.ask(method, *parameters)
        except Refused as refused:
            raise CommandFailed(_error_of(str(refused), refused.details)) from refused
        except Unreachable as lost:
            error = CommandError("UNAVAILABLE", "UNREACHABLE", str(lost), {}, is_lost=True)
            raise CommandFailed(error) from lost


def _error_of(message: str, details: Mapping[str, Any]) -> CommandError:
    """An error that is none of commands: the request was refused before, and had no effect."""
    metadata = {str(key): str(value) for key, value in dict(details.get("metadata") or {}).items()}
    code = str(details.get("statusCode", "INVALID_ARGUMENT"))
    return CommandError(code, str(details.get("errorId", "REFUSED")), message, metadata)


def _written(transaction: Mapping[str, object]) -> str:
    return json.dumps(transaction, sort_keys=True)


def _kept(verdict: Verdict) -> dict[str, object]:
    error = verdict.error
    return {
        "outcome": verdict.outcome.value,
        "completion_offset": verdict.completion_offset,
        "submission_id": verdict.submission_id,
        "done_before_ms": verdict.done_before_ms,
        "not_since_ms": verdict.not_since_ms,
        "error": None
        if error is None
        else {"code": error.code, "error_id": error.error_id, "message": error.message, "metadata": error.metadata},
    }


def _remembered(entry: JournalEntry) -> Verdict:
    kept: Any = entry.outcome
    error = CommandError(**kept["error"]) if kept["error"] is not None else None
    return Verdict(
        entry.change,
        Outcome(kept["outcome"]),
        kept["completion_offset"],
        kept["submission_id"],
        error,
        kept.get("done_before_ms"),
        kept.get("not_since_ms"),
    )
