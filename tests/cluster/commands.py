"""Commands that start processes, as tests run them: with a home of their own, by which all that is left is found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rota.localnet.children import ROTA
from tests import bounds

WAIT_S = bounds.WAIT_S


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A `rota` command all of whose files are under a folder of the test's."""
    environment = {**os.environ, "TMPDIR": str(home), "HOME": str(home)}
    with subprocess.Popen(
        [*ROTA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The first line with this in it."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    assert process.stderr is not None
    raise AssertionError(f"it ended without saying {text!r}: {process.stderr.read()}")


def relatives(home: Path) -> list[int]:
    """All processes that were started with this folder for a home."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and str(home).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def until(holds: Callable[[], bool]) -> None:
    """The test's own time limit bounds it."""
    while not holds():
        pass
