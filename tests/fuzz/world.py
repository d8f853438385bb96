"""A network of real nodes of one shipped domain, with a stranger among them, and how a seed is played."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, cast

from rota.directory.acquaintance_events import AcquisitionEnded
from rota.directory.deployment_events import FactoryCalled
from rota.directory.effects import (
    AcquireContract,
    CallFactory,
    FindGenesis,
    JudgeProposal,
    ListContracts,
    SiftContracts,
)
from rota.domains.noto import Noto
from rota.domains.pente import Pente
from rota.domains.zeto.domain import Zeto
from rota.engine.contracts import KnownContracts
from rota.evm.private_evm import PrivateEvm
from rota.host import AnyDomain, ContractDefaults, Hosted, UserCall, deploy, genesis_of, open_genesis
from rota.model.genesis import encode_genesis
from rota.model.types import ContractAddress, Intent, IntentId, KnownContract, NodeName, Outcome, Transition
from rota.service.contracts.deploying import Deploying
from rota.sim.factory import FACTORY, Factory
from rota.sim.invariants.judge import Judge
from rota.sim.plan import Settings, draw_plan
from rota.sim.sim_node import SimNode
from rota.sim.world import World
from rota.testing.simulation import HostedServices, HostedSwarm, Workload
from rota.testing.workloads import noto, pente, zeto
from rota.testing.workloads.noto import TokenUsers
from rota.testing.workloads.pente import GroupMembers, PenteKit, deployment_of
from rota.testing.workloads.zeto import CoinUsers
from rota.wire.messages import (
    GroupMessage,
    GroupMessageAcknowledgement,
    HoldingsRequest,
    HoldingsResponse,
    Message,
    Verdict,
)
from tests.domains.pente.members import token
from tests.fuzz.peers import MakeDatabase, StoredDisk, Stranger
from tests.ledger.participant import OneKey
from tests.wire.samples import MESSAGE_TYPES, full_envelope, lean_envelope

ADDRESS: Final = ContractAddress("0x" + "f2" * 20)
CHAIN_ID: Final = 1337
# Of simulated time: the stranger speaks, and after that honest work goes on.
LIES_MS: Final = 6_000
HONEST_MS: Final = 60_000
# They are for services beside the core (`service/run.py`), which gets none of them.
BESIDE_THE_CORE: Final = (GroupMessage, GroupMessageAcknowledgement, HoldingsRequest, HoldingsResponse)
MADE: Final[tuple[Message, ...]] = tuple(
    made(kind).body for kind in MESSAGE_TYPES if kind not in BESIDE_THE_CORE for made in (full_envelope, lean_envelope)
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A domain, what its users do, and the node that lies: one without which the others go on."""

    domain: AnyDomain
    workload: Workload
    liar: NodeName
    # What nothing can stand against, whatever the liar did.
    probes: tuple[UserCall, ...]


def _noto() -> Setting:
    payee = noto.USERS[0]
    probes = (UserCall(noto.NOTARY, "mint", [payee, 7]), UserCall(noto.NOTARY, "mint", [noto.NOTARY, 8]))
    return Setting(Noto(), TokenUsers().workload(), NodeName("D"), probes)


def _pente() -> Setting:
    kit = PenteKit(PrivateEvm, token())
    probes = tuple(UserCall(member, "deploy", deployment_of(kit.token, "Probe", "P")) for member in pente.MEMBERS[:2])
    return Setting(Pente(PrivateEvm), GroupMembers(kit, threshold=2).workload(), NodeName("C"), probes)


def _zeto() -> Setting:
    mints = [{"to": zeto.USERS[1], "amount": 7}]
    return Setting(
        Zeto(), CoinUsers(1_000).workload(), NodeName("C"), (UserCall(zeto.ISSUER, "mint", {"mints": mints}),) * 2
    )


SETTINGS: Final[dict[str, Callable[[], Setting]]] = {"noto": _noto, "pente": _pente, "zeto": _zeto}


@dataclass(slots=True)
class Played:
    """The outcome of a seed."""

    swarm: HostedSwarm
    said: Counter[type[Message]]
    honest: tuple[IntentId, ...]

    @property
    def ended(self) -> Counter[Outcome]:
        """The outcomes of what honest users asked for when the stranger had fallen silent."""
        receipts = self.swarm.receipts()
        return Counter(receipts[intent].outcome for intent in self.honest if intent in receipts)


@dataclass(frozen=True, slots=True)
class Quiet:
    """A contract without a liar, and its states, transitions and intents: real values to change."""

    hosted: Hosted
    known: KnownContract
    contracts: KnownContracts
    transitions: tuple[Transition, ...]
    contents: tuple[bytes, ...]
    intents: tuple[Intent, ...]


def calm(name: str, database: MakeDatabase) -> Quiet:
    """Honest users for a while."""
    swarm, stranger = _swarm(SETTINGS[name](), 1, database)
    stranger.is_quiet = True
    swarm.open()
    swarm.world.run_until(LIES_MS)
    disk = next(node.disk for node in swarm.world.nodes.values() if isinstance(node.disk, StoredDisk))
    made = tuple(each for each in swarm.world.transitions.values() if each.outputs)
    contents = sorted({state.content for each in made for state in each.outputs if state.content})
    return Quiet(swarm.hosted, disk.known, disk.contracts, made, tuple(contents), tuple(swarm.intents.values()))


def play(name: str, seed: int, database: MakeDatabase) -> Played:
    """The stranger lies; then each honest node begins again from its database, and its users ask for more."""
    setting = SETTINGS[name]()
    swarm, stranger = _swarm(setting, seed, database)
    world = swarm.world
    swarm.open()
    world.at(100, stranger.talk)
    honest = [node for node in world.nodes if node != setting.liar]
    for number, node in enumerate(honest):
        at_ms = LIES_MS // 2 + number * 200
        world.at(at_ms, partial(world.crash, node))
        world.at(at_ms + 100, partial(world.start, node))
    world.run_until(LIES_MS)
    stranger.is_quiet = True
    swarm._mine_now_and_then()
    for node in honest:
        world.crash(node)
        world.start(node)
    asked: list[IntentId] = []
    for number, call in enumerate(setting.probes):
        intent = swarm._ask_for(call, 100_000 + number)
        assert intent is not None, f"nothing is wrong with {call}"
        asked.append(intent)
        world.run_until(world.now_ms + 1_000)
    world.run_until(world.now_ms + HONEST_MS, lambda: all(each in world.receipts for each in asked))
    return Played(swarm, stranger.said, tuple(asked))


class Proposals(Factory):
    """What a node answers to proposals, as a real one does; nothing is deployed."""

    def __init__(self, world: World, contracts: Mapping[NodeName, KnownContracts]) -> None:
        super().__init__(world, world.chain)
        self._contracts: Final = contracts

    def judge(self, node: SimNode, order: JudgeProposal) -> None:
        contracts = self._contracts.get(node.name)
        if contracts is None:
            return
        tell = partial(self.world.tell, node)
        Deploying(node.name, contracts, OneKey(), cast(Any, None), FACTORY, tell).perform(order)

    def call(self, node: SimNode, order: CallFactory) -> None:
        self.world.tell(node, FactoryCalled(order.deployment))

    def acquaint(self, node: SimNode, order: ListContracts | SiftContracts | FindGenesis | AcquireContract) -> None:
        if isinstance(order, AcquireContract):
            self.world.tell(node, AcquisitionEnded(order.contract, order.peer, Verdict.BUSY))
        else:
            super().acquaint(node, order)


def _swarm(setting: Setting, seed: int, database: MakeDatabase) -> tuple[HostedSwarm, Stranger]:
    workload, domain = setting.workload, setting.domain
    random = Random(f"{seed}/fuzz")
    deployment = deploy(domain, workload.arguments, workload.deployer)
    genesis = genesis_of(domain, deployment, ContractDefaults(CHAIN_ID, range_size=20), random.randbytes(32))
    salt_key = hashlib.sha256(b"salts").digest()
    hosted = open_genesis({domain.name: domain}, genesis, ADDRESS, salt_key)
    contract = hosted.contract
    known = KnownContract(contract, IntentId(bytes(16)), (ADDRESS,) * len(contract.endorsers), encode_genesis(genesis))
    wanted = Settings(minutes=LIES_MS / 60_000, faults=(), nodes=workload.node_count, contracts=1, domain=domain.name)
    plan = replace(draw_plan(seed, wanted), contracts=(contract,), submissions=())
    swarm = HostedSwarm(seed, wanted, plan, hosted, workload, None, lambda _: None)
    world = swarm.world
    world.judge = Judge(world.terms, ())
    world.liars = frozenset({setting.liar})
    known_to: dict[NodeName, KnownContracts] = {}
    for name, node in world.nodes.items():
        if name != setting.liar:
            contracts = KnownContracts(name, CHAIN_ID, {domain.name: domain}, salt_key, FACTORY)
            contracts.add(known)
            known_to[name] = contracts
            node.disk = StoredDisk(database, node.config, contracts, known)
    world.factory = Proposals(world, known_to)
    swarm.services = world.services = HostedServices(world, hosted, lambda _: None)
    world.conspiracy = stranger = Stranger(world, setting.liar, random, MADE)
    return swarm, stranger
