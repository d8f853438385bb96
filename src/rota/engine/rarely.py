"""Log lines that peers cause: each peer causes few of a kind, so that it does not fill the disk with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rota.engine.clock import monotonic_ms
from rota.machine.pacing import Pacing
from rota.model.types import NodeName

INTERVAL_MS: Final = 60_000
LINES_MAX: Final = 4


@dataclass(slots=True)
class _Clock:
    """`machine.pacing.Timed`."""

    now_ms: int = 0


class Rarely:
    """Of one kind of line."""

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._now_ms: Final = now_ms
        self._clock: Final = _Clock()
        self._pacing: Final = Pacing(self._clock)

    def is_due(self, peer: NodeName) -> bool:
        """Whether this peer has caused fewer than `LINES_MAX` of them in `INTERVAL_MS`."""
        self._clock.now_ms = self._now_ms()
        return self._pacing.is_due(peer, INTERVAL_MS, LINES_MAX)
