"""The effects of a node that have not left; none leaves before the records it depends on are durable (protocol §8).

Theory of operation. Effects leave in the order in which the core ordered them. The outbox passes a write to the store
as soon as it is ordered, so that all writes of a turn share one database transaction; all effects behind it wait here
until it is durable. So the durable records are always a prefix of those that the core ordered, and nothing leaves that
depends on later ones. The core does not wait: it continues as if each write were done.

The store repeats a write until it is done (`store/write_queue.py`), so no write fails. A store that completes none for
`STALL_S` holds the node: the engine takes no step (`loop.py`), and users get `Unavailable`. Messages beyond
`WAITING_MAX` are dropped, as messages may be lost; all else is bounded, because a held core orders nothing.
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
    """The effects of one node that have not left yet; `perform` performs one."""

    def __init__(self, perform: Callable[[Effect], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._perform: Final = perform
        self._now_s: Final = now_s
        self._waiting: Final[deque[Effect | Call]] = deque()
        # The time at which each write that is not durable was ordered.
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
        """Whether the store has completed no write for so long that the node must wait for it."""
        return bool(self._ordered_s) and self._now_s() - self._ordered_s[0] >= STALL_S

    def put(self, effects: Iterable[Effect]) -> None:
        """Take the effects of one step: writes go to the store now, the rest leaves in order."""
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
        """Call this when all writes ordered so far are durable: at once if they are."""
        self._waiting.append(call)
        self.leave()

    def take_written(self, count: int) -> None:
        """Report `count` more of the writes as durable, the earliest first."""
        for _ in range(count):
            self._ordered_s.popleft()
        # The store has made progress, so the remaining writes wait from now on.
        if self._ordered_s:
            self._ordered_s[0] = max(self._ordered_s[0], self._now_s())
        self._durable_count += count
        self.leave()

    def leave(self) -> None:
        """Perform the effects whose writes are durable.

        Effects that these add queue up behind; a nested call returns.
        """
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
