"""The orders of a node's automation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rota.automation.triggers import Task


@dataclass(frozen=True, slots=True)
class ListTasks:
    """Find all tasks of a trigger; answered by `TasksListed` or `ListingFailed`."""

    trigger: str


@dataclass(frozen=True, slots=True)
class CheckStaleness:
    """Find out which of these are done; answered by `StalenessKnown` or `StalenessUnknown`."""

    trigger: str
    attempt: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Perform:
    """Perform these together; answered by `Performed`, `Refused` or `NotPerformed`."""

    trigger: str
    attempt: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class KeepPause:
    """Record durably whether a trigger is paused."""

    trigger: str
    is_paused: bool


@dataclass(frozen=True, slots=True)
class KeepSetAside:
    """Record durably why a task is set aside; without a reason, that it is not any more."""

    trigger: str
    task: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class ReportRun:
    """A run that an operator requested has ended, with these numbers of tasks."""

    trigger: str
    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Warn:
    """Warn an operator."""

    trigger: str
    text: str


Effect: TypeAlias = ListTasks | CheckStaleness | Perform | KeepPause | KeepSetAside | ReportRun | Warn
