"""The transitions a round depends on, and those each endorser has seen: one `Showing` per round (protocol §7).

Theory of operation. A member of a round may spend or read a state that a transition outside the round made and that is
not on the chain. An endorser can judge it only if it has seen that transition. It has if it was asked about it while
its connection was up, so that under load nothing travels twice; otherwise the request shows it. An endorser that lost
it, because of a restart, a lost request or its limited memory, reports the states that it
lacks and is shown their makers first. Makers that do not fit into the message are shown when it reports again.
Dispatches of another coordinator are not shown here: that coordinator distributes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from rota.model.types import Leaf, NodeName, Transition
from rota.wire.sizes import fitting


class Maker(NamedTuple):
    """A maker of a state that the round needs, without an outcome, and the nodes that have seen it."""

    transition: Transition
    size_bytes: int
    seen_by: dict[NodeName, None]


class Shown(Protocol):
    """A transition that endorsers may have been shown."""

    seen_by: dict[NodeName, None]


class Showing:
    """The makers of one round: those shown to each endorser, and those that it reported as lacking."""

    def __init__(self, makers: dict[Leaf, Maker]) -> None:
        self.makers = makers
        self.shown: dict[NodeName, dict[Leaf, None]] = {}
        self.lacked: dict[NodeName, tuple[Leaf, ...]] = {}

    def choose(self, endorser: NodeName, room_bytes: int) -> tuple[Transition, ...]:
        """Return the makers to show: first those that it lacks, then those it has not seen, as far as there is room."""
        if not self.makers:
            return ()
        unseen = (leaf for leaf, maker in self.makers.items() if endorser not in maker.seen_by)
        wanted = (self.makers[leaf] for leaf in dict.fromkeys((*self.lacked.get(endorser, ()), *unseen)))
        chosen = fitting(wanted, lambda maker: maker.size_bytes, room_bytes)
        self.shown.setdefault(endorser, {}).update((maker.transition.leaf, None) for maker in chosen)
        return tuple(maker.transition.as_seen_by(endorser) for maker in chosen)

    def note_seen(self, endorser: NodeName, members: Iterable[Shown]) -> None:
        """Note that the endorser has the members and makers of its request."""
        for member in members:
            member.seen_by[endorser] = None
        for leaf in self.shown.get(endorser, ()):
            self.makers[leaf].seen_by[endorser] = None

    def note_unseen(self, endorser: NodeName, members: Iterable[Shown]) -> None:
        """Note that it has not looked at this round, or not at all of it."""
        for member in members:
            member.seen_by.pop(endorser, None)

    def begin_anew(self) -> None:
        """Allow all makers to be shown again, in a new series of requests."""
        self.shown.clear()

    def take_missing(self, endorser: NodeName, leaves: tuple[Leaf, ...]) -> bool:
        """Note the leaves it lacks; return whether a maker here was not shown in this series."""
        ours = tuple(leaf for leaf in leaves if leaf in self.makers)
        for leaf in ours:
            self.makers[leaf].seen_by.pop(endorser, None)
        self.lacked[endorser] = ours
        return any(leaf not in self.shown.get(endorser, {}) for leaf in ours)
