"""A real node whose chain loses a block that was final: it resends, recovers, and tells whoever had the receipt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from rota.ledger.embedded import Settings
from rota.model.config import Config
from rota.model.types import FINALITY_BROKEN, IntentId, NodeName, Outcome
from rota.server.configuration import NodeConfiguration
from rota.server.process import CannotStart
from rota.service.interface import FeedUpdate, ReceiptView, TransactionChange
from rota.service.run import RunningNode
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, CHAIN_ID, Network, network

NODE = NodeName("node1")
FREE = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
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


async def rpc(nodes: Network, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
    """A call over HTTP."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    url = nodes.processes[NODE].entrance.http_url
    async with aiohttp.ClientSession() as session, session.post(url, json=request) as answer:
        return await answer.json()


def a_command(contract: str, submission_id: str) -> dict[str, object]:
    transaction = {"type": "private", "from": ALICE, "to": contract, "function": "spend", "data": {}}
    return {
        "applicationId": "shop",
        "actAs": [ALICE],
        "commandId": "pay 1",
        "submissionId": submission_id,
        "transaction": transaction,
    }


async def completions(nodes: Network, count: int) -> list[dict[str, Any]]:
    """The completions of the shop, when there are so many."""
    while True:
        answer = await rpc(nodes, "cmd_completions", [ALICE], 0, "shop", 10, 100)
        found: list[dict[str, Any]] = answer["result"]["completions"]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.01)


@in_loop
async def test_completion_of_a_lost_block_is_withdrawn_and_followed_by_a_corrected_one(tmp_path: Path) -> None:
    """Over HTTP alone. While its outcome is open, the same command is in flight; then it is a duplicate."""
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        contract = await nodes.create(MEMBERS, threshold=1)
        first = (await rpc(nodes, "cmd_submitAndWait", a_command(contract, "one")))["result"]
        watching = nodes.processes[NODE].facade.watch(10)
        await anext(watching)
        await lose(nodes, 1)
        paid, withdrawn = await completions(nodes, 2)
        assert "failure" not in paid
        assert (withdrawn["correctsOffset"], withdrawn["submissionId"]) == (paid["offset"], "one")
        assert withdrawn["failure"]["errorId"] == FINALITY_BROKEN
        assert withdrawn["failure"]["metadata"] == {"definite_answer": "false"}
        assert withdrawn["transactionId"] == paid["transactionId"] == first["transactionId"]
        told = [change async for change in _failed(watching)]
        assert [(str(UUID(bytes=each.id)), each.detail) for each in told] == [(first["transactionId"], FINALITY_BROKEN)]
        error = (await rpc(nodes, "cmd_submit", a_command(contract, "two")))["error"]
        assert error["data"]["errorId"] == "SUBMISSION_ALREADY_IN_FLIGHT"

        # The next life goes on with it.
        await nodes.kill(NODE)
        await nodes.client.call("evm_setAutomine", True)
        await nodes.client.call("evm_mine")
        await nodes.start(NODE)
        *_, again = await completions(nodes, 3)
        assert "failure" not in again
        assert (again["submissionId"], again["transactionId"]) == ("one", first["transactionId"])
        error = (await rpc(nodes, "cmd_submit", a_command(contract, "four")))["error"]
        assert error["data"]["errorId"] == "DUPLICATE_COMMAND"
        assert error["data"]["metadata"]["completion_offset"] == str(again["offset"])


async def _failed(watching: AsyncIterator[FeedUpdate]) -> AsyncIterator[TransactionChange]:
    """The transactions of the first update that has one that failed."""
    async for update in watching:
        if failed := [each for each in update.transactions if each.has_failed]:
            for each in failed:
                yield each
            return


@in_loop
async def test_public_transaction_of_a_lost_block_is_sent_again_and_happens_once(tmp_path: Path) -> None:
    async with network(tmp_path, NODE, chain_settings=FREE) as nodes:
        await nodes.start(NODE)
        await confirmed(nodes)
        abi = [{"type": "constructor", "inputs": []}]
        public = {"type": "public", "from": ALICE, "abi": abi, "bytecode": "0x6001600c60003960016000f300"}
        sent = (await rpc(nodes, "ptx_sendTransaction", public))["result"]

        async def receipt(success: bool) -> dict[str, Any]:
            while True:
                found: dict[str, Any] | None = (await rpc(nodes, "ptx_getTransactionReceipt", sent))["result"]
                if found is not None and found.get("success", False) is success:
                    return found
                await asyncio.sleep(0.01)

        first = await receipt(success=True)
        await lose(nodes, 1)
        assert (await receipt(success=False))["failureCode"] == FINALITY_BROKEN
        await nodes.client.call("evm_setAutomine", True)
        await nodes.client.call("evm_mine")
        again = await receipt(success=True)
        assert (again["transactionHash"], again["contractAddress"]) == (
            first["transactionHash"],
            first["contractAddress"],
        )
        assert again["sequence"] > first["sequence"]
        facade = nodes.processes[NODE].facade
        await nodes.until(lambda: not facade.readiness())


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
async def test_chain_that_loses_more_blocks_than_the_index_keeps_is_reported_and_not_followed(tmp_path: Path) -> None:
    async with network(tmp_path, NODE, config=Config(index_window_max=2)) as nodes:
        await nodes.start(NODE)
        *_, last = await confirmed(nodes, 3)
        facade = nodes.processes[NODE].facade
        receipt = await shown(nodes, last, success=True)
        await lose(nodes, 4)
        await nodes.until(lambda: any("docs/ledger.md#a-fork-below" in each for each in facade.readiness()))
        assert await facade.receipt(last) == receipt


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
        known = await running.adapters.store.chain()
        assert (known.confirmations, len(known.genesis or b"")) == (0, 32)
