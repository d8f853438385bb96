"""The connections of a world: messages pass through here, or are lost, held, copied, delayed or forged.

A connection is up or down, each direction as its own end sees it. A cut direction carries nothing; both ends notice
when pings stay unanswered, and reconnect when it is healed. A message under way when the connection or a run ends is
lost. `Weather` determines the delay of each copy of a message; scenarios add rules of their own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.model.types import Contract, HeartbeatNumber, NodeName, RequestId
from rota.sim.forgery import Forgery
from rota.sim.frames import arrives_whole, as_before, frame_of, over_the_wire
from rota.sim.recorder import OwningWorld
from rota.sim.sim_node import SimNode
from rota.sim.weather import HoldRule, MessageRule, Weather
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    Envelope,
    HandoverReason,
    HandoverRequest,
    Message,
)

Rule = TypeVar("Rule", bound=MessageRule)

# The counter of forged ids and numbers, above all real ones.
FORGED_NUMBER = 1_000_000
COPY_DELAY_MS = 30
# The default of a node's transport (`transport/settings.py`).
MISUSE_PAUSE_MS = 10_000
# How many messages an echo may reach back.
ECHOED_MAX = 400


class Wires:
    """All connections of a world."""

    def __init__(self, world: OwningWorld, weather: Weather, has_codec: bool) -> None:
        self.world = world
        self.weather = weather
        self.cut: set[tuple[NodeName, NodeName]] = set()
        self.down: set[tuple[NodeName, NodeName]] = set()
        self.holds: list[HoldRule] = []
        self.duplicates: list[MessageRule] = []
        self.forgeries: list[Forgery] = []
        self.forged_count = 0
        self.message_count = 0
        # The number of sent messages of each kind, while they are counted.
        self.said: Counter[str] | None = None
        self.has_codec = has_codec
        # Nodes that run the previous build.
        self.older: set[NodeName] = set()
        self._heard: deque[Callable[[], None]] = deque(maxlen=ECHOED_MAX)

    # Connections.

    def cut_way(self, source: NodeName, target: NodeName) -> None:
        """Nothing gets from source to target; both notice when pings stay unanswered."""
        if source == target:
            return
        self.cut.add((source, target))
        due_ms = self.world.now_ms + self.world.config.silence_ms
        self.world.at(due_ms, lambda: self._notice_cut(source, target))

    def heal(self) -> None:
        """Remove all cuts, and reconnect."""
        healed = sorted(self.cut)
        self.cut.clear()
        for source, target in healed:
            self.connect(source, target)

    def reconnect(self, one: NodeName, other: NodeName) -> None:
        """Break a connection and make it again at once; messages under way on it are lost."""
        for source, target in ((one, other), (other, one)):
            self._lose(source, target)
        self.connect(one, other)

    def lose_all(self, name: NodeName) -> None:
        """Break the connections of all peers to a node that is gone."""
        for other in self.world.nodes.values():
            if other.name != name:
                self.down.add((other.name, name))
                self.world.tell(other, ConnectionLost(name))

    def connect(self, one: NodeName, other: NodeName) -> None:
        """Connect two nodes if both run and no cut separates them."""
        nodes = self.world.nodes
        if one == other or nodes[one].core is None or nodes[other].core is None:
            return
        if (one, other) in self.cut or (other, one) in self.cut:
            return
        for source, target in ((one, other), (other, one)):
            if (source, target) in self.down:
                self.down.discard((source, target))
                self.world.tell(nodes[source], ConnectionMade(target))

    def _notice_cut(self, source: NodeName, target: NodeName) -> None:
        if (source, target) in self.cut:
            self._lose(source, target)
            self._lose(target, source)

    def _lose(self, source: NodeName, target: NodeName) -> None:
        if (source, target) not in self.down:
            self.down.add((source, target))
            self.world.tell(self.world.nodes[source], ConnectionLost(target))

    # Messages.

    def transmit(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        """Send a message. The judge sees it, whether it arrives or not."""
        world = self.world
        if target not in world.nodes:
            # Liars name nodes that do not exist.
            assert world.liars, f"there is no node {target}"
            return
        self.message_count += 1
        if self.said is not None:
            self.said[type(envelope.body).__name__] += 1
        fate = "delivered"
        if self.older and not self.older.isdisjoint((source, target)):
            body = as_before(envelope.body)
            if body is None:
                return
            envelope = envelope if body is envelope.body else replace(envelope, body=body)
        if self.forgeries:
            envelope, fate = self._told(source, target, envelope)
        world.judge.tell_sent(source, target, envelope)
        if self.has_codec:
            envelope = over_the_wire(envelope)
        if self.weather.has_echo:
            self._echo(source, target, envelope)
        forged = self.weather.forged(source, target, envelope)
        if forged is not None:
            forger, body = forged
            self._deliver_later(forger, source, replace(envelope, body=body))
        way = (source, target)
        rule = _matching(self.holds, source, target, envelope) if self.holds else None
        if way in self.cut or way in self.down:
            world.recorder.sent(world, source, target, envelope, "lost")
        elif rule is not None:
            rule.kept.append((source, target, envelope))
            world.recorder.sent(world, source, target, envelope, "held")
        elif self.weather.is_damaged() and not arrives_whole(envelope, self.weather.damage(frame_of(envelope))):
            world.recorder.sent(world, source, target, envelope, "damaged")
            world.at(world.now_ms + world.latency_ms, partial(self._end_connection, source, target))
        elif self.duplicates and _matching(self.duplicates, source, target, envelope) is not None:
            world.recorder.sent(world, source, target, envelope, "twice")
            self._deliver_later(source, target, envelope)
            self._deliver_later(source, target, envelope, COPY_DELAY_MS)
        else:
            world.recorder.sent(world, source, target, envelope, fate)
            self._deliver_later(source, target, envelope)

    def _end_connection(self, source: NodeName, target: NodeName) -> None:
        """End a connection after a frame that cannot be decoded, and make it again after the misuse pause."""
        self._lose(source, target)
        self._lose(target, source)
        self.world.at(self.world.now_ms + MISUSE_PAUSE_MS, partial(self.connect, source, target))

    def _echo(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        """Perhaps deliver an earlier message of these runs again; heartbeats, most of all messages, are not echoed."""
        world, node = self.world, self.world.nodes[target]
        if not isinstance(envelope.body, CoordinatorHeartbeat):
            lives = (world.nodes[source].life, node.life)
            self._heard.append(partial(self._deliver, lives, source, node, envelope))
        place = self.weather.echoed(len(self._heard))
        if place is not None:
            world.at(world.now_ms + world.latency_ms, self._heard[place])

    def release(self, is_reversed: bool = False, is_twice: bool = False) -> None:
        """Deliver all held messages, in reverse or each twice if requested, and remove the rules that hold them."""
        rules, self.holds = self.holds, []
        kept = [held for rule in rules for held in rule.kept]
        for source, target, envelope in reversed(kept) if is_reversed else kept:
            self._deliver_later(source, target, envelope)
            if is_twice:
                self._deliver_later(source, target, envelope, COPY_DELAY_MS)

    def _deliver_later(self, source: NodeName, target: NodeName, envelope: Envelope, late_ms: int = 0) -> None:
        world = self.world
        node = world.nodes[target]
        for delay_ms in self.weather.delays_ms(source, target, world.latency_ms):
            lives = (world.nodes[source].life, node.life)
            world.at(world.now_ms + delay_ms + late_ms, partial(self._deliver, lives, source, node, envelope))

    def _deliver(self, lives: tuple[int, int], source: NodeName, node: SimNode, envelope: Envelope) -> None:
        """Deliver a message, unless its connection was lost since."""
        world = self.world
        same_lives = lives == (world.nodes[source].life, node.life)
        if same_lives and (source, node.name) not in self.cut and (node.name, source) not in self.down:
            if world.conspiracy is not None and not world.conspiracy.hears(source, node.name, envelope):
                return
            world.tell(node, MessageReceived(source, envelope))

    # Lies.

    def forge_heartbeat(self, source: NodeName, state: CoordinatorState, successor: NodeName | None = None) -> None:
        """Send every other node a heartbeat in which a node claims a role that its own machine does not have.

        It has the next heartbeat number, so that the node's own heartbeats are accepted again soon.
        """
        core = self.world.nodes[source].core
        assert core is not None, f"{source} must run to say anything"
        self.forged_count += 1
        for contract in self.world.contracts:
            sequencer = core.sequencers.loaded.get(contract.address)
            said = sequencer.coordinator.heartbeat_count if sequencer is not None else 0
            number = HeartbeatNumber(core.incarnation, said + self.forged_count)
            for target in self.world.nodes:
                self._forge(contract, source, target, CoordinatorHeartbeat(number, state, successor=successor))

    def forge_request(self, source: NodeName, target: NodeName, reason: HandoverReason) -> None:
        """Send a request to yield that the node's own machine would not send."""
        for contract in self.world.contracts:
            self._forge(contract, source, target, HandoverRequest(RequestId(FORGED_NUMBER, 1), reason))

    def _forge(self, contract: Contract, source: NodeName, target: NodeName, body: Message) -> None:
        if source != target:
            number = RequestId(FORGED_NUMBER, 1)
            self.transmit(source, target, Envelope(contract.address, number, 1, self.world.ledger.height, body))

    def _told(self, source: NodeName, target: NodeName, envelope: Envelope) -> tuple[Envelope, str]:
        """The message after the first matching forgery, which applies once, and the name of its fate."""
        forgery = _matching(self.forgeries, source, target, envelope)
        if forgery is None:
            return envelope, "delivered"
        self.forgeries.remove(forgery)
        contract = next(contract for contract in self.world.contracts if contract.address == envelope.contract)
        return forgery.apply(contract, envelope), forgery.lie.value


def _matching(rules: list[Rule], source: NodeName, target: NodeName, envelope: Envelope) -> Rule | None:
    """The first rule that matches a message."""
    for rule in rules:
        if rule.matches(source, target, envelope):
            return rule
    return None
