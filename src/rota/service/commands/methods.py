"""Commands that happen exactly once: the same services as over gRPC, with the same errors as `data`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.errors import command_rejected
from rota.rpc.formats import PreciseTimestamp, Uuid, precise_timestamp_of, uuid_of
from rota.rpc.methods import method
from rota.schema.commands import MICROSECONDS_PER_MS, CommandRejected, Completion, DeduplicationDuration
from rota.service.commands.formats import (
    COMPLETIONS_PAGE_MAX,
    PARTIES_GIVEN_MAX,
    CommandInput,
    DurationText,
    Text,
    application_of,
    deadline_exceeded,
    duration_text_of,
    invalid,
    outcome_of,
    submission_of_command,
)
from rota.service.interface import HasCommands

TIMEOUT_MS_MAX: Final = 25_000
TIMEOUT_MS_DEFAULT: Final = 20_000

Wanted = Annotated[CommandInput, Meta(description="The command")]
TimeoutMs = Annotated[int | None, Meta(description=f"How long to wait, in ms; at most {TIMEOUT_MS_MAX}")]


class CommandAcknowledgement(msgspec.Struct, frozen=True, rename="camel"):
    """A command was handed over."""

    submission_id: str
    transaction_id: Uuid


class CommandOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """A command happened; its completion is at the offset."""

    submission_id: str
    transaction_id: Uuid | None
    completion_offset: int


class CommandFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Why a command did not happen."""

    status_code: str
    error_id: str
    message: str
    metadata: dict[str, str]


class CommandCompletion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of a submission. It happened if there is no `failure`. The period is the effective one.

    `correctsOffset` is the offset of an earlier completion of the same submission that no longer holds, because the
    chain took back blocks that were final.
    """

    offset: int
    published_at: PreciseTimestamp
    application_id: str
    command_id: str
    act_as: list[str]
    submission_id: str
    transaction_id: Uuid | None = None
    deduplication_duration: DurationText | None = None
    deduplication_offset: int | None = None
    failure: CommandFailure | None = None
    corrects_offset: int | None = None


class CommandCompletions(msgspec.Struct, frozen=True, rename="camel"):
    """Completions in their order. No further one comes up to `checkpoint`: continue from there."""

    completions: list[CommandCompletion]
    checkpoint: int


class CommandSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The guarantees that submitters can rely on."""

    max_deduplication_duration: DurationText


@method("cmd_submit", role=Role.SUBMIT, answers="acknowledgement")
async def submit(node: HasCommands, command: Wanted) -> Annotated[CommandAcknowledgement, Meta(description="Of it")]:
    """Submit a command. Once this returns, the submission gets exactly one completion."""
    with _told():
        taken = await node.commands.submit(submission_of_command(command, node.name))
    return CommandAcknowledgement(taken.submission_id, uuid_of(taken.transaction))


@method("cmd_submitAndWait", role=Role.SUBMIT, answers="outcome")
async def submit_and_wait(
    node: HasCommands, command: Wanted, timeout_ms: TimeoutMs = None
) -> Annotated[CommandOutcome, Meta(description="Of a command that happened")]:
    """Submit a command and wait for its outcome. A timeout ends the wait, not the command."""
    wait_ms = TIMEOUT_MS_DEFAULT if timeout_ms is None else timeout_ms
    with _told():
        if not 1 <= wait_ms <= TIMEOUT_MS_MAX:
            raise invalid("timeoutMs", f"must be from 1 to {TIMEOUT_MS_MAX}, not {wait_ms}")
        submission = submission_of_command(command, node.name)
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                completion = outcome_of(await node.commands.submit_and_wait(submission))
        except TimeoutError:
            raise deadline_exceeded(wait_ms) from None
    transaction = completion.transaction
    return CommandOutcome(
        completion.submission_id, uuid_of(transaction) if transaction is not None else None, completion.offset
    )


@method("cmd_completions", role=Role.READ, answers="completions")
async def completions(
    node: HasCommands,
    parties: Annotated[
        list[Text],
        Meta(max_length=PARTIES_GIVEN_MAX, description="Completions of which at least one party is among these"),
    ],
    begin_exclusive: Annotated[int, Meta(description="After which offset; 0 begins with the first")],
    application_id: Annotated[Text | None, Meta(description="Whose; left out, that of the credentials")] = None,
    limit: Annotated[int | None, Meta(description=f"How many at most; {COMPLETIONS_PAGE_MAX} at most")] = None,
    timeout_ms: TimeoutMs = None,
) -> Annotated[CommandCompletions, Meta(description="What there is; waited for if there is nothing")]:
    """Completions after an offset. Where there are none it waits for some, and answers without any at the end."""
    page_max = COMPLETIONS_PAGE_MAX if limit is None else limit
    wait_ms = TIMEOUT_MS_DEFAULT if timeout_ms is None else timeout_ms
    with _told():
        if not 1 <= page_max <= COMPLETIONS_PAGE_MAX:
            raise invalid("limit", f"must be from 1 to {COMPLETIONS_PAGE_MAX}, not {page_max}")
        if not 0 <= wait_ms <= TIMEOUT_MS_MAX:
            raise invalid("timeoutMs", f"must be from 0 to {TIMEOUT_MS_MAX}, not {wait_ms}")
        wanted = node.commands.subscription(application_of(application_id or ""), parties, begin_exclusive)
        page = await node.commands.completions(wanted, begin_exclusive, page_max)
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                while not page.completions:
                    await node.commands.published(page.checkpoint.offset)
                    page = await node.commands.completions(wanted, page.checkpoint.offset, page_max)
        except TimeoutError:
            pass
    return CommandCompletions([_shown(each) for each in page.completions], page.checkpoint.offset)


@method("cmd_completionEnd", role=Role.READ, answers="offset")
async def completion_end(node: HasCommands) -> Annotated[int, Meta(description="The offset of the latest completion")]:
    """Return the offset of the last completion. It is always a valid deduplication offset."""
    with _told():
        return (await node.commands.end()).offset


@method("cmd_configuration", role=Role.READ, answers="configuration")
async def configuration(node: HasCommands) -> Annotated[CommandSettings, Meta(description="What holds now")]:
    """Return the maximum deduplication duration: the node supports every period up to it."""
    return CommandSettings(duration_text_of(node.commands.configuration().maximum_duration_ms * MICROSECONDS_PER_MS))


@method("cmd_prune", role=Role.OPERATE, answers="offset")
async def prune(
    node: HasCommands, offset: Annotated[int, Meta(description="Up to which offset, itself included")]
) -> Annotated[int, Meta(description="Up to which offset completions are forgotten now")]:
    """Delete completions. Within the maximum deduplication duration it is an error, which has the safe offset."""
    with _told():
        return await node.commands.prune(offset)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except CommandRejected as rejected:
        raise command_rejected(rejected.failure) from None


def _shown(completion: Completion) -> CommandCompletion:
    period, failure = completion.period, completion.failure
    return CommandCompletion(
        completion.offset,
        precise_timestamp_of(completion.published_at_us),
        completion.application_id,
        completion.command_id,
        list(completion.parties),
        completion.submission_id,
        uuid_of(completion.transaction) if completion.transaction is not None else None,
        duration_text_of(period.duration_us) if isinstance(period, DeduplicationDuration) else None,
        None if isinstance(period, DeduplicationDuration) else period.offset,
        CommandFailure(failure.code.name, failure.error_id, failure.message, dict(failure.metadata))
        if failure is not None
        else None,
        completion.corrects,
    )


METHODS: Final = (submit, submit_and_wait, completions, completion_end, configuration, prune)
