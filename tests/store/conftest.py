"""Databases for the tests of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.database import Database
from tests.store.kit import Make, new_postgres, new_sqlite
from tests.store.servers import PostgresServer, postgres_folder


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """One for all tests of a process: each has a schema of its own in it."""
    programmes = postgres_folder()
    if programmes is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")
    running = PostgresServer(programmes)
    try:
        running.start()
        yield running
    finally:
        running.remove()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes an empty database of each kind."""
    server = request.getfixturevalue("server") if request.param == "postgres" else None

    async def made() -> Database:
        return new_sqlite(tmp_path) if server is None else await new_postgres(server)

    return made
