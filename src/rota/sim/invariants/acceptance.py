"""Whom an endorser may sign for, worked out anew from what it had received (S6).

Nothing here asks the endorser whom it accepts. A *reason to pass a member over* is one that the endorser can have from
what reached it: a lost connection, silence by its own clock, a message that says that its author has no ledger, or the
word of others in `tried`. Where the protocol weighs such words more closely than is done here, the doubt counts for the
endorser: what is accused is wrong by any reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.chain.effects import BlocksIndexed
from rota.model.types import NEVER_HEARD, Contract, ContractAddress, Mode, NodeName, Rotation, Tried
from rota.sim.facts import (
    ConnectionChanged,
    ContractReset,
    Declined,
    Endorsed,
    HeightReached,
    PassedOver,
    Received,
    Recorded,
    SteppedAside,
    Stopped,
)
from rota.sim.invariants.endings import ranking_of
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, DelegationCommand, EndorsementRequest

LIVE = (CoordinatorState.ELECT, CoordinatorState.PREPARED, CoordinatorState.ACTIVE)
EXPECTED = (*LIVE, CoordinatorState.STANDBY)
# Whom others say that they could not reach; `None` where their words do not count.
Words = frozenset[NodeName] | None
# One that asks for so long, and nobody else does, is accepted whatever others say of it (half of `progress_timeout`).
INSISTS_MS = 20_000


class Heard:
    """What one node has last received from a member."""

    __slots__ = ("at_ms", "demoted", "has_ledger", "heartbeat_ms", "height", "incarnation", "number", "state", "tried")

    def __init__(self) -> None:
        self.at_ms = self.heartbeat_ms = self.height = self.incarnation = 0
        self.state: CoordinatorState | None = None
        self.number = NEVER_HEARD
        self.has_ledger = True
        self.tried = self.demoted = False


class View:
    """What one node has received about one contract in this life.

    `followed` holds everybody whom it may follow by now, and nobody: most often there is one. `followed_before` is
    its value when the latest request came.
    """

    __slots__ = ("asking_ms", "followed", "followed_before", "heard")

    def __init__(self) -> None:
        self.heard: dict[NodeName, Heard] = {}
        self.followed: set[NodeName | None] = {None}
        self.followed_before: set[NodeName | None] = {None}
        self.asking_ms: dict[NodeName, int] = {}

    def of(self, member: NodeName) -> Heard:
        """What was received from a member; nothing yet is no silence."""
        heard = self.heard.get(member)
        if heard is None:
            heard = self.heard[member] = Heard()
        return heard


class OneCoordinatorAtATime(Invariant):
    """S6: an honest endorser, within one life of its process, signs for one coordinator at a time.

    For one that it has a reason to accept, and no longer once it has heard from a better one.
    """

    name = "S6"

    def hears(self) -> Mapping[type[Any], Handler]:
        """What reaches a node, which blocks it has, and what it signs."""
        self.views: dict[tuple[NodeName, ContractAddress], View] = {}
        self.heights: dict[NodeName, int] = {}
        self.durable_heights: dict[NodeName, int] = {}
        self.down: set[tuple[NodeName, NodeName]] = set()
        return {
            Received: self._received,
            ConnectionChanged: self._connection,
            ContractReset: self._reset,
            Stopped: self._stopped,
            Recorded: self._recorded,
            HeightReached: self._indexed,
            PassedOver: self._passes_over,
            SteppedAside: self._stepped_aside,
            Declined: self._declined,
            Endorsed: self._endorsed,
        }

    # What an endorser knows.

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, BlocksIndexed):
            self.durable_heights[fact.node] = fact.record.height

    def _indexed(self, fact: HeightReached) -> None:
        self.heights[fact.node] = fact.height

    def _stopped(self, fact: Stopped) -> None:
        self.heights[fact.node] = self.durable_heights.get(fact.node, 0)
        for key in [key for key in self.views if key[0] == fact.node]:
            del self.views[key]
        self.down = {each for each in self.down if each[0] != fact.node}

    def _reset(self, fact: ContractReset) -> None:
        """It knows of nobody: whoever asks first is accepted, also by a request that waited for this."""
        view = self.views[fact.node, fact.contract] = View()
        view.followed.update(self.terms.contracts[fact.contract].committee)

    def _connection(self, fact: ConnectionChanged) -> None:
        """A timer may have left the one that is followed while it was gone; that it is back does not undo this."""
        if not fact.is_up:
            self.down.add((fact.node, fact.peer))
        views = [view for (node, _), view in self.views.items() if node == fact.node]
        for view in views:
            self._note_passed_over(fact, view)
        if not fact.is_up:
            return
        self.down.discard((fact.node, fact.peer))
        for view in views:
            if fact.peer in view.heard:
                view.heard[fact.peer].tried = False
                view.heard[fact.peer].at_ms = fact.local_ms

    def _stepped_aside(self, fact: SteppedAside) -> None:
        """One that leaves the role of coordinator follows the successor that it names."""
        self.views.setdefault((fact.node, fact.contract), View()).followed.add(fact.successor)

    def _declined(self, fact: Declined) -> None:
        """An endorser that rejects a request for want of a ledger, or in another range, goes on as it was."""
        view = self.views.get((fact.node, fact.contract))
        if view is not None:
            view.followed |= view.followed_before

    def _passes_over(self, fact: PassedOver) -> None:
        """A node tells others whom it does not reach: its coordinator role acts on that too."""
        self._note_tried(self.views.setdefault((fact.node, fact.contract), View()), fact.tried)

    def _received(self, fact: Received) -> None:
        envelope, body = fact.envelope, fact.envelope.body
        contract = self.terms.contracts.get(envelope.contract)
        if contract is None or contract.mode is not Mode.RING:
            return
        view = self.views.get((fact.node, envelope.contract))
        if view is None:
            view = self.views[fact.node, envelope.contract] = View()
        self._note_passed_over(fact, view)
        self.down.discard((fact.node, fact.peer))
        heard = view.of(fact.peer)
        heard.at_ms, heard.height = fact.local_ms, envelope.height
        heard.has_ledger, heard.incarnation = not envelope.no_ledger, max(heard.incarnation, envelope.incarnation)
        heard.tried = heard.tried and envelope.no_ledger
        if isinstance(body, CoordinatorHeartbeat):
            if body.number <= heard.number:
                return
            heard.state, heard.number, heard.heartbeat_ms = body.state, body.number, fact.local_ms
            if body.state in LIVE and fact.peer in contract.committee:
                self._follow(fact, view, contract, frozenset())
        elif isinstance(body, DelegationCommand):
            self._note_tried(view, body.tried)
        elif isinstance(body, EndorsementRequest):
            self._take_request(fact, view, contract, body)
            self._note_tried(view, body.tried)

    def _note_passed_over(self, fact: Received | ConnectionChanged, view: View) -> None:
        """There is, or was, a reason to leave the one that it follows: it may follow nobody.

        A coordinator whose heartbeats are missing is left, also while its other messages arrive (protocol §4.1).
        """
        if None not in view.followed:
            for member in view.followed:
                assert member is not None, "nobody was looked for"
                heard = view.of(member)
                has_stopped = fact.local_ms - heard.heartbeat_ms >= self.terms.config_of(fact.node).silence_ms
                is_beating = heard.state in LIVE and not has_stopped
                if not is_beating or self._is_excused(fact.node, fact.local_ms, view, member, frozenset()):
                    view.followed.add(None)
                    return

    def _note_tried(self, view: View, tried: tuple[Tried, ...]) -> None:
        for entry in tried:
            heard = view.of(entry.node)
            heard.tried = True
            heard.demoted = heard.demoted or entry.is_demoted

    # What it may conclude.

    def _take_request(self, fact: Received, view: View, contract: Contract, body: EndorsementRequest) -> None:
        if fact.peer not in contract.committee:
            return
        view.followed_before = set(view.followed)
        tried = frozenset(entry.node for entry in body.tried)
        since_ms = view.asking_ms.setdefault(fact.peer, fact.local_ms)
        if fact.local_ms - since_ms >= INSISTS_MS:
            view.followed.add(fact.peer)
        elif contract.rotation is Rotation.STICKY:
            self._follow(fact, view, contract, tried)
        elif self._leads(fact, view, contract, tried):
            is_same_range = contract.range_at(fact.envelope.height) == self._range_of(fact.node, contract)
            is_certain = is_same_range and not view.of(fact.peer).demoted
            if is_certain and self._leads(fact, view, contract, None):
                view.followed = {fact.peer}
            else:
                view.followed.add(fact.peer)

    def _range_of(self, node: NodeName, contract: Contract) -> int:
        return contract.range_at(self.heights.get(node, 0))

    def _leads(self, fact: Received, view: View, contract: Contract, tried: Words) -> bool:
        """Strict: there is a reason to pass over everybody who ranks above it."""
        order = ranking_of(contract, self._range_of(fact.node, contract))
        better = order[: order.index(fact.peer)]
        return all(self._is_excused(fact.node, fact.local_ms, view, each, tried) for each in better)

    def _follow(self, fact: Received, view: View, contract: Contract, tried: Words) -> None:
        """It takes the place of the one that is followed if it outranks that, or that is passed over."""
        if view.followed == {fact.peer}:
            return
        verdicts = {
            verdict
            for member in view.followed
            if member != fact.peer
            for verdict in self._may_replace(fact, view, contract, tried, member)
        }
        # One that may be demoted here is perhaps not followed, whatever its rank.
        if False not in verdicts and not view.of(fact.peer).demoted:
            view.followed = {fact.peer}
        elif True in verdicts:
            view.followed.add(fact.peer)

    def _may_replace(
        self, fact: Received, view: View, contract: Contract, tried: Words, member: NodeName | None
    ) -> set[bool]:
        """By the ranges in which the two may be, which may tell different stories."""
        is_left = member is None or view.of(member).state not in LIVE
        if member is None or is_left or self._is_excused(fact.node, fact.local_ms, view, member, None):
            return {True}
        if self._is_excused(fact.node, fact.local_ms, view, member, tried):
            return {True, False}
        heights = {self.heights.get(fact.node, 0), fact.envelope.height, view.of(member).height}
        orders = [ranking_of(contract, contract.range_at(height)) for height in heights]
        return {order.index(fact.peer) < order.index(member) for order in orders}

    def _is_excused(self, node: NodeName, now_ms: int, view: View, member: NodeName, tried: Words) -> bool:
        """There is a reason to pass a member over; without others' words, one that nobody can doubt."""
        heard = view.heard.get(member)
        if (node, member) in self.down or (heard is not None and not heard.has_ledger):
            return True
        if tried is not None and (member in tried or (heard is not None and (heard.tried or heard.demoted))):
            return True
        if heard is None:
            return False
        is_expected = heard.state in EXPECTED and heard.number.incarnation >= heard.incarnation
        return is_expected and now_ms - heard.at_ms >= self.terms.config_of(node).silence_ms

    # What it does.

    def _endorsed(self, fact: Endorsed) -> None:
        contract = self.terms.contracts[fact.contract]
        self.judged += 1
        if contract.mode is not Mode.RING:
            # In `static` one member coordinates, in `sender` everybody for itself: see L2.
            self.chances += contract.mode is Mode.STATIC and len(self.terms.nodes) > 1
            if contract.mode is Mode.STATIC and fact.coordinator not in contract.committee:
                self.accuse(f"{fact.node} signed for {fact.coordinator}, which is no coordinator of the contract")
            return
        view = self.views.get((fact.node, fact.contract))
        if fact.coordinator == fact.node or view is None:
            return
        if self.terms.liars.intersection((fact.coordinator, *filter(None, view.followed))):
            # What a liar says of heights, numbers and ranks counts up to bounds that are not worked out again here.
            return
        others = [each for each in contract.committee if each not in (fact.node, fact.coordinator)]
        self.chances += any(each in view.heard for each in others)
        if fact.coordinator not in view.followed:
            followed = ", ".join(each for each in view.followed if each is not None) or "nobody"
            words = f"signed for {fact.coordinator}; by what it has received it follows {followed}"
            self.accuse(f"{fact.node} {words}")
