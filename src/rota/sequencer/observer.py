"""What this node knows of the others, for one contract: signs of life, silence, and whom it accepts.

Theory of operation. Everything here follows from what was heard: each message names its author's
height, whether it has a ledger, and its incarnation; heartbeats also number themselves and name a
state. From that come two judgements that sender, coordinator and endorser share (protocol §4.1):

- X is *silent* when nothing can be expected of it: its connection is down, or it acted as coordinator
  and more than `heartbeat_grace` of the heartbeats that it owes us are missing, or a delegation that we
  accepted lists it as tried with a number not lower than the last that we have, or its last message said
  `no_ledger`. A coordinator owes heartbeats to members, and to other nodes only while it has intents of theirs.
- The *accepted coordinator* is the one that we follow: it is replaced when it is silent, when a live
  one outranks it, and, once it is not live, by the first live one.

A third judgement does not follow from signs of life: who is *demoted* (`demotion.py`). Such a node is not live here
and outranks nobody. Heights that peers claim count up to `height_bound`; ranks are compared at our own range or later.
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
# What an endorser answered is one of a few codes, by its coordinator's word.
SAID_CHARACTERS_MAX = 80
# States of a transaction at its coordinator have short names.
STATE_CHARACTERS_MAX = 64


@dataclass(slots=True)
class Peer:
    """What was last heard of one node."""

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
    """One per contract and node; the machines ask it and tell it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.silence_ms = context.config.silence_ms
        self.peers: dict[NodeName, Peer] = {}
        self.accepted: NodeName | None = None
        self.demotions = Demotions(context)
        # The sender's answer to whether a node has intents of ours.
        self.has_intents_of_ours: Callable[[NodeName], bool] = lambda _: False

    def peer(self, node: NodeName) -> Peer:
        """What we know of a node; a stranger is taken to be there until the contrary is known."""
        known = self.peers.get(node)
        if known is None:
            if len(self.peers) >= PEERS_KEPT_MAX:
                self._forget_a_stranger()
            known = self.peers[node] = Peer()
        return known

    def _forget_a_stranger(self) -> None:
        """The one that we have known longest of those that are no members."""
        committee = self.context.contract.committee
        stranger = next((node for node in self.peers if node not in committee), None)
        if stranger is not None:
            del self.peers[stranger]

    # What is heard.

    def hear(self, node: NodeName, envelope: Envelope) -> bool:
        """Any message ends silence, unless its author says that it has no ledger; True when the author was silent."""
        peer, context = self.peers.get(node) or self.peer(node), self.context
        is_lately_heard = context.now_ms - peer.heard_at_ms < self.silence_ms and node != context.node
        is_there = peer.connected and peer.has_ledger and peer.tried_as is None
        was_silent = not (is_lately_heard and is_there) and self.is_silent(node)
        peer.connected, peer.heard_at_ms, peer.has_ledger = True, context.now_ms, not envelope.no_ledger
        if envelope.message_id >= peer.message_id:
            # A reorganisation takes it back, and whoever remembers a greater one ranks otherwise than the peer does.
            claimed = envelope.height
            peer.height = claimed if claimed <= context.height else self.height_bound(node, claimed)
            peer.message_id = envelope.message_id
        if envelope.incarnation > peer.incarnation:
            peer.incarnation = envelope.incarnation
        if peer.has_ledger:
            peer.tried_as = None
        return was_silent

    def height_bound(self, node: NodeName, claimed: int) -> int:
        """How much of a claimed height counts: a range ahead of our own index, or a few blocks where ranges are short.

        Of a peer whose height we waited for in vain lately, nothing above our own counts.
        """
        context = self.context
        if claimed <= context.height or node == context.node:
            return claimed
        if context.block_range <= self.peer(node).doubted_until_range:
            return context.height
        return min(claimed, context.height + max(context.contract.range_size, AHEAD_BLOCKS_MIN))

    def doubt(self, node: NodeName) -> None:
        """It said that the chain is further than our index, and our index did not get there in time.

        Its heights count for nothing in this range; twice as many ranges each time that it happens again.
        """
        peer, block_range = self.peer(node), self.context.block_range
        if block_range > peer.doubted_until_range:
            peer.doubted_until_range = block_range + (1 << peer.doubt_count) - 1
            peer.doubt_count = min(peer.doubt_count + 1, DOUBTS_MAX)

    def hear_heartbeat(self, node: NodeName, heartbeat: CoordinatorHeartbeat) -> bool:
        """Take note of a heartbeat; an old or repeated one changes nothing and answers False."""
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
        """The endorsers of the contract that it names, each once, and a short line of what each answered."""
        endorsers = self.context.contract.endorsers
        named = {each.endorser: each for each in heartbeat.missing if each.endorser in endorsers}
        return tuple(replace(each, said=_short_line(each.said)) for each in named.values())

    def _take_listing(self, peer: Peer, heartbeat: CoordinatorHeartbeat) -> None:
        """What it lists of ours; nothing is known of it when a heartbeat is missing, until the whole list comes.

        A coordinator has at most `in_flight_max` intents; twice as many are kept, because its limit may be another.
        Names of states that no coordinator has are not kept either.
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
        """The connection was lost or made; a new one is a sign of life like a message."""
        peer = self.peer(node)
        peer.connected = connected
        if connected:
            peer.tried_as, peer.heard_at_ms = None, self.context.now_ms

    def weigh(self, author: NodeName, tried: tuple[Tried, ...], is_first_hand: bool) -> None:
        """Whom a delegation or an endorsement request lists; only members are heard, and we know our own list."""
        if author != self.context.node and self.has_observation and author in self.context.contract.committee:
            self.demotions.hear(author, tried, self.accepted, is_first_hand)

    def believe_tried(self, author: NodeName, tried: tuple[Tried, ...]) -> None:
        """A delegation or request that we accept says whom its author could not reach; of itself it knows nothing."""
        latest: dict[NodeName, Tried] = {}
        for entry in tried:
            known = latest.get(entry.node)
            if known is None or known.number < entry.number:
                latest[entry.node] = entry
        # One look for each node: a list may name one thousands of times.
        for node, entry in latest.items():
            is_known = node in self.peers or node in self.context.contract.committee
            if is_known and node not in (self.context.node, author) and self.is_tried_by(author, (entry,), node):
                self.peer(node).tried_as = entry.number

    def is_tried_by(self, author: NodeName, tried: tuple[Tried, ...], node: NodeName) -> bool:
        """It is listed, not by an older sign of life than we have, and the author is believed (`demotion.py`)."""
        is_listed = any(entry.node == node and entry.number >= self.peer(node).number for entry in tried)
        return is_listed and self.demotions.is_believed_unreached(author, node)

    def forget_tried(self, tried: tuple[Tried, ...]) -> None:
        """The coordinator that we follow lists all members that it cannot reach: of the others it takes that back.

        Members that do not coordinate hardly speak to one another. What one of them was once told would stay, go into
        its delegations, make the coordinator believe it, and come back to all.
        """
        listed = {entry.node for entry in tried}
        for node, peer in self.peers.items():
            if node not in listed:
                peer.tried_as = None

    def may_coordinate(self, node: NodeName) -> bool:
        """A member of the committee; in `sender` mode only we ourselves coordinate for us."""
        if self.context.contract.mode is Mode.SENDER:
            return node == self.context.node
        return node in self.context.contract.committee

    def accept(self, node: NodeName) -> None:
        """Follow this coordinator from now on."""
        self.accepted = node

    def demote(self, node: NodeName) -> None:
        """It did nothing for us in time: from now on others are chosen."""
        self.demotions.demote(node)

    # What is judged.

    def is_silent(self, node: NodeName) -> bool:
        """Nothing can be expected of it at present."""
        context = self.context
        if node == context.node:
            return not context.has_ledger
        peer = self.peers.get(node) or self.peer(node)
        if not peer.connected or not peer.has_ledger or peer.tried_as is not None:
            return True
        if context.now_ms - peer.heard_at_ms < self.silence_ms:
            return False  # As nearly always, and asked for each message.
        return self._is_quiet(peer) and self._is_owed_heartbeats_by(node)

    def is_demoted(self, node: NodeName) -> bool:
        """Passed over whatever signs of life it gives."""
        demotions = self.demotions
        return bool(demotions.own or demotions.accusers) and demotions.is_demoted(node)

    def is_passed_over(self, node: NodeName) -> bool:
        """Silent or demoted: it does not stand in anybody's way."""
        return self.is_silent(node) or self.is_demoted(node)

    def is_reachable(self, node: NodeName) -> bool:
        """A request may be answered: its connection is up, and it has a ledger."""
        if node == self.context.node:
            return self.context.has_ledger
        return self.peer(node).connected and self.peer(node).has_ledger

    def is_gone(self, node: NodeName) -> bool:
        """Its connection is down or its heartbeats are missing; being listed as tried is not enough."""
        if node == self.context.node:
            return False
        peer = self.peer(node)
        return not peer.connected or (self._is_quiet(peer) and self._is_owed_heartbeats_by(node))

    def silent_for_ms(self, node: NodeName) -> int:
        """How long it has been silent, as far as we looked; zero when it is not."""
        peer = self.peer(node)
        if not self.is_silent(node):
            peer.silent_since_ms = None
            return 0
        if peer.silent_since_ms is None:
            peer.silent_since_ms = self.context.now_ms
        return self.context.now_ms - peer.silent_since_ms

    def is_live(self, node: NodeName) -> bool:
        """Its last heartbeat came from Elect, Prepared or Active, and it is not demoted."""
        return self.peer(node).state in LIVE and not self.is_demoted(node)

    def state_of(self, node: NodeName) -> CoordinatorState:
        """What its last heartbeat said; Idle when there was none."""
        return self.peer(node).state

    def heartbeat_age_ms(self, node: NodeName) -> int:
        """How long ago its last heartbeat was."""
        return self.context.now_ms - self.peer(node).heartbeat_at_ms

    def range_of(self, node: NodeName) -> int:
        """The range that a node is in, as far as we know."""
        height = self.context.height if node == self.context.node else self.peer(node).height
        return self.context.contract.range_at(height)

    def later_range(self, *nodes: NodeName) -> int:
        """The latest range that one of these nodes is in, as far as claims count; never one before our own."""
        return max(self.context.block_range, *(self.range_of(node) for node in nodes))

    def outranks(self, one: NodeName, other: NodeName, block_range: int | None = None) -> bool:
        """Compared at the later of the two nodes' ranges, so that both decide alike (protocol §4.1).

        A demoted one outranks nobody, and is outranked by all who are not.
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
        """The first of the ranking that is not passed over."""
        for node in self.context.ranking(block_range):
            if node not in without and not self.is_passed_over(node):
                return node
        return None

    def tried(self) -> tuple[Tried, ...]:
        """The members that are silent here or demoted at first hand, for others to weigh."""
        members = self.context.ranking(self.context.block_range)
        demoted = self.demotions.first_hand(members)
        passed_over = [node for node in members if node in demoted or self.is_silent(node)]
        return tuple([Tried(node, self.peer(node).number, node in demoted) for node in passed_over])

    @property
    def active(self) -> NodeName | None:
        """The accepted coordinator, other than ourselves, live or still known from Flush or Closing."""
        return self.accepted if self.accepted != self.context.node else None

    @property
    def has_observation(self) -> bool:
        """In `sender` mode everybody coordinates for itself: nothing is observed (protocol §2)."""
        return self.context.contract.mode is not Mode.SENDER

    def is_quiet(self, node: NodeName) -> bool:
        """It acted as coordinator and has said nothing for too long."""
        return self._is_quiet(self.peer(node))

    def _is_quiet(self, peer: Peer) -> bool:
        """It acted as coordinator, and nothing has been heard of it for longer than `heartbeat_grace` allows.

        Nothing is expected of one whose last heartbeat was of an earlier life: it may coordinate no more.
        """
        if self.context.now_ms - peer.heard_at_ms < self.silence_ms:
            return False
        return peer.state in EXPECTED and peer.number.incarnation >= peer.incarnation

    def _is_owed_heartbeats_by(self, node: NodeName) -> bool:
        """We are a member, or it has intents of ours."""
        return self.context.node in self.context.contract.committee or self.has_intents_of_ours(node)

    def _replaces_accepted(self, node: NodeName) -> bool:
        accepted = self.accepted
        if accepted is None:
            return True
        return self.is_silent(accepted) or not self.is_live(accepted) or self.outranks(node, accepted)


def _short_line(said: str) -> str:
    """A peer's words, as they may be shown in a terminal."""
    return "".join(filter(str.isprintable, said))[:SAID_CHARACTERS_MAX]
