"""Locks, speculative states, and who depends on whom, at one coordinator.

Theory of operation. A transition that was assembled is *placed*: what it spends is locked, what it
makes is offered to the next assembly although it is not on the chain yet. A state names the leaf that
made it, so an edge is read off a reference and kept nowhere else. Transitions are placed in the order
of their assembly, which is therefore an order of the graph: resetting goes through it backwards, so
that what depends on a transition is always reset before the transition itself (protocol §4.2).
What another coordinator hands over is placed here too, without being ours. What is kept for prepared
transitions (`kept.py`) is locked as well, except for other versions of their own intents.

A snapshot tells all of it, or none: what is under way is bounded by what one message holds, and nothing more is
assembled until some of it has its outcome. A domain's state may stand on its predecessors, which are spent: those that
a sender may not know are told as well, as far as there is room. Without them it can only assemble later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from rota.model.frozen import dataclass
from rota.model.types import FlushPoint, IntentId, Leaf, NodeName, State, StateId, Transition
from rota.sequencer.kept import SNAPSHOT_LOCKS_MAX, Kept
from rota.wire.messages import HandedOver, Snapshot
from rota.wire.sizes import state_bytes

SNAPSHOT_STATES_MAX = 4_096


class Offered(NamedTuple):
    """A state that is there for the next assembly, how much of a message it takes, and whose it is."""

    state: State
    size_bytes: int
    sender: NodeName | None


@dataclass(slots=True)
class Placings:
    """What one sender has in the graph: the states that it spends, and those that it offers, in number and in bytes."""

    inputs: int = 0
    offered: int = 0
    offered_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A transition in the graph; a foreign one came with a hand-over, and the ledger takes it until that time."""

    intent: IntentId
    leaf: Leaf
    order: int
    inputs: tuple[StateId, ...]
    reads: tuple[StateId, ...]
    outputs: tuple[State, ...]
    point: FlushPoint | None = None
    valid_until_s: int = 0
    sender: NodeName | None = None


class Graph:
    """What is under way here, by leaf."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept or Kept()
        self.placed: dict[Leaf, Placed] = {}
        self._spent_by: dict[StateId, Leaf] = {}
        self._users: dict[Leaf, dict[Leaf, None]] = {}
        self._foreign: dict[Leaf, Placed] = {}
        self._offered: dict[StateId, Offered] = {}
        self._offered_bytes = 0
        self._order = 0
        # By sender, as far as it is known: kept as transitions come and go, because there may be thousands of them.
        self.senders: dict[NodeName, Placings] = {}

    # Placing and removing.

    def place(self, transition: Transition, offers_states: bool = True, sender: NodeName | None = None) -> None:
        """Lock what the transition spends, and offer what it makes unless nobody is to build on it."""
        offered = transition.outputs if offers_states else ()
        self._place(transition.intent, transition.leaf, transition.inputs, transition.reads, offered, sender=sender)

    def place_foreign(self, handed: HandedOver, valid_until_s: int) -> None:
        """The same for a transition that another coordinator dispatched, valid no longer than that."""
        made = handed.transition
        if made.leaf not in self.placed:
            # What it read does not matter any more: its outcome is the ledger's.
            self._place(made.intent, made.leaf, made.inputs, (), made.outputs, handed.point, valid_until_s)

    def hide(self, leaf: Leaf) -> None:
        """Take back what a transition offers: nothing is to be built on it for now."""
        self.withdraw(leaf)
        self.placed[leaf] = replace(self.placed[leaf], outputs=())

    def show(self, transition: Transition) -> None:
        """Offer what a hidden transition has made, but for what is spent already."""
        self.placed[transition.leaf] = replace(self.placed[transition.leaf], outputs=transition.outputs)
        for made in transition.outputs:
            if made.id not in self._spent_by:
                self._offer(made, self.placed[transition.leaf].sender)

    def remove(self, leaf: Leaf) -> None:
        """Forget a transition, its locks and its states; its dependents must have been seen to before."""
        self.withdraw(leaf)
        placed = self.placed.pop(leaf)
        self._foreign.pop(leaf, None)
        self._count(placed.sender, inputs=-len(placed.inputs))
        for state in placed.inputs:
            if self._spent_by.get(state) == leaf:
                del self._spent_by[state]
                self._offer_again(state)
        for reference in (*placed.inputs, *placed.reads):
            users = self._users.get(reference.leaf)
            if users is not None:
                users.pop(leaf, None)
                if not users:
                    del self._users[reference.leaf]

    def _place(
        self,
        intent: IntentId,
        leaf: Leaf,
        inputs: tuple[StateId, ...],
        reads: tuple[StateId, ...],
        outputs: tuple[State, ...],
        point: FlushPoint | None = None,
        valid_until_s: int = 0,
        sender: NodeName | None = None,
    ) -> None:
        assert leaf not in self.placed, "a leaf is placed once"
        self._order += 1
        placed = Placed(intent, leaf, self._order, inputs, reads, outputs, point, valid_until_s, sender)
        self.placed[leaf] = placed
        self._count(sender, inputs=len(inputs))
        if point is not None:
            self._foreign[leaf] = placed
        for state in inputs:
            self._spent_by.setdefault(state, leaf)
            self._take_back(state)
        for made in outputs:
            if made.id not in self._spent_by:
                self._offer(made, sender)
        for reference in (*inputs, *reads):
            self._users.setdefault(reference.leaf, {})[leaf] = None

    # Who depends on whom.

    def direct_users(self, leaf: Leaf) -> tuple[Placed, ...]:
        """The transitions under way that spend or read what this leaf made."""
        return tuple(self.placed[user] for user in self._users.get(leaf, ()))

    def conflicts(self, transition: Transition, giving_way: Collection[Leaf] = ()) -> bool:
        """It spends or reads what another one under way spends or what is kept, or is under way itself."""
        if len(set(transition.inputs)) < len(transition.inputs) or transition.leaf in self.placed:
            return True
        if self.kept.is_blocked(transition):
            return True
        return any(leaf not in giving_way for leaf in self.spenders_of((*transition.inputs, *transition.reads)))

    def dependencies(self, leaf: Leaf) -> tuple[Placed, ...]:
        """The transitions under way that made what this one spends or reads."""
        placed = self.placed[leaf]
        makers = dict.fromkeys(reference.leaf for reference in (*placed.inputs, *placed.reads))
        return tuple(self.placed[maker] for maker in makers if maker in self.placed)

    def dependents_last_first(self, leaf: Leaf) -> tuple[Placed, ...]:
        """All that stand on this leaf, directly or not, in the order in which they must be reset."""
        found: dict[Leaf, Placed] = {}
        pending = [leaf]
        while pending:
            for user in self._users.get(pending.pop(), {}):
                if user not in found:
                    found[user] = self.placed[user]
                    pending.append(user)
        return tuple(sorted(found.values(), key=lambda placed: -placed.order))

    def spenders_among(self, states: tuple[StateId, ...], but: Leaf) -> tuple[Leaf, ...]:
        """The other transitions under way that spend or read one of these states, in the order of assembly."""
        wanted = frozenset(states)
        users = {user for state in wanted for user in self._users.get(state.leaf, ()) if user != but}
        found = [placed for placed in map(self.placed.__getitem__, users) if _refers_to(placed, wanted)]
        return tuple(placed.leaf for placed in sorted(found, key=lambda placed: placed.order))

    def spenders_of(self, states: tuple[StateId, ...]) -> tuple[Leaf, ...]:
        """The transitions under way that spend one of these states."""
        return tuple(dict.fromkeys(self._spent_by[state] for state in states if state in self._spent_by))

    # What others are told.

    def snapshot(
        self,
        node: NodeName,
        intents: Collection[IntentId] = (),
        unseen: Iterable[Leaf] = (),
        bytes_max: int = 0,
        giving_way: Collection[Leaf] = (),
    ) -> Snapshot:
        """What these intents are assembled on; a state's bytes only where that node may see them (S8).

        Of what the `unseen` leaves have made, also what is locked by now, up to so many bytes in all. What the leaves
        that are `giving_way` spend is not locked, unless it would have to be told and there is no room.
        """
        free = self._free(giving_way, bytes_max - self._offered_bytes) if giving_way else {}
        states = (*(offered.state for offered in self._offered.values()), *filter(None, free.values()))
        locks = (state for state in self._spent_by if state not in free)
        kept = (state for state in self.kept.locks(intents) if state in free or state not in self._spent_by)
        spent = self._spent_among(unseen, node, bytes_max - self._offered_bytes, free)
        return Snapshot((*locks, *kept), (*(state.as_seen_by(node) for state in states), *spent))

    def _free(self, giving_way: Collection[Leaf], room_bytes: int) -> dict[StateId, State | None]:
        """What these spend and others may have: what is on the chain, and of the rest what can be told."""
        free: dict[StateId, State | None] = {}
        count = len(self._offered)
        for state in (state for state, leaf in self._spent_by.items() if leaf in giving_way):
            maker = self.placed.get(state.leaf)
            made = None if maker is None else next((each for each in maker.outputs if each.id == state), None)
            if made is not None:
                room_bytes -= state_bytes(made)
                count += 1
            if maker is None or (made is not None and room_bytes >= 0 and count <= SNAPSHOT_STATES_MAX):
                free[state] = made
        return free

    @property
    def lock_count(self) -> int:
        """How many states are locked by what is under way."""
        return len(self._spent_by)

    def fits_half(self, count: int, size_bytes: int, bytes_max: int) -> bool:
        """So many more states leave half of a snapshot free."""
        is_few = len(self._offered) + count <= SNAPSHOT_STATES_MAX // 2
        return is_few and self._offered_bytes + size_bytes <= bytes_max // 2

    def fits_snapshot(self, bytes_max: int) -> bool:
        """One message holds it all. What does not fit must not be left out: a sender would take it for not there."""
        is_few = len(self._spent_by) <= SNAPSHOT_LOCKS_MAX and len(self._offered) <= SNAPSHOT_STATES_MAX
        return is_few and self._offered_bytes <= bytes_max

    def _spent_among(
        self, leaves: Iterable[Leaf], node: NodeName, room_bytes: int, free: dict[StateId, State | None]
    ) -> Iterator[State]:
        count = len(self._offered)
        for made in filter(None, free.values()):
            room_bytes -= state_bytes(made)
            count += 1
        for made in (made for leaf in leaves for made in self.placed[leaf].outputs):
            is_locked = made.id in self._spent_by and made.id not in free
            if is_locked and made.content is not None and node in made.distribution:
                room_bytes -= state_bytes(made)
                count += 1
                if room_bytes < 0 or count > SNAPSHOT_STATES_MAX:
                    return
                yield made

    def foreign(self) -> tuple[Placed, ...]:
        """What came with a hand-over and has no outcome yet."""
        return tuple(self._foreign.values())

    def foreign_makers(self, leaf: Leaf) -> tuple[Placed, ...]:
        """Of these, the ones whose states this transition spends or reads."""
        makers = self.dependencies(leaf) if leaf in self.placed else ()
        return tuple(maker for maker in makers if maker.point is not None)

    def withdraw(self, leaf: Leaf) -> None:
        """A dispatched transition whose input is gone cannot commit: nothing more is to stand on it."""
        for made in self.placed[leaf].outputs:
            self._take_back(made.id)

    def _offer_again(self, state: StateId) -> None:
        """What spent it is gone: the state is there for others, if its maker is."""
        maker = self.placed.get(state.leaf)
        if maker is not None:
            for made in (each for each in maker.outputs if each.id == state):
                self._offer(made, maker.sender)

    def _offer(self, state: State, sender: NodeName | None) -> None:
        self._take_back(state.id)
        size_bytes = state_bytes(state)
        self._offered[state.id] = Offered(state, size_bytes, sender)
        self._offered_bytes += size_bytes
        self._count(sender, offered=1, offered_bytes=size_bytes)

    def _take_back(self, state: StateId) -> None:
        offered = self._offered.pop(state, None)
        if offered is not None:
            self._offered_bytes -= offered.size_bytes
            self._count(offered.sender, offered=-1, offered_bytes=-offered.size_bytes)

    def _count(self, sender: NodeName | None, inputs: int = 0, offered: int = 0, offered_bytes: int = 0) -> None:
        """So much more of this sender is in the graph, or less; nothing is kept of one that has nothing in it."""
        if sender is None:
            return
        placings = self.senders.setdefault(sender, Placings())
        placings.inputs += inputs
        placings.offered += offered
        placings.offered_bytes += offered_bytes
        if not (placings.inputs or placings.offered):
            del self.senders[sender]


def _refers_to(placed: Placed, states: Collection[StateId]) -> bool:
    return any(reference in states for reference in (*placed.inputs, *placed.reads))
