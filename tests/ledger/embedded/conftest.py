"""A chain per test, served at a port of its own."""

from collections.abc import Iterator

import pytest

from rota.ledger.embedded import Settings
from tests.ledger.embedded.client import Client, WallClock, served


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
def client(clock: WallClock) -> Iterator[Client]:
    """A client of a chain that mines at once."""
    with served(Settings(clock_s=clock)) as client:
        yield client


@pytest.fixture
def idle(clock: WallClock) -> Iterator[Client]:
    """A client of a chain that mines only when it is told to."""
    with served(Settings(clock_s=clock, instant=False)) as client:
        yield client
