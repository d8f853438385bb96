"""An entrance on ports of the kernel's choosing, and clients of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec

import aiohttp
from prometheus_client import CollectorRegistry

from rota.server.entrance import Entrance
from rota.server.settings import Bind, Limits, Settings
from tests import bounds
from tests.server.memory_node import CONTRACT, MemoryNode

TEST_TIMEOUT_S = bounds.TEST_TIMEOUT_S

Parameters = ParamSpec("Parameters")

LOCAL = Bind("127.0.0.1", 0)
TRANSFER = {"type": "private", "from": "alice", "to": CONTRACT, "function": "transfer", "data": {"amount": 5}}
UNKNOWN_ID = "00000000-0000-4000-8000-000000000001"


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class Served:
    """An entrance that listens, its node, and a session to reach it with."""

    entrance: Entrance
    node: MemoryNode
    session: aiohttp.ClientSession
    clock: Clock

    async def post(self, body: object, **headers: str) -> tuple[int, Any]:
        """Send bytes, or a value as JSON; the status and the decoded answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.entrance.http_url, data=content, headers=headers) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None

    async def call(self, method: str, *params: object, **headers: str) -> Any:  # noqa: ANN401  # whatever it answers
        """The answer to one call, result or error, which comes with status 200 unless the caller may not make it."""
        status, answer = await self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers)
        is_refused = answer.get("error", {}).get("code") == -32_000
        assert status in ((401, 403) if is_refused else (200,))
        assert answer["jsonrpc"] == "2.0"
        return answer["result"] if "result" in answer else answer["error"]

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """What operators ask."""
        async with self.session.get(f"{self.entrance.operations_url}{path}", headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def served(
    node: MemoryNode | None = None, settings: Settings | None = None, limits: Limits | None = None
) -> AsyncIterator[Served]:
    """Serve a node until the block ends."""
    node = node or MemoryNode()
    settings = settings or Settings(http=LOCAL, websocket=LOCAL)
    if limits is not None:
        settings = replace(settings, limits=limits)
    clock = Clock()
    entrance = Entrance(node, settings, CollectorRegistry(), clock)
    await entrance.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Served(entrance, node, session, clock)
    finally:
        await entrance.stop()
        await node.receipt_listeners.close()
        await node.event_listeners.close()


def asynchronous(test: Callable[Parameters, Awaitable[None]]) -> Callable[Parameters, None]:
    """Run a test in an event loop of its own; one that hangs fails."""

    @wraps(test)
    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(TEST_TIMEOUT_S):
                await test(*arguments, **named)

        asyncio.run(bounded())

    return run
