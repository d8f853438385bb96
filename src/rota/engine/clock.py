"""The run time of this process, which is the clock of the core.

Theory of operation. A node judges its peers and its ledger by their silence. If the machine gives the process no
processor time, or a callback blocks the event loop, messages wait unread in sockets, and silence is no evidence about
their senders. So time in which the event loop does not run does not count.

A beat is due every `BEAT_MS`. The clock stops `SLACK_MS` after a beat is due, until that beat happens: in the first
pass of the loop after a stall, messages and timers see a time from before the stall. Then the clock continues. A stall
shorter than the slack counts as ordinary time. The slack is a fraction of the timeout after which a peer counts as
silent, and long enough that a busy node, whose passes take up to a quarter of a second, sends its heartbeats on time.

The core never compares another node's time with its own, so a stopped clock only makes this node appear to work faster.
No guarantee depends on it: signatures expire in chain time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

BEAT_MS: Final = 50
SLACK_MS: Final = 250


def monotonic_ms() -> int:
    """Return milliseconds of a clock that never jumps."""
    return time.monotonic_ns() // 1_000_000


class RunTime:
    """Milliseconds from an arbitrary origin. All time before `start` and after `stop` counts."""

    def __init__(self, machine_ms: Callable[[], int] = monotonic_ms) -> None:
        self._machine_ms: Final = machine_ms
        self._due_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lost_ms = 0

    def now_ms(self) -> int:
        """Return the current time in milliseconds."""
        now_ms = self._machine_ms()
        if self._due_ms is not None:
            now_ms = min(now_ms, self._due_ms + SLACK_MS)
        return now_ms - self.lost_ms

    def start(self) -> None:
        """Stop counting stalls of the running event loop as time."""
        self._schedule()

    def stop(self) -> None:
        """Count all time again: the event loop ends."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due_ms = None

    def beat(self) -> None:
        """Record that the event loop runs, subtract the time it stalled, and schedule the next beat."""
        assert self._due_ms is not None, "a clock beats between its start and its end"
        self.lost_ms += max(0, self._machine_ms() - self._due_ms - SLACK_MS)
        self._schedule()

    def _schedule(self) -> None:
        self._due_ms = self._machine_ms() + BEAT_MS
        self._timer = asyncio.get_running_loop().call_later(BEAT_MS / 1_000, self.beat)
