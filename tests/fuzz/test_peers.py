"""A peer that sends anything: no node ends, no record is rejected, and honest work goes on (issue 21)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.types import NodeName, Outcome
from rota.store import PostgresDatabase, SqliteDatabase
from tests.fuzz.peers import MakeDatabase
from tests.fuzz.world import BESIDE_THE_CORE, SETTINGS, Played, play
from tests.store.conftest import server  # noqa: F401  # A fixture.
from tests.store.servers import PostgresServer
from tests.wire.samples import MESSAGE_TYPES


def on_sqlite(name: str, seed: int) -> Played:
    with tempfile.TemporaryDirectory() as folder:
        return play(name, seed, lambda node: SqliteDatabase(Path(folder) / f"{node}.db", node))


def databases_of(server: PostgresServer) -> MakeDatabase:  # noqa: F811
    """A schema for each node."""
    schemas = {NodeName(name): server.new_schema_name() for name in "ABCD"}

    async def create() -> None:
        connection = await asyncpg.connect(server.url())
        for schema in schemas.values():
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.close()

    asyncio.run(create())
    return lambda node: PostgresDatabase(server.url(schemas[node]), node)


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=1)
@given(seed=st.integers(0, 2**32))
def test_nodes_go_on_whatever_a_peer_sends(name: str, seed: int) -> None:
    played = on_sqlite(name, seed)
    assert played.ended == {Outcome.CONFIRMED: len(played.honest)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SETTINGS)
def test_nodes_on_postgresql_go_on_whatever_a_peer_sends(name: str, seed: int, server: PostgresServer) -> None:  # noqa: F811
    played = play(name, seed, databases_of(server))
    assert played.ended == {Outcome.CONFIRMED: len(played.honest)}


def test_peer_sends_messages_of_every_type() -> None:
    assert on_sqlite("noto", 1).said.keys() >= set(MESSAGE_TYPES) - set(BESIDE_THE_CORE)
