"""A look at a database from outside, while its node has it open."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.chain.submitters import StoredAccount
from rota.node.node import OWN
from rota.ports import Unavailable
from rota.store import PostgresDatabase
from rota.store.database import Database
from rota.store.inspecting import (
    ContractAccount,
    Inspected,
    accounts_in_postgres,
    accounts_in_sqlite,
    damage_of_sqlite,
    inspect_postgres,
    inspect_sqlite,
)
from rota.store.schema import migrations
from rota.store.sqlite import SqliteDatabase
from tests.store.kit import FIRST, NODE, SECOND, Make, a_dispatch, a_transition, in_loop, new_sqlite, opened_on
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


@in_loop
async def test_accounts_of_contracts_are_listed_with_the_choice_for_each(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        paid = replace(a_dispatch(1, 0, (a_transition(1),), FIRST), account=FIRST)
        await opened.write(OWN, paid)
        for is_own in (True, False, None):
            await opened.store.accounts.choose(SECOND, is_own)
            assert await accounts_in(database) == (ContractAccount(FIRST, None, 1), ContractAccount(SECOND, is_own, 0))
        restored = (await opened.store.restore(())).accounts
        assert restored[SECOND] == StoredAccount(0, None)
        await opened.store.accounts.choose(FIRST, is_own=False)
        assert (await opened.store.restore(())).accounts[FIRST] == StoredAccount(1, is_own=False)


def test_contract_has_an_account_by_choice_by_default_or_because_it_has_paid() -> None:
    for is_own, next_nonce, usual, has in (
        (None, 0, False, False),
        (None, 0, True, True),
        (False, 0, True, False),
        (True, 0, False, True),
        (False, 1, False, True),
    ):
        assert ContractAccount(FIRST, is_own, next_nonce).has_account(usual) is has


async def accounts_in(database: Database) -> tuple[ContractAccount, ...]:
    if isinstance(database, SqliteDatabase):
        return accounts_in_sqlite(database._path)
    assert isinstance(database, PostgresDatabase)
    return await accounts_in_postgres(database._url, timeout_s=30)


def test_database_without_accounts_has_none(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("CREATE TABLE other (number BIGINT)")
    assert accounts_in_sqlite(tmp_path / "old.db") == ()
    with pytest.raises(Unavailable, match="unable to open"):
        accounts_in_sqlite(tmp_path / "none.db")


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
