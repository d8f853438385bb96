"""What both databases have in common: statements, readings, and the three ways in which a transaction goes wrong.

A reading is a generator that yields queries and is sent their rows, so that one and the same text serves a
database that blocks a thread and one that is awaited. All its queries see one moment of the database.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

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


class NotWritten(Exception):
    """The database did not take a transaction, and nothing of it is there; another one may go well."""


class OutcomeUnknown(Exception):
    """A commit was given and not answered, and the database cannot be looked at: it may have happened."""


class Database(Protocol):
    """A database of one node. Only one process at a time has it open."""

    async def open(self) -> None:
        """Open it and bring its schema up to date. `Refused` when it is not for us, `Unavailable` when it is away."""
        ...

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        """One transaction, durable on return, that also notes its number.

        `Unavailable` when the database is away, `NotWritten`, or `OutcomeUnknown`.
        """
        ...

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database is away."""
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


WRITTEN = Statement("SELECT written FROM node")


def noting(written: int) -> Statement:
    """By this a transaction whose commit was not answered is recognised."""
    return Statement("UPDATE node SET written = ?", (written,))


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
