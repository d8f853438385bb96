"""The subscriptions of a lasting connection.

Theory of operation. A method with a `Subscriber` opens subscriptions in it and finds them again by their ids; a
connection cannot see another's. A subscription pushes nothing before the answer with its id has been sent, since a
client could not assign the push. An offer waits for the client to accept or refuse it. When the connection ends, so do
its subscriptions: `ReceiverLeft` is raised in whatever waits for one.

A subscription holds one push at a time, and its feed waits until that has left: a client that does not read delays its
feeds, and its connection is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import uuid4

import msgspec

from rota.model.types import IntentId
from rota.rpc.errors import ErrorCode, Rejected, invalid
from rota.rpc.formats import encode

Send = Callable[[bytes], Awaitable[None]]


class _Params(msgspec.Struct, frozen=True):
    subscription: str
    result: object


class _Push(msgspec.Struct, frozen=True):
    jsonrpc: str
    method: str
    params: _Params


class Subscription:
    """One subscription. Pushes have the name `method`. `opened` are transactions that its client looks at."""

    def __init__(self, subscription_id: str, method: str, send: Send) -> None:
        self.id: Final = subscription_id
        self.method: Final = method
        self.opened: Final[set[IntentId]] = set()
        self.has_ended = False
        self._send: Final = send
        self._may_push: Final = asyncio.Event()
        self._word: asyncio.Future[bool] | None = None
        self._on_end: Final[list[Callable[[], None]]] = []

    def begin(self) -> None:
        """The client knows its id."""
        self._may_push.set()

    def on_end(self, leave: Callable[[], None]) -> None:
        """Call this when it ends; at once if it has."""
        if self.has_ended:
            leave()
        else:
            self._on_end.append(leave)

    async def push(self, result: object) -> None:
        """Send this as soon as the client can receive it. `ReceiverLeft` when it is gone."""
        await self._may_push.wait()
        if self.has_ended:
            raise ReceiverLeft
        await self._send(encode(_Push("2.0", self.method, _Params(self.id, result))))

    async def offer(self, result: object) -> bool:
        """Send this and return whether the client accepts it. `ReceiverLeft` when it is gone."""
        assert self._word is None, "one offer at a time"
        self._word = asyncio.get_running_loop().create_future()
        try:
            await self.push(result)
            return await self._word
        finally:
            self._word = None

    def answer(self, is_taken: bool) -> None:
        """The client's answer to an offer; without an offer it has no effect."""
        if self._word is not None and not self._word.done():
            self._word.set_result(is_taken)

    def end(self) -> None:
        """Stop all pushes."""
        if self.has_ended:
            return
        self.has_ended = True
        self._may_push.set()
        if self._word is not None and not self._word.done():
            self._word.set_exception(ReceiverLeft())
        for leave in self._on_end:
            leave()


class Subscriptions:
    """The subscriptions of one connection."""

    def __init__(self, send: Send, subscriptions_max: int) -> None:
        self._send: Final = send
        self._subscriptions_max: Final = subscriptions_max
        self._open: Final[dict[str, Subscription]] = {}
        self._has_ended = False

    def open(self, method: str) -> Subscription:
        """Open a subscription. `Rejected` when there are too many."""
        if len(self._open) >= self._subscriptions_max:
            text = f"a connection has at most {self._subscriptions_max} subscriptions; end one, or connect once more"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)
        made = Subscription(str(uuid4()), method, self._send)
        self._open[made.id] = made
        if self._has_ended:
            made.end()
        return made

    def find(self, subscription_id: str, method: str) -> Subscription:
        """The subscription with this id. `Rejected` when this connection has none."""
        found = self._open.get(subscription_id)
        if found is None or found.method != method:
            raise invalid("subscription", "must be the id of a subscription of this connection")
        return found

    def close(self, subscription: Subscription) -> None:
        """End and remove it."""
        self._open.pop(subscription.id, None)
        subscription.end()

    def end(self) -> None:
        """The connection has ended."""
        self._has_ended = True
        for subscription in tuple(self._open.values()):
            self.close(subscription)


class Subscriber:
    """A connection for the methods of one message: their subscriptions begin when their answer has been sent."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions: Final = subscriptions
        self._opened: Final[list[Subscription]] = []

    def open(self, method: str) -> Subscription:
        """Open a subscription whose pushes have this name. `Rejected` when the connection has too many."""
        made = self._subscriptions.open(method)
        self._opened.append(made)
        return made

    async def follow(self, method: str, attach: Callable[[Subscription], Awaitable[Callable[[], None]]]) -> str:
        """Open a subscription, attach it to a source, detach it when it ends; returns its id.

        If it cannot be attached, it is closed.
        """
        subscription = self.open(method)
        try:
            leave = await attach(subscription)
        except BaseException:
            self.close(subscription)
            raise
        subscription.on_end(leave)
        return subscription.id

    def find(self, subscription_id: str, method: str) -> Subscription:
        """The subscription with this id. `Rejected` when this connection has none."""
        return self._subscriptions.find(subscription_id, method)

    def close(self, subscription: Subscription) -> None:
        """End and remove it."""
        self._subscriptions.close(subscription)

    def begin(self) -> None:
        """The answer has been sent."""
        for subscription in self._opened:
            subscription.begin()


class ReceiverLeft(Exception):
    """The receiver left before it accepted or refused."""
