"""SQLite: one file beside the node, in the standard library; the default.

Theory of operation. One thread writes, one reads for the node and one for callers of its APIs, each with a connection
of its own: in WAL mode none waits for another, and a caller's reading is stopped when it takes too long.
`synchronous=FULL` makes a commit wait for the disk. A lock on a file beside the database keeps a second process out,
and is released with the process however that ends. Every transaction is conditional on the file being as this process
left it (`database.Fence`), in case the file is replaced by another one.

SQLite restarts its log only when there is no reading. Readings without a gap between them would let the log grow with
every write, so they pause while it is long.

A COMMIT that fails is examined with a new connection, because the log on the disk decides, and not the state of the
old connection.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rota.model.types import NodeName
from rota.ports import FOR_CALLER, Unanswerable, Unavailable
from rota.store.database import (
    FENCE,
    Answer,
    DatabaseBroken,
    Fence,
    FenceBroken,
    NotWritten,
    OutcomeUnknown,
    Reading,
    ReadingTooSlow,
    Refused,
    Statement,
    claiming,
    in_runs,
    later_life,
)
from rota.store.schema import NAME, VERSION, VERSION_TABLE, claim, missing

SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)
VERSION_LEAST: Final = (3, 33, 0)
BUSY_TIMEOUT_S: Final = 5.0
READINGS_TOGETHER_MAX: Final = 64
CALLERS_READING_S: Final = 5.0
STEPS_BETWEEN_LOOKS: Final = 10_000
LOG_BYTES_MAX: Final = 268_435_456
# The pause before a reading while the log is longer, and how often: the node writes meanwhile.
PAUSE_S: Final = 0.2
BETWEEN_PAUSES_S: Final = 1.0
TOO_MUCH_ASKED: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG)
# SQLite's codes carry details in their upper bits.
PRIMARY_CODE: Final = 0xFF
REJECTING: Final = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
BREAKING: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Errors for values that no column can hold; some of these are errors of SQLite's API, and not of the file.
BAD_VALUES: Final = (ValueError, OverflowError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError)


class SqliteDatabase:
    """One SQLite file."""

    def __init__(
        self,
        path: Path,
        node: NodeName,
        callers_reading_s: float = CALLERS_READING_S,
        log_bytes_max: int = LOG_BYTES_MAX,
    ) -> None:
        self._path = path
        self._node = node
        self._fence = Fence()
        self._lock: int | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rota-store-writer")
        self._writing: sqlite3.Connection | None = None
        self._own = _Reader(path, "reader", log_bytes_max)
        self._callers = _Reader(path, "callers", log_bytes_max, callers_reading_s)

    async def open(self) -> None:
        """Open the file, or create it; only one process may have it open."""
        await self._run(self._writer, self._open)

    async def keep(self) -> None:
        """Wait until cancelled: the lock on the file needs no renewal."""
        await asyncio.get_running_loop().create_future()

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """Write one transaction, on the disk on return."""
        await self._run(self._writer, lambda: self._write(statements, written))

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, all from one moment of the database."""
        if self._fence.in_doubt is not None:
            try:
                await self._run(self._writer, self._settle)
            except OutcomeUnknown as problem:
                raise Unavailable(str(problem)) from problem
        return await (self._callers if FOR_CALLER.get() else self._own).read(reading)

    async def close(self) -> None:
        """Close the connections and release the lock."""
        await self._own.close()
        await self._callers.close()
        await self._run(self._writer, self._close_writing)
        self._writer.shutdown()

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    # In the writer's thread.

    def _open(self) -> None:
        if sqlite3.sqlite_version_info < VERSION_LEAST:
            least = ".".join(map(str, VERSION_LEAST))
            raise Refused(f"SQLite {sqlite3.sqlite_version} is too old: {least} or later is needed (UPDATE ... FROM)")
        self._close_writing()
        self._take_lock()
        try:
            connection = self._connect_to_write()
            connection.execute("BEGIN IMMEDIATE")
            try:
                fence = self._migrate(connection)
                connection.execute("COMMIT")
                self._fence = fence
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as problem:
            self._close_writing()
            raise Unavailable(f"{self._path}: {problem}") from problem
        except BaseException:
            self._close_writing()
            raise

    def _migrate(self, connection: sqlite3.Connection) -> Fence:
        connection.execute(VERSION_TABLE.sql)
        (version,) = connection.execute(VERSION.sql).fetchone()
        for statement in missing(version or 0):
            connection.execute(statement.sql, statement.parameters)
        (name,) = connection.execute(NAME.sql).fetchone()
        for statement in claim(name, self._node):
            connection.execute(statement.sql, statement.parameters)
        written, latest = connection.execute(FENCE.sql).fetchone()
        life = later_life(latest)
        connection.execute(*claiming(life)[:2])
        return Fence(life, written)

    def _take_lock(self) -> None:
        path = self._path.with_name(self._path.name + ".lock")
        try:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            self._drop_lock()
            raise Refused(f"{self._path}: another process has this database open") from problem
        except OSError as problem:
            raise Unavailable(f"{path}: {problem.strerror}") from problem

    def _drop_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _connect_to_write(self) -> sqlite3.Connection:
        self._writing = _connect(self._path)
        for setting in SETTINGS:
            self._writing.execute(setting)
        return self._writing

    def _write(self, statements: Sequence[Statement], written: int) -> None:
        self._settle()
        if self._fence.has(written):
            return
        try:
            connection = self._writing or self._connect_to_write()
        except (sqlite3.Error, OSError) as problem:
            raise Unavailable(f"{self._path}: {problem}") from problem
        try:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute(*self._fence.noting(written)[:2]).rowcount != 1:
                raise self._fence.broken(*connection.execute(FENCE.sql).fetchone())
            for sql, run in in_runs(statements):
                connection.executemany(sql, run)
        except BAD_VALUES as problem:
            self._roll_back(connection)
            raise NotWritten(f"{self._path}: {problem}") from problem
        except sqlite3.Error as problem:
            self._roll_back(connection)
            raise self._judged(problem) from problem
        except FenceBroken:
            self._roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self._fence.in_doubt = written
            self._roll_back(connection)
            self._settle()
            if not self._fence.has(written):
                raise self._judged(problem) from problem
        else:
            self._fence.acknowledge(written)

    def _judged(self, problem: sqlite3.Error) -> Exception:
        """The error to raise: the transaction or the file is at fault, or the next attempt may succeed."""
        primary = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & PRIMARY_CODE
        if primary in REJECTING:
            return NotWritten(f"{self._path}: {problem}")
        if primary in BREAKING:
            return DatabaseBroken(f"{self._path}: {problem}. The process ends; a new one reads the file again")
        return Unavailable(f"{self._path}: {problem}")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Roll back, which SQLite does by itself when the disk is full; a connection that fails to is dropped."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop_connection()

    def _settle(self) -> None:
        """Find out with a new connection whether the commit in doubt is in the database."""
        if self._fence.in_doubt is None:
            return
        self._drop_connection()
        try:
            found = self._connect_to_write().execute(FENCE.sql).fetchone()
        except (sqlite3.Error, OSError) as problem:
            self._drop_connection()
            raise OutcomeUnknown(f"{self._path}: {problem}") from problem
        self._fence.settle(*found)

    def _drop_connection(self) -> None:
        connection, self._writing = self._writing, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _close_writing(self) -> None:
        self._drop_connection()
        self._drop_lock()


class _Reader:
    """A thread that reads, with a connection of its own; without `limit_s` a reading may take any time."""

    def __init__(self, path: Path, name: str, log_bytes_max: int, limit_s: float | None = None) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._log_bytes_max = log_bytes_max
        self._may_pause_at_s = 0.0
        self._limit_s = limit_s
        self._deadline_s = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"rota-store-{name}")
        self._connection: sqlite3.Connection | None = None
        self._readings: deque[tuple[Reading[Any], asyncio.Future[Any]]] = deque()
        self._is_reading = False

    async def read(self, reading: Reading[Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        self._readings.append((reading, answered))
        if not self._is_reading:
            self._is_reading = True
            self._thread.submit(self._read_all, loop)
        return await answered

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    # In its thread.

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer all waiting readings, and later ones too: a thread switch costs more than a short reading."""
        while self._readings:
            told: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
            while self._readings and len(told) < READINGS_TOGETHER_MAX:
                reading, answered = self._readings.popleft()
                try:
                    told.append((answered, self._read(reading), None))
                except BaseException as problem:
                    told.append((answered, None, problem))
            loop.call_soon_threadsafe(_tell_all, told)
        loop.call_soon_threadsafe(self._read_more, loop)

    def _read_more(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop's thread: continue if a reading arrived after the last check."""
        self._is_reading = bool(self._readings)
        if self._is_reading:
            self._thread.submit(self._read_all, loop)

    def _read(self, reading: Reading[Answer]) -> Answer:
        self._pause_while_log_is_long()
        try:
            if self._connection is None:
                self._connection = self._connected()
            self._deadline_s = time.monotonic() + (self._limit_s or 0.0)
            return _answer(self._connection, reading)
        except (sqlite3.Error, OSError) as problem:
            if self._is_late():
                limit = f"the reading took longer than {self._limit_s:g} s; ask for less at a time"
                raise ReadingTooSlow(f"{self._path}: {limit}") from problem
            if self._limit_s is not None and getattr(problem, "sqlite_errorcode", None) in TOO_MUCH_ASKED:
                # A pattern that is too long, or a statement that is too large: an error of the caller.
                raise Unanswerable(str(problem)) from problem
            self._close()
            raise Unavailable(f"{self._path}: {problem}") from problem

    def _pause_while_log_is_long(self) -> None:
        with suppress(OSError):
            if self._log.stat().st_size > self._log_bytes_max and time.monotonic() >= self._may_pause_at_s:
                time.sleep(PAUSE_S)
                self._may_pause_at_s = time.monotonic() + BETWEEN_PAUSES_S

    def _connected(self) -> sqlite3.Connection:
        connection = _connect(self._path)
        _speak_like_postgres(connection)
        connection.execute("PRAGMA query_only = 1")
        if self._limit_s is not None:
            connection.set_progress_handler(self._is_late, STEPS_BETWEEN_LOOKS)
        return connection

    def _is_late(self) -> bool:
        return self._limit_s is not None and time.monotonic() > self._deadline_s

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Connect without implicit transactions. The file has private states in it: only its owner may read it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)


def _speak_like_postgres(connection: sqlite3.Connection) -> None:
    """Compare texts by code points and case, so that one query has one answer on both databases."""
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.create_collation("C", lambda one, other: (one > other) - (one < other))


def _tell_all(told: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    """Deliver the answers; a caller that stopped waiting is skipped."""
    for answered, answer, problem in told:
        if answered.done():
            continue
        if problem is None:
            answered.set_result(answer)
        else:
            answered.set_exception(problem)


def _answer(connection: sqlite3.Connection, reading: Reading[Answer]) -> Answer:
    connection.execute("BEGIN")
    try:
        query = next(reading)
        while True:
            query = reading.send(_rows(connection, query))
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        reading.close()
        if connection.in_transaction:
            connection.execute("COMMIT")


def _rows(connection: sqlite3.Connection, query: Statement) -> list[tuple[object, ...]]:
    try:
        return connection.execute(query.sql, query.parameters).fetchall()
    except BAD_VALUES as problem:
        raise Unanswerable(str(problem)) from problem
