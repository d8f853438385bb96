"""Contracts that users deploy come to all their nodes, once, whoever is away, killed or in the way."""

from __future__ import annotations

from pathlib import Path

from rota.types import NodeName, Outcome
from tests.ledger.chains import in_loop
from tests.runtime.kit import ALICE, network

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
MEMBERS = tuple(f"{ALICE}@{name}" for name in ALL)


@in_loop
async def test_contract_that_a_user_deploys_is_at_all_its_nodes_when_there_is_a_receipt(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        deployment = await nodes.deploy(NODE1, "synthetic", {"members": list(MEMBERS), "threshold": 2})
        receipt = await nodes.final(NODE1, deployment)
        assert receipt.outcome is Outcome.CONFIRMED
        assert receipt.contract is not None
        for name in ALL:
            intent = await nodes.submit(name, receipt.contract, "spend")
            assert (await nodes.final(name, intent)).outcome is Outcome.CONFIRMED
