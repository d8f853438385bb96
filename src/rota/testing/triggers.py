"""Runs a trigger in the simulator: many members that attempt every task, while nodes start and stop.

    class Rent(ModelContract):
        ...                                  # the contract, as a model in Python

    reports = simulate_trigger(lambda: PayRent(RENT), {RENT: Rent()}, seeds=range(20), minutes=30)
    assert not trigger_findings(reports)

The nodes are called node0, node1 and so on; `account_of(name)` is the account with which each acts. `act` is called
before the run and may call the contracts as users do (`TriggerWorld.ledger_call`, `TriggerWorld.at`). A finding is a
task that is ready and not done at the end, one that the ledger performed twice, or a node whose counts differ from the
ledger's history.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.tallies import Outcome
from rota.automation.triggers import Trigger
from rota.model.types import ContractAddress
from rota.sim.automation import Conditions, Verdict
from rota.sim.trigger_world import ModelContract, Service, TriggerWorld

MINUTE_MS: Final = 60_000
# After the faults, every task has this long to end.
REST_MS: Final = 10 * MINUTE_MS
FAULT_GAP_MAX_MS: Final = 20_000
NODES_DEFAULT: Final = 5


@dataclass(frozen=True, slots=True)
class TriggerReport:
    """One run: the members' counts of won, lost, skipped and failed tasks, and the findings."""

    seed: int
    won: int
    lost: int
    skipped: int
    failed: int
    performed: tuple[str, ...]
    set_aside: tuple[str, ...]
    findings: tuple[str, ...]


def simulate_trigger(
    make_trigger: Callable[[], Trigger],
    contracts: Mapping[ContractAddress, ModelContract],
    *,
    seeds: Iterable[int],
    minutes: int = 10,
    nodes: int = NODES_DEFAULT,
    strategy: Strategy = Strategy.RANDOM,
    settings: TriggerSettings | None = None,
    task_ms: int = 2_000,
    has_faults: bool = True,
    services: Mapping[str, Service] | None = None,
    act: Callable[[TriggerWorld], None] | None = None,
) -> tuple[TriggerReport, ...]:
    """Run each seed; contracts start in the given state in each run."""
    return tuple(
        _run(
            TriggerWorld(
                seed,
                [f"node{number}" for number in range(nodes)],
                strategy,
                Conditions(task_ms=task_ms, settings=settings or TriggerSettings()),
                make_trigger,
                copy.deepcopy(dict(contracts)),
                services,
            ),
            seed,
            minutes,
            has_faults,
            act,
        )
        for seed in seeds
    )


def trigger_findings(reports: Sequence[TriggerReport]) -> list[str]:
    """The findings of all runs, with their seeds."""
    return [f"seed {report.seed}: {finding}" for report in reports for finding in report.findings]


def _run(
    world: TriggerWorld, seed: int, minutes: int, has_faults: bool, act: Callable[[TriggerWorld], None] | None
) -> TriggerReport:
    if act is not None:
        act(world)
    world.start()
    end_ms = world.now_ms + minutes * MINUTE_MS
    if has_faults:
        _come_and_go(world, Random(f"faults of {seed}"), end_ms)
    world.run_until(end_ms)
    for node in world.nodes.values():
        if node.core is None:
            world.start(node.name)
    world.run_until(end_ms + REST_MS, lambda: world.now_ms > end_ms and not world.still_open())
    open_ = world.still_open()
    # Let the latest attempts report their results.
    world.run_until(world.now_ms + MINUTE_MS)
    return _report(world, seed, open_)


def _come_and_go(world: TriggerWorld, random: Random, end_ms: int) -> None:
    """Stop and start nodes at random; one is always up."""
    down: list[Member] = []

    def change() -> None:
        if world.now_ms >= end_ms:
            return
        if down and random.random() < 0.6:
            world.start(down.pop(random.randrange(len(down))))
        elif len(down) < len(world.nodes) - 1:
            up = [name for name in world.nodes if name not in down and world.nodes[name].core is not None]
            if len(up) > 1:
                down.append(random.choice(up))
                world.stop(down[-1])
        world.after(random.randrange(1_000, FAULT_GAP_MAX_MS), change)

    world.after(random.randrange(1_000, FAULT_GAP_MAX_MS), change)


def _report(world: TriggerWorld, seed: int, still_open: tuple[str, ...]) -> TriggerReport:
    performed = [record.task for record in world.board.records if record.verdict is Verdict.PERFORMED]
    aside = tuple(dict.fromkeys(task for node in world.nodes.values() for task in node.set_aside))
    findings = [f"{task} is ready and not done" for task in still_open if task not in aside]
    findings += [f"{task} was performed {count} times" for task, count in Counter(performed).items() if count > 1]
    findings += world.disagreements()
    counted = {outcome: sum(node.counted(outcome) for node in world.nodes.values()) for outcome in Outcome}
    return TriggerReport(
        seed,
        counted[Outcome.WON],
        counted[Outcome.LOST],
        counted[Outcome.SKIPPED],
        counted[Outcome.FAILED],
        tuple(performed),
        aside,
        tuple(findings),
    )
