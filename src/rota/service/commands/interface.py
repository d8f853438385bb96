"""Commands that happen once, and how they ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.types import IntentId, NodeName
from rota.schema.commands import Checkpoint, Completion, CompletionFilter, CompletionPage, Period
from rota.service.submissions.interface import Submission


@dataclass(frozen=True, slots=True)
class CommandSubmission:
    """A command as it was submitted: only the types of its fields have been looked at.

    `transaction` is what it does. Without a period it is the maximum duration; without a submission id one is made.
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
    """A command was handed over: there will be one completion of it."""

    submission_id: str
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class CommandConfiguration:
    """What submitters may rely on."""

    maximum_duration_ms: int


class Commands(Protocol):
    """Commands that happen once, and how they ended. What is not done is raised as `CommandRejected`."""

    async def submit(self, submission: CommandSubmission) -> Acknowledgement:
        """Answered when it is handed over; the outcome is a completion."""
        ...

    async def submit_and_wait(self, submission: CommandSubmission) -> Completion:
        """Answered when its outcome is durable. A rejection that is found out at once is raised."""
        ...

    def subscription(self, application_id: str, parties: Sequence[str], begin_exclusive: int) -> CompletionFilter:
        """Whose completions may be read from here on; whether that can be had is looked at now."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, limit: int) -> CompletionPage:
        """What there is after an offset, in its order, and how far it was read; at once, perhaps empty."""
        ...

    async def published(self, after: int) -> None:
        """Until the end lies beyond this offset."""
        ...

    async def end(self) -> Checkpoint:
        """Where the stream of completions ends now."""
        ...

    async def prune(self, offset: int) -> int:
        """Forget completions up to this offset; up to where they are forgotten now."""
        ...

    def configuration(self) -> CommandConfiguration:
        """What holds now."""
        ...

    def configurations(self) -> AsyncIterator[CommandConfiguration]:
        """What holds now, and then each change of it."""
        ...


class HasCommands(Protocol):
    """A node that takes commands."""

    @property
    def name(self) -> NodeName:
        """The node's name."""
        ...

    @property
    def commands(self) -> Commands:
        """They."""
