"""Invariants that are judged when the faults have stopped and the network has come to rest."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rota.chain.effects import FinalityBroken, RoundDispatch
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted, IntentFinalised, TransitionPrepared
from rota.model.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Outcome,
    Rotation,
    StateId,
    Transition,
    Tried,
    node_of,
)
from rota.sequencer.effects import IntentParked, IntentResumed, LeavesSigned, TransitionIssued
from rota.sim.facts import (
    Assembled,
    Committed,
    FaultsEnded,
    HeartbeatSeen,
    Indexed,
    LedgerStood,
    Promised,
    Recorded,
    Reported,
    Request,
    Sent,
    Started,
    Stopped,
    Undone,
)
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import CoordinatorState, DelegationCommand, EndorsementRequest

# A second active coordinator has yielded this long after the faults ended.
SETTLED_AFTER_MS = 20_000
# A demoted coordinator yields within the first bound after its successor began. Two may be active for the second bound
# before the judge sees a demotion: a node may have demoted the active one itself, and taken its place.
GIVES_WAY_WITHIN_MS = 5_000
HEARD_WITHIN_MS = 1_500
# A member that was unreachable during the faults is contacted again after `unavailable_ttl`, at the latest.
LEADERS_KNOWN_AFTER_MS = 80_000
# This many heartbeats of one node in one range show who coordinates it; before, a hand-over may be under way.
LEADING_HEARTBEATS_MIN = 8
# The sizes that seeds draw.
RANGE_SIZES = (4, 20, 100)
RING = 2**64


class EveryIntentEnds(Invariant):
    """L1: every intent is final, parked, or depends on a parked one.

    A node that crashed after an outcome was durable and before it was reported has it on its disk and returns it on
    query.
    """

    name = "L1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for acknowledged submissions, durable records, receipts, ledger outcomes and starts."""
        self.promised: dict[IntentId, NodeName] = {}
        self.intents: dict[IntentId, Intent] = {}
        self.parked: dict[IntentId, None] = {}
        self.reported: set[IntentId] = set()
        self.lives: dict[NodeName, int] = {}
        self.ended_in_life: dict[IntentId, int] = {}
        return {
            Promised: self._promised,
            Reported: self._reported,
            Recorded: self._recorded,
            Committed: self._committed,
            Undone: self._undone,
            Started: self._started,
        }

    def _promised(self, fact: Promised) -> None:
        if fact.request is Request.SUBMIT:
            self.promised[fact.intent] = fact.node

    def _reported(self, fact: Reported) -> None:
        self.reported.add(fact.receipt.intent)

    def _recorded(self, fact: Recorded) -> None:
        match fact.record:
            case IntentAccepted(intent):
                self.intents[intent.id] = intent
            case IntentParked(parked):
                self.parked[parked] = None
            case IntentResumed(resumed):
                self.parked.pop(resumed, None)
            case IntentFinalised(receipt):
                self.ended_in_life[receipt.intent] = self.lives.get(fact.node, 0)
            case FinalityBroken(undone=undone):
                # Their receipts are marked, which ends them as well.
                self.reported.update(each.intent for each in undone)
            case _:
                pass

    def _committed(self, fact: Committed) -> None:
        intent = self.intents.get(fact.transition.intent)
        if intent is not None:
            self.ended_in_life[intent.id] = self.lives.get(node_of(intent.sender), 0)

    def _undone(self, fact: Undone) -> None:
        self.ended_in_life.pop(fact.transition.intent, None)

    def _started(self, fact: Started) -> None:
        self.lives[fact.node] = self.lives.get(fact.node, 0) + 1

    def conclude(self) -> None:
        """An intent that was acknowledged and not reported is parked, or depends on a parked one."""
        for intent, node in self.promised.items():
            life = self.lives.get(node, 0)
            self.judged += 1
            self.chances += 1
            is_over = intent in self.reported or self.ended_in_life.get(intent, life) < life
            if not is_over and not self._waits_for_user(intent):
                self.accuse(f"{self.show(intent)} was acknowledged by {node} and never ended")

    def _waits_for_user(self, intent: IntentId) -> bool:
        if intent in self.parked:
            return True
        return any(self._waits_for_user(other) for other in self.intents[intent].depends_on)


class OneCoordinatorIsActive(Invariant):
    """L2: one active coordinator per contract while it has intents to delegate, else at most one.

    L1 shows that there is one: without it no intent ends. In `sender` mode every node coordinates its own intents and
    no other ones, at any time. The successor of a demoted coordinator does not wait for it: the two may be active
    together for a moment.
    """

    name = "L2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for heartbeats, demotions in messages, endorsement requests, stops and the end of faults."""
        self.active: dict[ContractAddress, dict[NodeName, None]] = {address: {} for address in self.terms.contracts}
        self.settled_ms: int | None = None
        self.now_ms = 0
        # When a message last reported a node as demoted, and since when a contract has had two active coordinators.
        self.demoted_ms: dict[tuple[ContractAddress, NodeName], int] = {}
        self.rivals_since_ms: dict[ContractAddress, int] = {}
        self.by = {"ring or static": 0, "sender": 0}
        return {
            HeartbeatSeen: self._seen,
            DelegationCommand: self._delegates,
            FaultsEnded: self._ended,
            Stopped: self._stopped,
            EndorsementRequest: self._coordinates,
        }

    def _ended(self, fact: FaultsEnded) -> None:
        self.settled_ms = fact.at_ms + SETTLED_AFTER_MS

    def _coordinates(self, fact: Sent) -> None:
        """A node that requests endorsement of a round coordinates the round's intents."""
        body = fact.envelope.body
        assert isinstance(body, EndorsementRequest)
        self._note_demoted(fact.envelope.contract, body.tried)
        if self.terms.contracts[fact.envelope.contract].mode is not Mode.SENDER:
            return
        self.judged += 1
        self.chances += 1
        self.by["sender"] += 1
        others = [sender for sender in body.senders if node_of(sender) != fact.node]
        if others:
            self.accuse(f"{fact.node} coordinates for {', '.join(others)} in a contract of mode sender")

    def _delegates(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DelegationCommand)
        self._note_demoted(fact.envelope.contract, body.tried)

    def _note_demoted(self, address: ContractAddress, tried: tuple[Tried, ...]) -> None:
        for entry in tried:
            if entry.is_demoted:
                self.demoted_ms[address, entry.node] = self.now_ms

    def _stopped(self, fact: Stopped) -> None:
        for address in self.active:
            self._note(address, fact.node, is_active=False)

    def _note(self, address: ContractAddress, node: NodeName, is_active: bool) -> None:
        active = self.active.setdefault(address, {})
        if is_active:
            active[node] = None
        else:
            active.pop(node, None)
        if len(active) > 1:
            self.rivals_since_ms.setdefault(address, self.now_ms)
        else:
            self.rivals_since_ms.pop(address, None)

    def _seen(self, fact: HeartbeatSeen) -> None:
        self.now_ms = fact.at_ms
        self._note(fact.contract, fact.node, fact.state is CoordinatorState.ACTIVE)
        if self.settled_ms is not None and fact.at_ms > self.settled_ms:
            self._judge(fact.contract)

    def conclude(self) -> None:
        """No contract has two active coordinators."""
        for address in self.active:
            self._judge(address)

    def _judge(self, address: ContractAddress) -> None:
        active, contract = self.active[address], self.terms.contracts[address]
        if contract.mode is Mode.SENDER:
            return
        self.judged += 1
        # Where no other node holds the contract, there can be no second coordinator.
        is_chance = len(self.terms.nodes) > 1
        self.chances += is_chance
        self.by["ring or static"] += is_chance
        if len(active) > 1 and not self._is_changing(address):
            self.accuse(f"{', '.join(active)} are active for {address[:8]}")

    def _is_changing(self, address: ContractAddress) -> bool:
        """Whether the second one is recent: within a bound that is longer if all but one are known to be demoted."""
        staying = [node for node in self.active[address] if not self._was_demoted_lately(address, node)]
        most_ms = GIVES_WAY_WITHIN_MS if len(staying) <= 1 else HEARD_WITHIN_MS
        return self.now_ms - self.rivals_since_ms[address] < most_ms

    def _was_demoted_lately(self, address: ContractAddress, node: NodeName) -> bool:
        said_ms = self.demoted_ms.get((address, node))
        return said_ms is not None and self.now_ms - said_ms < GIVES_WAY_WITHIN_MS


class RotationIsFair(Invariant):
    """L3: rotation is fair (strict): the first in a range's ranking coordinates in it."""

    name = "L3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for heartbeats and the end of faults."""
        self.settled_ms: int | None = None
        self.leading: dict[ContractAddress, tuple[NodeName, int, int]] = {}
        self.by = {f"ranges of {size}": 0 for size in RANGE_SIZES}
        return {HeartbeatSeen: self._seen, FaultsEnded: self._ended}

    def _ended(self, fact: FaultsEnded) -> None:
        self.settled_ms = fact.at_ms + LEADERS_KNOWN_AFTER_MS

    def _seen(self, fact: HeartbeatSeen) -> None:
        contract = self.terms.contracts[fact.contract]
        is_rotating = contract.mode is Mode.RING and contract.rotation is Rotation.STRICT
        is_judged = self.settled_ms is not None and fact.at_ms > self.settled_ms
        if not (is_rotating and is_judged and fact.state is CoordinatorState.ACTIVE):
            return
        block_range = contract.range_at(fact.height)
        node, before, count = self.leading.get(fact.contract, (fact.node, block_range, 0))
        count = count + 1 if (node, before) == (fact.node, block_range) else 1
        self.leading[fact.contract] = (fact.node, block_range, count)
        if count != LEADING_HEARTBEATS_MIN:
            return
        is_chance = len(contract.committee) > 1
        self.judged += 1
        self.chances += is_chance
        kind = f"ranges of {contract.range_size}"
        self.by[kind] = self.by.get(kind, 0) + is_chance
        if leader_of(contract, block_range) != fact.node:
            self.accuse(f"{fact.node} coordinates range {block_range}, which {leader_of(contract, block_range)} leads")


class StatesReachTheirParties(Invariant):
    """L4: every party holds every state meant for it."""

    name = "L4"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for states made on the ledger, their distribution, and states on disks."""
        self.made: dict[StateId, tuple[IntentId, tuple[NodeName, ...]]] = {}
        self.held: dict[NodeName, set[StateId]] = {node: set() for node in self.terms.nodes}
        self.dispatched: set[Leaf] = set()
        self.made_by: dict[Leaf, NodeName] = {}
        return {Committed: self._committed, Undone: self._undone, Recorded: self._recorded, Assembled: self._assembled}

    def _assembled(self, fact: Assembled) -> None:
        self.made_by[fact.transition.leaf] = fact.node

    def _committed(self, fact: Committed) -> None:
        for state in fact.transition.outputs:
            self.made[state.id] = (fact.transition.intent, state.distribution)

    def _undone(self, fact: Undone) -> None:
        for state in fact.transition.outputs:
            self.made.pop(state.id, None)

    def _recorded(self, fact: Recorded) -> None:
        transitions: tuple[Transition, ...]
        match fact.record:
            case StatesReceived(_, received):
                transitions = received
            case RoundDispatch(order):
                transitions = order.transitions
                self.dispatched.update(transition.leaf for transition in transitions)
            case LeavesSigned(signed):
                transitions = signed
            case TransitionPrepared() | TransitionIssued():
                transitions = (fact.record.prepared.transition,)
            case _:
                return
        self.held[fact.node].update(s.id for t in transitions for s in t.outputs if s.content is not None)

    def conclude(self) -> None:
        """Each state is on the disk of every node on its list, unless a liar made or dispatched it."""
        for state, (intent, nodes) in self.made.items():
            if self.terms.liars and not self._is_of_honest(state.leaf):
                continue
            for node in nodes:
                if node in self.terms.liars:
                    continue
                self.judged += 1
                self.chances += node != self.made_by.get(state.leaf)
                if state not in self.held.get(node, ()):
                    self.accuse(f"{node} has not got a state of {self.show(intent)}")

    def _is_of_honest(self, leaf: Leaf) -> bool:
        return leaf in self.dispatched and leaf in self.made_by


class EverybodyAgrees(Invariant):
    """L5: all nodes agree with the ledger and with each other."""

    name = "L5"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for the ledger's final state, each node's view of it, ledger outcomes and receipts."""
        self.ledger: dict[ContractAddress, LedgerStood] = {}
        self.indexed: list[Indexed] = []
        self.committed: dict[IntentId, Leaf] = {}
        self.receipts: dict[IntentId, Reported] = {}
        return {
            LedgerStood: self._stood,
            Indexed: self.indexed_at_the_end,
            Committed: self._committed,
            Undone: self._undone,
            Reported: self._reported,
            Recorded: self._recorded,
        }

    def _recorded(self, fact: Recorded) -> None:
        """Receipts that a reorganisation undid no longer hold, and users are notified (F1)."""
        if isinstance(fact.record, FinalityBroken):
            for each in fact.record.undone:
                self.receipts.pop(each.intent, None)

    def _stood(self, fact: LedgerStood) -> None:
        self.ledger[fact.contract] = fact

    def indexed_at_the_end(self, fact: Indexed) -> None:
        """Keep a node's view for `conclude`."""
        self.indexed.append(fact)

    def _committed(self, fact: Committed) -> None:
        if not fact.transition.is_empty:
            self.committed[fact.transition.intent] = fact.transition.leaf

    def _undone(self, fact: Undone) -> None:
        self.committed.pop(fact.transition.intent, None)

    def _reported(self, fact: Reported) -> None:
        self.receipts[fact.receipt.intent] = fact

    def conclude(self) -> None:
        """Every node has the ledger's height and states, and receipts match the ledger."""
        for view in self.indexed:
            ledger = self.ledger[view.contract]
            self.judged += 1
            self.chances += 1
            if view.height != ledger.height:
                self.accuse(f"{view.node} stands at height {view.height} and the ledger at {ledger.height}")
            elif view.unspent != ledger.unspent:
                differing = len(view.unspent ^ ledger.unspent)
                self.accuse(f"{view.node} and the ledger differ in {differing} states of {view.contract[:8]}")
        for intent, fact in self.receipts.items():
            if fact.receipt.contract is not None or self.terms.liars:
                # Among liars see `OutcomesAreTrue`. A deployment makes a contract and no leaf.
                continue
            self.judged += 1
            self.chances += 1
            leaf = self.committed.get(intent)
            is_agreed = (leaf == fact.receipt.leaf) if fact.receipt.outcome is Outcome.CONFIRMED else leaf is None
            if not is_agreed:
                self.accuse(f"{fact.node} and the ledger disagree on {self.show(intent)}")


def leader_of(contract: Contract, block_range: int) -> NodeName:
    """The first node in the ranking of a range."""
    return ranking_of(contract, block_range)[0]


@lru_cache(maxsize=4_096)
def ranking_of(contract: Contract, block_range: int) -> tuple[NodeName, ...]:
    """The ranking in a range, computed independently from protocol §2: nearest place on the ring, ties by name."""
    point = _place(f"{contract.address}/{block_range}")

    def distance(node: NodeName) -> int:
        places = _places(node, contract.virtual_nodes)
        index = bisect_left(places, point)
        nearest = (places[index % len(places)], places[index - 1])
        return min(min((place - point) % RING, (point - place) % RING) for place in nearest)

    return tuple(sorted(contract.committee, key=lambda node: (distance(node), node)))


@lru_cache(maxsize=1_024)
def _places(node: NodeName, count: int) -> list[int]:
    return sorted(_place(f"{node}#{number}") for number in range(count))


def _place(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
