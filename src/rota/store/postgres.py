"""PostgreSQL, for operators who have one: the same schema and the same SQL, over asyncpg.

Theory of operation. One connection does everything, one transaction at a time; group commit makes up for it. The
session holds an advisory lock, so that a second process of the same node finds the database taken. When the
connection breaks it is made again at the next need, and the lock is what makes that safe: a session that is
not gone yet on the other side may still be committing, and nothing is read or written before it has ended.

A COMMIT without an answer is looked into over the new connection. When there is none to be had for a while, its
outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]

from rota.ports import Unavailable
from rota.store.database import (
    WRITTEN,
    Answer,
    NotWritten,
    OutcomeUnknown,
    Reading,
    Refused,
    Statement,
    in_runs,
    noting,
)
from rota.store.schema import NAME, VERSION, VERSION_TABLE, claim, missing
from rota.types import NodeName

CONNECT_TIMEOUT_S: Final = 5.0
COMMAND_TIMEOUT_S: Final = 30.0
LOCK_TRIES_MAX: Final = 10
LOCK_RETRY_S: Final = 0.2
LOOK_TRIES_MAX: Final = 5
LOOK_RETRY_S: Final = 0.2
# Any number will do that no other programme uses for its own locks; the schema's name is the second half of the key.
LOCK: Final = f"SELECT pg_try_advisory_lock({int.from_bytes(b'rota', 'big')}, hashtext(current_schema()))"

# What says that the connection or the server is gone, and not that a statement is wrong.
AWAY: Final = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
)


class PostgresDatabase:
    """One schema of a PostgreSQL database, by its connection string."""

    def __init__(self, url: str, node: NodeName) -> None:
        self._url = url
        self._node = node
        self._connection: Any = None
        self._backend: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        async with self._one_at_a_time:
            connection = await self._connected(is_first=True)
            try:
                async with connection.transaction():
                    await self._migrate(connection)
            except AWAY as problem:
                self._drop()
                raise _away(problem) from problem
            except Refused:
                self._drop()
                raise

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """One transaction, on the server's disk on return."""
        async with self._one_at_a_time:
            connection = await self._connected()
            transaction = connection.transaction()
            try:
                await transaction.start()
                for sql, run in in_runs((*statements, noting(written))):
                    await connection.executemany(_numbered(sql), run)
            except (OverflowError, ValueError) as problem:
                # A value that a column cannot hold; some of these count as errors of the interface too.
                await self._roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem
            except AWAY as problem:
                self._drop()
                raise _away(problem) from problem
            except asyncpg.PostgresError as problem:
                await self._roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem
            try:
                await transaction.commit()
            except AWAY as problem:
                self._drop()
                if not await self._has_happened(written):
                    raise NotWritten(f"PostgreSQL: {_text(problem)}") from problem
            except asyncpg.PostgresError as problem:
                await self._roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, all from one moment of the database."""
        async with self._one_at_a_time:
            connection = await self._connected()
            try:
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    return await _answer(connection, reading)
            except (*AWAY, asyncpg.InsufficientResourcesError, asyncpg.PostgresSystemError) as problem:
                self._drop()
                raise _away(problem) from problem

    async def close(self) -> None:
        """End the session, and with it the lock."""
        async with self._one_at_a_time:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(*AWAY, asyncpg.PostgresError):
                    await connection.close(timeout=CONNECT_TIMEOUT_S)

    async def _migrate(self, connection: Any) -> None:  # noqa: ANN401
        await connection.execute(VERSION_TABLE.sql)
        version = await connection.fetchval(VERSION.sql)
        for statement in missing(version or 0):
            await connection.execute(_numbered(statement.sql), *statement.parameters)
        name = await connection.fetchval(NAME.sql)
        for statement in claim(name, self._node):
            await connection.execute(_numbered(statement.sql), *statement.parameters)

    # The session.

    async def _connected(self, *, is_first: bool = False) -> Any:  # noqa: ANN401
        """The session, with its lock; a new one if the last broke."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        try:
            connection = await asyncpg.connect(
                self._url,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                server_settings={"application_name": f"rota {self._node}", "synchronous_commit": "on", "jit": "off"},
            )
        except (*AWAY, asyncpg.PostgresError) as problem:
            raise _away(problem) from problem
        self._connection = connection
        try:
            await self._take_lock(connection, is_first=is_first)
            self._backend = connection.get_server_pid()
        except AWAY as problem:
            self._drop()
            raise _away(problem) from problem
        except BaseException:
            self._drop()
            raise
        return connection

    async def _take_lock(self, connection: Any, *, is_first: bool) -> None:  # noqa: ANN401
        """A session of our own that broke is ended on the other side too; somebody else's is not ours to end."""
        for _ in range(LOCK_TRIES_MAX):
            if await connection.fetchval(LOCK):
                return
            if self._backend is not None:
                await connection.fetchval("SELECT pg_terminate_backend($1)", self._backend)
            await asyncio.sleep(LOCK_RETRY_S)
        problem = "PostgreSQL: another process has this database open"
        raise Refused(problem) if is_first else Unavailable(problem)

    async def _has_happened(self, written: int) -> bool:
        """Look over a new connection whether the commit with this number is in the database."""
        problem: Exception | None = None
        for attempt in range(LOOK_TRIES_MAX):
            try:
                connection = await self._connected()
                return bool(await connection.fetchval(WRITTEN.sql) == written)
            except (*AWAY, Unavailable) as broken:
                problem = broken
                self._drop()
                await asyncio.sleep(LOOK_RETRY_S * 2**attempt)
        raise OutcomeUnknown(f"PostgreSQL: {_text(problem)}") from problem

    async def _roll_back(self, transaction: Any) -> None:  # noqa: ANN401
        try:
            await transaction.rollback()
        except (*AWAY, asyncpg.PostgresError):
            self._drop()

    def _drop(self) -> None:
        """A connection in doubt is not used again; to part with it in good form could take as long as it hangs."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def _answer(connection: Any, reading: Reading[Answer]) -> Answer:  # noqa: ANN401
    try:
        query = next(reading)
        while True:
            rows = await connection.fetch(_numbered(query.sql), *query.parameters)
            query = reading.send([tuple(row) for row in rows])
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        reading.close()


@cache
def _numbered(sql: str) -> str:
    """PostgreSQL numbers its parameters. No text of ours has a question mark in it."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


def _away(problem: BaseException) -> Unavailable:
    return Unavailable(f"PostgreSQL: {_text(problem)}")


def _text(problem: BaseException | None) -> str:
    """What an operator is told; some exceptions have only a name. The connection string has a password in it."""
    return str(problem) or type(problem).__name__
