"""Ends what a process leaves behind, however that process ends.

It is started beside the processes that it guards and reads each from its standard input: `+ PID` when one begins,
`- PID` when one has ended. When the input ends, its parent is gone, be it by its own will or by `kill -9`:
then every process that is still there is killed, with its group, and the guardian ends too. It must outlive a Ctrl-C
at the terminal, so it is in a group of its own.

This file is run by itself and imports nothing of Rota, so that it is there within milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def guard() -> None:
    """Until the input ends."""
    guarded: dict[int, None] = {}
    for line in sys.stdin:
        sign, _, number = line.strip().partition(" ")
        if sign == "+":
            guarded[int(number)] = None
        else:
            guarded.pop(int(number), None)
    for pid in guarded:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    guard()
