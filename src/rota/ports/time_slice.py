"""The time for which a computation may hold the event loop before the loop serves its sockets and timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Final, TypeVar

SLICE_S: Final = 0.002

Answer = TypeVar("Answer")


class TimeSlice:
    """For one computation of many short steps. A turn of the event loop costs more than most of these steps."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s: Final = now_s
        self._began_s = now_s()

    async def give_way(self) -> None:
        """Let the event loop continue if the slice is used up."""
        if self._now_s() - self._began_s >= SLICE_S:
            await asyncio.sleep(0)
            self._began_s = self._now_s()


async def in_slices(steps: Generator[None, None, Answer], now_s: Callable[[], float] = time.perf_counter) -> Answer:
    """Run a computation in steps and return its result. The event loop continues between steps, once in a slice."""
    time_slice = TimeSlice(now_s)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        await time_slice.give_way()
