"""What a transaction depends on: a transaction of the same node by its id, or one of any node by its leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class LeafDependency(NamedTuple):
    """A private transaction of any node, by the leaf that its contract has to commit under its id.

    `valid_until` is the chain time, in seconds, until which it is awaited; without it the node's setting counts.
    """

    contract: str
    id: str
    leaf: str
    valid_until: int | None = None


Dependency: TypeAlias = str | LeafDependency


def as_json(depends_on: Sequence[Dependency]) -> list[object]:
    """`dependsOn` as a node reads it."""
    return [_leaf(each) if isinstance(each, LeafDependency) else each for each in depends_on]


def _leaf(leaf: LeafDependency) -> dict[str, object]:
    named: dict[str, object] = {"contract": leaf.contract, "id": leaf.id, "leaf": leaf.leaf}
    return named if leaf.valid_until is None else {**named, "validUntil": leaf.valid_until}
