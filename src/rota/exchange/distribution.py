"""Deliveries of private states to the nodes on their lists, until acknowledged: one per node, for all its contracts.

Theory of operation. The node that dispatches a round also sends its private states to every node on their lists, each
as that node may see it, in one message a round, or in several when they are large; so does the node that prepares a
transition. The store has each delivery from the dispatch on. The receiver makes the states durable and then
acknowledges; the distributor makes the acknowledgement durable and stops. Until then it repeats with backoff, across
restarts of both sides, and not over a connection that is down.

Memory is bounded. For each peer a window of deliveries is in memory; further ones stay in the store, and are recalled
in their order when the window is empty. When all windows together take too much memory, the one whose peer has not
acknowledged anything for the longest time returns to the store; that peer is then sent one delivery at a time until
it acknowledges again. When there are too many peers, the longest silent one is forgotten until it connects again.

A receiver checks what arrives against the leaves, which the ledger knows, and refuses a state that does not match. A
node that lost its states asks for them again, by leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from heapq import heappop, heappush

from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import DispatchRound, TransitionPrepared
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, Digest, Leaf, NodeName, StateId, Transition
from rota.wire.sizes import in_parts, transition_bytes

RECEIVED_KEPT_MAX = 10_000
DELIVERY_BYTES_MAX = 1_048_576
# Above all parts of a round: a requested answer may hold less than the part that is owed, and its acknowledgement
# must not end that delivery.
FOUND_PARTS_FROM = 65_536
BACKOFF_STEPS_MAX = 16
# Peers that are owed states and are in memory: a list may name nodes that do not exist.
PEERS_OWED_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Delivery:
    """The states of one round for one node, or a part of them when they are large."""

    contract: ContractAddress
    digest: Digest
    peer: NodeName
    transitions: tuple[Transition, ...]
    part: int = 0


@dataclass(frozen=True, slots=True)
class DeliveriesRecalled(Event):
    """The answer to `RecallDeliveries`: deliveries to a peer, and whether they are all that it is owed."""

    peer: NodeName
    number: int
    deliveries: tuple[Delivery, ...]
    is_all: bool


@dataclass(slots=True)
class _Open:
    delivery: Delivery
    size: int
    order: int = 0
    attempt: int = 0


@dataclass(slots=True)
class _Peer:
    """A peer that is owed states. `is_behind`: the store has deliveries to it that are not in the window.

    Then the window only shrinks, and is filled from the store when it is empty. A delivery that becomes durable while
    the store is being read makes that answer stale: there may be more. `fresh_ms` is when the peer
    acknowledged last, or when its window was filled last.
    """

    fresh_ms: int
    window: dict[tuple[Digest, int], _Open] = field(default_factory=dict)
    size: int = 0
    is_behind: bool = False
    recall: int = 0
    is_stale: bool = False
    is_silent: bool = False
    order: int = 0
    attempt: int = 0


class Distribution:
    """Deliveries that this node owes, and states that it has received."""

    def __init__(self, node: NodeName, config: Config, now_ms: int, owed: tuple[NodeName, ...]) -> None:
        self.node = node
        self.config = config
        self.lost: dict[NodeName, None] = {}
        # States that are durable here, and whether with the lists that our own endorser judged.
        self.received: dict[tuple[ContractAddress, StateId], bool] = {}
        self.size = 0
        self._peers: dict[NodeName, _Peer] = {}
        self._due: list[tuple[int, int, NodeName, tuple[Digest, int] | None]] = []
        self._order = 0
        self._recalls = 0
        self._has_forgotten = len(owed) > PEERS_OWED_MAX
        for name in owed[:PEERS_OWED_MAX]:
            self._note_behind(now_ms, name)

    # Delivering.

    def take(self, now_ms: int, order: DispatchRound) -> None:
        """Take a round's durable dispatch, and with it its deliveries."""
        for delivery in deliveries_of(order, self.node):
            peer = self._peer(now_ms, delivery.peer)
            if peer.is_behind:
                peer.is_stale = True
            elif not self._open(now_ms, peer, delivery):
                peer.is_behind = True
        self._limit_memory(now_ms)

    def take_recalled(self, now_ms: int, answer: DeliveriesRecalled) -> None:
        """The store's answer: the next window of a peer, and whether the store has more."""
        name = answer.peer
        peer = self._peers.get(name)
        if peer is None or peer.recall != answer.number:
            return
        peer.recall, peer.fresh_ms = 0, now_ms
        peer.is_behind = peer.is_stale or not answer.is_all
        for delivery in answer.deliveries:
            self._open(now_ms, peer, delivery)
        self._go_on(now_ms, name, peer)
        self._limit_memory(now_ms)

    def take_due(self, now_ms: int) -> list[Delivery | RecallDeliveries]:
        """Return the deliveries to send and windows to recall now; repeats follow with a growing backoff."""
        due: list[Delivery | RecallDeliveries] = []
        while (next_ms := self.next_due_ms()) is not None and next_ms <= now_ms:
            _, _, name, key = heappop(self._due)
            peer = self._peers[name]
            if key is None:
                due.append(self._recall(now_ms, name, peer))
                continue
            open_ = peer.window[key]
            open_.attempt += 1
            delay_ms = self._backoff_ms(open_.attempt - 1, self.config.retry_backoff_max_ms)
            self._schedule(open_, now_ms + delay_ms)
            due.append(open_.delivery)
        return due

    def next_due_ms(self) -> int | None:
        """Return when the next send or recall is due; outdated entries are dropped here."""
        due = self._due
        while due and not self._is_current(*due[0][1:]):
            heappop(due)
        return due[0][0] if due else None

    @property
    def open_count(self) -> int:
        """The number of deliveries in memory without acknowledgement."""
        return sum(len(peer.window) for peer in self._peers.values())

    @property
    def owed(self) -> tuple[NodeName, ...]:
        """The peers that are owed states."""
        return tuple(self._peers)

    def is_open(self, peer: NodeName, digest: Digest, part: int) -> bool:
        """Whether this delivery is in memory and not acknowledged."""
        return peer in self._peers and (digest, part) in self._peers[peer].window

    def acknowledged(self, now_ms: int, name: NodeName, digest: Digest, part: int) -> None:
        """Close a delivery whose acknowledgement is durable."""
        if self.is_open(name, digest, part):
            peer = self._peers[name]
            self._close(peer, (digest, part))
            peer.fresh_ms, peer.is_silent, peer.attempt = now_ms, False, 0
            self._go_on(now_ms, name, peer)

    def connection_changed(self, now_ms: int, name: NodeName, connected: bool) -> None:
        """Stop sending over a connection that is down; send at once when it is back."""
        if not connected:
            self.lost[name] = None
            return
        self.lost.pop(name, None)
        peer = self._peer(now_ms, name) if self._has_forgotten else self._peers.get(name)
        if peer is None:
            return
        peer.attempt = 0
        for open_ in peer.window.values():
            open_.attempt = 0
            self._schedule(open_, now_ms)
        self._go_on(now_ms, name, peer)

    def _peer(self, now_ms: int, name: NodeName) -> _Peer:
        """Return a peer's record: it is owed states, or may be, as the store knows peers that were forgotten."""
        if name not in self._peers:
            if len(self._peers) >= PEERS_OWED_MAX:
                self._forget(min(self._peers, key=lambda each: self._peers[each].fresh_ms))
                self._has_forgotten = True
            if self._has_forgotten:
                self._note_behind(now_ms, name)
            else:
                self._peers[name] = _Peer(now_ms)
        return self._peers[name]

    def _note_behind(self, now_ms: int, name: NodeName) -> None:
        """Note that the store has deliveries to this peer, and none is in memory."""
        peer = self._peers[name] = _Peer(now_ms, is_behind=True)
        self._recall_at(now_ms, name, peer)

    def _open(self, now_ms: int, peer: _Peer, delivery: Delivery) -> bool:
        """Put a delivery in the window of its peer, if there is room."""
        key, config = (delivery.digest, delivery.part), self.config
        size = delivery_bytes(delivery)
        self._close(peer, key)
        is_full = len(peer.window) >= config.deliveries_peer_max or peer.size + size > config.deliveries_peer_bytes_max
        if peer.window and is_full:
            return False
        open_ = peer.window[key] = _Open(delivery, size)
        peer.size += size
        self.size += size
        self._schedule(open_, now_ms)
        return True

    def _close(self, peer: _Peer, key: tuple[Digest, int]) -> None:
        open_ = peer.window.pop(key, None)
        if open_ is not None:
            peer.size -= open_.size
            self.size -= open_.size

    def _go_on(self, now_ms: int, name: NodeName, peer: _Peer) -> None:
        """Have an empty window filled from the store, or end the peer's record."""
        if not peer.window and peer.is_behind:
            self._recall_at(now_ms, name, peer)
        elif not peer.window:
            self._forget(name)

    def _forget(self, name: NodeName) -> None:
        self.size -= self._peers.pop(name).size

    def _limit_memory(self, now_ms: int) -> None:
        """Return windows to the store, first that of the peer which has not acknowledged for the longest time."""
        while self.size > self.config.deliveries_bytes_max:
            holding = [name for name, peer in self._peers.items() if peer.window]
            if len(holding) == 1:
                return
            name = min(holding, key=lambda each: self._peers[each].fresh_ms)
            peer = self._peers[name]
            self.size -= peer.size
            peer.size, peer.is_behind, peer.is_silent = 0, True, True
            peer.window.clear()
            self._recall_at(now_ms + self._recall_backoff_ms(peer), name, peer)

    def _recall(self, now_ms: int, name: NodeName, peer: _Peer) -> RecallDeliveries:
        """Return the request to the store, repeated without an answer; a silent peer gets one delivery."""
        if peer.recall == 0:
            self._recalls += 1
            peer.recall, peer.is_stale = self._recalls, False
        self._recall_at(now_ms + self._recall_backoff_ms(peer), name, peer)
        count_max = 1 if peer.is_silent else self.config.deliveries_peer_max
        return RecallDeliveries(name, peer.recall, count_max, self.config.deliveries_peer_bytes_max)

    def _recall_backoff_ms(self, peer: _Peer) -> int:
        peer.attempt += 1
        return self._backoff_ms(peer.attempt - 1, self.config.unavailable_ttl_ms)

    def _recall_at(self, due_ms: int, name: NodeName, peer: _Peer) -> None:
        self._order += 1
        peer.order = self._order
        heappush(self._due, (due_ms, self._order, name, None))

    def _schedule(self, open_: _Open, due_ms: int) -> None:
        self._order += 1
        open_.order = self._order
        delivery = open_.delivery
        heappush(self._due, (due_ms, self._order, delivery.peer, (delivery.digest, delivery.part)))

    def _backoff_ms(self, attempt: int, longest_ms: int) -> int:
        return min(self.config.request_timeout_ms << min(attempt, BACKOFF_STEPS_MAX), longest_ms)

    def _is_current(self, order: int, name: NodeName, key: tuple[Digest, int] | None) -> bool:
        peer = self._peers.get(name)
        if peer is None or name in self.lost:
            return False
        if key is None:
            return peer.order == order and not peer.window
        return key in peer.window and peer.window[key].order == order

    # Receiving.

    def is_received(self, contract: ContractAddress, transitions: tuple[Transition, ...]) -> bool:
        """Whether all states with bytes in here are durable, from any sender and under any digest."""
        return all((contract, state) in self.received for state in states_with_bytes(transitions))

    def is_own_written(self, contract: ContractAddress, transition: Transition) -> bool:
        """Whether the transition seen by our endorser is durable; the lists in a peer's copy may be false."""
        return all(self.received.get((contract, state), False) for state in states_with_bytes((transition,)))

    def note_received(
        self, contract: ContractAddress, transitions: tuple[Transition, ...], is_own: bool = False
    ) -> None:
        """Note that these states are durable; the oldest are forgotten first, and written again if they come again."""
        for state in states_with_bytes(transitions):
            key = (contract, state)
            self.received[key] = is_own or self.received.get(key, False)
        while len(self.received) > RECEIVED_KEPT_MAX:
            del self.received[next(iter(self.received))]

    def forget_received(self, leaves: set[tuple[ContractAddress, Leaf]]) -> None:
        """Forget that the states of these leaves are durable, so that they are written again if they come again."""
        gone = [key for key in self.received if (key[0], key[1].leaf) in leaves]
        for key in gone:
            del self.received[key]


def deliveries_of(order: DispatchRound, node: NodeName) -> tuple[Delivery, ...]:
    """Return the deliveries that a round's dispatcher owes: none to itself, and no transition to its own sender.

    Contents that the dispatcher may not see cannot be in them.
    """
    owed: dict[NodeName, list[Transition]] = {}
    for transition, sender in zip(order.transitions, order.senders, strict=True):
        held = [state for state in transition.outputs if state.content is not None]
        listed = dict.fromkeys(peer for state in held for peer in state.distribution)
        for peer in listed:
            if peer not in (node, sender):
                owed.setdefault(peer, []).append(transition.as_seen_by(peer))
    return tuple(
        Delivery(order.contract, order.digest, peer, due, part)
        for peer, all_due in owed.items()
        for part, due in enumerate(parts_of(all_due))
    )


def delivery_bytes(delivery: Delivery) -> int:
    """The size of a delivery's transitions."""
    return sum(map(transition_bytes, delivery.transitions))


def parts_of(transitions: Iterable[Transition]) -> tuple[tuple[Transition, ...], ...]:
    """Split transitions into messages, so that no frame grows too large; a transition is never divided."""
    return in_parts(transitions, transition_bytes, DELIVERY_BYTES_MAX)


def order_of(contract: ContractAddress, record: TransitionPrepared) -> DispatchRound:
    """Return a prepared transition as a round of its own, named by its leaf: members are prepared separately."""
    prepared = record.prepared
    return DispatchRound(
        contract,
        Digest(prepared.transition.leaf),
        prepared.leaves,
        (prepared.transition,),
        (record.sender,),
        tuple((signed.endorser, signed.signature) for signed in prepared.signatures),
        prepared.valid_until_s,
    )


def states_with_bytes(transitions: tuple[Transition, ...]) -> tuple[StateId, ...]:
    """The states whose bytes are in these transitions."""
    return tuple(s.id for transition in transitions for s in transition.outputs if s.content is not None)


def fullest(
    found: Iterable[tuple[Digest, Transition]], leaves: tuple[Leaf, ...], peer: NodeName | None = None
) -> tuple[tuple[Digest, tuple[Transition, ...]], ...]:
    """Return for each of these leaves the copy with the most states in it, the earliest of equals, by round.

    A sender alone has a permitted one whole; a distributed or dispatched copy may hold less. For
    a peer only states that it may see count: a received copy with false lists displaces no other.
    """

    def count(transition: Transition) -> int:
        return len(states_with_bytes((transition if peer is None else transition.as_seen_by(peer),)))

    best: dict[Leaf, tuple[Digest, Transition]] = {}
    for digest, transition in found:
        held = best.get(transition.leaf)
        if held is None or count(transition) > count(held[1]):
            best[transition.leaf] = (digest, transition)
    rounds: dict[Digest, list[Transition]] = {}
    for digest, transition in (best[leaf] for leaf in leaves if leaf in best):
        rounds.setdefault(digest, []).append(transition)
    return tuple((digest, tuple(of_round)) for digest, of_round in rounds.items())
