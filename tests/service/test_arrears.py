"""A node that has lost its database, or got a contract late, ends up with all that it may have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.model.types import ContractAddress, NodeName, Outcome, StateId
from rota.ports import Unavailable
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, Network, network

pytestmark = pytest.mark.slow

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
MEMBERS = tuple(f"{ALICE}@{name}" for name in ALL)


async def held(nodes: Network, name: NodeName, contract: ContractAddress) -> set[StateId]:
    """What a node holds; nothing between two of its lives, when its store is closed."""
    try:
        page = await nodes.processes[name].running.adapters.store.unspent_states(contract)
    except (Unavailable, RuntimeError, AssertionError):
        return set()
    assert page.last is None
    return {state.id for state in page.states}


async def until_equal(nodes: Network, contract: ContractAddress, one: NodeName, other: NodeName) -> set[StateId]:
    """Both hold the same; the test's own time limit bounds it."""
    while True:
        ours, theirs = await held(nodes, one, contract), await held(nodes, other, contract)
        if ours and ours == theirs:
            return ours
        await asyncio.sleep(0.05)


async def until_held(nodes: Network, name: NodeName, contract: ContractAddress) -> None:
    """A node has the contract and a state of it, in whatever life."""
    while not await held(nodes, name, contract):
        await asyncio.sleep(0.05)


async def lose_database(nodes: Network, name: NodeName) -> None:
    """Stopped, and its database removed; its keys are elsewhere."""
    await nodes.stop(name)
    for file in (nodes.home / name).glob("rota.db*"):
        file.unlink()


@in_loop
async def test_node_that_lost_its_database_gets_its_states_back_and_takes_part_again(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS, threshold=2)
        for name in ("first", "second", "third"):
            receipt = await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend", {"names": [name]}))
            assert receipt.outcome is Outcome.CONFIRMED
        before = await until_equal(nodes, contract, NODE1, NODE3)
        await lose_database(nodes, NODE3)
        # Nothing happens in the contract, and no operator does anything.
        await nodes.start(NODE3)
        assert await until_equal(nodes, contract, NODE1, NODE3) == before
        receipt = await nodes.final(NODE3, await nodes.submit(NODE3, contract, "spend", {"names": ["first"]}))
        assert receipt.outcome is Outcome.CONFIRMED
        await until_equal(nodes, contract, NODE1, NODE3)


@in_loop
async def test_receiver_that_no_genesis_names_finds_the_contract_when_it_connects(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1, NODE2)
        contract = await nodes.create([f"{ALICE}@{NODE1}"], threshold=1, mode="static")
        await nodes.start(NODE3)
        await nodes.until(lambda: contract in nodes.processes[NODE3].running.contracts.addresses())
        paid = {"to": f"{ALICE}@{NODE3}"}
        receipt = await nodes.final(NODE1, await nodes.submit(NODE1, contract, "pay", paid))
        assert receipt.outcome is Outcome.CONFIRMED
        await until_held(nodes, NODE3, contract)
        await lose_database(nodes, NODE3)
        await nodes.start(NODE3)
        await until_held(nodes, NODE3, contract)


@in_loop
async def test_genesis_of_a_ring_is_for_those_that_it_names(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS[:2], threshold=2)
        await nodes.connected()
        core = nodes.processes[NODE3].running.engine.core
        core.acquaintance.note_unknown(NODE1, contract)
        nodes.processes[NODE3].running.engine.outbox.put(core._take_effects())
        before = core.acquaintance.asked_count
        await nodes.until(lambda: not core.acquaintance.asked)
        assert before == 1
        assert nodes.processes[NODE1].running.engine.core.acquaintance.given_count == 0
        assert nodes.processes[NODE3].running.contracts.addresses() == ()


@in_loop
async def test_member_that_was_not_told_of_a_contract_learns_of_it_by_a_heartbeat(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        contract = await nodes.create_by_hand(MEMBERS, threshold=2, taken_in_by=(NODE1, NODE2))
        receipt = await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
        await until_equal(nodes, contract, NODE1, NODE3)
        receipt = await nodes.final(NODE3, await nodes.submit(NODE3, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
