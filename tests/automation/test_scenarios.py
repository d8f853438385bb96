"""Members that come and go, disagree, fail and are late: no task is lost, none done twice, counts are true."""

from __future__ import annotations

from random import Random

import pytest

from rota.automation.events import PauseRequested, ResumeRequested
from rota.automation.settings import REFUSALS_MAX, Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.tallies import Outcome
from rota.sim.automation import TRIGGER, AutomationWorld, Conditions, Verdict

HOUR_MS = 3_600_000
NAMES = tuple(f"node{number}" for number in range(7))
BOTH = pytest.mark.parametrize("strategy", list(Strategy))


def world_of(strategy: Strategy, seed: int = 1, **conditions: object) -> AutomationWorld:
    return AutomationWorld(seed, NAMES, strategy, Conditions(**conditions))  # type: ignore[arg-type]


def add_some(world: AutomationWorld, count: int, gap_ms: int = 4_000) -> None:
    for number in range(count):
        world.at(world.now_ms + 1_000 + number * gap_ms, lambda number=number: world.add(f"task {number}"))  # type: ignore[misc]
    world.run_until(world.now_ms + 1_000 + count * gap_ms)


def settle(world: AutomationWorld) -> None:
    """Everything ends, and the ledger and the nodes agree on how."""
    assert world.run_until(world.now_ms + HOUR_MS, world.is_done), "a task is lost"
    world.run_until(world.now_ms + HOUR_MS)
    performed = [record.task for record in world.board.records if record.verdict is Verdict.PERFORMED]
    assert len(performed) == len(set(performed)), "a task was performed twice"
    assert sorted(performed) == sorted(world.board.tasks.keys() - world.board.impossible)
    assert world.disagreements() == []


def wasted(world: AutomationWorld) -> float:
    """Attempts in vain for each task."""
    return (len(world.board.records) - len(world.board.done)) / len(world.board.tasks)


@BOTH
def test_everybody_is_up(strategy: Strategy) -> None:
    world = world_of(strategy)
    world.start()
    add_some(world, 40)
    settle(world)
    assert wasted(world) < (0.1 if strategy is Strategy.RANK else 1.2)


@BOTH
def test_all_but_one_are_down(strategy: Strategy) -> None:
    world = world_of(strategy)
    world.start(Member("node3"))
    add_some(world, 20)
    settle(world)
    assert wasted(world) == 0
    assert world.nodes[Member("node3")].counted(Outcome.WON) == 20


@BOTH
def test_tasks_are_found_by_polling_alone(strategy: Strategy) -> None:
    world = world_of(strategy, has_events=False)
    world.start()
    add_some(world, 20)
    settle(world)


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_nodes_come_and_go(strategy: Strategy, seed: int) -> None:
    world = world_of(strategy, seed)
    world.start()
    random = Random(seed)

    def come_or_go() -> None:
        up = [node for node in world.nodes.values() if node.core is not None]
        node = random.choice(tuple(world.nodes.values()))
        if node.core is None:
            world._begin(node)
        elif len(up) > 1:
            world.stop(node.name)
        if world.now_ms < end_ms:
            world.after(random.randrange(1, 8_000), come_or_go)

    end_ms = world.now_ms + 200_000
    world.after(3_000, come_or_go)
    add_some(world, 50)
    settle(world)
    assert wasted(world) < (0.5 if strategy is Strategy.RANK else 1.2)


@BOTH
def test_clocks_differ_by_seconds(strategy: Strategy) -> None:
    world = world_of(strategy)
    for number, node in enumerate(world.nodes.values()):
        node.skew_ms = (number - 3) * 2_500
    world.start()
    add_some(world, 40)
    settle(world)
    # The ledger's own time is what slots are counted from.
    assert wasted(world) < (0.1 if strategy is Strategy.RANK else 1.2)


@BOTH
def test_nodes_disagree_about_who_is_a_member(strategy: Strategy) -> None:
    world = world_of(strategy)
    names = tuple(world.nodes)
    for number, name in enumerate(names):
        seen = [each for each in names if each == name or (names.index(each) + number) % 4]
        world.believe(name, seen, seen if strategy is Strategy.RANK else ())
    world.start()
    add_some(world, 40)
    settle(world)


def test_strategies_are_mixed() -> None:
    world = world_of(Strategy.RANK)
    names = tuple(world.nodes)
    plain = names[:3]
    for name in names:
        world.nodes[name].strategy = Strategy.RANDOM if name in plain else Strategy.RANK
        world.believe(name, names, names[3:])
    world.start()
    add_some(world, 40)
    settle(world)
    strategies = {node.core.duties[TRIGGER].strategy for node in world.nodes.values() if node.core is not None}
    assert strategies == {Strategy.RANDOM}, "nobody ranks while somebody does not"


def test_half_have_not_heard_yet_that_all_rank() -> None:
    world = world_of(Strategy.RANK)
    names = tuple(world.nodes)
    for name in names[:3]:
        world.believe(name, names, names[3:])
    world.start()
    add_some(world, 40)
    settle(world)


@BOTH
def test_a_member_always_fails(strategy: Strategy) -> None:
    world = world_of(strategy)
    bad = world.nodes[Member("node2")]
    world.board.failing.add(bad.name)
    world.start()
    add_some(world, 60)
    settle(world)
    assert bad.counted(Outcome.WON) == 0
    assert bad.counted(Outcome.FAILED) > 0
    last = [world.board.done[f"task {number}"][0] - world.board.tasks[f"task {number}"].ready_ms for number in (58, 59)]
    assert max(last) < 60_000


@BOTH
def test_a_task_can_never_succeed(strategy: Strategy) -> None:
    world = world_of(strategy)
    world.board.impossible.add("task 3")
    world.start()
    add_some(world, 20)
    settle(world)
    for node in world.nodes.values():
        assert list(node.set_aside) == ["task 3"]
        assert node.counted(Outcome.FAILED) == REFUSALS_MAX
        assert any("task 3 is set aside" in text for text in node.warnings)
        assert node.core is not None
        assert node.core.duties[TRIGGER].breaker.opened == 0


@BOTH
def test_a_batch_has_a_task_that_can_never_succeed(strategy: Strategy) -> None:
    world = world_of(strategy)
    world.board.impossible.add("bad")
    world.start()
    world.run_until(world.now_ms + 1_000)
    for number in range(20):
        world.add(f"good {number}", "batch")
    world.add("bad", "batch")
    assert world.run_until(world.now_ms + HOUR_MS, world.is_done)
    world.run_until(world.now_ms + HOUR_MS)
    performed = [record.task for record in world.board.records if record.verdict is Verdict.PERFORMED]
    assert sorted(performed) == sorted(world.board.tasks.keys() - {"bad"})
    assert world.disagreements() == []
    assert all(list(node.set_aside) == ["bad"] for node in world.nodes.values())


def test_a_backlog_is_shared_by_rank() -> None:
    world = world_of(Strategy.RANK)
    world.start()
    add_some(world, 30)
    for number in range(100):
        world.add(f"backlog {number}")
    settle(world)
    assert wasted(world) < 0.15
    shares = [world.board.count(name, Verdict.PERFORMED) for name in world.nodes]
    assert min(shares) >= 5


@BOTH
def test_a_pause_survives_a_restart(strategy: Strategy) -> None:
    world = world_of(strategy)
    lazy = world.nodes[Member("node1")]
    world.start()
    world.run_until(world.now_ms + 1_000)
    world.tell(lazy, PauseRequested(TRIGGER))
    world.stop(lazy.name)
    world.start(lazy.name)
    add_some(world, 20)
    assert lazy.counted(Outcome.WON) + lazy.counted(Outcome.SKIPPED) == 0
    world.tell(lazy, ResumeRequested(TRIGGER))
    for number in range(60):
        world.add(f"later {number}")
    settle(world)
    assert lazy.counted(Outcome.WON) > 0


def test_the_same_seed_plays_the_same_run() -> None:
    histories = []
    for _ in range(2):
        world = world_of(Strategy.RANDOM, 5)
        world.start()
        add_some(world, 20)
        settle(world)
        histories.append(world.board.records)
    assert histories[0] == histories[1]


def test_an_interval_of_polling_bounds_the_time_of_a_lone_node() -> None:
    settings = TriggerSettings(polling_interval_ms=10_000)
    world = world_of(Strategy.RANDOM, settings=settings, has_events=False)
    world.start(Member("node0"))
    world.run_until(world.now_ms + 1_000)
    world.add("task 0")
    settle(world)
    # A look, a random delay of all seven durations at most, and the task itself.
    assert world.board.done["task 0"][0] - world.board.tasks["task 0"].ready_ms < 10_000 + 7 * 5_000 + 3_000
