"""Databases for the tests of the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
