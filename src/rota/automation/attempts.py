"""Attempts under way, and the book in which a trigger keeps them.

An attempt is for one task, or for several with one action key. It is in one of six phases:

    CHECKING ──► WAITING ──► QUEUED ──► CHECKING_AGAIN ──► PERFORMING ──► JUDGING
       ▲            │ ▲         (for a place)                                │
       done?        │ └──────────────── backoff ◄────────────────────────────┘ not done: refused, or the world was away
                    └─► gone, as soon as all its tasks are seen to be done

A refused attempt is *judged* by whether its tasks are done: a task that is done was lost to another member, the others
have failed. So the ledger separates contention from failure, and not the words of an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final

from rota.automation.strategies import Turn
from rota.automation.triggers import Task

STALE_ENTRIES_MIN: Final = 64


class Phase(Enum):
    """The phase of an attempt."""

    CHECKING = "checking"
    WAITING = "waiting"
    QUEUED = "queued"
    CHECKING_AGAIN = "checking again"
    PERFORMING = "performing"
    JUDGING = "judging"


# Those that occupy one of the trigger's places.
AT_WORK: Final = (Phase.CHECKING_AGAIN, Phase.PERFORMING, Phase.JUDGING)
# Those that more tasks may join.
OPEN: Final = (Phase.CHECKING, Phase.WAITING, Phase.QUEUED)


@dataclass(slots=True)
class Attempt:
    """One attempt."""

    number: int
    key: str
    tasks: dict[str, Task]
    began_ms: int
    ready_ms: int
    phase: Phase = Phase.CHECKING
    due_ms: int = 0
    turn: Turn | None = None
    retries: int = 0
    refusals: int = 0
    postponed: int = 0
    performing_since_ms: int = 0
    trouble: str = ""
    # The node or its chain was unavailable when it was performed.
    is_away: bool = False
    # That was so once, and our action of then may still be the one that performs it.
    may_be_ours: bool = False
    # A part of a refused batch: no task joins it.
    is_part: bool = False
    # Requested by an operator: no delay, no retry.
    is_forced: bool = False

    @property
    def group(self) -> int:
        """Its order in the queue: tasks whose turn is ours come first."""
        return self.turn.group if self.turn is not None else 0


@dataclass(slots=True)
class Attempts:
    """All attempts of one trigger: by number, by task, those that are due, and those that wait for a place."""

    by_number: dict[int, Attempt] = field(default_factory=dict)
    by_task: dict[str, int] = field(default_factory=dict)
    at_work: int = 0
    _open_by_key: dict[str, int] = field(default_factory=dict)
    _due: list[tuple[int, int]] = field(default_factory=list)
    _queue: list[tuple[int, int, int]] = field(default_factory=list)
    _next_number: int = 1

    def begin(self, key: str, tasks: dict[str, Task], now_ms: int, ready_ms: int) -> Attempt:
        """Create an attempt."""
        attempt = Attempt(self._next_number, key, tasks, now_ms, ready_ms)
        self._next_number += 1
        self.by_number[attempt.number] = attempt
        for task in tasks:
            assert task not in self.by_task, "a task is in one attempt at a time"
            self.by_task[task] = attempt.number
        self._open_by_key[key] = attempt.number
        return attempt

    def open_for(self, key: str) -> Attempt | None:
        """The attempt that a task with this key may join."""
        attempt = self.by_number.get(self._open_by_key.get(key, 0))
        if attempt is None or attempt.phase not in OPEN or attempt.is_part or attempt.is_forced:
            return None
        return attempt

    def join(self, attempt: Attempt, task: Task) -> None:
        """Add a task to an attempt that has not begun."""
        attempt.tasks[task.id] = task
        self.by_task[task.id] = attempt.number

    def of(self, task: str) -> Attempt | None:
        """The attempt with this task."""
        number = self.by_task.get(task)
        return None if number is None else self.by_number[number]

    def drop_task(self, attempt: Attempt, task: str) -> None:
        """Remove a task; an attempt without tasks ends."""
        del attempt.tasks[task]
        del self.by_task[task]
        if not attempt.tasks:
            self.end(attempt)

    def end(self, attempt: Attempt) -> None:
        """End it, with all tasks that are still in it."""
        self.enter(attempt, Phase.WAITING)
        for task in attempt.tasks:
            del self.by_task[task]
        del self.by_number[attempt.number]
        if self._open_by_key.get(attempt.key) == attempt.number:
            del self._open_by_key[attempt.key]

    def enter(self, attempt: Attempt, phase: Phase) -> None:
        """Change its phase."""
        self.at_work += (phase in AT_WORK) - (attempt.phase in AT_WORK)
        attempt.phase = phase

    # Due attempts.

    def wait(self, attempt: Attempt, due_ms: int) -> None:
        """Let it be due at this time."""
        self.enter(attempt, Phase.WAITING)
        attempt.due_ms = due_ms
        heappush(self._due, (due_ms, attempt.number))
        if len(self._due) > STALE_ENTRIES_MIN + 2 * len(self.by_number):
            self._due = [(each.due_ms, each.number) for each in self._waiting()]
            heapify(self._due)

    def next_due_ms(self) -> int | None:
        """When the next one is due."""
        while self._due and not self._is_current(*self._due[0]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> Iterator[Attempt]:
        """All that are due, the earliest first."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            yield self.by_number[heappop(self._due)[1]]

    def _is_current(self, due_ms: int, number: int) -> bool:
        attempt = self.by_number.get(number)
        return attempt is not None and attempt.phase is Phase.WAITING and attempt.due_ms == due_ms

    def _waiting(self) -> list[Attempt]:
        return [each for each in self.by_number.values() if each.phase is Phase.WAITING]

    # Attempts that wait for a place.

    def queue(self, attempt: Attempt) -> None:
        """It is due, and begins when there is a place."""
        self.enter(attempt, Phase.QUEUED)
        heappush(self._queue, (attempt.group, attempt.due_ms, attempt.number))
        if len(self._queue) > STALE_ENTRIES_MIN + 2 * len(self.by_number):
            self._queue = [(each.group, each.due_ms, each.number) for each in self.queued()]
            heapify(self._queue)

    def queued(self) -> list[Attempt]:
        """All that wait for a place."""
        return [each for each in self.by_number.values() if each.phase is Phase.QUEUED]

    def take_queued(self) -> Attempt | None:
        """The next one that waits for a place."""
        while self._queue:
            attempt = self.by_number.get(heappop(self._queue)[2])
            if attempt is not None and attempt.phase is Phase.QUEUED:
                return attempt
        return None
