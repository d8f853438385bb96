"""The checks before a request is read: is this page, this caller, this much data admitted?

HTTP, WebSockets and operators share one `Door`, so that attempts and bytes are counted together. A caller with
credentials has at most half of the total (`share_of`), so that it cannot exclude others.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from rota.rpc.credentials import Caller, Doorkeeper, Refused, share_of
from rota.rpc.errors import ErrorCode, Rejected
from rota.server.metrics import EntranceMetrics
from rota.server.settings import SHORT_ANSWER_BYTES, Settings
from rota.server.tls import certificate_digest

ANY_ORIGIN: Final = "*"
PATH_CHARACTERS_MAX: Final = 1_024


class TooMuch(Exception):
    """Requests or answers in progress leave no room for another one."""


class Door:
    """Admits callers and their bytes, and counts refusals."""

    def __init__(self, doorkeeper: Doorkeeper, settings: Settings, metrics: EntranceMetrics) -> None:
        self._doorkeeper: Final = doorkeeper
        self._origins: Final = settings.origins
        self._proxies: Final = tuple(map(ipaddress.ip_network, settings.proxies))
        limits = settings.limits
        self._bodies: Final = Room(limits.bodies_bytes_max, limits.body_bytes_max)
        self._answers: Final = Room(limits.answers_bytes_max, limits.answer_bytes_max)
        self.metrics: Final = metrics

    def is_welcome_page(self, request: web.BaseRequest) -> bool:
        """Return whether the request's origin may call. Browsers send the page's origin; other programs send none."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or ANY_ORIGIN in self._origins or origin in self._origins:
            return True
        if self._is_own_page(origin, request.headers.get(hdrs.HOST, "")):
            return True
        self.metrics.refused("origin")
        return False

    def _is_own_page(self, origin: str, host: str) -> bool:
        """Return whether the origin is this node's own, as the dashboard's is.

        Equal names prove that only where no attacker can give a name another address (DNS rebinding): the host is an
        address itself, or callers must show credentials, which a foreign page does not have.
        """
        if not host or urlsplit(origin).netloc != host:
            return False
        return self._doorkeeper.asks_credentials or _is_address(urlsplit(origin).hostname or "")

    def is_known_host(self, request: web.BaseRequest) -> bool:
        """Return whether a request without credentials may be answered under its `Host` header.

        A foreign page can have its own name resolve to this machine (DNS rebinding) and then read the answers. It
        cannot do so under an address, or under localhost.
        """
        return _is_address(urlsplit(f"//{request.headers.get(hdrs.HOST, '')}").hostname or "")

    @property
    def asks_credentials(self) -> bool:
        """Whether callers must show credentials."""
        return self._doorkeeper.asks_credentials

    def _address_of(self, request: web.BaseRequest) -> str:
        """Return the address of the client: the last one in its path that is not that of a trusted proxy."""
        # Some proxies add a second header after the one that their client sent.
        whole = ",".join(request.headers.getall("X-Forwarded-For", ()))
        path = [each.strip() for each in whole[-PATH_CHARACTERS_MAX:].split(",")]
        address = request.remote or ""
        while path and self._is_proxy(address):
            address = path.pop() or address
        return address

    def _is_proxy(self, address: str) -> bool:
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._proxies)

    async def admit(self, request: web.BaseRequest, authorization: str | None = None) -> Caller:
        """Return the caller, by the given authorization or else the request's header. `Rejected` when it is unknown."""
        shown = request.headers.get(hdrs.AUTHORIZATION) if authorization is None else authorization
        try:
            digest = certificate_digest(request.transport)
            return await self._doorkeeper.admit(shown, self._address_of(request), digest)
        except Refused as refused:
            self.metrics.refused("credentials")
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", str(refused)) from None

    @contextmanager
    def room_for(self, bytes_count: int, caller: Caller) -> Iterator[None]:
        """Reserve room for a request until it is answered. `TooMuch` when there is none, also for its answer."""
        if not self._bodies.has(bytes_count, caller) or not self._answers.has(1, caller):
            self.metrics.refused("busy")
            raise TooMuch
        with self._bodies.taken(bytes_count, caller):
            yield

    @contextmanager
    def sending(self, bytes_count: int, caller: Caller) -> Iterator[None]:
        """Count an answer until its client has received it. `TooMuch` when it is long and there is no room for it.

        A short one is always sent: it may be the only proof that a submission was accepted.
        """
        if bytes_count > SHORT_ANSWER_BYTES and not self._answers.has(bytes_count, caller):
            self.metrics.refused("busy")
            raise TooMuch
        with self._answers.taken(bytes_count, caller):
            yield


class Room:
    """Bytes held in memory for callers. A caller's share always has room for the longest single request or answer."""

    def __init__(self, most: int, longest: int) -> None:
        self._most: Final = most
        self._longest: Final = longest
        self._taken: Final[Counter[str]] = Counter()

    def has(self, count: int, caller: Caller) -> bool:
        """Return whether there is room for so many more bytes of a caller."""
        share = max(share_of(caller, self._most), self._longest)
        return self._taken.total() + count <= self._most and self._taken[caller.name] + count <= share

    @contextmanager
    def taken(self, count: int, caller: Caller) -> Iterator[None]:
        """Count these bytes during the block."""
        self._taken[caller.name] += count
        try:
            yield
        finally:
            self._taken[caller.name] -= count
            if not self._taken[caller.name]:
                del self._taken[caller.name]


def _is_address(host: str) -> bool:
    """Return whether it is an IP address or localhost, which browsers resolve themselves, and no other DNS name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
