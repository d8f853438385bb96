"""What a caller reads when the address is wrong or the node is away: a reason, and what would be right."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from rota.client import ClientLimits, Unreachable
from rota.client.jsonrpc import JsonRpc

LIMITS = ClientLimits(attempts_max=1)
HTTP2_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@asynccontextmanager
async def server_that_sends(content: bytes) -> AsyncIterator[int]:
    """A server on a port that the kernel chose, which sends this to whoever connects and closes."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def error_of(url: str) -> str:
    async with JsonRpc(url, LIMITS) as node:
        with pytest.raises(Unreachable) as caught:
            await node.ask("ptx_getTransaction")
    return str(caught.value)


@pytest.mark.parametrize("content", [b"", HTTP2_SETTINGS])
def test_port_for_peers_or_grpc_is_recognised(content: bytes) -> None:
    async def run() -> None:
        async with server_that_sends(content) as port:
            error = await error_of(f"http://127.0.0.1:{port}")
            assert "no HTTP answer: the node stopped, or this is its port for peers or for gRPC" in error

    asyncio.run(run())


def test_port_without_tls_is_recognised() -> None:
    async def run() -> None:
        async with server_that_sends(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            error = await error_of(f"https://127.0.0.1:{port}")
            assert error.endswith("an http:// address may be the right one")

    asyncio.run(run())


def test_port_for_websockets_is_recognised() -> None:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        raise AssertionError(f"nobody opens a WebSocket here: {request}")

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert runner.addresses
        port = runner.addresses[0][1]
        assert "this may be the node's port for WebSockets" in await error_of(f"http://127.0.0.1:{port}")
        await runner.cleanup()

    asyncio.run(run())


def test_refused_connection_says_that_no_process_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: connections are refused.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert asyncio.run(error_of(url)) == f"{url}: connection refused: no process listens on this port"


def test_unknown_host_is_named() -> None:
    url = "http://no-such-host.invalid:31548"
    assert asyncio.run(error_of(url)) == f"{url}: the host name 'no-such-host.invalid' cannot be resolved"
