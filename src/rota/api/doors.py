"""What every way in does before it looks at a request: is this page, this caller, this much welcome?

The three ways in (HTTP, WebSocket, operators) share one `Door`, so that attempts and bytes are counted together.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

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
        if self._is_own_page(origin, request.headers.get(hdrs.HOST, "")):
            return True
        self.metrics.refused("origin")
        return False

    def _is_own_page(self, origin: str, host: str) -> bool:
        """A page of this very place, as the dashboard is.

        That both have one name proves it only where nobody can give a name another address (DNS rebinding): the name is
        an address itself, or whoever calls must show credentials, which a stranger's page does not have.
        """
        if not host or urlsplit(origin).netloc != host:
            return False
        return self._doorkeeper.asks_credentials or _is_address(urlsplit(origin).hostname or "")

    async def admit(self, request: web.BaseRequest, authorization: str | None = None) -> Caller:
        """Who calls, by the request's header or by what stands for it. `Rejected` when it is nobody that we know."""
        shown = request.headers.get(hdrs.AUTHORIZATION) if authorization is None else authorization
        try:
            return await self._doorkeeper.admit(shown, request.remote or "")
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


def _is_address(host: str) -> bool:
    """Not a name that somebody's DNS answers for; browsers answer for localhost themselves."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
