"""All coins of a contract whose spends cannot be linked to coins, and where each stands in the tree of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.domains.zeto.tree import Path, Tree


class Members:
    """A `CommitmentTree` whose commitments are coins."""

    def __init__(self) -> None:
        self._tree: Final = Tree()
        self._positions: Final[dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._tree)

    @property
    def root(self) -> int:
        """That of all coins. The ledger takes what is proved for it while it is one of the latest there."""
        return self._tree.root

    def extend(self, commitments: Sequence[Sequence[bytes]]) -> None:
        """These came, of each transition its own; the earliest of two that are the same is as good as the other."""
        coins = [int.from_bytes(each, "big") for made in commitments for each in made]
        for position, coin in enumerate(coins, len(self)):
            self._positions.setdefault(coin, position)
        self._tree.extend(coins)

    def cut(self, count: int) -> None:
        """Only so many are there after all."""
        self._tree.cut(count)
        for coin in [coin for coin, position in self._positions.items() if position >= count]:
            del self._positions[coin]

    def path_to(self, coin: int) -> Path | None:
        """From a coin up to the root; nothing when it is not there."""
        position = self._positions.get(coin)
        return None if position is None else self._tree.path(position)
