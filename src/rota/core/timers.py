"""What is due when, for the machines of one contract.

A timer belongs to a machine and has a kind; setting it again moves it. The earliest is the contract's
next deadline: nobody polls, and a contract without timers costs nothing.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from rota.core.machine import Event, Handler


class Due(NamedTuple):
    """A timer that has run out: whom to tell what."""

    machine: Handler
    event: Event


class _Entry(NamedTuple):
    due_ms: int
    order: int
    machine: Handler
    kind: str
    event: Event


class Timers:
    """A heap of deadlines; moved and cancelled ones are dropped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Entry]] = []
        self._set: dict[int, dict[str, _Entry]] = {}
        self._order = 0
        self._count = 0

    def set(self, machine: Handler, kind: str, due_ms: int, event: Event) -> None:
        """Tell the machine this event at that time; a timer of that kind that it had is moved."""
        self._order += 1
        entry = _Entry(due_ms, self._order, machine, kind, event)
        mine = self._set.setdefault(id(machine), {})
        self._count += kind not in mine
        mine[kind] = entry
        heappush(self._heap, (due_ms, self._order, entry))
        if len(self._heap) > 2 * self._count + 64:
            self._heap = [item for item in self._heap if self._is_current(item[2])]
            heapify(self._heap)

    def is_set(self, machine: Handler, kind: str) -> bool:
        """Whether the machine waits for a timer of that kind."""
        return kind in self._set.get(id(machine), {})

    def cancel(self, machine: Handler, kind: str) -> None:
        """Forget one timer; it need not be set."""
        mine = self._set.get(id(machine), {})
        if mine.pop(kind, None) is not None:
            self._count -= 1

    def cancel_all(self, machine: Handler) -> None:
        """Forget every timer of a machine that is about to go."""
        self._count -= len(self._set.pop(id(machine), {}))

    def next_due_ms(self) -> int | None:
        """When the earliest timer runs out."""
        while self._heap and not self._is_current(self._heap[0][2]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Due | None:
        """The earliest timer that has run out, if any; it is then no longer set."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        entry = heappop(self._heap)[2]
        self.cancel(entry.machine, entry.kind)
        return Due(entry.machine, entry.event)

    def _is_current(self, entry: _Entry) -> bool:
        return self._set.get(id(entry.machine), {}).get(entry.kind) is entry
