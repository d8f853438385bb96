"""The transitions that an endorser has seen and whose states are not in its store: one per contract and node.

Theory of operation. To judge a transition an endorser needs the content of what it spends and reads. What was
distributed to it is in its store. What was not, because it has not been dispatched or has not arrived, was made by a
transition that it has checked itself, and which it remembers here, or that the coordinator shows it with the round
(`makers`). It is remembered until its states are durable at this node, or can never be on the chain; being on the chain
is not enough, for who is to distribute them may have died. Nothing of this is durable: a restarted endorser says what
it lacks. What is remembered is bounded, and the oldest go first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from rota.core.consistency import Consistent
from rota.types import Leaf
from rota.wire.sizes import transition_bytes

SEEN_MAX: Final = 1_024
SEEN_BYTES_MAX: Final = 8_388_608


class _Entry(NamedTuple):
    transition: Consistent
    size_bytes: int


class Seen:
    """What has been seen, by leaf, the latest last."""

    def __init__(self) -> None:
        self._entries: dict[Leaf, _Entry] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, transition: Consistent) -> None:
        """Remember it, if there is a content in it that we may see."""
        if all(state.content is None for state in transition.outputs):
            return
        self.forget(transition.leaf)
        entry = self._entries[transition.leaf] = _Entry(transition, transition_bytes(transition))
        self._bytes += entry.size_bytes
        while len(self._entries) > SEEN_MAX or self._bytes > SEEN_BYTES_MAX:
            self.forget(next(iter(self._entries)))

    def find(self, leaves: Iterable[Leaf]) -> tuple[Consistent, ...]:
        """Those of these that we remember."""
        return tuple(self._entries[leaf].transition for leaf in leaves if leaf in self._entries)

    def forget(self, leaf: Leaf) -> None:
        """Its states are in the store, or it was given up, or there is no room for it."""
        entry = self._entries.pop(leaf, None)
        if entry is not None:
            self._bytes -= entry.size_bytes
