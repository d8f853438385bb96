"""The results of a trigger's attempts, counted for operators.

Every task that is attempted counts once for each attempt:

    won      our transaction performed it, by the ledger's events
    lost     we sent or were about to send ours, and another member's was first (contention)
    skipped  it was done before we began
    failed   it was refused, or the world was unavailable, and it is not done

A lost race is never a success and never a failure.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Outcome(Enum):
    """The result of one attempt of one task."""

    WON = "won"
    LOST = "lost"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(slots=True)
class Spread:
    """Times, counted by the first bound of `SECONDS` that they do not exceed; the last count is of those beyond all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    sum_ms: int = 0

    def add(self, time_ms: int) -> None:
        """Count a time."""
        self.counts[bisect_left(SECONDS, time_ms / 1_000)] += 1
        self.sum_ms += time_ms


@dataclass(slots=True)
class Tally:
    """The counts of one trigger in one run of a node."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    durations: Spread = field(default_factory=Spread)
    waits: Spread = field(default_factory=Spread)

    def count(self, outcome: Outcome, tasks: int = 1) -> None:
        """Count so many tasks with this result."""
        self.outcomes[outcome] += tasks
