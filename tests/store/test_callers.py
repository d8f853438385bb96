"""What callers ask for, and how: a slow, a refused or an abandoned reading is nobody else's trouble."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from rota.machine.effects import IntentAccepted
from rota.model.types import ContractAddress, NodeName
from rota.ports import FOR_CALLER, ListenerPosition, StoredAnnouncement, StoredListener, Unanswerable
from rota.store import PostgresDatabase, SqliteDatabase
from rota.store.database import Answer, Reading, ReadingTooSlow, Statement
from tests.store.kit import FIRST, NODE, Make, Opened, an_intent, in_loop, new_postgres, opened_on
from tests.store.servers import PostgresServer

NUL = "na\0me"
TOO_LARGE = 2**63
FAR_LESS_S = 60  # than what is not waited for takes, and far more than a busy machine needs


@contextmanager
def a_caller() -> Iterator[None]:
    """What is read meanwhile is read for a caller of an API."""
    token = FOR_CALLER.set(True)
    try:
        yield
    finally:
        FOR_CALLER.reset(token)


def asking(sql: str, *parameters: int | str) -> Reading[list[tuple[object, ...]]]:
    rows = yield Statement(sql, parameters)
    return rows


def slow_sql(opened: Opened) -> str:
    """Takes ten minutes, if nobody stops it."""
    if isinstance(opened.store._database, PostgresDatabase):
        return "SELECT pg_sleep(600)"
    return """
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 10000000000)
    SELECT COUNT(*) FROM counted"""


def hurried(opened: Opened) -> None:
    """Callers have a moment only."""
    database = opened.store._database
    if isinstance(database, PostgresDatabase):
        database._callers.session._settings["statement_timeout"] = "200"
    else:
        assert isinstance(database, SqliteDatabase)
        database._callers._limit_s = 0.2


async def read(opened: Opened, reading: Reading[Answer]) -> Answer:
    with a_caller():
        return await opened.store.read(reading)


def test_a_slow_reading_of_a_caller_is_stopped_and_holds_nobody_up(make: Make) -> None:
    @in_loop
    async def scenario() -> None:
        async with opened_on(await make()) as opened:
            hurried(opened)
            slow = asyncio.create_task(read(opened, asking(slow_sql(opened))))
            await asyncio.sleep(0.05)
            began_s = time.monotonic()
            await opened.write(FIRST, IntentAccepted(an_intent(1)))
            assert await opened.store.contracts()
            with pytest.raises(ReadingTooSlow):
                await slow
            assert time.monotonic() - began_s < FAR_LESS_S
            assert opened.store.trouble == ""
            assert await read(opened, asking("SELECT 1")) == [(1,)]

    scenario()


@pytest.mark.parametrize("value", [NUL, TOO_LARGE, "half a \ud800 pair"])
def test_a_value_that_cannot_be_looked_for_is_the_callers_error(make: Make, value: int | str) -> None:
    """A NUL in a name, or a number out of range, once dropped the one session and made the node not ready."""

    @in_loop
    async def scenario() -> None:
        async with opened_on(await make()) as opened:
            column = "name" if isinstance(value, str) else "written"
            reading = asking(f"SELECT written FROM node WHERE {column} = ?", value)
            if isinstance(opened.store._database, SqliteDatabase) and value == NUL:
                assert await read(opened, reading) == []
            else:
                with pytest.raises(Unanswerable):
                    await read(opened, reading)
            assert opened.store.trouble == ""

    scenario()


@pytest.mark.parametrize(
    ("condition", "value"),
    [("name LIKE ?", "%a" * 100_000), (" AND ".join(["name = ?"] * 2_500), "x"), ("(" * 5_000 + "name = ?", "x")],
    ids=["pattern", "comparisons", "brackets"],
)
def test_question_that_is_too_much_for_the_database_is_the_callers_error(
    make: Make, condition: str, value: str
) -> None:
    """A pattern of 200,000 characters once made a node on SQLite not ready, for any caller with the role `read`."""

    @in_loop
    async def scenario() -> None:
        async with opened_on(await make()) as opened:
            sql = f"SELECT written FROM node WHERE {condition}{')' * condition.count('(')}"
            # PostgreSQL can answer these.
            with suppress(Unanswerable):
                assert await read(opened, asking(sql, *[value] * condition.count("?"))) == []
            assert opened.store.trouble == ""
            assert await read(opened, asking("SELECT 1")) == [(1,)]

    scenario()


def test_listener_that_begins_behind_the_last_number_is_its_creators_error(make: Make) -> None:
    """`ptx_createReceiptListener` with `sequenceAbove` 2^63 once left a node on a quiet chain not ready."""

    @in_loop
    async def scenario() -> None:
        async with opened_on(await make()) as opened:
            listening = opened.store.listening
            far = StoredListener("receipts", "far", 1, True, b"{}", ListenerPosition(TOO_LARGE))
            with pytest.raises(Unanswerable):
                await listening.add_listener(far)
            assert opened.store.trouble == ""
            near = replace(far, name="near", acknowledged=ListenerPosition(TOO_LARGE - 1))
            await listening.add_listener(near)
            assert await listening.listeners("receipts") == (near,)
            with pytest.raises(Unanswerable):
                await listening.note_acknowledged("receipts", "near", ListenerPosition(0, TOO_LARGE))
            assert opened.store.trouble == ""
            await opened.write(FIRST, IntentAccepted(an_intent(1)))

    scenario()


def test_a_value_that_cannot_be_held_is_its_writers_error_and_no_trouble_of_the_store(make: Make) -> None:
    @in_loop
    async def scenario() -> None:
        async with opened_on(await make()) as opened:
            wrong = Statement("UPDATE accounts SET next_nonce = ?", (TOO_LARGE,))
            good = asyncio.create_task(opened.store.write([Statement("DELETE FROM blocks WHERE height = ?", (1,))]))
            with pytest.raises(Unanswerable):
                await opened.store.write([wrong])
            await good
            assert opened.store.trouble == ""
            with pytest.raises(Unanswerable):
                await opened.store._write_alone(wrong)
            assert opened.store.trouble == ""

    scenario()


@pytest.mark.slow
@in_loop
async def test_a_nul_that_a_peer_announces_does_not_look_like_a_store_that_is_away(server: PostgresServer) -> None:
    async with opened_on(await new_postgres(server)) as opened:
        announced = StoredAnnouncement(NodeName("node2"), ContractAddress("0x" + "00" * 20), (NUL,))
        with pytest.raises(Unanswerable):
            await opened.store.triggers.keep_announcement(announced)


async def sessions(opened: Opened) -> list[int]:
    """The processes of the server that this store talks to."""
    database = opened.store._database
    assert isinstance(database, PostgresDatabase)
    found = []
    for session in (database._writer, database._own.session, database._callers.session):
        connection = await session.connected()
        found.append(connection.get_server_pid())
    return found


@pytest.mark.slow
@in_loop
async def test_neither_hanging_up_nor_a_refused_value_drops_a_session(server: PostgresServer) -> None:
    """Reading over HTTP and hanging up once halved what a node accepted a second."""
    async with opened_on(await new_postgres(server)) as opened:
        before = await sessions(opened)
        for _ in range(3):
            reading = asyncio.create_task(read(opened, asking("SELECT pg_sleep(0.2)")))
            await asyncio.sleep(0.05)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        with pytest.raises(Unanswerable):
            await read(opened, asking("SELECT written FROM node WHERE name = ?", NUL))
        assert await read(opened, asking("SELECT 1")) == [(1,)]
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        assert await sessions(opened) == before


@pytest.mark.slow
@in_loop
async def test_a_reading_of_an_abandoned_caller_is_not_begun(server: PostgresServer) -> None:
    async with opened_on(await new_postgres(server)) as opened:
        first = asyncio.create_task(read(opened, asking("SELECT pg_sleep(0.2)")))
        await asyncio.sleep(0.05)
        abandoned = [asyncio.create_task(read(opened, asking("SELECT pg_sleep(10)"))) for _ in range(20)]
        await asyncio.sleep(0)
        for each in abandoned:
            each.cancel()
        began_s = time.monotonic()
        await first
        assert await read(opened, asking("SELECT 1")) == [(1,)]
        assert time.monotonic() - began_s < FAR_LESS_S


@pytest.mark.slow
@in_loop
async def test_callers_cannot_write_in_their_session(server: PostgresServer) -> None:
    database = await new_postgres(server)
    assert database._node == NODE
    async with opened_on(database):
        connection = await database._callers.session.connected()
        assert await connection.fetchval("SHOW default_transaction_read_only") == "on"
        assert await connection.fetchval("SHOW statement_timeout") == "5s"
        writer = await database._writer.connected()
        assert await writer.fetchval("SHOW statement_timeout") == "0"
