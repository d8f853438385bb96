"""The timers of the machines of one contract.

A timer belongs to a machine and has a kind; setting it again moves it. The earliest is the contract's
next deadline: there is no polling, and a contract without timers costs nothing.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from rota.machine.tables import Event, Handler


class Timer:
    """A machine and the event that it gets; one that was moved or cancelled is no longer current."""

    __slots__ = ("event", "is_current", "kind", "machine")

    def __init__(self, machine: Handler, kind: str, event: Event) -> None:
        self.machine = machine
        self.kind = kind
        self.event = event
        self.is_current = True


class Timers:
    """A heap of deadlines; moved and cancelled ones are dropped when they come up.

    `next_due_ms` is when the earliest timer runs out.
    """

    def __init__(self) -> None:
        self.next_due_ms: int | None = None
        self._heap: list[tuple[int, int, Timer]] = []
        self._set: dict[int, dict[str, Timer]] = {}
        self._order = 0
        self._count = 0

    def set(self, machine: Handler, kind: str, due_ms: int, event: Event) -> None:
        """Give the machine this event at that time; an existing timer of that kind is moved."""
        self._order += 1
        entry = Timer(machine, kind, event)
        heap = self._heap
        mine = self._set.get(id(machine))
        if mine is None:
            mine = self._set[id(machine)] = {}
        moved = mine.get(kind)
        if moved is None:
            self._count += 1
        else:
            moved.is_current = False
        mine[kind] = entry
        heappush(heap, (due_ms, self._order, entry))
        if len(heap) > 2 * self._count + 64:
            self._heap = [item for item in heap if item[2].is_current]
            heapify(self._heap)
        if self.next_due_ms is None or due_ms < self.next_due_ms:
            self.next_due_ms = due_ms
        elif moved is not None:
            self._note_earliest()

    def is_set(self, machine: Handler, kind: str) -> bool:
        """Whether the machine waits for a timer of that kind."""
        return kind in self._set.get(id(machine), {})

    def cancel(self, machine: Handler, kind: str) -> None:
        """Forget one timer; it need not be set."""
        mine = self._set.get(id(machine))
        cancelled = mine.pop(kind, None) if mine else None
        if cancelled is not None:
            cancelled.is_current = False
            self._count -= 1
            self._note_earliest()

    def cancel_all(self, machine: Handler) -> None:
        """Cancel every timer of a machine that is about to end."""
        mine = self._set.pop(id(machine), {})
        self._count -= len(mine)
        for cancelled in mine.values():
            cancelled.is_current = False
        self._note_earliest()

    def pop_due(self, now_ms: int) -> Timer | None:
        """The earliest timer that has run out, if any; it is then no longer set."""
        if self.next_due_ms is None or self.next_due_ms > now_ms:
            return None
        entry = self._heap[0][2]
        self.cancel(entry.machine, entry.kind)
        return entry

    def _note_earliest(self) -> None:
        heap = self._heap
        while heap and not heap[0][2].is_current:
            heappop(heap)
        self.next_due_ms = heap[0][0] if heap else None
