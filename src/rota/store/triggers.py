"""The stored state of automation (`ports.TriggerBook`): pauses, tasks set aside, announcements of nodes."""

from __future__ import annotations

from typing import Any, Final

from rota.model.types import ContractAddress, NodeName
from rota.ports import StoredAnnouncement, StoredTriggers
from rota.store.database import Read, Reading, Statement, Write

# Names of triggers have no space.
_BETWEEN: Final = " "


class TriggerBook:
    """`ports.TriggerBook` on a database."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read: Final = read
        self._write: Final = write

    async def restore(self) -> StoredTriggers:
        """All pauses, set-aside tasks and announcements."""
        return await self._read(_all())

    async def keep_pause(self, trigger: str, is_paused: bool) -> None:
        """Store that a trigger is paused, or not any more."""
        await self._write(Statement(_PAUSE if is_paused else _RESUME, (trigger,), trigger.encode()))

    async def keep_set_aside(self, trigger: str, task: str, reason: str | None) -> None:
        """Store that a task is set aside for a reason, or not any more."""
        if reason is None:
            await self._write(Statement(_PUT_BACK, (trigger, task), trigger.encode()))
        else:
            await self._write(Statement(_SET_ASIDE, (trigger, task, reason), trigger.encode()))

    async def keep_announcement(self, announced: StoredAnnouncement) -> None:
        """Store the latest announcement of a node."""
        ranked = _BETWEEN.join(announced.ranked)
        await self._write(Statement(_ANNOUNCED, (announced.node, announced.account, ranked), announced.node.encode()))


def _all() -> Reading[StoredTriggers]:
    paused: Any = yield Statement("SELECT name FROM paused_triggers ORDER BY name")
    aside: Any = yield Statement("SELECT trigger_name, task, reason FROM tasks_set_aside ORDER BY trigger_name, task")
    announced: Any = yield Statement("SELECT node, account, ranked FROM trigger_announcements ORDER BY node")
    return StoredTriggers(
        tuple(name for (name,) in paused),
        tuple((trigger, task, reason) for trigger, task, reason in aside),
        tuple(
            StoredAnnouncement(NodeName(node), ContractAddress(account), tuple(ranked.split()))
            for node, account, ranked in announced
        ),
    )


_PAUSE: Final = "INSERT INTO paused_triggers (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
_RESUME: Final = "DELETE FROM paused_triggers WHERE name = ?"
_SET_ASIDE: Final = """
INSERT INTO tasks_set_aside (trigger_name, task, reason) VALUES (?, ?, ?)
ON CONFLICT (trigger_name, task) DO UPDATE SET reason = excluded.reason"""
_PUT_BACK: Final = "DELETE FROM tasks_set_aside WHERE trigger_name = ? AND task = ?"
_ANNOUNCED: Final = """
INSERT INTO trigger_announcements (node, account, ranked) VALUES (?, ?, ?)
ON CONFLICT (node) DO UPDATE SET account = excluded.account, ranked = excluded.ranked"""
