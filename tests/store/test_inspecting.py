"""A look at a database from outside, while its node has it open."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.ports import Unavailable
from rota.store import PostgresDatabase
from rota.store.inspecting import Inspected, damage_of_sqlite, inspect_postgres, inspect_sqlite
from rota.store.schema import migrations
from tests.store.kit import NODE, in_loop, new_sqlite
from tests.store.servers import PostgresServer

LATEST = migrations()[-1].version


@in_loop
async def test_file_is_looked_at_while_its_node_has_it_open(tmp_path: Path) -> None:
    database = new_sqlite(tmp_path)
    await database.open()
    try:
        assert inspect_sqlite(tmp_path / "node.db") == Inspected(LATEST, NODE)
        assert damage_of_sqlite(tmp_path / "node.db", limit_s=60) == ""
    finally:
        await database.close()


def test_file_that_nobody_has_opened_has_no_version(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection, connection:
        connection.execute("CREATE TABLE other (number BIGINT)")
    assert inspect_sqlite(tmp_path / "empty.db") == Inspected()


def test_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="unable to open"):
        inspect_sqlite(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_look_that_takes_too_long_ends_without_an_answer(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "large.db")) as connection, connection:
        connection.execute("CREATE TABLE rows (number BIGINT PRIMARY KEY, text TEXT)")
        rows = ((number, "x" * 100) for number in range(50_000))
        connection.executemany("INSERT INTO rows VALUES (?, ?)", rows)
    assert damage_of_sqlite(tmp_path / "large.db", limit_s=0) is None
    assert damage_of_sqlite(tmp_path / "large.db", limit_s=60) == ""


@pytest.mark.slow
def test_server_is_looked_at_while_its_node_has_it_open(server: PostgresServer) -> None:
    async def run() -> None:
        schema = server.new_schema_name()
        connection = await asyncpg.connect(server.url())
        await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.close()
        url = server.url(schema)
        assert await inspect_postgres(url, timeout_s=30) == Inspected()
        database = PostgresDatabase(url, NODE)
        await database.open()
        try:
            assert await inspect_postgres(url, timeout_s=30) == Inspected(LATEST, NODE)
        finally:
            await database.close()

    asyncio.run(run())


@in_loop
async def test_server_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="PostgreSQL: "):
        await inspect_postgres("postgresql://rota@127.0.0.1:1/rota", timeout_s=5)
