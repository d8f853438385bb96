"""What one caller cannot take from the others over HTTP and WebSockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from aiohttp import WSServerHandshakeError

from rota.rpc.credentials import EVERY_ROLE, token_credential
from rota.server.settings import Limits, Settings
from tests import bounds
from tests.server.kit import LOCAL, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_node import MemoryNode
from tests.server.test_limits import connected, slow_reader, until

ONE, OTHER = {"Authorization": "Bearer one"}, {"Authorization": "Bearer other"}
CREDENTIALS = tuple(token_credential(name, EVERY_ROLE, name) for name in ("one", "other"))


@asynchronous
async def test_calls_of_one_caller_leave_places_for_others() -> None:
    node = MemoryNode(holding=asyncio.Event())
    limits = Limits(calls_max=8)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=CREDENTIALS, limits=limits)
    async with served(node, settings=settings) as to:
        batch = [{"id": n, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]} for n in range(20)]
        held = asyncio.create_task(to.post(batch, **ONE))
        await until(lambda: node.waiting_count >= limits.calls_max // 2)
        async with asyncio.timeout(bounds.WAIT_S):
            assert await to.call("transport_nodeName", **OTHER) == "node1"
        assert node.waiting_count == limits.calls_max // 2
        assert node.holding is not None
        node.holding.set()
        status, answers = await held
        assert (status, len(answers)) == (200, 20)


@asynchronous
async def test_websockets_of_one_caller_leave_places_for_others() -> None:
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=CREDENTIALS, limits=Limits(websockets_max=4))
    async with served(settings=settings) as to, AsyncExitStack() as stack:
        url = to.entrance.websocket_url
        for _ in range(2):
            await stack.enter_async_context(to.session.ws_connect(url, headers=ONE))
        with pytest.raises(WSServerHandshakeError) as refused:
            await to.session.ws_connect(url, headers=ONE)
        assert refused.value.status == 503
        async with to.session.ws_connect(url, headers=OTHER) as client:
            await client.send_json({"id": 1, "method": "transport_nodeName"})
            assert (await client.receive_json())["result"] == "node1"


@asynchronous
async def test_bodies_of_one_caller_leave_room_for_others() -> None:
    """Bodies that are announced and do not come."""
    limits = Limits(body_bytes_max=1_000, bodies_bytes_max=2_000, receive_timeout_ms=60_000)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=CREDENTIALS, limits=limits)
    async with served(settings=settings) as to, AsyncExitStack() as stack:
        for _ in range(4):
            _, writer = await connected(to)
            stack.callback(writer.close)
            head = "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Length: 1000\r\n\r\n"
            writer.write(head.encode())
        while await refused_by(to, "busy") < 3:
            await asyncio.sleep(0)
        assert (await to.post({"id": 1, "method": "transport_nodeName"}, **ONE))[0] == 503
        assert await to.call("transport_nodeName", **OTHER) == "node1"


@pytest.mark.slow
@asynchronous
async def test_answers_that_one_caller_does_not_take_leave_room_for_others() -> None:
    limits = Limits(answer_bytes_max=10_000_000, answers_bytes_max=20_000_000, send_timeout_ms=60_000)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=CREDENTIALS, limits=limits)
    body = json.dumps([{"id": n, "method": "rpc.discover"} for n in range(40)]).encode()
    async with served(settings=settings) as to, AsyncExitStack() as stack:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            client = stack.enter_context(slow_reader(to.entrance.http_url))
            head = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Length: %d\r\n\r\n" % len(body)
            await loop.sock_sendall(client, head + body)
        while await refused_by(to, "busy") < 2:
            await asyncio.sleep(0)
        assert (await to.post(body, **OTHER))[0] == 200


async def refused_by(to: Served, reason: str) -> float:
    _, text = await to.get("/metrics", **OTHER)
    name = f'rota_rpc_refused_total{{reason="{reason}"}} '
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), 0)
