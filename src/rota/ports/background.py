"""Tasks in the background, each with an owner that learns of its failure.

A task whose exception is never read fails in silence, or is noticed when it is collected. All background tasks begin
here: an error goes to the owner's `failed`, which ends the node or handles the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

Failed = Callable[[BaseException], None]


class Background:
    """The tasks of one owner. Without `failed`, an error goes to the event loop's handler, which logs it."""

    def __init__(self, owner: str, failed: Failed | None = None) -> None:
        self._owner: Final = owner
        self.failed: Failed = failed or self._report
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this in the background."""
        task = asyncio.create_task(work, name=self._owner)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel the tasks under way, and wait until they have ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    def _report(self, error: BaseException) -> None:
        context = {"message": f"{self._owner}: a background task failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
