"""Blocks at an interval: a tick of the event loop, due one interval after the previous due time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

MS_PER_S: Final = 1_000


class BlockTimer:
    """Calls `tick` at an interval while it is started and has one."""

    def __init__(self, tick: Callable[[], object], interval_ms: int | None) -> None:
        self._tick: Final = tick
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self.interval_ms = interval_ms

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._schedule(self._loop, self._loop.time())

    def stop(self) -> None:
        self._loop = None
        self._cancel()

    def set_interval(self, interval_ms: int | None) -> None:
        """Use this interval from now on; None stops the ticks."""
        self.interval_ms = interval_ms
        self._cancel()
        if self._loop is not None:
            self._schedule(self._loop, self._loop.time())

    def _schedule(self, loop: asyncio.AbstractEventLoop, last_s: float) -> None:
        if self.interval_ms is None:
            return
        # A tick that took longer than the interval is followed by one, not by all missed ones.
        due_s = max(last_s + self.interval_ms / MS_PER_S, loop.time())
        self._handle = loop.call_at(due_s, self._run, loop, due_s)

    def _run(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._handle = None
        try:
            self._tick()
        finally:
            if self._loop is loop and self._handle is None:
                self._schedule(loop, due_s)

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
