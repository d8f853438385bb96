"""Chain time: the wall clock, shifted by tests.

A block's time is never before its parent's and may be the same: if it were always a second later, a chain that mines a
thousand blocks a second would run ahead of real time, and everything that is valid until a time would expire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.ledger.embedded.errors import rejected

STEP_S_MAX: Final = 1_000 * 365 * 24 * 3_600
TIME_S_MAX: Final = 2**63 - 1  # A header's time has 64 bits, and clients read it with a sign.


class ChainClock:
    """Determines the time of the next block."""

    def __init__(self, clock_s: Callable[[], int]) -> None:
        self._clock_s: Final = clock_s
        self._next_s: int | None = None
        self.offset_s = 0

    def increase(self, seconds: int) -> int:
        """Shift time forward; return the total shift."""
        if not 0 <= seconds <= STEP_S_MAX:
            raise rejected(f"time moves forward, and by at most {STEP_S_MAX} seconds at once, not by {seconds}")
        self.offset_s += seconds
        return self.offset_s

    def set_next(self, timestamp_s: int) -> None:
        """Give the next block this time, and continue from there."""
        self._next_s = timestamp_s

    def next_s(self, parent_s: int) -> int:
        """Return the time of a block that is made now on a parent of that time."""
        now_s = self._clock_s()
        if self._next_s is not None:
            self.offset_s = self._next_s - now_s
            self._next_s = None
        return min(max(now_s + self.offset_s, parent_s), TIME_S_MAX)
