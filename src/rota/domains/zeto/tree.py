"""The tree of all commitments of a contract, four children a node; what the contract keeps is the right edge of it.

Leaves come in order and stay. A level is filled from the left, and a child that is not there is 0. The root is the one
node of the lowest level with one node only, so the tree is never deeper than its leaves need, and the chain hashes no
more than that. A node has 1 in the capacity of its hash and a coin has 0 (and another width), so that no node passes
for a coin whatever depth somebody says that it has.

A path is the children of each node on the way up. It does not say which of the four the way comes from: that it comes
from one of them is all that has to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from rota.domains.zeto.poseidon import poseidon

CHILDREN: Final = 4
LEVELS_MAX: Final = 16
LEAVES_MAX: Final = CHILDREN**LEVELS_MAX
EMPTY: Final = 0
# What tells a node from the hash of anything else.
NODE_CAPACITY: Final = 1

Children: TypeAlias = tuple[int, int, int, int]
Path: TypeAlias = tuple[Children, ...]


def node_of(children: Sequence[int]) -> int:
    """The node above four children."""
    return poseidon(*children, capacity=NODE_CAPACITY)


class Tree:
    """All nodes of a tree; it grows at the right and is cut there when the chain takes blocks back."""

    __slots__ = ("_levels",)

    def __init__(self, leaves: Sequence[int] = ()) -> None:
        self._levels: list[list[int]] = [[]]
        self.extend(leaves)

    def __len__(self) -> int:
        return len(self._levels[0])

    @property
    def root(self) -> int:
        return self._levels[-1][0] if len(self) else EMPTY

    def extend(self, leaves: Sequence[int]) -> None:
        """Add leaves at the right. Only nodes above new leaves are hashed, each once."""
        assert len(self) + len(leaves) <= LEAVES_MAX, "the tree is full"
        first = len(self)
        self._levels[0] += leaves
        self._grow(first)

    def cut(self, count: int) -> None:
        """Keep so many leaves only."""
        assert 0 <= count <= len(self), "a tree is cut to what it had"
        del self._levels[0][count:]
        self._grow(count)

    def path(self, position: int) -> Path:
        """The children of each node from a leaf up to the root."""
        assert 0 <= position < len(self), "there is no such leaf"
        path = []
        for level in self._levels[:-1]:
            path.append(children_of(level, position // CHILDREN))
            position //= CHILDREN
        return tuple(path)

    def _grow(self, first: int) -> None:
        """Work out the nodes above all leaves from `first` on, level by level up to the one with one node."""
        depth = 0
        while len(self._levels[depth]) > 1:
            below = self._levels[depth]
            depth += 1
            if depth == len(self._levels):
                # A level that is new stands above all that is there, not only above what was added.
                self._levels.append([])
            first = min(first // CHILDREN, len(self._levels[depth]))
            level = self._levels[depth]
            del level[first:]
            level += [node_of(children_of(below, number)) for number in range(first, -(-len(below) // CHILDREN))]
        del self._levels[depth + 1 :]


def root_of(commitment: int, path: Path) -> int | None:
    """Where a path leads from a commitment; nothing when it does not begin there."""
    current = commitment
    for children in path:
        if current not in children:
            return None
        current = node_of(children)
    return current


def children_of(level: Sequence[int], number: int) -> Children:
    """The children of a node, given the level below it."""
    first, second, third, fourth = (
        level[place] if place < len(level) else EMPTY for place in range(CHILDREN * number, CHILDREN * (number + 1))
    )
    return first, second, third, fourth
