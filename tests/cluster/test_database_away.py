"""A node whose database is away for a while: it waits, and no user or peer loses a connection."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from rota.client import ClientError
from rota.localnet.local import LocalNetwork
from tests.cluster.on_postgres import CONFIRMED_MIN, NAMES, ON_POSTGRES, at_work, require_exactly_once, until_confirmed
from tests.ledger.chains import in_loop

pytestmark = pytest.mark.slow

AWAY_S = 20.0


async def connected_since(network: LocalNetwork) -> dict[str, object]:
    """Since when each other node has been connected with the node on PostgreSQL, as that node reports it."""
    peers = await network.nodes[ON_POSTGRES].client.ask("transport_peers", is_repeatable=True)
    assert isinstance(peers, list)
    return {str(peer["name"]): peer.get("activated") for peer in peers}


@pytest.mark.nightly
@in_loop
async def test_database_that_is_away_for_20_s_costs_no_run_and_no_connection(tmp_path: Path) -> None:
    async with (
        at_work(tmp_path / "network", has_standby=False) as (network, workload, server, _),
        aiohttp.ClientSession() as session,
    ):
        node = network.nodes[ON_POSTGRES]
        pid, since = node.child.pid, await connected_since(network)
        assert set(since) == set(NAMES) - {ON_POSTGRES}
        assert all(since.values())
        async with session.ws_connect(node.addresses["websocket"]) as user:
            await asyncio.to_thread(server.stop)
            began_s = time.monotonic()
            with pytest.raises(ClientError, match="PostgreSQL"):
                _ = await node.client.send(workload.contract, "mint", sender="alice")
            assert (await node.client.missing())[0].startswith("the store")
            await asyncio.sleep(max(0.0, began_s + AWAY_S - time.monotonic()))
            await asyncio.to_thread(server.start)
            await node.until_ready()
            await user.send_json({"jsonrpc": "2.0", "id": 1, "method": "node_status"})
            assert "result" in await user.receive_json()
        assert node.child.pid == pid
        assert await connected_since(network) == since
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)
