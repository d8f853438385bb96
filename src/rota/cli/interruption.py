"""Commands that run until the user ends them: by Ctrl-C, by SIGTERM, or by closing the terminal.

In each case the command ends in good order. A second Ctrl-C changes nothing: the end is bounded
in time.

The loop's own handlers are used, because they wake the loop. The handler of `asyncio.run` does not: Ctrl-C in the
moment before the loop goes to sleep is noticed only when something else wakes it.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

Found = TypeVar("Found")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The first one cancels the task, unless the task waits for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task: Final = task
        self._came: Final = asyncio.Event()
        self._is_awaited = False

    @property
    def is_interruption(self) -> bool:
        """A signal came while no task was waiting for it."""
        return self._came.is_set() and not self._is_awaited

    def come(self) -> None:
        """There is one."""
        is_first = not self._came.is_set()
        self._came.set()
        if is_first and not self._is_awaited:
            self._task.cancel()

    async def wait(self) -> None:
        """Until one comes, which is then no interruption."""
        self._is_awaited = True
        await self._came.wait()


async def interruptible(work: Callable[[Signals], Awaitable[Found]]) -> Found:
    """The outcome; `KeyboardInterrupt` when a signal came, once everything is put away."""
    task = asyncio.current_task()
    assert task is not None, "it runs in a task"
    signals = Signals(task)
    # Signals come to the main thread alone.
    for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
        # A command under `nohup` ignores a closed terminal, and a script's background job ignores Ctrl-C.
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        asyncio.get_running_loop().add_signal_handler(number, signals.come)
    try:
        return await work(signals)
    except asyncio.CancelledError:
        if signals.is_interruption:
            raise KeyboardInterrupt from None
        raise
