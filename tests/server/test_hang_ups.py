"""Clients that hang up leave no traceback in a node's log, wherever they do it."""

from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
import pytest
from aiohttp import web

from rota.server.listener import Listener
from rota.server.settings import Limits
from tests.server.kit import LOCAL, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_node import MemoryNode

METHOD = "ptx_getTransactionReceipt"
QUESTION = json.dumps({"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": [UNKNOWN_ID]}).encode()
HEAD = b"POST / HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


async def saying(to: Served, *said: bytes) -> asyncio.StreamWriter:
    """A connection on which this is said."""
    host, port = to.entrance.http_url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.writelines(said)
    await writer.drain()
    return writer


async def served_meanwhile(to: Served) -> None:
    """The entrance has answered others: whatever came before was seen to."""
    for _ in range(3):
        assert (await to.get("/livez"))[0] == 200


@asynchronous
async def test_client_that_hangs_up_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    node = MemoryNode(holding=asyncio.Event())
    assert node.holding is not None
    with caplog.at_level(logging.WARNING):
        async with served(node) as to:
            in_the_body = await saying(to, HEAD % (len(QUESTION) + 100), QUESTION)
            await served_meanwhile(to)
            before_the_answer = [await saying(to, HEAD % len(QUESTION), QUESTION) for _ in range(3)]
            while node.waiting_count < len(before_the_answer):
                await asyncio.sleep(0)
            for writer in (in_the_body, *before_the_answer):
                writer.transport.abort()
            await served_meanwhile(to)
            node.holding.set()
            while node.waiting_count:
                await asyncio.sleep(0)
            await served_meanwhile(to)
    assert [(record.name, record.getMessage()) for record in caplog.records] == []


@pytest.mark.parametrize("is_gone", [True, False], ids=["client gone", "another connection"])
@asynchronous
async def test_lost_connection_is_an_error_of_the_node_only_if_the_client_is_there(
    is_gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        """The connection breaks while the answer is written; or one that the handler uses itself does."""
        if not is_gone:
            raise ConnectionResetError("the ledger")
        assert request.transport is not None
        request.transport.abort()
        made = web.Response(body=bytes(1 << 20))
        await made.prepare(request)
        await made.write_eof()
        return made

    application = web.Application()
    application.router.add_get("/", answer)
    listener = Listener(application, LOCAL, 10, Limits(), lambda: None)
    await listener.start()
    with caplog.at_level(logging.WARNING):
        async with aiohttp.ClientSession() as session:
            if is_gone:
                with pytest.raises(aiohttp.ClientError):
                    await session.get(listener.address("http"))
            else:
                assert (await session.get(listener.address("http"))).status == 500
    await listener.stop()
    assert bool(caplog.records) == (not is_gone)
