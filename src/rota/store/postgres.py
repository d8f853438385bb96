"""PostgreSQL, for operators who have one: the same schema and the same SQL, over asyncpg.

Theory of operation. One connection does everything, one transaction at a time; group commit makes up for it. The
session holds an advisory lock, so that a second process of the same node finds the database taken. When the
connection breaks it is made again at the next need, and the lock is what makes that safe: a session that is
not gone yet on the other side may still be committing, and nothing is read or written before it has ended.

A session that broke while nobody used it is made again without anybody noticing. A COMMIT without an answer is looked
into over a new connection. When there is none to be had for a while, its outcome is unknown.

Every wait for the server has a bound (`Patience`), and a session that was not waited for, or in the middle of whose
command somebody gave up, is cut off and never spoken to again: the driver would first wait for the end of that command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
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

LOCK_TRIES_MAX: Final = 10
LOCK_RETRY_S: Final = 0.2
LOOK_TRIES_MAX: Final = 5
LOOK_RETRY_S: Final = 0.2
# Any number will do that no other programme uses for its own locks; the schema's name is the second half of the key.
LOCK: Final = f"SELECT pg_try_advisory_lock({int.from_bytes(b'rota', 'big')}, hashtext(current_schema()))"

# A session of this node, and not one that has its number by chance since a restart of the server.
END_SESSION: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = $1 AND application_name = current_setting('application_name')"""

# What says that the connection or the server is gone, and not that a statement is wrong. A session that was ended by
# an operator says so before it closes: in between, the driver finds itself in a state that it did not expect.
AWAY: Final = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may take before it counts as away."""

    session_s: float = 10.0  # To connect and have the lock, and to begin or end a transaction.
    statements_s: float = 30.0
    look_s: float = 20.0  # For what became of a commit.
    migration_s: float = 600.0


class PostgresDatabase:
    """One schema of a PostgreSQL database, by its connection string."""

    def __init__(self, url: str, node: NodeName, patience: Patience | None = None) -> None:
        self._url = url
        self._node = node
        self._patience = patience or Patience()
        self._connection: Any = None
        self._backend: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        async with self._one_at_a_time:
            connection = await self._connected(is_first=True)
            try:
                async with self._within(self._patience.migration_s):
                    transaction = connection.transaction()
                    await transaction.start()
                    await self._migrate(connection)
                    await transaction.commit()
            except asyncpg.PostgresError as problem:
                self._drop()
                raise Refused(f"PostgreSQL: {problem}") from problem
            except Refused:
                self._drop()
                raise

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """One transaction, on the server's disk on return."""
        async with self._one_at_a_time:
            connection, transaction = await self._begun()
            try:
                async with self._within(self._patience.statements_s):
                    for sql, run in in_runs((*statements, noting(written))):
                        await connection.executemany(_numbered(sql), run)
            except (OverflowError, ValueError, asyncpg.PostgresError) as problem:
                await self._roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem
            try:
                async with self._within(self._patience.session_s):
                    await transaction.commit()
            except Unavailable as problem:
                if not await self._has_happened(written):
                    raise NotWritten(str(problem)) from problem
            except asyncpg.PostgresError as problem:
                await self._roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, all from one moment of the database."""
        async with self._one_at_a_time:
            connection, transaction = await self._begun(isolation="repeatable_read", readonly=True)
            try:
                async with self._within(self._patience.statements_s):
                    answer = await _answer(connection, reading)
                    await transaction.commit()
            except asyncpg.PostgresError as problem:
                self._drop()
                raise _away(problem) from problem
            except Exception:
                # Our own fault; the transaction is still open.
                self._drop()
                raise
            return answer

    async def close(self) -> None:
        """End the session, and with it the lock."""
        async with self._one_at_a_time:
            if self._connection is not None:
                with suppress(Unavailable, asyncpg.PostgresError):
                    async with self._within(self._patience.session_s):
                        await self._connection.close()
                self._drop()

    async def _migrate(self, connection: Any) -> None:  # noqa: ANN401
        await connection.execute(VERSION_TABLE.sql)
        version = await connection.fetchval(VERSION.sql)
        for statement in missing(version or 0):
            await connection.execute(_numbered(statement.sql), *statement.parameters)
        name = await connection.fetchval(NAME.sql)
        for statement in claim(name, self._node):
            await connection.execute(_numbered(statement.sql), *statement.parameters)

    # The session.

    @asynccontextmanager
    async def _within(self, limit_s: float) -> AsyncIterator[None]:
        """One step of the session, which may take so long. When it takes longer or breaks, the session is dropped."""
        try:
            async with asyncio.timeout(limit_s):
                yield
        except ValueError:
            # A value that a column cannot hold; some of these count as errors of the interface too.
            raise
        except AWAY as problem:
            self._drop()
            raise _away(problem, f"no answer within {limit_s:g} s") from problem
        except asyncio.CancelledError:
            self._drop()
            raise

    async def _begun(self, **options: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """The session and a transaction in it. A session that broke while nobody used it is made again, once."""
        if self._connection is not None:
            with suppress(Unavailable):
                return await self._begun_on(self._connection, options)
        return await self._begun_on(await self._connected(), options)

    async def _begun_on(self, connection: Any, options: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ANN401
        try:
            async with self._within(self._patience.session_s):
                transaction = connection.transaction(**options)
                await transaction.start()
        except asyncpg.PostgresError as problem:
            self._drop()
            raise _away(problem) from problem
        return connection, transaction

    async def _connected(self, *, is_first: bool = False) -> Any:  # noqa: ANN401
        """The session, with its lock; a new one if the last broke."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._drop()
        try:
            async with self._within(self._patience.session_s):
                self._connection = await asyncpg.connect(
                    self._url,
                    timeout=self._patience.session_s,
                    server_settings={
                        "application_name": f"rota {self._node}", "synchronous_commit": "on", "jit": "off"
                    },
                )  # fmt: skip
                await self._take_lock(self._connection, is_first=is_first)
        except (ValueError, asyncpg.PostgresError) as problem:
            self._drop()
            raise _away(problem) from problem
        except (Refused, Unavailable):
            self._drop()
            raise
        self._backend = self._connection.get_server_pid()
        return self._connection

    async def _take_lock(self, connection: Any, *, is_first: bool) -> None:  # noqa: ANN401
        """A session of our own that broke is ended on the other side too; somebody else's is not ours to end."""
        for _ in range(LOCK_TRIES_MAX):
            if await connection.fetchval(LOCK):
                return
            if self._backend is not None:
                await connection.fetchval(END_SESSION, self._backend)
            await asyncio.sleep(LOCK_RETRY_S)
        problem = "PostgreSQL: another process has this database open"
        raise Refused(problem) if is_first else Unavailable(problem)

    async def _has_happened(self, written: int) -> bool:
        """Look over a new connection whether the commit with this number is in the database."""
        problem = Unavailable("PostgreSQL: it does not say whether a commit has happened")
        with suppress(Unavailable):
            async with self._within(self._patience.look_s):
                for attempt in range(LOOK_TRIES_MAX):
                    try:
                        connection = await self._connected()
                        return bool(await connection.fetchval(WRITTEN.sql) == written)
                    except (*AWAY, Unavailable, asyncpg.PostgresError) as broken:
                        problem = broken if isinstance(broken, Unavailable) else _away(broken)
                        self._drop()
                        await asyncio.sleep(LOOK_RETRY_S * 2**attempt)
        raise OutcomeUnknown(str(problem)) from problem

    async def _roll_back(self, transaction: Any) -> None:  # noqa: ANN401
        try:
            async with self._within(self._patience.session_s):
                await transaction.rollback()
        except (Unavailable, asyncpg.PostgresError):
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


def _away(problem: BaseException, otherwise: str = "") -> Unavailable:
    """What an operator is told; some exceptions have no text. The connection string has a password in it."""
    return Unavailable(f"PostgreSQL: {str(problem) or otherwise or type(problem).__name__}")
