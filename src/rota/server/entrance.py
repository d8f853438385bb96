"""The entrance of a node: HTTP, WebSocket and operators' listeners, created, started and stopped together.

Pages that the node serves, such as the dashboard, are passed in and served at the HTTP port. So is a second path to the
WebSockets, `LIVE_PATH`: a page needs only the origin that it came from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from rota.rpc.credentials import Credential, Doorkeeper, FailedAttempts
from rota.server.command_server import CommandServer
from rota.server.doors import Door
from rota.server.jsonrpc import Dispatcher
from rota.server.listener import Listener
from rota.server.loop_watch import LoopWatch
from rota.server.metrics import EntranceMetrics, NodeCollector
from rota.server.operators import Operators
from rota.server.posts import Posts
from rota.server.settings import Bind, Settings
from rota.server.table import TABLE, encoded_document
from rota.server.tls import ServerTls
from rota.server.websockets import WebSockets
from rota.service.interface import Node

LIVE_PATH: Final = "/live"


def monotonic_ms() -> int:
    """Return milliseconds of a clock that does not jump."""
    return time.monotonic_ns() // 1_000_000


class Entrance:
    """The entrance of one node. Start it once the node can answer; `readiness` reports whether it can serve."""

    def __init__(
        self,
        node: Node,
        settings: Settings,
        registry: CollectorRegistry,
        now_ms: Callable[[], int] = monotonic_ms,
        add_pages: Callable[[web.Application], None] | None = None,
    ) -> None:
        limits = settings.limits
        metrics = EntranceMetrics(registry)
        registry.register(NodeCollector(node, has_splice_names=settings.has_splice_metrics))
        attempts = FailedAttempts(
            now_ms,
            limits.failed_attempts_max,
            limits.failed_attempts_window_ms,
            limits.failed_addresses_max,
            limits.failed_delay_max_ms,
        )
        doorkeeper = Doorkeeper(settings.credentials, attempts)
        door = Door(doorkeeper, settings, metrics)
        dispatcher = Dispatcher(node, TABLE, limits, metrics)
        self._settings: Final = settings
        self._tls: Final = ServerTls(settings.tls) if settings.tls is not None else None
        self._doorkeeper: Final = doorkeeper
        self._metrics: Final = metrics
        self._credentials = settings.credentials
        self.loop_watch: Final = LoopWatch()
        metrics.watch_loop(self.loop_watch)
        self._sockets: Final = WebSockets(dispatcher, door, limits)
        self._listeners: Final[dict[str, Listener]] = {}
        self.commands: Final = (
            CommandServer(node, doorkeeper, settings.commands, limits, self._tls)
            if settings.commands is not None
            else None
        )

        operators = Operators(node, door, registry)
        http = self._application()
        Posts(dispatcher, door, limits).add_to(http)
        self._sockets.add_to(http, LIVE_PATH)
        if add_pages is not None:
            add_pages(http)
        if settings.operations is None:
            operators.add_to(http)
        else:
            alone = self._application()
            operators.add_to(alone)
            self._listen("operations", alone, settings.operations, limits.connections_max)
        self._listen("http", http, settings.http, limits.connections_max)
        if settings.websocket is not None:
            apart = self._application()
            self._sockets.add_to(apart)
            self._listen("websocket", apart, settings.websocket, limits.websockets_max)

    async def start(self) -> None:
        """Listen at all addresses, or at none. `OSError` when one cannot be bound."""
        # Encoded once, before the first request for it.
        encoded_document()
        self.loop_watch.start()
        try:
            for listener in self._listeners.values():
                await listener.start()
            if self.commands is not None:
                await self.commands.start()
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, and end requests in progress within their timeout."""
        self.loop_watch.stop()
        if self.commands is not None:
            await self.commands.stop()
        for listener in self._listeners.values():
            await listener.stop()

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The credentials in use."""
        return self._credentials

    def use_credentials(self, credentials: tuple[Credential, ...]) -> None:
        """Use these credentials from now on. WebSockets and gRPC calls of those removed or changed end."""
        self._doorkeeper.use(credentials)
        gone = frozenset(each.name for each in self._credentials if each not in credentials)
        self._credentials = credentials
        self._sockets.part_from(gone)
        if self.commands is not None:
            self.commands.part_from(gone)

    def look_for_certificate(self) -> bool:
        """Reload TLS files that have changed; return whether any had.

        `ValueError` or `OSError` if they are unusable.
        """
        return self._tls is not None and self._tls.look()

    @property
    def http_url(self) -> str:
        """The URL of JSON-RPC over HTTP."""
        return self._listeners["http"].address("http")

    @property
    def websocket_url(self) -> str:
        """The URL of JSON-RPC over WebSockets."""
        return self._listeners["websocket"].address("ws")

    @property
    def operations_url(self) -> str:
        """The URL of the operators' endpoints."""
        return self._listeners.get("operations", self._listeners["http"]).address("http")

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports of `http`, `websocket` and, where that is separate, `operations`."""
        return {name: listener.port for name, listener in self._listeners.items()}

    def connection_count(self, listener: str) -> int:
        """Return how many connections are open at `http`, `websocket` or `operations`."""
        return self._listeners[listener].connection_count

    def _application(self) -> web.Application:
        # aiohttp refuses a body of exactly this size too.
        return web.Application(client_max_size=self._settings.limits.body_bytes_max + 1)

    def _listen(self, name: str, application: web.Application, bind: Bind, connections_max: int) -> None:
        listener = Listener(
            application,
            bind,
            connections_max,
            self._settings.limits,
            lambda: self._metrics.refused("connections"),
            self._tls.context if self._tls is not None else None,
        )
        self._listeners[name] = listener
        self._metrics.watch_connections(name, lambda: listener.connection_count)
