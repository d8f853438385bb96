"""A real process: neither its start nor a large request holds its event loop for long."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName
from rota.server.loop_watch import HOLD_MAX_S
from tests import bounds

pytestmark = pytest.mark.slow

NODE = NodeName("node1")
HOLDS = "rota_loop_holds_total"
LONGEST = "rota_loop_hold_longest_seconds"


async def figures(session: ClientSession, url: str) -> dict[str, float]:
    async with session.get(f"{url}/metrics") as answer:
        lines = [line.split() for line in (await answer.text()).splitlines() if not line.startswith("#")]
    return {line[0]: float(line[1]) for line in lines if len(line) == 2}


async def serve_large_requests(home: Path) -> dict[str, float]:
    """A node starts, shows its settings and takes a thousand transactions of one request."""
    async with LocalNetwork(Plan(home=home / "network", names=(NODE,))) as network, ClientSession() as session:
        await network.start(NODE)
        made = await network.create_contract("noto", {"notary": f"bank@{NODE}", "name": "Coin", "symbol": "C"})
        url = network.nodes[NODE].client.url.rstrip("/")

        async def ask(method: str, *params: object) -> Any:  # noqa: ANN401
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with session.post(url, data=json.dumps(call)) as answer:
                return (await answer.json())["result"]

        assert await ask("node_configuration")
        data = [f"alice@{NODE}", 1, "0x"]
        mint = {"type": "private", "from": "bank", "to": made.address, "function": "mint", "data": data}
        last = (await ask("ptx_sendTransactions", [mint] * 1_000))[-1]
        async with asyncio.timeout(bounds.WAIT_S):
            while await ask("ptx_getTransactionReceipt", last) is None:
                await asyncio.sleep(0.05)
        return await figures(session, url)


def test_no_request_and_no_start_holds_the_loop_of_a_node_for_long(tmp_path: Path) -> None:
    found = asyncio.run(serve_large_requests(tmp_path))
    assert found[LONGEST] <= HOLD_MAX_S
    assert found[HOLDS] == 0
