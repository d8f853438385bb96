"""Automation at one node: its triggers, and an operator's hand on them."""

from __future__ import annotations

from typing import Final

from rota.client.answers import TriggerRun, TriggerStatus
from rota.client.jsonrpc import JsonRpc, read


class Triggers:
    """The triggers of a node."""

    def __init__(self, node: JsonRpc) -> None:
        self._node: Final = node

    async def list(self) -> tuple[TriggerStatus, ...]:
        """All of them, and how each stands."""
        return tuple(read(await self._node.ask("trigger_list", is_repeatable=True), tuple[TriggerStatus, ...]))

    async def pause(self, name: str) -> None:
        """Let a trigger begin nothing more, also after a restart."""
        await self._node.ask("trigger_pause", name, is_repeatable=True)

    async def resume(self, name: str) -> None:
        """Let a trigger run again, and retry the tasks that were set aside."""
        await self._node.ask("trigger_resume", name, is_repeatable=True)

    async def run_once(self, name: str) -> TriggerRun:
        """Attempt all tasks that are ready, once and without delay. Asked for once, as it would run twice."""
        return read(await self._node.ask("trigger_runOnce", name), TriggerRun)
