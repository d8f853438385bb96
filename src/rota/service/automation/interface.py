"""The triggers that a node runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Spread:
    """Times counted by bounds: each count is of those that exceed the bound before and not their own, the last of those
    beyond all."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """A task that was refused too often, and the last reason."""

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class TriggerView:
    """A trigger at this node. `strategy` is the one that is used now, `wanted_strategy` the one that was configured.

    Counts are of this life of the process: `won` is what our transactions performed by the ledger's word, `lost` what
    somebody else's did first, `skipped` what was done before we began, `failed` what is not done.
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
    """What a run that an operator asked for came to: tasks by outcome, and the last failure."""

    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str = ""


class Triggers(Protocol):
    """The triggers that this node runs. `Rejected` where there is none of a name."""

    def list(self) -> tuple[TriggerView, ...]:
        """All of them, as they are now."""
        ...

    async def pause(self, name: str) -> None:
        """Begin nothing more of it, also after a restart. Durable on return."""
        ...

    async def resume(self, name: str) -> None:
        """Begin again, with what was set aside too. Durable on return; one that the configuration pauses is paused
        again after a restart."""
        ...

    async def run_once(self, name: str) -> TriggerRun:
        """Attempt what is ready, now and without delay, paused or not."""
        ...


class HasTriggers(Protocol):
    """A node that runs triggers."""

    @property
    def triggers(self) -> Triggers:
        """Its triggers."""
        ...
