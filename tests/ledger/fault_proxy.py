"""A proxy between a client and a node that misbehaves as real ones do, by order of a test.

It passes JSON-RPC over HTTP on, and counts what passes. A *fault* is given each POST before it is passed on and may
answer in the node's place; a *view* is given each single request and may change what the node is asked or answers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

Request = dict[str, Any]
Answer = dict[str, Any]
Ask = Callable[[Request], Awaitable[Answer]]
Fault = Callable[[web.Request, list[Request]], Awaitable[web.StreamResponse | None]]
View = Callable[[Request, Ask], Awaitable[Answer]]


class FaultProxy:
    """Stands at an address of its own before a node."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.fault: Fault | None = None
        self.view: View | None = None
        self.posts = 0
        self.batches: list[int] = []
        self.methods: Counter[str] = Counter()
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        requests: list[Request] = body if isinstance(body, list) else [body]
        self.posts += 1
        if self.fault is not None:
            instead = await self.fault(request, requests)
            if instead is not None:
                return instead
        self.batches.append(len(requests))
        self.methods.update(each["method"] for each in requests)
        if self.view is None:
            return web.json_response(await self._pass_on(body))
        answers = [await self.view(each, self._pass_on) for each in requests]
        return web.json_response(answers if isinstance(body, list) else answers[0])

    async def _pass_on(self, body: Any) -> Any:  # noqa: ANN401
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with self._session.post(self.upstream, json=body) as response:
            return json.loads(await response.read())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[tuple[FaultProxy, str]]:
    """A proxy, and the address at which it listens."""
    proxy = FaultProxy(upstream)
    application = web.Application(client_max_size=16 * 1024 * 1024)
    application.router.add_post("/", proxy.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield proxy, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await proxy.close()


def times(count: int, fault: Fault) -> Fault:
    """A fault for the first few POSTs only."""
    left = count

    async def limited(request: web.Request, requests: list[Request]) -> web.StreamResponse | None:
        nonlocal left
        if not left:
            return None
        left -= 1
        return await fault(request, requests)

    return limited


def with_status(status: int, text: str = "", **headers: str) -> Fault:
    """An answer without JSON-RPC."""

    async def fault(_: web.Request, __: list[Request]) -> web.StreamResponse | None:
        return web.Response(status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return fault


async def drop(request: web.Request, _: list[Request]) -> web.StreamResponse | None:
    """The connection ends without an answer."""
    assert request.transport is not None, "it is being answered"
    request.transport.abort()
    return web.Response()
