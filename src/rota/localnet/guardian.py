"""Kills the processes that a process leaves behind, however that process ends.

It is started beside the processes that it guards and reads their ids from its standard input: `+ PID` when one starts,
`- PID` when one has ended. When the input ends, its parent has ended, by itself or by `kill -9`: then it kills every
process that is left, with its group, and ends too. It must survive a Ctrl-C at the terminal, so it is in a group of its
own.

This file is run by itself and imports nothing of Rota, so that it starts within milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def guard() -> None:
    """Read ids until the input ends; then kill the processes that are left."""
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
