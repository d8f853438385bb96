"""The result of a check: its subject, its status, and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How a thing stands. A node works in spite of a warning; a skipped check has no result."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A problem has a fix."""

    name: str
    status: Status
    found: str
    mend: str = ""

    def __post_init__(self) -> None:
        is_mendable = self.status in (Status.WARNING, Status.FAILED)
        assert bool(self.mend) == is_mendable, f"{self.name}: a problem, and that alone, has a fix"


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found."""

    findings: Sequence[Finding]

    @property
    def is_well(self) -> bool:
        """Nothing has failed."""
        return all(each.status is not Status.FAILED for each in self.findings)

    def count(self, status: Status) -> int:
        """How many things stand so."""
        return sum(each.status is status for each in self.findings)


def ok(name: str, found: str) -> Finding:
    """It is as it should be."""
    return Finding(name, Status.OK, found)


def warning(name: str, found: str, mend: str) -> Finding:
    """It works now, and will fail later."""
    return Finding(name, Status.WARNING, found, mend)


def failed(name: str, found: str, mend: str) -> Finding:
    """It does not work."""
    return Finding(name, Status.FAILED, found, mend)


def skipped(name: str, why: str) -> Finding:
    """It could not be looked at, or there is nothing to look at."""
    return Finding(name, Status.SKIPPED, why)
