"""Two processes of one node on one PostgreSQL: one has it, the other stands by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.ports import Unavailable
from rota.store import PostgresDatabase
from rota.store.database import FenceBroken, LeaseLost, Statement, last_written
from rota.store.postgres import LEASE_S, Patience
from tests import bounds
from tests.store.kit import NODE, in_loop
from tests.store.proxy import Fault, Proxy, proxy_to
from tests.store.servers import PostgresServer

NOTHING: tuple[Statement, ...] = ()


async def two_processes(server: PostgresServer) -> tuple[PostgresDatabase, PostgresDatabase]:
    """Both stand by at an empty schema."""
    schema = server.new_schema_name()
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    active, standby = (PostgresDatabase(server.url(schema), NODE, stands_by=True) for _ in range(2))
    return active, standby


async def until_open(database: PostgresDatabase) -> list[str]:
    """As a run begins: again and again while another process has it; the reasons until then."""
    reasons: list[str] = []
    while True:
        try:
            await database.open()
        except Unavailable as problem:
            reasons.append(str(problem))
            await asyncio.sleep(0.05)
        else:
            return reasons


@pytest.mark.slow
@in_loop
async def test_process_that_stands_by_waits_until_the_active_one_closes(server: PostgresServer) -> None:
    active, standby = await two_processes(server)
    await active.open()
    keeping = asyncio.create_task(active.keep())
    waiting = asyncio.create_task(until_open(standby))
    # Longer than a lease: the active process renews it although it writes nothing.
    await asyncio.sleep(LEASE_S * 1.5)
    assert not waiting.done()
    await active.write(NOTHING, 1)
    keeping.cancel()
    await active.close()
    reasons = await waiting
    assert "standing by: the process of this node at this machine, connected since 20" in reasons[0]
    await standby.write(NOTHING, 2)
    await standby.close()


@pytest.mark.slow
@in_loop
async def test_server_ends_the_session_of_a_process_that_is_silent_and_the_fence_refuses_its_next_write(
    server: PostgresServer,
) -> None:
    active, standby = await two_processes(server)
    await active.open()
    await active.write(NOTHING, 1)
    # The active one renews nothing, as a process that hangs.
    await until_open(standby)
    await standby.write(NOTHING, 2)
    with pytest.raises(FenceBroken, match="another process of this node has opened the database since"):
        await active.write(NOTHING, 2)
    await active.close()
    await standby.close()


@asynccontextmanager
async def active_behind_proxy(
    server: PostgresServer, folder: Path
) -> AsyncIterator[tuple[PostgresDatabase, PostgresDatabase, Proxy]]:
    """The active process reaches the server through the proxy, and the standby directly."""
    async with proxy_to(server, folder) as proxy:
        _, standby = await two_processes(server)
        active = PostgresDatabase(server.url(standby._url.rpartition("=")[2], folder), NODE, stands_by=True)
        await active.open()
        yield active, standby, proxy
        await active.close()
        await standby.close()


@pytest.mark.slow
@in_loop
async def test_process_that_cannot_renew_its_lease_ends(server: PostgresServer, tmp_path: Path) -> None:
    """It is idle and cut off from the database alone: no write of it fails."""
    async with active_behind_proxy(server, tmp_path) as (active, standby, proxy):
        proxy.is_silent = True
        with pytest.raises(LeaseLost, match="the lease of the database has run out: the server does not answer"):
            await asyncio.wait_for(active.keep(), bounds.WAIT_S)
        await until_open(standby)
        # When it reaches the server again, it does not come back.
        proxy.is_silent = False
        with pytest.raises(LeaseLost):
            await active.write(NOTHING, 1)
        with pytest.raises(Unavailable, match="the lease of the database has run out"):
            await active.read(last_written())


@pytest.mark.slow
@in_loop
async def test_process_that_is_cut_off_in_the_middle_of_a_write_ends_before_the_write_gives_up(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with active_behind_proxy(server, tmp_path) as (active, _, proxy):
        keeping = asyncio.create_task(active.keep())
        proxy.fault = Fault.SILENT_BEFORE
        writing = asyncio.create_task(active.write(NOTHING, 1))
        while proxy.fault is not Fault.NONE:
            await asyncio.sleep(0.01)
        proxy.is_silent = True
        async with asyncio.timeout(Patience().session_s):
            with pytest.raises(LeaseLost):
                await keeping
            with pytest.raises(LeaseLost):
                await writing


@pytest.mark.slow
@in_loop
async def test_long_statement_costs_no_lease(server: PostgresServer) -> None:
    active, standby = await two_processes(server)
    await active.open()
    keeping = asyncio.create_task(active.keep())
    waiting = asyncio.create_task(until_open(standby))
    await active.write((Statement(f"SELECT pg_sleep({2 * LEASE_S})"),), 1)
    assert not keeping.done()
    assert not waiting.done()
    keeping.cancel()
    await active.close()
    await waiting
    await standby.close()


@pytest.mark.slow
@in_loop
async def test_idle_process_that_was_replaced_ends_without_a_write(server: PostgresServer) -> None:
    active, standby = await two_processes(server)
    await active.open()
    await until_open(standby)
    with pytest.raises(FenceBroken, match="another process of this node has opened the database since"):
        await asyncio.wait_for(active.keep(), bounds.WAIT_S)
    await active.close()
    await standby.close()
