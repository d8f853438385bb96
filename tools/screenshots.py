"""Takes the pictures of the dashboard and of `rota demo` for the documentation: `make screenshots`; needs Chromium.

A real network of three nodes with two contracts works in this process meanwhile; its coordinator is killed once, so
that the time line has something to show.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rota.model.types import ContractAddress, IntentId, NodeName
from tests.server.dashboard.browser import Page, browser, chromium_path
from tests.service.kit import Network, network
from tools.demo_picture import take as take_demo

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"
NAMES: Final = ("node1", "node2", "node3")
WIDE: Final = (1_280, 900)
PHONE: Final = (390, 844)
STEADY_S: Final = 8.0
SETTLE_S: Final = 2.5
PAUSE_S: Final = 0.2


async def take() -> None:
    """All pictures, one after the other."""
    FOLDER.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="rota-screenshots-")))
        nodes = await stack.enter_async_context(network(home / "network", *NAMES))
        await nodes.start(*nodes.names)
        await nodes.connected()
        members = [f"alice@{name}" for name in NAMES]
        contracts = [await nodes.create(members, threshold) for threshold in (2, 2)]
        chromium = await stack.enter_async_context(browser(home / "profile"))
        seen = await _onlooker(nodes, contracts[0])
        page = await chromium.open(f"{nodes.processes[seen].entrance.http_url}/dashboard")
        await page.resize(*WIDE)
        working = asyncio.create_task(_work(nodes, contracts))
        try:
            await _take_all(nodes, page, contracts[0], seen)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        await take_demo(chromium)


async def _onlooker(nodes: Network, contract: ContractAddress) -> NodeName:
    """A node that does not coordinate, so that the coordinator can be killed before its eyes."""
    first = NodeName(NAMES[0])
    await nodes.final(first, await nodes.submit(first, contract, "mint"))
    status = await nodes.processes[first].facade.status(contract)
    assert status is not None, "it has the contract"
    return next(NodeName(name) for name in NAMES if name != status.active_coordinator)


async def _work(nodes: Network, contracts: list[ContractAddress]) -> None:
    number = 0
    while True:
        for name in tuple(nodes.lives):
            if nodes.processes[name].running.started.is_set():
                await nodes.submit(name, contracts[number % len(contracts)], "mint" if number % 3 else "spend")
                number += 1
        await asyncio.sleep(PAUSE_S)


async def _take_all(nodes: Network, page: Page, contract: ContractAddress, seen: NodeName) -> None:
    await page.until("document.getElementById('live').dataset.state === 'live'")
    await asyncio.sleep(STEADY_S)
    await _picture(page, "network", "network")
    status = await nodes.processes[seen].facade.status(contract)
    assert status is not None, "it has the contract"
    if status.active_coordinator is not None and status.active_coordinator != seen:
        await nodes.kill(status.active_coordinator)
    await asyncio.sleep(STEADY_S)
    await _picture(page, "trouble", "network")
    await _picture(page, "contract", f"contract/{contract}")
    await page.evaluate("document.getElementById('changes').scrollIntoView({block: 'center'})")
    await _picture(page, "contract-history")
    own = await nodes.submit(seen, contract, "mint")
    await _picture(page, "transaction", f"transaction/{_uuid(own)}")
    await page.prefer("dark")
    await _picture(page, "network-dark", "network")
    await page.resize(*PHONE, scale=2.0)
    await _picture(page, "phone-dark", f"contract/{contract}")


async def _picture(page: Page, name: str, address: str | None = None) -> None:
    if address is not None:
        await page.evaluate(f"location.hash = {json.dumps('#/' + address)}")
        await page.evaluate("scrollTo(0, 0)")
    await asyncio.sleep(SETTLE_S)
    await page.screenshot(FOLDER / f"{name}.png")


def _uuid(intent: IntentId) -> str:
    text = intent.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


if __name__ == "__main__":
    if chromium_path() is None:
        sys.exit("There is no Chromium; tools/install-test-tools installs it, ROTA_CHROMIUM names another.")
    asyncio.run(take())
