"""PostgreSQL, for operators who have one: the same schema and the same SQL, over asyncpg.

Theory of operation. One session writes, one transaction at a time; group commit makes up for it. It holds an advisory
lock, so that a second process of the same node finds the database taken. Two others read: one for the node itself, one
for callers of its APIs, whose statements the server stops when they take too long.

Every session is fenced. Whoever opens the database notes the number of its life in it, and every transaction the number
of its own, on the condition that both are as this process left them: a process that was displaced, or whose server was
replaced by one that lacks commits, changes nothing and stops (`FenceBroken`). When the connection breaks it is made
again at the next need. Then the lock keeps everything else from being read or written before the old session has ended
on the server, and the numbers are compared: the last one that was acknowledged, or the one that is in doubt.

A process that stands by waits for the lock instead of being refused. Both processes then hold it as a lease: the server
ends the writing session when its client sends nothing for `LEASE_S`, so a process that hangs, or a machine that is cut
off, frees the lock. The process that has it sends a statement when a quarter of that time has passed without one
(`keep`). While a long statement occupies the writing session, it asks over another one whether it still has the lock.
If the server has not answered for as long as a lease lasts, another process may have the database, and the run ends
(`LeaseLost`).

A COMMIT without an answer is in doubt until they were compared. Nothing is read meanwhile, so that nobody is told that
something is not there which is about to be. When no connection is to be had for a while, its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]

from rota.model.types import NodeName
from rota.ports import FOR_CALLER, Unavailable
from rota.store.database import (
    FENCE,
    Answer,
    DatabaseBroken,
    Fence,
    LeaseLost,
    NotWritten,
    OutcomeUnknown,
    Reading,
    Refused,
    Statement,
    Value,
    claiming,
    in_runs,
    later_life,
)
from rota.store.postgres_sessions import Patience, ReadingSession, Session, away, numbered
from rota.store.postgres_sets import as_set, sets_of
from rota.store.schema import NAME, VERSION, VERSION_TABLE, claim, missing

__all__ = ["Patience", "PostgresDatabase"]

LOCK_TRIES_MAX: Final = 10
LOCK_RETRY_S: Final = 0.2
LOOKS_AT_LOCK: Final = 16
LOOK_TRIES_MAX: Final = 5
LOOK_RETRY_S: Final = 0.2
CALLERS_STATEMENT_MS: Final = 5_000
LEASE_S: Final = 3.0
LEASE_RENEWAL_S: Final = LEASE_S / 4
# For one attempt to renew it, however late: a process that was suspended may find that none has taken its place.
LEASE_ATTEMPT_S: Final = LEASE_S / 2
# The server ends a session whose client is silent: between transactions, in one, or because its machine is gone.
LEASE_SETTINGS: Final = {
    "idle_session_timeout": f"{LEASE_S * 1_000:.0f}",
    "idle_in_transaction_session_timeout": f"{LEASE_S * 1_000:.0f}",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": f"{LEASE_S * 1_000:.0f}",
}
# Any number will do that no other programme uses for its own locks; the schema's name is the second half of the key.
LOCKS: Final = int.from_bytes(b"rota", "big")
LOCK: Final = f"SELECT pg_try_advisory_lock({LOCKS}, hashtext(current_schema()))"
# The process that has the lock, for one that waits for it.
HOLDER: Final = f"""
SELECT coalesce(host(client_addr), 'this machine'), to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = {LOCKS}::oid
    AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid AND pg_locks.database = pg_stat_activity.datid"""
BACKEND: Final = "SELECT pg_backend_pid(), current_setting('synchronous_commit')"
HAS_LOCK: Final = f"""
SELECT EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND classid = {LOCKS}::oid)"""
IS_HOLDER: Final = f"""
SELECT EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = $1 AND classid = {LOCKS}::oid
        AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid)"""
DURABLE: Final = ("on", "remote_apply")

# A session of this node, and not one that has its number by chance since a restart of the server.
END_SESSION: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = $1 AND application_name = current_setting('application_name')"""

# Errors of the contents of a transaction.
REJECTING: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError)
BREAKING: Final = (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError, asyncpg.PostgresIOError)

POOLED: Final = (
    "PostgreSQL: a pooler hands one session to several users (transaction pooling). The node's lock needs a session of "
    "its own: connect to the server itself, or set the pooler to session pooling for this database"
)


NOT_DURABLE: Final = (
    "PostgreSQL: synchronous_commit is {} although it was asked to be on: a pooler or proxy drops the settings of a "
    "session, and a commit would be acknowledged before it is on the disk. Connect to the server itself"
)


class PostgresDatabase:
    """One schema of a PostgreSQL database, by its connection string."""

    def __init__(
        self,
        url: str,
        node: NodeName,
        patience: Patience | None = None,
        callers_statement_ms: int = CALLERS_STATEMENT_MS,
        *,
        stands_by: bool = False,
    ) -> None:
        self._url = url
        self._node = node
        self._patience = patience or Patience()
        self._backend: int | None = None
        self._is_open = False
        self._fence = Fence()
        self._stands_by = stands_by
        # The types of the parameters of a statement, from the server; they depend on the schema alone.
        self._types: Final[dict[str, tuple[str, ...]]] = {}
        name = f"rota {node}"
        settings = {"application_name": name, "synchronous_commit": "on", **(LEASE_SETTINGS if stands_by else {})}
        self._writer = Session(url, settings, self._bounds, self._greet_writer)
        self._looking = Session(url, {"application_name": f"{name} looking"}, self._bounds, self._greet_reader)
        reading = {"application_name": f"{name} reading", "default_transaction_read_only": "on"}
        self._own = self._reader(reading)
        self._callers = self._reader({**reading, "statement_timeout": str(callers_statement_ms)})

    def _reader(self, settings: dict[str, str]) -> ReadingSession:
        return ReadingSession(Session(self._url, settings, self._bounds, self._greet_reader), self._bounds)

    def _bounds(self) -> Patience:
        return self._patience

    async def open(self) -> None:
        """Connect, bring the schema up to date, and have the database from now on."""
        self._is_open = False
        async with self._writer.lock:
            connection = await self._writer.connected()
            try:
                async with self._writer.within(self._patience.migration_s):
                    transaction = connection.transaction()
                    await transaction.start()
                    fence = await self._migrate(connection)
                    await transaction.commit()
            except asyncpg.PostgresError as problem:
                self._writer.drop()
                raise Refused(f"PostgreSQL: {problem}") from problem
            except Refused:
                self._writer.drop()
                raise
            self._fence, self._is_open = fence, True
            await self._refuse_pooler(connection)

    async def keep(self) -> None:
        """Renew the lease, if there is a standby, until cancelled. `LeaseLost` or `FenceBroken` ends the run."""
        loop = asyncio.get_running_loop()
        if not self._stands_by:
            await loop.create_future()
        renewed_at_s = loop.time()
        while True:
            await asyncio.sleep(LEASE_RENEWAL_S)
            # Transactions renew it too.
            renewed_at_s = max(renewed_at_s, self._writer.answered_at_s)
            began_at_s = loop.time()
            if began_at_s - renewed_at_s < LEASE_RENEWAL_S:
                continue
            problem = "the server does not answer"
            try:
                async with asyncio.timeout(max(renewed_at_s + LEASE_S - began_at_s, LEASE_ATTEMPT_S)):
                    if await self._renew_lease():
                        renewed_at_s = began_at_s
                        continue
                    problem = "the server ended the session that has it"
            except (Unavailable, asyncpg.PostgresError) as trouble:
                problem = str(trouble)
            except TimeoutError:
                pass
            if loop.time() - renewed_at_s >= LEASE_S:
                raise self._lost(problem)

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """One transaction, on the server's disk on return."""
        async with self._writer.lock:
            connection, transaction = await self._writer.begun()
            if self._fence.has(written):
                await self._writer.roll_back(transaction)
                return
            try:
                async with self._writer.within(self._patience.statements_s):
                    await self._note(connection, written)
                    for sql, run in in_runs(statements):
                        await self._execute(connection, sql, run)
            except (OverflowError, ValueError, asyncpg.DataError) as problem:
                await self._writer.roll_back(transaction)
                raise NotWritten(f"PostgreSQL: {problem}") from problem
            except asyncpg.PostgresError as problem:
                await self._writer.roll_back(transaction)
                raise _judged(problem) from problem
            except Refused:
                self._writer.drop()
                raise
            await self._commit(transaction, written)

    async def _execute(self, connection: Any, sql: str, run: Sequence[tuple[Value, ...]]) -> None:  # noqa: ANN401
        """One execution for each row of the run, or one for all of them where that is the same."""
        parts = [*sets_of(sql, run)]
        if not parts:
            await connection.executemany(numbered(sql), run)
            return
        if sql not in self._types:
            prepared = await connection.prepare(numbered(sql))
            self._types[sql] = tuple(each.name for each in prepared.get_parameters())
        for part in parts:
            await connection.execute(as_set(sql, self._types[sql]), *zip(*part, strict=True))

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, all from one moment of the database."""
        if self._fence.in_doubt is not None:
            async with self._writer.lock:
                await self._writer.connected()
        return await (self._callers if FOR_CALLER.get() else self._own).ask(reading)

    async def close(self) -> None:
        """End the sessions, and with them the lock."""
        await self._own.close()
        await self._callers.close()
        await self._looking.close()
        await self._writer.close()

    async def _migrate(self, connection: Any) -> Fence:  # noqa: ANN401
        await connection.execute(VERSION_TABLE.sql)
        version = await connection.fetchval(VERSION.sql)
        for statement in missing(version or 0):
            await connection.execute(numbered(statement.sql), *statement.parameters)
        name = await connection.fetchval(NAME.sql)
        for statement in claim(name, self._node):
            await connection.execute(numbered(statement.sql), *statement.parameters)
        written, latest = await connection.fetchrow(FENCE.sql)
        life = later_life(latest)
        await connection.execute(numbered(claiming(life).sql), life)
        return Fence(life, written)

    # Commits.

    async def _note(self, connection: Any, written: int) -> None:  # noqa: ANN401
        sql, parameters, _ = self._fence.noting(written)
        if await connection.execute(numbered(sql), *parameters) != "UPDATE 1":
            raise self._fence.broken(*await connection.fetchrow(FENCE.sql))

    async def _commit(self, transaction: Any, written: int) -> None:  # noqa: ANN401
        try:
            async with self._writer.within(self._patience.session_s):
                await transaction.commit()
        except (asyncpg.PostgresError, Unavailable) as problem:
            # Also an error may leave it open whether the commit has happened: only the numbers tell.
            self._writer.drop()
            self._fence.in_doubt = written
            if not await self._has_happened(written):
                raise (problem if isinstance(problem, Unavailable) else _judged(problem)) from problem
        except BaseException:
            self._fence.in_doubt = written
            raise
        else:
            self._fence.acknowledge(written)

    async def _has_happened(self, written: int) -> bool:
        """A new session finds out whether the commit with this number is in the database."""
        problem = Unavailable("PostgreSQL: it does not say whether a commit has happened")
        with suppress(Unavailable):
            async with self._writer.within(self._patience.look_s):
                for attempt in range(LOOK_TRIES_MAX):
                    try:
                        await self._writer.connected()
                        return self._fence.has(written)
                    except Unavailable as broken:
                        problem = broken
                        await asyncio.sleep(LOOK_RETRY_S * 2**attempt)
        raise OutcomeUnknown(str(problem)) from problem

    # Sessions.

    async def _greet_writer(self, connection: Any) -> None:  # noqa: ANN401
        await self._take_lock(connection)
        self._backend, durability = await connection.fetchrow(BACKEND)
        if durability not in DURABLE:
            raise Refused(NOT_DURABLE.format(durability))
        if self._is_open:
            self._fence.settle(*await connection.fetchrow(FENCE.sql))

    async def _greet_reader(self, connection: Any) -> None:  # noqa: ANN401
        least = self._fence.acknowledged
        written, life = await connection.fetchrow(FENCE.sql)
        self._fence.judge(written, life, least)

    async def _renew_lease(self) -> bool:
        """The server answers this process, which has the lock. A session that was lost is made again, and fenced."""
        if self._writer.lock.locked():
            # A new session each time, which is fenced.
            self._looking.drop()
            return bool(await self._looking.ask(IS_HOLDER, self._backend))
        await self._writer.ask("SELECT 1")
        return True

    def _lost(self, problem: str) -> LeaseLost:
        lost = LeaseLost(
            f"the lease of the database has run out: {problem.removeprefix('PostgreSQL: ')}. The standby may be active "
            "now. This process stops"
        )
        for session in (self._writer, self._looking):
            session.end(lost)
        for reading in (self._own, self._callers):
            reading.session.end(Unavailable(f"PostgreSQL: {lost}"))
        return lost

    async def _take_lock(self, connection: Any) -> None:  # noqa: ANN401
        """A session of our own that broke is ended on the other side too; somebody else's is not ours to end."""
        # A process that stands by is asked to open the database again and again.
        for _ in range(1 if self._stands_by and not self._is_open else LOCK_TRIES_MAX):
            if await connection.fetchval(LOCK):
                return
            if self._backend is not None:
                await connection.fetchval(END_SESSION, self._backend)
            if self._is_open:
                written, life = await connection.fetchrow(FENCE.sql)
                self._fence.judge(written, life, self._fence.acknowledged)
            await asyncio.sleep(LOCK_RETRY_S)
        if not self._is_open and self._stands_by:
            raise Unavailable(f"standing by: {await self._holder(connection)} is active")
        if not self._is_open:
            raise Refused("PostgreSQL: another process has this database open")
        raise Unavailable("PostgreSQL: another session has the lock of this database")

    @staticmethod
    async def _holder(connection: Any) -> str:  # noqa: ANN401
        found = await connection.fetchrow(HOLDER)
        if found is None:
            return "another process of this node"
        address, since = found
        return f"the process of this node at {address}, connected since {since} UTC,"

    async def _refuse_pooler(self, connection: Any) -> None:  # noqa: ANN401
        """While another session is in a transaction, ours must be another one, and always the one that has the lock.

        A pooler that takes its sessions in turn meets the one with the lock by chance now and then.
        """
        reading = self._own.session
        try:
            async with reading.lock:
                other, transaction = await reading.begun(readonly=True)
                async with reading.within(self._patience.session_s):
                    backend, _ = await other.fetchrow(BACKEND)
                    is_own = backend != self._backend
                    for _ in range(LOOKS_AT_LOCK):
                        if is_own:
                            async with self._writer.within(self._patience.session_s):
                                is_own = await connection.fetchval(HAS_LOCK)
                await reading.roll_back(transaction)
        except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
            # What one session has prepared, another does not know.
            is_own = False
        except asyncpg.PostgresError as problem:
            raise away(problem) from problem
        if not is_own:
            self._writer.drop()
            reading.drop()
            raise Refused(POOLED)


def _judged(problem: asyncpg.PostgresError) -> Exception:
    """Whether the transaction or the disk is at fault, or the next attempt may succeed."""
    if isinstance(problem, REJECTING):
        return NotWritten(f"PostgreSQL: {problem}")
    if isinstance(problem, BREAKING):
        return DatabaseBroken(f"PostgreSQL: {problem}. The process ends; a new one reads the database again")
    return away(problem)
