"""The plan of a seed, drawn before the run: the network, the users' intents and the faults.

Everything is drawn up front, each kind from its own random stream. So a plan can be cut down (fewer faults, fewer
intents, less time) without changing the rest of it, which is how a failing seed is shrunk; and the plan of a shorter
time is the beginning of that of a longer one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from rota.chain.submitters import AccountChoice
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import RING_PLACES_MAX, Contract, ContractAddress, Mode, NodeName, Rotation
from rota.sequencer.shares import SENDERS_RECKONED
from rota.sim.deployment_plan import PlannedDeployment, draw_deployments
from rota.sim.invariants.endings import RANGE_SIZES
from rota.sim.liars.drawing import LiarPlan, draw_liars
from rota.sim.submissions import Submission, among_liars, draw_submissions, with_chains, with_draws, with_plans

FAULTS = (
    "crash",
    "torn",
    "hang",
    "stop",
    "upgrade",
    "clock",
    "domain",
    "cut",
    "one-way",
    "loss",
    "slow",
    "reconnect",
    "forge",
    "echo",
    "disk",
    "lie",
    "lag",
    "stale",
    "ledger",
    "stall",
    "drop",
    "unknown",
    "reorganise",
    "outage",
    "slow-disk",
    "stuck-disk",
    "signer",
    "corrupt",
    "gas",
    "refuse",
    "stranger",
    "forks",
    "certificate",
    "older",
)
# Kinds added later are drawn from their own stream, so that earlier seeds keep their draws.
DRAWN_LATER = ("outage", "slow-disk", "stuck-disk", "signer")
DRAWN_LAST = "corrupt"
DRAWN_LAST_IN = 0.2
# Drawn only with `Settings.has_newest_faults`, and then in this share of the seeds, so that others play as before.
NEWEST = ("gas", "refuse", "stranger", "forks", "certificate", "older")
NEWEST_IN = 0.25
NEWEST_MAX = 2
# This share of the seeds has few kinds of faults, so that one is not always masked by others.
FEW_KINDS = 0.4
FEW_KINDS_MAX = 3
OUTAGES_MS = (30_000, 90_000)
# Faults beyond the promises: played when requested by name, and judged by reduced invariants.
LOST_BLOCKS = "lost-blocks"
FAILOVER = "failover"
ASKED_FOR = (LOST_BLOCKS, FAILOVER)
# Faults that may affect either end of a connection.
BETWEEN_TWO = ("cut", "one-way", "slow", "reconnect")
REORGANISATION_DEPTH_MAX = 3
VIRTUAL_NODES = 1_024
MODES = (Mode.RING, Mode.RING, Mode.RING, Mode.STATIC, Mode.SENDER)
ROTATIONS = (Rotation.STICKY, Rotation.STRICT)
PREPARED_VALIDITY_S = 700
# Blocks come at least once a second; a transaction takes some seconds when each of its steps takes this long.
SLOW_SERVICE_MS = 150
SERVICE_MS = 40
SLOW_SERVICE_RANGE_MIN = 20
# The domain of a seed: the simulator's own, the same with deployments, or one that Rota ships.
SYNTHETIC = "synthetic"
DEPLOYMENTS = "deployments"
SHIPPED = ("noto", "pente", "zeto")
DOMAINS = (SYNTHETIC, DEPLOYMENTS, *SHIPPED)
# The percentage of seeds with each domain, where the seed draws; the rest use the simulator's own domain.
DRAWN_IN_PERCENT = {DEPLOYMENTS: 12, "noto": 5, "pente": 5, "zeto": 5}
# Every message of these seeds passes the codec, which costs a third more.
CODEC_EVERY = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """The properties of a run that are set rather than drawn; `None` lets the seed draw.

    By default there are no liars, no deployments and only the simulator's own domain. Liars play in that domain alone.
    """

    nodes: int | None = None
    contracts: int | None = None
    committee: int | None = None
    minutes: float = 2.0
    rotation: Rotation | None = None
    mode: Mode | None = None
    faults: tuple[str, ...] | None = None
    intents: int | None = None
    only_faults: tuple[int, ...] | None = None
    sequencers_max: int | None = None
    codec: bool | None = None
    liars: int | None = 0
    strategies: tuple[str, ...] | None = None
    domain: str | None = SYNTHETIC
    # Invariants that are not judged: one may detect an attack before its consequence shows in another.
    unjudged: tuple[str, ...] = ()
    # Whether seeds draw from `NEWEST` too; recorded digests belong to seeds that do not.
    has_newest_faults: bool = False
    # Whether some transactions have plans of their own, in some seeds; recorded digests belong to seeds without them.
    has_plans: bool = False
    # Which accounts of the nodes pay; recorded digests belong to seeds with one shared account.
    accounts: AccountChoice = AccountChoice.SHARED


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, nodes, time and duration."""

    number: int
    at_ms: int
    kind: str
    node: NodeName
    other: NodeName
    for_ms: int
    draw: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All draws of a seed."""

    seed: int
    trouble_ms: int
    names: tuple[NodeName, ...]
    contracts: tuple[Contract, ...]
    config: Config
    latency_ms: int
    block_ms: int
    disk_ms: int
    service_ms: int
    has_codec: bool
    submissions: tuple[Submission, ...]
    faults: tuple[Fault, ...]
    liars: tuple[LiarPlan, ...] = ()
    domain: str = SYNTHETIC
    deployments: tuple[PlannedDeployment, ...] = ()

    @property
    def loses_blocks(self) -> bool:
        """Whether the chain removes final blocks."""
        return any(fault.kind == LOST_BLOCKS for fault in self.faults)

    @property
    def loses_commits(self) -> bool:
        """Whether databases fail over to copies that lack the last commits."""
        return any(fault.kind == FAILOVER for fault in self.faults)


def draw_domain(seed: int, settings: Settings) -> str:
    """The domain of a seed; not drawn if the network, liars or faults beyond the promises are set."""
    if settings.domain is not None:
        return settings.domain
    network = (settings.nodes, settings.contracts, settings.committee, settings.rotation, settings.mode)
    has_liars = bool(settings.liars) or settings.strategies is not None
    is_beyond = any(kind in ASKED_FOR for kind in settings.faults or ())
    if has_liars or is_beyond or any(each is not None for each in network):
        return SYNTHETIC
    drawn = Random(f"{seed}/domain").randrange(100)
    for domain, percent in DRAWN_IN_PERCENT.items():
        if drawn < percent:
            return domain
        drawn -= percent
    return SYNTHETIC


def draw_plan(seed: int, settings: Settings) -> Plan:
    """Draw the plan of a seed: everything that happens in its run from outside."""
    random = Random(f"{seed}/network")
    trouble_ms = int(settings.minutes * 60_000)
    names = _draw_names(random, settings)
    contracts = _draw_contracts(random, seed, names, settings)
    domain = draw_domain(seed, settings)
    liar_count = settings.liars if domain == SYNTHETIC else 0
    cast = draw_liars(seed, liar_count, settings.strategies, names, contracts)
    names, contracts = cast.names, cast.contracts
    config = _draw_config(random)
    if cast.liars:
        # With fewer places than the number of senders they are shared among, one that floods could take all of them.
        config = replace(config, in_flight_max=max(config.in_flight_max, SENDERS_RECKONED))
    latency_ms, block_ms, disk_ms = random.choice((1, 5, 50)), random.choice((100, 1000)), random.choice((1, 5))
    confirmations = random.choice((0, 0, 1, 3))
    first = (kind for kind in FAULTS if kind not in (*DRAWN_LATER, DRAWN_LAST, *NEWEST))
    drawn = tuple(kind for kind in first if random.random() < 0.5)
    kinds = settings.faults
    if kinds is None:
        kinds = _draw_kinds(seed, drawn)
        kinds = _with_newest(seed, kinds) if settings.has_newest_faults else kinds
    faults = _draw_faults(seed, kinds, names, trouble_ms)
    if settings.only_faults is not None:
        faults = tuple(fault for fault in faults if fault.number in settings.only_faults)
    if "reorganise" in kinds or "forks" in kinds:
        # S1 holds only for reorganisations that `confirmations` cover.
        confirmations = REORGANISATION_DEPTH_MAX
    submissions = tuple(draw_submissions(seed, names, contracts, trouble_ms))
    config = replace(config, confirmations=confirmations)
    if settings.sequencers_max is not None:
        config = replace(config, sequencers_max=settings.sequencers_max)
    service_ms = _draw_service_ms(random, contracts)
    deployments: tuple[PlannedDeployment, ...] = ()
    if domain == DEPLOYMENTS:
        range_size_min = SLOW_SERVICE_RANGE_MIN if service_ms > SERVICE_MS else 0
        deployments = tuple(draw_deployments(seed, names, trouble_ms, range_size_min))
    submissions, deployments = _first_of(submissions, deployments, settings.intents)
    liars = frozenset(liar.name for liar in cast.liars)
    submissions = tuple(among_liars(seed, submissions) if liars else with_draws(seed, submissions))
    if domain == SYNTHETIC:
        planned = contracts if settings.has_plans and "older" not in kinds else ()
        submissions = tuple(with_plans(seed, with_chains(seed, submissions), planned, liars))
    return Plan(
        seed,
        trouble_ms,
        names,
        contracts,
        config,
        latency_ms,
        block_ms,
        disk_ms,
        service_ms=service_ms,
        has_codec=settings.codec if settings.codec is not None else seed % CODEC_EVERY == 0,
        submissions=submissions,
        faults=faults,
        liars=cast.liars,
        domain=domain,
        deployments=deployments,
    )


def _first_of(
    submissions: tuple[Submission, ...], deployments: tuple[PlannedDeployment, ...], count: int | None
) -> tuple[tuple[Submission, ...], tuple[PlannedDeployment, ...]]:
    """The first `count` submissions and deployments together, or all of them."""
    wishes: list[Submission | PlannedDeployment] = [*submissions, *deployments]
    chosen = sorted(wishes, key=lambda each: each.at_ms)[:count]
    return (
        tuple(each for each in chosen if isinstance(each, Submission)),
        tuple(each for each in chosen if isinstance(each, PlannedDeployment)),
    )


def _draw_service_ms(random: Random, contracts: tuple[Contract, ...]) -> int:
    """Draw the duration of a service call, short enough for coordinators to finish a transaction in their range."""
    turns = [contract.range_size for contract in contracts if contract.rotation is Rotation.STRICT]
    slowest_ms = SLOW_SERVICE_MS if min(turns, default=SLOW_SERVICE_RANGE_MIN) >= SLOW_SERVICE_RANGE_MIN else SERVICE_MS
    return min(slowest_ms, random.choice((0, 0, 3, SERVICE_MS, SLOW_SERVICE_MS)))


def _draw_names(random: Random, settings: Settings) -> tuple[NodeName, ...]:
    drawn = random.randint(3, 5)
    return tuple(_name(number) for number in range(settings.nodes or drawn))


def _name(number: int) -> NodeName:
    """A to Z, then A1, B1 and so on."""
    letter = chr(ord("A") + number % 26)
    return NodeName(letter if number < 26 else f"{letter}{number // 26}")


def _draw_contracts(random: Random, seed: int, names: tuple[NodeName, ...], settings: Settings) -> tuple[Contract, ...]:
    drawn = random.choice((1, 1, 1, 2, 3))
    count = settings.contracts or drawn
    return tuple(_draw_contract(random, f"{seed}/{number}", names, settings) for number in range(count))


def _draw_contract(random: Random, name: str, names: tuple[NodeName, ...], settings: Settings) -> Contract:
    mode, rotation = random.choice(MODES), random.choice(ROTATIONS)
    mode, rotation = settings.mode or mode, settings.rotation or rotation
    fewest = min(2, len(names))
    size = settings.committee or random.choice((len(names), len(names), random.randint(fewest, len(names))))
    members = tuple(sorted(random.sample(names, size), key=names.index))
    # An endorser sees the states that it checks, and a coordinator those that it forwards: members do both.
    endorsers = members[:1] if mode is Mode.STATIC and random.random() < 0.5 else members
    return Contract(
        ContractAddress("0x" + hashlib.sha256(name.encode()).hexdigest()[:40]),
        members[:1] if mode is Mode.STATIC else members,
        endorsers,
        random.randint(len(endorsers) // 2 + 1, len(endorsers)),
        mode,
        rotation,
        random.choice(RANGE_SIZES),
        min(VIRTUAL_NODES, RING_PLACES_MAX // size),
    )


def _draw_config(random: Random) -> Config:
    """Draw a configuration; half of the seeds have limits low enough to be reached."""
    drawn = Config(
        in_flight_max=random.choice((6, 40, 5_000)),
        delegation_batch_max=random.choice((4, 256)),
        assembly_slot_max=random.choice((2, 8, 64)),
        round_max=random.choice((2, 8, 64)),
        rounds_open_max=random.choice((1, 2)),
        dispatch_ahead_max=random.choice((2, 16)),
        validity_s=random.choice((40, 120, 600)),
        endorse_retry_max=random.choice((2, 5)),
        intents_open_max=random.choice((30, 50_000)),
        sequencers_max=random.choice((1, 2, 10_000)),
    )
    config = drawn if random.random() < 0.5 else replace(Config(), validity_s=drawn.validity_s)
    return replace(config, prepared_validity_s=PREPARED_VALIDITY_S)


# Faults.


def _draw_kinds(seed: int, drawn: tuple[str, ...]) -> tuple[str, ...]:
    """Several kinds, or few; always in the order of `FAULTS`."""
    random = Random(f"{seed}/kinds")
    later = tuple(kind for kind in DRAWN_LATER if random.random() < 0.25)
    before = tuple(kind for kind in FAULTS if kind not in (DRAWN_LAST, *NEWEST))
    few = random.sample(before, random.randint(1, FEW_KINDS_MAX))
    is_few = random.random() < FEW_KINDS
    kinds = few if is_few else [*drawn, *later]
    if Random(f"{seed}/{DRAWN_LAST}?").random() < DRAWN_LAST_IN:
        kinds = [*kinds[: FEW_KINDS_MAX - 1], DRAWN_LAST] if is_few else [*kinds, DRAWN_LAST]
    return tuple(kind for kind in FAULTS if kind in kinds)


def _with_newest(seed: int, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Add some of the newest kinds, in place of others if there are few."""
    random = Random(f"{seed}/newest")
    if random.random() >= NEWEST_IN:
        return kinds
    chosen = random.sample(NEWEST, random.randint(1, NEWEST_MAX))
    if len(kinds) <= FEW_KINDS_MAX:
        kinds = kinds[: FEW_KINDS_MAX - len(chosen)]
    return (*kinds, *chosen)


def _draw_faults(seed: int, kinds: tuple[str, ...], names: tuple[NodeName, ...], trouble_ms: int) -> tuple[Fault, ...]:
    """Draw each kind from its own stream; number the faults in the order of their times."""
    drawn = sorted(
        (fault for kind in kinds for fault in _draw_faults_of(seed, kind, names, trouble_ms)),
        key=lambda fault: (fault.at_ms, fault.kind),
    )
    return tuple(replace(fault, number=number) for number, fault in enumerate(drawn, 1))


def _draw_faults_of(seed: int, kind: str, names: tuple[NodeName, ...], trouble_ms: int) -> Iterator[Fault]:
    random = Random(f"{seed}/{kind}")
    longest_gap_ms = random.choice((8_000, 30_000))
    at_ms = 0
    while (at_ms := at_ms + random.randint(500, longest_gap_ms)) < trouble_ms:
        node = random.choice(names)
        other = random.choice([name for name in names if name != node] or names)
        for_ms = random.choice((100, 1_000, 4_000, 10_000)) if kind != "outage" else random.randint(*OUTAGES_MS)
        yield Fault(0, at_ms, kind, node, other, for_ms, random.getrandbits(32))
