"""What a connection that stays has subscribed to.

Theory of operation. A method that is given a `Subscriber` opens subscriptions in it and finds them again by their ids;
no connection sees another's. A subscription pushes nothing before the answer with its id has been sent, since a client
would not know whose it is. What is offered waits for the client's word: taken, or not taken. When the connection ends,
so do its subscriptions: whoever waits in one is told by `ReceiverLeft`.

A subscription holds one push at a time, and whoever pushes waits until it has left: a client that does not read keeps
its feeds waiting, and is cut off by its connection.
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
    """One of a connection's. `method` is what pushes are called. `opened` are transactions that its client looks at."""

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
        """What is to be done when it ends; at once if it has."""
        if self.has_ended:
            leave()
        else:
            self._on_end.append(leave)

    async def push(self, result: object) -> None:
        """Send this when the client can be sent to. `ReceiverLeft` when it is gone."""
        await self._may_push.wait()
        if self.has_ended:
            raise ReceiverLeft
        await self._send(encode(_Push("2.0", self.method, _Params(self.id, result))))

    async def offer(self, result: object) -> bool:
        """Send this and wait for the client's word on it: whether it is taken. `ReceiverLeft` when it is gone."""
        assert self._word is None, "one offer at a time"
        self._word = asyncio.get_running_loop().create_future()
        try:
            await self.push(result)
            return await self._word
        finally:
            self._word = None

    def answer(self, is_taken: bool) -> None:
        """The client's word on what it was offered; without an offer it means nothing."""
        if self._word is not None and not self._word.done():
            self._word.set_result(is_taken)

    def end(self) -> None:
        """Nothing is pushed any more."""
        if self.has_ended:
            return
        self.has_ended = True
        self._may_push.set()
        if self._word is not None and not self._word.done():
            self._word.set_exception(ReceiverLeft())
        for leave in self._on_end:
            leave()


class Subscriptions:
    """Those of one connection."""

    def __init__(self, send: Send, subscriptions_max: int) -> None:
        self._send: Final = send
        self._subscriptions_max: Final = subscriptions_max
        self._open: Final[dict[str, Subscription]] = {}
        self._has_ended = False

    def open(self, method: str) -> Subscription:
        """A new one. `Rejected` when there are too many."""
        if len(self._open) >= self._subscriptions_max:
            text = f"a connection has at most {self._subscriptions_max} subscriptions; end one, or connect once more"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)
        made = Subscription(str(uuid4()), method, self._send)
        self._open[made.id] = made
        if self._has_ended:
            made.end()
        return made

    def find(self, subscription_id: str, method: str) -> Subscription:
        """The one with this id. `Rejected` when this connection has none."""
        found = self._open.get(subscription_id)
        if found is None or found.method != method:
            raise invalid("subscription", "must be the id of a subscription of this connection")
        return found

    def close(self, subscription: Subscription) -> None:
        """End it, and forget it."""
        self._open.pop(subscription.id, None)
        subscription.end()

    def end(self) -> None:
        """The connection is gone."""
        self._has_ended = True
        for subscription in tuple(self._open.values()):
            self.close(subscription)


class Subscriber:
    """A connection, as the methods of one message see it: what they open begins when their answer has been sent."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions: Final = subscriptions
        self._opened: Final[list[Subscription]] = []

    def open(self, method: str) -> Subscription:
        """A new subscription, whose pushes have this method. `Rejected` when the connection has too many."""
        made = self._subscriptions.open(method)
        self._opened.append(made)
        return made

    async def follow(self, method: str, attach: Callable[[Subscription], Awaitable[Callable[[], None]]]) -> str:
        """The id of a new one that is attached to what it follows, and leaves that when it ends.

        What cannot be attached leaves no subscription behind.
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
        """The one with this id. `Rejected` when this connection has none."""
        return self._subscriptions.find(subscription_id, method)

    def close(self, subscription: Subscription) -> None:
        """End it, and forget it."""
        self._subscriptions.close(subscription)

    def begin(self) -> None:
        """The answer has been sent."""
        for subscription in self._opened:
            subscription.begin()


class ReceiverLeft(Exception):
    """Whoever was given something has left before it could say that it has taken it."""
