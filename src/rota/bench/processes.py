"""How much processor time a process has used, with those that it started, by the kernel's count."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# In /proc/PID/stat, counted behind the name in parentheses: whose child it is; its time as a user, and in the system.
PARENT_FIELD: Final = 1
TIMES_FIELDS: Final = slice(11, 13)


def processor_s(pid: int) -> float:
    """Of a process and all below it that still run."""
    used: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name of the process, which may hold anything, ends with the last bracket.
            fields = path.read_text().rpartition(")")[2].split()
            used[int(path.parent.name)] = (int(fields[PARENT_FIELD]), sum(map(int, fields[TIMES_FIELDS])))
    family = {pid}
    while found := {each for each, (parent, _) in used.items() if parent in family and each not in family}:
        family |= found
    return sum(used[each][1] for each in family if each in used) / os.sysconf("SC_CLK_TCK")
