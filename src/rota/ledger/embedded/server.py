"""The chain over HTTP and WebSocket, at one address, as wallets and explorers expect it.

The bytes queued for a WebSocket are bounded. A client that reads more slowly than events occur is disconnected when the
queue is full: it reconnects and requests what it missed, while an unbounded buffer would exhaust the process's memory.
HTTP needs no such bound, as its clients wait for their answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.jsonrpc import Rpc
from rota.ledger.embedded.subscriptions import Subscriptions

BODY_BYTES_MAX: Final = 5 * 1024 * 1024
OUTGOING_BYTES_MAX: Final = 64 * 1024 * 1024
WEBSOCKETS_MAX: Final = 256
STOP_TIMEOUT_S: Final = 2.0

_CROSS_ORIGIN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
    "Access-Control-Allow-Headers": "content-type",
}


class ChainServer:
    """Serves one chain, with its timer, until it is stopped."""

    def __init__(
        self,
        chain: EmbeddedChain,
        *,
        outgoing_bytes_max: int = OUTGOING_BYTES_MAX,
        websockets_max: int = WEBSOCKETS_MAX,
    ) -> None:
        self._chain: Final = chain
        self._rpc: Final = Rpc(chain)
        self._outgoing_bytes_max: Final = outgoing_bytes_max
        self._websockets_max: Final = websockets_max
        self._connections: Final[set[Connection]] = set()
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_post("/", self._on_post)
        application.router.add_get("/", self._on_get)
        application.router.add_options("/", self._on_options)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_TIMEOUT_S)
        self.host = ""
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of HTTP; WebSockets are at the same address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to listen; port 0 lets the kernel choose. `OSError` when the address cannot be bound."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.host, self.port = self._runner.addresses[0][:2]
        self._chain.start()

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        self._chain.stop()
        for connection in tuple(self._connections):
            await connection.close(WSCloseCode.GOING_AWAY, b"the chain stops")
        await self._runner.cleanup()

    async def _on_post(self, request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.Response(
                status=413, text=f"a request has at most {BODY_BYTES_MAX} bytes\n", headers=_CROSS_ORIGIN
            )
        answer = self._rpc.answer(body)
        if answer is None:
            return web.Response(status=204, headers=_CROSS_ORIGIN)
        return web.Response(body=answer, content_type="application/json", headers=_CROSS_ORIGIN)

    async def _on_options(self, _: web.Request) -> web.Response:
        return web.Response(status=204, headers=_CROSS_ORIGIN)

    async def _on_get(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=BODY_BYTES_MAX, heartbeat=30)
        if not socket.can_prepare(request):
            return web.Response(
                status=405,
                text="This is an Ethereum JSON-RPC endpoint: send a POST, or open a WebSocket.\n",
                headers={"Allow": "POST, OPTIONS", **_CROSS_ORIGIN},
            )
        if len(self._connections) >= self._websockets_max:
            return web.Response(status=503, text=f"at most {self._websockets_max} WebSockets are served at once\n")
        await socket.prepare(request)
        assert request.transport is not None, "a request that is being answered has a transport"
        connection = Connection(self._chain, socket, request.transport, self._outgoing_bytes_max)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)
        return socket


class Connection:
    """One WebSocket: answers its requests, and sends its subscriptions."""

    def __init__(
        self, chain: EmbeddedChain, socket: web.WebSocketResponse, transport: asyncio.Transport, outgoing_bytes_max: int
    ) -> None:
        self._socket: Final = socket
        self._transport: Final = transport
        self._outgoing_bytes_max: Final = outgoing_bytes_max
        self._outgoing: Final[deque[bytes]] = deque()
        self._outgoing_bytes = 0
        self._something_to_send: Final = asyncio.Event()
        self._is_too_slow = False
        self._subscriptions: Final = Subscriptions(chain, self._notify)
        self._rpc: Final = Rpc(chain, self._subscriptions.methods())

    async def serve(self) -> None:
        """Serve until the client leaves, or is too slow."""
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read())
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._subscriptions.close()
            for task in (writer, reader):
                task.cancel()
                with suppress(asyncio.CancelledError, ConnectionError):
                    await task

    async def close(self, code: int, reason: bytes) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._socket.close(code=code, message=reason), STOP_TIMEOUT_S)

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                answer = self._rpc.answer(message.data)
                if answer is not None:
                    self._put(answer)

    async def _write(self) -> None:
        while not self._is_too_slow:
            await self._something_to_send.wait()
            while self._outgoing and not self._is_too_slow:
                message = self._outgoing.popleft()
                await self._socket.send_str(message.decode())
                self._outgoing_bytes -= len(message)
            self._something_to_send.clear()

    def _notify(self, notification: dict[str, Any]) -> None:
        self._put(msgspec.json.encode(notification))

    def _put(self, message: bytes) -> None:
        if self._is_too_slow:
            return
        if self._outgoing_bytes + len(message) > self._outgoing_bytes_max:
            self._is_too_slow = True
            self._outgoing.clear()
            # A client that does not read would not read a close message either.
            self._transport.abort()
        else:
            self._outgoing.append(message)
            self._outgoing_bytes += len(message)
        self._something_to_send.set()
