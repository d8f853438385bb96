"""What automation remembers is there after a restart; the same on both databases."""

from __future__ import annotations

from rota.model.types import ContractAddress, NodeName
from rota.ports import StoredAnnouncement, StoredTriggers
from tests.store.kit import Make, Opened, in_loop

NODE2 = StoredAnnouncement(NodeName("node2"), ContractAddress("0x" + "22" * 20), ("a", "b"))


@in_loop
async def test_pauses_tasks_set_aside_and_announcements_are_kept(make: Make) -> None:
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
