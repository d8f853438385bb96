"""Throughput of honest members beside a liar, compared with the same members when it does not lie.

Every member keeps `UNDER_WAY` intents open, which share no state. Counted are confirmed intents of honest members'
users during ten leave bounds, from the end of the first one. With f of n members lying, the count must be at least
(n - f) / n of that without lies, less a fifth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial

from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Intent, IntentId, Mode, NodeName, Outcome, Party, Rotation
from rota.sequencer.progress import ENDING_FACTOR
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.liars.conspiracy import Conspiracy
from rota.sim.liars.drawing import LiarPlan
from rota.sim.world import World

NODES = tuple(NodeName(name) for name in "ABC")
ADDRESS = ContractAddress("0x" + "17" * 20)
# A dishonest coordinator that does nothing is replaced after this long, at the latest.
LEAVE_BOUND_MS = ENDING_FACTOR * Config().progress_timeout_ms
BOUNDS = 10
ALLOWANCE = 0.2
UNDER_WAY = 1
LOOK_EVERY_MS = 100
BLOCK_MS = 1_000
LATENCY_MS = 5


@dataclass(frozen=True, slots=True)
class Throughput:
    """Confirmed intents of honest members beside liars and without, and the longest time without a confirmation."""

    strategy: str
    rotation: Rotation
    confirmed: int
    confirmed_without: int
    longest_gap_ms: int
    honest_share: float

    @property
    def ratio(self) -> float:
        """Confirmed intents beside liars, as a share of those without."""
        return self.confirmed / max(1, self.confirmed_without)

    @property
    def least(self) -> float:
        """The honest members' share, less the allowance."""
        return self.honest_share * (1 - ALLOWANCE)

    @property
    def is_enough(self) -> bool:
        """Whether the ratio reaches the least that is promised."""
        return self.ratio >= self.least


@dataclass(slots=True)
class Users:
    """The users of all members: each submits another intent when one has ended."""

    world: World
    watched: tuple[NodeName, ...]
    from_ms: int
    under_way: int = UNDER_WAY
    open: dict[NodeName, dict[IntentId, None]] = field(default_factory=dict)
    count: int = 0
    confirmed: int = 0
    latest_ms: int = 0
    longest_gap_ms: int = 0

    def look(self) -> None:
        """Count ended intents, and submit as many again."""
        for node in self.world.nodes:
            under_way = self.open.setdefault(node, {})
            for intent in [each for each in under_way if each in self.world.receipts]:
                del under_way[intent]
                if node in self.watched and self.world.now_ms >= self.from_ms:
                    self._count(intent)
            while len(under_way) < self.under_way:
                under_way[self._submit(node)] = None
        self.world.at(self.world.now_ms + LOOK_EVERY_MS, self.look)

    def _count(self, intent: IntentId) -> None:
        if self.world.receipts[intent][0].outcome is Outcome.CONFIRMED:
            self.confirmed += 1
            self.longest_gap_ms = max(self.longest_gap_ms, self.world.now_ms - max(self.latest_ms, self.from_ms))
            self.latest_ms = self.world.now_ms

    def _submit(self, node: NodeName) -> IntentId:
        self.count += 1
        name, party = f"{node}-{self.count}", Party(f"user@{node}")
        intent = Intent(drawn_id(name, party, ADDRESS), ADDRESS, party, b"mint", nonce=nonce_of(name))
        self.world.payloads[intent.id] = intent.payload
        self.world.submit(node, ADDRESS, IntentSubmitted(name, intent))
        return intent.id


def measure(
    strategy: str,
    seed: int = 0,
    rotation: Rotation = Rotation.STICKY,
    nodes: tuple[NodeName, ...] = NODES,
    leave_bound_ms: int = LEAVE_BOUND_MS,
    bounds: int = BOUNDS,
    under_way: int = UNDER_WAY,
) -> Throughput:
    """Run a world in which the first member follows this strategy, and one in which all members are honest."""
    beside = _run(nodes, rotation, leave_bound_ms, (LiarPlan(nodes[0], (strategy,)),), seed, bounds, under_way)
    without = _without_lies(nodes, rotation, leave_bound_ms, seed, bounds, under_way)
    share = (len(nodes) - 1) / len(nodes)
    return Throughput(strategy, rotation, beside.confirmed, without, beside.longest_gap_ms, share)


@cache
def _without_lies(
    nodes: tuple[NodeName, ...], rotation: Rotation, leave_bound_ms: int, seed: int, bounds: int, under_way: int
) -> int:
    return _run(nodes, rotation, leave_bound_ms, (), seed, bounds, under_way).confirmed


def _run(
    nodes: tuple[NodeName, ...],
    rotation: Rotation,
    leave_bound_ms: int,
    plans: tuple[LiarPlan, ...],
    seed: int,
    bounds: int,
    under_way: int = UNDER_WAY,
) -> Users:
    contract = Contract(ADDRESS, nodes, nodes, len(nodes) // 2 + 1, Mode.RING, rotation, 20)
    liars = frozenset(plan.name for plan in plans)
    world = World(nodes, (contract,), Config(), latency_ms=LATENCY_MS, block_ms=BLOCK_MS, liars=liars)
    if plans:
        world.conspiracy = Conspiracy(world, seed, plans, ())
    for node in nodes:
        world.start(node)
    users = Users(world, nodes[1:], leave_bound_ms, under_way)
    # One block a second: if blocks depended on transactions, chance would change the pace of the users.
    world.chain.is_mining = False
    world.at(1, users.look)
    world.at(BLOCK_MS, partial(_mine, world))
    end_ms = leave_bound_ms * (bounds + 1)
    world.run_until(end_ms)
    users.longest_gap_ms = max(users.longest_gap_ms, end_ms - max(users.latest_ms, leave_bound_ms))
    return users


def _mine(world: World) -> None:
    world.chain.mine()
    world.at(world.now_ms + BLOCK_MS, partial(_mine, world))
