"""The triggers that a node runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Spread:
    """A histogram of times: each count is of those above the previous bound and within its own, the last of those above
    all bounds."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """A task that was rejected too often, and the last reason."""

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class TriggerView:
    """A trigger at this node. `strategy` is the one in use, `wanted_strategy` the configured one.

    Counts are of this run of the process: `won` are tasks that this node's transactions performed according to the
    ledger, `lost` those that another account performed first, `skipped` those done before this node began, `failed`
    those not done.
    """

    name: str
    strategy: str
    wanted_strategy: str
    is_paused: bool
    is_member: bool
    members: int
    waiting: int
    at_work: int
    won: int
    lost: int
    skipped: int
    failed: int
    breaker: str
    breaker_opened_total: int
    expected_task_duration_ms: int
    polling_interval_ms: int
    parallel_tasks: int
    slot_ms: int
    durations: Spread
    waits: Spread
    trouble: str = ""
    set_aside: tuple[SetAside, ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """The result of a run that an operator requested: tasks by outcome, and the last failure."""

    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str = ""


class Triggers(Protocol):
    """The triggers that this node runs. `Rejected` for an unknown name."""

    def list(self) -> tuple[TriggerView, ...]:
        """Return all triggers with their present state."""
        ...

    async def pause(self, name: str) -> None:
        """Pause a trigger, also across restarts. Durable on return."""
        ...

    async def resume(self, name: str) -> None:
        """Resume a trigger and retry its set-aside tasks.

        Durable on return; a pause in the configuration applies again after a restart.
        """
        ...

    async def run_once(self, name: str) -> TriggerRun:
        """Attempt all ready tasks, now and without delay, paused or not."""
        ...


class HasTriggers(Protocol):
    """A node that runs triggers."""

    @property
    def triggers(self) -> Triggers:
        """Its triggers."""
        ...
