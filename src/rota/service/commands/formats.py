"""Commands as users write them, over gRPC and over JSON-RPC alike: read into what the node takes, and told in one way.

Who the user is comes from the credentials: the application is then the credential's name, and another one is refused.
Where no credentials are needed, the user says which application it is.
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
    """A duration as protobuf writes it in JSON."""

    __slots__ = ()
    right = "seconds with an s behind them, such as '30s' or '1.5s'"
    pattern = r"-?\d{1,15}(\.\d{1,9})?s"

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """As it is written; whether it may be negative is for commands to say."""
        return given if isinstance(given, str) and _DURATION.fullmatch(given) else None

    @property
    def microseconds(self) -> int:
        """Rounded away from zero: a period is rather longer than shorter."""
        match = _DURATION.fullmatch(self)
        assert match is not None, "it was read"
        nanoseconds = int(match[2]) * 10**_FRACTION_DIGITS + int((match[3] or "0").ljust(_FRACTION_DIGITS, "0"))
        microseconds = -(-nanoseconds // NANOSECONDS_PER_US)
        return -microseconds if match[1] else microseconds


def duration_text_of(duration_us: int) -> DurationText:
    """A duration as clients read it."""
    return DurationText(duration_text(duration_us))


class CommandTransaction(TransactionInput, frozen=True, rename="camel"):
    """What a command does: a private transaction or a call on the base ledger, as `ptx_sendTransaction` takes it.

    `from` may be left out where the command has one party. `idempotencyKey` must be: a command has its own.
    """

    sender: Text = msgspec.field(name="from", default="")


class CommandInput(msgspec.Struct, frozen=True, rename="camel"):
    """A command. The change that it means is that of its parties (`party` and `actAs`), application and command id.

    `deduplicationDuration` or `deduplicationOffset` says since when the change must not have been accepted; without
    them it is the maximum duration. `readAs` and `transaction` are no part of the change.
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
    """A command from values that have the names of JSON-RPC; `CommandRejected` names the field that is wrong."""
    try:
        return msgspec.convert(given, CommandInput, dec_hook=decode_format)
    except msgspec.ValidationError as error:
        flaw = rejection_of("command", str(error))
        raise invalid(flaw.field, flaw.message) from None


def submission_of_command(given: CommandInput, node: NodeName) -> CommandSubmission:
    """What the node is asked for; `CommandRejected` names the field that is to be mended."""
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
    """Which application calls: its credential's name, where there are credentials."""
    caller = CALLER.get()
    if caller is ANYBODY:
        return given
    if given not in ("", caller.name):
        message = f"application_id: must be {caller.name!r} or left out: these are its credentials"
        raise CommandRejected(Failure(StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", message))
    return caller.name


def outcome_of(completion: Completion) -> Completion:
    """A completion of a change that happened; `CommandRejected` with the offset when it did not."""
    failure = completion.failure
    if failure is None:
        return completion
    offset = ("completion_offset", str(completion.offset))
    metadata = failure.metadata if dict(failure.metadata).get(offset[0]) else (*failure.metadata, offset)
    raise CommandRejected(Failure(failure.code, failure.error_id, failure.message, metadata))


def deadline_exceeded(timeout_ms: int) -> CommandRejected:
    """Nobody waits any more; the command goes on."""
    message = f"there was no outcome within {timeout_ms} ms; the command goes on"
    about = (("definite_answer", "false"),)
    return CommandRejected(Failure(StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", message, about))


def invalid(field: str, message: str) -> CommandRejected:
    """A field is not what it must be."""
    failure = Failure(StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", f"{field}: {message}", (("field", field),))
    return CommandRejected(failure)


def _only_party(node: NodeName, given: Sequence[str]) -> str:
    """The party that a transaction is from where nobody says it."""
    whole = {text if "@" in text else f"{text}@{node}" for text in given if text}
    if not whole:
        message = "act_as: must be given, or party: a command has at least one party"
        raise CommandRejected(Failure(StatusCode.INVALID_ARGUMENT, "MISSING_FIELD", message, (("field", "act_as"),)))
    if len(whole) > 1:
        raise invalid("transaction.from", "must be given, as the command has several parties")
    return whole.pop()
