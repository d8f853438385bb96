"""Worker processes: the one way in which a node runs long computations without blocking its event loop.

Processes are spawned, not forked, so that they share nothing with the node; their inputs go through a pipe and nowhere
else. They have a lower priority than the node, whose heartbeats must not wait, and end when the node does, however it
ends. When a process dies its work is lost: callers get `WorkerEnded`, and new processes are started for the next order.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Final, ParamSpec, TypeVar

from rota.ports import Unavailable

# Work may take longer; a heartbeat may not.
NICENESS: Final = 5

P = ParamSpec("P")
V = TypeVar("V")


class WorkerEnded(Unavailable):
    """The process ended before its work was done."""


class Processes:
    """Processes of one kind. `begin` runs first in each of them, with the result of `arguments` at each start."""

    def __init__(
        self,
        count: int = 1,
        begin: Callable[..., None] | None = None,
        arguments: Callable[[], tuple[object, ...]] = tuple,
    ) -> None:
        self._count: Final = count
        self._begin: Final = begin
        self._arguments: Final = arguments
        self._context: Final = multiprocessing.get_context("spawn")
        self._pool: ProcessPoolExecutor | None = None
        # Processes end when this end of their pipe is closed: by `_let_go`, or by the end of the node's process.
        self._leash: Connection | None = None
        self._life = 0

    @property
    def life(self) -> int:
        """The number of starts so far. State sent to processes of an earlier start is lost."""
        return self._life

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the running processes."""
        # The executor has no public name for its processes, and drops them when it is shut down.
        return tuple(self._pool._processes or ()) if self._pool is not None else ()

    def order(self, work: Callable[P, V], *arguments: P.args, **named: P.kwargs) -> asyncio.Task[V]:
        """Run work in one of the processes; return a task with its result, its exception or `WorkerEnded`.

        If the task is cancelled before the work has started, the work is not done.
        """
        pool = self._running()
        try:
            done = asyncio.wrap_future(pool.submit(work, *arguments, **named))
        except BrokenProcessPool as error:
            raise self._ended(pool) from error
        return asyncio.ensure_future(self._outcome(pool, done))

    async def _outcome(self, pool: ProcessPoolExecutor, done: asyncio.Future[V]) -> V:
        try:
            return await done
        except BrokenProcessPool as error:
            raise self._ended(pool) from error
        finally:
            done.cancel()

    def _ended(self, pool: ProcessPoolExecutor) -> WorkerEnded:
        self._lose(pool)
        return WorkerEnded("the process that did the work has ended; it is started anew")

    def open(self) -> int:
        """Start the processes if needed; return the number of the start that gets the next order."""
        self._running()
        return self._life

    def start(self) -> None:
        """Start the processes before there is an order for them."""
        if not self.pids:
            self._running().submit(os.getpid)

    def replace(self) -> None:
        """Kill these processes at once, whatever they do; others are started for the next order."""
        pool = self._pool
        if pool is not None:
            for pid in self.pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._lose(pool)

    async def close(self) -> None:
        """End the processes at once, and abandon their work."""
        pool = self._pool
        if pool is not None:
            self._let_go()
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._life += 1
            theirs, self._leash = self._context.Pipe(duplex=False)
            given = (theirs, self._begin, self._arguments())
            self._pool = ProcessPoolExecutor(
                self._count, mp_context=self._context, initializer=_begin_process, initargs=given
            )
        return self._pool

    def _lose(self, pool: ProcessPoolExecutor) -> None:
        """Release a broken pool once; later callers must not end processes that were started since."""
        if pool is self._pool:
            self._let_go()
        pool.shutdown(wait=False, cancel_futures=True)

    def _let_go(self) -> None:
        """Close the pipe, so that the processes end; waiting callers get `WorkerEnded`."""
        assert self._leash is not None, "there are processes"
        self._leash.close()
        self._pool = self._leash = None


# The code below runs in the worker processes.


def _begin_process(leash: Connection, begin: Callable[..., None] | None, arguments: tuple[object, ...]) -> None:
    # On an interrupt the node stops in its own order, and ends its processes when it no longer needs them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()
    if begin is not None:
        begin(*arguments)


def _end_with(leash: Connection) -> None:
    wait([leash])
    os._exit(0)
