"""What automation remembers is there after a restart; the same on both databases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rota.ports import StoredAnnouncement, StoredTriggers
from rota.store.database import Database
from rota.types import ContractAddress, NodeName
from tests.store.kit import Opened, in_loop, new_postgres, new_sqlite

NODE2 = StoredAnnouncement(NodeName("node2"), ContractAddress("0x" + "22" * 20), ("a", "b"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Awaitable[Database]]:
    """Makes an empty database of each kind."""
    server = request.getfixturevalue("server") if request.param == "postgres" else None

    async def made() -> Database:
        return new_sqlite(tmp_path) if server is None else await new_postgres(server)

    return made


@in_loop
async def test_pauses_tasks_set_aside_and_announcements_are_kept(make: Callable[[], Awaitable[Database]]) -> None:
    opened = await Opened(await make()).start(())
    book = opened.store.triggers
    try:
        assert await book.restore() == StoredTriggers()
        for _ in range(2):
            await book.keep_pause("b", True)
            await book.keep_pause("a", True)
            await book.keep_set_aside("a", "task 1", "no")
            await book.keep_set_aside("a", "task 1", "still no")
            await book.keep_set_aside("b", "task 1", "bad")
            await book.keep_announcement(StoredAnnouncement(NODE2.node, ContractAddress(""), ()))
            await book.keep_announcement(NODE2)
        assert await book.restore() == StoredTriggers(
            ("a", "b"), (("a", "task 1", "still no"), ("b", "task 1", "bad")), (NODE2,)
        )
        await book.keep_pause("a", False)
        await book.keep_set_aside("a", "task 1", None)
        await book.keep_set_aside("a", "unknown", None)
        assert await book.restore() == StoredTriggers(("b",), (("b", "task 1", "bad"),), (NODE2,))
    finally:
        await opened.store.close()
