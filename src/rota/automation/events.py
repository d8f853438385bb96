"""All that the automation of a node may be told: facts of the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rota.automation.strategies import Member
from rota.automation.triggers import Task


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline has come."""


@dataclass(frozen=True, slots=True)
class LedgerTimeSeen:
    """A block that bears this time was seen for the first time."""

    ledger_ms: int


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """Who may perform the tasks of a trigger by the ledger's word now, and who of them announces `rank` for it."""

    trigger: str
    members: tuple[Member, ...]
    ranked: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class LookWanted:
    """An event of the ledger gives reason to look for tasks before the next look is due."""

    trigger: str


@dataclass(frozen=True, slots=True)
class TasksListed:
    """The answer to `ListTasks`: all tasks that are not done."""

    trigger: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class ListingFailed:
    """Tasks could not be listed."""

    trigger: str
    reason: str


@dataclass(frozen=True, slots=True)
class TasksFound:
    """An event of the ledger told of these; there may be others."""

    trigger: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class TaskDone:
    """An event of the ledger told that a task is done, and perhaps by whom."""

    trigger: str
    task: str
    by: Member | None = None


@dataclass(frozen=True, slots=True)
class StalenessKnown:
    """The answer to `CheckStaleness`: those of the attempt's tasks that are done."""

    trigger: str
    attempt: int
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StalenessUnknown:
    """Whether they are done could not be found out."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Performed:
    """The ledger took our action; these tasks were done by it, which may be others than were meant."""

    trigger: str
    attempt: int
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger did not take our action: somebody was faster, or it is a bad one."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class NotPerformed:
    """The world was away. The action may have been performed all the same."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """An operator does not want a trigger to run."""

    trigger: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """An operator wants it to run again, and what was set aside to be tried again."""

    trigger: str


@dataclass(frozen=True, slots=True)
class RunOnceRequested:
    """An operator wants its tasks to be attempted now, once and without delay, paused or not."""

    trigger: str


Event: TypeAlias = (
    Tick
    | LedgerTimeSeen
    | MembersSeen
    | LookWanted
    | TasksListed
    | ListingFailed
    | TasksFound
    | TaskDone
    | StalenessKnown
    | StalenessUnknown
    | Performed
    | Refused
    | NotPerformed
    | PauseRequested
    | ResumeRequested
    | RunOnceRequested
)
