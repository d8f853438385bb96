"""What a ledger keeps in trees, where its transitions are proved: all commitments, and who may own states.

A host lets both grow with the chain. What they are good for only their domain knows: a proof shows that something is in
them, for the roots that are shown with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots that a proof is for and the ledger is shown: of commitments, and of a roster; empty where none is."""

    commitments: bytes = b""
    roster: bytes = b""


class CommitmentTree(Protocol):
    """What a ledger keeps of all commitments that were ever made, in their order."""

    def __len__(self) -> int:
        """How many there are."""

    def extend(self, commitments: Sequence[Sequence[bytes]]) -> None:
        """These came, of each of some transitions those that it made."""

    def cut(self, count: int) -> None:
        """Only so many are there after all."""


class Roster(Protocol):
    """Who may own states of a contract: words that the ledger has in an order, and only adds to.

    The first words of a roster are a roster too, whose root the ledger had at some time.
    """

    def __len__(self) -> int:
        """How many there are."""

    @property
    def root(self) -> bytes:
        """As the ledger has it for these."""

    def extend(self, words: Sequence[bytes]) -> None:
        """These came."""
