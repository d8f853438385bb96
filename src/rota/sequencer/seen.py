"""The transitions that an endorser has seen and whose states are not in its store: one per contract and node.

Theory of operation. To judge a transition an endorser needs the contents of the states that it spends and reads. Those
distributed to it are in its store. Others, not dispatched or not arrived yet, were made by a
transition that it has checked itself, and which it records here, or that the coordinator shows it with the round
(`makers`). An entry stays until its states are durable at this node; being on the chain is not enough, because the node
that is to distribute them may have died, and neither is a skip, because a skipped one may be committed later. None of
this is durable: a restarted endorser reports which states it lacks.

The memory is bounded, and each entry is on a node's account: on that of the coordinator that shows it, which
may have made it up, and once this node has signed it, on that of its sender, whose party signed it too. The oldest
entry of the largest account goes first, so that a node that floods an endorser displaces only its own. Of two copies of
a leaf the one with more contents stays. A signed entry stays until a copy with the same lists, signature and bound is
durable: by its signature a sender that lost its disk knows its own work. Fields of a newer version, which no leaf
binds, are dropped: a coordinator could make another sender's account arbitrarily large with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from rota.model.consistency import Consistent
from rota.model.types import Leaf, NodeName, Transition
from rota.wire.sizes import transition_bytes

SEEN_MAX: Final = 1_024
SEEN_BYTES_MAX: Final = 8_388_608

# A node, and whether it is the sender of a signed transition or the coordinator that shows it.
Owner: TypeAlias = tuple[NodeName, bool]


@dataclass(slots=True)
class _Entry:
    transition: Consistent
    content_count: int
    size_bytes: int
    owner: Owner


@dataclass(slots=True)
class _Account:
    leaves: dict[Leaf, None] = field(default_factory=dict)
    size_bytes: int = 0


class Seen:
    """The transitions seen, by leaf and account, the latest last."""

    def __init__(self) -> None:
        self._entries: dict[Leaf, _Entry] = {}
        self._accounts: dict[Owner, _Account] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, transition: Consistent, shown_by: NodeName, size_bytes: int | None = None) -> None:
        """Record a transition that a coordinator shows, if it has any content."""
        self._note(transition, (shown_by, False), size_bytes)

    def note_signed(self, transition: Consistent, sender: NodeName) -> None:
        """Move it to its sender's account: it is signed and may be committed, so no coordinator may displace it."""
        leaf, owner = transition.leaf, (sender, True)
        known = self._entries.get(leaf)
        if known is None or known.transition is not transition:
            self._note(transition, owner)
        elif known.owner != owner:
            # The usual case: it was noted when the check began, and moves from one account to the other.
            before, after = self._accounts[known.owner], self._accounts.get(owner)
            if after is None:
                after = self._accounts[owner] = _Account()
            del before.leaves[leaf]
            before.size_bytes -= known.size_bytes
            after.leaves[leaf] = None
            after.size_bytes += known.size_bytes
            if not before.leaves:
                del self._accounts[known.owner]
            known.owner = owner

    def _note(self, transition: Consistent, owner: Owner, size_bytes: int | None = None) -> None:
        known = self._entries.get(transition.leaf)
        if known is not None and known.transition is transition:
            entry = _Entry(transition, known.content_count, known.size_bytes, owner)
        else:
            content_count = _content_count(transition)
            if not content_count:
                return
            bound = _bound_by_its_leaf(transition)
            if size_bytes is None or bound is not transition:
                size_bytes = transition_bytes(bound)
            entry = _Entry(bound, content_count, size_bytes, owner)
        if known is not None:
            is_weaker = known.owner[1] and not owner[1]
            if is_weaker and entry.content_count <= known.content_count:
                return
            if entry.content_count < known.content_count:
                entry = replace(known, owner=owner)
            elif is_weaker:
                entry.owner = known.owner
            self.forget(transition.leaf)
        self._add(entry)

    def _add(self, entry: _Entry) -> None:
        leaf, account = entry.transition.leaf, self._accounts.get(entry.owner)
        if account is None:
            account = self._accounts[entry.owner] = _Account()
        self._entries[leaf] = entry
        account.leaves[leaf] = None
        account.size_bytes += entry.size_bytes
        self._bytes += entry.size_bytes
        while len(self._entries) > SEEN_MAX:
            self.forget(next(iter(max(self._accounts.values(), key=lambda each: len(each.leaves)).leaves)))
        while self._bytes > SEEN_BYTES_MAX:
            self.forget(next(iter(max(self._accounts.values(), key=lambda each: each.size_bytes).leaves)))

    def find(self, leaves: Iterable[Leaf]) -> tuple[Consistent, ...]:
        """Return the recorded transitions of these leaves."""
        return tuple(self._entries[leaf].transition for leaf in leaves if leaf in self._entries)

    def equal_to(self, transition: Transition) -> Consistent | None:
        """Return the recorded transition if it equals this copy in every field, else None."""
        entry = self._entries.get(transition.leaf)
        return entry.transition if entry is not None and entry.transition == transition else None

    def stored(self, transition: Transition) -> None:
        """Forget the transition once this copy is durable here, unless the recorded one has more contents.

        For a signed one the domain has judged the lists, and its party's signature of leaf and bound was verified. A
        copy with other ones does not replace it: it would keep the states from nodes that may see them, and from the
        sender the proof that they are its own.
        """
        entry = self._entries.get(transition.leaf)
        if entry is None or entry.content_count > _content_count(transition):
            return
        is_signed = entry.owner[1]
        if not is_signed or _unbound_of(entry.transition) == _unbound_of(transition):
            self.forget(transition.leaf)

    def forget(self, leaf: Leaf) -> None:
        """Forget it: its states are in the store, or there is no room for it."""
        entry = self._entries.pop(leaf, None)
        if entry is None:
            return
        self._bytes -= entry.size_bytes
        account = self._accounts[entry.owner]
        account.size_bytes -= entry.size_bytes
        del account.leaves[leaf]
        if not account.leaves:
            del self._accounts[entry.owner]


def _bound_by_its_leaf(transition: Consistent) -> Consistent:
    """Return the transition without unknown fields."""
    if not transition.unknown and not any(state.unknown for state in transition.outputs):
        return transition
    outputs = tuple(replace(state, unknown=b"") for state in transition.outputs)
    return Consistent(replace(transition, outputs=outputs, unknown=b""))


def _content_count(transition: Transition) -> int:
    count = 0
    for state in transition.outputs:
        count += state.content is not None
    return count


def _unbound_of(transition: Transition) -> tuple[list[tuple[NodeName, ...]], bytes, int]:
    """Return the fields that no leaf binds, and that an endorser verifies before it signs."""
    lists = [state.distribution for state in transition.outputs]
    return lists, transition.signature, transition.valid_until_s
