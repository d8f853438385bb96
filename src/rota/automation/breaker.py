"""A circuit breaker: a trigger that fails as a whole is paused for a while and then tried with one attempt.

One task that fails, however often, shows nothing about the trigger: it is set aside. Several *different* tasks refused
in a row do, and so do several attempts in a row while the world is unavailable. Any accepted attempt, even a lost race,
closes the breaker.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from rota.automation.settings import BREAKER_FAILURES_MAX, BREAKER_OPEN_MAX_MS, BREAKER_OPEN_MS


class BreakerState(Enum):
    """Whether attempts are made: all, none for a while, or one as a test."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    """The breaker of one trigger at one node."""

    def __init__(self) -> None:
        self.opened = 0
        self._refused: Final[dict[str, None]] = {}
        self._away = 0
        self._open_until_ms: int | None = None
        self._open_for_ms = BREAKER_OPEN_MS

    def state(self, now_ms: int) -> BreakerState:
        """As of now."""
        if self._open_until_ms is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now_ms < self._open_until_ms else BreakerState.HALF_OPEN

    @property
    def open_until_ms(self) -> int | None:
        """When it may be tried again; `None` while it is closed."""
        return self._open_until_ms

    def went_through(self) -> None:
        """The ledger took an attempt, or another member was faster."""
        self._refused.clear()
        self._away = 0
        self._open_until_ms = None
        self._open_for_ms = BREAKER_OPEN_MS

    def refused(self, task: str, now_ms: int) -> bool:
        """A single task was refused; whether that opens the breaker."""
        self._refused[task] = None
        return self._trip(len(self._refused), now_ms)

    def was_away(self, now_ms: int) -> bool:
        """The world was unavailable; whether that opens the breaker."""
        self._away += 1
        return self._trip(self._away, now_ms)

    def _trip(self, failures: int, now_ms: int) -> bool:
        state = self.state(now_ms)
        if state is BreakerState.OPEN or (state is BreakerState.CLOSED and failures < BREAKER_FAILURES_MAX):
            return False
        if state is BreakerState.HALF_OPEN:
            self._open_for_ms = min(2 * self._open_for_ms, BREAKER_OPEN_MAX_MS)
        self._open_until_ms = now_ms + self._open_for_ms
        self._refused.clear()
        self._away = 0
        self.opened += 1
        return True
