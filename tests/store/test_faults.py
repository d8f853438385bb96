"""What happens to a store when its process is killed or its disk is full."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from asyncpg.transaction import Transaction  # type: ignore[import-untyped]

from rota.machine.effects import IntentAccepted
from rota.ports import Unavailable
from rota.sim.disk import Fate
from rota.store import PostgresDatabase, SqliteDatabase, group_commit
from rota.store.database import Database, NotWritten, Reading, Statement
from tests import bounds
from tests.store.kit import (
    FIRST,
    NODE,
    FaultyDatabase,
    Opened,
    a_transition,
    an_intent,
    in_loop,
    intent_id,
    new_postgres,
    new_sqlite,
)
from tests.store.servers import PostgresServer

ROOT = Path(__file__).parents[2]
KILLS = 4
DISK_BYTES = 1_114_112
PAYLOAD_BYTES = 65_536
LARGE_WRITES = 4


# Killed.


def killed_after(count: int, *arguments: str) -> set[int]:
    """Run a writer, and kill it when so many of its writes are durable: those that it has named."""
    command = [sys.executable, "-m", "tests.store.writing_child", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    named: set[int] = set()
    while len(named) < count:
        line = process.stdout.readline()
        assert line, "the writer ended by itself"
        named.add(int(line))
    process.kill()
    named.update(int(line) for line in process.stdout if line.endswith("\n"))
    process.stdout.close()
    process.wait()
    return named


async def nothing_is_half(database: Database, named: set[int]) -> None:
    """All that was named is there, and of what was not, either all or nothing."""
    opened = await Opened(database).start()
    restored = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
    found = {int.from_bytes(each.intent.id, "big"): each for each in restored}
    assert named <= found.keys()
    for number, each in found.items():
        assert each.permission is not None
        assert each.permission.leaf == a_transition(number).leaf
        assert [version.leaf for version in each.versions] == [a_transition(number).leaf]
        assert await opened.store.transitions_of(FIRST, (a_transition(number).leaf,)) == (a_transition(number),)
    await opened.store.close()


@pytest.mark.slow
def test_what_was_durable_in_sqlite_is_there_after_a_kill_and_nothing_is_half(tmp_path: Path) -> None:
    named: set[int] = set()
    for kill in range(1, KILLS + 1):
        named |= killed_after(30 * kill, "sqlite", str(tmp_path / "node.db"))
        asyncio.run(nothing_is_half(new_sqlite(tmp_path), named))


@pytest.mark.slow
def test_what_was_durable_in_postgres_is_there_after_a_kill_and_nothing_is_half(server: PostgresServer) -> None:
    database = asyncio.run(new_postgres(server))
    named: set[int] = set()
    for kill in range(1, KILLS + 1):
        named |= killed_after(30 * kill, "postgres", database._url)
        asyncio.run(nothing_is_half(PostgresDatabase(database._url, NODE), named))


# A full disk.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can only be mounted by root here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@in_loop
async def test_on_a_full_disk_a_write_waits_and_is_done_when_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    opened = await Opened(new_sqlite(small_disk)).start()
    await opened.write(FIRST, IntentAccepted(an_intent(1)))
    room = DISK_BYTES - sum(file.stat().st_size for file in small_disk.iterdir())
    filler.write_bytes(bytes(max(0, room - PAYLOAD_BYTES)))

    large = [IntentAccepted(an_intent(number, payload=bytes(PAYLOAD_BYTES))) for number in range(2, 2 + LARGE_WRITES)]
    for record in large:
        opened.order(FIRST, record)
        if not opened.store.trouble:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(bounds.WAIT_S):
        while "full" not in opened.store.trouble:
            await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="full"):
        await opened.store.write([Statement("DELETE FROM mined")])

    filler.unlink()
    await opened.durable_after(len(large))
    assert opened.store.trouble == ""
    restored = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
    assert [each.intent.id for each in restored] == [intent_id(1), *(record.intent.id for record in large)]
    await opened.store.close()


@in_loop
async def test_a_folder_that_is_not_there_is_the_worlds_fault(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file or directory"):
        await SqliteDatabase(tmp_path / "nowhere" / "node.db", NODE).open()


@in_loop
async def test_a_file_that_is_no_database_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "node.db").write_bytes(b"something else" * 1_000)
    with pytest.raises(Unavailable, match="not a database"):
        await new_sqlite(tmp_path).open()


@in_loop
async def test_the_files_of_sqlite_are_for_their_owner_alone(tmp_path: Path) -> None:
    opened = await Opened(new_sqlite(tmp_path)).start()
    await opened.write(FIRST, IntentAccepted(an_intent(1)))
    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}
    await opened.store.close()


@pytest.mark.parametrize("fate", [Fate.FAILS, Fate.LIES])
@in_loop
async def test_a_store_finds_out_by_itself_that_it_takes_writes_again(
    tmp_path: Path, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node whose store is in trouble takes nothing, so that nobody else would write."""
    monkeypatch.setattr(group_commit, "LOOK_S", 0.001)
    database = FaultyDatabase(new_sqlite(tmp_path))
    opened = await Opened(database).start()
    database.fate = fate
    with pytest.raises(Unavailable):
        await opened.store.write(())
    assert opened.store.trouble
    database.fate = Fate.WORKS
    async with asyncio.timeout(bounds.WAIT_S):
        while opened.store.trouble:
            await asyncio.sleep(0.001)
    await opened.store.close()


@in_loop
async def test_a_commit_that_fails_is_looked_into_in_sqlite(tmp_path: Path) -> None:
    """A deferred constraint is checked at the commit: it has not happened, and the next one goes well."""
    database = new_sqlite(tmp_path)
    await database.open()
    await database.write(
        (
            Statement("CREATE TABLE parents (id BIGINT PRIMARY KEY)"),
            Statement("CREATE TABLE children (id BIGINT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)"),
        ),
        1,
    )
    await in_writer(database, "PRAGMA foreign_keys = 1")
    with pytest.raises(NotWritten, match="FOREIGN KEY"):
        await database.write((Statement("INSERT INTO children VALUES (1)"),), 2)
    await database.write((Statement("INSERT INTO parents VALUES (1)"),), 3)
    assert await database.read(count_of("children")) == 0
    assert await database.read(count_of("parents")) == 1
    await database.close()


@pytest.mark.slow
@pytest.mark.parametrize("has_happened", [True, False])
@in_loop
async def test_a_commit_that_is_answered_with_an_error_is_looked_into_in_postgres(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    """An error such as 40003 leaves open whether the commit has happened: the numbers tell."""
    database = await new_postgres(server)
    await database.open()
    await database.write((Statement("CREATE TABLE parents (id BIGINT PRIMARY KEY)"),), 1)
    commit = Transaction.commit

    async def ambiguous(transaction: Transaction) -> None:
        monkeypatch.setattr(Transaction, "commit", commit)
        await (commit(transaction) if has_happened else transaction.rollback())
        raise asyncpg.StatementCompletionUnknownError("nobody knows")

    monkeypatch.setattr(Transaction, "commit", ambiguous)
    row = Statement("INSERT INTO parents VALUES (1)")
    if has_happened:
        await database.write((row,), 2)
    else:
        with pytest.raises(Unavailable, match="nobody knows"):
            await database.write((row,), 2)
    await database.write((Statement("INSERT INTO parents VALUES (2)"),), 3)
    assert await database.read(count_of("parents")) == 1 + has_happened
    await database.close()


async def in_writer(database: SqliteDatabase, sql: str) -> None:
    """What can only be said outside a transaction."""
    assert database._writing is not None
    connection = database._writing
    await database._run(database._writer, lambda: connection.execute(sql))


def count_of(table: str) -> Reading[object]:
    rows = yield Statement(f"SELECT COUNT(*) FROM {table}")
    return rows[0][0]
