"""The values of commands: submissions, their deduplication, and their completions.

A command is an intended change of the ledger. A repeated submission means the same change: the parties, the application
and the command's id identify it, and the period sets since when it must not have been accepted (docs/commands.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NewType, TypeAlias

from rota.model.types import IntentId, Party

# A hash of parties, application and command id (`commands.changes`).
ChangeId = NewType("ChangeId", bytes)

# Offsets are counted from 1 in the order in which a node's completions are published; 0 is before the first.
BEGIN_OFFSET: Final = 0
MICROSECONDS_PER_MS: Final = 1_000
MICROSECONDS_PER_S: Final = 1_000_000


class StatusCode(Enum):
    """The codes of gRPC, with their numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request was not carried out: a gRPC code, an id with details for programs, and a sentence for people."""

    code: StatusCode
    error_id: str
    message: str
    metadata: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        assert self.code is not StatusCode.OK, "a failure is not OK"


class CommandRejected(Exception):
    """A call about commands is rejected, for this reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.code.name} / {failure.error_id}: {failure.message}")
        self.failure: Final = failure


@dataclass(frozen=True, slots=True)
class DeduplicationDuration:
    """A duration before now, the boundary included."""

    duration_us: int


@dataclass(frozen=True, slots=True)
class DeduplicationOffset:
    """All completions after this offset; the one at the offset does not count."""

    offset: int


Period: TypeAlias = DeduplicationDuration | DeduplicationOffset


@dataclass(frozen=True, slots=True)
class Command:
    """A validated submission of a change: parties have node names, are sorted and unique.

    Without a period the maximum duration applies.
    """

    application_id: str
    command_id: str
    parties: tuple[Party, ...]
    submission_id: str
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a submission, at its place in the stream. `period` is the effective one; without a failure it
    succeeded.

    `transaction` is the private or public transaction that the command became, if it came to that. `corrects` is the
    offset of an earlier completion of the same submission that no longer holds, because the chain changed.
    """

    offset: int
    published_at_us: int
    application_id: str
    command_id: str
    parties: tuple[Party, ...]
    submission_id: str
    period: Period
    transaction: IntentId | None = None
    failure: Failure | None = None
    corrects: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A promise that no more completions follow up to this offset."""

    offset: int
    published_at_us: int


@dataclass(frozen=True, slots=True)
class CompletionPage:
    """Completions in order, and the checkpoint up to which the stream was read for them."""

    completions: tuple[Completion, ...]
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class CompletionFilter:
    """Selects the completions of one application that have at least one of these parties."""

    application_id: str
    parties: tuple[Party, ...]

    def admits(self, completion: Completion) -> bool:
        """Whether a subscriber gets it."""
        return completion.application_id == self.application_id and any(
            party in self.parties for party in completion.parties
        )

    def narrowed(self, page: CompletionPage) -> CompletionPage:
        """A subscriber's view: each completion has only those of its parties that the subscriber asked for."""
        completions = tuple(
            replace(each, parties=tuple(party for party in each.parties if party in self.parties))
            for each in page.completions
        )
        return replace(page, completions=completions)


def duration_text(duration_us: int) -> str:
    """The JSON form of protobuf's durations, with 0, 3 or 6 digits: `604800s`, `1.500s`, `1.500001s`."""
    whole, rest = divmod(duration_us, MICROSECONDS_PER_S)
    if not rest:
        return f"{whole}s"
    if rest % MICROSECONDS_PER_MS:
        return f"{whole}.{rest:06d}s"
    return f"{whole}.{rest // MICROSECONDS_PER_MS:03d}s"
