"""The parties that may own states of a contract, as its ledger has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RosterPage:
    """A contract's answer: the root and the number of all words, and some of them, of one state of the chain."""

    root: bytes
    count: int
    words: tuple[bytes, ...]
