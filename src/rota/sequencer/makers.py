"""What a round stands on, and which endorser has to be shown it: one `Showing` per round (protocol §7).

Theory of operation. A member of a round may spend or read what a transition outside the round has made and what is not
on the chain. An endorser can judge it only if it has seen that transition. It has if we asked it about it while its
connection was up, so that under load nothing travels twice; else the request shows it. An endorser that does not
remember, because it was restarted, because the request was lost, or because it remembers only so many, says what it
lacks and is shown that first. What does not fit into the message is shown when it says so again. What another
coordinator dispatched is not ours to show: that one distributes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from rota.model.types import Leaf, NodeName, Transition
from rota.wire.sizes import fitting


class Maker(NamedTuple):
    """A transition without an outcome, outside a round, that made what the round spends or reads; who has seen it."""

    transition: Transition
    size_bytes: int
    seen_by: dict[NodeName, None]


class Shown(Protocol):
    """What an endorser may have been shown."""

    seen_by: dict[NodeName, None]


class Showing:
    """The makers of one round: what each endorser was shown, and what it said it lacks."""

    def __init__(self, makers: dict[Leaf, Maker]) -> None:
        self.makers = makers
        self.shown: dict[NodeName, dict[Leaf, None]] = {}
        self.lacked: dict[NodeName, tuple[Leaf, ...]] = {}

    def choose(self, endorser: NodeName, room_bytes: int) -> tuple[Transition, ...]:
        """What it has not seen, and first of that what it lacks, as far as the message has room."""
        if not self.makers:
            return ()
        unseen = (leaf for leaf, maker in self.makers.items() if endorser not in maker.seen_by)
        wanted = (self.makers[leaf] for leaf in dict.fromkeys((*self.lacked.get(endorser, ()), *unseen)))
        chosen = fitting(wanted, lambda maker: maker.size_bytes, room_bytes)
        self.shown.setdefault(endorser, {}).update((maker.transition.leaf, None) for maker in chosen)
        return tuple(maker.transition.as_seen_by(endorser) for maker in chosen)

    def note_seen(self, endorser: NodeName, members: Iterable[Shown]) -> None:
        """What it is asked about, and what it is shown, it remembers."""
        for member in members:
            member.seen_by[endorser] = None
        for leaf in self.shown.get(endorser, ()):
            self.makers[leaf].seen_by[endorser] = None

    def note_unseen(self, endorser: NodeName, members: Iterable[Shown]) -> None:
        """It has not looked at this round, or not at all of it."""
        for member in members:
            member.seen_by.pop(endorser, None)

    def begin_anew(self) -> None:
        """All that are missing are asked again, and may be shown everything once more."""
        self.shown.clear()

    def take_missing(self, endorser: NodeName, leaves: tuple[Leaf, ...]) -> bool:
        """It lacks these. Whether there is one of them that we have and have not shown it since its last turn."""
        ours = tuple(leaf for leaf in leaves if leaf in self.makers)
        for leaf in ours:
            self.makers[leaf].seen_by.pop(endorser, None)
        self.lacked[endorser] = ours
        return any(leaf not in self.shown.get(endorser, {}) for leaf in ours)
