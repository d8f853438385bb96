"""Commands as users write them, over gRPC and JSON-RPC alike: parsing, and conversion of outcomes and errors.

The caller is known by its credentials: the application is the credential's name, and any other one is refused.
Where no credentials are needed, the caller names its application.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.model.types import NodeName, SubmitMode
from rota.rpc.credentials import ANYBODY, CALLER
from rota.rpc.errors import Rejected
from rota.rpc.formats import Format
from rota.rpc.methods import decode_format, rejection_of
from rota.schema.commands import (
    CommandRejected,
    Completion,
    DeduplicationDuration,
    DeduplicationOffset,
    Failure,
    Period,
    StatusCode,
    duration_text,
)
from rota.service.interface import CommandSubmission
from rota.service.submissions.formats import TransactionInput, submission_of

TEXT_CHARACTERS_MAX: Final = 1_024
PARTIES_GIVEN_MAX: Final = 1_000
COMPLETIONS_PAGE_MAX: Final = 500
NANOSECONDS_PER_US: Final = 1_000

_DURATION: Final = re.compile(r"(-?)(\d{1,15})(?:\.(\d{1,9}))?s")
_FRACTION_DIGITS: Final = 9

Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
Parties = Annotated[list[Text], Meta(max_length=PARTIES_GIVEN_MAX)]


class DurationText(Format):
    """A duration in protobuf's JSON format."""

    __slots__ = ()
    right = "seconds with an s behind them, such as '30s' or '1.5s'"
    pattern = r"-?\d{1,15}(\.\d{1,9})?s"

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """Return the text if it is a duration; commands check whether it may be negative."""
        return given if isinstance(given, str) and _DURATION.fullmatch(given) else None

    @property
    def microseconds(self) -> int:
        """Return microseconds, rounded away from zero, so that a period is never shorter than given."""
        match = _DURATION.fullmatch(self)
        assert match is not None, "it was read"
        nanoseconds = int(match[2]) * 10**_FRACTION_DIGITS + int((match[3] or "0").ljust(_FRACTION_DIGITS, "0"))
        microseconds = -(-nanoseconds // NANOSECONDS_PER_US)
        return -microseconds if match[1] else microseconds


def duration_text_of(duration_us: int) -> DurationText:
    """Return a duration as clients read it."""
    return DurationText(duration_text(duration_us))


class CommandTransaction(TransactionInput, frozen=True, rename="camel"):
    """The transaction of a command: a private one or a call on the base ledger, as in `ptx_sendTransaction`.

    `from` may be left out where the command has one party. `idempotencyKey` must be: a command has its own.
    """

    sender: Text = msgspec.field(name="from", default="")


class CommandInput(msgspec.Struct, frozen=True, rename="camel"):
    """A command. Its change is identified by its parties (`party` and `actAs`), application and command id.

    `deduplicationDuration` or `deduplicationOffset` give the period in which the change must not have been accepted;
    the default is the maximum duration. `readAs` and `transaction` do not identify the change.
    """

    command_id: Text
    transaction: CommandTransaction
    application_id: Text | None = None
    party: Text | None = None
    act_as: Parties | None = None
    read_as: Parties | None = None
    submission_id: Text | None = None
    deduplication_duration: DurationText | None = None
    deduplication_offset: int | None = None


def command_of(given: Mapping[str, object]) -> CommandInput:
    """Return a command from values named as in JSON-RPC; `CommandRejected` names the field that is wrong."""
    try:
        return msgspec.convert(given, CommandInput, dec_hook=decode_format)
    except msgspec.ValidationError as error:
        flaw = rejection_of("command", str(error))
        raise invalid(flaw.field, flaw.message) from None


def submission_of_command(given: CommandInput, node: NodeName) -> CommandSubmission:
    """Convert a command to a submission; `CommandRejected` names the field that is wrong."""
    if given.deduplication_duration is not None and given.deduplication_offset is not None:
        raise invalid("deduplication_offset", "must be left out where deduplication_duration is given")
    period: Period | None = None
    if given.deduplication_duration is not None:
        period = DeduplicationDuration(given.deduplication_duration.microseconds)
    elif given.deduplication_offset is not None:
        period = DeduplicationOffset(given.deduplication_offset)
    party, act_as = given.party or "", tuple(given.act_as or ())
    sender = given.transaction.sender or _only_party(node, (party, *act_as))
    transaction = msgspec.structs.replace(given.transaction, sender=sender)
    try:
        submission = submission_of(transaction, SubmitMode.AUTO, "transaction")
    except Rejected as flaw:
        raise invalid(flaw.field, flaw.message) from None
    return CommandSubmission(
        application_of(given.application_id or ""),
        given.command_id,
        party,
        act_as,
        submission,
        given.submission_id or "",
        period,
    )


def application_of(given: str) -> str:
    """Return the calling application: its credential's name, where there are credentials."""
    caller = CALLER.get()
    if caller is ANYBODY:
        return given
    if given not in ("", caller.name):
        message = f"application_id: must be {caller.name!r} or left out: these are its credentials"
        raise CommandRejected(Failure(StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", message))
    return caller.name


def outcome_of(completion: Completion) -> Completion:
    """Return the completion if the change happened; else raise `CommandRejected` with the offset."""
    failure = completion.failure
    if failure is None:
        return completion
    offset = ("completion_offset", str(completion.offset))
    metadata = failure.metadata if dict(failure.metadata).get(offset[0]) else (*failure.metadata, offset)
    raise CommandRejected(Failure(failure.code, failure.error_id, failure.message, metadata))


def deadline_exceeded(timeout_ms: int) -> CommandRejected:
    """The error of a wait that timed out; the command continues."""
    message = f"there was no outcome within {timeout_ms} ms; the command goes on"
    about = (("definite_answer", "false"),)
    return CommandRejected(Failure(StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", message, about))


def invalid(field: str, message: str) -> CommandRejected:
    """The error for an invalid field."""
    failure = Failure(StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", f"{field}: {message}", (("field", field),))
    return CommandRejected(failure)


def _only_party(node: NodeName, given: Sequence[str]) -> str:
    """Return the only party of a command, as the default sender of its transaction."""
    whole = {text if "@" in text else f"{text}@{node}" for text in given if text}
    if not whole:
        message = "act_as: must be given, or party: a command has at least one party"
        raise CommandRejected(Failure(StatusCode.INVALID_ARGUMENT, "MISSING_FIELD", message, (("field", "act_as"),)))
    if len(whole) > 1:
        raise invalid("transaction.from", "must be given, as the command has several parties")
    return whole.pop()
