"""Finding completions that may be deleted, and deleting them (`automation.shipped`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.ports import CommandStore, Unavailable
from rota.schema.commands import MICROSECONDS_PER_MS, CommandRejected
from rota.service.commands.commands import CommandOffice, wall_clock_us


class PrunableCompletions:
    """The prunable completions of one node. The office exists once the node has begun."""

    def __init__(self, office: Callable[[], CommandOffice], store: CommandStore) -> None:
        self._office: Final = office
        self._store: Final = store

    async def offset(self, keep_ms: int) -> int:
        """Return the latest offset older than this and than every supported period; 0 when there is none."""
        office = self._office()
        if not office.has_begun:
            raise Unavailable("commands are not taken yet")
        stream = office.desk.stream
        if stream.end <= stream.pruned:
            return 0
        kept_ms = max(keep_ms, office.configuration().maximum_duration_ms)
        horizon_us = stream.now_us(wall_clock_us()) - kept_ms * MICROSECONDS_PER_MS
        _, latest = await self._store.pruning_point(stream.end, horizon_us)
        return latest if latest > stream.pruned else 0

    async def prune(self, offset: int) -> None:
        """Delete all completions up to this offset."""
        try:
            await self._office().prune(offset)
        except CommandRejected as rejected:
            raise Unavailable(str(rejected)) from rejected
