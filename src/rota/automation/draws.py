"""Randomness as a value: fractions drawn from a seed, in an order that a replay repeats.

Pure code has no random numbers (decision 15). The running node passes in a seed that differs in each run, the simulator
one that it can pass in again.
"""

from __future__ import annotations

import hashlib
from typing import Final

_FRACTION_BITS: Final = 53
_COUNTER_BYTES: Final = 8


class Draws:
    """A stream of fractions, each at least 0 and less than 1: the SHA-256 of the seed and a counter."""

    __slots__ = ("_counter", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed: Final = seed
        self._counter = 0

    def fraction(self) -> float:
        """The next fraction."""
        self._counter += 1
        digest = hashlib.sha256(self._seed + self._counter.to_bytes(_COUNTER_BYTES, "big")).digest()
        return (int.from_bytes(digest[:_COUNTER_BYTES], "big") >> (64 - _FRACTION_BITS)) / (1 << _FRACTION_BITS)

    def below(self, bound_ms: int) -> int:
        """A time from 0 up to this bound, all equally likely."""
        return int(self.fraction() * bound_ms)
