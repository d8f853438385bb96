"""A real node whose chain loses a block that was final: it resends, recovers, and tells whoever had the receipt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from rota.api.facade import ReceiptView
from rota.config import Config
from rota.runtime.configuration import NodeConfiguration
from rota.runtime.node import RunningNode
from rota.runtime.process import CannotStart
from rota.types import FINALITY_BROKEN, IntentId, NodeName, Outcome
from tests.ledger.chains import in_loop
from tests.runtime.kit import ALICE, Network, network

NODE = NodeName("node1")
MEMBERS = (f"{ALICE}@{NODE}",)


async def confirmed(nodes: Network, count: int = 1) -> list[IntentId]:
    """Transactions that were reported as confirmed, each in a block of its own."""
    contract = await nodes.create(MEMBERS, threshold=1)
    intents = []
    for _ in range(count):
        intents.append(await nodes.submit(NODE, contract, "spend"))
        assert (await nodes.final(NODE, intents[-1])).outcome is Outcome.CONFIRMED
    return intents


async def shown(nodes: Network, intent: IntentId, success: bool) -> ReceiptView:
    """The receipt, when it says that."""
    while True:
        view = await nodes.processes[NODE].facade.receipt(intent)
        if view is not None and view.success is success:
            return view
        await asyncio.sleep(0.01)


async def lose(nodes: Network, depth: int) -> None:
    """The latest blocks go with their transactions, others come, and nothing more is mined."""
    await nodes.client.call("evm_setAutomine", False)
    await nodes.client.call("anvil_reorg", hex(depth), [])


@in_loop
async def test_lost_block_is_resent_recovered_and_told_at_no_confirmations(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        *_, first, last = await confirmed(nodes, 3)
        facade = nodes.processes[NODE].facade
        told: list[tuple[IntentId, bool, str]] = []

        async def listen() -> None:
            async for view in facade.receipts(0):
                told.append((view.id, view.success, view.failure_code))

        listening = asyncio.create_task(listen())
        while (last, True, "") not in told:
            await asyncio.sleep(0.01)
        nonce = await nodes.client.call("eth_getTransactionCount", nodes.keys[NODE].submitter, "latest")
        await lose(nodes, 2)
        for intent in (first, last):
            broken = await shown(nodes, intent, success=False)
            assert broken.failure_code == FINALITY_BROKEN
            assert broken.failure_message.startswith(FINALITY_BROKEN)
        await nodes.until(lambda: any("no longer hold" in each for each in facade.readiness()))
        figures = facade.measurements()
        assert (figures.finality_broken_total, figures.receipts_undone) == (1, 2)
        while (last, False, FINALITY_BROKEN) not in told:
            await asyncio.sleep(0.01)

        await nodes.client.call("evm_setAutomine", True)
        await nodes.client.call("evm_mine")
        for intent in (first, last):
            assert (await shown(nodes, intent, success=True)).failure_code == ""
        while told[-2:] != [(first, True, ""), (last, True, "")]:
            await asyncio.sleep(0.01)
        await nodes.until(lambda: not facade.readiness())
        assert await nodes.client.call("eth_getTransactionCount", nodes.keys[NODE].submitter, "latest") == nonce
        listening.cancel()


@in_loop
async def test_node_goes_on_after_a_lost_block(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        contract = await nodes.create(MEMBERS, threshold=1)
        before = await nodes.submit(NODE, contract, "spend")
        await nodes.final(NODE, before)
        await lose(nodes, 1)
        await nodes.client.call("evm_setAutomine", True)
        await nodes.client.call("evm_mine")
        await shown(nodes, before, success=True)
        await nodes.until(lambda: not nodes.processes[NODE].facade.readiness())
        after = await nodes.submit(NODE, contract, "spend")
        assert (await nodes.final(NODE, after)).outcome is Outcome.CONFIRMED


@in_loop
async def test_operator_acknowledges_what_does_not_return(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        (intent,) = await confirmed(nodes)
        await lose(nodes, 1)
        await shown(nodes, intent, success=False)
        facade = nodes.processes[NODE].facade
        await nodes.until(facade.readiness)
        assert await facade.acknowledge_finality() == 1
        assert facade.readiness() == ()
        assert (await shown(nodes, intent, success=False)).failure_code == FINALITY_BROKEN


@in_loop
async def test_node_that_stopped_after_a_lost_block_resends_when_it_starts(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        (intent,) = await confirmed(nodes)
        await lose(nodes, 1)
        await shown(nodes, intent, success=False)
        await nodes.kill(NODE)
        await nodes.client.call("anvil_dropAllTransactions")
        await nodes.client.call("evm_setAutomine", True)
        await nodes.start(NODE)
        assert (await shown(nodes, intent, success=True)).failure_code == ""


@in_loop
async def test_zero_confirmations_are_refused_on_a_chain_that_loses_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.ledger.finality.DEVELOPMENT", ())
    async with network(tmp_path, NODE) as nodes:
        with pytest.raises(CannotStart, match=r"ledger\.confirmations: 0 is refused on proof of stake"):
            await nodes.start(NODE)
        nodes.lives.clear()
        set_to = nodes.configuration

        def accepting(name: NodeName) -> NodeConfiguration:
            given = set_to(name)
            return replace(given, ledger=replace(given.ledger, accept_lost_blocks=True))

        monkeypatch.setattr(nodes, "configuration", accepting)
        await nodes.start(NODE)
        assert nodes.processes[NODE].running.config.confirmations == 0


@in_loop
async def test_confirmations_that_are_left_out_follow_from_the_chain_and_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(tmp_path, NODE, config=Config(confirmations=7)) as nodes:
        set_to = nodes.configuration

        def left_out(name: NodeName) -> NodeConfiguration:
            given = set_to(name)
            return replace(given, ledger=replace(given.ledger, confirmations=None))

        monkeypatch.setattr(nodes, "configuration", left_out)
        await nodes.start(NODE)
        running: RunningNode = nodes.processes[NODE].running
        assert running.config.confirmations == 0
        assert await running.adapters.store.confirmations() == 0
