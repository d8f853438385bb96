"""Quotas: limits on each sender's use of one coordinator's resources (protocol §7).

Theory of operation. A coordinator holds a limited number of intents and bytes of transitions, and a snapshot a limited
number of locks and states. Each sender has a share of each (`shares.py`). No refusal is permanent: an intent over
quota stays in its sender's own queue and is delegated again, a transition is assembled again later, and states that a
snapshot has no room for are shown to no sender before they are on the chain.

Each transition under way makes every further slot more expensive: its locks and states are in the snapshot. So no
more are assembled than all rounds that may be under way hold, and some to choose from (`assembled_max`); other intents
wait unassembled, which costs nothing. Without that bound an overloaded coordinator would achieve less.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rota.model.types import NodeName, Transition
from rota.sequencer.context import Context
from rota.sequencer.graph import SNAPSHOT_STATES_MAX, Graph
from rota.sequencer.kept import SNAPSHOT_LOCKS_MAX
from rota.sequencer.shares import Shares
from rota.wire.sizes import state_bytes

# Transitions to choose from, beyond those that rounds under way hold.
ASSEMBLED_SPARE = 768


class Quotas:
    """The resources that the senders of one coordinator hold, and may still take."""

    def __init__(self, context: Context, graph: Graph) -> None:
        self.context = context
        self.graph = graph
        self.places = self._shares()
        self.held_bytes = self._shares()
        self.assembled = self._shares()

    def has_place(self, sender: NodeName) -> bool:
        """Whether the sender has a place for one more intent."""
        return self.places.has_room(sender, 1, self.context.config.in_flight_max)

    @property
    def assembled_max(self) -> int:
        """The number of transitions under way at which no further slot is assembled."""
        config = self.context.config
        return config.round_max * (config.dispatch_ahead_max + config.rounds_open_max) + ASSEMBLED_SPARE

    def may_assemble(self, sender: NodeName) -> bool:
        """Whether a slot of this sender may be assembled."""
        return self.assembled.has_room(sender, 1, self.assembled_max)

    def has_room(self, sender: NodeName, transition: Transition, size_bytes: int) -> bool:
        """Whether there is room for one more transition: in memory, and among the locks of a snapshot."""
        if not self.held_bytes.has_room(sender, size_bytes, self.context.config.held_bytes_max):
            return False
        count, graph = len(transition.inputs), self.graph
        if graph.lock_count + count <= SNAPSHOT_LOCKS_MAX // 2:
            return True
        locks = self._shares({each: placings.inputs for each, placings in graph.senders.items()})
        return locks.has_room(sender, count, SNAPSHOT_LOCKS_MAX)

    def may_offer(self, sender: NodeName, transition: Transition) -> bool:
        """Whether there is room for its states among those in a snapshot."""
        outputs, graph = transition.outputs, self.graph
        most = self.context.config.message_bytes_max
        count, size_bytes = len(outputs), sum(map(state_bytes, outputs))
        if graph.fits_half(count, size_bytes, most):
            return True
        senders = graph.senders.items()
        states = self._shares({each: placings.offered for each, placings in senders})
        their_bytes = self._shares({each: placings.offered_bytes for each, placings in senders})
        return states.has_room(sender, count, SNAPSHOT_STATES_MAX) and their_bytes.has_room(sender, size_bytes, most)

    def _shares(self, held: Mapping[NodeName, int] = MappingProxyType({})) -> Shares:
        """Return shares for a resource of which senders hold these amounts."""
        shares = Shares(self.context.contract, self.context.proven)
        for sender in filter(held.get, held):
            shares.take(sender, held[sender])
        return shares

    def show(self, sender: NodeName, transition: Transition) -> None:
        """Offer the states of a hidden transition that is dispatched, if there is room for them."""
        if self.may_offer(sender, transition):
            self.graph.show(transition)
