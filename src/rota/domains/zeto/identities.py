"""The registered owners of a token that only they can have coins of, as a tree whose root its contract has.

A leaf is the *identity* of an owner: the hash of its public key with a mark, P'(x, y, 0, 1). Leaves stand in the order
of registration, and none is ever removed. The tree always has the same number of levels, because a node must not pass
for an identity: with paths of several lengths, the identity of a stranger could be the x of a registered key. A node
above no identity is 0.

As identities are only added, an old root is that of fewer owners, and a proof for it is as good as one for the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.domains.zeto.babyjubjub import Point
from rota.domains.zeto.tree import CHILDREN, EMPTY, Path, children_of, node_of

IDENTITY_LEVELS: Final = 10
IDENTITIES_MAX: Final = CHILDREN**IDENTITY_LEVELS
# What tells an identity from a node, beside its level: the fourth child of a node is a hash or 0, and never this.
IDENTITY_MARK: Final = 1

WORD_BYTES: Final = 32


def identity_of(key: Point) -> int:
    """The leaf of an owner."""
    return node_of((key.x, key.y, 0, IDENTITY_MARK))


class Identities:
    """A `Roster` of owners."""

    def __init__(self) -> None:
        self._levels: Final[list[list[int]]] = [[] for _ in range(IDENTITY_LEVELS + 1)]
        self._positions: Final[dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._levels[0])

    @property
    def root(self) -> bytes:
        """As the contract has it; zero without registered owners."""
        return self.root_number.to_bytes(WORD_BYTES, "big")

    @property
    def root_number(self) -> int:
        """The same as a circuit has it."""
        return self._levels[-1][0] if len(self) else EMPTY

    def extend(self, words: Sequence[bytes]) -> None:
        """These identities were registered, in this order."""
        assert len(self) + len(words) <= IDENTITIES_MAX, "the tree is full"
        first = len(self)
        identities = [int.from_bytes(word, "big") for word in words]
        for position, identity in enumerate(identities, first):
            self._positions.setdefault(identity, position)
        self._levels[0] += identities
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            first //= CHILDREN
            del level[first:]
            for number in range(first, -(-len(below) // CHILDREN)):
                level.append(node_of(children_of(below, number)))

    def path_of(self, key: Point) -> Path | None:
        """From the identity of an owner to the root; nothing when it is not registered."""
        position = self._positions.get(identity_of(key))
        if position is None:
            return None
        path = []
        for level in self._levels[:-1]:
            position //= CHILDREN
            path.append(children_of(level, position))
        return tuple(path)

    def has(self, key: Point) -> bool:
        """Whether this owner is registered."""
        return identity_of(key) in self._positions
