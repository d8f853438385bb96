"""Numbered migrations that run when a database is opened; a newer schema than ours is refused.

A migration is a file of plain SQL, `migrations/NNNN_name.sql`, and is never changed after its release: later changes
are another file. All missing ones run in one transaction, so that a database has either the old version or the new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from rota.model.types import NodeName
from rota.store.database import Refused, Statement

VERSION_TABLE = Statement("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)")
VERSION = Statement("SELECT MAX(version) FROM schema_version")
NAME = Statement("SELECT name FROM node")

_FILE = re.compile(r"(\d{4})_\w+\.sql")
_COMMENT = re.compile(r"--[^\n]*")


class Migration(NamedTuple):
    """The step to a version of the schema."""

    version: int
    statements: tuple[Statement, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in order; their numbers leave no gap."""
    found = []
    for file in files("rota.store").joinpath("migrations").iterdir():
        name = _FILE.fullmatch(file.name)
        if name is not None:
            parts = _COMMENT.sub("", file.read_text(encoding="utf-8")).split(";")
            statements = tuple(Statement(part.strip()) for part in parts if part.strip())
            found.append(Migration(int(name[1]), statements))
    ordered = tuple(sorted(found))
    assert [each.version for each in ordered] == list(range(1, len(ordered) + 1)), "migrations are numbered from 1"
    assert ordered, "the package has its migrations with it"
    return ordered


def missing(version: int) -> Iterator[Statement]:
    """The statements that migrate a database of this version to ours. `Refused` when it is newer than ours."""
    known = migrations()[-1].version
    if version > known:
        raise Refused(
            f"schema: the database has version {version}, and this programme knows versions up to {known}; "
            "run a programme that is as new as the one that wrote it, or restore a backup of before"
        )
    for migration in migrations()[version:]:
        yield from migration.statements
        yield Statement("INSERT INTO schema_version (version) VALUES (?)", (migration.version,))


def claim(found: str, name: NodeName) -> Iterator[Statement]:
    """Assign a database to the node that first opens it: sharing one would mix up nonces and incarnations."""
    if found and found != name:
        raise Refused(f"node: the database belongs to {found}, not to {name}")
    if not found:
        yield Statement("UPDATE node SET name = ?", (name,))
