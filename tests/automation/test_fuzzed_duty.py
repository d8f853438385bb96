"""Whatever happens to a duty in whatever order, its books agree, nothing is counted twice, and it never spins."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.automation.attempts import AT_WORK, Phase
from rota.automation.effects import CheckStaleness, ListTasks, Perform, ReportRun
from rota.automation.events import (
    LedgerTimeSeen,
    ListingFailed,
    LookWanted,
    MembersSeen,
    PauseRequested,
    ResumeRequested,
    RunOnceRequested,
    StalenessKnown,
    StalenessUnknown,
    Tick,
)
from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.tallies import Outcome
from rota.automation.triggers import Task
from tests.automation.kit import ME, NAME, OTHER, Bench

MEMBERS = (ME, OTHER, Member("third"))
NAMES = [f"task {number}" for number in range(12)]
SOME = st.lists(st.sampled_from(NAMES), max_size=5, unique=True).map(tuple)
STEPS = st.tuples(st.integers(0, 17), SOME, st.integers(0, 3), st.integers(0, 60_000))


class Fuzzed:
    """A duty, what was ordered of it and is not answered, and what it must have counted."""

    def __init__(self, strategy: Strategy, period_ms: int | None) -> None:
        self.bench = Bench(TriggerSettings(strategy=strategy, parallel_tasks=2), MEMBERS, period_ms=period_ms)
        self.checks: list[CheckStaleness] = []
        self.orders: list[Perform] = []
        self.looks = 0
        self.runs = 0
        self.performed = 0

    def task(self, name: str) -> Task:
        """Three in four share an action key; some are ready later."""
        number = NAMES.index(name)
        return Task(name, self.bench.now_ms + (number % 3) * 1_000, "" if number % 4 == 0 else f"key {number % 2}")

    def step(self, kind: int, names: tuple[str, ...], number: int, time_ms: int) -> None:
        bench = self.bench
        actions: tuple[Callable[[], None], ...] = (
            lambda: bench.find(*map(self.task, names)),
            lambda: self.listed(names),
            lambda: self.end(names, MEMBERS[number % 3]),
            lambda: self.checked(names),
            lambda: self.checked(()),
            lambda: self.unchecked(),
            lambda: self.succeed(names),
            lambda: self.fail(is_away=False),
            lambda: self.fail(is_away=True),
            lambda: bench.pass_ms(time_ms),
            lambda: bench.tell(Tick()),
            lambda: bench.tell(PauseRequested(NAME)),
            lambda: bench.tell(ResumeRequested(NAME)),
            lambda: bench.tell(RunOnceRequested(NAME)),
            lambda: bench.tell(MembersSeen(NAME, MEMBERS[number % 2 :], MEMBERS)),
            lambda: bench.tell(LedgerTimeSeen(bench.now_ms - time_ms)),
            lambda: bench.tell(LookWanted(NAME)),
            lambda: bench.tell(ListingFailed(NAME, "away")) if self.looks else None,
        )
        actions[kind]()
        self.collect()

    def end(self, names: tuple[str, ...], by: Member) -> None:
        for name in names:
            self.bench.done(name, by)

    def listed(self, names: tuple[str, ...]) -> None:
        if self.looks:
            self.bench.listed(*map(self.task, names))

    def checked(self, stale: tuple[str, ...]) -> None:
        if self.checks:
            check = self.checks.pop(0)
            found = tuple(task.id for task in check.tasks if task.id in stale)
            self.bench.tell(StalenessKnown(NAME, check.attempt, found))

    def unchecked(self) -> None:
        if self.checks:
            self.bench.tell(StalenessUnknown(NAME, self.checks.pop(0).attempt, "away"))

    def succeed(self, names: tuple[str, ...]) -> None:
        if self.orders:
            order = self.orders.pop(0)
            self.performed += len(names) or len(order.tasks)
            self.bench.succeeded(order, *names)

    def fail(self, *, is_away: bool) -> None:
        if self.orders:
            order = self.orders.pop(0)
            (self.bench.away if is_away else self.bench.refused)(order)

    def collect(self) -> None:
        bench = self.bench
        self.checks += bench.take(CheckStaleness)
        self.orders += bench.take(Perform)
        self.looks = min(1, self.looks + len(bench.take(ListTasks)))
        self.runs += len(bench.take(ReportRun))
        self.judge()

    def judge(self) -> None:
        duty = self.bench.duty
        attempts = duty.attempts
        assert attempts.at_work == sum(each.phase in AT_WORK for each in attempts.by_number.values())
        inside = {task: each.number for each in attempts.by_number.values() for task in each.tasks}
        assert inside == attempts.by_task
        assert all(each.tasks for each in attempts.by_number.values()), "an attempt without tasks is gone"
        assert attempts.at_work <= duty.settings.parallel_tasks
        performing = {each.number for each in attempts.by_number.values() if each.phase is Phase.PERFORMING}
        assert performing == {order.attempt for order in self.orders}, "each order is answered once"
        # What may have been ours and was away may still turn out to have been won.
        assert duty.tally.outcomes[Outcome.WON] >= self.performed
        assert not set(duty.set_aside) & set(attempts.by_task) or any(
            each.is_forced for each in attempts.by_number.values()
        )


@settings(max_examples=150)
@given(st.sampled_from(Strategy), st.sampled_from([None, 20_000]), st.lists(STEPS, max_size=80))
def test_books_agree_whatever_happens(
    strategy: Strategy, period_ms: int | None, steps: list[tuple[int, tuple[str, ...], int, int]]
) -> None:
    fuzzed = Fuzzed(strategy, period_ms)
    for step in steps:
        fuzzed.step(*step)
    bench = fuzzed.bench
    bench.tell(Tick())
    fuzzed.collect()
    due_ms = bench.automation.next_deadline_ms()
    assert due_ms is None or due_ms > bench.now_ms, "what is due was done"


@settings(max_examples=60)
@given(st.sampled_from(Strategy), st.lists(STEPS, max_size=60))
def test_everything_ends_when_the_world_behaves_again(
    strategy: Strategy, steps: list[tuple[int, tuple[str, ...], int, int]]
) -> None:
    fuzzed = Fuzzed(strategy, None)
    for step in steps:
        fuzzed.step(*step)
    bench = fuzzed.bench
    bench.tell(MembersSeen(NAME, MEMBERS, MEMBERS))
    bench.tell(ResumeRequested(NAME))
    for _ in range(80):
        fuzzed.collect()
        while fuzzed.checks or fuzzed.orders:
            fuzzed.checked(())
            fuzzed.succeed(())
            fuzzed.collect()
        if fuzzed.looks:
            fuzzed.looks = 0
            bench.listed()
        bench.pass_ms(30_000)
    assert not bench.duty.attempts.by_number
    assert bench.duty.attempts.at_work == 0
