"""The faults of the simulated world: what each does, and how it is repaired.

A fault takes effect at once and returns its repair; the swarm repairs it after its planned time, and all faults when
the fault phase ends. Faults overlap: repairing one may repair more, as healing the network does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from rota.chain.events import Objection
from rota.model.config import Config
from rota.model.types import HeartbeatNumber, NodeName
from rota.sim.clock import TRUE_RATE_PERMILLE
from rota.sim.disk import Fate
from rota.sim.ledger import BASE_FEE_WEI
from rota.sim.plan import FAILOVER, LOST_BLOCKS, REORGANISATION_DEPTH_MAX, Fault
from rota.sim.sim_node import Fork, Refusing, SimNode
from rota.sim.weather import GOOD_PASSAGE, Passage, Weather
from rota.sim.world import World
from rota.wire.messages import (
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    Message,
    Rejection,
)

Mend = Callable[[], None]


class Harm(NamedTuple):
    """The input of a fault: the world, its weather, the planned fault, and a source of randomness."""

    world: World
    weather: BadWeather
    fault: Fault
    random: Random


LOSS_MAX = 0.3
CORRUPTION_MAX = 0.02
DUPLICATION_MAX = 0.3
DELAYS_MAX_MS = (1, 20, 500, 2_000)
EFFECTS_BEFORE_DEATH_MAX = 40
COMMITS_LOST_MAX = 200
# Factors of the gas price; the last one exceeds what a submitter may pay.
GAS_SPIKES = (2, 10, 100, 1_000)
# Above the heartbeat numbers that the forger itself has sent.
FORGED_HEARTBEAT = 1_000_000


class BadWeather(Weather):
    """Loses, duplicates, delays and forges messages at random, at the configured rates."""

    def __init__(self, random: Random, names: tuple[NodeName, ...], has_echo: bool) -> None:
        self.random = random
        self.names = names
        self.has_echo = has_echo
        self.calm()

    def calm(self) -> None:
        """Reset all rates and delays."""
        self.loss = self.duplication = self.dropped = self.unanswered = self.forging = self.echoing = 0.0
        self.corrupting = 0.0
        self.jitter_ms = self.delayed_ms = 0
        self.slow_ms: dict[tuple[NodeName, NodeName], int] = {}

    def delays_ms(self, source: NodeName, target: NodeName, latency_ms: int) -> tuple[int, ...]:
        """The delay of each copy that arrives."""
        if self.slow_ms:
            latency_ms += self.slow_ms.get((source, target), 0)
        if not (self.loss or self.duplication or self.jitter_ms):
            return (latency_ms,)
        if self.random.random() < self.loss:
            return ()
        copies = 2 if self.random.random() < self.duplication else 1
        return tuple(latency_ms + self.random.randint(0, self.jitter_ms) for _ in range(copies))

    def echoed(self, heard_count: int) -> int | None:
        """The index of an earlier message to deliver again, or None."""
        if not self.echoing or not heard_count or self.random.random() >= self.echoing:
            return None
        return self.random.randrange(heard_count)

    def passage(self) -> Passage:
        """How a transaction reaches the chain: perhaps dropped or late, perhaps without an answer."""
        if not (self.dropped or self.unanswered or self.delayed_ms):
            return GOOD_PASSAGE
        is_dropped = self.random.random() < self.dropped
        delay_ms = None if is_dropped else self.random.randint(0, self.delayed_ms)
        return Passage(delay_ms, self.random.random() >= self.unanswered)

    def is_damaged(self) -> bool:
        """Whether this message arrives damaged."""
        return bool(self.corrupting) and self.random.random() < self.corrupting

    def damage(self, data: bytes) -> bytes:
        """Cut a frame, or replace, remove or repeat some of its bytes."""
        first, last = sorted(self.random.choices(range(len(data) + 1), k=2))
        match self.random.randrange(4):
            case 0:
                return data[:first]
            case 1:
                return data[:first] + self.random.randbytes(last - first) + data[last:]
            case 2:
                return data[:first] + data[last:]
            case _:
                return data[:last] + data[first:]

    def forged(self, source: NodeName, target: NodeName, envelope: Envelope) -> tuple[NodeName, Message] | None:
        """An answer by a node that was not asked, in its own name, with values from the overheard message; or None."""
        if not self.forging or self.random.random() >= self.forging:
            return None
        body = envelope.body
        forger = self.random.choice(self.names)
        if forger in (source, target):
            return None
        if isinstance(body, DispatchConfirmationRequest):
            return forger, DispatchConfirmationResponse(body.request_id, tuple(item.intent for item in body.items))
        if isinstance(body, EndorsementRequest):
            return forger, EndorsementResponse(body.request_id, body.digest, b"signed by somebody else")
        if isinstance(body, DelegationCommand):
            number = HeartbeatNumber(envelope.incarnation, FORGED_HEARTBEAT)
            rejection = Rejection.NOT_PREFERRED_COORDINATOR
            return forger, DelegationRejected(body.command_id, rejection, active=forger, active_number=number)
        return None


def apply(world: World, weather: BadWeather, fault: Fault) -> Mend:
    """Apply a fault; returns its repair."""
    return _KINDS[fault.kind](Harm(world, weather, fault, Random(fault.draw)))


def mend_all(world: World, weather: BadWeather) -> None:
    """Repair all faults."""
    weather.calm()
    for node in world.nodes.values():
        node.disk.fate = Fate.WORKS
        world.set_disk_delay(node.name, 0)
        world.hang_signer(node.name, False)
        node.effects_to_live = None
        node.clock.change(world.now_ms, TRUE_RATE_PERMILLE)
        node.blocks_behind, node.index_delay_ms, node.lags_at = 0, None, None
        node.refusing = node.fork = None
    world.ledger.base_fee_wei = BASE_FEE_WEI
    _start_mining(world)
    for node in world.nodes.values():
        if node.core is None or node.is_stopping:
            _restart(world, node.name, node.config)
        if node.is_hung:
            world.hang(node.name, False)
        world.hang_domain(node.name, False)
        if not node.has_ledger:
            world.set_ledger(node.name, True)
        world.lag(node.name, False)
    world.wires.heal()
    for name in world.nodes:
        for other in world.nodes:
            world.wires.connect(name, other)


# Nodes.


def _crash(harm: Harm) -> Mend:
    """Kill the node; start it again later."""
    if harm.world.nodes[harm.fault.node].core is not None:
        harm.world.crash(harm.fault.node)
    return lambda: _start(harm.world, harm.fault.node)


def _fail_over(harm: Harm) -> Mend:
    """Replace its database by a copy without the last commits; the node notices, ends, and is started again."""
    node = harm.world.nodes[harm.fault.node]
    if node.core is not None:
        harm.world.crash(harm.fault.node)
    node.disk = node.disk.without_last(harm.random.randint(1, COMMITS_LOST_MAX), harm.world.transitions)
    return lambda: _start(harm.world, harm.fault.node)


def _torn(harm: Harm) -> Mend:
    """Kill the node between two effects of a step."""
    harm.world.crash_after(harm.fault.node, harm.random.randint(0, EFFECTS_BEFORE_DEATH_MAX))
    return lambda: _start(harm.world, harm.fault.node)


def _hang(harm: Harm) -> Mend:
    """Hang the node for a while; it resumes with its memory."""
    harm.world.hang(harm.fault.node, True)
    return lambda: harm.world.hang(harm.fault.node, False)


def _stop(harm: Harm) -> Mend:
    """Ask the node to stop, and restart it when the fault's time is over."""
    harm.world.stop(harm.fault.node)
    return lambda: _restart(harm.world, harm.fault.node, harm.world.nodes[harm.fault.node].config)


def _upgrade(harm: Harm) -> Mend:
    """Ask the node to stop, and start it again with other settings and another minor version of the protocol."""
    harm.world.stop(harm.fault.node)
    config = replace(
        harm.world.nodes[harm.fault.node].config,
        heartbeat_ms=harm.random.choice((400, 500, 600)),
        request_timeout_ms=harm.random.choice((700, 1_000, 1_500)),
        assembly_slot_max=harm.random.choice((3, 64)),
        round_max=harm.random.choice((3, 64)),
        resubmit_ms=harm.random.choice((2_000, 5_000)),
    )
    major, minor = harm.world.nodes[harm.fault.node].protocol_version
    return lambda: _restart(harm.world, harm.fault.node, config, (major, 1 - min(minor, 1)))


def _clock(harm: Harm) -> Mend:
    """Make the node's clock run fast or slow, and jump."""
    node = harm.world.nodes[harm.fault.node]
    jump_ms = harm.random.choice((0, 0, 300, 5_000, 60_000, -2_000))
    node.clock.change(harm.world.now_ms, harm.random.randint(800, 1_250), jump_ms)
    harm.world.wake(harm.fault.node)
    return lambda: _set_clock_right(harm.world, node)


def _set_clock_right(world: World, node: SimNode) -> None:
    node.clock.change(world.now_ms, TRUE_RATE_PERMILLE)
    world.wake(node.name)


def _start(world: World, name: NodeName) -> None:
    node = world.nodes[name]
    node.effects_to_live = None
    if node.core is None:
        world.start(name)


def _restart(world: World, name: NodeName, config: Config, version: tuple[int, int] | None = None) -> None:
    node = world.nodes[name]
    if node.core is not None:
        world.crash(name)
    node.config = config
    node.protocol_version = version or node.protocol_version
    world.start(name)


def _older(harm: Harm) -> Mend:
    """Kill the node, and start it as the previous build; it may still run that when the swarm ends."""
    world, name = harm.world, harm.fault.node
    if world.nodes[name].core is not None:
        world.crash(name)
    world.wires.older.add(name)
    world.start(name)
    return lambda: _upgrade_older(world, name)


def _upgrade_older(world: World, name: NodeName) -> None:
    world.wires.older.discard(name)
    _restart(world, name, world.nodes[name].config)


def _outage(harm: Harm) -> Mend:
    """Longer than every timer of the protocol: the node is down, hangs, has no ledger, or is disconnected."""
    world, name = harm.world, harm.fault.node
    kind = harm.random.choice((_crash, _hang, _ledger, None))
    if kind is not None:
        return kind(harm)
    for other in world.nodes:
        if other != name:
            world.wires.cut_way(name, other)
            world.wires.cut_way(other, name)
    return world.wires.heal


def _signer(harm: Harm) -> Mend:
    """The node's signer signs neither transitions nor transactions for a while."""
    harm.world.hang_signer(harm.fault.node, True)
    return lambda: harm.world.hang_signer(harm.fault.node, False)


def _domain(harm: Harm) -> Mend:
    """The node's domain assembles nothing for a while, and then everything."""
    harm.world.hang_domain(harm.fault.node, True)
    return lambda: harm.world.hang_domain(harm.fault.node, False)


# The network.


def _cut(harm: Harm) -> Mend:
    """Cut the connection of two nodes in both directions."""
    harm.world.wires.cut_way(harm.fault.node, harm.fault.other)
    harm.world.wires.cut_way(harm.fault.other, harm.fault.node)
    return harm.world.wires.heal


def _one_way(harm: Harm) -> Mend:
    """Cut the connection of two nodes in one direction."""
    harm.world.wires.cut_way(harm.fault.node, harm.fault.other)
    return harm.world.wires.heal


def _loss(harm: Harm) -> Mend:
    """Lose, copy, delay and reorder messages."""
    harm.weather.loss = harm.random.uniform(0, LOSS_MAX)
    harm.weather.duplication = harm.random.uniform(0, DUPLICATION_MAX)
    harm.weather.jitter_ms = harm.random.choice(DELAYS_MAX_MS)
    return lambda: _clear(harm.weather)


def _clear(weather: BadWeather) -> None:
    weather.loss = weather.duplication = 0.0
    weather.jitter_ms = 0


def _slow(harm: Harm) -> Mend:
    """Delay messages of the node to every peer, or to one."""
    delay_ms = harm.random.choice((200, 1_000, 2_000))
    others = harm.world.nodes if harm.random.random() < 0.5 else (harm.fault.other,)
    for other in others:
        harm.weather.slow_ms[(harm.fault.node, other)] = delay_ms
    return harm.weather.slow_ms.clear


def _reconnect(harm: Harm) -> Mend:
    """Break a connection and make it again."""
    harm.world.wires.reconnect(harm.fault.node, harm.fault.other)
    return _nothing


def _certificate(harm: Harm) -> Mend:
    """The node shows a new certificate: every connection breaks, and some peers do not know it for a while."""
    world, name = harm.world, harm.fault.node
    for other in world.nodes:
        if other == name:
            continue
        if harm.random.random() < 0.5:
            world.wires.reconnect(name, other)
        else:
            world.wires.cut_way(name, other)
            world.wires.cut_way(other, name)
    return world.wires.heal


def _forge(harm: Harm) -> Mend:
    """Forge answers by nodes that were not asked."""
    harm.weather.forging = harm.random.uniform(0.1, 1.0)
    return lambda: setattr(harm.weather, "forging", 0.0)


def _echo(harm: Harm) -> Mend:
    """Deliver earlier messages again, much later."""
    harm.weather.echoing = harm.random.uniform(0.05, 0.5)
    return lambda: setattr(harm.weather, "echoing", 0.0)


def _corrupt(harm: Harm) -> Mend:
    """Cut frames or change some of their bytes: the receiver discards them and ends the connection."""
    harm.weather.corrupting = harm.random.uniform(0.001, CORRUPTION_MAX)
    return lambda: setattr(harm.weather, "corrupting", 0.0)


# Disks.


def _disk(harm: Harm) -> Mend:
    """Every write fails."""
    harm.world.nodes[harm.fault.node].disk.fate = Fate.FAILS
    return lambda: _mend_disk(harm.world, harm.fault.node)


def _lie(harm: Harm) -> Mend:
    """Writes succeed and are reported as failed."""
    harm.world.nodes[harm.fault.node].disk.fate = Fate.LIES
    return lambda: _mend_disk(harm.world, harm.fault.node)


def _slow_disk(harm: Harm) -> Mend:
    """Every write takes long."""
    harm.world.set_disk_delay(harm.fault.node, harm.random.choice((20, 100, 300)))
    return lambda: harm.world.set_disk_delay(harm.fault.node, 0)


def _stuck_disk(harm: Harm) -> Mend:
    """No write completes before the repair."""
    harm.world.set_disk_delay(harm.fault.node, None)
    return lambda: harm.world.set_disk_delay(harm.fault.node, 0)


def _mend_disk(world: World, name: NodeName) -> None:
    world.nodes[name].disk.fate = Fate.WORKS
    _start(world, name)


# The ledger.


def _lag(harm: Harm) -> Mend:
    """Stop the node's index."""
    harm.world.lag(harm.fault.node, True)
    return lambda: harm.world.lag(harm.fault.node, False)


def _stale(harm: Harm) -> Mend:
    """The node reads the chain from an Ethereum node that is some blocks behind, and late."""
    node = harm.world.nodes[harm.fault.node]
    node.blocks_behind = harm.random.randint(1, 5)
    node.index_delay_ms = harm.random.choice((1, 200, 3_000))
    return lambda: _read_fresh(harm.world, node)


def _read_fresh(world: World, node: SimNode) -> None:
    node.blocks_behind, node.index_delay_ms = 0, None
    world.lag(node.name, False)


def _ledger(harm: Harm) -> Mend:
    """Take the ledger from the node."""
    harm.world.set_ledger(harm.fault.node, False)
    return lambda: harm.world.set_ledger(harm.fault.node, True)


def _stall(harm: Harm) -> Mend:
    """Stop mining."""
    harm.world.chain.is_mining = False
    return lambda: _start_mining(harm.world)


def _start_mining(world: World) -> None:
    world.chain.is_mining = True
    if world.ledger.has_work():
        world.chain.mine()


def _drop(harm: Harm) -> Mend:
    """The pool drops its transactions, and some of those that it receives."""
    harm.world.ledger.pool.clear()
    harm.world.ledger.waiting.clear()
    harm.weather.dropped = harm.random.uniform(0.1, 0.7)
    return lambda: setattr(harm.weather, "dropped", 0.0)


def _unknown(harm: Harm) -> Mend:
    """Transactions are late and overtake one another, and some are sent without an answer."""
    harm.weather.unanswered = harm.random.uniform(0.1, 0.9)
    harm.weather.delayed_ms = harm.random.choice((0, 500, 5_000))
    return lambda: _answer(harm.weather)


def _answer(weather: BadWeather) -> None:
    weather.unanswered, weather.delayed_ms = 0.0, 0


def _reorganise(harm: Harm) -> Mend:
    """Remove the latest blocks, never more than the deepest reorganisation in force."""
    depth = min(harm.random.randint(1, REORGANISATION_DEPTH_MAX), harm.world.chain.depth_left(REORGANISATION_DEPTH_MAX))
    if depth > 0:
        harm.world.chain.reorganise(depth, keeps_transactions=harm.random.random() < 0.7)
    return _nothing


def _gas(harm: Harm) -> Mend:
    """Raise the gas price; pools hold transactions that pay too little, or reject them."""
    chain = harm.world.chain
    harm.world.ledger.is_priced = True
    harm.world.ledger.base_fee_wei = BASE_FEE_WEI * harm.random.choice(GAS_SPIKES)
    chain.refuses_cheap = harm.random.random() < 0.5
    return lambda: _cheapen(harm.world)


def _cheapen(world: World) -> None:
    world.ledger.base_fee_wei = BASE_FEE_WEI
    _start_mining(world)


def _refuse(harm: Harm) -> Mend:
    """The node's Ethereum node rejects its transactions for a random reason; sometimes it forwards them anyway."""
    node = harm.world.nodes[harm.fault.node]
    node.refusing = Refusing(harm.random.choice(tuple(Objection)), harm.random.random() < 0.3)
    return lambda: setattr(node, "refusing", None)


def _stranger(harm: Harm) -> Mend:
    """Another process with the node's key uses a nonce for which a transaction of the node is pooled."""
    harm.world.ledger.take_nonce(harm.fault.node)
    return _nothing


def _forks(harm: Harm) -> Mend:
    """Remove the latest blocks; the node's Ethereum nodes show it the old and the new fork in turn."""
    world, node = harm.world, harm.world.nodes[harm.fault.node]
    depth = min(harm.random.randint(1, REORGANISATION_DEPTH_MAX), world.chain.depth_left(REORGANISATION_DEPTH_MAX))
    if depth > 0:
        removed = tuple(world.ledger.as_seen_by(node.name, block) for block in world.ledger.blocks[-depth:])
        world.chain.reorganise(depth, keeps_transactions=harm.random.random() < 0.7)
        node.fork = Fork(removed, harm.random)
    return lambda: setattr(node, "fork", None)


def _lose_blocks(harm: Harm) -> Mend:
    """Remove blocks that were final for every node, with or without their transactions."""
    depth = harm.world.config.confirmations + harm.random.randint(1, REORGANISATION_DEPTH_MAX)
    harm.world.chain.reorganise(depth, keeps_transactions=harm.random.random() < 0.3)
    # Replace each block: a chain that is only shorter may be one that lags behind.
    for _ in range(depth):
        harm.world.chain.mine(is_empty=True)
    return _nothing


def _nothing() -> None:
    """No repair is needed."""


_KINDS: dict[str, Callable[[Harm], Mend]] = {
    "crash": _crash,
    "torn": _torn,
    "hang": _hang,
    "stop": _stop,
    "upgrade": _upgrade,
    "clock": _clock,
    "domain": _domain,
    "cut": _cut,
    "one-way": _one_way,
    "loss": _loss,
    "slow": _slow,
    "reconnect": _reconnect,
    "forge": _forge,
    "echo": _echo,
    "disk": _disk,
    "lie": _lie,
    "lag": _lag,
    "stale": _stale,
    "ledger": _ledger,
    "stall": _stall,
    "drop": _drop,
    "unknown": _unknown,
    "reorganise": _reorganise,
    "outage": _outage,
    "slow-disk": _slow_disk,
    "stuck-disk": _stuck_disk,
    "signer": _signer,
    "corrupt": _corrupt,
    "gas": _gas,
    "refuse": _refuse,
    "stranger": _stranger,
    "forks": _forks,
    "certificate": _certificate,
    "older": _older,
    LOST_BLOCKS: _lose_blocks,
    FAILOVER: _fail_over,
}
