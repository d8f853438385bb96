"""A sampling profiler by module: reads the stack of the measured thread every millisecond.

A tracing profiler makes each call slower and so overstates modules that make many small ones. Sampling slows all of
them alike. A sample counts for the innermost module of Rota on the stack: time inside Python itself, such as sorting or
comparing, is the calling module's time. Samples outside of `Node.step` are dropped.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from types import FrameType, TracebackType
from typing import Self

from rota.node.node import Node

INTERVAL_S = 0.001
SWITCH_INTERVAL_S = 0.0005  # the sampling thread should not wait for the interpreter as long as it sleeps
MODULE_PREFIX = "rota."


class Sampler:
    """While entered, counts samples of the thread that entered it, by part."""

    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()
        self._thread_id = threading.get_ident()
        self._is_over = threading.Event()
        self._looker = threading.Thread(target=self._look, name="sampler", daemon=True)
        self._switch_interval_s = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._looker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._looker.join()
        sys.setswitchinterval(self._switch_interval_s)

    def _look(self) -> None:
        while not self._is_over.wait(INTERVAL_S):
            frame = sys._current_frames().get(self._thread_id)
            part = _part_of(frame) if frame is not None else None
            if part is not None:
                self.samples[part] += 1


def _part_of(frame: FrameType | None) -> str | None:
    """The innermost module of Rota, if the frame is inside of a node's step; `sequencer.rounds` is called `rounds`."""
    part: str | None = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if part is None and module.startswith(MODULE_PREFIX):
            part = module.removeprefix(MODULE_PREFIX).removeprefix("core.")
        if frame.f_code is Node.step.__code__:
            return part
        frame = frame.f_back
    return None
