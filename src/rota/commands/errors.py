"""Every failure of commands: its code, its id and its metadata; no other module defines one.

Those of deduplication have the codes, ids and keys of the seed. The others have the names that users of Daml ledgers
know, where there is such a name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rota.commands.acceptance import Acceptance
from rota.model.types import intent_text
from rota.schema.commands import MICROSECONDS_PER_MS, ChangeId, CommandRejected, Failure, StatusCode, duration_text

DUPLICATE_COMMAND: Final = "DUPLICATE_COMMAND"
SUBMISSION_ALREADY_IN_FLIGHT: Final = "SUBMISSION_ALREADY_IN_FLIGHT"
INVALID_DEDUPLICATION_PERIOD: Final = "INVALID_DEDUPLICATION_PERIOD"
PARTICIPANT_PRUNED_DATA_ACCESSED: Final = "PARTICIPANT_PRUNED_DATA_ACCESSED"
CONTRACT_NOT_ACTIVE: Final = "CONTRACT_NOT_ACTIVE"
TRANSACTION_REVERTED: Final = "TRANSACTION_REVERTED"
INTENT_ID_USED: Final = "INTENT_ID_USED"
FINALITY_BROKEN: Final = "FINALITY_BROKEN"
TRANSACTION_CANCELLED: Final = "TRANSACTION_CANCELLED"
TRANSACTION_REFUSED: Final = "TRANSACTION_REFUSED"
PARTICIPANT_BACKPRESSURE: Final = "PARTICIPANT_BACKPRESSURE"
PARTICIPANT_UNAVAILABLE: Final = "PARTICIPANT_UNAVAILABLE"
OUTCOME_UNKNOWN: Final = "OUTCOME_UNKNOWN"
OFFSET_AFTER_LEDGER_END: Final = "OFFSET_AFTER_LEDGER_END"
UNSAFE_TO_PRUNE: Final = "UNSAFE_TO_PRUNE"
MISSING_FIELD: Final = "MISSING_FIELD"
INVALID_FIELD: Final = "INVALID_FIELD"
PERMISSION_DENIED: Final = "PERMISSION_DENIED"

# The failure of this submission is permanent, although the code usually means a temporary one; and the reverse.
DEFINITE: Final = ("definite_answer", "true")
NOT_DEFINITE: Final = ("definite_answer", "false")


def duplicate(change: ChangeId, acceptance: Acceptance) -> Failure:
    """The change was accepted within the period: for its submitter that is as good as a success."""
    about = [
        ("completion_offset", str(acceptance.offset)),
        ("existing_submission_id", acceptance.submission_id),
        ("change_id", change.hex()),
        ("accepted_at_ms", str(acceptance.published_at_us // MICROSECONDS_PER_MS)),
    ]
    if acceptance.transaction is not None:
        about.append(("existing_transaction_id", intent_text(acceptance.transaction)))
    message = f"this change was accepted before, at offset {acceptance.offset}"
    return Failure(StatusCode.ALREADY_EXISTS, DUPLICATE_COMMAND, message, tuple(about))


def compared(failure: Failure, digest: bytes, is_same: bool) -> Failure:
    """A duplicate, with the digest of the accepted command. A different command is a conflict."""
    about = (*failure.metadata, ("digest", digest.hex()), ("same", "true" if is_same else "false"))
    if is_same:
        return replace(failure, metadata=about)
    message = f"{failure.message}, for another transaction: this one was not executed. Choose another command id"
    return replace(failure, message=message, metadata=about)


def not_compared(failure: Failure, reason: str) -> Failure:
    """A duplicate that cannot be compared with the accepted command: neither a success nor a conflict."""
    message = f"{failure.message}; whether that asks for the same cannot be told: {reason}"
    return replace(failure, message=message, metadata=(*failure.metadata, ("same", "unknown")))


def in_flight(change: ChangeId, existing_submission_id: str) -> Failure:
    """Another submission of the change has not ended."""
    return Failure(
        StatusCode.ABORTED,
        SUBMISSION_ALREADY_IN_FLIGHT,
        f"another submission of this change, {existing_submission_id!r}, has not ended; its outcome is to come",
        (("existing_submission_id", existing_submission_id), ("change_id", change.hex())),
    )


def duration_too_long(duration_us: int, longest_us: int) -> Failure:
    """The duration reaches into the pruned part."""
    longest = duration_text(longest_us)
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        INVALID_DEDUPLICATION_PERIOD,
        f"a duration of {duration_text(duration_us)} reaches into what was pruned; the longest is {longest}",
        (("longest_duration", longest),),
    )


def offset_beyond_end(offset: int, end: int, earliest: int) -> Failure:
    """The deduplication offset is beyond the end of the stream."""
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        INVALID_DEDUPLICATION_PERIOD,
        f"the deduplication offset {offset} lies beyond the end, which is {end}",
        (("earliest_offset", str(earliest)),),
    )


def pruned_accessed(offset: int, last_pruned: int, pruned_at_us: int) -> Failure:
    """Part of what follows this offset was pruned; the last pruned completion was published at this time."""
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        PARTICIPANT_PRUNED_DATA_ACCESSED,
        f"what follows offset {offset} was pruned up to offset {last_pruned}",
        (("earliest_offset", str(last_pruned)), ("earliest_at_ms", str(pruned_at_us // MICROSECONDS_PER_MS))),
    )


def stream_beyond_end(offset: int, end: int) -> Failure:
    """A subscription begins beyond the end of the stream."""
    return Failure(
        StatusCode.OUT_OF_RANGE,
        OFFSET_AFTER_LEDGER_END,
        f"completions cannot begin at offset {offset}: the end is {end}",
        (("end_offset", str(end)),),
    )


def prune_beyond_end(offset: int, end: int) -> Failure:
    """An operator asks to prune beyond the end of the stream."""
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        OFFSET_AFTER_LEDGER_END,
        f"completions cannot be pruned up to offset {offset}: the end is {end}",
        (("end_offset", str(end)),),
    )


def unsafe_to_prune(offset: int, safe_offset: int) -> Failure:
    """Supported periods would reach into the pruned part."""
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        UNSAFE_TO_PRUNE,
        f"offset {offset} lies within the maximum deduplication duration; up to {safe_offset} may be pruned",
        (("safe_offset", str(safe_offset)),),
    )


def busy(reason: str) -> Failure:
    """There is no room now."""
    return Failure(StatusCode.ABORTED, PARTICIPANT_BACKPRESSURE, f"{reason}; try again later")


def unavailable(reason: str) -> Failure:
    """A part of the world was unavailable: the submission has no effect and will have none."""
    return Failure(StatusCode.UNAVAILABLE, PARTICIPANT_UNAVAILABLE, f"{reason}; try again", (DEFINITE,))


def outcome_unknown(submission_id: str, waited_s: float) -> Failure:
    """The submission may still be accepted: only a later submission of the same change shows whether it was."""
    message = f"not settled within {waited_s:g} s whether this was accepted; submit the same change again to find out"
    about = (("submission_id", submission_id), NOT_DEFINITE)
    return Failure(StatusCode.UNKNOWN, OUTCOME_UNKNOWN, message, about)


def finality_broken(corrected_offset: int) -> Failure:
    """The chain took back the block that had the transaction: the published success no longer holds."""
    message = (
        f"the chain took back the final block that had the transaction, so that the completion at offset "
        f"{corrected_offset} no longer holds; the submission is in flight again, and another completion will follow"
    )
    return Failure(StatusCode.FAILED_PRECONDITION, FINALITY_BROKEN, message, (NOT_DEFINITE,))


def lost() -> Failure:
    """The chain took back the block that had the transaction, and can no longer commit it."""
    message = "the chain took back the final block that had the transaction, and it can no longer be committed"
    return Failure(StatusCode.FAILED_PRECONDITION, TRANSACTION_REVERTED, message)


def refused(field: str, message: str) -> Failure:
    """The node does not accept the transaction of the command."""
    about = (("field", field),) if field else ()
    return Failure(StatusCode.INVALID_ARGUMENT, TRANSACTION_REFUSED, f"{field}: {message}" if field else message, about)


def missing_field(field: str, more: str = "") -> CommandRejected:
    """A field must be given."""
    text = f"{field}: must be given{', ' + more if more else ''}"
    return CommandRejected(Failure(StatusCode.INVALID_ARGUMENT, MISSING_FIELD, text, (("field", field),)))


def invalid_field(field: str, message: str) -> CommandRejected:
    """A field is invalid; the message says what is valid."""
    failure = Failure(StatusCode.INVALID_ARGUMENT, INVALID_FIELD, f"{field}: {message}", (("field", field),))
    return CommandRejected(failure)


def permission_denied(message: str) -> CommandRejected:
    """The caller may not do this in the given name."""
    return CommandRejected(Failure(StatusCode.PERMISSION_DENIED, PERMISSION_DENIED, message))
