"""Timers: what is due first comes first, what is moved or cancelled does not come, and nothing piles up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.machine.tables import Event
from rota.machine.timers import Timers

HEAP_SLACK = 64
MOVES = 1_000


class Owner:
    """Whom the timers tell; the tests ask the timers themselves."""

    def handle(self, event: Event) -> None:
        raise AssertionError("timers only say whom to tell")


class Rang(Event):
    """Raised by a timer; each one is itself alone."""


def next_due_ms(timers: Timers) -> int | None:
    return timers.next_due_ms


def pop_all(timers: Timers, now_ms: int) -> list[Event]:
    rung = []
    while (due := timers.pop_due(now_ms)) is not None:
        rung.append(due.event)
    return rung


def test_without_timers_nothing_is_due() -> None:
    timers = Timers()
    assert next_due_ms(timers) is None
    assert timers.pop_due(1_000_000) is None


def test_timer_is_due_at_its_time_and_not_before() -> None:
    timers, owner, event = Timers(), Owner(), Rang()
    timers.set(owner, "heartbeat", 500, event)
    assert next_due_ms(timers) == 500
    assert timers.pop_due(499) is None
    due = timers.pop_due(500)
    assert due is not None
    assert (due.machine, due.event) == (owner, event)


def test_timer_that_has_run_out_is_no_longer_set() -> None:
    timers, owner = Timers(), Owner()
    timers.set(owner, "heartbeat", 500, Rang())
    assert timers.is_set(owner, "heartbeat")
    timers.pop_due(500)
    assert not timers.is_set(owner, "heartbeat")
    assert next_due_ms(timers) is None


def test_earliest_comes_first() -> None:
    timers, owner = Timers(), Owner()
    late, early, middle = Rang(), Rang(), Rang()
    timers.set(owner, "late", 30, late)
    timers.set(owner, "early", 10, early)
    timers.set(owner, "middle", 20, middle)
    assert pop_all(timers, 100) == [early, middle, late]


def test_timers_of_one_time_come_in_the_order_of_setting() -> None:
    timers, one, other = Timers(), Owner(), Owner()
    events = [Rang(), Rang(), Rang()]
    timers.set(other, "b", 10, events[0])
    timers.set(one, "c", 10, events[1])
    timers.set(other, "a", 10, events[2])
    assert pop_all(timers, 10) == events


def test_setting_again_moves_a_timer_later() -> None:
    timers, owner, event = Timers(), Owner(), Rang()
    timers.set(owner, "heartbeat", 10, Rang())
    timers.set(owner, "heartbeat", 20, event)
    assert next_due_ms(timers) == 20
    assert timers.pop_due(10) is None
    assert pop_all(timers, 20) == [event]


def test_setting_again_moves_a_timer_earlier() -> None:
    timers, owner, event = Timers(), Owner(), Rang()
    timers.set(owner, "heartbeat", 20, Rang())
    timers.set(owner, "heartbeat", 10, event)
    assert next_due_ms(timers) == 10
    assert pop_all(timers, 20) == [event]


def test_timer_that_is_moved_goes_behind_the_others_of_its_time() -> None:
    timers, owner, moved, other = Timers(), Owner(), Rang(), Rang()
    timers.set(owner, "moved", 10, Rang())
    timers.set(owner, "other", 10, other)
    timers.set(owner, "moved", 10, moved)
    assert pop_all(timers, 10) == [other, moved]


def test_cancelled_timer_does_not_come() -> None:
    timers, owner, left = Timers(), Owner(), Rang()
    timers.set(owner, "cancelled", 10, Rang())
    timers.set(owner, "left", 20, left)
    timers.cancel(owner, "cancelled")
    assert not timers.is_set(owner, "cancelled")
    assert next_due_ms(timers) == 20
    assert pop_all(timers, 100) == [left]


def test_timer_that_is_not_set_may_be_cancelled() -> None:
    timers, owner, event = Timers(), Owner(), Rang()
    timers.cancel(owner, "never")
    timers.set(owner, "heartbeat", 10, event)
    timers.cancel(owner, "never")
    timers.cancel_all(Owner())
    assert pop_all(timers, 10) == [event]


def test_timer_can_be_set_after_it_was_cancelled() -> None:
    timers, owner, event = Timers(), Owner(), Rang()
    timers.set(owner, "heartbeat", 10, Rang())
    timers.cancel(owner, "heartbeat")
    timers.set(owner, "heartbeat", 10, event)
    assert pop_all(timers, 10) == [event]


def test_all_timers_of_one_machine_are_cancelled_and_no_others() -> None:
    timers, gone, left, event = Timers(), Owner(), Owner(), Rang()
    timers.set(gone, "heartbeat", 10, Rang())
    timers.set(gone, "lease", 20, Rang())
    timers.set(left, "heartbeat", 30, event)
    timers.cancel_all(gone)
    assert not timers.is_set(gone, "heartbeat")
    assert not timers.is_set(gone, "lease")
    assert timers.is_set(left, "heartbeat")
    assert pop_all(timers, 100) == [event]


def test_machines_do_not_share_a_kind() -> None:
    timers, one, other = Timers(), Owner(), Owner()
    timers.set(one, "heartbeat", 10, Rang())
    timers.set(other, "heartbeat", 20, Rang())
    timers.cancel(one, "heartbeat")
    assert not timers.is_set(one, "heartbeat")
    assert timers.is_set(other, "heartbeat")


def test_timers_that_were_moved_do_not_pile_up() -> None:
    timers, owner = Timers(), Owner()
    alive: WeakSet[Rang] = WeakSet()
    for due_ms in range(MOVES):
        event = Rang()
        alive.add(event)
        timers.set(owner, "heartbeat", due_ms, event)
    assert len(alive) <= 2 + HEAP_SLACK
    assert next_due_ms(timers) == MOVES - 1
    assert len(pop_all(timers, MOVES)) == 1


def test_timers_that_were_moved_do_not_pile_up_behind_an_earlier_one() -> None:
    timers, owner, first, event = Timers(), Owner(), Rang(), Rang()
    timers.set(owner, "startup", 0, first)
    alive: WeakSet[Rang] = WeakSet()
    for due_ms in range(1, MOVES):
        event = Rang()
        alive.add(event)
        timers.set(owner, "heartbeat", due_ms, event)
    assert len(alive) <= 2 * 2 + HEAP_SLACK
    assert next_due_ms(timers) == 0
    assert pop_all(timers, MOVES) == [first, event]


@pytest.mark.parametrize(
    "drop",
    [lambda timers, owner: timers.cancel(owner, "heartbeat"), lambda timers, owner: timers.cancel_all(owner)],
    ids=["one", "all"],
)
def test_timers_that_were_cancelled_do_not_pile_up(drop: Callable[[Timers, Owner], None]) -> None:
    timers = Timers()
    alive: WeakSet[Rang] = WeakSet()
    for due_ms in range(MOVES):
        owner, event = Owner(), Rang()
        alive.add(event)
        timers.set(owner, "heartbeat", due_ms, event)
        drop(timers, owner)
    assert len(alive) <= 2 + HEAP_SLACK
    assert next_due_ms(timers) is None


# Against a model that keeps a plain list and looks through all of it.


@dataclass(frozen=True, slots=True)
class SetTimer:
    owner: int
    kind: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    owner: int
    kind: str


@dataclass(frozen=True, slots=True)
class CancelAll:
    owner: int


@dataclass(frozen=True, slots=True)
class PopDue:
    now_ms: int


Step = SetTimer | CancelTimer | CancelAll | PopDue

OWNERS = 3
KINDS = ("heartbeat", "lease")
LATEST_MS = 20

owners = st.integers(0, OWNERS - 1)
kinds = st.sampled_from(KINDS)
times_ms = st.integers(0, LATEST_MS)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(SetTimer, owners, kinds, times_ms),
    st.builds(SetTimer, owners, kinds, times_ms),
    st.builds(CancelTimer, owners, kinds),
    st.builds(CancelAll, owners),
    st.builds(PopDue, times_ms),
)


@dataclass
class NaiveTimers:
    """In the order of setting."""

    pending: list[tuple[SetTimer, Rang]] = field(default_factory=list)

    def remove(self, owner: int, *removed: str) -> None:
        self.pending = [entry for entry in self.pending if entry[0].owner != owner or entry[0].kind not in removed]

    def set(self, timer: SetTimer, event: Rang) -> None:
        self.remove(timer.owner, timer.kind)
        self.pending.append((timer, event))

    def is_set(self, owner: int, kind: str) -> bool:
        return any((timer.owner, timer.kind) == (owner, kind) for timer, _ in self.pending)

    def next_due_ms(self) -> int | None:
        return min((timer.due_ms for timer, _ in self.pending), default=None)

    def pop_due(self, now_ms: int) -> tuple[int, Rang] | None:
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        timer, event = next(entry for entry in self.pending if entry[0].due_ms == due_ms)
        self.remove(timer.owner, timer.kind)
        return timer.owner, event


def test_naive_timers_keep_the_order_of_setting() -> None:
    naive, first, second = NaiveTimers(), Rang(), Rang()
    naive.set(SetTimer(0, "lease", 5), first)
    naive.set(SetTimer(1, "lease", 5), second)
    assert [naive.pop_due(5), naive.pop_due(5), naive.pop_due(5)] == [(0, first), (1, second), None]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(steps, max_size=200))
def test_timers_do_what_a_plain_list_would(taken: list[Step]) -> None:
    timers, naive = Timers(), NaiveTimers()
    machines = [Owner() for _ in range(OWNERS)]
    for step in (*taken, *[PopDue(LATEST_MS)] * (OWNERS * len(KINDS) + 1)):
        match step:
            case SetTimer():
                event = Rang()
                timers.set(machines[step.owner], step.kind, step.due_ms, event)
                naive.set(step, event)
            case CancelTimer():
                timers.cancel(machines[step.owner], step.kind)
                naive.remove(step.owner, step.kind)
            case CancelAll():
                timers.cancel_all(machines[step.owner])
                naive.remove(step.owner, *KINDS)
            case PopDue():
                expected = naive.pop_due(step.now_ms)
                due = timers.pop_due(step.now_ms)
                told = None if due is None else (due.machine, due.event)
                assert told == (None if expected is None else (machines[expected[0]], expected[1]))
        assert next_due_ms(timers) == naive.next_due_ms()
        for owner, machine in enumerate(machines):
            for kind in KINDS:
                assert timers.is_set(machine, kind) == naive.is_set(owner, kind)
    assert next_due_ms(timers) is None
