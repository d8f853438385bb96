"""Who may own states of a contract, as its ledger has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RosterPage:
    """What a contract answers: the root and the number of all words, and some of them, of one state of the chain."""

    root: bytes
    count: int
    words: tuple[bytes, ...]
