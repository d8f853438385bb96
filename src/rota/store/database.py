"""What both databases have in common: statements, readings, and the three ways in which a transaction goes wrong.

A reading is a generator that yields queries and is sent their rows, so that one and the same text serves a
database that blocks a thread and one that is awaited. All its queries see one moment of the database.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

# A column's value: both drivers give and take these.
Value: TypeAlias = int | str | bytes | None
Row: TypeAlias = Sequence[Value]

Answer = TypeVar("Answer")


class Statement(NamedTuple):
    """One statement with its parameters, for which question marks stand."""

    sql: str
    parameters: tuple[Value, ...] = ()


# The rows have as many columns as the query names, of the types that the schema gives them: only the reader
# of a query can know which, so that rows are not typed any further here.
Reading: TypeAlias = Generator[Statement, list[tuple[object, ...]], Answer]


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


WRITTEN = Statement("SELECT written FROM node")


def noting(written: int) -> Statement:
    """By this a transaction whose commit was not answered is recognised."""
    return Statement("UPDATE node SET written = ?", (written,))


def in_runs(statements: Iterable[Statement]) -> Iterable[tuple[str, list[tuple[Value, ...]]]]:
    """Statements of the same text that follow one another, as one: databases do many in one go."""
    for sql, run in groupby(statements, key=lambda statement: statement.sql):
        yield sql, [statement.parameters for statement in run]
