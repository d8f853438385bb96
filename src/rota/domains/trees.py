"""The trees of ledgers whose transitions are proved: of all commitments, and of the parties that may own states.

A host extends both with the chain. Only their domain knows their use: a proof shows that something is in them, for the
roots that go to the ledger with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots that a proof refers to and the ledger gets: of commitments, and of a roster; empty where unused."""

    commitments: bytes = b""
    roster: bytes = b""


class CommitmentTree(Protocol):
    """All commitments that were ever made on a ledger, in their order."""

    def __len__(self) -> int:
        """The number of commitments."""

    def extend(self, commitments: Sequence[Sequence[bytes]]) -> None:
        """Append the commitments of some transitions, each with those that it made."""

    def cut(self, count: int) -> None:
        """Remove all but the first `count` commitments, after a reorganisation."""


class Roster(Protocol):
    """The owners of a contract's states: words that the ledger has in an order, and only adds to.

    The first words of a roster are a roster too, whose root the ledger had at some time.
    """

    def __len__(self) -> int:
        """The number of words."""

    @property
    def root(self) -> bytes:
        """The root that the ledger has for these words."""

    def extend(self, words: Sequence[bytes]) -> None:
        """Append these words."""
