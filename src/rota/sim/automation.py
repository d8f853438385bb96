"""Many members on one model ledger: the real automation of each, on one virtual clock, while nodes start and stop.

Theory of operation. A `Board` is the ledger's state of tasks: the first transaction performs a task, later ones are
rejected. It is also the judge: its history is compared with the counts of the nodes. Each node sees the board with a
delay of its own. A node's clock may differ from the ledger's, its list of members from the others', and its attempts
may fail. Everything is drawn from one seed; time is virtual, so that hours take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Final

from rota.automation.automation import Automation
from rota.automation.duty import DutySetup
from rota.automation.effects import CheckStaleness, Effect, KeepPause, KeepSetAside, ListTasks, Perform, ReportRun, Warn
from rota.automation.events import (
    Event,
    MembersSeen,
    Performed,
    Refused,
    StalenessKnown,
    TaskDone,
    TasksFound,
    TasksListed,
    Tick,
)
from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.tallies import Outcome
from rota.automation.triggers import Task
from rota.model.frozen import dataclass

TRIGGER: Final = "chores"
# The start of virtual time, so large that clocks may be behind it.
BEGIN_MS: Final = 1_000_000_000
ANSWER_MS: Final = 5
BLOCK_MS: Final = 1_000


class Verdict(Enum):
    """The result of one task in one transaction on the ledger."""

    PERFORMED = "performed"
    TOO_LATE = "too late"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the ledger's history; `is_heard` is whether the sender still ran to receive the result."""

    at_ms: int
    task: str
    member: Member
    verdict: Verdict
    is_heard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The properties of the world. `seen_ms` is the mean delay until a node sees a change of the ledger."""

    task_ms: int = 2_000
    seen_ms: int = 300
    is_seen_time_fixed: bool = False
    are_tasks_seen_at_once: bool = False
    settings: TriggerSettings = TriggerSettings()
    # Whether the ledger emits events for tasks; without them nodes find tasks by polling alone.
    has_events: bool = True


@dataclass(slots=True)
class Board:
    """The ledger: its tasks, and the member that performed each. The first transaction for a task succeeds."""

    tasks: dict[str, Task] = field(default_factory=dict)
    done: dict[str, tuple[int, Member]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    # Tasks that the ledger always rejects, and members whose actions it always rejects.
    impossible: set[str] = field(default_factory=set)
    failing: set[Member] = field(default_factory=set)

    def apply(self, at_ms: int, tasks: tuple[Task, ...], member: Member, *, is_heard: bool) -> tuple[str, ...] | None:
        """Apply a transaction as a whole; returns the ids of its tasks, or None when it is reverted.

        The history has a verdict for each task; one whose transaction is reverted because of another is `REFUSED`.
        """
        bad = {task.id for task in tasks if member in self.failing or task.id in self.impossible}
        late = {task.id for task in tasks if task.id in self.done}
        for task in tasks:
            otherwise = Verdict.REFUSED if bad or late else Verdict.PERFORMED
            verdict = Verdict.TOO_LATE if task.id in late else otherwise
            self.records.append(Record(at_ms, task.id, member, verdict, is_heard))
        if bad or late:
            return None
        for task in tasks:
            self.done[task.id] = (at_ms, member)
        return tuple(task.id for task in tasks)

    def count(self, member: Member, verdict: Verdict) -> int:
        """How often a member got this verdict and received it."""
        return sum(r.member == member and r.verdict is verdict and r.is_heard for r in self.records)


@dataclass(slots=True)
class MemberNode:
    """One node: its run, its clock, and its view of members and tasks."""

    name: Member
    strategy: Strategy
    skew_ms: int = 0
    core: Automation | None = None
    life: int = 0
    members: tuple[Member, ...] = ()
    ranked: tuple[Member, ...] = ()
    seen_tasks: dict[str, Task] = field(default_factory=dict)
    seen_done: dict[str, Member] = field(default_factory=dict)
    tick_at_ms: int | None = None
    is_paused: bool = False
    set_aside: dict[str, str] = field(default_factory=dict)
    # The counts of earlier runs.
    past: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    warnings: list[str] = field(default_factory=list)
    runs: list[ReportRun] = field(default_factory=list)

    def counted(self, outcome: Outcome) -> int:
        """The count of an outcome over all runs."""
        duties = self.core.duties.values() if self.core is not None else ()
        return self.past[outcome] + sum(duty.tally.outcomes[outcome] for duty in duties)


class AutomationWorld:
    """Members that run one trigger. The board defines its tasks; a subclass may define them otherwise."""

    trigger_name = TRIGGER

    def __init__(self, seed: int, names: Iterable[str], strategy: Strategy, conditions: Conditions) -> None:
        self.random: Final = Random(seed)
        self.conditions: Final = conditions
        self.board: Final = Board()
        self.now_ms = BEGIN_MS
        self.performing = 0
        self.nodes: Final = {Member(name): MemberNode(Member(name), strategy) for name in names}
        members = tuple(self.nodes)
        for node in self.nodes.values():
            node.members, node.ranked = members, members if strategy is Strategy.RANK else ()
        self._seed: Final = seed
        self._heap: Final[list[tuple[int, int, Callable[[], None]]]] = []
        self._number = 0

    # Runs.

    def start(self, *names: Member) -> None:
        """Start nodes, all by default, at slightly different times."""
        for name in names or tuple(self.nodes):
            self.after(self.random.randrange(200), partial(self._begin, self.nodes[name]))

    def _begin(self, node: MemberNode) -> None:
        assert node.core is None, "a node lives once at a time"
        node.life += 1
        setup = self.setup_of(node, replace(self.conditions.settings, strategy=node.strategy))
        node.core = Automation((setup,), f"{self._seed}/{node.name}/{node.life}".encode())
        node.tick_at_ms = None
        self.see_blocks(node)
        self.tell(node, MembersSeen(self.trigger_name, node.members, node.ranked))

    def setup_of(self, node: MemberNode, settings: TriggerSettings) -> DutySetup:
        """The setup of a node's duty."""
        return DutySetup(
            name=self.trigger_name,
            settings=settings,
            member=node.name,
            is_paused=node.is_paused,
            set_aside=tuple(node.set_aside.items()),
        )

    def see_blocks(self, node: MemberNode) -> None:
        """Show the node the latest blocks, as it reads them when it starts."""
        for age in range(3, 0, -1):
            block_ms = (self.now_ms // BLOCK_MS - age) * BLOCK_MS
            assert node.core is not None, "it has begun"
            node.core.clock.seen(block_ms, self.local_ms(node) - self.now_ms + block_ms + self.seen_ms())

    def stop(self, name: Member) -> None:
        """Stop a node; its memory is lost, and transactions that it sent may still arrive."""
        node = self.nodes[name]
        if node.core is not None:
            for outcome, count in node.core.duties[self.trigger_name].tally.outcomes.items():
                node.past[outcome] += count
            node.core = None
            node.seen_tasks = {}

    def local_ms(self, node: MemberNode) -> int:
        """The time by a node's clock."""
        return self.now_ms + node.skew_ms

    # Tasks.

    def add(self, task: str, action_key: str = "") -> None:
        """Add a task to the ledger."""
        made = self.board.tasks[task] = Task(task, self.now_ms, action_key)
        if self.conditions.has_events:
            for node in self.nodes.values():
                delay_ms = 0 if self.conditions.are_tasks_seen_at_once else self.seen_ms()
                self.after(delay_ms, partial(self._see_task, node, made))

    def _see_task(self, node: MemberNode, task: Task) -> None:
        if node.core is not None and task.id not in node.seen_tasks:
            node.seen_tasks[task.id] = task
            self.tell(node, TasksFound(self.trigger_name, (task,)))

    def _see_done(self, node: MemberNode, task: str, by: Member) -> None:
        node.seen_done[task] = by
        if node.core is not None:
            self.tell(node, TaskDone(self.trigger_name, task, by))

    def seen_ms(self) -> int:
        """Draw the delay until a node sees a change."""
        if self.conditions.is_seen_time_fixed or not self.conditions.seen_ms:
            return self.conditions.seen_ms
        return int(self.random.expovariate(1 / self.conditions.seen_ms))

    # Time.

    def at(self, at_ms: int, do: Callable[[], None]) -> None:
        """Schedule an action at a time."""
        self._number += 1
        heappush(self._heap, (at_ms, self._number, do))

    def after(self, delay_ms: int, do: Callable[[], None]) -> None:
        """Schedule an action after a delay."""
        self.at(self.now_ms + delay_ms, do)

    def run_until(self, until_ms: int, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Run until this time, or until `is_over()`; returns whether it is over."""
        while self._heap and self._heap[0][0] <= until_ms:
            if is_over():
                return True
            self.now_ms, _, do = heappop(self._heap)
            do()
        if not is_over():
            self.now_ms = max(self.now_ms, until_ms)
            return False
        return True

    # Nodes.

    def tell(self, node: MemberNode, event: Event) -> None:
        """Step a node with an event, and execute its effects."""
        assert node.core is not None, "only a node that lives is told anything"
        for effect in node.core.step(self.local_ms(node), event):
            self._perform(node, effect)
        due_ms = node.core.next_deadline_ms()
        if due_ms is not None:
            wanted_ms = max(self.now_ms, due_ms - node.skew_ms)
            if node.tick_at_ms is None or wanted_ms < node.tick_at_ms:
                node.tick_at_ms = wanted_ms
                self.at(wanted_ms, partial(self._tick, node, node.life, wanted_ms))

    def _tick(self, node: MemberNode, life: int, at_ms: int) -> None:
        if node.core is not None and node.life == life and node.tick_at_ms == at_ms:
            node.tick_at_ms = None
            self.tell(node, Tick())

    def _tell_later(self, node: MemberNode, delay_ms: int, event: Event) -> None:
        life = node.life

        def tell() -> None:
            if node.core is not None and node.life == life:
                self.tell(node, event)

        self.after(delay_ms, tell)

    def _perform(self, node: MemberNode, effect: Effect) -> None:
        match effect:
            case ListTasks():
                self._tell_later(node, ANSWER_MS, TasksListed(self.trigger_name, self.listed_by(node)))
            case CheckStaleness(_, attempt, tasks):
                stale = self.stale_to(node, tasks)
                self._tell_later(node, ANSWER_MS, StalenessKnown(self.trigger_name, attempt, stale))
            case Perform(_, attempt, tasks):
                self.performing += 1
                self.after(self.conditions.task_ms, partial(self._land, node, node.life, attempt, tasks))
            case KeepPause(_, is_paused):
                node.is_paused = is_paused
            case KeepSetAside(_, task, reason):
                node.set_aside.pop(task, None)
                if reason is not None:
                    node.set_aside[task] = reason
            case Warn(_, text):
                node.warnings.append(text)
            case ReportRun():
                node.runs.append(effect)

    def listed_by(self, node: MemberNode) -> tuple[Task, ...]:
        """The open tasks as a node sees them."""
        return tuple(
            task
            for task in self.board.tasks.values()
            if task.id not in node.seen_done and (task.id in node.seen_tasks or self._is_old(task))
        )

    def stale_to(self, node: MemberNode, tasks: tuple[Task, ...]) -> tuple[str, ...]:
        """Those of the tasks that the node sees as done."""
        return tuple(task.id for task in tasks if task.id in node.seen_done)

    def _is_old(self, task: Task) -> bool:
        """Whether a task is older than the mean delay, so that reading the ledger shows it."""
        return self.now_ms - task.ready_ms > self.conditions.seen_ms

    def _land(self, node: MemberNode, life: int, attempt: int, tasks: tuple[Task, ...]) -> None:
        self.performing -= 1
        is_heard = node.core is not None and node.life == life
        done = self.apply(node, tasks, is_heard=is_heard)
        # A node that was too late learns from its own transaction which member was faster.
        for task in tasks:
            if task.id in self.board.done:
                node.seen_done.setdefault(task.id, self.board.done[task.id][1])
        if not is_heard:
            return
        if done is None:
            self.tell(node, Refused(self.trigger_name, attempt, "the ledger does not take it"))
        else:
            self.tell(node, Performed(self.trigger_name, attempt, done))

    def apply(self, node: MemberNode, tasks: tuple[Task, ...], *, is_heard: bool) -> tuple[str, ...] | None:
        """Apply a transaction that arrives; returns the tasks that it performed, or None when it is reverted."""
        done = self.board.apply(self.now_ms, tasks, node.name, is_heard=is_heard)
        for task in done or ():
            node.seen_done[task] = node.name
            for other in self.nodes.values():
                self.after(self.seen_ms(), partial(self._see_done, other, task, node.name))
        return done

    # Members.

    def believe(self, name: Member, members: Iterable[Member], ranked: Iterable[Member] | None = None) -> None:
        """Change a node's view of the members, and of those that announce `rank`."""
        node = self.nodes[name]
        node.members = tuple(members)
        if ranked is not None:
            node.ranked = tuple(ranked)
        if node.core is not None:
            self.tell(node, MembersSeen(self.trigger_name, node.members, node.ranked))

    # Results.

    def is_done(self) -> bool:
        """Whether all tasks that can be done are done."""
        return len(self.board.done) + len(self.board.impossible - self.board.done.keys()) >= len(self.board.tasks)

    def disagreements(self) -> list[str]:
        """The differences between the nodes' counts and the ledger's history; none if all is well."""
        found = []
        for node in self.nodes.values():
            for outcome, verdict in (
                (Outcome.WON, Verdict.PERFORMED),
                (Outcome.LOST, Verdict.TOO_LATE),
                (Outcome.FAILED, Verdict.REFUSED),
            ):
                counted, recorded = node.counted(outcome), self.board.count(node.name, verdict)
                if counted != recorded:
                    found.append(f"{node.name} counted {counted} {outcome.value}, and the ledger has {recorded}")
        return found
