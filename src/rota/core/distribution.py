"""Private states to their parties until acknowledged: one per node, for all its contracts.

Theory of operation. Who dispatches a round also sends its private states to every node on their lists, each
as that node may see it, in one message a round, or in several when they are large; who prepares a transition
does the same. The list is durable with the dispatch; the receiver makes the states durable and then
acknowledges; the distributor makes the acknowledgement durable and stops. Until then it repeats with backoff,
across restarts of both sides, and not over a connection that is down. What arrives is checked against the
leaves, which the ledger knows: a state that is not what it claims to be is refused. A node that lost its
states asks for them again, by leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from rota.config import Config
from rota.core.effects import DispatchRound, TransitionPrepared
from rota.frozen import dataclass
from rota.types import Contract, ContractAddress, Digest, Leaf, NodeName, StateId, Transition
from rota.wire.sizes import in_parts, transition_bytes

RECEIVED_KEPT_MAX = 10_000
DELIVERY_BYTES_MAX = 1_048_576
# Above all parts of a round: what was asked for may hold less than the part that is owed, and its acknowledgement
# must not end that delivery.
FOUND_PARTS_FROM = 65_536
BACKOFF_STEPS_MAX = 16


@dataclass(frozen=True, slots=True)
class Delivery:
    """The states of one round for one node, or a part of them when they are large."""

    contract: ContractAddress
    digest: Digest
    peer: NodeName
    transitions: tuple[Transition, ...]
    part: int = 0


@dataclass(slots=True)
class _Open:
    delivery: Delivery
    due_ms: int = 0
    attempt: int = 0


class Distribution:
    """What this node has to deliver, and what it has received."""

    def __init__(self, node: NodeName, config: Config, now_ms: int, undelivered: tuple[Delivery, ...]) -> None:
        self.node = node
        self.config = config
        self.lost: dict[NodeName, None] = {}
        self.received: dict[tuple[ContractAddress, StateId], None] = {}
        self._open: dict[NodeName, dict[tuple[Digest, int], _Open]] = {}
        self._due: list[tuple[int, int, _Open]] = []
        self._order = 0
        for delivery in undelivered:
            self._begin(now_ms, delivery)

    # Delivering.

    def take(self, now_ms: int, order: DispatchRound) -> None:
        """A round's dispatch is durable, and with it whom its states concern."""
        for delivery in deliveries_of(order, self.node):
            self._begin(now_ms, delivery)

    def take_due(self, now_ms: int) -> list[Delivery]:
        """What is to be sent now; it will be due again, later each time."""
        due: list[Delivery] = []
        while (next_ms := self.next_due_ms()) is not None and next_ms <= now_ms:
            open_ = heappop(self._due)[2]
            delay_ms = self.config.request_timeout_ms << min(open_.attempt, BACKOFF_STEPS_MAX)
            open_.attempt += 1
            self._schedule(open_, now_ms + min(delay_ms, self.config.retry_backoff_max_ms))
            due.append(open_.delivery)
        return due

    def next_due_ms(self) -> int | None:
        """When something is to be sent; what is acknowledged, moved or out of reach is dropped when it comes up."""
        due = self._due
        while due and not self._is_current(due[0][0], due[0][2]):
            heappop(due)
        return due[0][0] if due else None

    @property
    def open_count(self) -> int:
        """How many deliveries are not acknowledged."""
        return sum(map(len, self._open.values()))

    def is_open(self, peer: NodeName, digest: Digest, part: int) -> bool:
        """That node has not acknowledged these states yet."""
        return (digest, part) in self._open.get(peer, {})

    def acknowledged(self, peer: NodeName, digest: Digest, part: int) -> None:
        """The acknowledgement is durable."""
        self._open.get(peer, {}).pop((digest, part), None)

    def connection_changed(self, now_ms: int, peer: NodeName, connected: bool) -> None:
        """Nothing is sent over a connection that is down; when it is back, at once."""
        if not connected:
            self.lost[peer] = None
            return
        self.lost.pop(peer, None)
        for open_ in self._open.get(peer, {}).values():
            open_.attempt = 0
            self._schedule(open_, now_ms)

    def _begin(self, now_ms: int, delivery: Delivery) -> None:
        key = (delivery.digest, delivery.part)
        open_ = self._open.setdefault(delivery.peer, {})[key] = _Open(delivery)
        self._schedule(open_, now_ms)

    def _schedule(self, open_: _Open, due_ms: int) -> None:
        self._order += 1
        open_.due_ms = due_ms
        heappush(self._due, (due_ms, self._order, open_))

    def _is_current(self, due_ms: int, open_: _Open) -> bool:
        delivery = open_.delivery
        key = (delivery.digest, delivery.part)
        is_latest = self._open[delivery.peer].get(key) is open_ and open_.due_ms == due_ms
        return is_latest and delivery.peer not in self.lost

    # Receiving.

    def is_received(self, contract: ContractAddress, transitions: tuple[Transition, ...]) -> bool:
        """All states whose bytes are in here are durable, whoever sent them first, under whatever digest."""
        return all((contract, state) in self.received for state in states_with_bytes(transitions))

    def note_received(self, contract: ContractAddress, transitions: tuple[Transition, ...]) -> None:
        """These states are durable now; the oldest are forgotten first, and written again if they come again."""
        for state in states_with_bytes(transitions):
            self.received[(contract, state)] = None
        while len(self.received) > RECEIVED_KEPT_MAX:
            del self.received[next(iter(self.received))]


def deliveries_of(order: DispatchRound, node: NodeName) -> tuple[Delivery, ...]:
    """What a round's dispatcher owes to whom: not itself, and not a transition to its own sender, who made it.

    What it may not see itself it cannot pass on.
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


def parts_of(transitions: Iterable[Transition]) -> tuple[tuple[Transition, ...], ...]:
    """What goes in one message each, so that no frame grows too large; a transition is never divided."""
    return in_parts(transitions, transition_bytes, DELIVERY_BYTES_MAX)


def order_of(contract: ContractAddress, record: TransitionPrepared) -> DispatchRound:
    """A prepared transition as a round of its own, which its leaf names: members of one round are prepared apart."""
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


def holders_of(contract: Contract) -> tuple[NodeName, ...]:
    """Who may have a contract's private states, and is asked by who lacks them."""
    return tuple(dict.fromkeys((*contract.committee, *contract.endorsers)))


def fullest(
    found: Iterable[tuple[Digest, Transition]], leaves: tuple[Leaf, ...]
) -> tuple[tuple[Digest, tuple[Transition, ...]], ...]:
    """Of each of these leaves the copy with the most states in it, the earliest of equals, by round.

    What a sender permitted it has alone and whole; what was distributed to it, or dispatched by it, may hold less.
    """
    best: dict[Leaf, tuple[Digest, Transition]] = {}
    for digest, transition in found:
        held = best.get(transition.leaf)
        if held is None or len(states_with_bytes((transition,))) > len(states_with_bytes((held[1],))):
            best[transition.leaf] = (digest, transition)
    rounds: dict[Digest, list[Transition]] = {}
    for digest, transition in (best[leaf] for leaf in leaves if leaf in best):
        rounds.setdefault(digest, []).append(transition)
    return tuple((digest, tuple(of_round)) for digest, of_round in rounds.items())
