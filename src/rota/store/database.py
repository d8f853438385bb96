"""The common part of both databases: statements, readings, and the three ways in which a transaction fails.

A reading is a generator that yields queries and is sent their rows, so that the same code works with a database that
blocks a thread and with one that is awaited. All its queries see one moment of the database.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from rota.model.types import BlockHash
from rota.ports import StoredChain, Unavailable

# The value of a column: both drivers take and return these types.
Value: TypeAlias = int | str | bytes | None
Row: TypeAlias = Sequence[Value]

Answer = TypeVar("Answer")


class Statement(NamedTuple):
    """One statement with the parameters of its question marks.

    A statement with a key reads and changes only the rows of that key, and may change places with those of other keys.
    """

    sql: str
    parameters: tuple[Value, ...] = ()
    key: bytes | None = None


# The rows have as many columns as the query names, of the types in the schema: only the code that reads a query can
# know which, so rows are not typed any further here.
Reading: TypeAlias = Generator[Statement, list[tuple[object, ...]], Answer]


class Read(Protocol):
    """Reads from the database for one part of a store."""

    async def __call__(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database does not respond."""
        ...


class Write(Protocol):
    """Writes for one part of a store; no syncpoint has to wait for these writes."""

    async def __call__(self, *statements: Statement) -> None:
        """Write one transaction, durable on return.

        `Unavailable` when it failed, `WriteInDoubt` when that is unknown.
        """
        ...


class Refused(Exception):
    """This database is not for this program or not for this node; an operator must act."""


class FenceBroken(Refused):
    """Another process changed the database. This process ends, because its state in memory is no longer true."""


class LeaseLost(Refused):
    """The server has not answered for the length of a lease: another process may have the database. The run ends."""


class DatabaseBroken(Refused):
    """The database reports an I/O error or corruption. The run ends: only a new one can find it intact."""


class NotWritten(Exception):
    """The database rejects a transaction for its contents; nothing of it is written. The database works."""


class ReadingTooSlow(Unavailable):
    """A caller's reading exceeded its time limit. The database works."""


class OutcomeUnknown(Exception):
    """A commit was sent and not answered, and the database cannot be examined: the commit may have happened."""


class Database(Protocol):
    """A database of one node. Only one process at a time has it open."""

    async def open(self) -> None:
        """Open it and migrate its schema.

        `Refused` when it belongs to another, `Unavailable` when it does not respond.
        """
        ...

    async def keep(self) -> None:
        """Keep other processes out until cancelled. `Refused` when another one has the database, or may have it."""
        ...

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """Write one transaction and its number, durable on return. Does nothing when the number is there already.

        `Unavailable` when the database does not respond, is full or read-only: nothing was written. `OutcomeUnknown`
        when that is not known: the same number can be given again. `NotWritten`, `FenceBroken` or `DatabaseBroken`.
        """
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, as of a moment at which no commit is in doubt.

        `Unavailable` when the database does not respond, `Unanswerable` when it refuses the question, or `FenceBroken`.
        """
        ...

    async def close(self) -> None:
        """Release the database."""
        ...


class Door(Protocol):
    """Access to the database for the module of a few tables; its writes share a commit with all others that wait."""

    async def write(self, statements: Sequence[Statement]) -> None:
        """Durable on return. `Unavailable` when nothing was written, `WriteInDoubt` when that is not known."""
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database does not respond."""
        ...


_ROWS: Final[dict[str, tuple[int, ...]]] = {}


def independent(sql: str, row: tuple[int, ...] = ()) -> str:
    """Declare that no execution of this statement depends on an earlier one of its run, unless both are for one row.

    `row` are the parameters that identify it, counted from 0; without them executions never depend on one another.
    """
    _ROWS[sql] = row
    return sql


def independents() -> tuple[str, ...]:
    """The texts of all statements that were declared independent."""
    return tuple(_ROWS)


def row_of(sql: str) -> tuple[int, ...] | None:
    """The parameters that identify the row that an independent statement writes; None for any other statement."""
    return _ROWS.get(sql)


WRITTEN = Statement("SELECT written FROM node")
FENCE = Statement("SELECT written, life FROM node")


def claiming(life: int) -> Statement:
    """Give the database to the process with this life number."""
    return Statement("UPDATE node SET life = ?", (life,))


def later_life(latest: int) -> int:
    """A life number for this process: greater than the latest, and never one that a failover took back."""
    return max(latest + 1, time.time_ns() // 1_000)


@dataclass(slots=True)
class Fence:
    """The state in which this process left the database: its life number, and the number of its last transaction.

    `in_doubt` is the number of a commit that was sent and not answered.
    """

    life: int = 0
    acknowledged: int = 0
    in_doubt: int | None = None

    def noting(self, written: int) -> Statement:
        """The first statement of a transaction: it changes one row, unless another process changed the database."""
        sql = "UPDATE node SET written = ? WHERE written = ? AND life = ?"
        return Statement(sql, (written, self.acknowledged, self.life))

    def acknowledge(self, written: int) -> None:
        """Note that the transaction with this number is in the database."""
        self.acknowledged, self.in_doubt = written, None

    def has(self, written: int) -> bool:
        """Whether the transaction with this number is known to be in the database."""
        return self.in_doubt is None and written <= self.acknowledged

    def settle(self, written: int, life: int) -> None:
        """Compare with the state that a new session finds while no other can write; this decides a commit in doubt."""
        if life != self.life or written not in (self.acknowledged, self.in_doubt):
            raise self.broken(written, life)
        self.acknowledge(written)

    def judge(self, written: int, life: int, least: int) -> None:
        """Check the state that a reading session finds.

        `least` was acknowledged when it asked; later writes may follow.
        """
        if life != self.life or written < least:
            raise self.broken(written, life)

    def broken(self, written: int, life: int) -> FenceBroken:
        """The error for the state that was found, with advice for the operator."""
        if life > self.life:
            return FenceBroken(
                "another process of this node has opened the database since: its life is "
                f"{life}, ours is {self.life}. This process stops. Run one process for a node"
            )
        expected = f"{self.acknowledged}" + (f" or {self.in_doubt}" if self.in_doubt is not None else "")
        return FenceBroken(
            f"the database has been wound back or written by somebody else: its write number is {written} of life "
            f"{life}, expected {expected} of life {self.life}. Commits that it acknowledged are lost. This process "
            "stops. Bring back the newest copy of the database if there is one, then start the node: public "
            "transactions that have not ended are then set aside for an operator (`rota tx aside`)"
        )


def in_runs(statements: Iterable[Statement]) -> list[tuple[str, list[tuple[Value, ...]]]]:
    """Group statements of the same text: databases execute many in one call.

    A statement joins the latest run of its text, unless a statement that it must not overtake stands behind that.
    """
    runs: list[tuple[str, list[tuple[Value, ...]]]] = []
    latest_of_text: dict[str, int] = {}
    latest_of_key: dict[bytes, int] = {}
    latest_without_key = -1
    for sql, parameters, key in statements:
        place = latest_of_text.get(sql, -1)
        before = len(runs) - 1 if key is None else max(latest_without_key, latest_of_key.get(key, -1))
        if place == -1 or place < before:
            place = latest_of_text[sql] = len(runs)
            runs.append((sql, []))
        runs[place][1].append(parameters)
        if key is None:
            latest_without_key = place
        else:
            latest_of_key[key] = place
    return runs


def known_chain() -> Reading[StoredChain]:
    """The chain that earlier runs used."""
    rows = yield Statement("SELECT confirmations, chain_genesis FROM node")
    confirmations, genesis = rows[0]
    assert confirmations is None or isinstance(confirmations, int), "the schema says so"
    assert genesis is None or isinstance(genesis, bytes), "the schema says so"
    return StoredChain(confirmations, None if genesis is None else BlockHash(genesis))


def last_written() -> Reading[int]:
    """The number of the latest transaction in the database."""
    rows = yield WRITTEN
    (written,) = rows[0]
    assert isinstance(written, int), "the schema says so"
    return written
