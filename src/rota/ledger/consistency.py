"""What to do when a node's answers do not fit together: ask again a few times, then give up for now.

Behind one address there may be several nodes, of which some lag. Which of them answers is chance, so that asking again
soon helps; when it does not, the chain itself has changed, and the whole question must be asked anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer")


class Inconsistent(Exception):
    """What a node told does not fit together, or it does not have it yet."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a question is asked that is answered inconsistently, and the pause before each time but the first."""

    attempts_max: int = 8
    pause_ms: int = 25

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")

    async def consistent(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The first answer that fits together; `Inconsistent` when there was none."""
        for _ in range(self.attempts_max - 1):
            try:
                return await ask()
            except Inconsistent:
                await asyncio.sleep(self.pause_ms / 1_000)
        return await ask()
