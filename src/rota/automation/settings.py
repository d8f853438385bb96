"""Settings of a trigger, and the bounds for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

# Tasks of one trigger that a node knows; a later listing finds the others.
TASKS_MAX: Final = 10_000
# Tasks with one action key that are performed together.
BATCH_TASKS_MAX: Final = 64
# How often a task alone may be refused before it is set aside.
REFUSALS_MAX: Final = 3
# Tasks of one trigger that are set aside; the oldest is tried again when there are more.
SET_ASIDE_MAX: Final = 1_000
# Different tasks, or failures of the world, in a row that open a breaker.
BREAKER_FAILURES_MAX: Final = 5
BREAKER_OPEN_MS: Final = 30_000
BREAKER_OPEN_MAX_MS: Final = 600_000
# How often a waiting attempt gives way to a member before it that is at work.
POSTPONED_MAX: Final = 8
# How long a member that missed its slot is at the back: the first time, and at most.
BACK_MS: Final = 60_000
BACK_MAX_MS: Final = 600_000
# Durations that determine the length of a slot.
DURATIONS_KEPT: Final = 16
SLOT_MIN_MS: Final = 100
SLOT_MARGIN_PERCENT: Final = 25
# The longest slot, in expected durations.
SLOT_DURATIONS_MAX: Final = 4
# Endings that are remembered to recognise the first member.
ENDINGS_KEPT: Final = 4_096
# Samples from which a node computes the offset of its clock to the ledger's.
LEDGER_SAMPLES_KEPT: Final = 16
# The backoff doubles with each retry, up to so many expected durations.
BACKOFF_DURATIONS_MAX: Final = 2
# A retry's delay is its backoff, shortened by up to so much.
BACKOFF_JITTER: Final = 0.5
TEXT_MAX: Final = 500


class Strategy(Enum):
    """When a node attempts a task: after a random delay, or when its turn comes."""

    RANDOM = "random"
    RANK = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """The settings of one trigger at one node."""

    expected_task_duration_ms: int = 5_000
    polling_interval_ms: int = 30_000
    parallel_tasks: int = 4
    strategy: Strategy = Strategy.RANDOM

    def __post_init__(self) -> None:
        for name in ("expected_task_duration_ms", "polling_interval_ms", "parallel_tasks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")
