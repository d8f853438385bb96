"""Transports of JSON-RPC: over HTTP, one POST an exchange, or over one WebSocket that carries them all.

An exchange is a body with one request or a batch of them, and the answers to it by their ids. The node may answer
anything: the result is answers or an `ExchangeFailed` with the kind of failure, so that the client knows whether to
wait, to request less, or to report to an operator that this is no Ethereum node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final, Protocol, TypeAlias

import aiohttp
import msgspec

WEBSOCKET_HEARTBEAT_S: Final = 20.0
CLOSE_TIMEOUT_S: Final = 2.0
SHOWN_CHARACTERS_MAX: Final = 200

_TOO_MANY_REQUESTS: Final = 429
_TOO_LARGE: Final = 413
_OVERLOADED: Final = frozenset({408, 425, _TOO_MANY_REQUESTS, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """A node's error in answer to a request."""

    code: int
    message: str
    data: object = None

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


Answers: TypeAlias = Mapping[int, object | RpcFailure]
Notify: TypeAlias = Callable[[object], None]


class FailureKind(Enum):
    """The kind of a failed exchange."""

    UNREACHABLE = "cannot be reached"
    DROPPED = "dropped the connection"
    TIMED_OUT = "did not answer in time"
    OVERLOADED = "is overloaded"
    REFUSED = "refuses us"
    NOT_JSON_RPC = "does not speak JSON-RPC"
    TOO_LARGE = "finds the request or its answer too large"
    BATCH_REFUSED = "refuses the batch"


class ExchangeFailed(Exception):
    """An exchange brought no answers. `retry_after_ms` is the delay that the node asked for, or 0."""

    def __init__(self, kind: FailureKind, detail: str, retry_after_ms: int = 0) -> None:
        super().__init__(f"{kind.value}: {detail}" if detail else kind.value)
        self.kind: Final = kind
        self.detail: Final = detail
        self.retry_after_ms: Final = retry_after_ms


class _OneOfSeveral(ExchangeFailed):
    """One of the answers that were awaited together is too long."""


class Transport(Protocol):
    """Carries exchanges, several at a time."""

    async def exchange(self, body: bytes, ids: Collection[int]) -> Answers:
        """Send a request or a batch, and wait for its answers; some may be missing from a batch."""
        ...

    async def close(self) -> None:
        """Stop carrying exchanges."""
        ...


class HttpTransport:
    """A POST for every exchange, on kept-alive connections."""

    def __init__(self, url: str, session: aiohttp.ClientSession, timeout_ms: int, answer_bytes_max: int) -> None:
        self._url: Final = url
        self._session: Final = session
        self._timeout: Final = aiohttp.ClientTimeout(total=timeout_ms / 1_000)
        self._answer_bytes_max: Final = answer_bytes_max

    async def exchange(self, body: bytes, ids: Collection[int]) -> Answers:
        """Make one POST. A JSON-RPC answer is accepted whatever its HTTP status, except 429."""
        try:
            async with self._session.post(
                self._url, data=body, headers={"Content-Type": "application/json"}, timeout=self._timeout
            ) as response:
                content = await self._read(response)
                _require_willing(response)
                try:
                    return read_answers(content, ids)
                except ExchangeFailed:
                    _require_good(response)
                    raise
        except TimeoutError as error:
            raise ExchangeFailed(FailureKind.TIMED_OUT, "") from error
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise ExchangeFailed(FailureKind.UNREACHABLE, _shown(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExchangeFailed(FailureKind.DROPPED, _shown(error)) from error

    async def close(self) -> None:
        """Do nothing: the session holds all connections."""

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > self._answer_bytes_max:
                raise ExchangeFailed(FailureKind.TOO_LARGE, f"its answer has more than {self._answer_bytes_max} bytes")
        return bytes(content)


class WebSocketTransport:
    """One connection, made when it is first needed and made again after it was lost.

    Exchanges are in progress together and answered in any order. When one is not answered in time the whole
    connection is closed, since a slow node cannot be distinguished from a dead one. An answer that is too long ends
    the connection too. Then exchanges are repeated one at a time, to find the one with the long answer.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        timeout_ms: int,
        answer_bytes_max: int,
        on_connected: Callable[[], None],
        on_notification: Notify,
    ) -> None:
        self._url: Final = url
        self._session: Final = session
        self._timeout_s: Final = timeout_ms / 1_000
        self._answer_bytes_max: Final = answer_bytes_max
        self._on_connected: Final = on_connected
        self._on_notification: Final = on_notification
        self._connecting: Final = asyncio.Lock()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: Final[dict[int, _Waiting]] = {}
        self._alone: Final = asyncio.Lock()
        self._in_line = 0
        self._is_one_too_long = False
        self._farewells: Final[set[asyncio.Task[None]]] = set()

    async def exchange(self, body: bytes, ids: Collection[int]) -> Answers:
        """Send one frame; wait for its answers, which may come in any order."""
        try:
            async with asyncio.timeout(self._timeout_s):
                if not self._is_one_too_long:
                    with suppress(_OneOfSeveral):
                        return await self._exchange(body, ids)
                return await self._exchange_alone(body, ids)
        except TimeoutError as error:
            self._give_up(ExchangeFailed(FailureKind.DROPPED, "another request was not answered in time"))
            raise ExchangeFailed(FailureKind.TIMED_OUT, "") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExchangeFailed(FailureKind.DROPPED, _shown(error)) from error

    async def _exchange(self, body: bytes, ids: Collection[int]) -> Answers:
        socket = await self._connected()
        waiting = _Waiting(frozenset(ids), asyncio.get_running_loop().create_future())
        self._waiting.update(dict.fromkeys(ids, waiting))
        try:
            await socket.send_str(body.decode())
            return await waiting.answers
        finally:
            for request_id in ids:
                self._waiting.pop(request_id, None)

    async def _exchange_alone(self, body: bytes, ids: Collection[int]) -> Answers:
        self._in_line += 1
        try:
            async with self._alone:
                return await self._exchange(body, ids)
        finally:
            self._in_line -= 1
            if not self._in_line:
                self._is_one_too_long = False

    async def close(self) -> None:
        """Close the connection and stop reading."""
        self._give_up(ExchangeFailed(FailureKind.DROPPED, "it was closed by us"))
        await asyncio.gather(*self._farewells, return_exceptions=True)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _connected(self) -> aiohttp.ClientWebSocketResponse:
        async with self._connecting:
            if self._socket is not None and not self._socket.closed:
                return self._socket
            try:
                self._socket = await self._session.ws_connect(
                    self._url,
                    max_msg_size=self._answer_bytes_max,
                    heartbeat=WEBSOCKET_HEARTBEAT_S,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
                )
            except aiohttp.WSServerHandshakeError as error:
                kind = FailureKind.OVERLOADED if error.status in _OVERLOADED else FailureKind.NOT_JSON_RPC
                raise ExchangeFailed(kind, f"HTTP {error.status} where a WebSocket was expected") from error
            except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
                raise ExchangeFailed(FailureKind.UNREACHABLE, _shown(error)) from error
            self._reader = asyncio.create_task(self._read(self._socket))
            self._on_connected()
            return self._socket

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        detail = "it closed the WebSocket"
        try:
            async for message in socket:
                if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    self._take(message.data)
                elif socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG and self._socket is socket:
                    self._give_up(self._too_long())
        except (aiohttp.ClientError, OSError) as error:
            detail = _shown(error)
        if self._socket is socket:
            self._give_up(ExchangeFailed(FailureKind.DROPPED, detail))

    def _too_long(self) -> ExchangeFailed:
        """Return the failure of the waiting exchanges: final for a single one; several are repeated one by one."""
        self._is_one_too_long = len(set(map(id, self._waiting.values()))) > 1
        detail = f"its answer has more than {self._answer_bytes_max} bytes"
        kind = _OneOfSeveral if self._is_one_too_long else ExchangeFailed
        return kind(FailureKind.TOO_LARGE, detail)

    def _take(self, content: str | bytes) -> None:
        try:
            message = msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            self._give_up(ExchangeFailed(FailureKind.NOT_JSON_RPC, f"its message is not JSON: {_shown(error)}"))
            return
        if isinstance(message, dict) and message.get("method") == "eth_subscription":
            parameters = message.get("params")
            self._on_notification(parameters.get("result") if isinstance(parameters, dict) else None)
            return
        waiting = self._asked_by(message)
        if waiting is None or waiting.answers.done():
            return
        try:
            waiting.answers.set_result(_answers_in(message, waiting.ids))
        except ExchangeFailed as failure:
            waiting.answers.set_exception(failure)

    def _asked_by(self, message: object) -> _Waiting | None:
        """Return the exchange of this answer; a refusal without an id is assigned to the one that waits longest."""
        for answer in message if isinstance(message, list) else [message]:
            if isinstance(answer, dict) and isinstance(answer.get("id"), int) and answer["id"] in self._waiting:
                return self._waiting[answer["id"]]
        if not isinstance(message, dict) or "error" not in message:
            return None
        return next((waiting for waiting in self._waiting.values() if not waiting.answers.done()), None)

    def _give_up(self, failure: ExchangeFailed) -> None:
        """Fail all waiting exchanges; the next exchange makes a new connection."""
        socket, self._socket = self._socket, None
        for waiting in tuple(self._waiting.values()):
            if not waiting.answers.done():
                waiting.answers.set_exception(failure)
        self._waiting.clear()
        if socket is not None and not socket.closed:
            farewell = asyncio.create_task(_close(socket))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        await socket.close()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An exchange in progress."""

    ids: frozenset[int]
    answers: asyncio.Future[Answers]


def read_answers(content: bytes, ids: Collection[int]) -> Answers:
    """Return the answers in a body, by id; `ExchangeFailed` when it has none."""
    try:
        message = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        shown = content[:SHOWN_CHARACTERS_MAX].decode("utf-8", "replace").strip()
        raise ExchangeFailed(FailureKind.NOT_JSON_RPC, f"its answer is not JSON but {shown!r}") from error
    return _answers_in(message, ids)


def _answers_in(message: object, ids: Collection[int]) -> Answers:
    if isinstance(message, list):
        found = {answer["id"]: _result_of(answer) for answer in message if _is_answer(answer)}
        answers = {request_id: answer for request_id, answer in found.items() if request_id in ids}
        if not answers:
            raise ExchangeFailed(FailureKind.NOT_JSON_RPC, "its batch answers nothing that was asked")
        return answers
    if not isinstance(message, dict) or not ("result" in message or isinstance(message.get("error"), dict)):
        shown = repr(message)[:SHOWN_CHARACTERS_MAX]
        raise ExchangeFailed(FailureKind.NOT_JSON_RPC, f"its answer has neither result nor error: {shown}")
    answer = _result_of(message)
    if len(ids) == 1 and (message.get("id") in ids or isinstance(answer, RpcFailure)):
        return {next(iter(ids)): answer}
    if isinstance(answer, RpcFailure):
        raise ExchangeFailed(FailureKind.BATCH_REFUSED, str(answer))
    raise ExchangeFailed(FailureKind.NOT_JSON_RPC, "it answers a request that was not made")


def _is_answer(answer: object) -> bool:
    return (
        isinstance(answer, dict)
        and isinstance(answer.get("id"), int)
        and ("result" in answer or isinstance(answer.get("error"), dict))
    )


def _result_of(answer: dict[str, object]) -> object | RpcFailure:
    error = answer.get("error")
    if not isinstance(error, dict):
        return answer.get("result")
    code, message = error.get("code"), error.get("message")
    return RpcFailure(code if isinstance(code, int) else 0, str(message or ""), error.get("data"))


def _require_willing(response: aiohttp.ClientResponse) -> None:
    """Raise the failure for a 429, whatever its body is."""
    if response.status == _TOO_MANY_REQUESTS:
        raise ExchangeFailed(FailureKind.OVERLOADED, _status(response), _retry_after_ms(response))


def _require_good(response: aiohttp.ClientResponse) -> None:
    """Raise the failure for an error status, where the body is not JSON-RPC."""
    if response.status == _TOO_LARGE:
        raise ExchangeFailed(FailureKind.TOO_LARGE, _status(response))
    if response.status in _OVERLOADED:
        raise ExchangeFailed(FailureKind.OVERLOADED, _status(response), _retry_after_ms(response))
    if response.status >= 400:
        raise ExchangeFailed(FailureKind.REFUSED, _status(response))


def _status(response: aiohttp.ClientResponse) -> str:
    return f"HTTP {response.status} {response.reason or ''}".rstrip()


def _retry_after_ms(response: aiohttp.ClientResponse) -> int:
    """Return the delay of `Retry-After`, in seconds or as a date; 0 when missing or unreadable."""
    wish = response.headers.get("Retry-After", "")
    if wish.isdecimal():
        return int(wish) * 1_000
    with suppress(ValueError, TypeError):
        ahead = parsedate_to_datetime(wish).astimezone(UTC) - datetime.now(UTC)
        return max(0, int(ahead.total_seconds() * 1_000))
    return 0


def _shown(error: BaseException) -> str:
    """Return a library's error for operators, without the address, which may be a secret."""
    if isinstance(error, aiohttp.ClientConnectorError):
        text = error.os_error.strerror or str(error.os_error)
    elif isinstance(error, aiohttp.InvalidURL):
        text = "its address is none"
    elif isinstance(error, aiohttp.ClientResponseError):
        text = f"HTTP {error.status} {error.message}"
    else:
        text = str(error) or type(error).__name__
    return text[:SHOWN_CHARACTERS_MAX]
