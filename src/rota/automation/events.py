"""The inputs of a node's automation: facts of the past."""

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
    """A block with this time was seen for the first time."""

    ledger_ms: int


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """The members that may perform the tasks of a trigger by the ledger, and those that announce `rank` for it."""

    trigger: str
    members: tuple[Member, ...]
    ranked: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class LookWanted:
    """An event of the ledger is a reason to list tasks before that is due."""

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
    """Tasks from an event of the ledger; there may be others."""

    trigger: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class TaskDone:
    """An event of the ledger: a task is done, and perhaps by whom."""

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
    """The check failed."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Performed:
    """The ledger took our action. It did these tasks, which may be others than the attempt's."""

    trigger: str
    attempt: int
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger did not take our action: another member was faster, or the action is bad."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class NotPerformed:
    """The world was unavailable. The action may have been performed all the same."""

    trigger: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """An operator pauses a trigger."""

    trigger: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """An operator resumes a trigger, and has tasks retried that were set aside."""

    trigger: str


@dataclass(frozen=True, slots=True)
class RunOnceRequested:
    """An operator has its tasks attempted now, once and without delay, paused or not."""

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
