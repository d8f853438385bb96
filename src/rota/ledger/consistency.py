"""Handling of inconsistent answers of a node: ask again a few times, then give up for now.

Behind one address there may be several nodes, of which some lag. Which of them answers is random, so asking again soon
helps; when it does not, the chain itself has changed, and the whole question must be asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer")


class Inconsistent(Exception):
    """A node's answers are inconsistent, or it does not have the data yet."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often an inconsistently answered question is asked, and the pause before each repetition."""

    attempts_max: int = 8
    pause_ms: int = 25

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")

    async def consistent(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the first consistent answer; raise `Inconsistent` when there is none."""
        for _ in range(self.attempts_max - 1):
            try:
                return await ask()
            except Inconsistent:
                await asyncio.sleep(self.pause_ms / 1_000)
        return await ask()
