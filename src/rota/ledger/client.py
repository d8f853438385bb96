"""A client for any Ethereum JSON-RPC node, over HTTP (`http`, `https`) or WebSocket (`ws`, `wss`).

Theory of operation. A caller waits for its answer; the client decides how to fetch it. Calls of one turn of the event
loop leave in one batch, up to the batch limit, and several batches are in progress at a time. Answers are matched by
their ids, in any order, and requests that a batch leaves unanswered are repeated.

Nodes restart, lose connections, and limit our rate. None of that reaches the caller: a request goes back into the
queue, and the whole client waits before it sends anything more: longer after each failure in a row, with jitter so that
the nodes of a network do not return all at once, and at least as long as `Retry-After` asks. While the node fails, one
exchange at a time probes it. So retries are bounded in rate and not in number; a caller that cannot wait sets
`attempts_max` and gets `Unavailable`.

A node that refuses a batch gets smaller ones, down to single requests; after successes they grow again. An error that a
node answers with is its answer: an `RpcFailure`, which `call` raises as `RpcRefused`.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rota.ledger.transports import (
    Answers,
    ExchangeFailed,
    FailureKind,
    HttpTransport,
    Notify,
    RpcFailure,
    Transport,
    WebSocketTransport,
)
from rota.ports import Unavailable

_HTTP_SCHEMES: Final = ("http", "https")
_WEBSOCKET_SCHEMES: Final = ("ws", "wss")
_RATE_LIMIT_CODES: Final = (429, -32029, -32090)
_RATE_LIMIT_TEXTS: Final = ("rate limit", "too many requests", "request rate", "compute units", "try again later")
_BATCHES_TO_GROW: Final = 32
_ASKS_FOR_LESS: Final = (
    FailureKind.BATCH_REFUSED,
    FailureKind.TOO_LARGE,
    FailureKind.TIMED_OUT,
    FailureKind.REFUSED,
    FailureKind.NOT_JSON_RPC,
)

LIMIT_EXCEEDED: Final = -32_005


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The limits of a client. The default body stays below the 2 MB that Anvil takes."""

    timeout_ms: int = 10_000
    batch_max: int = 100
    batch_bytes_max: int = 1_500_000
    exchanges_max: int = 8
    queue_max: int = 20_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    retry_after_max_ms: int = 60_000
    answer_bytes_max: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")


class RpcRefused(Exception):
    """The node answered with an error."""

    def __init__(self, failure: RpcFailure) -> None:
        super().__init__(str(failure))
        self.failure: Final = failure


class TimedOut(Unavailable):
    """The node exceeded the timeout as often as the caller allowed attempts."""


@dataclass(frozen=True, slots=True)
class Call:
    """A method and its parameters."""

    method: str
    parameters: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Together:
    """The answers to calls that belong together, and whether one exchange brought them all."""

    answers: tuple[object | RpcFailure, ...]
    is_one_exchange: bool


@dataclass(slots=True)
class _Request:
    id: int
    body: bytes
    answer: asyncio.Future[tuple[int, object | RpcFailure]]
    attempts_max: int | None
    attempts: int = 0


@dataclass(slots=True)
class _Group:
    """Requests that should be sent together."""

    requests: list[_Request] = field(default_factory=list)

    def still_wanted(self) -> _Group:
        """Return the group without requests that no caller awaits any more."""
        return _Group([request for request in self.requests if not request.answer.done()])

    @property
    def size_bytes(self) -> int:
        return sum(len(request.body) + 1 for request in self.requests)


def place_of(url: str) -> str:
    """Return scheme, host and port for logs and errors: a URL may have a password, or a key in its path."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port is not None else "")


class RpcClient:
    """A client of one node, or of several behind one address."""

    def __init__(
        self, url: str, limits: ClientLimits | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        scheme = urlsplit(url).scheme
        if scheme not in _HTTP_SCHEMES + _WEBSOCKET_SCHEMES:
            raise ValueError(f"url: must begin with http://, https://, ws:// or wss://, not {url!r}")
        self.url: Final = url
        self.place: Final = place_of(url)
        self.can_subscribe: Final = scheme in _WEBSOCKET_SCHEMES
        self.limits: Final = limits or ClientLimits()
        self.failure: ExchangeFailed | None = None
        self._jitter: Final = jitter
        self._session: aiohttp.ClientSession | None = None
        self._transport: Transport | None = None
        self._heads: Notify | None = None
        self._queue: Final[deque[_Group]] = deque()
        self._waiting_count = 0
        self._exchanges: Final[set[asyncio.Task[None]]] = set()
        self._subscribing: asyncio.Task[None] | None = None
        self._pump_handle: asyncio.Handle | None = None
        self._not_before_s = 0.0
        self._failures_in_a_row = 0
        self._batch_max = self.limits.batch_max
        self._good_batches = 0
        self._request_count = 0
        self._exchange_count = 0
        self._is_closed = False

    # Asking.

    async def call(self, method: str, *parameters: object, attempts_max: int | None = None) -> object:
        """Return the result of a method. `RpcRefused` for the node's error, `Unavailable` after `attempts_max`."""
        (request,) = self._ask((Call(method, parameters),), attempts_max)
        _, answer = await request.answer
        if isinstance(answer, RpcFailure):
            raise RpcRefused(answer)
        return answer

    async def call_together(self, *calls: Call, attempts_max: int | None = None) -> Together:
        """Return all answers, in order, failures included; from one exchange if the node takes batches."""
        requests = self._ask(calls, attempts_max)
        try:
            answered = await asyncio.gather(*(request.answer for request in requests))
        finally:
            for request in requests:
                request.answer.cancel()
        exchanges = {number for number, _ in answered}
        return Together(tuple(answer for _, answer in answered), len(exchanges) == 1)

    def watch_heads(self, notify: Notify) -> None:
        """Call `notify` with new block headers if the node supports subscriptions; does nothing over HTTP."""
        self._heads = notify
        if self._transport is not None:
            self._on_connected()

    @property
    def trouble(self) -> str:
        """Why the node does not answer; empty when it does."""
        return f"the Ethereum node at {self.place} {self.failure}" if self.failure is not None else ""

    @property
    def exchange_count(self) -> int:
        """How many exchanges were started."""
        return self._exchange_count

    @property
    def request_count(self) -> int:
        """How many requests were made, each counted once."""
        return self._request_count

    async def close(self) -> None:
        """Stop; waiting callers get `Unavailable`."""
        self._is_closed = True
        self._cancel_pump()
        for group in self._queue:
            _abandon(group.requests, Unavailable("the client was closed"))
        self._queue.clear()
        tasks = [*self._exchanges, *((self._subscribing,) if self._subscribing is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._transport is not None:
            await self._transport.close()
        if self._session is not None:
            await self._session.close()

    # The queue.

    def _ask(self, calls: tuple[Call, ...], attempts_max: int | None) -> list[_Request]:
        if self._is_closed:
            raise Unavailable("the client was closed")
        if self._waiting_count + len(calls) > self.limits.queue_max:
            raise Unavailable(f"{self._waiting_count} requests wait for {self.place} already")
        group = _Group([self._request(call, attempts_max) for call in calls])
        self._queue.append(group)
        self._wake()
        return group.requests

    def _request(self, call: Call, attempts_max: int | None) -> _Request:
        self._request_count += 1
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": self._request_count, "method": call.method, "params": call.parameters}
        )
        answer: asyncio.Future[tuple[int, object | RpcFailure]] = asyncio.get_running_loop().create_future()
        self._waiting_count += 1
        answer.add_done_callback(self._forget)
        return _Request(self._request_count, body, answer, attempts_max)

    def _forget(self, answer: asyncio.Future[tuple[int, object | RpcFailure]]) -> None:
        self._waiting_count -= 1
        if not answer.cancelled():
            answer.exception()  # Marks it as retrieved, in case no caller waits.

    def _wake(self) -> None:
        """Send at the end of this turn, so that all its calls go in one batch."""
        if self._pump_handle is None and not self._is_closed:
            self._pump_handle = asyncio.get_running_loop().call_soon(self._pump)

    def _cancel_pump(self) -> None:
        if self._pump_handle is not None:
            self._pump_handle.cancel()
            self._pump_handle = None

    def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        self._pump_handle = None
        if self._not_before_s > loop.time():
            self._pump_handle = loop.call_at(self._not_before_s, self._pump)
            return
        exchanges_max = 1 if self._failures_in_a_row else self.limits.exchanges_max
        while len(self._exchanges) < exchanges_max and (batch := self._next_batch()):
            task = loop.create_task(self._exchange(batch, self._failures_in_a_row))
            self._exchanges.add(task)
            task.add_done_callback(self._end_exchange)

    def _end_exchange(self, task: asyncio.Task[None]) -> None:
        self._exchanges.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # Ours: an assertion must be loud.
        if self._queue:
            self._wake()

    def _next_batch(self) -> list[_Group]:
        """Remove and return as many groups as fit; a group that is too large by itself is split."""
        batch: list[_Group] = []
        count = size_bytes = 0
        while self._queue:
            group = self._queue[0].still_wanted()
            fits = self._fits(count + len(group.requests), size_bytes + group.size_bytes)
            if not fits and batch:
                break
            self._queue.popleft()
            if not fits and len(group.requests) > 1:
                half = len(group.requests) // 2
                self._queue.extendleft((_Group(group.requests[half:]), _Group(group.requests[:half])))
            elif group.requests:
                batch.append(group)
                count += len(group.requests)
                size_bytes += group.size_bytes
        return batch

    def _fits(self, count: int, size_bytes: int) -> bool:
        return count <= self._batch_max and size_bytes <= self.limits.batch_bytes_max

    # Exchanges.

    async def _exchange(self, batch: list[_Group], failures_before: int) -> None:
        self._exchange_count += 1
        number = self._exchange_count
        requests = [request for group in batch for request in group.requests]
        bodies = [request.body for request in requests]
        body = bodies[0] if len(bodies) == 1 else b"[" + b",".join(bodies) + b"]"
        try:
            answers = await self._connection().exchange(body, [request.id for request in requests])
        except ExchangeFailed as failure:
            self._take_failure(number, batch, failure, failures_before)
        else:
            self._take_answers(number, batch, answers, failures_before)

    def _connection(self) -> Transport:
        if self._transport is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=self.limits.exchanges_max))
            timeout_ms, answer_bytes_max = self.limits.timeout_ms, self.limits.answer_bytes_max
            self._transport = (
                WebSocketTransport(
                    self.url, self._session, timeout_ms, answer_bytes_max, self._on_connected, self._on_notification
                )
                if self.can_subscribe
                else HttpTransport(self.url, self._session, timeout_ms, answer_bytes_max)
            )
        return self._transport

    def _take_answers(self, number: int, batch: list[_Group], answers: Answers, failures_before: int) -> None:
        size = _size(batch)
        limited = [_Group([each for each in group.requests if _is_rate_limit(answers.get(each.id))]) for group in batch]
        missing = [_Group([each for each in group.requests if each.id not in answers]) for group in batch]
        if _size(limited):
            failure = ExchangeFailed(FailureKind.OVERLOADED, "it limits our rate")
            self._take_failure(number, limited, failure, failures_before)
        elif _size(missing):
            self._shrink(size)
        else:
            self._take_success(size)
        self._try_again(missing, ExchangeFailed(FailureKind.NOT_JSON_RPC, "it left a request of a batch unanswered"))
        for request in (request for group in batch for request in group.requests):
            answer = answers.get(request.id)
            if request.id in answers and not _is_rate_limit(answer) and not request.answer.done():
                request.answer.set_result((number, answer))

    def _take_success(self, size: int) -> None:
        self.failure = None
        self._failures_in_a_row = 0
        if self._not_before_s:
            self._not_before_s = 0.0
            self._cancel_pump()
        self._good_batches += size > 1 or self._batch_max == 1
        if self._good_batches >= _BATCHES_TO_GROW:
            self._good_batches = 0
            self._batch_max = min(2 * self._batch_max, self.limits.batch_max)

    def _take_failure(self, number: int, batch: list[_Group], failure: ExchangeFailed, failures_before: int) -> None:
        """Back off and retry, unless the batch itself was refused; concurrent exchanges count as one failure.

        A single request that is too large, or whose answer is, gets that as its answer: a retry would fail too.
        """
        size = _size(batch)
        if size > 1 and failure.kind in _ASKS_FOR_LESS:
            self._shrink(size)
        if failure.kind is FailureKind.TOO_LARGE and size == 1:
            for request in (request for group in batch for request in group.requests):
                if not request.answer.done():
                    request.answer.set_result((number, RpcFailure(LIMIT_EXCEEDED, str(failure))))
            return
        if failure.kind not in (FailureKind.BATCH_REFUSED, FailureKind.TOO_LARGE):
            self.failure = failure
            if failures_before == self._failures_in_a_row:
                self._failures_in_a_row += 1
            self._wait(failure.retry_after_ms)
        self._try_again(batch, failure)

    def _wait(self, retry_after_ms: int) -> None:
        doublings = min(self._failures_in_a_row - 1, 30)
        backoff_ms = min(self.limits.backoff_ms << doublings, self.limits.backoff_max_ms)
        wait_ms = max(backoff_ms * (1 + self._jitter()) / 2, min(retry_after_ms, self.limits.retry_after_max_ms))
        self._not_before_s = max(self._not_before_s, asyncio.get_running_loop().time() + wait_ms / 1_000)

    def _shrink(self, size: int) -> None:
        self._batch_max = max(1, min(self._batch_max, size // 2))
        self._good_batches = 0

    def _try_again(self, batch: list[_Group], failure: ExchangeFailed) -> None:
        """Put requests back at the head of the queue, in order; fail those that have used up their attempts."""
        for group in reversed(batch):
            again = []
            for request in group.requests:
                request.attempts += 1
                if request.attempts_max is not None and request.attempts >= request.attempts_max:
                    is_slow = failure.kind is FailureKind.TIMED_OUT
                    _abandon([request], TimedOut(str(failure)) if is_slow else Unavailable(str(failure)))
                else:
                    again.append(request)
            if again:
                self._queue.appendleft(_Group(again))
                self._wake()

    # Notifications.

    def _on_connected(self) -> None:
        """Subscribe to heads again, since a subscription ends with its connection."""
        if self._heads is not None and self.can_subscribe and not self._is_closed:
            if self._subscribing is not None:
                self._subscribing.cancel()
            self._subscribing = asyncio.get_running_loop().create_task(self._subscribe())

    async def _subscribe(self) -> None:
        """Subscribe to heads; if the node refuses, polling replaces the subscription."""
        try:
            await self.call("eth_subscribe", "newHeads", attempts_max=1)
        except (RpcRefused, Unavailable):
            return

    def _on_notification(self, content: object) -> None:
        if self._heads is not None:
            self._heads(content)


def _size(batch: list[_Group]) -> int:
    return sum(len(group.requests) for group in batch)


def _abandon(requests: list[_Request], error: Exception) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(error)


def _is_rate_limit(answer: object | RpcFailure) -> bool:
    """Return whether an answer limits our rate. `-32005` alone does not: it also means a too large range."""
    if not isinstance(answer, RpcFailure):
        return False
    text = answer.message.lower()
    return answer.code in _RATE_LIMIT_CODES or any(each in text for each in _RATE_LIMIT_TEXTS)
