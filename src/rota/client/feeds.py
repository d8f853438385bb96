"""Feeds: live items of a node as an iterator that survives lost connections, and restarts of node and application.

    async for receipt in client.receipts("accounting"):
        await book(receipt)

Theory of operation. A *listener* is made at the node once, by its name, and the node keeps how far it is. A feed
follows it over a WebSocket: the node pushes one batch, and the next when that is acknowledged. The feed acknowledges a
batch when its application has taken all of it and asks for more; by then all of it is done with. A connection that
breaks is replaced after a pause that doubles, and the node continues after the last acknowledgement, so that nothing is
left out. An item that it pushes a second time is known by its place in the node's order and is dropped.

Across restarts of the application it is *at least once*: items that were not acknowledged when it ended come again, a
batch at most. An application that keeps the `sequence` of its last item gives it as `after`, and gets nothing twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import aiohttp

from rota.client.answers import FullReceipt, GroupMessage, TransactionReceipt
from rota.client.errors import INVALID, Closed, Refused, Unreachable
from rota.client.jsonrpc import JsonRpc, read, result_of, written

NOTHING_YET: Final = -1

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class FeedKind(Generic[Item]):
    """One kind of feed: its methods, the items of a batch, and their places in the node's order."""

    family: str
    listener: str
    items: str
    shape: type[Item]
    place_of: Callable[[Item], int]

    def method(self, verb: str) -> str:
        """The method that does this to a listener of the kind."""
        return f"{self.family}_{verb}{self.listener}"


RECEIPTS: Final = FeedKind("ptx", "ReceiptListener", "receipts", TransactionReceipt, lambda item: item.sequence)
FULL_RECEIPTS: Final = FeedKind("ptx", "ReceiptListener", "receipts", FullReceipt, lambda item: item.sequence)
MESSAGES: Final = FeedKind("pgroup", "MessageListener", "messages", GroupMessage, lambda item: item.local_sequence)


class Feed(Generic[Item]):
    """An async iterator over the items of a listener. It ends when it or its client is closed.

    After leaving a loop over it in the middle, close it, or use `async with`: else it stays connected until
    its client is closed, and what it was pushed last is kept from other feeds of its listener.
    """

    def __init__(
        self,
        node: JsonRpc,
        kind: FeedKind[Item],
        listener: str,
        *,
        filters: Mapping[str, object],
        options: Mapping[str, object],
        after: int | None = None,
    ) -> None:
        self.listener: Final = listener
        self._node: Final = node
        self._kind: Final = kind
        self._filters: Final = dict(filters)
        self._options: Final = dict(options)
        self._after: Final = after
        self._last = NOTHING_YET if after is None else after
        self._batch: Final[deque[Item]] = deque()
        self._is_made = False
        self._has_ended = False
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._subscription = ""
        self._is_unacknowledged = False
        self._ids: Final = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._has_ended:
            while self._batch:
                item = self._batch.popleft()
                place = self._kind.place_of(item)
                if place > self._last:
                    self._last = place
                    return item
            await self._next_batch()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Follow no more. The listener stays, and its next feed goes on behind the last acknowledgement."""
        self._has_ended = True
        self._batch.clear()
        await self._leave()

    async def delete(self) -> None:
        """Follow no more, and have the node forget the listener and how far it was."""
        await self.aclose()
        await self._node.ask(self._kind.method("delete"), self.listener)

    # Connections.

    async def _next_batch(self) -> None:
        """What the node pushes next, over as many connections as it takes."""
        limits = self._node.limits
        failures = 0
        while not self._has_ended:
            try:
                socket = self._socket
                if socket is None:
                    socket = await self._subscribe()
                    failures = 0
                await self._acknowledge(socket)
                self._batch.extend(await self._pushed(socket))
                self._is_unacknowledged = True
                return
            except Closed:
                raise
            except Unreachable:
                await self._leave()
                failures += 1
                if failures > limits.reconnects_max:
                    raise
            pause_ms = min(limits.backoff_ms << failures - 1, limits.backoff_max_ms)
            await asyncio.sleep(pause_ms / 1_000)

    async def _subscribe(self) -> aiohttp.ClientWebSocketResponse:
        if not self._is_made:
            await self._make()
            self._is_made = True
        socket = await self._node.connect()
        try:
            number = await self._tell(socket, "subscribe", self._kind.items, self.listener)
            while (answer := await self._heard(socket)).get("id") != number:
                pass
            self._subscription = read(result_of(answer), str)
        except BaseException:
            await self._node.disconnect(socket)
            raise
        self._socket, self._is_unacknowledged = socket, False
        return socket

    async def _acknowledge(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        if not self._is_unacknowledged:
            return
        self._is_unacknowledged = False
        try:
            await self._tell(socket, "ack", self._subscription)
        except BaseException:
            # It may have left. A second one would be for the next batch, which the application has not taken.
            await self._leave()
            raise

    async def _pushed(self, socket: aiohttp.ClientWebSocketResponse) -> list[Item]:
        while True:
            heard = await self._heard(socket)
            if "error" in heard:
                result_of(heard)
            parameters = heard.get("params")
            if isinstance(parameters, dict) and parameters.get("subscription") == self._subscription:
                batch = read(parameters.get("result"), dict[str, Any])
                return read(batch.get(self._kind.items), list[self._kind.shape])  # type: ignore[name-defined]

    async def _tell(self, socket: aiohttp.ClientWebSocketResponse, verb: str, *parameters: object) -> int:
        number = next(self._ids)
        method = f"{self._kind.family}_{verb}"
        body = written({"jsonrpc": "2.0", "id": number, "method": method, "params": list(parameters)})
        try:
            await socket.send_str(body.decode())
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{self._node.url}: {error}") from error
        return number

    async def _heard(self, socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise Unreachable(f"{self._node.url}: the connection ended")
        try:
            return read(json.loads(message.data), dict[str, Any])
        except ValueError as error:
            raise Unreachable(f"{self._node.url}: sent invalid JSON") from error

    async def _leave(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await self._node.disconnect(socket)

    # The listener.

    async def _make(self) -> None:
        """It exists already, except in the first run of an application."""
        found = await self._existing()
        if found is None:
            wanted = {
                "name": self.listener,
                "filters": {**_given(self._filters), "sequenceAbove": self._after},
                "options": _given(self._options),
            }
            try:
                await self._node.ask(self._kind.method("create"), wanted, is_repeatable=True)
            except Refused:
                # It may exist: an earlier request of ours whose answer was lost.
                found = await self._existing()
                if found is None:
                    raise
        if found is not None:
            self._require_same(found)

    async def _existing(self) -> dict[str, Any] | None:
        found = await self._node.ask(self._kind.method("get"), self.listener, is_repeatable=True)
        return None if found is None else read(found, dict[str, Any])

    def _require_same(self, found: Mapping[str, Any]) -> None:
        """A listener that was made for something else would leave out what this application waits for."""
        for name, wanted in (("filters", self._filters), ("options", self._options)):
            made = dict(found.get(name) or {})
            made_with, asked_for = _given({key: made.get(key) for key in wanted}), _given(wanted)
            if made_with != asked_for:
                text = f"{name}: the listener {self.listener!r} was made with {made_with}, not with {asked_for}"
                raise Refused(INVALID, f"{text}; take another name, or delete it", {"field": name})


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}
