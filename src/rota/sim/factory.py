"""The factory of the simulated world, and its nodes' decisions about proposed contracts.

Every domain accepts every contract, except those whose configuration names a node, or the factory, that refuses them. A
node's address in a contract is derived from its name and the deployment, in place of a key. A call of the factory may
be late or lost on its way to the chain, like every transaction; the ledger decides its effect.

In a world with `has_factory` nodes also learn of contracts from one another (decision 32). A node requests the missing
states of such a contract a few times, as `service.contracts.arrears` does.
"""

from __future__ import annotations

import hashlib
from functools import partial

from rota.directory.acquaintance_events import AcquisitionEnded, ContractsListed, ContractsSifted, GenesisFound
from rota.directory.deployment import known_from
from rota.directory.deployment_events import FactoryCalled, FactoryRefused, ProposalJudged
from rota.directory.effects import (
    AcquireContract,
    CallFactory,
    ContractTaken,
    FindGenesis,
    JudgeProposal,
    ListContracts,
    SiftContracts,
)
from rota.model.blocks import FactoryDeployment, LedgerStatus
from rota.model.genesis import decode_genesis, genesis_hash
from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, KnownContract, Leaf, NodeName
from rota.node.events import StatesWanted
from rota.sim.chain import Chain
from rota.sim.deployment_plan import REFUSED_BY, REFUSED_BY_FACTORY
from rota.sim.facts import FactoryOrdered, Recorded
from rota.sim.recorder import OwningWorld
from rota.sim.sim_node import SimNode
from rota.wire.messages import CONTRACTS_LISTED_MAX, Verdict

ADDRESS_BYTES = 20
FACTORY = ContractAddress("0x" + "fa" * ADDRESS_BYTES)
STATES_ASKED_MAX = 8
STATES_ASKED_MS = 2_000


class Factory:
    """The factory, with the nodes' answers about contracts; one per world."""

    def __init__(self, world: OwningWorld, chain: Chain) -> None:
        self.world = world
        self.chain = chain
        self.geneses: dict[bytes, bytes] = {}

    def judge(self, node: SimNode, order: JudgeProposal) -> None:
        """Answer a proposal at once, as the node's own keys and domain would."""
        self.geneses[genesis_hash(order.genesis)] = order.genesis
        genesis = decode_genesis(order.genesis)
        endorser = signer_of(node.name, order.deployment) if node.name in genesis.endorsers else None
        verdict, reason = Verdict.ACCEPTED, ""
        if genesis.configuration == REFUSED_BY + node.name.encode():
            verdict, endorser, reason = Verdict.REFUSED, None, "against its rules"
        judged = ProposalJudged(order.peer, order.request_id, order.deployment, verdict, endorser, reason)
        self.world.tell(node, judged)

    def call(self, node: SimNode, order: CallFactory) -> None:
        """Send a call to the chain; the node learns that it was sent, or why not."""
        self.world.judge.tell(FactoryOrdered(node.name, order.deployment, order.signers))
        if not node.has_ledger:
            self.world.tell(node, FactoryCalled(order.deployment, "there is no ledger"))
            return
        if decode_genesis(self.geneses[order.genesis]).configuration == REFUSED_BY_FACTORY:
            self.world.tell(node, FactoryRefused(order.deployment, "against its rules"))
            return
        passage = self.world.weather.passage()
        if passage.delay_ms is not None:
            self.world.at(self.world.now_ms + passage.delay_ms, partial(self._arrive, order))
        if passage.is_answered:
            self.world.tell(node, FactoryCalled(order.deployment))

    # Contracts that nodes learn of from one another.

    def acquaint(self, node: SimNode, order: ListContracts | SiftContracts | FindGenesis | AcquireContract) -> None:
        """Answer requests about a node's own contracts, and about contracts of which a peer informed it."""
        known = {each.contract.address: each for each in node.disk.contracts_taken_in(node.name)}
        match order:
            case ListContracts(peer, request_id, after):
                is_open = (each for each in sorted(known) if decode_genesis(known[each].genesis).is_open_to(peer))
                found = tuple(each for each in is_open if each > after)[:CONTRACTS_LISTED_MAX]
                self.world.tell(node, ContractsListed(peer, request_id, found))
            case SiftContracts(peer, contracts):
                lacking = tuple(each for each in contracts if each not in known)
                self.world.tell(node, ContractsSifted(peer, lacking))
            case FindGenesis(contract, peer, request_id):
                if contract in known:
                    self.world.tell(node, GenesisFound(peer, request_id, known[contract]))
            case AcquireContract(contract, peer):
                verdict = self._acquire(node, order) if contract not in known else Verdict.ACCEPTED
                self.world.tell(node, AcquisitionEnded(contract, peer, verdict, verdict is Verdict.REFUSED))

    def _acquire(self, node: SimNode, order: AcquireContract) -> Verdict:
        """Take a contract if the chain that the node sees has it; `BUSY` without a ledger or with a failing disk."""
        if not node.has_ledger or node.disk.is_failing:
            return Verdict.BUSY
        for block in self.world.ledger.blocks:
            for deployed in block.deployments:
                is_it = (deployed.intent, deployed.contract) == (order.deployment, order.contract)
                if is_it and deployed.genesis == genesis_hash(order.genesis):
                    self._take_in(node, known_from(deployed, order.genesis, block.height))
                    return Verdict.ACCEPTED
        return Verdict.REFUSED

    def _take_in(self, node: SimNode, known: KnownContract) -> None:
        record = ContractTaken(known)
        node.disk.write(NO_CONTRACT, (record,))
        self.world.judge.tell(Recorded(node.name, NO_CONTRACT, record))
        self.world.take_in(node, known.contract)
        self._ask_for_states(node, node.life, known.contract.address, STATES_ASKED_MAX)

    def _ask_for_states(self, node: SimNode, life: int, contract: ContractAddress, times: int) -> None:
        lacking = _leaves_without_states(node, contract) if node.life == life else ()
        if lacking:
            self.world.tell(node, StatesWanted(contract, lacking))
        if times and node.life == life:
            again = partial(self._ask_for_states, node, life, contract, times - 1)
            self.world.at(self.world.now_ms + STATES_ASKED_MS, again)

    def _arrive(self, order: CallFactory) -> None:
        digest = hashlib.sha256(order.deployment + order.genesis + "".join(order.signers).encode()).digest()
        address = ContractAddress("0x" + digest[:ADDRESS_BYTES].hex())
        made = FactoryDeployment(
            order.deployment, address, order.genesis, order.signers, order.threshold, ledger=order.ledger
        )
        contract = decode_genesis(self.geneses[order.genesis]).contract(address)
        self.world.add_contract(contract)
        self.chain.deploy(made, contract)


def _leaves_without_states(node: SimNode, contract: ContractAddress) -> tuple[Leaf, ...]:
    """Leaves that the node's index has as committed, and none of whose states it holds."""
    committed = (
        outcome.leaf
        for block in node.disk.blocks
        for address, outcome in block.outcomes
        if address == contract and outcome.status is LedgerStatus.COMMITTED
    )
    held = {state.leaf for state in node.disk.contents.held}
    return tuple(leaf for leaf in committed if leaf not in held)


def signer_of(node: NodeName, deployment: IntentId) -> ContractAddress:
    """The address with which a node endorses in a contract."""
    digest = hashlib.sha256(node.encode() + deployment).digest()
    return ContractAddress("0x" + digest[:ADDRESS_BYTES].hex())
