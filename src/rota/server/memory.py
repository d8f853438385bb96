"""The memory of a node's process: garbage collection, and the heaps of the C library."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Final

# Allocations between two collections, and how many younger ones precede an older one.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
HEAPS_MAX: Final = 2
_M_ARENA_MAX: Final = -8


def collect_rarely() -> None:
    """Keep garbage collection short and rare.

    A full collection walks every object of the process, 70 ms and more, in which the node answers no request and may
    count as silent. Modules and tables never become garbage, so collections leave them out. The first one takes place
    before the event loop runs; the objects that the start loads are left out afterwards without a collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def limit_heaps() -> None:
    """Let the threads of this process share two heaps; call it before there are threads.

    By default glibc gives each thread a heap of its own, up to eight for each core, and a heap does not shrink below
    its last block in use. Peers' frames are decoded in threads: under a flood of large frames a node kept 60 MiB in
    such heaps. `MALLOC_ARENA_MAX` takes precedence. Other C libraries have no such heaps.
    """
    if "MALLOC_ARENA_MAX" not in os.environ and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_ARENA_MAX, HEAPS_MAX)
