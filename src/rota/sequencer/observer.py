"""Knowledge of the other nodes, for one contract: last messages, silence, and the accepted coordinator.

Theory of operation. Everything here follows from received messages: each names its author's
height, whether it has a ledger, and its incarnation; heartbeats are also numbered and name a
state. From that come two judgements that sender, coordinator and endorser share (protocol §4.1):

- X is *silent* when no answer can be expected from it: its connection is down, or it acted as coordinator
  and more than `heartbeat_grace` of the heartbeats that it owes us are missing, or a delegation that we
  accepted lists it as tried with a number not lower than the last that we have, or its last message had
  `no_ledger`. A coordinator owes heartbeats to members, and to other nodes only while it has intents of theirs.
- The *accepted coordinator* is the one that this node follows: it is replaced when it is silent, when a live
  one outranks it, and, once it is not live, by the first live one.

A third judgement does not follow from messages of X: whether it is *demoted* (`demotion.py`). A demoted node is not
live here and outranks no node. Heights that peers claim count up to `height_bound`; ranks are compared at our own range
or later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rota.model.types import NEVER_HEARD, HeartbeatNumber, Mode, NodeName, RequestId, Tried
from rota.sequencer.context import Context
from rota.sequencer.demotion import Demotions
from rota.sequencer.listing import Listing
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, Envelope, MissingEndorser

LIVE = (CoordinatorState.ELECT, CoordinatorState.PREPARED, CoordinatorState.ACTIVE)
EXPECTED = (*LIVE, CoordinatorState.STANDBY)
PEERS_KEPT_MAX = 4_096
AHEAD_BLOCKS_MIN = 8
DOUBTS_MAX = 6
# An endorser answers with one of a few codes, as its coordinator reports it.
SAID_CHARACTERS_MAX = 80
# Names of a transaction's states at its coordinator are short.
STATE_CHARACTERS_MAX = 64


@dataclass(slots=True)
class Peer:
    """The latest known facts about one node."""

    connected: bool = True
    has_ledger: bool = True
    height: int = 0
    message_id: RequestId = RequestId(0, 0)
    incarnation: int = 0
    number: HeartbeatNumber = NEVER_HEARD
    state: CoordinatorState = CoordinatorState.IDLE
    successor: NodeName | None = None
    missing: tuple[MissingEndorser, ...] = ()
    heartbeat_at_ms: int = 0
    listing: Listing | None = None
    heard_at_ms: int = 0
    tried_as: HeartbeatNumber | None = None
    silent_since_ms: int | None = None
    doubted_until_range: int = -1
    doubt_count: int = 0


class Observer:
    """Knowledge of the other nodes: one per contract and node, shared by the machines."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.silence_ms = context.config.silence_ms
        self.peers: dict[NodeName, Peer] = {}
        self.accepted: NodeName | None = None
        self.demotions = Demotions(context)
        # Set by the sender: whether a node has intents of ours.
        self.has_intents_of_ours: Callable[[NodeName], bool] = lambda _: False

    def peer(self, node: NodeName) -> Peer:
        """Return the record of a node; an unknown node counts as connected until the contrary is known."""
        known = self.peers.get(node)
        if known is None:
            if len(self.peers) >= PEERS_KEPT_MAX:
                self._forget_a_stranger()
            known = self.peers[node] = Peer()
        return known

    def _forget_a_stranger(self) -> None:
        """Forget the non-member that has been known longest."""
        committee = self.context.contract.committee
        stranger = next((node for node in self.peers if node not in committee), None)
        if stranger is not None:
            del self.peers[stranger]

    # Received messages.

    def hear(self, node: NodeName, envelope: Envelope) -> bool:
        """Take any message: it ends silence unless it has `no_ledger`. Return whether the author was silent."""
        peer, context = self.peers.get(node) or self.peer(node), self.context
        is_lately_heard = context.now_ms - peer.heard_at_ms < self.silence_ms and node != context.node
        is_there = peer.connected and peer.has_ledger and peer.tried_as is None
        was_silent = not (is_lately_heard and is_there) and self.is_silent(node)
        peer.connected, peer.heard_at_ms, peer.has_ledger = True, context.now_ms, not envelope.no_ledger
        if envelope.message_id >= peer.message_id:
            # The height may fall in a reorganisation; keeping a greater one would make our ranking differ from the
            # peer's.
            claimed = envelope.height
            peer.height = claimed if claimed <= context.height else self.height_bound(node, claimed)
            peer.message_id = envelope.message_id
        if envelope.incarnation > peer.incarnation:
            peer.incarnation = envelope.incarnation
        if peer.has_ledger:
            peer.tried_as = None
        return was_silent

    def height_bound(self, node: NodeName, claimed: int) -> int:
        """Return how much of a claimed height counts: one range above the own index, or a few blocks.

        For a doubted peer (see `doubt`), nothing above the own height counts.
        """
        context = self.context
        if claimed <= context.height or node == context.node:
            return claimed
        if context.block_range <= self.peer(node).doubted_until_range:
            return context.height
        return min(claimed, context.height + max(context.contract.range_size, AHEAD_BLOCKS_MIN))

    def doubt(self, node: NodeName) -> None:
        """Note that the own index did not reach a height that this node claimed in time.

        Its heights count for nothing in this range, and for twice as many ranges each time this happens again.
        """
        peer, block_range = self.peer(node), self.context.block_range
        if block_range > peer.doubted_until_range:
            peer.doubted_until_range = block_range + (1 << peer.doubt_count) - 1
            peer.doubt_count = min(peer.doubt_count + 1, DOUBTS_MAX)

    def hear_heartbeat(self, node: NodeName, heartbeat: CoordinatorHeartbeat) -> bool:
        """Record a heartbeat and return True; an old or repeated one has no effect and returns False."""
        peer = self.peer(node)
        if heartbeat.number <= peer.number:
            return False
        peer.number, peer.heartbeat_at_ms = heartbeat.number, self.context.now_ms
        peer.state, peer.successor = heartbeat.state, heartbeat.successor
        peer.missing = self._shown_as_missing(heartbeat) if heartbeat.missing else ()
        if self.is_live(node) and self._replaces_accepted(node):
            self.accepted = node
        self._take_listing(peer, heartbeat)
        return True

    def _shown_as_missing(self, heartbeat: CoordinatorHeartbeat) -> tuple[MissingEndorser, ...]:
        """Return the contract's endorsers that it names, each once, with a short line of each one's answer."""
        endorsers = self.context.contract.endorsers
        named = {each.endorser: each for each in heartbeat.missing if each.endorser in endorsers}
        return tuple(replace(each, said=_short_line(each.said)) for each in named.values())

    def _take_listing(self, peer: Peer, heartbeat: CoordinatorHeartbeat) -> None:
        """Update its list of our intents; after a missed heartbeat the list is unknown until a whole one comes.

        A coordinator has at most `in_flight_max` intents; twice as many are accepted, because its limit may differ.
        Overlong names of states make the list invalid too.
        """
        if heartbeat.is_whole:
            peer.listing = Listing()
        listing = peer.listing
        if listing is None:
            return
        listing.apply(heartbeat.intents, heartbeat.gone)
        has_missed = (listing.count, listing.digest) != (heartbeat.count, heartbeat.digest)
        is_false = listing.count > 2 * self.context.config.in_flight_max or any(
            len(listed.state) > STATE_CHARACTERS_MAX for listed in heartbeat.intents
        )
        if (has_missed and not heartbeat.is_whole) or is_false:
            peer.listing = None

    def connection_changed(self, node: NodeName, connected: bool) -> None:
        """Record that the connection was lost or made; a new connection ends silence like a message."""
        peer = self.peer(node)
        peer.connected = connected
        if connected:
            peer.tried_as, peer.heard_at_ms = None, self.context.now_ms

    def weigh(self, author: NodeName, tried: tuple[Tried, ...], is_first_hand: bool) -> None:
        """Weigh the nodes that a delegation or endorsement request lists. Only members count; the own list is known."""
        if author != self.context.node and self.has_observation and author in self.context.contract.committee:
            self.demotions.hear(author, tried, self.accepted, is_first_hand)

    def believe_tried(self, author: NodeName, tried: tuple[Tried, ...]) -> None:
        """Believe the `tried` list of an accepted delegation or request, except on its author and this node."""
        latest: dict[NodeName, Tried] = {}
        for entry in tried:
            known = latest.get(entry.node)
            if known is None or known.number < entry.number:
                latest[entry.node] = entry
        # One check per node: a list may name one thousands of times.
        for node, entry in latest.items():
            is_known = node in self.peers or node in self.context.contract.committee
            if is_known and node not in (self.context.node, author) and self.is_tried_by(author, (entry,), node):
                self.peer(node).tried_as = entry.number

    def is_tried_by(self, author: NodeName, tried: tuple[Tried, ...], node: NodeName) -> bool:
        """Whether it is listed with a number not below ours, and the author is believed (`demotion.py`)."""
        is_listed = any(entry.node == node and entry.number >= self.peer(node).number for entry in tried)
        return is_listed and self.demotions.is_believed_unreached(author, node)

    def forget_tried(self, tried: tuple[Tried, ...]) -> None:
        """Discard reports about members that the followed coordinator does not list, as it lists all it cannot reach.

        Members that do not coordinate rarely exchange messages. An old report would otherwise stay here, travel with
        delegations, make the coordinator believe it, and return to all members.
        """
        listed = {entry.node for entry in tried}
        for node, peer in self.peers.items():
            if node not in listed:
                peer.tried_as = None

    def may_coordinate(self, node: NodeName) -> bool:
        """Whether it is a member of the committee; in `sender` mode only this node coordinates its intents."""
        if self.context.contract.mode is Mode.SENDER:
            return node == self.context.node
        return node in self.context.contract.committee

    def accept(self, node: NodeName) -> None:
        """Follow this coordinator from now on."""
        self.accepted = node

    def demote(self, node: NodeName) -> None:
        """Demote a node that did nothing for this one in time; others are chosen from now on."""
        self.demotions.demote(node)

    # Judgements.

    def is_silent(self, node: NodeName) -> bool:
        """Whether no answer can be expected of it at present."""
        context = self.context
        if node == context.node:
            return not context.has_ledger
        peer = self.peers.get(node) or self.peer(node)
        if not peer.connected or not peer.has_ledger or peer.tried_as is not None:
            return True
        if context.now_ms - peer.heard_at_ms < self.silence_ms:
            return False  # The usual case, and checked for each message.
        return self._is_quiet(peer) and self._is_owed_heartbeats_by(node)

    def is_demoted(self, node: NodeName) -> bool:
        """Whether it is passed over although it sends messages."""
        demotions = self.demotions
        return bool(demotions.own or demotions.accusers) and demotions.is_demoted(node)

    def is_passed_over(self, node: NodeName) -> bool:
        """Whether it is silent or demoted, so that it prevents no other node from acting."""
        return self.is_silent(node) or self.is_demoted(node)

    def is_reachable(self, node: NodeName) -> bool:
        """Whether a request may be answered: its connection is up, and it has a ledger."""
        if node == self.context.node:
            return self.context.has_ledger
        return self.peer(node).connected and self.peer(node).has_ledger

    def is_gone(self, node: NodeName) -> bool:
        """Whether its connection is down or its heartbeats are missing; being listed as tried is not enough."""
        if node == self.context.node:
            return False
        peer = self.peer(node)
        return not peer.connected or (self._is_quiet(peer) and self._is_owed_heartbeats_by(node))

    def silent_for_ms(self, node: NodeName) -> int:
        """Return how long it has been silent, counted from the first check that found it so; 0 if it is not."""
        peer = self.peer(node)
        if not self.is_silent(node):
            peer.silent_since_ms = None
            return 0
        if peer.silent_since_ms is None:
            peer.silent_since_ms = self.context.now_ms
        return self.context.now_ms - peer.silent_since_ms

    def is_live(self, node: NodeName) -> bool:
        """Whether its last heartbeat came from Elect, Prepared or Active, and it is not demoted."""
        return self.peer(node).state in LIVE and not self.is_demoted(node)

    def state_of(self, node: NodeName) -> CoordinatorState:
        """Return the state in its last heartbeat; Idle if there was none."""
        return self.peer(node).state

    def heartbeat_age_ms(self, node: NodeName) -> int:
        """Return the time since its last heartbeat."""
        return self.context.now_ms - self.peer(node).heartbeat_at_ms

    def range_of(self, node: NodeName) -> int:
        """Return the range that a node is in, by its last known height."""
        height = self.context.height if node == self.context.node else self.peer(node).height
        return self.context.contract.range_at(height)

    def later_range(self, *nodes: NodeName) -> int:
        """Return the latest range that one of these nodes is in, as far as claims count; never one before our own."""
        return max(self.context.block_range, *(self.range_of(node) for node in nodes))

    def outranks(self, one: NodeName, other: NodeName, block_range: int | None = None) -> bool:
        """Compare by the ranking at the later of the two nodes' ranges, so that both decide alike (protocol §4.1).

        A demoted node outranks none, and every node that is not demoted outranks it.
        """
        if self.demotions.own or self.demotions.accusers:
            is_demoted = self.is_demoted(one)
            if is_demoted != self.is_demoted(other):
                return not is_demoted and one in self.context.ranking(self.context.block_range)
        if block_range is None:
            block_range = self.later_range(one, other)
        order = self.context.ranking(block_range)
        return one in order and (other not in order or order.index(one) < order.index(other))

    def preferred(self, block_range: int, without: frozenset[NodeName] = frozenset()) -> NodeName | None:
        """Return the first of the ranking that is neither silent nor demoted."""
        for node in self.context.ranking(block_range):
            if node not in without and not self.is_passed_over(node):
                return node
        return None

    def tried(self) -> tuple[Tried, ...]:
        """Return the members that are silent here or demoted at first hand, for other nodes to weigh."""
        members = self.context.ranking(self.context.block_range)
        demoted = self.demotions.first_hand(members)
        passed_over = [node for node in members if node in demoted or self.is_silent(node)]
        return tuple([Tried(node, self.peer(node).number, node in demoted) for node in passed_over])

    @property
    def active(self) -> NodeName | None:
        """The accepted coordinator, unless that is this node; it may also be in Flush or Closing."""
        return self.accepted if self.accepted != self.context.node else None

    @property
    def has_observation(self) -> bool:
        """False in `sender` mode: every node coordinates its own intents and observes no other (protocol §2)."""
        return self.context.contract.mode is not Mode.SENDER

    def is_quiet(self, node: NodeName) -> bool:
        """Whether it acted as coordinator and its messages are overdue."""
        return self._is_quiet(self.peer(node))

    def _is_quiet(self, peer: Peer) -> bool:
        """Whether it acted as coordinator, and no message has come from it for longer than `heartbeat_grace` allows.

        No message is expected if its last heartbeat is from an earlier run: it may coordinate no longer.
        """
        if self.context.now_ms - peer.heard_at_ms < self.silence_ms:
            return False
        return peer.state in EXPECTED and peer.number.incarnation >= peer.incarnation

    def _is_owed_heartbeats_by(self, node: NodeName) -> bool:
        """Whether this node is a member, or the coordinator has intents of it."""
        return self.context.node in self.context.contract.committee or self.has_intents_of_ours(node)

    def _replaces_accepted(self, node: NodeName) -> bool:
        accepted = self.accepted
        if accepted is None:
            return True
        return self.is_silent(accepted) or not self.is_live(accepted) or self.outranks(node, accepted)


def _short_line(said: str) -> str:
    """Return a peer's text in a form that is safe to show in a terminal."""
    return "".join(filter(str.isprintable, said))[:SAID_CHARACTERS_MAX]
