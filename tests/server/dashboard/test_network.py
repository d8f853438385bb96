"""The dashboard of a real network: what stands on the page is what `seq_status` says at the same moment."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client
from rota.model.types import ContractAddress, IntentId, NodeName
from rota.service.interface import ContractStatus
from tests.server.dashboard.browser import LOOK_S, Page, browser, in_browser, needs_chromium
from tests.service.kit import Network, network

pytestmark = [pytest.mark.slow, needs_chromium]

NAMES = ("node1", "node2", "node3")
PIPELINE = """
Object.fromEntries([...document.querySelectorAll('#%s li')]
  .map((item) => [item.dataset.state, Number(item.querySelector('.figure').textContent)])
  .filter(([, count]) => count > 0))
"""
RANKING = "[...document.querySelectorAll('#ranking .chip')].map((each) => each.textContent)"
ACTIVE = "document.querySelector('#ranking li[data-active=true] .chip')?.textContent ?? null"


class Shown:
    """A network, and the page of one of its nodes."""

    def __init__(self, nodes: Network, page: Page, node: NodeName, contract: ContractAddress) -> None:
        self.nodes, self.page, self.node, self.contract = nodes, page, node, contract

    async def status(self) -> ContractStatus:
        """As this node's `seq_status` says it."""
        found = await self.nodes.processes[self.node].facade.status(self.contract)
        assert found is not None
        return found

    async def go(self, address: str) -> None:
        await self.page.evaluate(f"location.hash = {json.dumps(address)}")

    async def agrees(self) -> dict[str, Any]:
        """What the page shows, once it is what the node said both before and after: then it is of the same moment."""
        shown: dict[str, Any] = {}
        after: dict[str, Any] = {}
        for _ in range(400):
            before = wanted(await self.status())
            shown = {
                "sending": await self.page.evaluate(PIPELINE % "sending"),
                "coordinating": await self.page.evaluate(PIPELINE % "coordinating"),
                "ranking": await self.page.evaluate(RANKING),
                "active": await self.page.evaluate(ACTIVE),
            }
            after = wanted(await self.status())
            if before == after == shown:
                return shown
            await asyncio.sleep(LOOK_S)
        raise AssertionError(f"the page shows {shown}, the node says {after}")

    async def waits_as_explained(self, intent: IntentId) -> None:
        """Until the page says of a transaction what `seq_explain` says."""
        waits, explained = "", None
        for _ in range(400):
            explained = await self.nodes.processes[self.node].facade.explain(intent)
            assert explained is not None
            waits = await self.page.text("#waits")
            if explained.waits_for in waits and all(each in waits for each in explained.blocked_by):
                return
            await asyncio.sleep(LOOK_S)
        raise AssertionError(f"the page says {waits}, the node {explained}")


def wanted(status: ContractStatus) -> dict[str, Any]:
    return {
        "sending": {each.state: each.count for each in status.sending},
        "coordinating": {each.state: each.count for each in status.coordinating},
        "ranking": list(status.ranking),
        "active": status.active_coordinator if status.active_coordinator in status.ranking else None,
    }


async def shown(stack: AsyncExitStack, home: Path, threshold: int, at: str = "node1") -> Shown:
    """Three nodes with a contract, and a browser on one of them."""
    nodes = await stack.enter_async_context(network(home / "network", *NAMES))
    await nodes.start(*nodes.names)
    await nodes.connected()
    contract = await nodes.create([f"alice@{name}" for name in NAMES], threshold)
    chromium = await stack.enter_async_context(browser(home / "profile"))
    node = NodeName(at)
    page = await chromium.open(f"{nodes.processes[node].entrance.http_url}/dashboard")
    await page.until("document.getElementById('live').dataset.state === 'live'")
    return Shown(nodes, page, node, contract)


def uuid_of(intent: IntentId) -> str:
    text = intent.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@in_browser
async def test_pipeline_ranking_and_coordinator_are_those_of_seq_status(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        look = await shown(stack, tmp_path, threshold=3)
        for number in range(3):
            receipt = await look.nodes.final(look.node, await look.nodes.submit(look.node, look.contract, "mint"))
            assert not receipt.reason, number
        # All must endorse, and one is gone: what is asked for now stays where it is.
        leader = (await look.status()).active_coordinator
        await look.nodes.kill(next(NodeName(each) for each in NAMES if each not in (leader, look.node)))
        for _ in range(4):
            await look.nodes.submit(look.node, look.contract, "mint")
        await look.go(f"#/contract/{look.contract}")
        await look.page.until("document.querySelectorAll('#ranking li').length === 3")
        found = await look.agrees()
        assert sum(found["sending"].values()) == 4
        await look.go("#/network")
        await look.page.until("document.querySelector('#nodes [data-there=false]')")
        assert "not connected" in await look.page.text("#problems")
        await look.page.until("document.getElementById('contract-count').textContent === '1'")
        assert look.page.errors == []


@in_browser
async def test_a_transaction_says_what_it_waits_for_and_who_is_in_the_way_then_how_it_ended(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        look = await shown(stack, tmp_path, threshold=3)
        await look.nodes.final(look.node, await look.nodes.submit(look.node, look.contract, "mint"))
        leader = (await look.status()).active_coordinator
        absent = next(NodeName(each) for each in NAMES if each not in (leader, look.node))
        await look.nodes.stop(absent)
        intent = await look.nodes.submit(look.node, look.contract, "mint")
        await look.go(f"#/transaction/{uuid_of(intent)}")
        facade = look.nodes.processes[look.node].facade
        await look.page.until("document.querySelector('#waits')?.textContent.startsWith('Waits for')")
        await look.waits_as_explained(intent)
        await look.nodes.start(absent)
        receipt = await look.nodes.final(look.node, intent)
        assert not receipt.reason
        await look.page.until("document.querySelector('#standing .state-word').textContent === 'confirmed'")
        view = await facade.receipt(intent)
        assert view is not None
        # The page asks for the receipt again until it is there: the state may have come first.
        block = f"Block{view.block_number}"
        await look.page.until(f"document.querySelector('#receipt').textContent.replace(',', '').includes('{block}')")
        steps = await look.page.evaluate("document.querySelector('.sequence').getAttribute('aria-label')")
        for milestone in ("user to node1: accepted", "confirmed", "node1 to user"):
            assert milestone in steps
        assert look.page.errors == []


@in_browser
async def test_what_was_before_the_page_was_opened_is_there_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(network(tmp_path / "network", *NAMES))
        await nodes.start(*nodes.names)
        await nodes.connected()
        contract = await nodes.create([f"alice@{name}" for name in NAMES], 2)
        sender = NodeName("node1")
        minted = await nodes.submit(sender, contract, "mint")
        await nodes.final(sender, minted)
        status = await nodes.processes[sender].facade.status(contract)
        assert status is not None
        assert status.active_coordinator is not None
        leader = nodes.processes[status.active_coordinator]
        numbered = leader.facade.receipts(0)
        # What was deployed, and what was minted.
        intents = {uuid_of((await anext(numbered)).id) for _ in range(2 if leader.facade.name == sender else 1)}
        chromium = await stack.enter_async_context(browser(tmp_path / "profile"))
        page = await chromium.open(f"{leader.entrance.http_url}/dashboard#/transaction")
        rows = "[...document.querySelectorAll('#view-transaction .virtual a')].map((each) => each.title)"
        await page.until(f"{rows}.length === {len(intents)}")
        assert set(await page.evaluate(rows)) == intents
        await page.evaluate(f"location.hash = '#/contract/{contract}'")
        await page.until("document.querySelector('#rounds [data-state=succeeded]')")
        assert page.errors == []
        # A node that did not submit the transaction and has its receipt shows it.
        other = next(nodes.processes[NodeName(name)] for name in NAMES if name != sender)
        page = await chromium.open(f"{other.entrance.http_url}/dashboard#/transaction/{uuid_of(minted)}")
        await page.until("document.querySelector('#receipt .state-word')?.textContent === 'confirmed'")
        assert await page.evaluate("document.getElementById('cancel').title") == "it has ended"
        assert page.errors == []


@in_browser
async def test_node_automation_and_commands_show_what_their_methods_say(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        look = await shown(stack, tmp_path, threshold=2)
        page, process = look.page, look.nodes.processes[look.node]
        client = await stack.enter_async_context(Client(process.entrance.http_url))
        transaction = {"type": "private", "to": look.contract, "function": "mint"}
        for number in range(2):
            command = {"applicationId": "shop", "commandId": f"pay {number}", "actAs": ["alice"]}
            await client.ask("cmd_submitAndWait", {**command, "transaction": transaction})
        await look.go("#/commands")
        await page.until("document.querySelector('[data-figure=commandsAccepted] .big')?.textContent === '2'")
        await page.evaluate("document.getElementById('application').focus()")
        await page.type("shop")
        await page.press("Tab")
        await page.type("alice")
        await page.press("Enter")
        await page.until("document.querySelectorAll('#completions tr').length === 2")
        assert "pay 1" in await page.text("#completions tr:first-child")
        await look.go("#/automation")
        triggers = {each.name: each for each in process.facade.triggers.list()}
        await page.until(f"document.querySelectorAll('#triggers > li').length === {len(triggers)}")
        names = await page.evaluate("[...document.querySelectorAll('#triggers > li')].map((each) => each.dataset.name)")
        assert set(names) == set(triggers)
        await look.go("#/node")
        await page.until("document.querySelectorAll('#settings tr').length > 50")
        measured = process.facade.measurements()
        assert await page.text("[data-figure=contractsLoaded] .big") == str(measured.contracts_loaded)
        assert await page.text("[data-figure=intentsOpen] .big") == str(measured.intents_open)
        peers = await page.evaluate("[...document.querySelectorAll('#peers tr')].map((each) => each.dataset.name)")
        assert peers == [each.node for each in measured.peers]
        assert process.facade.itself.database().kind in await page.text("#runs")
        assert look.page.errors == []


@in_browser
async def test_the_coordinator_is_killed_while_the_page_is_open_and_another_leads(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        look = await shown(stack, tmp_path, threshold=2)
        await look.nodes.final(look.node, await look.nodes.submit(look.node, look.contract, "mint"))
        leader = (await look.status()).active_coordinator
        assert leader is not None
        if leader == look.node:
            # The page is to outlive the coordinator: it moves to another node.
            look.node = next(NodeName(each) for each in NAMES if each != leader)
            url = look.nodes.processes[look.node].entrance.http_url
            await look.page.call("Page.navigate", url=f"{url}/dashboard")
            await look.page.until("document.getElementById('live')?.dataset.state === 'live'")
        await look.nodes.final(look.node, await look.nodes.submit(look.node, look.contract, "mint"))
        await look.go(f"#/contract/{look.contract}")
        await look.page.until(f"{ACTIVE} === {json.dumps(leader)}")
        await look.nodes.kill(leader)
        receipt = await look.nodes.final(look.node, await look.nodes.submit(look.node, look.contract, "mint"))
        assert not receipt.reason
        await look.page.until("document.querySelector('#changes [data-kind=\"fail-over\"]')")
        assert (await look.agrees())["active"] != leader
        change = await look.page.text("#changes [data-kind='fail-over']")
        assert leader in change
        assert look.page.errors == []
