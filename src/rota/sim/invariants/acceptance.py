"""Which coordinators an endorser may sign for, computed independently from the messages that it received (S6).

Nothing here reads the endorser's own choice. A *reason to pass a member over* is one that the endorser can derive from
its input: a lost connection, silence by its own clock, a message whose author reports that it has no ledger, or the
claims of others in `tried`. Where the protocol weighs such claims more closely than this module, the endorser gets the
benefit of the doubt: a violation found here is one by any reading.
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
# Members that others report as unreachable; `None` where such reports do not count.
Words = frozenset[NodeName] | None
# A member that has asked for this long, as the only one, is accepted whatever others report (half of
# `progress_timeout`).
INSISTS_MS = 20_000


class Heard:
    """The latest state of a member as received by one node."""

    __slots__ = ("at_ms", "demoted", "has_ledger", "heartbeat_ms", "height", "incarnation", "number", "state", "tried")

    def __init__(self) -> None:
        self.at_ms = self.heartbeat_ms = self.height = self.incarnation = 0
        self.state: CoordinatorState | None = None
        self.number = NEVER_HEARD
        self.has_ledger = True
        self.tried = self.demoted = False


class View:
    """The state of one contract as received by one node in this run.

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
        """The state received from a member; a member from which nothing came yet does not count as silent."""
        heard = self.heard.get(member)
        if heard is None:
            heard = self.heard[member] = Heard()
        return heard


class OneCoordinatorAtATime(Invariant):
    """S6: an honest endorser, within one run of its process, signs for one coordinator at a time.

    It signs for one that it has a reason to accept, and no longer after a message of a better one.
    """

    name = "S6"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for input of a node, its block height, and its signatures."""
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

    # State of an endorser.

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
        """The endorser follows no member and accepts the first that asks, also by a request that awaited the reset."""
        view = self.views[fact.node, fact.contract] = View()
        view.followed.update(self.terms.contracts[fact.contract].committee)

    def _connection(self, fact: ConnectionChanged) -> None:
        """While disconnected, a timer may have dropped the followed member; the reconnection does not undo this."""
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
        """A node that leaves the coordinator role follows the successor that it names."""
        self.views.setdefault((fact.node, fact.contract), View()).followed.add(fact.successor)

    def _declined(self, fact: Declined) -> None:
        """An endorser without a ledger, or in another range, accepts no new coordinator, whatever supports it."""
        view = self.views.get((fact.node, fact.contract))
        if view is not None:
            view.followed |= view.followed_before

    def _passes_over(self, fact: PassedOver) -> None:
        """A node reports the members that it cannot reach to others; its coordinator role uses that list too."""
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
        """The node may follow no member if there is, or was, a reason to leave the followed one.

        A coordinator whose heartbeats are missing is left, even while its other messages arrive (protocol §4.1).
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

    # Conclusions of an endorser.

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
        """Strict rotation: there is a reason to pass over every member that ranks above the sender."""
        order = ranking_of(contract, self._range_of(fact.node, contract))
        better = order[: order.index(fact.peer)]
        return all(self._is_excused(fact.node, fact.local_ms, view, each, tried) for each in better)

    def _follow(self, fact: Received, view: View, contract: Contract, tried: Words) -> None:
        """The sender replaces the followed member if it outranks that one, or that one is passed over."""
        if view.followed == {fact.peer}:
            return
        verdicts = {
            verdict
            for member in view.followed
            if member != fact.peer
            for verdict in self._may_replace(fact, view, contract, tried, member)
        }
        # A node that may be demoted here is perhaps not followed, whatever its rank.
        if False not in verdicts and not view.of(fact.peer).demoted:
            view.followed = {fact.peer}
        elif True in verdicts:
            view.followed.add(fact.peer)

    def _may_replace(
        self, fact: Received, view: View, contract: Contract, tried: Words, member: NodeName | None
    ) -> set[bool]:
        """The verdicts by the ranges in which the two members may be; they may differ."""
        is_left = member is None or view.of(member).state not in LIVE
        if member is None or is_left or self._is_excused(fact.node, fact.local_ms, view, member, None):
            return {True}
        if self._is_excused(fact.node, fact.local_ms, view, member, tried):
            return {True, False}
        heights = {self.heights.get(fact.node, 0), fact.envelope.height, view.of(member).height}
        orders = [ranking_of(contract, contract.range_at(height)) for height in heights]
        return {order.index(fact.peer) < order.index(member) for order in orders}

    def _is_excused(self, node: NodeName, now_ms: int, view: View, member: NodeName, tried: Words) -> bool:
        """Whether there is a reason to pass a member over; with `tried` None, without counting others' claims."""
        heard = view.heard.get(member)
        if (node, member) in self.down or (heard is not None and not heard.has_ledger):
            return True
        if tried is not None and (member in tried or (heard is not None and (heard.tried or heard.demoted))):
            return True
        if heard is None:
            return False
        is_expected = heard.state in EXPECTED and heard.number.incarnation >= heard.incarnation
        return is_expected and now_ms - heard.at_ms >= self.terms.config_of(node).silence_ms

    # Signatures of an endorser.

    def _endorsed(self, fact: Endorsed) -> None:
        contract = self.terms.contracts[fact.contract]
        self.judged += 1
        if contract.mode is not Mode.RING:
            # In `static` mode one member coordinates, in `sender` mode every node its own intents: see L2.
            self.chances += contract.mode is Mode.STATIC and len(self.terms.nodes) > 1
            if contract.mode is Mode.STATIC and fact.coordinator not in contract.committee:
                self.accuse(f"{fact.node} signed for {fact.coordinator}, which is no coordinator of the contract")
            return
        view = self.views.get((fact.node, fact.contract))
        if fact.coordinator == fact.node or view is None:
            return
        if self.terms.liars.intersection((fact.coordinator, *filter(None, view.followed))):
            # A liar's claims of heights, numbers and ranks count up to bounds that are not recomputed here.
            return
        others = [each for each in contract.committee if each not in (fact.node, fact.coordinator)]
        self.chances += any(each in view.heard for each in others)
        if fact.coordinator not in view.followed:
            followed = ", ".join(each for each in view.followed if each is not None) or "nobody"
            words = f"signed for {fact.coordinator}; by what it has received it follows {followed}"
            self.accuse(f"{fact.node} {words}")
