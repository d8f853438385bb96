"""Two processes of one node on one PostgreSQL: one has it, the other stands by."""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.ports import Unavailable
from rota.store import PostgresDatabase
from rota.store.database import FenceBroken, Statement
from rota.store.postgres import LEASE_S
from tests.store.kit import NODE, in_loop
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
    waiting = asyncio.create_task(until_open(standby))
    # Longer than a lease: the active process renews it although it writes nothing.
    await asyncio.sleep(LEASE_S * 1.5)
    assert not waiting.done()
    await active.write(NOTHING, 1)
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
    assert active._renewing is not None
    active._renewing.cancel()  # As a process does that hangs.
    await until_open(standby)
    await standby.write(NOTHING, 2)
    with pytest.raises(FenceBroken, match="another process of this node has opened the database since"):
        await active.write(NOTHING, 2)
    await active.close()
    await standby.close()
