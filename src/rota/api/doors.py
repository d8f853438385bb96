"""What every way in does before it looks at a request: is this page, this caller, this much welcome?

The three ways in (HTTP, WebSocket, operators) share one `Door`, so that attempts and bytes are counted together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import hdrs, web

from rota.api.credentials import Caller, Doorkeeper, Refused
from rota.api.errors import ErrorCode, Rejected
from rota.api.metrics import EntranceMetrics

ANY_ORIGIN: Final = "*"


class TooMuch(Exception):
    """So many bytes are in the house already that there is no room for these."""


class Door:
    """Lets callers and their bytes in, and counts whom it refuses."""

    def __init__(
        self, doorkeeper: Doorkeeper, origins: tuple[str, ...], bodies_bytes_max: int, metrics: EntranceMetrics
    ) -> None:
        self._doorkeeper: Final = doorkeeper
        self._origins: Final = origins
        self._bodies_bytes_max: Final = bodies_bytes_max
        self._bodies_bytes = 0
        self.metrics: Final = metrics

    def is_welcome_page(self, request: web.BaseRequest) -> bool:
        """A browser names the page that a request is for; other programs name none."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or ANY_ORIGIN in self._origins or origin in self._origins:
            return True
        self.metrics.refused("origin")
        return False

    async def admit(self, request: web.BaseRequest) -> Caller:
        """Who calls. `Rejected` when it is nobody that we know."""
        try:
            return await self._doorkeeper.admit(request.headers.get(hdrs.AUTHORIZATION), request.remote or "")
        except Refused as refused:
            self.metrics.refused("credentials")
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", str(refused)) from None

    @contextmanager
    def room_for(self, bytes_count: int) -> Iterator[None]:
        """Keep room for a request until it is answered. `TooMuch` when there is none."""
        if self._bodies_bytes + bytes_count > self._bodies_bytes_max:
            self.metrics.refused("busy")
            raise TooMuch
        self._bodies_bytes += bytes_count
        try:
            yield
        finally:
            self._bodies_bytes -= bytes_count
