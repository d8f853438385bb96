"""Deployments in the simulated world: whatever is lost, killed or undone, each ends once, and all nodes have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch
from rota.machine.effects import DispatchRound
from rota.machine.events import IntentSubmitted, Tick
from rota.model.blocks import FactoryDeployment
from rota.model.config import Config
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import (
    NO_CONTRACT,
    Contract,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    Mode,
    NodeName,
    Outcome,
    Party,
    Rotation,
    StateId,
)
from rota.node.effects import NodeStarted
from rota.node.node import OWN
from rota.sim.disk import Disk
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.ledger import Ledger
from rota.sim.plan import DEPLOYMENTS, Settings, draw_plan
from rota.sim.swarm import Swarm
from rota.sim.world import World

NAMES = tuple(map(NodeName, "ABCD"))
LATER_LIFE = 1_000_000
DEPLOYMENT = IntentId(b"deploy".ljust(16, b"\0"))
SHORT = Settings(minutes=1 / 4, domain=DEPLOYMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_seed_with_deployments_is_clean(seed: int) -> None:
    assert Swarm(seed, SHORT).play().violations == []


def test_contracts_are_deployed_under_faults_used_and_judged() -> None:
    swarm = Swarm(3, SHORT)
    report = swarm.play()
    assert report.violations == []
    assert report == Swarm(3, SHORT).play()
    assert (report.domain, len(swarm.contracts) > len(swarm.plan.contracts)) == (DEPLOYMENTS, True)
    assert any(swarm.world.ledger.states[each.contract].used for each in swarm.deploying.used)
    assert all(report.invariants[name].chances for name in ("D1", "D2", "D3"))


@pytest.mark.slow
def test_seed_that_failed_is_clean() -> None:
    """A peer proposed, withdrew and proposed again during the judgement: `tests/directory/test_proposals.py`."""
    assert Swarm(37, Settings(minutes=1 / 2, domain=DEPLOYMENTS)).play().violations == []


@pytest.mark.slow
def test_node_that_asked_for_a_contract_whose_block_was_taken_back_has_it_in_the_end() -> None:
    """D3 in seed 201207: B refused its genesis while the chain stood still; see `tests/node/test_acquaintance.py`."""
    settings = Settings(minutes=1 / 2, domain=DEPLOYMENTS, only_faults=(6, 11, 26, 27, 28, 34, 43, 44), intents=76)
    settings = replace(settings, liars=None, has_newest_faults=True, has_plans=True)
    assert Swarm(201207, settings).play().violations == []


@pytest.mark.slow
def test_uses_of_a_contract_that_is_not_deployed_never_come() -> None:
    """A stranger takes every id, and no node has what the stranger deploys."""
    plan = draw_plan(3, replace(SHORT, faults=()))
    taken = tuple(replace(each, cancel_after_ms=None, taken_after_ms=20, depends_on=None) for each in plan.deployments)
    swarm = Swarm(3, plan=replace(plan, deployments=taken))
    swarm.world.factory.call = lambda *_: None  # type: ignore[method-assign]
    report = swarm.play()
    assert report.violations == []
    assert (swarm.deploying.used, len(swarm.contracts)) == ([], len(plan.contracts))
    assert len(swarm.world.chain.strange) == len(taken)
    assert report.invariants["D3"].by["of a stranger"] == len(taken) * len(plan.names)
    outcomes = {swarm.world.receipts[each.id][0].outcome for each in taken}
    assert outcomes == {Outcome.REVERTED}


def test_round_of_a_contract_whose_deployment_was_taken_back_fails_on_the_ledger() -> None:
    contract = Contract(ContractAddress("0x" + "0c" * 20), NAMES, NAMES, 0)
    ledger = Ledger(())
    ledger.deploy(FactoryDeployment(DEPLOYMENT, contract.address, bytes(32), (), 0), contract)
    order = DispatchRound(contract.address, Digest(bytes(32)), (), (), (), (), 2**32)
    ledger.send(RoundDispatch(order, "A", 0))
    block = ledger.mine(1)
    assert (len(block.deployments), ledger.mined_in(block)[0][1]) == (1, "")
    ledger.take_back(1, keeps_transactions=False)
    ledger.send(RoundDispatch(order, "A", 0))
    assert ledger.mined_in(ledger.mine(2))[0][1] == "no contract"


def test_contract_that_was_deployed_is_used_at_once_by_everybody() -> None:
    world = World(NAMES, (), Config())
    for name in NAMES:
        world.start(name)
    world.run_until(2_000)
    salt = bytes(32)
    genesis = Genesis("any", b"", (), NAMES, NAMES, 3, Mode.RING, Rotation.STICKY, 100, 16, 1337, salt)
    deployment = IntentId(b"deploy".ljust(16, b"\0"))
    wanted = Intent(deployment, NO_CONTRACT, Party("a@A"), encode_genesis(genesis))
    world.submit(NAMES[0], NO_CONTRACT, IntentSubmitted("deploy", wanted))
    assert world.run_until(10_000, lambda: deployment in world.receipts)
    contract = world.receipts[deployment][0].contract
    assert contract is not None
    intents = [drawn_id(f"{name}-spends", Party(f"a@{name}"), contract) for name in NAMES]
    for name, intent in zip(NAMES, intents, strict=True):
        spend = Intent(intent, contract, Party(f"a@{name}"), b"spend", nonce=nonce_of(f"{name}-spends"))
        world.submit(name, contract, IntentSubmitted(name, spend))
    assert world.run_until(30_000, lambda: all(intent in world.receipts for intent in intents))
    assert {world.receipts[intent][0].outcome for intent in intents} == {Outcome.CONFIRMED}
    assert world.judge.found == []


class Town:
    """Nodes that learn of contracts from one another, and one contract, whose states all of its members may see."""

    def __init__(self, mode: Mode, members: tuple[NodeName, ...] = NAMES) -> None:
        self.world = World(NAMES, (), Config(), has_codec=True, has_factory=True)
        committee = members if mode is Mode.RING else members[:1]
        self.genesis = Genesis("any", b"", (), committee, members, 1, mode, Rotation.STICKY, 100, 16, 1337, bytes(32))

    def deploy(self) -> ContractAddress:
        deployment = IntentId(b"deploy".ljust(16, b"\0"))
        wanted = Intent(deployment, NO_CONTRACT, Party("a@A"), encode_genesis(self.genesis))
        self.world.submit(NAMES[0], NO_CONTRACT, IntentSubmitted("deploy", wanted))
        assert self.world.run_until(self.world.now_ms + 30_000, lambda: deployment in self.world.receipts)
        contract = self.world.receipts[deployment][0].contract
        assert contract is not None
        return contract

    def spend(self, contract: ContractAddress, number: int) -> None:
        name = f"A-{number}"
        intent = drawn_id(name, Party("a@A"), contract)
        spend = Intent(intent, contract, Party("a@A"), b"spend", nonce=nonce_of(name))
        self.world.submit(NAMES[0], contract, IntentSubmitted(f"{number}", spend))
        assert self.world.run_until(self.world.now_ms + 30_000, lambda: intent in self.world.receipts)

    def lose_disk(self, name: NodeName) -> None:
        """It begins with nothing, in a life that is later than all before; its keys are elsewhere."""
        self.world.crash(name)
        self.world.nodes[name].disk = Disk(records=[(OWN, NodeStarted(LATER_LIFE))])
        self.world.contracts_of[name] = ()

    def has(self, name: NodeName, contract: ContractAddress) -> bool:
        return any(each.address == contract for each in self.world.contracts_of[name])

    def held(self, name: NodeName) -> set[StateId]:
        return self.world.nodes[name].disk.contents.held


def test_node_that_lost_its_disk_gets_its_contracts_and_states_back() -> None:
    town = Town(Mode.RING)
    for name in NAMES:
        town.world.start(name)
    contract = town.deploy()
    for number in range(3):
        town.spend(contract, number)
    town.world.run_until(town.world.now_ms + 20_000)
    before = set(town.held(NAMES[3]))
    assert before
    town.lose_disk(NAMES[3])
    # Nothing happens in the contract any more.
    town.world.run_until(town.world.now_ms + 60_000)
    town.world.start(NAMES[3])
    assert town.world.run_until(town.world.now_ms + 30_000, lambda: town.held(NAMES[3]) == before)
    assert town.has(NAMES[3], contract)


def test_node_that_was_away_when_a_token_was_deployed_learns_of_it_when_it_is_back() -> None:
    town = Town(Mode.STATIC, NAMES[:2])
    for name in NAMES[:3]:
        town.world.start(name)
    contract = town.deploy()
    assert not town.has(NAMES[3], contract)
    town.world.wires.lose_all(NAMES[3])
    town.world.start(NAMES[3])
    assert town.world.run_until(town.world.now_ms + 10_000, lambda: town.has(NAMES[3], contract))
    assert town.world.judge.found == []


def test_node_that_a_ring_does_not_name_never_learns_of_it() -> None:
    town = Town(Mode.RING, NAMES[:2])
    for name in NAMES[:3]:
        town.world.start(name)
    contract = town.deploy()
    town.world.wires.lose_all(NAMES[3])
    town.world.start(NAMES[3])
    for name in NAMES[:2]:
        core = town.world.nodes[NAMES[3]].core
        assert core is not None
        core.acquaintance.note_unknown(name, contract)
        town.world.tell(town.world.nodes[NAMES[3]], Tick())
        town.world.run_until(town.world.now_ms + 10_000)
    assert not any(town.has(name, contract) for name in NAMES[2:])
