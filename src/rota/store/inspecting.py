"""Inspect a node's database from outside: nothing is locked, migrated or written, and the node may be running.

For diagnosis, whichever node or version of Rota the database belongs to. A database that does not respond raises
`Unavailable`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]

from rota.model.types import ContractAddress
from rota.ports import Unavailable
from rota.store.database import WRITTEN
from rota.store.postgres_sessions import AWAY, tls_for
from rota.store.schema import NAME, VERSION, migrations
from rota.store.sqlite import BUSY_TIMEOUT_S

STEPS_BETWEEN_LOOKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Inspected:
    """The schema version of a database, its node and its write number; empty if no node has opened it."""

    version: int = 0
    node: str = ""
    written: int = 0

    @property
    def versions_known(self) -> int:
        """The latest version that this program knows."""
        return migrations()[-1].version


@dataclass(frozen=True, slots=True)
class ContractAccount:
    """A contract of a node, the operator's choice for it, and the next nonce of the account of its own."""

    contract: ContractAddress
    is_own: bool | None
    next_nonce: int

    def has_account(self, is_own_usual: bool) -> bool:
        """Whether an account of its own pays for it, or has paid before."""
        return self.next_nonce > 0 or (is_own_usual if self.is_own is None else self.is_own)


def inspect_sqlite(path: Path) -> Inspected:
    """Inspect a SQLite file."""
    try:
        with closing(_opened(path)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "schema_version" not in tables:
                return Inspected()
            (version,) = connection.execute(VERSION.sql).fetchone()
            if "node" not in tables:
                return Inspected(version or 0)
            (node,), (written,) = connection.execute(NAME.sql).fetchone(), connection.execute(WRITTEN.sql).fetchone()
            return Inspected(version or 0, node, written)
    except sqlite3.Error as problem:
        raise Unavailable(f"{path}: {problem}") from problem


def accounts_in_sqlite(path: Path) -> tuple[ContractAccount, ...]:
    """The contracts in a SQLite file, with their accounts; empty below version 30."""
    try:
        with closing(_opened(path)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            return tuple(map(_account, connection.execute(_ACCOUNTS))) if "accounts" in tables else ()
    except sqlite3.Error as problem:
        raise Unavailable(f"{path}: {problem}") from problem


def damage_of_sqlite(path: Path, limit_s: float) -> str | None:
    """The damage of a SQLite file; empty when there is none, None when `limit_s` was too short to check."""
    deadline_s = time.monotonic() + limit_s
    try:
        with closing(_opened(path)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline_s, STEPS_BETWEEN_LOOKS)
            (told,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            return "" if told == "ok" else str(told)
    except sqlite3.OperationalError as problem:
        if time.monotonic() > deadline_s:
            return None
        raise Unavailable(f"{path}: {problem}") from problem
    except sqlite3.Error as problem:
        return str(problem)


async def inspect_postgres(url: str, timeout_s: float) -> Inspected:
    """Inspect a PostgreSQL database."""
    async with _connected(url, timeout_s) as connection:
        if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
            return Inspected()
        version = await connection.fetchval(VERSION.sql)
        if await connection.fetchval("SELECT to_regclass('node')") is None:
            return Inspected(version or 0)
        return Inspected(version or 0, await connection.fetchval(NAME.sql), await connection.fetchval(WRITTEN.sql))


async def accounts_in_postgres(url: str, timeout_s: float) -> tuple[ContractAccount, ...]:
    """The contracts in a PostgreSQL database, with their accounts; empty below version 30."""
    async with _connected(url, timeout_s) as connection:
        if await connection.fetchval("SELECT to_regclass('accounts')") is None:
            return ()
        return tuple(map(_account, await connection.fetch(_ACCOUNTS)))


@asynccontextmanager
async def _connected(url: str, timeout_s: float) -> AsyncIterator[Any]:
    try:
        connection = await asyncpg.connect(url, timeout=timeout_s, command_timeout=timeout_s, ssl=tls_for(url))
    except (*AWAY, ValueError, asyncpg.PostgresError) as problem:
        raise Unavailable(f"PostgreSQL: {str(problem) or type(problem).__name__}") from problem
    try:
        yield connection
    except (*AWAY, asyncpg.PostgresError) as problem:
        raise Unavailable(f"PostgreSQL: {str(problem) or type(problem).__name__}") from problem
    finally:
        connection.terminate()


_ACCOUNTS: Final = """
SELECT contracts.address, accounts.is_own, COALESCE(accounts.next_nonce, 0)
FROM contracts LEFT JOIN accounts ON accounts.contract = contracts.address ORDER BY contracts.address"""


def _account(row: Any) -> ContractAccount:  # noqa: ANN401
    contract, is_own, next_nonce = row
    return ContractAccount(ContractAddress(contract), None if is_own is None else bool(is_own), next_nonce)


def _opened(path: Path) -> sqlite3.Connection:
    """Open it read-only: a missing file is not created."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
