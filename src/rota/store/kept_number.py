"""The number of a transaction that the database acknowledged, kept where a copy of the database does not reach.

It is written at the start and the end, every few seconds in between, and before a public transaction leaves the node:
it shows when the database has been reset to a copy from before such a moment.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from rota.ports import Unavailable

KEEP_S: Final = 10.0


class Mark(Protocol):
    """Where the number is kept. Both methods block, and raise `Unavailable` when it cannot be read or written."""

    def read(self) -> int:
        """The number; 0 when none was kept."""
        ...

    def write(self, number: int) -> None:
        """Write the number, durable on return."""
        ...


class KeptNumber:
    """The latest number that was acknowledged, written to the mark from time to time."""

    def __init__(self, mark: Mark | None) -> None:
        self._mark: Final = mark
        self._lock: Final = asyncio.Lock()
        self._kept = 0
        self._task: asyncio.Task[None] | None = None
        self.acknowledged = 0
        self.trouble = ""

    async def read(self) -> int:
        """The number that the previous run kept; 0 without a mark."""
        if self._mark is not None:
            self._kept = await asyncio.to_thread(self._mark.read)
        return self._kept

    async def keep(self) -> None:
        """Write the acknowledged number to the mark, durable on return. `Unavailable` when that fails."""
        if self._mark is None:
            return
        async with self._lock:
            number = self.acknowledged
            if number > self._kept:
                await asyncio.to_thread(self._mark.write, number)
                self._kept = number
        if self._task is None:
            self._task = asyncio.create_task(self._keep_on())

    async def close(self) -> None:
        """Stop, and keep the last number if the mark can be written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with suppress(Unavailable):
                await self.keep()

    async def _keep_on(self) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            try:
                await self.keep()
                self.trouble = ""
            except Unavailable as problem:
                self.trouble = str(problem)
