"""A node of two processes on one PostgreSQL: the one that stands by takes over when the active one ends or hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.localnet.audit import promise_problems
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.localnet.workload import Workload
from rota.model.types import NodeName
from tests import bounds
from tests.cluster.kit import postgres, schema
from tests.ledger.chains import in_loop
from tests.store.servers import postgres_folder

pytestmark = pytest.mark.slow

DOUBLE, *OTHERS = NAMES = tuple(NodeName(f"node{number}") for number in (1, 2, 3))
MEMBERS = [f"alice@{name}" for name in NAMES]
INTERVAL_MS = 20
CONFIRMED_MIN = 40
END_TIMEOUT_S = 120.0


@asynccontextmanager
async def at_work(home: Path) -> AsyncIterator[tuple[LocalNetwork, Workload]]:
    """Three nodes and a stream of transactions from all of them; the first has a standby."""
    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")
    with postgres() as server:
        url = await schema(server, DOUBLE)
        plan = Plan(
            home=home,
            names=NAMES,
            standbys=(DOUBLE,),
            store_of=lambda name: url if name == DOUBLE else "sqlite:rota.db",
        )
        async with LocalNetwork(plan) as network:
            await network.start(*NAMES)
            await network.standbys[DOUBLE].stand_by()
            await until_standing_by(network.standbys[DOUBLE])
            made = await network.create_contract("synthetic", {"members": MEMBERS, "threshold": 2})
            async with Workload(network, made.address, "alice", INTERVAL_MS) as workload:
                await until_confirmed(workload, CONFIRMED_MIN)
                yield network, workload


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


async def taken_over(network: LocalNetwork) -> LocalNode:
    """Wait for the standby, and send the requests to it from now on; returns the process that was active before."""
    before, standby = network.nodes[DOUBLE], network.standbys[DOUBLE]
    await standby.until_active()
    network.nodes[DOUBLE] = standby
    await standby.until_ready()
    return before


async def require_exactly_once(network: LocalNetwork, workload: Workload) -> None:
    await workload.end()
    assert not await workload.until_final(END_TIMEOUT_S), "accepted transactions have not ended"
    assert not workload.refusals
    book = ChainBook(network.ledger, network.chain_id, (workload.contract,))
    await book.read_on()
    assert promise_problems(workload.promises, workload.receipts, book.committed) == []


@in_loop
async def test_standby_takes_over_when_the_active_process_is_killed(tmp_path: Path) -> None:
    async with at_work(tmp_path / "network") as (network, workload):
        await network.nodes[DOUBLE].kill()
        await taken_over(network)
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)


@in_loop
async def test_standby_takes_over_when_the_active_process_hangs_and_that_ends_when_it_wakes(tmp_path: Path) -> None:
    async with at_work(tmp_path / "network") as (network, workload):
        network.nodes[DOUBLE].hang()
        before = await taken_over(network)
        await until_confirmed(workload, CONFIRMED_MIN)
        before.wake()
        assert await asyncio.wait_for(before.child.ended(), bounds.WAIT_S) == 1
        assert "another process of this node has opened the database since" in before.log.read_text()
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)
