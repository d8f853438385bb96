"""Measures how long callbacks hold the event loop, as a metric.

A timer is due every `LOOK_S`. It fires late when callbacks held the loop meanwhile, or when the machine gave this
process no processor time. The thread's own processor time distinguishes the two: the loop was held for the smaller
of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.02
HOLD_MAX_S: Final = 0.05
SPAN_S: Final = 60.0


class LoopWatch:
    """Watches the loop that it is started in. `holds_total` counts holds of more than `HOLD_MAX_S`."""

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, processor_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._now_s: Final = now_s
        self._processor_s: Final = processor_s
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._used_s = 0.0
        self._span_began_s = 0.0
        self._longest_s = 0.0
        self._longest_before_s = 0.0
        self.holds_total = 0

    def start(self) -> None:
        """Start to measure."""
        self._span_began_s = self._now_s()
        self._schedule()

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def longest_s(self) -> float:
        """The longest hold of the last one to two minutes."""
        return max(self._longest_s, self._longest_before_s)

    def look(self) -> None:
        """Record how long the loop was held since the timer, which has fired, was set."""
        now_s = self._now_s()
        held_s = max(0.0, min(now_s - self._due_s, self._processor_s() - self._used_s))
        if now_s >= self._span_began_s + SPAN_S:
            self._span_began_s, self._longest_before_s, self._longest_s = now_s, self._longest_s, 0.0
        self._longest_s = max(self._longest_s, held_s)
        if held_s > HOLD_MAX_S:
            self.holds_total += 1
        self._schedule()

    def _schedule(self) -> None:
        self._due_s, self._used_s = self._now_s() + LOOK_S, self._processor_s()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.look)
