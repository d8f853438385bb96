"""One port: an aiohttp application with a bound on connections.

Theory of operation. A connection is busy while one of its requests is handled, a WebSocket for as long as it is open;
otherwise it is idle. When the bound is reached, a new connection replaces an idle one: the oldest that has never had a
request answered, or else the one that has been idle for longest. So silent connections exclude no client. If all are
busy, a few more connections are accepted, and serve health checks alone (`ALWAYS_SERVED`).

A connection that sends nothing, or a request's head too slowly, is closed after `idle_timeout_ms`, which aiohttp counts
from its first moment. One whose request was refused before its end has `receive_timeout_ms` to send the rest, which is
discarded, so that it reads the refusal.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import hdrs, web

from rota.server.masked_frames import MaskedFrames, PartialMessages
from rota.server.settings import Bind, Limits

RESERVED_MAX: Final = 16
ALWAYS_SERVED: Final = ("/livez", "/readyz", "/metrics")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    """Serves an application at one address until it is stopped."""

    def __init__(
        self,
        application: web.Application,
        bind: Bind,
        connections_max: int,
        limits: Limits,
        too_many: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._bind: Final = bind
        self._connections_max: Final = connections_max
        self._too_many: Final = too_many
        self._tls: Final = tls
        self._handshake_s: Final = limits.receive_timeout_ms / 1_000
        self._connections: Final = Connections()
        self._partial: Final = PartialMessages(limits.bodies_bytes_max, limits.receive_timeout_ms / 1_000)
        self._handler_options: Final[dict[str, Any]] = {
            "access_log": None,
            "keepalive_timeout": limits.idle_timeout_ms / 1_000,
            "lingering_time": limits.receive_timeout_ms / 1_000,
        }
        application.middlewares.append(self._watched())
        self._runner: Final = web.AppRunner(
            application,
            handle_signals=False,
            # A client that disconnects cancels its calls, whose answers it would not receive.
            handler_cancellation=True,
            shutdown_timeout=limits.stop_timeout_ms / 1_000,
            **self._handler_options,
        )
        self._listening: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Start to listen. `OSError` when the address cannot be bound."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._listening = await loop.create_server(
                self._new_connection,
                self._bind.host,
                self._bind.port,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s if self._tls is not None else None,
            )
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, let requests in progress end within their timeout, and close the rest."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return self._connections.count

    def address(self, scheme: str) -> str:
        """Return the address at which it listens, as a URL."""
        host = f"[{self._bind.host}]" if ":" in self._bind.host else self._bind.host
        return f"{scheme}{'s' if self._tls is not None else ''}://{host}:{self.port}"

    def _new_connection(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None, "it is made before we listen"
        connections = self._connections
        if connections.count >= self._connections_max:
            self._too_many()
            if not connections.end_an_idle_one() and connections.count >= self._connections_max + RESERVED_MAX:
                return _ClosedAtOnce()
        loop = asyncio.get_running_loop()
        made = Connection(server, connections, self._partial, loop, self._handler_options)
        connections.add(made)
        if self._tls is not None:
            # asyncio does not report a failed handshake.
            loop.call_later(2 * self._handshake_s, connections.remove_if_unmade, made)
        return made

    def _watched(self) -> Any:  # noqa: ANN401  # aiohttp's type of a middleware
        connections = self._connections

        @web.middleware
        async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
            with connections.busy(request.protocol):
                if connections.busy_count > self._connections_max and request.path not in ALWAYS_SERVED:
                    self._too_many()
                    answer = web.Response(
                        status=web.HTTPServiceUnavailable.status_code, headers={hdrs.RETRY_AFTER: "1"}
                    )
                    answer.force_close()
                    return answer
                try:
                    return await handler(request)
                except ConnectionError:
                    transport = request.transport
                    if transport is not None and not transport.is_closing():
                        raise
                    # The client disconnected before it had its answer, which is no error of this node.
                    return web.Response()

        return watched


class Connections:
    """The connections of one listener, by state."""

    def __init__(self) -> None:
        # Each in the order in which they entered the state.
        self._fresh: Final[dict[web.RequestHandler, None]] = {}
        self._idle: Final[dict[web.RequestHandler, None]] = {}
        self._busy: Final[dict[web.RequestHandler, None]] = {}

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._fresh) + len(self._idle) + len(self._busy)

    @property
    def busy_count(self) -> int:
        """How many have a request that is being handled."""
        return len(self._busy)

    def add(self, connection: web.RequestHandler) -> None:
        """Add a new connection, which has sent nothing."""
        self._fresh[connection] = None

    def remove(self, connection: web.RequestHandler) -> None:
        """Remove a connection that has ended."""
        for each in (self._fresh, self._idle, self._busy):
            each.pop(connection, None)

    def remove_if_unmade(self, connection: web.RequestHandler) -> None:
        """Remove a connection that did not finish its handshake in time and was closed."""
        if connection.transport is None:
            self.remove(connection)

    def busy(self, connection: web.RequestHandler) -> _Busy:
        """Return a context in which the connection is busy with a request."""
        return _Busy(self, connection)

    def begin(self, connection: web.RequestHandler) -> None:
        """Mark the connection as busy."""
        self.remove(connection)
        self._busy[connection] = None

    def end(self, connection: web.RequestHandler) -> None:
        """Mark the connection as idle."""
        if connection in self._busy:
            del self._busy[connection]
            self._idle[connection] = None

    def end_an_idle_one(self) -> bool:
        """Close a connection that has no request; return whether there was one."""
        for each in (self._fresh, self._idle):
            if each:
                oldest = next(iter(each))
                del each[oldest]
                oldest.force_close()
                return True
        return False


class _Busy:
    def __init__(self, connections: Connections, connection: web.RequestHandler) -> None:
        self._connections: Final = connections
        self._connection: Final = connection

    def __enter__(self) -> None:
        self._connections.begin(self._connection)

    def __exit__(self, *_: object) -> None:
        self._connections.end(self._connection)


class Connection(web.RequestHandler):
    """A connection of a listener. An unmasked WebSocket frame ends it, and so does a message that ends too late."""

    def __init__(
        self,
        server: web.Server,
        connections: Connections,
        partial: PartialMessages,
        loop: asyncio.AbstractEventLoop,
        options: dict[str, Any],
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._connections = connections
        self._partial = partial
        self._frames: MaskedFrames | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection, which has ended."""
        self._connections.remove(self)
        if self._frames is not None:
            self._frames.forget()
        super().connection_lost(exc)

    def set_parser(self, parser: Any, data_received_cb: Callable[[], None] | None = None) -> None:  # noqa: ANN401
        """Check WebSocket frames from now on."""
        self._frames = MaskedFrames(parser, self._partial, self._abort)
        super().set_parser(self._frames, data_received_cb)  # type: ignore[arg-type]  # by its shape

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _ClosedAtOnce(asyncio.Protocol):
    """A connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it before it is read."""
        transport.close()
