"""A node that has lost its database, or got a contract late, ends up with all that it may have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.types import ContractAddress, NodeName, Outcome, StateId
from tests.ledger.chains import in_loop
from tests.runtime.kit import ALICE, Network, network

pytestmark = pytest.mark.slow

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
MEMBERS = tuple(f"{ALICE}@{name}" for name in ALL)


async def held(nodes: Network, name: NodeName, contract: ContractAddress) -> set[StateId]:
    return {state.id for state in await nodes.processes[name].running.adapters.store.unspent_states(contract)}


async def until_equal(nodes: Network, contract: ContractAddress, one: NodeName, other: NodeName) -> set[StateId]:
    """Both hold the same; the test's own time limit bounds it."""
    while True:
        ours, theirs = await held(nodes, one, contract), await held(nodes, other, contract)
        if ours and ours == theirs:
            return ours
        await asyncio.sleep(0.05)


@in_loop
async def test_node_that_lost_its_database_gets_its_states_back_and_takes_part_again(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS, threshold=2)
        for name in ("first", "second", "third"):
            receipt = await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend", {"names": [name]}))
            assert receipt.outcome is Outcome.CONFIRMED
        before = await until_equal(nodes, contract, NODE1, NODE3)
        await nodes.stop(NODE3)
        for file in (tmp_path / NODE3).glob("rota.db*"):
            file.unlink()
        await nodes.start(NODE3)
        await nodes.take_in(NODE3)
        assert await until_equal(nodes, contract, NODE1, NODE3) == before
        receipt = await nodes.final(NODE3, await nodes.submit(NODE3, contract, "spend", {"names": ["first"]}))
        assert receipt.outcome is Outcome.CONFIRMED
        await until_equal(nodes, contract, NODE1, NODE3)


@in_loop
async def test_member_that_gets_a_contract_late_has_its_rounds_and_its_states(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create_by_hand(MEMBERS, threshold=2, taken_in_by=(NODE1, NODE2))
        receipt = await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
        await nodes.take_in(NODE3)
        await until_equal(nodes, contract, NODE1, NODE3)
        receipt = await nodes.final(NODE3, await nodes.submit(NODE3, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
