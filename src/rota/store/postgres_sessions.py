"""A session of a PostgreSQL server: made when it is needed, bounded in every wait, verified, dropped when in doubt.

A session that was not waited for, or in the middle of whose command somebody gave up, is cut off and never spoken to
again: the driver would first wait for the end of that command.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]

from rota.ports import Unanswerable, Unavailable
from rota.store.database import Answer, Reading, ReadingTooSlow, Refused

ROOT_CERTIFICATES: Final = Path("~/.postgresql/root.crt")
READINGS_WAITING_MAX: Final = 65_536

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


NAME: Final = "application_name"
SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
UNSUPPORTED: Final = "unsupported startup parameter"
LEAVE_OUT: Final = (
    "A pooler refuses a setting of the connection string: leave it out of store.url, and set it for the role with "
    "ALTER ROLE"
)

# Done with every new connection before anything else; it may refuse it.
Greet = Callable[[Any], Awaitable[None]]


class Session:
    """One connection, used by one at a time; whoever uses it holds `lock`."""

    def __init__(self, url: str, settings: dict[str, str], patience: Callable[[], Patience], greet: Greet) -> None:
        self._url: Final = url
        self._settings: Final = {"jit": "off", **settings}
        assert all(set(value) <= SAFE for name, value in settings.items() if name != NAME), "it stands in a statement"
        self._patience: Final = patience
        self._greet: Final = greet
        self._connection: Any = None
        self._ended: Exception | None = None
        # The server answered a step that began then, in seconds of the loop's clock.
        self.answered_at_s = 0.0
        self.lock: Final = asyncio.Lock()

    @property
    def _setting_all(self) -> str:
        return "; ".join(f"SET {name} = '{value}'" for name, value in self._settings.items() if name != NAME)

    @asynccontextmanager
    async def within(self, limit_s: float) -> AsyncIterator[None]:
        """One step of the session, which may take so long. When it takes longer or breaks, the session is dropped."""
        began_at_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s):
                yield
            self.answered_at_s = began_at_s
        except (ValueError, asyncpg.QueryCanceledError):
            # A value that a column cannot hold, or a statement that was stopped: the session is as good as before.
            raise
        except AWAY as problem:
            self.drop()
            raise away(problem, f"no answer within {limit_s:g} s") from problem
        except asyncio.CancelledError:
            self.drop()
            raise

    async def begun(self, **options: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """The connection and a transaction in it. One that broke while nobody used it is made again, once."""
        if self._connection is not None:
            with suppress(Unavailable):
                return await self._begun_on(self._connection, options)
        return await self._begun_on(await self.connected(), options)

    async def _begun_on(self, connection: Any, options: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ANN401
        try:
            async with self.within(self._patience().session_s):
                transaction = connection.transaction(**options)
                await transaction.start()
        except asyncpg.PostgresError as problem:
            self.drop()
            raise away(problem) from problem
        return connection, transaction

    async def connected(self) -> Any:  # noqa: ANN401
        """The connection; a new one if the last broke."""
        if self._ended is not None:
            raise self._ended
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self.drop()
        session_s = self._patience().session_s
        try:
            async with self.within(session_s):
                self._connection = await asyncpg.connect(
                    self._url,
                    timeout=session_s,
                    server_settings={NAME: self._settings[NAME]},
                    ssl=tls_for(self._url),
                    # A standby that is not promoted yet is behind, and takes no writes.
                    target_session_attrs="primary",
                )
                # By statements: PgBouncer refuses most settings in the first message of a connection.
                await self._connection.execute(self._setting_all)
                await self._greet(self._connection)
        except (ValueError, asyncpg.PostgresError) as problem:
            self.drop()
            raise away(problem) from problem
        except Unavailable as problem:
            self.drop()
            if UNSUPPORTED in str(problem):
                raise Refused(f"{problem}. {LEAVE_OUT}") from problem
            raise
        except Refused:
            self.drop()
            raise
        return self._connection

    async def ask(self, sql: str, *parameters: object) -> Any:  # noqa: ANN401
        """The value that one statement returns, over a new connection if the last broke."""
        async with self.lock:
            connection = await self.connected()
            async with self.within(self._patience().session_s):
                return await connection.fetchval(sql, *parameters)

    def end(self, problem: Exception) -> None:
        """From now on every use of it raises this."""
        self._ended = problem
        self.drop()

    async def roll_back(self, transaction: Any) -> None:  # noqa: ANN401
        """The session is as before the transaction, or gone."""
        try:
            async with self.within(self._patience().session_s):
                await transaction.rollback()
        except (Unavailable, asyncpg.PostgresError, asyncpg.InterfaceError):
            self.drop()

    def drop(self) -> None:
        """A connection in doubt is not used again; to part with it in good form could take as long as it hangs."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """End it in good form, if it can be done in time."""
        async with self.lock:
            if self._connection is not None:
                with suppress(Unavailable, asyncpg.PostgresError):
                    async with self.within(self._patience().session_s):
                        await self._connection.close()
                self.drop()


class ReadingSession:
    """Readings, one after the other, in a task of the store: who stops waiting drops nothing."""

    def __init__(self, session: Session, patience: Callable[[], Patience]) -> None:
        self.session: Final = session
        self._patience: Final = patience
        self._waiting: Final[deque[tuple[Reading[Any], asyncio.Future[Any]]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer."""
        if len(self._waiting) >= READINGS_WAITING_MAX:
            raise Unavailable(f"{READINGS_WAITING_MAX} readings are waiting for the database")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((reading, answered))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_all())
        return await answered

    async def close(self) -> None:
        """Whoever still waits is not answered."""
        for _, answered in self._waiting:
            answered.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.session.close()

    async def _read_all(self) -> None:
        while self._waiting:
            reading, answered = self._waiting.popleft()
            if answered.done():
                reading.close()
                continue
            try:
                async with self.session.lock:
                    answer = await self._read(reading)
            except asyncio.CancelledError:
                answered.cancel()
                raise
            except Exception as problem:
                if not answered.done():
                    answered.set_exception(problem)
            else:
                if not answered.done():
                    answered.set_result(answer)

    async def _read(self, reading: Reading[Answer]) -> Answer:
        connection, transaction = await self.session.begun(isolation="repeatable_read", readonly=True)
        try:
            async with self.session.within(self._patience().statements_s):
                answer = await _answer(connection, reading)
                await transaction.commit()
        except asyncpg.QueryCanceledError as problem:
            await self.session.roll_back(transaction)
            raise ReadingTooSlow(f"PostgreSQL: {problem}; ask for less at a time") from problem
        except Unanswerable:
            # The question's fault: the session is as good as before.
            await self.session.roll_back(transaction)
            raise
        except asyncpg.PostgresError as problem:
            self.session.drop()
            raise away(problem) from problem
        except Exception:
            # Our own fault; the transaction is still open.
            self.session.drop()
            raise
        return answer


async def _answer(connection: Any, reading: Reading[Answer]) -> Answer:  # noqa: ANN401
    try:
        query = next(reading)
        while True:
            try:
                rows = await connection.fetch(numbered(query.sql), *query.parameters)
            except (ValueError, OverflowError, asyncpg.DataError, asyncpg.ProgramLimitExceededError) as problem:
                raise Unanswerable(str(problem)) from problem
            query = reading.send([tuple(row) for row in rows])
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        reading.close()


@cache
def numbered(sql: str) -> str:
    """PostgreSQL numbers its parameters. No text of ours has a question mark in it."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


def away(problem: BaseException, otherwise: str = "") -> Unavailable:
    """What an operator is told; some exceptions have no text. The connection string has a password in it."""
    return Unavailable(f"PostgreSQL: {str(problem) or otherwise or type(problem).__name__}")


def tls_for(url: str) -> ssl.SSLContext | str | None:
    """How a server must prove who it is: by a certificate for its name, unless it is local or the URL names a mode.

    A URL without a host means that of PGHOST, as the driver reads it; one of a service file counts as not local.
    Certificates are checked against `sslrootcert` of the URL or ~/.postgresql/root.crt, else against the system's.
    """
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    if "sslmode" in options or all(map(_is_local, _hosts_of(parts.netloc, options))):
        return None
    if "sslrootcert" in options or ROOT_CERTIFICATES.expanduser().exists():
        return "verify-full"
    return ssl.create_default_context()


def _hosts_of(netloc: str, options: dict[str, list[str]]) -> list[str]:
    named = netloc.rpartition("@")[2].split(",") + [
        part for host in options.get("host", []) for part in host.split(",")
    ]
    if hosts := [host for host in named if host]:
        return hosts
    service = [*options.get("service", []), os.environ.get("PGSERVICE", "")]
    return [host for host in (*service, *os.environ.get("PGHOST", "").split(",")) if host]


def _is_local(host: str) -> bool:
    """A socket's folder, this machine's name, or an address of it, perhaps with a port behind it."""
    if host.startswith(("/", "%2F", "%2f")):
        return True
    name = host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.partition(":")[0]
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
