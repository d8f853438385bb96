"""Locks, speculative states and dependencies at one coordinator.

Theory of operation. An assembled transition is *placed*: its inputs are locked, and its outputs
are offered to the next assembly although they are not on the chain yet. A state names the leaf that
made it, so an edge is read from a reference and stored nowhere else. Transitions are placed in the order
of their assembly, which is therefore an order of the graph: a reset goes through it backwards, so
that dependents are always reset before the transition they depend on (protocol §4.2).
Transitions handed over by another coordinator are placed here too, without being ours. States reserved for prepared
transitions (`kept.py`) are locked as well, except for other versions of their own intents.

A snapshot shows all of this or none: its size is bounded by one message, and no more is
assembled until some of it has its outcome. A domain's state may depend on its predecessors, which are spent: those that
a sender may not know are included as well, as far as there is room. Without them it can only assemble later.
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
    """A state offered to the next assembly, its size in a message, and its sender."""

    state: State
    size_bytes: int
    sender: NodeName | None


@dataclass(slots=True)
class Placings:
    """One sender's part of the graph: the states that it spends, and those that it offers, in number and in bytes."""

    inputs: int = 0
    offered: int = 0
    offered_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A transition in the graph; a foreign one came with a hand-over, and is valid until `valid_until_s`."""

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
    """The transitions under way here, by leaf."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept or Kept()
        self.placed: dict[Leaf, Placed] = {}
        self._spent_by: dict[StateId, Leaf] = {}
        self._users: dict[Leaf, dict[Leaf, None]] = {}
        self._foreign: dict[Leaf, Placed] = {}
        self._offered: dict[StateId, Offered] = {}
        self._offered_bytes = 0
        self._order = 0
        # By sender, where known: updated as transitions come and go, because there may be thousands of them.
        self.senders: dict[NodeName, Placings] = {}

    # Placing and removing.

    def place(self, transition: Transition, offers_states: bool = True, sender: NodeName | None = None) -> None:
        """Lock the transition's inputs, and offer its outputs if `offers_states`."""
        offered = transition.outputs if offers_states else ()
        self._place(transition.intent, transition.leaf, transition.inputs, transition.reads, offered, sender=sender)

    def place_foreign(self, handed: HandedOver, valid_until_s: int) -> None:
        """Place a transition dispatched by another coordinator, valid until then."""
        made = handed.transition
        if made.leaf not in self.placed:
            # Its reads no longer matter: the ledger decides its outcome.
            self._place(made.intent, made.leaf, made.inputs, (), made.outputs, handed.point, valid_until_s)

    def hide(self, leaf: Leaf) -> None:
        """Withdraw the outputs that a transition offers: nothing is to be built on it for now."""
        self.withdraw(leaf)
        self.placed[leaf] = replace(self.placed[leaf], outputs=())

    def show(self, transition: Transition) -> None:
        """Offer the outputs of a hidden transition, except those spent already."""
        self.placed[transition.leaf] = replace(self.placed[transition.leaf], outputs=transition.outputs)
        for made in transition.outputs:
            if made.id not in self._spent_by:
                self._offer(made, self.placed[transition.leaf].sender)

    def remove(self, leaf: Leaf) -> None:
        """Forget a transition with its locks and states; its dependents must have been reset before."""
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

    # Dependencies.

    def direct_users(self, leaf: Leaf) -> tuple[Placed, ...]:
        """Return the transitions under way that spend or read this leaf's states."""
        return tuple(self.placed[user] for user in self._users.get(leaf, ()))

    def conflicts(self, transition: Transition, giving_way: Collection[Leaf] = ()) -> bool:
        """Whether it is under way, or spends or reads a state that is reserved or spent by another one."""
        if len(set(transition.inputs)) < len(transition.inputs) or transition.leaf in self.placed:
            return True
        if self.kept.is_blocked(transition):
            return True
        return any(leaf not in giving_way for leaf in self.spenders_of((*transition.inputs, *transition.reads)))

    def dependencies(self, leaf: Leaf) -> tuple[Placed, ...]:
        """Return the transitions under way whose states this one spends or reads."""
        placed = self.placed[leaf]
        makers = dict.fromkeys(reference.leaf for reference in (*placed.inputs, *placed.reads))
        return tuple(self.placed[maker] for maker in makers if maker in self.placed)

    def dependents_last_first(self, leaf: Leaf) -> tuple[Placed, ...]:
        """Return all dependents of this leaf, direct or not, in the order in which they must be reset."""
        found: dict[Leaf, Placed] = {}
        pending = [leaf]
        while pending:
            for user in self._users.get(pending.pop(), {}):
                if user not in found:
                    found[user] = self.placed[user]
                    pending.append(user)
        return tuple(sorted(found.values(), key=lambda placed: -placed.order))

    def spenders_among(self, states: tuple[StateId, ...], but: Leaf) -> tuple[Leaf, ...]:
        """Return the other transitions under way that spend or read one of these states, in the order of assembly."""
        wanted = frozenset(states)
        users = {user for state in wanted for user in self._users.get(state.leaf, ()) if user != but}
        found = [placed for placed in map(self.placed.__getitem__, users) if _refers_to(placed, wanted)]
        return tuple(placed.leaf for placed in sorted(found, key=lambda placed: placed.order))

    def spenders_of(self, states: tuple[StateId, ...]) -> tuple[Leaf, ...]:
        """Return the transitions under way that spend one of these states."""
        return tuple(dict.fromkeys(self._spent_by[state] for state in states if state in self._spent_by))

    # Snapshots.

    def snapshot(
        self,
        node: NodeName,
        intents: Collection[IntentId] = (),
        unseen: Iterable[Leaf] = (),
        bytes_max: int = 0,
        giving_way: Collection[Leaf] = (),
    ) -> Snapshot:
        """Return the snapshot for assembling these intents; bytes of a state only where that node may see them (S8).

        It includes locked outputs of the `unseen` leaves, up to `bytes_max` in all. Inputs of the `giving_way` leaves
        are not locked, except those that would have to be included and find no room.
        """
        free = self._free(giving_way, bytes_max - self._offered_bytes) if giving_way else {}
        states = (*(offered.state for offered in self._offered.values()), *filter(None, free.values()))
        locks = (state for state in self._spent_by if state not in free)
        kept = (state for state in self.kept.locks(intents) if state in free or state not in self._spent_by)
        spent = self._spent_among(unseen, node, bytes_max - self._offered_bytes, free)
        return Snapshot((*locks, *kept), (*(state.as_seen_by(node) for state in states), *spent))

    def _free(self, giving_way: Collection[Leaf], room_bytes: int) -> dict[StateId, State | None]:
        """Return the inputs of these leaves that are free for others: on the chain, or with room to be shown."""
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
        """The number of states locked by transitions under way."""
        return len(self._spent_by)

    def fits_half(self, count: int, size_bytes: int, bytes_max: int) -> bool:
        """Whether so many more states leave half of a snapshot free."""
        is_few = len(self._offered) + count <= SNAPSHOT_STATES_MAX // 2
        return is_few and self._offered_bytes + size_bytes <= bytes_max // 2

    def fits_snapshot(self, bytes_max: int) -> bool:
        """Whether one message holds it all. None may be left out: to a sender an omitted state does not exist."""
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
        """Return the transitions that came with a hand-over and have no outcome yet."""
        return tuple(self._foreign.values())

    def foreign_makers(self, leaf: Leaf) -> tuple[Placed, ...]:
        """Return those of them whose states this transition spends or reads."""
        makers = self.dependencies(leaf) if leaf in self.placed else ()
        return tuple(maker for maker in makers if maker.point is not None)

    def withdraw(self, leaf: Leaf) -> None:
        """Offer nothing of a dispatched transition any more: its input is gone, so it cannot commit."""
        for made in self.placed[leaf].outputs:
            self._take_back(made.id)

    def _offer_again(self, state: StateId) -> None:
        """Offer a state again whose spender is gone, if its maker is still here."""
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
        """Add to this sender's counts, or subtract; a sender without any is removed."""
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
