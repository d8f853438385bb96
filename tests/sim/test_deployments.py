"""Deployments in the simulated world: whatever is lost, killed or undone, each ends once, and all nodes have it."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from random import Random

import pytest

from rota.config import Config
from rota.core.effects import NodeStarted
from rota.core.events import CancelRequested, ForContract, IntentSubmitted, Tick
from rota.core.events.chain import FactoryDeployment
from rota.core.node import OWN
from rota.genesis import Genesis, encode_genesis, genesis_hash
from rota.sim.disk import Disk, Fate
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.facts import Request
from rota.sim.faults import BadWeather
from rota.sim.world import World
from rota.types import NO_CONTRACT, ContractAddress, Intent, IntentId, Mode, NodeName, Outcome, Party, Rotation, StateId

NAMES = tuple(map(NodeName, "ABCD"))
DEPLOYMENTS = 6
TROUBLE_MS = 30_000
REST_MS = 180_000
CATCHING_UP_MS = 10_000
CONFIRMATIONS = 2
LATER_LIFE = 1_000_000


class Story:
    """One seed: some deployments, trouble for a while, then rest."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.weather = BadWeather(self.random, NAMES, has_echo=False)
        self.world = World(
            NAMES, (), Config(confirmations=CONFIRMATIONS), weather=self.weather, has_codec=True, has_factory=True
        )
        self.geneses: dict[IntentId, Genesis] = {}
        self.taken: set[ContractAddress] = set()
        for name in NAMES:
            self.world.start(name)

    def play(self) -> None:
        for number in range(DEPLOYMENTS):
            self.world.at(self.random.randint(0, TROUBLE_MS // 2), partial(self.deploy, number))
        for _ in range(12):
            self.world.at(self.random.randint(0, TROUBLE_MS), self.trouble)
        self.world.at(TROUBLE_MS, self.mend)
        self.world.run_until(TROUBLE_MS + REST_MS, self.is_over)
        # Who was away takes in what it finds on the chain when it is back.
        self.world.run_until(self.world.now_ms + CATCHING_UP_MS)
        # Who was not invited, or lost an invitation, learns of a token when it finds its peers again.
        for one, other in combinations(NAMES, 2):
            self.world.wires.reconnect(one, other)
        self.world.run_until(self.world.now_ms + CATCHING_UP_MS)

    def deploy(self, number: int) -> None:
        name = self.random.choice(NAMES)
        nodes = tuple(self.random.sample(NAMES, self.random.randint(1, len(NAMES))))
        mode = self.random.choice((Mode.RING, Mode.STATIC))
        committee = nodes if mode is Mode.RING else nodes[:1]
        threshold = self.random.randint(1, len(nodes))
        salt = bytes([number]) * 32
        genesis = Genesis("any", b"", (), committee, nodes, threshold, mode, Rotation.STICKY, 100, 16, 1337, salt)
        intent = IntentId(f"deploy-{number}".encode().ljust(16, b"\0"))
        wanted = Intent(intent, NO_CONTRACT, Party(f"a@{name}"), encode_genesis(genesis))
        if self.world.nodes[name].core is not None:
            self.geneses[intent] = genesis
            self.world.submitted[intent] = name
            self.world.witness.requests[f"{number}"] = Request.SUBMIT
            self.world.tell(self.world.nodes[name], ForContract(NO_CONTRACT, IntentSubmitted(f"{number}", wanted)))
            turn = self.random.random()
            if turn < 0.2:
                self.later(partial(self.cancel, intent))
            elif turn < 0.4:
                self.later(partial(self.take_id, intent))

    def cancel(self, intent: IntentId) -> None:
        """Its user gives it up, if that is still possible."""
        self.world.submit(self.world.submitted[intent], NO_CONTRACT, CancelRequested(f"cancel {intent!r}", intent))

    def take_id(self, intent: IntentId) -> None:
        """Somebody who knows id and genesis deploys a contract of his own under it, if he is the first."""
        genesis = self.geneses[intent]
        contract = genesis.contract(ContractAddress("0x" + intent.hex() + "00000000"))
        signers = (contract.address,) * len(genesis.endorsers)
        hashed = genesis_hash(encode_genesis(genesis))
        self.world.chain.deploy(
            FactoryDeployment(intent, contract.address, hashed, signers, genesis.threshold), contract
        )
        self.taken.add(contract.address)

    def trouble(self) -> None:
        """One of the things that happen; most of them end by themselves."""
        node = self.world.nodes[self.random.choice(NAMES)]
        match self.random.randrange(6):
            case 0 if node.core is not None:
                self.world.crash_after(node.name, self.random.randrange(20))
                self.later(partial(self.start, node.name))
            case 1:
                self.weather.loss, self.weather.duplication, self.weather.jitter_ms = 0.3, 0.2, 500
                self.later(self.weather.calm)
            case 2:
                self.weather.dropped = self.weather.unanswered = 0.5
                self.later(self.weather.calm)
            case 3:
                node.disk.fate = self.random.choice((Fate.FAILS, Fate.LIES))
                self.later(partial(setattr, node.disk, "fate", Fate.WORKS))
            case 4:
                depth = min(self.random.randint(1, CONFIRMATIONS), self.world.chain.depth_left(CONFIRMATIONS))
                if depth > 0:
                    self.world.chain.reorganise(depth, self.random.random() < 0.5)
            case _:
                self.world.set_ledger(node.name, has_ledger=False)
                self.later(partial(self.world.set_ledger, node.name, has_ledger=True))

    def later(self, mend: object) -> None:
        assert callable(mend)
        self.world.at(self.world.now_ms + self.random.randint(100, 8_000), mend)

    def start(self, name: NodeName) -> None:
        node = self.world.nodes[name]
        node.effects_to_live = None
        if node.core is None:
            self.world.start(name)

    def mend(self) -> None:
        """Everything works from now on, and the chain goes on, so that blocks become final."""
        self.weather.calm()
        for name, node in self.world.nodes.items():
            node.disk.fate = Fate.WORKS
            self.world.set_ledger(name, has_ledger=True)
            self.start(name)
        self.mine_on()

    def mine_on(self) -> None:
        self.world.chain.mine()
        self.world.at(self.world.now_ms + 1_000, self.mine_on)

    def promised(self) -> list[IntentId]:
        """The deployments whose users have their ids."""
        replies = [reply for all_ in self.world.replies.values() for reply in all_ if not reply.error]
        return [intent for intent in self.geneses if any(reply.intent == intent for reply in replies)]

    def is_over(self) -> bool:
        return self.world.now_ms > TROUBLE_MS and not any(
            node.core is None or node.core.deployments.own for node in self.world.nodes.values()
        )

    def judge(self) -> None:
        world = self.world
        assert self.is_over(), {
            name: list(node.core.deployments.own) for name, node in world.nodes.items() if node.core
        }
        for intent in self.promised():
            outcomes = set(self.outcomes_of(intent))
            assert len(outcomes) == 1, f"{intent!r} ended as {outcomes}"
            on_chain = world.ledger.deployed.get(intent)
            is_ours = on_chain is not None and on_chain.contract not in self.taken
            assert is_ours == (outcomes == {Outcome.CONFIRMED})
            if on_chain is not None and is_ours:
                deployer = world.submitted[intent]
                genesis = self.geneses[intent]
                everybody = NAMES if genesis.mode is Mode.STATIC else genesis.nodes
                for name in dict.fromkeys((deployer, *everybody)):
                    known = [contract.address for contract in world.contracts_of[name]]
                    assert on_chain.contract in known, f"{name} has not got {intent!r}"
        for contracts in world.contracts_of.values():
            assert not any(contract.address in self.taken for contract in contracts)
        world.judge.conclude()
        assert world.judge.found == []

    def outcomes_of(self, intent: IntentId) -> list[Outcome]:
        """As it was reported, and as the deployer's disk has it."""
        told = [receipt.outcome for receipt in self.world.receipts.get(intent, ())]
        stored = self.world.nodes[self.world.submitted[intent]].disk.intents[intent]
        assert stored is not None
        return [*told, stored]


@pytest.mark.parametrize("seed", range(40))
def test_deployments_end_once_and_all_have_what_is_there(seed: int) -> None:
    story = Story(seed)
    story.play()
    story.judge()


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
