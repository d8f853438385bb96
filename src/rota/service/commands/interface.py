"""Commands that happen once, and their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.types import IntentId, NodeName
from rota.schema.commands import Checkpoint, Completion, CompletionFilter, CompletionPage, Period
from rota.service.submissions.interface import Submission


@dataclass(frozen=True, slots=True)
class CommandSubmission:
    """A command as it was submitted: only the types of its fields have been checked.

    `transaction` is the command's transaction. The default period is the maximum duration; a submission id is generated
    if none is given.
    """

    application_id: str
    command_id: str
    party: str
    act_as: tuple[str, ...]
    transaction: Submission
    submission_id: str = ""
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A command was handed over: it will get one completion."""

    submission_id: str
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class CommandConfiguration:
    """The guarantees that submitters can rely on."""

    maximum_duration_ms: int


class Commands(Protocol):
    """Commands that happen once, and their outcomes. `CommandRejected` is raised for a command that is not done."""

    async def submit(self, submission: CommandSubmission) -> Acknowledgement:
        """Submit a command; returns once it is handed over. The outcome is a completion."""
        ...

    async def submit_and_wait(self, submission: CommandSubmission) -> Completion:
        """Submit a command and return its completion once durable. An immediate rejection is raised."""
        ...

    def subscription(self, application_id: str, parties: Sequence[str], begin_exclusive: int) -> CompletionFilter:
        """Return the filter for an application's and parties' completions; checks now that this offset is available."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, limit: int) -> CompletionPage:
        """Return completions after an offset, in order, and the offset reached; at once, perhaps without any."""
        ...

    async def published(self, after: int) -> None:
        """Wait until the end lies beyond this offset."""
        ...

    async def end(self) -> Checkpoint:
        """Return the present end of the stream of completions."""
        ...

    async def prune(self, offset: int) -> int:
        """Delete completions up to this offset; returns the offset up to which they are deleted now."""
        ...

    def configuration(self) -> CommandConfiguration:
        """Return the present configuration."""
        ...

    def configurations(self) -> AsyncIterator[CommandConfiguration]:
        """Yield the present configuration, then each change."""
        ...


class HasCommands(Protocol):
    """A node that accepts commands."""

    @property
    def name(self) -> NodeName:
        """The node's name."""
        ...

    @property
    def commands(self) -> Commands:
        """Its commands."""
