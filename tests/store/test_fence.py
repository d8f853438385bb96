"""A database that is not as its process left it: nothing is written, and the run stops with what was found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.machine.effects import IntentAccepted
from rota.ports import Unavailable
from rota.store import PostgresDatabase
from rota.store.database import Database, Fence, FenceBroken, NotWritten, Reading, Statement
from tests.store.kit import FIRST, NODE, Make, Opened, again, an_intent, in_loop, new_postgres, new_sqlite
from tests.store.proxy import Fault, proxy_to
from tests.store.servers import PostgresServer

INSERT = Statement("INSERT INTO mined (account, nonce, height, status) VALUES ('', ?, 1, 'failed')")


def row(number: int) -> Statement:
    """Something that a transaction leaves behind."""
    return Statement(INSERT.sql, (number,))


def rows() -> Reading[list[object]]:
    found = yield Statement("SELECT nonce FROM mined ORDER BY nonce")
    return [nonce for (nonce,) in found]


async def meddle(database: Database, sql: str) -> None:
    """Somebody else changes the database."""
    if isinstance(database, PostgresDatabase):
        connection = await asyncpg.connect(database._url)
        await connection.execute(sql)
        await connection.close()
        return
    other = again(database)
    await other._run(other._writer, lambda: other._connect_to_write().execute(sql))  # type: ignore[attr-defined]


async def lose_session(database: PostgresDatabase) -> None:
    connection = await asyncpg.connect(database._url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rota %'"
    )
    await connection.close()


def test_a_database_that_was_wound_back_under_a_process_is_not_written_to(make: Make) -> None:
    @in_loop
    async def scenario() -> None:
        database = await make()
        await database.open()
        for number in (1, 2, 3):
            await database.write((row(1_000 + number),), number)
        await meddle(database, "UPDATE node SET written = 2")
        with pytest.raises(FenceBroken, match=r"write number is 2 .*expected 3 .*rota tx aside"):
            await database.write((row(1_004),), 4)
        assert await database.read(rows()) == [1_001, 1_002, 1_003]
        await database.close()

    scenario()


def test_a_displaced_process_changes_nothing_even_where_the_lock_has_moved(make: Make) -> None:
    """Its successor may have written as many transactions as the displaced one believes."""

    @in_loop
    async def scenario() -> None:
        database = await make()
        await database.open()
        await database.write((row(1_001),), 1)
        await meddle(database, "UPDATE node SET life = life + 1")
        with pytest.raises(FenceBroken, match="another process of this node has opened the database"):
            await database.write((row(1_002),), 2)
        assert await database.read(rows()) == [1_001]
        await database.close()

    scenario()


# Sessions that are lost.


@asynccontextmanager
async def a_database(server: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    database = await new_postgres(server)
    await database.open()
    await database.write((row(1_001),), 1)
    await database.read(rows())
    try:
        yield database
    finally:
        await database.close()


@pytest.mark.slow
@in_loop
async def test_a_new_session_on_a_server_that_lost_commits_is_refused(server: PostgresServer) -> None:
    async with a_database(server) as database:
        await meddle(database, "UPDATE node SET written = 0")
        await lose_session(database)
        with pytest.raises(FenceBroken, match=r"write number is 0 .*expected 1 "):
            await database.write((row(1_002),), 2)
        with pytest.raises(FenceBroken):
            await database.read(rows())


@pytest.mark.slow
@in_loop
async def test_a_process_whose_successor_has_begun_stops_when_it_comes_back(server: PostgresServer) -> None:
    """The successor has the lock: before, the displaced process waited for it and then wrote on."""
    async with a_database(server) as database:
        await lose_session(database)
        successor = again(database)
        await successor.open()
        with pytest.raises(FenceBroken, match="another process of this node"):
            await database.write((row(1_002),), 2)
        await successor.write((row(1_003),), 2)
        await successor.close()
        with pytest.raises(FenceBroken, match="another process of this node"):
            await database.write((row(1_002),), 2)


@pytest.mark.slow
@in_loop
async def test_a_number_in_doubt_that_a_successor_wrote_is_not_taken_for_our_own(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with in_doubt(server, tmp_path) as database:
        await lose_session(database)
        successor = again(database)
        await successor.open()
        await successor.write((row(1_003),), 1)
        await successor.close()
        with pytest.raises(FenceBroken, match="another process of this node"):
            await database._has_happened(1)
        with pytest.raises(FenceBroken, match="another process of this node"):
            await database.read(rows())
        with pytest.raises(FenceBroken, match="another process of this node"):
            await database.write((row(1_002),), 3)


@asynccontextmanager
async def in_doubt(server: PostgresServer, folder: Path) -> AsyncIterator[PostgresDatabase]:
    """Its first transaction was given to the server, and the answer did not come."""
    async with proxy_to(server, folder) as proxy:
        schema = (await new_postgres(server))._url.rpartition("=")[2]
        database = PostgresDatabase(server.url(schema, folder), NODE)
        await database.open()
        await database.read(rows())
        proxy.fault = Fault.SILENT_BEFORE
        writing = asyncio.create_task(database.write((row(1_001),), 1))
        while proxy.fault is not Fault.NONE:
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert database._fence.in_doubt == 1
        yield database
        await database.close()


class Cut:
    """Ends the session at one statement of a transaction: before the server has it, or when it has answered."""

    def __init__(self, connection: object, place: int, is_after: bool) -> None:
        self._connection = connection
        self._place = place
        self._is_after = is_after
        self.count = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    async def _pass(self, name: str, arguments: tuple[object, ...]) -> object:
        self.count += 1
        is_here = self.count == self._place
        if is_here and not self._is_after:
            self._connection.terminate()  # type: ignore[attr-defined]
        answer = await getattr(self._connection, name)(*arguments)
        if is_here and self._is_after:
            self._connection.terminate()  # type: ignore[attr-defined]
        return answer

    async def execute(self, *arguments: object) -> object:
        return await self._pass("execute", arguments)

    async def executemany(self, *arguments: object) -> object:
        return await self._pass("executemany", arguments)

    def transaction(self, **options: object) -> object:
        """Its BEGIN and COMMIT go through the same place."""
        transaction = self._connection.transaction(**options)  # type: ignore[attr-defined]
        transaction._connection = self
        return transaction


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_a_session_lost_at_any_statement_leaves_all_or_nothing_and_the_truth_is_told(
    server: PostgresServer, place: int, is_after: bool
) -> None:
    """BEGIN, the fence, two statements, COMMIT."""

    @in_loop
    async def scenario() -> None:
        async with a_database(server) as database:
            session = database._writer
            session._connection = Cut(session._connection, place, is_after)
            statements = (row(1_002), Statement("DELETE FROM mined WHERE nonce = ?", (1_001,)))
            try:
                await database.write(statements, 2)
                has_happened = True
            except (Unavailable, NotWritten):
                has_happened = False
            # A session that is gone at its BEGIN is made again unnoticed.
            assert has_happened is ((place, is_after) in {(1, False), (5, True)})
            assert await database.read(rows()) == ([1_002] if has_happened else [1_001])
            await database.write((row(1_003),), 3)
            assert (await database.read(rows()))[-1] == 1_003

    scenario()


# Doubt.


@pytest.mark.slow
@in_loop
async def test_nothing_is_read_while_a_commit_is_in_doubt(server: PostgresServer, tmp_path: Path) -> None:
    """The old session may still commit: a reading that says "not there" before it has ended would be a lie."""
    async with in_doubt(server, tmp_path) as database:
        backend = database._backend
        assert await database.read(rows()) == []
        assert database._fence.in_doubt is None
        assert database._backend != backend, "the old session was ended first"


@pytest.mark.slow
@in_loop
async def test_a_failover_that_loses_the_last_commits_stops_the_store_and_tells_who_waits(
    server: PostgresServer,
) -> None:
    database = await new_postgres(server)
    opened = await Opened(database).start()
    ended: list[BaseException] = []
    opened.store.failed = ended.append
    await opened.write(FIRST, IntentAccepted(an_intent(1)))
    await meddle(database, "UPDATE node SET written = written - 1")
    await lose_session(database)
    with pytest.raises(Unavailable, match="the store has stopped"):
        await opened.store.write([Statement("DELETE FROM blocks")])
    assert [type(each) for each in ended] == [FenceBroken]
    assert opened.store.trouble.startswith("the store has stopped: the database has been wound back")
    with pytest.raises(FenceBroken):
        opened.order(FIRST, IntentAccepted(an_intent(2)))
    await opened.store.close()


@pytest.mark.slow
@in_loop
async def test_a_server_that_comes_back_with_an_older_disk_is_not_written_to(server: PostgresServer) -> None:
    """As when a standby is promoted that had not got the last commits yet."""
    async with a_database(server) as database:
        server.stop()
        server.copy_data("standby")
        server.start()
        await database.write((row(1_002),), 2)
        server.stop()
        server.bring_back("standby")
        server.start()
        with pytest.raises(FenceBroken, match=r"write number is 1 .*expected 2 "):
            await database.write((row(1_003),), 3)


@in_loop
async def test_a_reading_that_finds_another_life_stops_the_store_too(tmp_path: Path) -> None:
    database = new_sqlite(tmp_path)
    opened = await Opened(database).start()
    ended: list[BaseException] = []
    opened.store.failed = ended.append

    async def broken(_: object) -> None:
        raise FenceBroken("found something else")

    database.read = broken  # type: ignore[assignment,method-assign]
    with pytest.raises(FenceBroken):
        await opened.store.contracts()
    assert len(ended) == 1
    await opened.store.close()


@in_loop
async def test_commit_that_is_acknowledged_while_a_new_reader_asks_is_no_older_copy() -> None:
    database = PostgresDatabase("postgresql:///nowhere", NODE)
    database._fence = Fence(life=7, acknowledged=452)

    class Answering:
        """Answers with what it read before the writer's next two commits."""

        def __init__(self, written: int) -> None:
            self.written = written

        async def fetchrow(self, _: str) -> tuple[int, int]:
            database._fence.acknowledge(database._fence.acknowledged + 2)
            return self.written, 7

    await database._greet_reader(Answering(452))
    with pytest.raises(FenceBroken, match=r"write number is 453"):
        await database._greet_reader(Answering(453))
