"""The number of a transaction that the database acknowledged, kept where a copy of the database does not reach.

It is noted at the start and the end, every few seconds in between, and before a public transaction leaves the node: a
database that was wound back past such a moment is recognised by it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from rota.ports import Unavailable

KEEP_S: Final = 10.0


class Mark(Protocol):
    """Where the number is kept. Both block, and raise `Unavailable` when it cannot be read or written."""

    def read(self) -> int:
        """The number; 0 when none was kept."""
        ...

    def write(self, number: int) -> None:
        """Durable on return."""
        ...


class KeptNumber:
    """Knows the latest number that was acknowledged, and keeps it from time to time."""

    def __init__(self, mark: Mark | None) -> None:
        self._mark: Final = mark
        self._lock: Final = asyncio.Lock()
        self._kept = 0
        self._task: asyncio.Task[None] | None = None
        self.acknowledged = 0
        self.trouble = ""

    async def read(self) -> int:
        """What was kept by the life before."""
        if self._mark is not None:
            self._kept = await asyncio.to_thread(self._mark.read)
        return self._kept

    async def keep(self) -> None:
        """What is acknowledged now is kept on return. `Unavailable` when it cannot be."""
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
        """Keep the last."""
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
