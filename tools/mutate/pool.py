"""Run tasks in forked copies of this process, several at a time.

A task inherits what this process has imported, writes its findings as JSON lines, and may end in any way: it returns,
raises an exception, uses up its processor time, or dies of a signal. None of this touches the parent.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from selectors import EVENT_READ, DefaultSelector
from typing import Generic, TypeVar

T = TypeVar("T")
Finding = dict[str, object]
Tell = Callable[[Finding], None]
Act = Callable[[T, Tell], None]

MEMORY_MAX_BYTES = 6 << 30
# A task that reports nothing for so long waits for something that does not come.
SILENCE_MAX_S = 900.0
LOOKS_EVERY_S = 5.0
CHUNK = 1 << 16


@dataclass
class Ended(Generic[T]):
    """A task, what it reported, and how its process ended."""

    task: T
    findings: list[Finding] = field(default_factory=list)
    is_out_of_time: bool = False
    has_failed: bool = False


@dataclass
class _Child(Generic[T]):
    pid: int
    ended: Ended[T]
    heard_s: float
    rest: bytes = b""


def run_forked(tasks: Iterable[T], jobs: int, act: Act[T]) -> Iterator[Ended[T]]:
    """Act on every task in a process of its own; yields tasks in the order in which they end."""
    waiting = iter(tasks)
    children: dict[int, _Child[T]] = {}
    with DefaultSelector() as selector:
        try:
            while True:
                while len(children) < jobs and (task := next(waiting, None)) is not None:
                    reading, child = _fork(task, act)
                    children[reading] = child
                    selector.register(reading, EVENT_READ)
                if not children:
                    return
                for key, _ in selector.select(LOOKS_EVERY_S):
                    child = children[key.fd]
                    if _read(key.fd, child):
                        continue
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del children[key.fd]
                    yield _end(child)
                _kill_silent(children.values())
        finally:
            for reading, child in children.items():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(reading)


def allow_cpu_s(seconds: float) -> None:
    """From now on this process may use so much processor time; then it ends."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _fork(task: T, act: Act[T]) -> tuple[int, _Child[T]]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return reading, _Child(pid, Ended(task), time.monotonic())
    code = 1
    try:
        os.close(reading)
        _act_in_child(task, act, writing)
        code = 0
    finally:
        # Neither exception handlers nor exit handlers of the parent may run here.
        os._exit(code)


def _act_in_child(task: T, act: Act[T], writing: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def tell(finding: Finding) -> None:
        os.write(writing, json.dumps(finding).encode() + b"\n")

    try:
        act(task, tell)
    except BaseException:
        tell({"error": traceback.format_exc(limit=-8)})
        raise


def _read(descriptor: int, child: _Child[T]) -> bool:
    """Take what the child wrote; false at its end."""
    chunk = os.read(descriptor, CHUNK)
    if not chunk:
        return False
    child.heard_s = time.monotonic()
    *lines, child.rest = (child.rest + chunk).split(b"\n")
    child.ended.findings.extend(json.loads(line) for line in lines)
    return True


def _end(child: _Child[T]) -> Ended[T]:
    _, status = os.waitpid(child.pid, 0)
    child.ended.has_failed = status != 0
    child.ended.is_out_of_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGKILL)
    return child.ended


def _kill_silent(children: Iterable[_Child[T]]) -> None:
    now_s = time.monotonic()
    for child in children:
        if now_s - child.heard_s > SILENCE_MAX_S:
            os.kill(child.pid, signal.SIGKILL)
