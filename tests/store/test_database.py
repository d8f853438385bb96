"""How statements are put together, and what a migration is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rota.model.types import NodeName
from rota.store.database import Refused, Statement, in_runs
from rota.store.schema import claim, migrations, missing
from tests.store.kit import in_loop, new_sqlite


def test_statements_of_one_text_go_together_when_their_rows_differ() -> None:
    one, other = b"1", b"2"
    statements = [
        Statement("insert", (1,), one),
        Statement("update", (1,), one),
        Statement("insert", (2,), other),
        Statement("update", (2,), other),
    ]
    assert in_runs(statements) == [("insert", [(1,), (2,)]), ("update", [(1,), (2,)])]


def test_statements_on_one_row_stay_in_their_order() -> None:
    row = b"1"
    statements = [Statement("park", (1,), row), Statement("end", (2,), row), Statement("park", (3,), row)]
    assert in_runs(statements) == [("park", [(1,)]), ("end", [(2,)]), ("park", [(3,)])]


def test_nothing_overtakes_a_statement_without_a_key() -> None:
    statements = [Statement("a", (1,), b"1"), Statement("b", (2,)), Statement("a", (3,), b"3"), Statement("b", (4,))]
    assert in_runs(statements) == [("a", [(1,)]), ("b", [(2,)]), ("a", [(3,)]), ("b", [(4,)])]


def test_a_database_gets_the_migrations_that_it_lacks() -> None:
    latest = migrations()[-1].version
    first = [statement.sql for statement in missing(0)]
    assert first[0].startswith("CREATE TABLE node")
    assert first[-1].startswith("INSERT INTO schema_version")
    assert list(missing(latest)) == []
    with pytest.raises(Refused, match=f"version {latest + 1}"):
        list(missing(latest + 1))


def test_a_database_belongs_to_one_node() -> None:
    assert len(list(claim("", NodeName("node1")))) == 1
    assert list(claim("node1", NodeName("node1"))) == []
    with pytest.raises(Refused, match="belongs to node1, not to node2"):
        list(claim("node1", NodeName("node2")))


@in_loop
async def test_sqlite_that_lacks_a_statement_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 26, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.26.0")
    with pytest.raises(Refused, match=r"SQLite 3\.26\.0 is too old: 3\.33\.0 or later"):
        await new_sqlite(tmp_path).open()
