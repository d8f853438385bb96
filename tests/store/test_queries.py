"""What clients look for in a table is found, with the same answer on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rota.domains.queries import Query
from rota.model.types import Rejected
from rota.ports import Unavailable
from rota.sim.disk import Fate
from rota.store.database import Reading, Statement
from rota.store.queries import ROWS_DEFAULT, ROWS_MAX, Column, Kind, Table, selection, stored_text
from tests.store.kit import FaultyDatabase, Make, Opened, in_loop, new_sqlite

CREATE = Statement(
    "CREATE TABLE things (n BIGINT PRIMARY KEY, word TEXT, bytes BYTEA, id BYTEA, is_good BIGINT, at_ms BIGINT)"
)
INSERT = "INSERT INTO things (n, word, bytes, id, is_good, at_ms) VALUES (?, ?, ?, ?, ?, ?)"
ROWS: tuple[tuple[Any, ...], ...] = (
    (1, "alice", b"\xaa", UUID(int=1).bytes, 1, 1_700_000_000_000),
    (2, "Bob", b"\xbb\xbb", UUID(int=2).bytes, 0, 1_700_000_001_000),
    (3, "b\\o%b", None, UUID(int=3).bytes, 1, 1_700_000_002_000),
    (4, None, b"", UUID(int=4).bytes, 0, 1_700_000_003_000),
    (5, "Übel", b"\xaa", UUID(int=5).bytes, 1, 1_700_000_004_000),
)
TABLE = Table(
    "things",
    {
        "n": Column("n", Kind.NUMBER),
        "word": Column("word", Kind.TEXT),
        "bytes": Column("bytes", Kind.BYTES),
        "id": Column("id", Kind.UUID),
        "good": Column("is_good", Kind.BOOLEAN),
        "created": Column("at_ms", Kind.TIME),
    },
    "n",
)


def one(field: str, value: object, **more: object) -> list[dict[str, object]]:
    return [{"field": field, "value": value, **more}]


EVERY_FORM: tuple[tuple[dict[str, object], list[int]], ...] = (
    ({}, [1, 2, 3, 4, 5]),
    ({"eq": one("n", 2)}, [2]),
    ({"equal": one("n", "0x2")}, [2]),
    ({"eq": one("word", "bob")}, []),
    ({"eq": one("word", "bob", caseInsensitive=True)}, [2]),
    ({"eq": one("word", None)}, [4]),
    ({"eq": one("bytes", "0xAA")}, [1, 5]),
    ({"eq": one("bytes", "0x")}, [4]),
    ({"eq": one("id", str(UUID(int=3)))}, [3]),
    ({"eq": one("good", True)}, [1, 3, 5]),
    ({"eq": one("good", "false")}, [2, 4]),
    # What is null differs from everything.
    ({"neq": one("word", "alice")}, [2, 3, 4, 5]),
    ({"neq": one("bytes", "0xaa")}, [2, 3, 4]),
    ({"eq": one("word", "alice", **{"not": True})}, [2, 3, 4, 5]),
    ({"neq": one("word", "alice", **{"not": True})}, [1]),
    ({"lt": one("n", 3), "gt": one("n", "1")}, [2]),
    ({"lte": one("n", 3), "gte": one("n", 3)}, [3]),
    ({"gte": one("word", "a")}, [1, 3, 5]),
    ({"lessThan": one("word", "a")}, [2]),
    ({"gt": one("bytes", "0xaa")}, [2]),
    ({"gt": one("created", "2023-11-14T22:13:22Z")}, [4, 5]),
    ({"lte": one("created", 1_700_000_000)}, [1]),
    ({"lte": one("created", 1_700_000_000_000_000_000)}, [1]),
    ({"eq": one("created", 1_700_000_001_000)}, [2]),
    ({"like": one("word", "%b%")}, [2, 3, 5]),
    ({"like": one("word", "B%")}, [2]),
    ({"like": one("word", "B%", caseInsensitive=True)}, [2, 3]),
    ({"like": one("word", "b\\%")}, [3]),
    ({"like": one("word", "_____")}, [1, 3]),
    ({"like": one("word", "%", **{"not": True})}, [4]),
    ({"in": [{"field": "n", "values": [1, "5"]}]}, [1, 5]),
    ({"in": [{"field": "n", "values": []}]}, []),
    ({"in": [{"field": "word", "values": [None, "Bob"]}]}, [2, 4]),
    ({"nin": [{"field": "word", "values": ["Bob", "alice"]}]}, [3, 4, 5]),
    ({"null": [{"field": "bytes"}]}, [3]),
    ({"null": [{"field": "bytes", "not": True}]}, [1, 2, 4, 5]),
    ({"or": [{"eq": one("n", 1)}, {"gt": one("n", 3), "lt": one("n", 5)}]}, [1, 4]),
    ({"or": [{"eq": one("n", 1)}, {"eq": one("n", 2)}], "eq": one("good", True)}, [1]),
    ({"sort": ["-n"], "limit": 2}, [5, 4]),
    ({"sort": ["word"]}, [4, 2, 1, 3, 5]),
    ({"sort": ["word DESC"]}, [5, 3, 1, 2, 4]),
    ({"sort": ["good", "n DESC"]}, [4, 2, 5, 3, 1]),
    ({"limit": 0}, [1, 2, 3, 4, 5]),
)


def numbers(statement: Statement) -> Reading[list[int]]:
    rows: Any = yield statement
    return [number for (number,) in rows]


@in_loop
async def test_every_form_of_a_query_finds_what_it_says(make: Make) -> None:
    opened = await Opened(await make()).start(())
    try:
        await opened.store.write((CREATE,))
        await opened.store.write([Statement(INSERT, row) for row in ROWS])
        for given, wanted in EVERY_FORM:
            found = await opened.store.read(numbers(selection(TABLE, "n", Query.parse(given))))
            assert found == wanted, given
        within = selection(TABLE, "n", Query.parse({"gt": one("n", 1)}), also="n < 3")
        assert await opened.store.read(numbers(within)) == [2]
    finally:
        await opened.store.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"eq": one("password", "x")}, "query.field: must be one of n, word"),
        ({"sort": ["password"]}, "query.sort.field: must be one of n, word"),
        ({"eq": one("n", "x")}, "query.eq.n: must be a whole number, not 'x'"),
        ({"eq": one("n", 2**63)}, "query.eq.n: must be a whole number"),
        ({"eq": one("n", True)}, "query.eq.n: must be a whole number"),
        ({"eq": one("id", "x")}, "query.eq.id: must be a UUID"),
        ({"eq": one("bytes", "0x1")}, "query.eq.bytes: must be hex digits in pairs"),
        ({"eq": one("good", 3)}, "query.eq.good: must be true or false"),
        ({"lt": one("created", "yesterday")}, "query.lt.created: must be a time"),
        ({"lt": one("created", "2023-11-14")}, "query.lt.created: must be a time"),
        ({"lt": one("created", -(2**63) + 1)}, "query.lt.created: must be a time"),
        ({"lt": one("n", None)}, "query.lt.n: must be a whole number"),
        ({"like": one("n", "1%")}, "query.like.n: must be a pattern"),
        ({"like": one("word", "%a" * 3_000)}, "query.like.word: must be a pattern of at most 4096 characters"),
        ({"or": [{"eq": one("n", "x")}]}, "query.or.eq.n: must be a whole number"),
        ({"eq": one("word", [1])}, "query.eq.word: must be text"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, object], says: str) -> None:
    with pytest.raises(Rejected) as rejected:
        selection(TABLE, "n", Query.parse(given))
    assert str(rejected.value).startswith(says)


def test_nothing_of_a_client_is_part_of_the_text() -> None:
    evil = "x'; DROP TABLE things; --"
    statement = selection(TABLE, "n", Query.parse({"eq": one("word", evil), "like": one("word", evil)}))
    assert "DROP" not in statement.sql
    assert statement.parameters == (evil, evil)


def test_rows_are_bounded() -> None:
    assert selection(TABLE, "n", Query.parse({})).sql.endswith(f"LIMIT {ROWS_DEFAULT}")
    assert selection(TABLE, "n", Query.parse({"limit": ROWS_MAX})).sql.endswith(f"LIMIT {ROWS_MAX}")


def test_text_of_any_letters_can_be_stored() -> None:
    assert stored_text("a\0b\ud800c") == "a\ufffdb?c"


@in_loop
async def test_what_is_not_written_is_told(tmp_path: Path) -> None:
    faulty = FaultyDatabase(new_sqlite(tmp_path))
    opened = await Opened(faulty).start(())
    try:
        await opened.store.write((CREATE,))
        faulty.fate = Fate.FAILS
        with pytest.raises(Unavailable, match="the disk is failing"):
            await opened.store.write((Statement(INSERT, ROWS[0]),))
        faulty.fate = Fate.WORKS
        assert await opened.store.read(numbers(selection(TABLE, "n", Query.parse({})))) == []
    finally:
        await opened.store.close()
