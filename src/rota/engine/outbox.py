"""The effects of a node that have not left: none leaves before the records that it rests on are durable (protocol §8).

Theory of operation. Effects leave in the order in which the core ordered them. The outbox passes a write to the store
as soon as it is ordered, so that all writes of a turn share one database transaction; everything behind it waits here
until it is durable. So what is durable is always a prefix of what the core ordered, and nothing leaves that rests on
more. The core does not wait: it goes on as if each write were done.

The store repeats a write until it is done (`store/write_queue.py`), so no write fails. A store that takes none for
`STALL_S` holds the node: the engine takes no step (`loop.py`), and users are told that the node is unavailable.
Messages beyond `WAITING_MAX` are lost, as messages may be; all else is bounded, because a held core orders nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from rota.machine.effects import Effect, Persist, SendMessage

WAITING_MAX: Final = 65_536
STALL_S: Final = 1.0

Call = Callable[[], None]


class Outbox:
    """The effects of one node that have not left yet; `perform` does one."""

    def __init__(self, perform: Callable[[Effect], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._perform: Final = perform
        self._now_s: Final = now_s
        self._waiting: Final[deque[Effect | Call]] = deque()
        # When each of the writes was ordered that are not durable.
        self._ordered_s: Final[deque[float]] = deque()
        self._durable_count = 0
        self._is_leaving = False
        self.messages_dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def writes_open(self) -> int:
        """How many writes are not durable."""
        return len(self._ordered_s)

    @property
    def is_stalled(self) -> bool:
        """The store has taken no write for so long that the node must wait for it."""
        return bool(self._ordered_s) and self._now_s() - self._ordered_s[0] >= STALL_S

    def put(self, effects: Iterable[Effect]) -> None:
        """The effects of one step: writes are ordered now, the rest leaves in its turn."""
        for effect in effects:
            if type(effect) is Persist:
                self._ordered_s.append(self._now_s())
                self._perform(effect)
            elif len(self._waiting) >= WAITING_MAX and isinstance(effect, SendMessage):
                self.messages_dropped += 1
                continue
            self._waiting.append(effect)
        self.leave()

    def after_writes(self, call: Call) -> None:
        """Call this when all writes that are ordered by now are durable: at once if they are."""
        self._waiting.append(call)
        self.leave()

    def take_written(self, count: int) -> None:
        """So many more of the writes are durable, the earliest first."""
        for _ in range(count):
            self._ordered_s.popleft()
        # What the store took until now, it took: the rest waits from now on.
        if self._ordered_s:
            self._ordered_s[0] = max(self._ordered_s[0], self._now_s())
        self._durable_count += count
        self.leave()

    def leave(self) -> None:
        """Let go what may go. What follows from an effect is put behind the others, so this does not run in itself."""
        if self._is_leaving:
            return
        self._is_leaving = True
        try:
            while self._waiting:
                if type(self._waiting[0]) is Persist:
                    if not self._durable_count:
                        return
                    self._durable_count -= 1
                    self._waiting.popleft()
                    continue
                first = self._waiting.popleft()
                if isinstance(first, Effect):
                    self._perform(first)
                else:
                    first()
        finally:
            self._is_leaving = False
