"""One trigger at one node: which of its tasks are attempted, when, and how results are handled.

Theory of operation. Every member attempts every task, and the ledger lets the first one win. A duty learns of tasks by
listing all of them (`TasksListed`), by events of the ledger (`TasksFound`, `TaskDone`) and by its own schedule. Each
becomes an attempt (`attempts`): checked, delayed by the strategy, checked again, performed. A task that is seen to be
done is cancelled in any phase.

No failure is lost: a refused task that is not done is retried with backoff, a batch in halves, so that a bad task is
found; a task that is refused `REFUSALS_MAX` times alone is set aside and reported. When the trigger fails as a whole,
its breaker opens. Tasks beyond a bound are left to a later listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rota.automation.attempts import Attempt, Attempts, Phase
from rota.automation.breaker import Breaker, BreakerState
from rota.automation.draws import Draws
from rota.automation.effects import CheckStaleness, Effect, KeepPause, KeepSetAside, ListTasks, Perform, ReportRun, Warn
from rota.automation.settings import (
    BATCH_TASKS_MAX,
    ENDINGS_KEPT,
    POSTPONED_MAX,
    REFUSALS_MAX,
    SET_ASIDE_MAX,
    TASKS_MAX,
    TEXT_MAX,
    Strategy,
    TriggerSettings,
)
from rota.automation.standing import Durations, LedgerClock, Standing
from rota.automation.strategies import Member, backoff_ms, random_delay_ms, turn_of
from rota.automation.tallies import Outcome, Tally
from rota.automation.triggers import Task

Kept = TypeVar("Kept")

NOT_A_MEMBER: Final = "this node is no member, so that the ledger would refuse it"
NO_MEMBERS: Final = "who the members are has not been seen yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DutySetup:
    """The start of a duty. `has_endings`: events of the ledger name the member that performed a task."""

    name: str
    settings: TriggerSettings
    member: Member
    is_local: bool = False
    period_ms: int | None = None
    has_endings: bool = True
    is_paused: bool = False
    set_aside: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Run:
    """A run that an operator requested."""

    is_listing: bool
    tally: dict[Outcome, int]


class Duty:
    """One trigger at one node. Effects gather in `effects` and are taken from there after each step."""

    def __init__(self, setup: DutySetup, draws: Draws, clock: LedgerClock) -> None:
        self.name: Final = setup.name
        self.settings: Final = setup.settings
        self.member: Final = setup.member
        self.is_local: Final = setup.is_local
        self.tally: Final = Tally()
        self.breaker: Final = Breaker()
        self.attempts: Final = Attempts()
        self.set_aside: Final[dict[str, str]] = dict(setup.set_aside)
        self.is_paused = setup.is_paused
        self.members: tuple[Member, ...] = (setup.member,) if setup.is_local else ()
        self.trouble = ""
        self.now_ms = 0
        self.effects: Final[list[Effect]] = []
        self._ranked: tuple[Member, ...] = ()
        self._setup: Final = setup
        self._draws: Final = draws
        self._clock: Final = clock
        self._standing: Final = Standing()
        self._durations: Final = Durations(setup.settings.expected_task_duration_ms)
        self._look_due_ms = 0
        self._is_looking = False
        self._listed: Mapping[str, Task] = {}
        self._is_full = False
        self._latest_period = -1
        self._endings: Final[dict[str, Member | None]] = {}
        self._own_wins: Final[dict[str, int]] = {}
        # The key and the ready time of tasks for which members have an order.
        self._ranked_tasks: Final[dict[str, tuple[str, int]]] = {}
        self._run: _Run | None = None

    # The present state.

    @property
    def is_able(self) -> bool:
        """Whether it attempts anything."""
        return not self.is_paused and self.member in self.members

    @property
    def strategy(self) -> Strategy:
        """The strategy in use: `rank` when it is ours and every member announces it."""
        if self.settings.strategy is Strategy.RANK and all(each in self._ranked for each in self.members):
            return Strategy.RANK
        return Strategy.RANDOM

    @property
    def slot_ms(self) -> int:
        """The present length of a slot of `rank`."""
        return self._durations.slot_ms

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is due."""
        deadlines = [self.attempts.next_due_ms()]
        if self.is_able:
            deadlines.append(None if self._is_looking else self._look_due_ms)
            deadlines.append(self._next_period_ms())
        return min((each for each in deadlines if each is not None), default=None)

    # Time.

    def tick(self) -> None:
        """List tasks if that is due, and continue due attempts."""
        if self.is_able:
            if not self._is_looking and self.now_ms >= self._look_due_ms:
                self._look()
            self._take_period()
        for attempt in self.attempts.take_due(self.now_ms):
            self._come_due(attempt)
        self._fill_places()

    def look_soon(self) -> None:
        """List at once, and again if a listing is under way that may be too old."""
        self._look_due_ms = self.now_ms

    def _look(self) -> None:
        self._is_looking = True
        self._look_due_ms = self.now_ms + self.settings.polling_interval_ms
        self.effects.append(ListTasks(self.name))

    def _next_period_ms(self) -> int | None:
        if self._setup.period_ms is None:
            return None
        return self._clock.own_ms((self._latest_period + 1) * self._setup.period_ms)

    def _take_period(self) -> None:
        """The task of the present period; periods that this node missed are over."""
        if self._setup.period_ms is None:
            return
        period = self._clock.ledger_ms(self.now_ms) // self._setup.period_ms
        if period > self._latest_period:
            self._latest_period = period
            self.take((period_task(self.name, period, self._setup.period_ms),))

    # Members.

    def members_seen(self, members: tuple[Member, ...], ranked: tuple[Member, ...]) -> None:
        """The members that may perform tasks; a new member lists at once."""
        was_able = self.is_able
        self.members = members
        self._ranked = (*ranked, self.member)
        self._standing.keep(members)
        if self.is_able and not was_able:
            self._look_due_ms = self.now_ms
        elif was_able and not self.is_able:
            self._drop_waiting()

    # Tasks.

    def tasks_listed(self, tasks: tuple[Task, ...]) -> None:
        """All open tasks: those that were listed before and are not any more are done."""
        self._is_looking = False
        self.trouble = ""
        listed = {task.id: task for task in tasks[:TASKS_MAX]}
        if self.is_able:
            for task in self._listed:
                if task not in listed:
                    self.task_done(task, None)
            self._listed = listed
            self.take(listed.values())
        if self._run is not None and self._run.is_listing:
            self._force(listed)
        self._fill_places()

    def listing_failed(self, reason: str) -> None:
        """The next listing retries it."""
        self._is_looking = False
        self.trouble = reason[:TEXT_MAX]
        if self._run is not None and self._run.is_listing:
            self._run = None
            self.effects.append(ReportRun(self.name, 0, 0, 0, 0, self.trouble))

    def tasks_found(self, tasks: tuple[Task, ...]) -> None:
        """Some tasks, from an event; one that is known to be done is ignored."""
        self.take(task for task in tasks if task.id not in self._endings)

    def take(self, tasks: Iterable[Task]) -> None:
        """Attempt each, together with others of its key that have not begun."""
        if not self.is_able:
            return
        for task in tasks:
            if task.id in self.attempts.by_task or task.id in self.set_aside:
                continue
            if len(self.attempts.by_task) >= TASKS_MAX:
                self._warn_of_too_many()
                return
            self._is_full = False
            ready_ms = self._clock.own_ms(task.ready_ms) if task.ready_ms else self.now_ms
            attempt = self.attempts.open_for(task.key)
            if (
                attempt is not None
                and len(attempt.tasks) < BATCH_TASKS_MAX
                and ready_ms <= max(self.now_ms, attempt.ready_ms)
            ):
                self.attempts.join(attempt, task)
            else:
                self._check(self.attempts.begin(task.key, {task.id: task}, self.now_ms, ready_ms), Phase.CHECKING)

    def _warn_of_too_many(self) -> None:
        if not self._is_full:
            self._is_full = True
            self.effects.append(Warn(self.name, f"more than {TASKS_MAX} tasks: the others wait for a later look"))

    def task_done(self, task: str, by: Member | None) -> None:
        """Cancel it in any phase, and record which member was at work."""
        if by is not None:
            self._learn(task, by)
        self._remember_ending(task, by)
        if task in self.set_aside:
            self._put_back(task)
        attempt = self.attempts.of(task)
        if attempt is not None and attempt.phase not in (Phase.PERFORMING, Phase.JUDGING):
            self._skip(attempt, task)
        self._fill_places()

    def _learn(self, task: str, by: Member) -> None:
        attempt = self.attempts.of(task)
        if by in self.members:
            self._learn_misses(task, by)
            self._standing.won(by, self.now_ms)
        since_ms = self._own_wins.pop(task, None)
        if since_ms is None and attempt is not None and attempt.phase is Phase.PERFORMING:
            since_ms = attempt.performing_since_ms
        if since_ms is not None and by == self.member:
            self._durations.measured(self.now_ms - since_ms)

    def _learn_misses(self, task: str, by: Member) -> None:
        """By the present order of all members, and not by the order when the task was new."""
        found = self._ranked_tasks.pop(task, None)
        if found is not None:
            key, ready_ms = found
            ledger_ms = self._clock.ledger_ms(ready_ms)
            turn = turn_of(key, by, self.members, self._standing.back(ledger_ms), ready_ms, self.slot_ms)
            for member in turn.ahead:
                self._standing.missed(member, ledger_ms, ready_ms)

    def _remember_ending(self, task: str, by: Member | None) -> None:
        _keep(self._endings, task, by if by is not None else self._endings.get(task))

    def _skip(self, attempt: Attempt, task: str) -> None:
        """Another member has done it before we began, unless it was an unnoticed transaction of ours."""
        is_ours = attempt.may_be_ours and self._endings.get(task) == self.member
        self._count(attempt, Outcome.WON if is_ours else Outcome.SKIPPED)
        self._drop(attempt, task)

    # An attempt, from its first check to its place.

    def staleness_known(self, number: int, stale: tuple[str, ...]) -> None:
        """The answer to a check; answers to checks that are no longer open are ignored."""
        attempt = self.attempts.by_number.get(number)
        if attempt is None:
            return
        if attempt.phase is Phase.JUDGING:
            self._judge(attempt, stale)
        else:
            for task in [each for each in stale if each in attempt.tasks]:
                self._skip(attempt, task)
            if attempt.tasks:
                self._go_on(attempt)
        self._fill_places()

    def staleness_unknown(self, number: int, reason: str) -> None:
        """The first check may be skipped; the later ones may not."""
        attempt = self.attempts.by_number.get(number)
        if attempt is None:
            return
        if attempt.phase is Phase.CHECKING:
            self._go_on(attempt)
        else:
            attempt.is_away, attempt.trouble = True, reason
            self._fail(attempt)
        self._fill_places()

    def _check(self, attempt: Attempt, phase: Phase) -> None:
        self.attempts.enter(attempt, phase)
        self.effects.append(CheckStaleness(self.name, attempt.number, tuple(attempt.tasks.values())))

    def _go_on(self, attempt: Attempt) -> None:
        if attempt.phase is Phase.CHECKING:
            self.attempts.wait(attempt, self._planned_ms(attempt))
            if attempt.due_ms <= self.now_ms:
                self._come_due(attempt)
        elif attempt.phase is Phase.CHECKING_AGAIN:
            self.attempts.enter(attempt, Phase.PERFORMING)
            attempt.performing_since_ms, attempt.is_away = self.now_ms, False
            self.effects.append(Perform(self.name, attempt.number, tuple(attempt.tasks.values())))

    def _planned_ms(self, attempt: Attempt) -> int:
        begin_ms = max(self.now_ms, attempt.ready_ms)
        if self.is_local or attempt.is_forced:
            return begin_ms
        if self.strategy is Strategy.RANDOM:
            return begin_ms + random_delay_ms(self.settings, len(self.members), self._draws)
        back = self._standing.back(self._clock.ledger_ms(attempt.ready_ms))
        attempt.turn = turn_of(attempt.key, self.member, self.members, back, attempt.ready_ms, self.slot_ms)
        for task in attempt.tasks:
            _keep(self._ranked_tasks, task, (attempt.key, attempt.ready_ms))
        return attempt.turn.start_ms(self.now_ms)

    def _come_due(self, attempt: Attempt) -> None:
        if attempt.is_forced:
            self.attempts.queue(attempt)
            return
        state, open_until_ms = self.breaker.state(self.now_ms), self.breaker.open_until_ms
        if state is BreakerState.OPEN and open_until_ms is not None:
            self.attempts.wait(attempt, open_until_ms + self._draws.below(self.settings.expected_task_duration_ms))
        elif self._gives_way(attempt):
            attempt.postponed += 1
            self.attempts.wait(attempt, self.now_ms + self.slot_ms)
        else:
            self.attempts.queue(attempt)

    def _gives_way(self, attempt: Attempt) -> bool:
        """A member before us is at work and will reach this task: a backlog stays with the members whose turn it is."""
        if attempt.turn is None or attempt.postponed >= POSTPONED_MAX or attempt.retries:
            return False
        since_ms = self.now_ms - self.slot_ms
        return any(self._standing.has_won_since(member, since_ms) for member in attempt.turn.ahead)

    def _fill_places(self) -> None:
        while self.attempts.at_work < self._places() and (attempt := self.attempts.take_queued()) is not None:
            self.tally.waits.add(self.now_ms - min(self.now_ms, max(attempt.began_ms, attempt.ready_ms)))
            self._check(attempt, Phase.CHECKING_AGAIN)

    def _places(self) -> int:
        """One attempt alone shows whether a trigger that failed works again."""
        return self.settings.parallel_tasks if self.breaker.state(self.now_ms) is BreakerState.CLOSED else 1

    # Results.

    def performed(self, number: int, done: tuple[str, ...]) -> None:
        """Our action was first for the `done` tasks; the other tasks of the attempt are judged."""
        attempt = self.attempts.by_number.get(number)
        if attempt is None or attempt.phase is not Phase.PERFORMING:
            return
        self._measure(attempt)
        self.breaker.went_through()
        for task in done:
            self._win(attempt, task)
        if attempt.tasks:
            attempt.trouble = "the transaction did not perform it"
            self._check(attempt, Phase.JUDGING)
        self._fill_places()

    def _win(self, attempt: Attempt, task: str) -> None:
        self._count(attempt, Outcome.WON)
        if self._endings.get(task) is None:
            _keep(self._own_wins, task, attempt.performing_since_ms)
        self._remember_ending(task, self.member)
        self._standing.won(self.member, self.now_ms)
        if task in self.set_aside:
            self._put_back(task)
        holder = self.attempts.of(task)
        if holder is attempt or (holder is not None and holder.phase not in (Phase.PERFORMING, Phase.JUDGING)):
            self._drop(holder, task)

    def refused(self, number: int, reason: str) -> None:
        """Another member was faster, or the task is bad: whether it is done decides."""
        self._end_performing(number, reason, is_away=False)

    def not_performed(self, number: int, reason: str) -> None:
        """It may have been performed all the same: whether it is done, and by whom, decides."""
        self._end_performing(number, reason, is_away=True)

    def _end_performing(self, number: int, reason: str, *, is_away: bool) -> None:
        attempt = self.attempts.by_number.get(number)
        if attempt is None or attempt.phase is not Phase.PERFORMING:
            return
        self._measure(attempt)
        attempt.trouble, attempt.is_away = reason, is_away
        attempt.may_be_ours = attempt.may_be_ours or is_away
        self._check(attempt, Phase.JUDGING)

    def _measure(self, attempt: Attempt) -> None:
        duration_ms = self.now_ms - attempt.performing_since_ms
        self.tally.durations.add(duration_ms)
        if not self._setup.has_endings:
            self._durations.measured(duration_ms)

    def _judge(self, attempt: Attempt, stale: tuple[str, ...]) -> None:
        for task in [each for each in stale if each in attempt.tasks]:
            by = self._endings.get(task)
            if attempt.may_be_ours and by == self.member:
                self._count(attempt, Outcome.WON)
            else:
                self._count(attempt, Outcome.LOST)
                if attempt.turn is not None and by in attempt.turn.ahead:
                    self._durations.was_too_short()
            self.breaker.went_through()
            self._drop(attempt, task)
        if attempt.tasks:
            self._fail(attempt)

    def _fail(self, attempt: Attempt) -> None:
        """It is not done: retry it, in halves, or set it aside."""
        self._count(attempt, Outcome.FAILED, len(attempt.tasks))
        self.trouble = attempt.trouble[:TEXT_MAX]
        if attempt.is_away:
            self._rest_if(self.breaker.was_away(self.now_ms))
        elif len(attempt.tasks) == 1:
            attempt.refusals += 1
            self._rest_if(self.breaker.refused(next(iter(attempt.tasks)), self.now_ms))
        if attempt.is_forced or not self.is_able:
            self._end(attempt)
        elif attempt.is_away:
            self._retry(attempt)
        elif len(attempt.tasks) > 1:
            self._halve(attempt)
        elif attempt.refusals >= REFUSALS_MAX:
            self._put_aside(attempt)
        else:
            self._retry(attempt)

    def _retry(self, attempt: Attempt) -> None:
        delay_ms = backoff_ms(self.settings, attempt.retries, self._draws)
        attempt.retries += 1
        self.attempts.wait(attempt, self.now_ms + delay_ms)

    def _halve(self, attempt: Attempt) -> None:
        """One of the tasks may be bad: try the halves at once, each by itself."""
        tasks = tuple(attempt.tasks.items())
        self.attempts.end(attempt)
        for part in (tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :]):
            half = self.attempts.begin(attempt.key, dict(part), attempt.began_ms, attempt.ready_ms)
            half.is_part, half.turn, half.retries = True, attempt.turn, 1
            half.due_ms = self.now_ms
            self._come_due(half)

    def _put_aside(self, attempt: Attempt) -> None:
        task = next(iter(attempt.tasks))
        reason = attempt.trouble[:TEXT_MAX]
        self.set_aside[task] = reason
        self.effects.append(KeepSetAside(self.name, task, reason))
        self.effects.append(Warn(self.name, f"{task} is set aside after {attempt.refusals} refusals: {reason}"))
        self._end(attempt)
        if len(self.set_aside) > SET_ASIDE_MAX:
            self._put_back(next(iter(self.set_aside)))

    def _put_back(self, task: str) -> None:
        del self.set_aside[task]
        self.effects.append(KeepSetAside(self.name, task, None))

    def _rest_if(self, has_opened: bool) -> None:
        """Attempts that wait for a place wait for the breaker now, except those that an operator requested."""
        if not has_opened:
            return
        self.effects.append(Warn(self.name, f"its breaker is open, the trigger rests: {self.trouble}"))
        for attempt in self.attempts.queued():
            if not attempt.is_forced:
                self._come_due(attempt)

    # Operators.

    def pause(self) -> None:
        """An action under way is not undone; nothing else begins."""
        self.is_paused = True
        self.effects.append(KeepPause(self.name, is_paused=True))
        self._drop_waiting()

    def resume(self) -> None:
        """List at once, and retry tasks that were set aside."""
        self.is_paused = False
        self.effects.append(KeepPause(self.name, is_paused=False))
        for task in tuple(self.set_aside):
            self._put_back(task)
        self.breaker.went_through()
        self._look_due_ms = self.now_ms

    def run_once(self) -> None:
        """Attempt all ready tasks now; a request during a run gets the result of that run."""
        if self.member not in self.members:
            self.effects.append(ReportRun(self.name, 0, 0, 0, 0, NOT_A_MEMBER if self.members else NO_MEMBERS))
        elif self._run is None:
            self._run = _Run(True, dict.fromkeys(Outcome, 0))
            if not self._is_looking:
                self._look()

    def _force(self, listed: Mapping[str, Task]) -> None:
        assert self._run is not None, "there is a run"
        self._run.is_listing = False
        wanted = dict(listed)
        if self._setup.period_ms is not None:
            period = self._clock.ledger_ms(self.now_ms) // self._setup.period_ms
            task = period_task(self.name, period, self._setup.period_ms)
            wanted[task.id] = task
        for task in wanted.values():
            if self._clock.own_ms(task.ready_ms) > self.now_ms:
                continue
            attempt = self.attempts.of(task.id)
            if attempt is not None and attempt.phase in (Phase.PERFORMING, Phase.JUDGING):
                attempt.is_forced = True
                continue
            if attempt is not None:
                self.attempts.drop_task(attempt, task.id)
            forced = self.attempts.begin(task.key, {task.id: task}, self.now_ms, self.now_ms)
            forced.is_forced = True
            self.attempts.queue(forced)
        self._end_run()

    def _end_run(self) -> None:
        """It ends when none of its attempts is under way."""
        run = self._run
        if run is None or run.is_listing or any(each.is_forced for each in self.attempts.by_number.values()):
            return
        self._run = None
        self.effects.append(
            ReportRun(
                self.name,
                run.tally[Outcome.WON],
                run.tally[Outcome.LOST],
                run.tally[Outcome.SKIPPED],
                run.tally[Outcome.FAILED],
                self.trouble if run.tally[Outcome.FAILED] else "",
            )
        )

    def _drop_waiting(self) -> None:
        for attempt in tuple(self.attempts.by_number.values()):
            if attempt.phase not in (Phase.PERFORMING, Phase.JUDGING) and not attempt.is_forced:
                self.attempts.end(attempt)

    # Books.

    def _count(self, attempt: Attempt, outcome: Outcome, tasks: int = 1) -> None:
        self.tally.count(outcome, tasks)
        if attempt.is_forced and self._run is not None:
            self._run.tally[outcome] += tasks

    def _drop(self, attempt: Attempt, task: str) -> None:
        self.attempts.drop_task(attempt, task)
        if attempt.is_forced and not attempt.tasks:
            self._end_run()

    def _end(self, attempt: Attempt) -> None:
        self.attempts.end(attempt)
        if attempt.is_forced:
            self._end_run()


def _keep(book: dict[str, Kept], task: str, value: Kept) -> None:
    """Record a value; the latest `ENDINGS_KEPT` stay."""
    book.pop(task, None)
    book[task] = value
    if len(book) > ENDINGS_KEPT:
        del book[next(iter(book))]


def period_task(trigger: str, period: int, period_ms: int) -> Task:
    """The task of one period of a schedule; all nodes give it the same id."""
    return Task(f"{trigger}/{period}", period * period_ms, arguments=(period,))
