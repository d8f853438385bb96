"""What both databases have in common: statements, readings, and the three ways in which a transaction goes wrong.

A reading is a generator that yields queries and is sent their rows, so that one and the same text serves a
database that blocks a thread and one that is awaited. All its queries see one moment of the database.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from rota.model.types import BlockHash
from rota.ports import StoredChain, Unavailable

# A column's value: both drivers give and take these.
Value: TypeAlias = int | str | bytes | None
Row: TypeAlias = Sequence[Value]

Answer = TypeVar("Answer")


class Statement(NamedTuple):
    """One statement with its parameters, for which question marks stand.

    One with a key reads and changes nothing but the rows of that key, and may change places with those of others.
    """

    sql: str
    parameters: tuple[Value, ...] = ()
    key: bytes | None = None


# The rows have as many columns as the query names, of the types that the schema gives them: only the reader
# of a query can know which, so that rows are not typed any further here.
Reading: TypeAlias = Generator[Statement, list[tuple[object, ...]], Answer]


class Read(Protocol):
    """How a part of a store asks its database."""

    async def __call__(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database is away."""
        ...


class Write(Protocol):
    """How a part of a store writes what no syncpoint has to wait for."""

    async def __call__(self, *statements: Statement) -> None:
        """One transaction, durable on return. `Unavailable` when it was not taken, `WriteInDoubt` when it may be."""
        ...


class Refused(Exception):
    """This database is not for this programme or not for this node: somebody has to do something about it."""


class FenceBroken(Refused):
    """The database is not as this process left it. The process ends: what it remembers is no longer true."""


class LeaseLost(Refused):
    """The server has not answered for as long as a lease lasts: another process may have the database. The run ends."""


class DatabaseBroken(Refused):
    """The database reports an I/O error or corruption. The run ends: only a new one may find it whole."""


class NotWritten(Exception):
    """The database rejects a transaction for its contents; nothing of it is written. The database is well."""


class ReadingTooSlow(Unavailable):
    """A caller's reading took longer than it may. The database is well."""


class OutcomeUnknown(Exception):
    """A commit was given and not answered, and the database cannot be looked at: it may have happened."""


class Database(Protocol):
    """A database of one node. Only one process at a time has it open."""

    async def open(self) -> None:
        """Open it and bring its schema up to date. `Refused` when it is not for us, `Unavailable` when it is away."""
        ...

    async def keep(self) -> None:
        """Keep it from other processes, until cancelled. `Refused` when another one has it, or may have it."""
        ...

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """One transaction, durable on return, that also notes its number. With a number that is there, nothing happens.

        `Unavailable` when the database is away, full or read-only: nothing was written. `OutcomeUnknown` when that is
        not known: the same number can be given again. `NotWritten`, `FenceBroken` or `DatabaseBroken`.
        """
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, as of a moment at which no commit is in doubt.

        `Unavailable` when the database is away, `Unanswerable` when it refuses the question, or `FenceBroken`.
        """
        ...

    async def close(self) -> None:
        """Give it back."""
        ...


class Door(Protocol):
    """How the module of a few tables gets at the database: what it writes shares a commit with all that waits."""

    async def write(self, statements: Sequence[Statement]) -> None:
        """Durable on return. `Unavailable` when it is not, `WriteInDoubt` when it may be."""
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database is away."""
        ...


_ROWS: Final[dict[str, tuple[int, ...]]] = {}


def independent(sql: str, row: tuple[int, ...] = ()) -> str:
    """Declare that no execution of this statement depends on an earlier one of its run, unless both are for one row.

    `row` are the parameters that identify it, counted from 0; without them executions never depend on one another.
    """
    _ROWS[sql] = row
    return sql


def independents() -> tuple[str, ...]:
    """All that were declared."""
    return tuple(_ROWS)


def row_of(sql: str) -> tuple[int, ...] | None:
    """The parameters that identify the row that an independent statement writes; nothing for any other statement."""
    return _ROWS.get(sql)


WRITTEN = Statement("SELECT written FROM node")
FENCE = Statement("SELECT written, life FROM node")


def claiming(life: int) -> Statement:
    """From now on the process of this life has the database."""
    return Statement("UPDATE node SET life = ?", (life,))


def later_life(latest: int) -> int:
    """A number for this process: greater than the latest, and another one than any that a failover took back."""
    return max(latest + 1, time.time_ns() // 1_000)


@dataclass(slots=True)
class Fence:
    """What this process left in the database: whose it is, and the number of its last transaction.

    `in_doubt` is the number of a commit that was given and not answered.
    """

    life: int = 0
    acknowledged: int = 0
    in_doubt: int | None = None

    def noting(self, written: int) -> Statement:
        """The first statement of a transaction: it changes one row, or the database is not as we left it."""
        sql = "UPDATE node SET written = ? WHERE written = ? AND life = ?"
        return Statement(sql, (written, self.acknowledged, self.life))

    def acknowledge(self, written: int) -> None:
        """This number is in the database."""
        self.acknowledged, self.in_doubt = written, None

    def has(self, written: int) -> bool:
        """The transaction with this number is in the database."""
        return self.in_doubt is None and written <= self.acknowledged

    def settle(self, written: int, life: int) -> None:
        """What a new session finds while no other can write; a commit that was in doubt is decided by it."""
        if life != self.life or written not in (self.acknowledged, self.in_doubt):
            raise self.broken(written, life)
        self.acknowledge(written)

    def judge(self, written: int, life: int, least: int) -> None:
        """What a session that reads finds. `least` was acknowledged when it asked; the writer may have gone on."""
        if life != self.life or written < least:
            raise self.broken(written, life)

    def broken(self, written: int, life: int) -> FenceBroken:
        """What was found, and what to do."""
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
    """Statements of the same text together, as one each: databases do many in one go.

    A statement joins the latest run of its text, unless something that it must not overtake stands behind that.
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
    """The number of the latest transaction."""
    rows = yield WRITTEN
    (written,) = rows[0]
    assert isinstance(written, int), "the schema says so"
    return written
