"""The factory of the simulated world, and what its nodes make of contracts that are proposed to them.

Every domain takes every contract, and a node's address in one is drawn from its name and the deployment, as a key would
be. A call of the factory may be late or lost on its way to the chain, like every transaction; what it does there is
the ledger's to say.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from rota.core.effects import CallFactory, JudgeProposal
from rota.core.events.chain import EndorsedDeployment
from rota.core.events.deployment import FactoryCalled, ProposalJudged
from rota.genesis import decode_genesis, genesis_hash
from rota.messages import Verdict
from rota.sim.facts import FactoryOrdered
from rota.types import ContractAddress, IntentId, NodeName

if TYPE_CHECKING:
    from rota.sim.sim_node import SimNode
    from rota.sim.world import World

ADDRESS_BYTES = 20


class Factory:
    """One for the whole world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.geneses: dict[bytes, bytes] = {}

    def judge(self, node: SimNode, order: JudgeProposal) -> None:
        """A node's own keys and domain answer at once."""
        self.geneses[genesis_hash(order.genesis)] = order.genesis
        is_endorser = node.name in decode_genesis(order.genesis).endorsers
        endorser = signer_of(node.name, order.deployment) if is_endorser else None
        judged = ProposalJudged(order.peer, order.request_id, order.deployment, Verdict.ACCEPTED, endorser)
        self.world.tell(node, judged)

    def call(self, node: SimNode, order: CallFactory) -> None:
        """A call leaves a node, and the node hears that it did, or why it could not."""
        self.world.judge.tell(FactoryOrdered(node.name, order.deployment, order.signers))
        if not node.has_ledger:
            self.world.tell(node, FactoryCalled(order.deployment, "there is no ledger"))
            return
        passage = self.world.wires.weather.passage()
        if passage.delay_ms is not None:
            self.world.at(self.world.now_ms + passage.delay_ms, partial(self._arrive, order))
        if passage.is_answered:
            self.world.tell(node, FactoryCalled(order.deployment))

    def _arrive(self, order: CallFactory) -> None:
        digest = hashlib.sha256(order.deployment + order.genesis + "".join(order.signers).encode()).digest()
        address = ContractAddress("0x" + digest[:ADDRESS_BYTES].hex())
        made = EndorsedDeployment(order.deployment, address, order.genesis, order.signers, order.threshold)
        contract = decode_genesis(self.geneses[order.genesis]).contract(address)
        self.world.add_contract(contract)
        self.world.chain.deploy(made, contract)


def signer_of(node: NodeName, deployment: IntentId) -> ContractAddress:
    """With which address a node endorses in a contract."""
    digest = hashlib.sha256(node.encode() + deployment).digest()
    return ContractAddress("0x" + digest[:ADDRESS_BYTES].hex())
