"""An operator's consent on real nodes: what others see of it, what a restart keeps, and what the chain cannot force."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.directory.consent import ConsentMode
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome
from rota.rpc.errors import Rejected
from tests.ledger.chains import in_loop
from tests.service.kit import Network, network

pytestmark = pytest.mark.slow

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
MEMBERS = ("alice@node1", "alice@node2")
ARGUMENTS = {"members": list(MEMBERS), "threshold": 2, "mode": "ring"}


def known_at(net: Network, node: NodeName) -> tuple[ContractAddress, ...]:
    return net.processes[node].running.contracts.addresses()


async def proposed(net: Network) -> IntentId:
    """Node 1 wants a contract in which node 2 endorses, whose operator is asked."""
    net.consent[NODE2] = ConsentMode.ASK
    await net.start(*net.names)
    await net.connected()
    deployment = await net.deploy(NODE1, "synthetic", ARGUMENTS)
    await net.until(lambda: net.processes[NODE2].facade.consents.open_count)
    return deployment


@in_loop
async def test_contract_waits_for_the_operator_whom_a_restart_does_not_forget(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as net:
        deployment = await proposed(net)
        (question,) = await net.processes[NODE2].facade.consents.list()
        assert (question.proposer, question.deployment, question.domain) == (NODE1, deployment, "synthetic")
        assert (question.is_endorser, question.is_coordinator, question.members) == (True, True, MEMBERS)
        assert (question.endorsers, question.threshold, question.contract) == ((NODE1, NODE2), 2, None)
        assert question.expires_at_s == question.asked_at_s + net.config.proposal_ttl_s
        (warning,) = net.processes[NODE2].facade.warnings()
        assert warning == "1 contract waits for consent to endorse or coordinate: see `rota consent list`"
        assert net.processes[NODE2].facade.measurements().consents_pending == 1

        # The proposer learns it by a message.
        while (explained := await net.processes[NODE1].facade.explain(deployment)) is None or not explained.operators:
            await asyncio.sleep(0.005)
        assert explained.operators == ((NODE2, question.asked_at_s * 1_000),)
        assert explained.blocked_by == (NODE2,)
        assert explained.detail.startswith("the operator of node2 has not answered since 20")

        await net.stop(NODE2)
        await net.start(NODE2)
        facade = net.processes[NODE2].facade
        assert await facade.consents.list() == (question,)
        await facade.consents.accept(NODE1, deployment)
        receipt = await net.final(NODE1, deployment)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        await net.until(lambda: known_at(net, NODE2) == (receipt.contract,))
        assert (await facade.consents.list(), facade.warnings()) == ((), ())
        with pytest.raises(Rejected, match="is not asked about it"):
            await facade.consents.refuse(NODE1, deployment, "too late")


@in_loop
async def test_refusal_ends_the_deployment_with_its_reason(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as net:
        deployment = await proposed(net)
        await net.processes[NODE2].facade.consents.refuse(NODE1, deployment, "we do not know you")
        receipt = await net.final(NODE1, deployment)
        assert receipt.outcome is Outcome.REVERTED
        assert receipt.reason == "node2 does not take the contract: its operator refuses: we do not know you"
        assert known_at(net, NODE2) == ()


@in_loop
async def test_contract_on_the_chain_makes_no_node_take_part_without_consent(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as net:
        net.consent[NODE2] = ConsentMode.ASK
        await net.start(*net.names)
        await net.connected()
        # Whoever knows an address of node 2 can name it; its peer takes the contract for one of both.
        contract = await net.create_by_hand(MEMBERS, 2, (NODE1,))
        intent = await net.submit(NODE1, contract, "spend")
        facade = net.processes[NODE2].facade
        await net.until(lambda: facade.consents.open_count)
        (question,) = await facade.consents.list()
        assert (question.contract, question.proposer) == (contract, NODE1)
        assert (known_at(net, NODE2), tuple(net.processes[NODE2].running.engine.core.sequencers.loaded)) == ((), ())
        await facade.consents.accept(NODE1, question.deployment)
        await net.until(lambda: known_at(net, NODE2) == (contract,))
        receipt = await net.final(NODE1, intent)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        await net.until(lambda: not net.processes[NODE2].facade.consents.open_count)
