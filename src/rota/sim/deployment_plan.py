"""The plan of contracts that users deploy while the network runs.

Nodes propose contracts with different members, modes and thresholds. Some are cancelled, a member or the factory
refuses some, and a stranger takes the id of some on the chain. Each has planned submissions for after its deployment.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rota.model.frozen import dataclass
from rota.model.genesis import Genesis
from rota.model.types import NO_CONTRACT, IntentId, Mode, NodeName, Rotation
from rota.sim.invariants.endings import RANGE_SIZES
from rota.sim.submissions import Submission, Town, draw_submission

DEPLOYMENTS_MAX = 8
GAPS_MS = (300, 6_000)
MODES = (Mode.RING, Mode.RING, Mode.STATIC, Mode.SENDER)
VIRTUAL_NODES = 64
CANCELLED = 0.15
ID_TAKEN = 0.15
NODE_REFUSES = 0.1
FACTORY_REFUSES = 0.05
DEPENDENT = 0.25
USES = (2, 14)
# Submissions to deployed contracts are numbered from here; a plan has fewer other intents.
USES_NUMBERED_FROM = 100_000
# Configurations of a contract: refused by the node named, and refused by the factory.
REFUSED_BY = b"refused by "
REFUSED_BY_FACTORY = b"refused by the factory"


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """A contract that a user wants to deploy, its planned end, and its uses.

    The times of `uses` count from the report to the user that the contract is deployed.
    """

    number: int
    at_ms: int
    node: NodeName
    genesis: Genesis
    depends_on: int | None
    cancel_after_ms: int | None
    taken_after_ms: int | None
    uses: tuple[Submission, ...]

    @property
    def id(self) -> IntentId:
        """The id of the deployment, which is its name."""
        return IntentId(f"deploy-{self.number}".encode().ljust(16, b"\0"))


def draw_deployments(
    seed: int, names: tuple[NodeName, ...], trouble_ms: int, range_size_min: int
) -> Iterator[PlannedDeployment]:
    """The deployments of a seed in the order of their times; `range_size_min` bounds ranges of strict rotation."""
    random = Random(f"{seed}/deployments")
    latest: dict[NodeName, int] = {}
    at_ms = 0
    for number in range(1, DEPLOYMENTS_MAX + 1):
        at_ms += random.randint(*GAPS_MS)
        node = random.choice(names)
        genesis = _draw_genesis(random, names, range_size_min)
        depends_on = latest.get(node) if random.random() < DEPENDENT else None
        turn, after_ms = random.random(), random.choice((1, 200, 1_000, 3_000))
        drawn = PlannedDeployment(
            number,
            at_ms,
            node,
            genesis,
            depends_on,
            after_ms if turn < CANCELLED else None,
            after_ms if CANCELLED <= turn < CANCELLED + ID_TAKEN else None,
            tuple(_draw_uses(random, number, genesis, names)),
        )
        latest[node] = number
        if at_ms < trouble_ms:
            yield drawn


def _draw_genesis(random: Random, names: tuple[NodeName, ...], range_size_min: int) -> Genesis:
    mode, rotation = random.choice(MODES), random.choice(tuple(Rotation))
    nodes = tuple(random.sample(names, random.randint(1, len(names))))
    committee = nodes[:1] if mode is Mode.STATIC else nodes
    chance, refusing = random.random(), random.choice(nodes)
    configuration = b""
    if chance < NODE_REFUSES:
        configuration = REFUSED_BY + refusing.encode()
    elif chance < NODE_REFUSES + FACTORY_REFUSES:
        configuration = REFUSED_BY_FACTORY
    threshold, range_size = random.randint(1, len(nodes)), random.choice(RANGE_SIZES)
    if rotation is Rotation.STRICT:
        range_size = max(range_size, range_size_min)
    salt = random.randbytes(32)
    return Genesis(
        "any", configuration, (), committee, nodes, threshold, mode, rotation, range_size, VIRTUAL_NODES, 1337, salt
    )


def _draw_uses(random: Random, number: int, genesis: Genesis, names: tuple[NodeName, ...]) -> Iterator[Submission]:
    holders = names if genesis.audience is None else genesis.nodes
    town = Town(NO_CONTRACT, holders, genesis.committee if genesis.mode is Mode.RING else holders)
    contention = (random.choice((0.1, 0.5, 0.9)), random.randint(1, 4))
    latest: dict[NodeName, int] = {}
    after_ms = 0
    for use in range(random.randint(*USES)):
        after_ms += random.choice((1, 50, 500, 1_500))
        yield draw_submission(random, number * USES_NUMBERED_FROM + use, after_ms, town, contention, latest)
