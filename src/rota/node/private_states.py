"""Private states between nodes: one per node, for all its contracts (protocol §6, §8).

Theory of operation. `exchange/distribution.py` decides which states are delivered and when they are sent again; this
module holds the messages. A node takes states from nodes that may have them. It checks them against their leaves,
records them if there is room for states that are not on the chain (`exchange/unconfirmed.py`), and acknowledges them,
copies too. The acknowledgement is recorded and ends the delivery. A node that lacks states asks every member and
copies too. The acknowledgement is recorded and ends the delivery. A node that lacks states asks every member and
endorser by leaf. A node that is asked sends the states that the asking node may see and nothing else (S8). It does not
repeat that answer, because the asking node repeats its question. A node asks on its own for contents that a list grants
it and that did not come with the others (`exchange/incomplete.py`). To answer, a node looks in its store, which has the
transitions that it dispatched, received, and signed as a sender, because the dispatcher may be dead. It also looks
among the transitions that it has seen as an endorser, because sender and dispatcher may both be dead. A transition that
was committed without its sender's permission the sender itself sends to all on the lists, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rota.exchange.distribution import (
    FOUND_PARTS_FROM,
    DeliveriesRecalled,
    Delivery,
    order_of,
    parts_of,
    states_with_bytes,
)
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.exchange.incomplete import TIMES_MAX, Incomplete
from rota.exchange.unconfirmed import SentTransition, Unconfirmed
from rota.machine.effects import FindStates, TransitionPrepared
from rota.machine.pacing import FOUND_BYTES_MAX, QUESTION_BYTES, WRITTEN_AGAIN_TIMES_MAX, Debts, Pacing
from rota.model.blocks import LedgerStatus, Outcomes
from rota.model.consistency import Consistent, consistent, consistent_for, shows_too_much
from rota.model.sharing import holders_of
from rota.model.types import ContractAddress, Digest, Leaf, NodeName, Transition
from rota.node.events import RoundsMadeUp, StatesFound, StatesWanted
from rota.node.owner import Owner
from rota.wire.messages import (
    STATE_REQUEST_LEAVES_MAX,
    StateDistribution,
    StateDistributionAcknowledgement,
    StateRequest,
)
from rota.wire.sizes import transition_bytes

if TYPE_CHECKING:
    from rota.sequencer.sequencer import Sequencer

# In a contract in which this node neither endorses nor coordinates, a transition above this size is large. A payment is
# small. The large ones that a peer has this node store in an interval are bounded, whether a block has them or not: a
# transition on the chain costs its author the same gas whatever the size of its private states.
SMALL_BYTES = 16_384
LARGE_BYTES_MAX = 67_108_864
LARGE_INTERVAL_MS = 3_600_000
UNPERMITTED_MAX = 1_000
# The part number of states seen here: no peer can send one with it, and so block it.
SEEN_PART = -1


class PrivateStates:
    """The private states that this node receives, requests, is asked for, and delivers."""

    def __init__(self, node: Owner, sent: Iterable[SentTransition] = ()) -> None:
        self.node = node
        self.unconfirmed = Unconfirmed(node.config, sent)
        self.distribution = node.distribution
        self.pacing = Pacing(node)
        self.found = Debts(node, FOUND_BYTES_MAX, node.config.request_timeout_ms)
        self.large = Debts(node, LARGE_BYTES_MAX, LARGE_INTERVAL_MS)
        self.incomplete = Incomplete(node.name, node.config.request_timeout_ms)
        # Own leaves that were committed without our permission, while the store is asked for their states.
        self.unpermitted: dict[tuple[ContractAddress, Leaf], None] = {}

    def take(
        self,
        peer: NodeName,
        contract: ContractAddress,
        body: StateDistribution | StateDistributionAcknowledgement | StateRequest,
    ) -> None:
        """Take a peer's states, acknowledgement or request."""
        if isinstance(body, StateDistribution):
            self.take_states(peer, contract, body)
        elif isinstance(body, StateRequest):
            self._answer(peer, contract, body)
        elif self.distribution.is_open(peer, body.digest, body.part):
            self.node.persist(contract, StatesAcknowledged(body.digest, peer, body.part))
            self.distribution.acknowledged(self.node.now_ms, peer, body.digest, body.part)
            self.deliver()

    def take_own(self, event: StatesWanted | StatesFound | DeliveriesRecalled) -> None:
        """Take a lack of states at this node, or an answer of its store."""
        if isinstance(event, StatesWanted):
            self.ask(event.contract, event.leaves)
        elif isinstance(event, StatesFound):
            self.take_found(event.contract, event.peer, event.digest, event.transitions)
        else:
            self.distribution.take_recalled(self.node.now_ms, event)
            self.deliver()

    def take_made_up(self, event: RoundsMadeUp) -> None:
        """Release the room of states in blocks that are final already and known to the coordinator."""
        sequencer = self.node.sequencers.loaded.get(event.contract)
        if sequencer is not None:
            sequencer.note_final_outcomes(event.outcomes)
        self.take_outcomes(tuple((event.contract, outcome) for outcome in event.outcomes))

    def take_states(self, peer: NodeName, contract: ContractAddress, body: StateDistribution) -> None:
        """Take private states for this node: check them against their leaves, record, then acknowledge; copies too.

        States from a stranger to the contract do not come here (`Acquaintance.is_hidden_from`).
        """
        sequencer = self.node.sequencers.loaded[contract]
        if not states_with_bytes(body.transitions):
            return
        checked = [self._checked(sequencer, transition) for transition in body.transitions]
        known = tuple(transition for transition in checked if transition is not None)
        if len(known) < len(checked):
            return
        self.node.show(peer, contract, known)
        for transition in known:
            self.incomplete.note(self.node.now_ms, peer, contract, transition)
        # A recorded transition is not written again, under another digest, beside a new one.
        new = tuple(each for each in known if not self._is_recorded(contract, each))
        if new:
            large_bytes = 0 if sequencer.context.has_part else _large_bytes(new)
            if large_bytes and not self.large.is_clear(peer):
                return
            if not self._may_write_again(peer, contract, new) or not self._has_room(peer, contract, new):
                return
            if large_bytes:
                self.large.charge(peer, large_bytes)
            self.node.persist(contract, StatesReceived(body.digest, new, body.part, peer))
            self._note_received(contract, new, is_own=False)
        self.node.send(peer, contract, StateDistributionAcknowledgement(body.digest, body.part))

    def _checked(self, sequencer: Sequencer, transition: Transition) -> Consistent | None:
        """Return the transition if it agrees with itself; a copy of one that our endorser checked is not hashed."""
        seen = sequencer.endorser.seen.equal_to(transition)
        if seen is not None and not shows_too_much(self.node.name, seen):
            return seen
        return consistent_for(sequencer.context.separator, self.node.name, transition)

    def _is_recorded(self, contract: ContractAddress, transition: Transition) -> bool:
        """Whether it is recorded with its bound: one with a later bound must not be deleted before."""
        is_received = self.distribution.is_received(contract, (transition,))
        return is_received and not self.unconfirmed.outlives(contract, transition)

    def _may_write_again(self, peer: NodeName, contract: ContractAddress, transitions: tuple[Transition, ...]) -> bool:
        """Whether the peer may have stored transitions written again, which take no more room, at a limited rate."""
        if not any((contract, each.leaf) in self.unconfirmed.sent for each in transitions):
            return True
        return self.pacing.is_due(("again", peer), self.node.config.request_timeout_ms, WRITTEN_AGAIN_TIMES_MAX)

    def _has_room(self, peer: NodeName, contract: ContractAddress, transitions: tuple[Transition, ...]) -> bool:
        """Whether there is room for all that are not on the chain, as far as known; all are taken or none."""
        leaf_of = self.node.sequencers.loaded[contract].coordinator.outcomes.leaf_of
        unconfirmed = [each for each in transitions if leaf_of(each.intent) != each.leaf]
        outliving = {(contract, each.leaf) for each in unconfirmed if self.unconfirmed.outlives(contract, each)}
        if not self.unconfirmed.take(peer, contract, unconfirmed, self.node.chain_time_s):
            return False
        if outliving:
            # Their later bounds are not recorded yet, and a copy must not be acknowledged before that.
            self.distribution.forget_received(outliving)
        return True

    def take_outcomes(self, outcomes: Outcomes) -> None:
        """Release the room of transitions in a block. A skipped one is written again if it is sent again."""
        if not outcomes or not self.unconfirmed.sent:
            return
        released = self.unconfirmed.release((contract, outcome.leaf) for contract, outcome in outcomes)
        skipped = {(address, each.leaf) for address, each in outcomes if each.status is not LedgerStatus.COMMITTED}
        skipped.intersection_update(released)
        if skipped:
            self.distribution.forget_received(skipped)

    def undo_outcomes(self, outcomes: Outcomes) -> None:
        """Undo outcomes of a removed block: transitions sent again are written again, with their bounds."""
        self.distribution.forget_received({(contract, outcome.leaf) for contract, outcome in outcomes})

    def time_is_final(self, final_time_s: int) -> None:
        """Delete expired transitions from the store, and release their room."""
        expired = self.unconfirmed.take_expired(final_time_s)
        if expired:
            self.distribution.forget_received(set(expired))

    def store_seen(self, contract: ContractAddress, transition: Consistent) -> None:
        """Record a transition that only our endorser has seen and that is on the chain."""
        if not self.distribution.is_own_written(contract, transition):
            self.node.persist(contract, StatesReceived(Digest(transition.leaf), (transition,), SEEN_PART))
            self._note_received(contract, (transition,), is_own=True)

    def ask(self, contract: ContractAddress, leaves: tuple[Leaf, ...]) -> None:
        """Ask every node that may have them for their states, and repeat that if none sends them.

        They are on the chain, so they take no room of the peers that send them. A contract that is not in memory is
        loaded for the repetition.
        """
        sequencer = self.node.sequencers.loaded.get(contract)
        if sequencer is None:
            self.node.load(contract)
            return
        self.unconfirmed.note_asked(contract, leaves)
        holders = holders_of(sequencer.context.contract)
        for start in range(0, len(leaves), STATE_REQUEST_LEAVES_MAX):
            for holder in holders:
                if holder != self.node.name:
                    request = StateRequest(leaves[start : start + STATE_REQUEST_LEAVES_MAX])
                    self.node.send(holder, contract, request)

    def ask_for_incomplete(self) -> None:
        """Ask for contents this node may see, of transitions on the chain, that were not sent with the others."""
        wanted: dict[ContractAddress, list[Leaf]] = {}
        for lacking in self.incomplete.take_due(self.node.now_ms):
            sequencer = self.node.sequencers.loaded.get(lacking.contract)
            is_complete = all((lacking.contract, state) in self.distribution.received for state in lacking.states)
            if is_complete or lacking.attempt > TIMES_MAX:
                self.incomplete.forget(lacking)
            elif sequencer is None or sequencer.coordinator.outcomes.leaf_of(lacking.intent) == lacking.leaf:
                wanted.setdefault(lacking.contract, []).append(lacking.leaf)
        for contract, leaves in wanted.items():
            self.ask(contract, tuple(leaves))

    def _answer(self, peer: NodeName, contract: ContractAddress, request: StateRequest) -> None:
        """Answer from the store and the endorser's memory, which may be the only copy; each under its own leaf.

        The store answers one question after the other, those of users too: a peer has a limited number of them in a
        while, and as many bytes as their answers may have on average, whether it may see them or not.
        """
        if not self.found.is_clear(peer):
            return
        self.found.charge(peer, QUESTION_BYTES)
        self.node.effects.append(FindStates(contract, peer, request.leaves))
        sequencer = self.node.sequencers.loaded.get(contract)
        for seen in sequencer.endorser.seen.find(request.leaves) if sequencer is not None else ():
            self.send_found(contract, peer, Digest(seen.leaf), (seen,))

    def take_found(
        self, contract: ContractAddress, peer: NodeName, digest: Digest, transitions: tuple[Transition, ...]
    ) -> None:
        """Take the store's answer to a question of a peer, or of our own sender."""
        self.found.charge(peer, sum(map(transition_bytes, transitions)))
        self.send_found(contract, peer, digest, transitions)

    def send_found(
        self, contract: ContractAddress, peer: NodeName, digest: Digest, transitions: tuple[Transition, ...]
    ) -> None:
        """Send a peer only states that it may see; or give our own sender the transitions that it asked for."""
        if peer == self.node.name:
            self._distribute_found(contract, transitions)
            self._show_own(contract, transitions)
            return
        seen = [transition.as_seen_by(peer) for transition in transitions]
        owed = [transition for transition in seen if states_with_bytes((transition,))]
        for part, due in enumerate(parts_of(owed), FOUND_PARTS_FROM):
            self.node.send(peer, contract, StateDistribution(digest, due, part))

    def distribute_own(self, contract: ContractAddress, leaf: Leaf) -> None:
        """Distribute a leaf that our party signed and we did not permit; perhaps only our store has its states."""
        self.unpermitted[contract, leaf] = None
        if len(self.unpermitted) > UNPERMITTED_MAX:
            del self.unpermitted[next(iter(self.unpermitted))]
        self.node.effects.append(FindStates(contract, self.node.name, (leaf,)))

    def _distribute_found(self, contract: ContractAddress, transitions: tuple[Transition, ...]) -> None:
        """Send it once to each on a list, without repetition: a node that does not get it asks the members."""
        for transition in transitions:
            if (contract, transition.leaf) in self.unpermitted:
                del self.unpermitted[contract, transition.leaf]
                for peer in dict.fromkeys(peer for state in transition.outputs for peer in state.distribution):
                    if peer != self.node.name:
                        self.send_found(contract, peer, Digest(transition.leaf), (transition,))

    def _show_own(self, contract: ContractAddress, transitions: tuple[Transition, ...]) -> None:
        sequencer = self.node.sequencers.loaded.get(contract)
        if sequencer is not None:
            checked = (consistent(sequencer.context.separator, transition) for transition in transitions)
            own = tuple(transition for transition in checked if transition is not None)
            self.node.show(self.node.name, contract, own)

    def distribute_prepared(self, contract: ContractAddress, prepared: Iterable[TransitionPrepared]) -> None:
        """Distribute the states of prepared transitions as of a dispatch: they may be on the chain at any time."""
        for record in prepared:
            self.distribution.take(self.node.now_ms, order_of(contract, record))
        self.deliver()

    def deliver(self) -> None:
        """Send due deliveries, and have the store read the next ones for a peer whose window is empty."""
        for due in self.distribution.take_due(self.node.now_ms):
            if isinstance(due, Delivery):
                self.node.send(due.peer, due.contract, StateDistribution(due.digest, due.transitions, due.part))
            else:
                self.node.effects.append(due)

    def _note_received(self, contract: ContractAddress, transitions: tuple[Transition, ...], is_own: bool) -> None:
        """Note recorded states: from now on an endorser finds them in the store."""
        self.distribution.note_received(contract, transitions, is_own)
        sequencer = self.node.sequencers.loaded[contract]
        sequencer.endorser.states_stored(transitions)
        sequencer.sender.assembly.states_arrived()


def _large_bytes(transitions: tuple[Transition, ...]) -> int:
    """Return the size of those that are large."""
    return sum(size for size in map(transition_bytes, transitions) if size > SMALL_BYTES)
