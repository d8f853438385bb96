"""Pacing: what a peer's messages have us do is done for each thing so many times in a while (trust rule 10).

A message may be repeated as often as its author likes. What it costs us to answer one, such as to verify signatures or
to assemble, is spent a few times in an interval for each key; what comes sooner is dropped, because whoever needs an
answer repeats its request.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Protocol

KEYS_MAX: Final = 4_096
VERIFIED_TIMES_MAX: Final = 4
ASSEMBLED_TIMES_MAX: Final = 16
# Each names 64 leaves: who makes up for a day asks for thousands of them at once.
STATES_ASKED_TIMES_MAX: Final = 256
WRITTEN_AGAIN_TIMES_MAX: Final = 64


class Timed(Protocol):
    """Whoever knows what time it is."""

    now_ms: int


@dataclass(slots=True)
class _Window:
    since_ms: int
    count: int = 0


class Pacing:
    """How often each thing was done lately."""

    def __init__(self, timed: Timed) -> None:
        self.timed = timed
        self._windows: dict[Hashable, _Window] = {}

    def is_due(self, key: Hashable, interval_ms: int, times_max: int = 1) -> bool:
        """It was not done so many times in this interval; then it is done now."""
        window = self._windows.get(key)
        if window is None or self.timed.now_ms - window.since_ms >= interval_ms:
            self._windows.pop(key, None)
            window = self._windows[key] = _Window(self.timed.now_ms)
            if len(self._windows) > KEYS_MAX:
                del self._windows[next(iter(self._windows))]
        window.count += 1
        return window.count <= times_max
