"""The transitions that an endorser has seen and whose states are not in its store: one per contract and node.

Theory of operation. To judge a transition an endorser needs the content of what it spends and reads. What was
distributed to it is in its store. What was not, because it has not been dispatched or has not arrived, was made by a
transition that it has checked itself, and which it remembers here, or that the coordinator shows it with the round
(`makers`). It is remembered until its states are durable at this node; being on the chain is not enough, for who is to
distribute them may have died, and neither is a skip, for what was skipped may be committed later. Nothing of this is
durable: a restarted endorser says what it lacks.

What is remembered is bounded, and each entry is on somebody's account: on that of the coordinator that shows it, who
may have made it up, and once we have signed it, on that of its sender, whose party signed it too. The oldest entry of
the largest account goes first, so that whoever floods an endorser displaces only what is its own. Of two copies of a
leaf the one with more contents stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rota.core.consistency import Consistent
from rota.types import Leaf, NodeName, Transition
from rota.wire.sizes import transition_bytes

SEEN_MAX: Final = 1_024
SEEN_BYTES_MAX: Final = 8_388_608


class Owner(NamedTuple):
    """On whose account it is: its sender's if we have signed it, else the coordinator's that showed it."""

    node: NodeName
    is_sender: bool


class _Entry(NamedTuple):
    transition: Consistent
    size_bytes: int
    owner: Owner


@dataclass(slots=True)
class _Account:
    leaves: dict[Leaf, None] = field(default_factory=dict)
    size_bytes: int = 0


class Seen:
    """What has been seen, by leaf, and whose account it is on, the latest last."""

    def __init__(self) -> None:
        self._entries: dict[Leaf, _Entry] = {}
        self._accounts: dict[Owner, _Account] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, transition: Consistent, shown_by: NodeName) -> None:
        """Remember what a coordinator shows, if there is a content in it that we may see."""
        self._note(transition, Owner(shown_by, False))

    def note_signed(self, transition: Consistent, sender: NodeName) -> None:
        """We have signed it: it may be committed, and no coordinator can make us forget it for another's."""
        self._note(transition, Owner(sender, True))

    def _note(self, transition: Consistent, owner: Owner) -> None:
        count = _content_count(transition)
        if not count:
            return
        leaf = transition.leaf
        known = self._entries.get(leaf)
        size_bytes = known.size_bytes if known is not None and known.transition is transition else None
        if known is not None:
            known_count = _content_count(known.transition)
            is_weaker = known.owner.is_sender and not owner.is_sender
            if is_weaker and count <= known_count:
                return
            if count < known_count:
                transition, size_bytes = known.transition, known.size_bytes
            owner = known.owner if is_weaker else owner
            self.forget(leaf)
        size_bytes = transition_bytes(transition) if size_bytes is None else size_bytes
        self._entries[leaf] = _Entry(transition, size_bytes, owner)
        account = self._accounts.setdefault(owner, _Account())
        account.leaves[leaf] = None
        account.size_bytes += size_bytes
        self._bytes += size_bytes
        self._make_room()

    def _make_room(self) -> None:
        while len(self._entries) > SEEN_MAX:
            self.forget(next(iter(max(self._accounts.values(), key=lambda each: len(each.leaves)).leaves)))
        while self._bytes > SEEN_BYTES_MAX:
            self.forget(next(iter(max(self._accounts.values(), key=lambda each: each.size_bytes).leaves)))

    def find(self, leaves: Iterable[Leaf]) -> tuple[Consistent, ...]:
        """Those of these that we remember."""
        return tuple(self._entries[leaf].transition for leaf in leaves if leaf in self._entries)

    def stored(self, transition: Transition) -> None:
        """This copy is durable here: nothing is to be remembered of it, unless we have seen more of it."""
        entry = self._entries.get(transition.leaf)
        if entry is not None and _content_count(entry.transition) <= _content_count(transition):
            self.forget(transition.leaf)

    def forget(self, leaf: Leaf) -> None:
        """Its states are in the store, or there is no room for it."""
        entry = self._entries.pop(leaf, None)
        if entry is None:
            return
        self._bytes -= entry.size_bytes
        account = self._accounts[entry.owner]
        account.size_bytes -= entry.size_bytes
        del account.leaves[leaf]
        if not account.leaves:
            del self._accounts[entry.owner]


def _content_count(transition: Transition) -> int:
    return sum(state.content is not None for state in transition.outputs)
