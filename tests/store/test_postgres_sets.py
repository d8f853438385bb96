"""Runs of one statement that PostgreSQL carries out as one."""

from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.store.database import Reading, Statement, Value, independent, independents
from rota.store.postgres_sessions import numbered
from rota.store.postgres_sets import BYTES_MAX, ROWS_MAX, as_set, sets_of
from tests.store.kit import in_loop, new_postgres
from tests.store.servers import PostgresServer

RAISE = independent(
    """
INSERT INTO listeners (kind, name, created_at_ms, is_started, definition, acknowledged, acknowledged_place)
VALUES (?, ?, ?, (SELECT COUNT(*) FROM listeners AS others WHERE others.kind = ?), ?, ?, 0)
ON CONFLICT (kind, name) DO UPDATE SET acknowledged = excluded.acknowledged
WHERE listeners.acknowledged < excluded.acknowledged""",
    row=(0, 1),
)
MOVE = independent("UPDATE listeners SET acknowledged_place = ?\nWHERE kind = ? AND name = ?", row=(1, 2))
COPY = independent(
    """
INSERT INTO listeners (kind, name, created_at_ms, is_started, definition, acknowledged, acknowledged_place)
SELECT ?, ?, 0, 0, ?, 0, 0
WHERE NOT EXISTS (SELECT 1 FROM listeners AS others WHERE others.kind = ? AND others.name = ?)
ON CONFLICT (kind, name) DO NOTHING""",
    row=(0, 1),
)
REMOVE = independent("DELETE FROM listeners\nWHERE kind = ? AND name = ?")
ROWS = "SELECT kind, name, is_started, definition, acknowledged, acknowledged_place FROM listeners ORDER BY kind, name"


def a_row(number: int, acknowledged: int = 0, definition: bytes = b"d") -> tuple[Value, ...]:
    return ("k", f"n{number}", 1, "other", definition, acknowledged)


def test_parameters_become_columns_of_the_rows_that_are_given() -> None:
    rows = "unnest($1::int8[], $2::text[], $3::text[]) AS one(p1, p2, p3)"
    assert as_set(MOVE, ("int8", "text", "text")) == (
        f"UPDATE listeners SET acknowledged_place = one.p1\nFROM {rows}\nWHERE kind = one.p2 AND name = one.p3"
    )
    rows = "unnest($1::text[], $2::text[]) AS one(p1, p2)"
    assert as_set(REMOVE, ("text", "text")) == (
        f"DELETE FROM listeners\nUSING {rows}\nWHERE kind = one.p1 AND name = one.p2"
    )


def test_executions_for_one_row_follow_one_another_and_so_do_those_of_any_other_statement() -> None:
    apart = [a_row(number) for number in range(5)]
    assert [*sets_of(RAISE, apart)] == [apart]
    assert [*sets_of(RAISE, [*apart, a_row(3, 9)])] == []
    assert [*sets_of("UPDATE node SET written = ?", [(1,), (2,), (3,)])] == []
    assert [*sets_of(RAISE, apart[:2])] == [], "few are given one after the other"
    same = [("k", "n1")] * 4
    assert [*sets_of(REMOVE, same)] == [same], "what names no row depends on nothing"


def test_set_is_bounded_in_rows_and_bytes() -> None:
    many = [a_row(number) for number in range(2 * ROWS_MAX + 1)]
    assert [len(part) for part in sets_of(RAISE, many)] == [ROWS_MAX, ROWS_MAX, 1]
    large = [a_row(number, definition=bytes(BYTES_MAX // 2)) for number in range(5)]
    assert [len(part) for part in sets_of(RAISE, large)] == [2, 2, 1]


@pytest.mark.slow
@in_loop
async def test_set_does_what_its_executions_do(server: PostgresServer) -> None:
    """The same statements in one transaction, and each in one of its own, where there is nothing to put together."""
    statements = [
        *(Statement(RAISE, a_row(number, number)) for number in range(8)),
        *(Statement(MOVE, (number, "k", f"n{number}")) for number in (1, 2, 3, 4, 77)),
        *(Statement(RAISE, a_row(number, 5)) for number in range(8)),
        *(Statement(COPY, ("k", f"n{number}", b"c", "k", f"n{number}")) for number in (0, 7, 11, 12)),
        *(Statement(REMOVE, ("k", f"n{number}")) for number in (0, 1, 1, 5)),
    ]
    found = []
    for groups in ([statements], [[each] for each in statements]):
        database = await new_postgres(server)
        await database.open()
        try:
            for number, group in enumerate(groups, 1):
                await database.write(group, number)
            found.append(await database.read(all_rows()))
        finally:
            await database.close()
    together, apart = found
    assert together == apart
    assert len(apart) == 7


@pytest.mark.slow
@in_loop
async def test_every_statement_that_is_declared_can_be_put_together(server: PostgresServer) -> None:
    """The server takes each of them as a set: a parameter behind ON CONFLICT, for one, could be no column of a row."""
    database = await new_postgres(server)
    await database.open()
    connection = await asyncpg.connect(database._url)
    try:
        for sql in independents():
            kinds = tuple(each.name for each in (await connection.prepare(numbered(sql))).get_parameters())
            assert await connection.prepare(as_set(sql, kinds))
    finally:
        await connection.close()
        await database.close()


def all_rows() -> Reading[list[tuple[object, ...]]]:
    return (yield Statement(ROWS))
