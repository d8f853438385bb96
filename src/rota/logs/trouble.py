"""Limits on repeated log lines: a failure that a retry repeats, and lines that a peer can cause.

A background task that retries logs a failure once, until it has succeeded (`Trouble`). A peer causes few lines of a
kind in an interval (`PeerLines`), so that it cannot fill the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from rota.machine.pacing import Pacing

REASONS_MAX: Final = 16
INTERVAL_MS: Final = 60_000
LINES_MAX: Final = 4


class Trouble:
    """The reasons for which a task has failed since it last succeeded."""

    def __init__(self) -> None:
        self._reasons: Final[set[str]] = set()

    def is_new(self, reason: str) -> bool:
        """Whether to log this failure: its reason has not come since the last success, and few others have."""
        if reason in self._reasons or len(self._reasons) >= REASONS_MAX:
            return False
        self._reasons.add(reason)
        return True

    def end(self) -> None:
        """The task has succeeded: the next failure is logged."""
        self._reasons.clear()


@dataclass(slots=True)
class _Clock:
    """`machine.pacing.Timed`."""

    now_ms: int = 0


class PeerLines:
    """Limits one kind of line that peers cause."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._now_ms: Final = now_ms
        self._clock: Final = _Clock()
        self._pacing: Final = Pacing(self._clock)

    def is_due(self, peer: Hashable) -> bool:
        """Whether this peer has caused fewer than `LINES_MAX` of them in `INTERVAL_MS`."""
        self._clock.now_ms = self._now_ms()
        return self._pacing.is_due(peer, INTERVAL_MS, LINES_MAX)
