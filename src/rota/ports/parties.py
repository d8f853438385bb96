"""Names of this node's parties to which a credential is held: `alice`, or `treasury.*` for all with this prefix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rota.model.types import NodeName

ANY_BELOW: Final = ".*"


@dataclass(frozen=True, slots=True)
class PartyNames:
    """Parties of a node, each by its name or by a prefix."""

    patterns: tuple[str, ...]
    node: NodeName

    def has(self, party: str) -> bool:
        """Whether a party is one of them; its name may have the node's name or not."""
        name, separator, home = party.rpartition("@")
        own = name if separator else party
        if not own or "@" in own or (separator and home != self.node):
            return False
        return any(_matches(pattern, own) for pattern in self.patterns)

    def has_any(self, parties: Iterable[str]) -> bool:
        """Whether one of these parties is among them."""
        return any(self.has(party) for party in parties)


def covers(wider: Iterable[str], narrower: Iterable[str]) -> bool:
    """Whether the first patterns include every party that the second patterns include."""
    wide = tuple(wider)
    return all(any(_includes(pattern, each) for pattern in wide) for each in narrower)


def bounds_of(pattern: str, node: NodeName) -> tuple[str, str]:
    """The least and the greatest text between which the parties of a pattern are, with the node's name."""
    if not pattern.endswith(ANY_BELOW):
        return f"{pattern}@{node}", f"{pattern}@{node}"
    least = pattern[:-1]
    # The character behind the dot: what begins with `treasury.` is less than `treasury/`.
    return least, f"{least[:-1]}/"


def _matches(pattern: str, name: str) -> bool:
    if pattern.endswith(ANY_BELOW):
        return name.startswith(pattern[:-1]) and name != pattern[:-1]
    return name == pattern


def _includes(pattern: str, other: str) -> bool:
    if other.endswith(ANY_BELOW):
        return pattern.endswith(ANY_BELOW) and other[:-1].startswith(pattern[:-1])
    return _matches(pattern, other)
