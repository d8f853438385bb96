"""The values of commands that everybody shares: what is submitted, how it is told apart, and how it ended.

A command is an intended change of the ledger. Who submits it twice means it once: the parties, the application and the
command's id say which change it is, and the period says since when it must not have been accepted (docs/commands.md).
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
    """Why something was not done: a code for everybody, an id and its details for programmes, a sentence for people."""

    code: StatusCode
    error_id: str
    message: str
    metadata: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        assert self.code is not StatusCode.OK, "a failure is not OK"


class CommandRejected(Exception):
    """A call about commands is not done, for this reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.code.name} / {failure.error_id}: {failure.message}")
        self.failure: Final = failure


@dataclass(frozen=True, slots=True)
class DeduplicationDuration:
    """Back from now, the boundary included."""

    duration_us: int


@dataclass(frozen=True, slots=True)
class DeduplicationOffset:
    """All that was published after this offset; what stands at it does not count."""

    offset: int


Period: TypeAlias = DeduplicationDuration | DeduplicationOffset


@dataclass(frozen=True, slots=True)
class Command:
    """A submission of a change, checked: parties are whole, sorted, and each there once.

    Without a period it is the maximum duration.
    """

    application_id: str
    command_id: str
    parties: tuple[Party, ...]
    submission_id: str
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """How a submission ended, at its place in the stream. `period` is the effective one; without a failure it happened.

    `transaction` is the private or public transaction that the command became, if it came to that. `corrects` is the
    offset of an earlier completion of the same submission that no longer holds, because the chain's word changed.
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
    """Nothing more is to come up to this offset."""

    offset: int
    published_at_us: int


@dataclass(frozen=True, slots=True)
class CompletionPage:
    """Completions in their order, and how far the stream was read for them."""

    completions: tuple[Completion, ...]
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class CompletionFilter:
    """Whose completions: those of one application, of which at least one party is among these."""

    application_id: str
    parties: tuple[Party, ...]

    def admits(self, completion: Completion) -> bool:
        """Whether a subscriber is shown it."""
        return completion.application_id == self.application_id and any(
            party in self.parties for party in completion.parties
        )

    def narrowed(self, page: CompletionPage) -> CompletionPage:
        """As a subscriber is shown it: of the parties of each completion those that it subscribed for."""
        completions = tuple(
            replace(each, parties=tuple(party for party in each.parties if party in self.parties))
            for each in page.completions
        )
        return replace(page, completions=completions)


def duration_text(duration_us: int) -> str:
    """As protobuf writes durations in JSON, with 0, 3 or 6 digits: `604800s`, `1.500s`, `1.500001s`."""
    whole, rest = divmod(duration_us, MICROSECONDS_PER_S)
    if not rest:
        return f"{whole}s"
    if rest % MICROSECONDS_PER_MS:
        return f"{whole}.{rest:06d}s"
    return f"{whole}.{rest // MICROSECONDS_PER_MS:03d}s"
