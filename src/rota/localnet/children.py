"""Processes of a network on this machine: started, watched, and ended with this process.

Each runs in a session of its own, so that a Ctrl-C at the terminal reaches only this process, which determines the
order of stopping. A guardian (`guardian.py`) kills them if this process ends without stopping them. Their standard
error goes to a log file beside their data, the first line of their standard output to this process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Final, Self

from rota.localnet import guardian

ROTA: Final = (sys.executable, "-m", "rota")
START_TIMEOUT_S: Final = 60.0
LINES_MAX: Final = 1_000
LINE_BYTES_MAX: Final = 1_048_576
READ_BYTES: Final = 65_536
LOG_TAIL_BYTES: Final = 2_000


class CannotStartProcess(Exception):
    """A process did not start; the text has its name and the end of its output."""


class Child:
    """One running process."""

    def __init__(self, name: str, process: Process, log: Path, children: Children) -> None:
        self.name: Final = name
        self.process: Final = process
        self.log: Final = log
        self._children: Final = children
        self._draining: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process id, which is also its group's."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; a hung process counts as running."""
        return self.process.returncode is None

    async def line_with(self, text: str) -> str:
        """The first line that contains the text. `CannotStartProcess` when the process ends or the time is up first."""
        output = self.process.stdout
        assert output is not None, "its standard output is a pipe"
        with suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                for _ in range(LINES_MAX):
                    line = (await output.readline()).decode(errors="replace")
                    if text in line:
                        self._draining = asyncio.create_task(_read_away(output))
                        return line
                    if not line:
                        await self.process.wait()
                        break
        state = f"ended with {self.process.returncode}" if not self.is_running else "is not there"
        raise CannotStartProcess(f"{self.name} {state}. {self.log} says at its end:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; does nothing when the process has ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def kill(self) -> None:
        """Kill it at once, as `kill -9` does, and wait until it has ended."""
        self.signal(signal.SIGKILL)
        await self.ended()

    async def stop(self, timeout_s: float) -> int:
        """Ask it to end, and kill it after the timeout; returns its exit code."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.process.wait()
        if self.is_running:
            self.signal(signal.SIGKILL)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for its end; returns its exit code."""
        code = await self.process.wait()
        self._children.forget(self)
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
        return code


class Children:
    """All processes of one network; `async with` ends them."""

    def __init__(self) -> None:
        self._running: Final[dict[int, Child]] = {}
        self._guardian: Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self._guardian = Popen(
            [sys.executable, "-I", guardian.__file__],
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the processes that still run."""
        try:
            await asyncio.gather(*(child.kill() for child in tuple(self._running.values())))
        finally:
            if self._guardian is not None and self._guardian.stdin is not None:
                self._guardian.stdin.close()
                await asyncio.to_thread(self._guardian.wait)

    async def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> Child:
        """Start a process; `prefix` is a command that runs it elsewhere, such as in a network namespace."""
        with log.open("ab") as file:
            try:
                process = await asyncio.create_subprocess_exec(
                    *prefix,
                    *command,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=file,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                    limit=LINE_BYTES_MAX,
                )
            except OSError as error:
                raise CannotStartProcess(f"{name} cannot be started: {command[0]}: {error.strerror}") from error
        child = self._running[process.pid] = Child(name, process, log, self)
        self._tell_guardian(f"+ {process.pid}")
        return child

    def forget(self, child: Child) -> None:
        """Remove an ended process, whose id another process may get soon."""
        if self._running.pop(child.pid, None) is not None:
            self._tell_guardian(f"- {child.pid}")

    @property
    def running(self) -> tuple[Child, ...]:
        """The processes that are not known to have ended."""
        return tuple(self._running.values())

    def _tell_guardian(self, line: str) -> None:
        assert self._guardian is not None, "children are started within `async with`"
        assert self._guardian.stdin is not None, "it is a pipe"
        # A guardian that was killed cannot be notified; this process still ends the children.
        with suppress(BrokenPipeError):
            self._guardian.stdin.write(f"{line}\n".encode())
            self._guardian.stdin.flush()


async def _read_away(output: asyncio.StreamReader) -> None:
    """Discard the rest of the output: without a reader, a process would block once the pipe is full."""
    while await output.read(READ_BYTES):
        pass
