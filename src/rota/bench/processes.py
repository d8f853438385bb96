"""The processor time of a process and its children, from the kernel."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# Indexes in /proc/PID/stat behind the parenthesised name: parent; user time; then system time.
PARENT_FIELD: Final = 1
TIMES_FIELDS: Final = slice(11, 13)


def processor_s(pid: int) -> float:
    """The processor time of a process and of all its descendants that still run."""
    used: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # The process name may contain anything; it ends at the last parenthesis.
            fields = path.read_text().rpartition(")")[2].split()
            used[int(path.parent.name)] = (int(fields[PARENT_FIELD]), sum(map(int, fields[TIMES_FIELDS])))
    family = {pid}
    while found := {each for each, (parent, _) in used.items() if parent in family and each not in family}:
        family |= found
    return sum(used[each][1] for each in family if each in used) / os.sysconf("SC_CLK_TCK")
