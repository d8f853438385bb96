"""The cost of automation without a leader: duplicate attempts, time to completion, and a backlog, in simulated time.

Real automation of every member on a model ledger (`sim/automation.py`). An attempt takes the task's time until the
ledger has it; the delays from done to seen, and from ready to seen, are 0.3 s on average, exponentially distributed.
Each task comes a moment after the previous one is over. Measured is the time from ready on the ledger until an average
node has seen that the task is done. Figures are counts and simulated time, the same on every machine.

A backlog is a number of tasks that come at once, after a few that came one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.automation.settings import Strategy
from rota.automation.strategies import Member
from rota.sim.automation import AutomationWorld, Conditions

NODES: Final = (4, 13, 25, 50)
TASKS_MS: Final = (500, 2_000, 5_000)
TASKS_DEFAULT: Final = 300
WARM_UP_TASKS: Final = 100
BACKLOG_TASKS: Final = 200
SEEN_MS: Final = 300
GAP_MS: Final = 1_000
PATIENCE_MS: Final = 24 * 3_600_000
SEED: Final = 64


@dataclass(frozen=True, slots=True)
class Cell:
    """Tasks one by one: duplicates for each, and the time until they were done."""

    strategy: str
    nodes: int
    down: int
    task_s: float
    duplicates: float
    mean_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """Many tasks at once: the time until all were done."""

    strategy: str
    nodes: int
    tasks: int
    makespan_s: float


@dataclass(frozen=True, slots=True)
class AutomationFigures:
    """The figures of this benchmark."""

    cells: tuple[Cell, ...]
    backlog: tuple[Backlog, ...]


def measure_automation(tasks: int = TASKS_DEFAULT) -> AutomationFigures:
    """Measure both strategies, for all sizes of a network."""
    cells = tuple(
        measure_cell(strategy, nodes, down, task_ms, tasks)
        for strategy in Strategy
        for nodes in NODES
        for down in (0, nodes // 3)
        for task_ms in TASKS_MS
    )
    backlog = tuple(measure_backlog(strategy, nodes) for strategy in Strategy for nodes in NODES)
    return AutomationFigures(cells, backlog)


def measure_cell(strategy: Strategy, nodes: int, down: int, task_ms: int, tasks: int) -> Cell:
    """Measure tasks one by one, while some nodes are down all the time."""
    world = _world(strategy, nodes, down, Conditions(task_ms=task_ms, seen_ms=SEEN_MS))
    taken_ms = [_one_task(world, f"task {number}") for number in range(tasks)]
    wasted = len(world.board.records) - tasks
    return Cell(
        strategy.value,
        nodes,
        down,
        task_ms / 1_000,
        round(wasted / tasks, 4),
        round(sum(taken_ms) / tasks / 1_000, 3),
        sorted(taken_ms)[min(tasks * 99 // 100, tasks - 1)] / 1_000,
    )


def measure_backlog(strategy: Strategy, nodes: int, tasks: int = BACKLOG_TASKS) -> Backlog:
    """Measure tasks that come at once, in a network that has measured how long tasks take."""
    world = _world(strategy, nodes, 0, Conditions(seen_ms=SEEN_MS))
    for number in range(WARM_UP_TASKS):
        _one_task(world, f"task {number}")
    began_ms = world.now_ms
    for number in range(tasks):
        world.add(f"backlog {number}")
    assert world.run_until(world.now_ms + PATIENCE_MS, world.is_done), "the backlog is not done"
    ended_ms = max(at_ms for at_ms, _ in world.board.done.values())
    return Backlog(strategy.value, nodes, tasks, (ended_ms + SEEN_MS - began_ms) / 1_000)


def _world(strategy: Strategy, nodes: int, down: int, conditions: Conditions) -> AutomationWorld:
    names = [f"node{number}" for number in range(nodes)]
    world = AutomationWorld(SEED, names, strategy, conditions)
    world.start(*(Member(name) for name in names[: nodes - down]))
    world.run_until(world.now_ms + GAP_MS)
    return world


def _one_task(world: AutomationWorld, task: str) -> int:
    """The time from ready until seen as done, on average; then the network comes to rest."""
    ready_ms = world.now_ms
    world.add(task)
    assert world.run_until(world.now_ms + PATIENCE_MS, lambda: task in world.board.done), f"{task} is not done"
    done_ms, _ = world.board.done[task]
    world.run_until(world.now_ms + GAP_MS)
    world.run_until(world.now_ms + PATIENCE_MS, lambda: world.performing == 0)
    return done_ms - ready_ms + world.conditions.seen_ms
