"""The threads of a node's process share its heaps."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

from rota.server.memory import HEAPS_MAX

THREADS = 6
# Each thread has allocated memory before any of them ends; `malloc_info` then lists the heaps.
PROGRAM = f"""
import ctypes, sys, threading
from rota.server.memory import limit_heaps
if sys.argv[1] == "limited":
    limit_heaps()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
all_allocated = threading.Barrier({THREADS})
def allocate():
    libc.malloc(1_000)
    all_allocated.wait()
threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for each in threads: each.start()
for each in threads: each.join()
out = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, out)
libc.fclose(out)
"""


def heaps(mode: str, **environment: str) -> int:
    usual = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], env=usual | environment, capture_output=True, text=True, check=True
    )
    return len(re.findall("<heap nr=", run.stdout))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
def test_threads_share_the_heaps_unless_the_operator_sets_another_limit() -> None:
    assert heaps("usual") > HEAPS_MAX
    assert heaps("limited") <= HEAPS_MAX
    assert heaps("limited", MALLOC_ARENA_MAX="5") > HEAPS_MAX
