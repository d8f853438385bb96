"""Automation: the triggers that this node runs, their state, and manual control."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.methods import method
from rota.service.interface import HasTriggers, TriggerView

Name = Annotated[str, Meta(description="The trigger's name, such as advance-epochs")]


class Attempted(msgspec.Struct, frozen=True):
    """Tasks by the outcome of their attempts in this run of the node."""

    won: int
    lost: int
    skipped: int
    failed: int


class TaskSetAside(msgspec.Struct, frozen=True):
    """A task that was rejected too often."""

    task: str
    reason: str


class TriggerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a trigger. `strategy` is the one in use: rank only where every member announces it."""

    name: str
    paused: bool
    strategy: str
    wanted_strategy: str
    is_member: bool
    members: int
    waiting: int
    at_work: int
    attempted: Attempted
    breaker: str
    set_aside: list[TaskSetAside]
    expected_task_duration_ms: int
    polling_interval_ms: int
    parallel_tasks: int
    slot_ms: int
    trouble: str


class Run(msgspec.Struct, frozen=True):
    """The result of one run."""

    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str


@method("trigger_list", role=Role.READ, answers="triggers")
async def list_triggers(
    node: HasTriggers,
) -> Annotated[list[TriggerStatus], Meta(description="All triggers of this node")]:
    """List the triggers of this node with their state."""
    return [_shown(view) for view in node.triggers.list()]


@method("trigger_pause", role=Role.OPERATE, answers="paused")
async def pause(node: HasTriggers, name: Name) -> Annotated[bool, Meta(description="True: it is paused")]:
    """Pause a trigger, also across restarts. Tasks in progress finish."""
    await node.triggers.pause(name)
    return True


@method("trigger_resume", role=Role.OPERATE, answers="resumed")
async def resume(node: HasTriggers, name: Name) -> Annotated[bool, Meta(description="True: it runs")]:
    """Resume a trigger and retry its set-aside tasks. A pause in the configuration applies again after a restart."""
    await node.triggers.resume(name)
    return True


@method("trigger_runOnce", role=Role.OPERATE, answers="run")
async def run_once(
    node: HasTriggers, name: Name
) -> Annotated[Run, Meta(description="How many tasks ended how, and the last failure")]:
    """Attempt all ready tasks of a trigger once, without delay, even if it is paused."""
    ended = await node.triggers.run_once(name)
    return Run(ended.won, ended.lost, ended.skipped, ended.failed, ended.trouble)


def _shown(view: TriggerView) -> TriggerStatus:
    return TriggerStatus(
        name=view.name,
        paused=view.is_paused,
        strategy=view.strategy,
        wanted_strategy=view.wanted_strategy,
        is_member=view.is_member,
        members=view.members,
        waiting=view.waiting,
        at_work=view.at_work,
        attempted=Attempted(view.won, view.lost, view.skipped, view.failed),
        breaker=view.breaker,
        set_aside=[TaskSetAside(each.task, each.reason) for each in view.set_aside],
        expected_task_duration_ms=view.expected_task_duration_ms,
        polling_interval_ms=view.polling_interval_ms,
        parallel_tasks=view.parallel_tasks,
        slot_ms=view.slot_ms,
        trouble=view.trouble,
    )


METHODS: Final = (list_triggers, pause, resume, run_once)
