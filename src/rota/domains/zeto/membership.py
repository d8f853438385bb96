"""All coins of a contract whose spends cannot be linked to coins: where each stands in the tree, and which roots count.

A proof is for one root, and the ledger takes it while that root is one of its latest. What others make meanwhile does
not change that; a reorganisation that takes coins back does, and so does a long time. So the roots that were given out
are remembered with how many coins the tree had, and how often it has grown since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.domains.zeto.tree import Path, Tree

WORD_BYTES: Final = 32
# As many as the ledger counts (`Nullified.sol`). Here each transition is counted, and there each round: never fewer.
ROOTS: Final = 1_024


class Members:
    """A `CommitmentTree` whose commitments are coins."""

    def __init__(self) -> None:
        self._tree: Final = Tree()
        self._positions: Final[dict[int, int]] = {}
        # How often it has grown; and of each root that was asked for, when that was, and how many coins it had.
        self._grown = 0
        self._given: Final[dict[int, tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._tree)

    @property
    def root(self) -> int:
        """That of all coins. What is proved for it is good for a while."""
        root = self._tree.root
        self._given[root] = (self._grown, len(self))
        return root

    def extend(self, commitments: Sequence[Sequence[bytes]]) -> None:
        """These came, of each transition its own; the earliest of two that are the same is as good as the other."""
        coins = [int.from_bytes(each, "big") for made in commitments for each in made]
        for position, coin in enumerate(coins, len(self)):
            self._positions.setdefault(coin, position)
        self._tree.extend(coins)
        self._grown += len(commitments)
        for root in [root for root, (grown, _) in self._given.items() if self._grown - grown >= ROOTS]:
            del self._given[root]

    def cut(self, count: int) -> None:
        """Only so many are there after all: roots of more are none."""
        self._tree.cut(count)
        for coin in [coin for coin, position in self._positions.items() if position >= count]:
            del self._positions[coin]
        for root in [root for root, (_, size) in self._given.items() if size > count]:
            del self._given[root]

    def is_good_for(self, shown: bytes) -> bool:
        """Whether a root that was given out still counts; nothing is shown where there is none."""
        root = int.from_bytes(shown, "big")
        return not root or root in self._given

    def path_to(self, coin: int) -> Path | None:
        """From a coin up to the root; nothing when it is not there."""
        position = self._positions.get(coin)
        return None if position is None else self._tree.path(position)
