"""Three nodes at work, the first of them on a PostgreSQL of its own, and how they are judged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from rota.localnet.audit import promise_problems
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.localnet.workload import Workload
from rota.model.types import NodeName
from tests.bounds import WAIT_S
from tests.cluster.kit import postgres, schema
from tests.store.proxy import Proxy, proxy_to
from tests.store.servers import PostgresServer, postgres_folder

NAMES = tuple(NodeName(f"node{number}") for number in (1, 2, 3))
ON_POSTGRES = NAMES[0]
MEMBERS = [f"alice@{name}" for name in NAMES]
INTERVAL_MS = 20
# All that the active process writes and reads goes through the test's own event loop then.
INTERVAL_BY_PROXY_MS = 250
CONFIRMED_MIN = 40


@asynccontextmanager
async def at_work(
    home: Path, *, has_standby: bool, active_by: Path | None = None
) -> AsyncIterator[tuple[LocalNetwork, Workload, PostgresServer, Proxy | None]]:
    """A stream of transactions from all nodes; any two of the three endorse.

    With a folder `active_by`, the active process reaches its database by a proxy whose socket is there.
    """
    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgres())
        urls = [await schema(server, ON_POSTGRES)]
        proxy = None
        if active_by is not None:
            proxy = await stack.enter_async_context(proxy_to(server, active_by))
            # The active process is configured first.
            urls.append(urls[0].replace(quote(str(server.socket.parent), safe=""), quote(str(active_by), safe="")))
        plan = Plan(
            home=home,
            names=NAMES,
            standbys=(ON_POSTGRES,) if has_standby else (),
            store_of=lambda name: (
                (urls.pop() if len(urls) > 1 else urls[0]) if name == ON_POSTGRES else "sqlite:rota.db"
            ),
        )
        async with LocalNetwork(plan) as network:
            await network.start(*NAMES)
            for standby in network.standbys.values():
                await standby.stand_by()
                await until_standing_by(standby)
            made = await network.create_contract("synthetic", {"members": MEMBERS, "threshold": 2})
            interval_ms = INTERVAL_MS if proxy is None else INTERVAL_BY_PROXY_MS
            async with Workload(network, made.address, "alice", interval_ms) as workload:
                await until_confirmed(workload, CONFIRMED_MIN)
                yield network, workload, server, proxy


async def until_standing_by(node: LocalNode) -> None:
    """Wait until its log names the active process."""
    while "standing by: the process of this node at " not in node.log.read_text():
        assert node.is_running, node.child.last_words()
        await asyncio.sleep(0.05)


async def until_confirmed(workload: Workload, more: int) -> None:
    """So many more transactions of each node are confirmed."""
    before = set(workload.receipts)
    while True:
        await workload.look()
        new = [workload.promises[intent].node for intent in workload.receipts.keys() - before]
        if all(new.count(name) * len(NAMES) >= more for name in NAMES):
            return
        await asyncio.sleep(0.05)


async def require_exactly_once(network: LocalNetwork, workload: Workload) -> None:
    await workload.end()
    assert not await workload.until_final(WAIT_S), "accepted transactions have not ended"
    assert not workload.refusals
    book = ChainBook(network.ledger, network.chain_id, (workload.contract,))
    await book.read_on()
    assert promise_problems(workload.promises, workload.receipts, book.committed) == []
