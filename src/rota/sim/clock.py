"""A node's own clock in the simulated world: it may run fast or slow, jump ahead, or stand still for a while.

A runtime reads a clock that never runs backwards: one that is set back stands still until it reaches the old time
again.
"""

from __future__ import annotations

from dataclasses import dataclass

TRUE_RATE_PERMILLE = 1_000


@dataclass(slots=True)
class LocalClock:
    """Local time as a function of the world's: a rate, and the time of its last change."""

    rate_permille: int = TRUE_RATE_PERMILLE
    since_ms: int = 0
    local_ms: int = 0
    latest_ms: int = 0

    def read(self, now_ms: int) -> int:
        """The local time; never less than before."""
        local_ms = self._at(now_ms)
        if local_ms > self.latest_ms:
            self.latest_ms = local_ms
        return self.latest_ms

    def when(self, local_ms: int) -> int:
        """The world's time at which this clock reaches a local time."""
        ahead_ms = local_ms - self.local_ms
        return self.since_ms - (-ahead_ms * TRUE_RATE_PERMILLE // self.rate_permille)

    def change(self, now_ms: int, rate_permille: int, jump_ms: int = 0) -> None:
        """Change the rate from now on, after a jump."""
        self.local_ms = self._at(now_ms) + jump_ms
        self.since_ms, self.rate_permille = now_ms, rate_permille

    def _at(self, now_ms: int) -> int:
        return self.local_ms + (now_ms - self.since_ms) * self.rate_permille // TRUE_RATE_PERMILLE
