"""One port: an aiohttp application behind a bound on connections.

A connection over the bound is closed before a byte of it is read. One that sends nothing, or a request's head too
slowly, is closed after `idle_timeout_ms`, which aiohttp counts from its first moment. One whose request was refused
before its end has `receive_timeout_ms` to send the rest into nothing, so that it reads the refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from rota.api.settings import Bind, Limits


class Listener:
    """Serves an application at one place until it is stopped."""

    def __init__(
        self,
        application: web.Application,
        bind: Bind,
        connections_max: int,
        limits: Limits,
        too_many: Callable[[], None],
    ) -> None:
        self._bind: Final = bind
        self._connections_max: Final = connections_max
        self._too_many: Final = too_many
        self._runner: Final = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            # A client that goes away ends the calls that nobody would hear the answers of.
            handler_cancellation=True,
            keepalive_timeout=limits.idle_timeout_ms / 1_000,
            lingering_time=limits.receive_timeout_ms / 1_000,
            shutdown_timeout=limits.stop_timeout_ms / 1_000,
        )
        self._listening: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen. `OSError` when the address is not to be had."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._listening = await loop.create_server(self._new_connection, self._bind.host, self._bind.port)
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, let what is being answered end within the time for it, close the rest."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    @property
    def connection_count(self) -> int:
        """How many are open."""
        server = self._runner.server
        return len(server.connections) if server is not None else 0

    def address(self, scheme: str) -> str:
        """Where it listens, as a URL."""
        host = f"[{self._bind.host}]" if ":" in self._bind.host else self._bind.host
        return f"{scheme}://{host}:{self.port}"

    def _new_connection(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None, "it is made before we listen"
        if self.connection_count < self._connections_max:
            return server()
        self._too_many()
        return _ClosedAtOnce()


class _ClosedAtOnce(asyncio.Protocol):
    """A connection that there is no room for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closed before it is read."""
        transport.close()
