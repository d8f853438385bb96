"""The stored state of commands, as SQL: in flight, accepted, completed, pruned (`ports.CommandStore`).

Theory of operation. Writes go through the node's group commit: a submission costs no commit of its own where others are
under way. All statements of one write are in one database transaction, and each may be carried out twice: a write that
was reported as failed although it had happened is written again by the same statements. A change is looked up by its
primary key, so that it costs the same whether a thousand changes are stored or a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from rota.commands.acceptance import Acceptance
from rota.commands.effects import Closing, InFlight
from rota.commands.events import Contradicted
from rota.commands.periods import Stream
from rota.model.types import IntentId, Party
from rota.ports import BASE_LEDGER
from rota.schema.commands import (
    MICROSECONDS_PER_MS,
    ChangeId,
    Checkpoint,
    Command,
    Completion,
    CompletionFilter,
    CompletionPage,
    DeduplicationDuration,
    DeduplicationOffset,
    Failure,
    Period,
)
from rota.store.database import Answer, Reading, Statement, Value
from rota.store.encoding import decode_text, encode, encode_text

COMPLETIONS_READ_MAX: Final = 1_000
# Both databases take as many parameters in one statement.
CHANGES_READ_MAX: Final = 500


class GroupCommit(Protocol):
    """The part of the node's store that is used here."""

    async def write(self, statements: Sequence[Statement]) -> None:
        """Durable on return, with all other waiting writes. `Unavailable` when it is not, or may not be."""
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database does not respond."""
        ...

    def final_height(self) -> Reading[int]:
        """The height of the latest block that is final."""
        ...


class DatabaseCommands:
    """`ports.CommandStore` on either database."""

    def __init__(self, store: GroupCommit) -> None:
        self._store: Final = store

    async def restore(self) -> tuple[Stream, tuple[InFlight, ...]]:
        """The stream and the submissions in flight, for a new run."""
        return await self._store.read(_restored())

    async def write_in_flight(self, submission: InFlight) -> None:
        """Store a submission in flight, unless its change has one already."""
        await self._store.write((_insertion(submission),))

    async def remove_in_flight(self, submission: InFlight) -> None:
        """Remove a submission that was not accepted."""
        await self._store.write((_removal(submission),))

    async def latest_acceptances(self, changes: Sequence[ChangeId]) -> dict[ChangeId, Acceptance]:
        """The latest acceptance of each change that has one."""
        return await self._store.read(_acceptances(changes))

    async def write_completions(self, closings: Sequence[Closing]) -> None:
        """Completions, acceptances and removals of one batch, in one transaction."""
        await self._store.write(tuple(_statements_of(closings)))

    async def completions(self, wanted: CompletionFilter, after: int, end: int, limit: int) -> CompletionPage:
        """The matching completions after an offset, up to a durable end, and the checkpoint that was reached."""
        assert 0 < limit <= COMPLETIONS_READ_MAX, f"limit: must be 1 to {COMPLETIONS_READ_MAX}, not {limit}"
        return await self._store.read(_completions(wanted, after, end, limit))

    async def contradicted(self, limit: int) -> tuple[Contradicted, ...]:
        """Completions that the chain contradicts and that are not corrected."""
        return await self._store.read(self._contradicted(limit))

    def _contradicted(self, limit: int) -> Reading[tuple[Contradicted, ...]]:
        height = yield from self._store.final_height()
        found: list[Contradicted] = []
        for query, parameters in (
            (_WITHDRAWN, (limit,)),
            (_FAILED_AFTER_ALL, (limit,)),
            (_CONFIRMED_AFTER_ALL, (height, limit)),
        ):
            rows: Any = yield Statement(query, parameters)
            found += [_contradicted(*row) for row in rows]
        return tuple(found[:limit])

    async def pruning_point(self, offset: int, horizon_us: int) -> tuple[int, int]:
        """The publication time of the completion at this offset, and the latest offset published before the horizon."""
        return await self._store.read(_pruning_point(offset, horizon_us))

    async def prune(self, offset: int, published_at_us: int) -> None:
        """Delete completions and acceptances before this offset, and note the offset.

        The completion at the offset is no longer returned, but stays: a duplicate is compared with its transaction.
        """
        await self._store.write(
            (
                Statement("DELETE FROM completions WHERE completion_offset < ?", (offset,)),
                Statement("DELETE FROM command_acceptances WHERE completion_offset < ?", (offset,)),
                Statement(_PRUNED, (offset, published_at_us, offset)),
            )
        )


# Statements.


def _removal(submission: InFlight) -> Statement:
    """Remove this very submission, which its key identifies."""
    return Statement(_REMOVE_IN_FLIGHT, (submission.change, submission.key), submission.change)


def _insertion(submission: InFlight) -> Statement:
    row = (submission.change, submission.key, encode(_kept_submission(submission)))
    return Statement(_INSERT_IN_FLIGHT, row, submission.change)


def _completion_row(closing: Closing) -> tuple[Value, ...]:
    """The row of a completion. One that opens its submission again is corrected only by the one that follows."""
    submission, completion = closing.submission, closing.completion
    return (
        completion.offset,
        completion.published_at_us,
        encode_text(completion.application_id),
        encode(_kept_completion(completion)),
        submission.change,
        submission.key,
        submission.submitted_at_us,
        completion.transaction,
        int(completion.failure is None),
        int(closing.reopens),
    )


def _statements_of(closings: Sequence[Closing]) -> Iterator[Statement]:
    for each in closings:
        submission, completion = each.submission, each.completion
        change = submission.change
        at = completion.offset, completion.published_at_us
        yield Statement(_INSERT_COMPLETION, _completion_row(each), change)
        if completion.corrects is not None:
            yield Statement(_CORRECTED, (completion.corrects,), change)
            yield Statement(_NOT_ACCEPTED, (change, completion.corrects), change)
        if each.reopens:
            yield _insertion(submission)
            continue
        if completion.failure is None:
            yield Statement(_ACCEPT, (change, *at, encode_text(completion.submission_id)), change)
        yield _removal(submission)
    latest = closings[-1].completion
    yield Statement(_END, (latest.offset, latest.published_at_us, latest.offset))


_INSERT_IN_FLIGHT: Final = """
INSERT INTO commands_in_flight (change_id, submission_key, submission) VALUES (?, ?, ?)
ON CONFLICT (change_id) DO NOTHING"""

_REMOVE_IN_FLIGHT: Final = "DELETE FROM commands_in_flight WHERE change_id = ? AND submission_key = ?"

_INSERT_COMPLETION: Final = """
INSERT INTO completions (
    completion_offset, published_at_us, application_id, completion, change_id, submission_key, submitted_at_us,
    transaction_id, has_succeeded, is_corrected)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (completion_offset) DO NOTHING"""

_CORRECTED: Final = "UPDATE completions SET is_corrected = 1 WHERE completion_offset = ?"
_NOT_ACCEPTED: Final = "DELETE FROM command_acceptances WHERE change_id = ? AND completion_offset = ?"

_ACCEPT: Final = """
INSERT INTO command_acceptances (change_id, completion_offset, published_at_us, submission_id) VALUES (?, ?, ?, ?)
ON CONFLICT (change_id) DO UPDATE SET
    completion_offset = excluded.completion_offset, published_at_us = excluded.published_at_us,
    submission_id = excluded.submission_id
WHERE command_acceptances.completion_offset < excluded.completion_offset"""

_END: Final = "UPDATE command_stream SET end_offset = ?, published_at_us = ? WHERE end_offset < ?"
_PRUNED: Final = "UPDATE command_stream SET pruned_offset = ?, pruned_at_us = ? WHERE pruned_offset < ?"


# Readings.


def _restored() -> Reading[tuple[Stream, tuple[InFlight, ...]]]:
    rows: Any = yield Statement("SELECT end_offset, published_at_us, pruned_offset, pruned_at_us FROM command_stream")
    stream = Stream(*rows[0])
    rows = yield Statement("SELECT change_id, submission_key, submission FROM commands_in_flight ORDER BY change_id")
    return stream, tuple(_submission(ChangeId(change), key, kept) for change, key, kept in rows)


def _acceptances(changes: Sequence[ChangeId]) -> Reading[dict[ChangeId, Acceptance]]:
    found: dict[ChangeId, Acceptance] = {}
    for first in range(0, len(changes), CHANGES_READ_MAX):
        some = tuple(changes[first : first + CHANGES_READ_MAX])
        marks = ", ".join("?" * len(some))
        rows: Any = yield Statement(f"{_ACCEPTANCES} WHERE command_acceptances.change_id IN ({marks})", some)
        for change, offset, published_at_us, submission_id, transaction in rows:
            known = IntentId(transaction) if transaction is not None else None
            found[ChangeId(change)] = Acceptance(offset, published_at_us, decode_text(submission_id) or "", known)
    return found


def _completions(wanted: CompletionFilter, after: int, end: int, limit: int) -> Reading[CompletionPage]:
    rows: Any = yield Statement(_COMPLETIONS, (encode_text(wanted.application_id), after, end, limit))
    read = [_completion(wanted.application_id, *row) for row in rows]
    if len(read) == limit:
        checkpoint = Checkpoint(read[-1].offset, read[-1].published_at_us)
    else:
        rows = yield Statement("SELECT published_at_us FROM completions WHERE completion_offset = ?", (end,))
        checkpoint = Checkpoint(end, rows[0][0] if rows else 0)
    return CompletionPage(tuple(each for each in read if wanted.admits(each)), checkpoint)


def _pruning_point(offset: int, horizon_us: int) -> Reading[tuple[int, int]]:
    rows: Any = yield Statement("SELECT published_at_us FROM completions WHERE completion_offset = ?", (offset,))
    ((published_at_us,),) = rows
    rows = yield Statement(_LATEST_BEFORE, (horizon_us,))
    return published_at_us, rows[0][0] if rows else 0


_ACCEPTANCES: Final = """
SELECT command_acceptances.change_id, command_acceptances.completion_offset, command_acceptances.published_at_us,
    submission_id, transaction_id
FROM command_acceptances LEFT JOIN completions
    ON completions.completion_offset = command_acceptances.completion_offset"""

_COMPLETIONS: Final = """
SELECT completion_offset, published_at_us, completion FROM completions
WHERE application_id = ? AND completion_offset > ? AND completion_offset <= ?
ORDER BY completion_offset LIMIT ?"""

_COMPLETED: Final = """
SELECT completions.application_id, completions.change_id, completions.submission_key, completions.submitted_at_us,
    completions.completion_offset, completions.published_at_us, completions.completion
FROM completions"""

# The list of receipts that no longer hold is short, so it comes first. The same id in another contract is not ours.
_WITHDRAWN: Final = f"""{_COMPLETED} JOIN receipts_undone ON completions.transaction_id = receipts_undone.intent
WHERE completions.has_succeeded = 1 AND completions.is_corrected = 0 AND (
    receipts_undone.contract = '{BASE_LEDGER}' OR EXISTS (
        SELECT 1 FROM intents
        WHERE intents.id = receipts_undone.intent AND intents.contract = receipts_undone.contract))
ORDER BY completions.completion_offset LIMIT ?"""

# For a public transaction that has ended again, with another outcome than was published, and is not listed any more.
_FAILED_AFTER_ALL: Final = f"""{_COMPLETED}
JOIN public_transactions ON public_transactions.id = completions.transaction_id
WHERE completions.has_succeeded = 1 AND completions.is_corrected = 0
AND public_transactions.is_final = 1 AND public_transactions.has_succeeded = 0
ORDER BY completions.completion_offset LIMIT ?"""

_CONFIRMED_AFTER_ALL: Final = f"""{_COMPLETED}
LEFT JOIN intents ON intents.id = completions.transaction_id
LEFT JOIN public_transactions ON public_transactions.id = completions.transaction_id
WHERE completions.transaction_id IS NOT NULL AND completions.has_succeeded = 0 AND completions.is_corrected = 0
AND (intents.settled_at <= ? OR (public_transactions.is_final = 1 AND public_transactions.has_succeeded = 1))
ORDER BY completions.completion_offset LIMIT ?"""

_LATEST_BEFORE: Final = """
SELECT completion_offset FROM completions WHERE published_at_us < ? ORDER BY completion_offset DESC LIMIT 1"""


# Values as they are stored: a class by the names of its fields, so that a later version may add some.


class _Period(msgspec.Struct, omit_defaults=True):
    # Written by earlier versions.
    duration_ms: int | None = None
    offset: int | None = None
    duration_us: int | None = None


class _Submission(msgspec.Struct):
    application_id: str
    command_id: str
    parties: tuple[str, ...]
    submission_id: str
    asked: _Period | None
    effective: _Period
    transaction: bytes
    submitted_at_us: int = 0
    # Written by earlier versions.
    submitted_at_ms: int = 0


class _Completion(msgspec.Struct, omit_defaults=True):
    command_id: str
    parties: tuple[str, ...]
    submission_id: str
    effective: _Period
    transaction: bytes | None = None
    failure: Failure | None = None
    corrects: int | None = None


_decode_submission: Final = msgspec.msgpack.Decoder(_Submission).decode
_decode_completion: Final = msgspec.msgpack.Decoder(_Completion).decode


def _kept_submission(submission: InFlight) -> _Submission:
    command = submission.command
    return _Submission(
        command.application_id,
        command.command_id,
        command.parties,
        command.submission_id,
        _kept_period(command.period) if command.period is not None else None,
        _kept_period(submission.period),
        submission.transaction,
        submission.submitted_at_us,
    )


def _submission(change: ChangeId, key: str, content: bytes) -> InFlight:
    kept = _decode_submission(content)
    command = Command(
        kept.application_id,
        kept.command_id,
        tuple(map(Party, kept.parties)),
        kept.submission_id,
        _period(kept.asked) if kept.asked is not None else None,
    )
    submitted_at_us = kept.submitted_at_us or kept.submitted_at_ms * MICROSECONDS_PER_MS
    return InFlight(change, key, command, _period(kept.effective), submitted_at_us, kept.transaction)


def _kept_completion(completion: Completion) -> _Completion:
    return _Completion(
        completion.command_id,
        completion.parties,
        completion.submission_id,
        _kept_period(completion.period),
        completion.transaction,
        completion.failure,
        completion.corrects,
    )


def _contradicted(
    application_id: bytes, change: bytes, key: str, submitted_at_us: int, offset: int, at_us: int, content: bytes
) -> Contradicted:
    """A contradicted completion with its submission, but without the transaction's bytes: it was submitted long ago."""
    completion = _completion(decode_text(application_id) or "", offset, at_us, content)
    period = completion.period
    named = (completion.application_id, completion.command_id, completion.parties, completion.submission_id)
    submission = InFlight(ChangeId(change), key, Command(*named, period), period, submitted_at_us, b"")
    return Contradicted(submission, completion)


def _completion(application_id: str, offset: int, published_at_us: int, content: bytes) -> Completion:
    kept = _decode_completion(content)
    return Completion(
        offset,
        published_at_us,
        application_id,
        kept.command_id,
        tuple(map(Party, kept.parties)),
        kept.submission_id,
        _period(kept.effective),
        IntentId(kept.transaction) if kept.transaction is not None else None,
        kept.failure,
        kept.corrects,
    )


def _kept_period(period: Period) -> _Period:
    match period:
        case DeduplicationDuration(duration_us):
            return _Period(duration_us=duration_us)
        case DeduplicationOffset(offset):
            return _Period(offset=offset)


def _period(kept: _Period) -> Period:
    if kept.offset is not None:
        return DeduplicationOffset(kept.offset)
    if kept.duration_us is not None:
        return DeduplicationDuration(kept.duration_us)
    assert kept.duration_ms is not None, "a period is a duration or an offset"
    return DeduplicationDuration(kept.duration_ms * MICROSECONDS_PER_MS)
