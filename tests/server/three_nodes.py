"""Three real nodes for a whole module of tests, and a client that sends what the SDK of existing applications sends.

The nodes run in a thread of their own with its event loop; tests are plain functions and ask over HTTP, as
applications do.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp

from rota.ledger.embedded import Settings
from rota.model.types import NodeName
from tests import bounds
from tests.service.kit import CHAIN_ID, Network, network

NAMES: Final = ("node1", "node2", "node3")
WAIT_S: Final = bounds.WAIT_S
LOOK_S: Final = 0.05
FREE: Final = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)

Answer = TypeVar("Answer")


class RpcFailed(Exception):
    """The node answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}


class Client:
    """As the SDK asks: POST on /, numbers as ids, which begin anew in every process and so repeat among clients."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self._ids: Final = itertools.count(1)
        self.called: Final[dict[str, Any]] = {}

    def ask(self, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        """The result; an error is raised."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=WAIT_S)
        try:
            body = json.dumps({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.status
            answer = json.loads(response.read())
        finally:
            connection.close()
        if "error" in answer:
            raise RpcFailed(answer["error"])
        if answer["result"] not in (None, [], {}):
            self.called[method] = answer["result"]
        return answer["result"]

    def wait_for(self, method: str, *params: object) -> Any:  # noqa: ANN401
        """Ask until the answer is not null, as the SDK does with receipts."""
        return until(lambda: self.ask(method, *params))

    def receipt(self, transaction: str, is_full: bool = False) -> Any:  # noqa: ANN401
        """The receipt of a transaction that is to succeed."""
        found = self.wait_for(f"ptx_getTransactionReceipt{'Full' if is_full else ''}", transaction)
        assert found.get("success"), found
        return found


# The lives of the nodes that run: one that has ended by itself tells why.
_LIVES: Final[list[dict[NodeName, asyncio.Task[None]]]] = []


def until(look: Callable[[], Answer | None]) -> Answer:
    """What is there in the end."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for life in [life for lives in _LIVES for life in tuple(lives.values())]:
            if life.done():
                life.result()
        found = look()
        if found is not None and found is not False:
            return found
        time.sleep(LOOK_S)
    raise AssertionError(f"not there after {WAIT_S} s")


class ThreeNodes:
    """The network, its loop, and a client for each node."""

    def __init__(self, nodes: Network, loop: asyncio.AbstractEventLoop) -> None:
        self.nodes: Final = nodes
        self._loop: Final = loop
        self.node1, self.node2, self.node3 = self.clients = tuple(Client(self._url(name)) for name in NAMES)

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """In the loop of the nodes."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def restart(self, name: str) -> None:
        """Stop a node and begin it again."""
        self.stop(name)
        self.start(name)

    def _renew(self, name: str) -> None:
        fresh = [*self.clients]
        place = NAMES.index(name)
        fresh[place] = Client(self._url(name))
        fresh[place].called.update(self.clients[place].called)
        self.node1, self.node2, self.node3 = self.clients = (fresh[0], fresh[1], fresh[2])

    def stop(self, name: str) -> None:
        """As an operator stops it."""
        self.run(self.nodes.stop(NodeName(name)))

    def start(self, name: str) -> None:
        """Again; its port changes."""

        async def again() -> None:
            await self.nodes.start(NodeName(name))
            if len(self.nodes.lives) == len(NAMES):
                await self.nodes.connected()

        self.run(again())
        self._renew(name)

    def socket(self, name: str) -> Socket:
        """A WebSocket to a node."""
        url = self.nodes.processes[NodeName(name)].entrance.websocket_url
        assert url is not None
        return Socket(self, url)

    def _url(self, name: str) -> str:
        return self.nodes.processes[NodeName(name)].entrance.http_url


class Socket:
    """A WebSocket that stays, used from outside of its loop: answers and pushes in the order in which they come."""

    def __init__(self, to: ThreeNodes, url: str) -> None:
        self._to: Final = to
        self._session, self._socket = to.run(self._connect(url))
        self._ids: Final = itertools.count(1)

    @staticmethod
    async def _connect(url: str) -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
        session = aiohttp.ClientSession()
        return session, await session.ws_connect(url)

    def ask(self, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        """The result of a call; pushes that come before it are not expected here."""
        number = self.tell(method, *params)
        answer = self.receive()
        assert answer.get("id") == number, answer
        if "error" in answer:
            raise RpcFailed(answer["error"])
        return answer["result"]

    def tell(self, method: str, *params: object) -> int:
        """A call that is not answered, or whose answer is for later."""
        number = next(self._ids)
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        self._to.run(self._socket.send_str(body))
        return number

    def receive(self) -> Any:  # noqa: ANN401  # an answer or a push
        """What comes next."""
        return self._to.run(self._socket.receive_json())

    def close(self) -> None:
        """Leave."""

        async def end() -> None:
            await self._socket.close()
            await self._session.close()

        self._to.run(end())


@contextmanager
def three_nodes(home: Path, prepare: Callable[[Network], Awaitable[object]] | None = None) -> Iterator[ThreeNodes]:
    """Running and connected, with what was prepared before they began; nothing is left at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    # Whoever is asked for a public transaction needs no funds on a chain without fees.
    context = network(home, *NAMES, chain_settings=FREE)

    async def begin() -> Network:
        nodes = await context.__aenter__()
        if prepare is not None:
            await prepare(nodes)
        await nodes.start(*nodes.names)
        await nodes.connected()
        return nodes

    async def end() -> None:
        await context.__aexit__(None, None, None)

    try:
        nodes = asyncio.run_coroutine_threadsafe(begin(), loop).result(WAIT_S)
        _LIVES.append(nodes.lives)
        try:
            yield ThreeNodes(nodes, loop)
        finally:
            _LIVES.remove(nodes.lives)
            asyncio.run_coroutine_threadsafe(end(), loop).result(WAIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()
