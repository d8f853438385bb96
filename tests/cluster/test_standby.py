"""A node of two processes on one PostgreSQL: the one that stands by takes over when the active one ends or hangs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.localnet.local import LocalNetwork, LocalNode
from tests import bounds
from tests.cluster.on_postgres import CONFIRMED_MIN, ON_POSTGRES, at_work, require_exactly_once, until_confirmed
from tests.ledger.chains import in_loop

pytestmark = pytest.mark.slow


async def taken_over(network: LocalNetwork) -> LocalNode:
    """Wait for the standby, and send the requests to it from now on; returns the process that was active before."""
    before, standby = network.nodes[ON_POSTGRES], network.standbys[ON_POSTGRES]
    await standby.until_active()
    network.nodes[ON_POSTGRES] = standby
    await standby.until_ready()
    return before


@in_loop
async def test_standby_takes_over_when_the_active_process_is_killed(tmp_path: Path) -> None:
    async with at_work(tmp_path / "network", has_standby=True) as (network, workload, _, _):
        await network.nodes[ON_POSTGRES].kill()
        await taken_over(network)
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)


@pytest.mark.nightly
@in_loop
async def test_standby_takes_over_when_the_active_process_hangs_and_that_ends_when_it_wakes(tmp_path: Path) -> None:
    async with at_work(tmp_path / "network", has_standby=True) as (network, workload, _, _):
        network.nodes[ON_POSTGRES].hang()
        before = await taken_over(network)
        await until_confirmed(workload, CONFIRMED_MIN)
        before.wake()
        assert await asyncio.wait_for(before.child.ended(), bounds.WAIT_S) == 1
        assert "another process of this node has opened the database since" in before.log.read_text()
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)


@in_loop
async def test_active_process_that_is_cut_off_from_its_database_alone_ends(tmp_path: Path) -> None:
    """It would still reach its peers, to which its successor has the same name."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    async with at_work(tmp_path / "network", has_standby=True, active_by=folder) as (network, workload, _, proxy):
        assert proxy is not None
        proxy.is_silent = True
        before = await taken_over(network)
        assert await asyncio.wait_for(before.child.ended(), bounds.WAIT_S) == 1
        assert "the lease of the database has run out: the server does not answer" in before.log.read_text()
        await until_confirmed(workload, CONFIRMED_MIN)
        await require_exactly_once(network, workload)
