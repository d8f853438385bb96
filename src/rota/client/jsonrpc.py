"""JSON-RPC over HTTP: one call, one answer, and patience only where a second asking does no harm; and WebSockets.

Theory of operation. The caller states whether a call may be repeated. One that may be is repeated after a pause that
doubles, at most `attempts_max` times; one that may not be is sent once, because after a broken connection it is unknown
whether the node received it. A refused call is never repeated, unless the node is overloaded: then it has begun
nothing, and any call is repeated.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

import aiohttp
import msgspec

from rota.client.errors import (
    INTERNAL,
    INVALID,
    NOT_AUTHORISED,
    NOT_REACHED,
    OUTCOME_UNKNOWN,
    OVERLOADED,
    Behind,
    ClientError,
    Closed,
    Overloaded,
    Refused,
    Unreachable,
    Unsettled,
)

Payees = Literal["known", "any"]
Shape = TypeVar("Shape")

LIVE_PATH: Final = "/live"
JSON: Final = {"Content-Type": "application/json"}
NOT_LET_IN_STATUSES: Final = (401, 403)
READY_STATUSES: Final = (200, 503)
SHOWN_CHARACTERS_MAX: Final = 200
METHOD_NOT_ALLOWED: Final = 405
RIGHT_PORT: Final = "JSON-RPC listens on the node's `rpc.port`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """How long an answer may take, and how often and after what pause a call that may be repeated is.

    A call that an overloaded node refused is repeated after the time that the node names, `retry_after_max_ms` at most.

    `wait_ms` is how long the end of a transaction is waited for; it is looked for after a pause that doubles from
    `look_ms` to `look_max_ms`, and is longer where many are waited for, so that looks stay `look_apart_ms` apart.

    A feed whose connection breaks tries at most `reconnects_max` times in a row to have another one; a connection on
    which a ping is not answered within half of `heartbeat_ms` is broken.
    """

    timeout_ms: int = 30_000
    attempts_max: int = 5
    backoff_ms: int = 100
    backoff_max_ms: int = 2_000
    retry_after_max_ms: int = 30_000
    answer_bytes_max: int = 64 * 1024 * 1024
    wait_ms: int = 120_000
    look_ms: int = 20
    look_max_ms: int = 250
    look_apart_ms: int = 2
    reconnects_max: int = 30
    heartbeat_ms: int = 20_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")


class JsonRpc:
    """The JSON-RPC of one node. `headers` go with every request: a bearer token, for one.

    `tls` is for an `https` address whose certificate no authority of the system has signed, or that wants one of ours.
    """

    def __init__(
        self,
        url: str,
        limits: ClientLimits | None = None,
        headers: Mapping[str, str] | None = None,
        connector: aiohttp.BaseConnector | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url: Final = url.rstrip("/")
        self.limits: Final = limits or ClientLimits()
        self._headers: Final = dict(headers or {})
        self._connector: Final = connector
        self._tls: Final = tls
        self._session: aiohttp.ClientSession | None = None
        self._sockets: Final[set[aiohttp.ClientWebSocketResponse]] = set()
        self._is_closed = False
        self._ids: Final = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections for good: later calls raise."""
        self._is_closed = True
        for socket in tuple(self._sockets):
            await self.disconnect(socket)
        if self._session is not None:
            await self._session.close()

    async def ask(self, method: str, *parameters: object, is_repeatable: bool = False) -> object:
        """Return the result of a method. `Refused` if the node refuses, `Unreachable` if it does not answer."""
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(parameters)}
        for attempt in range(1, self.limits.attempts_max + 1):
            try:
                return result_of(await self._post(request))
            except Overloaded as error:
                # Nothing of it was begun, so that any call may be repeated.
                if attempt == self.limits.attempts_max:
                    raise
                await asyncio.sleep(min(error.retry_after_s, self.limits.retry_after_max_ms / 1_000))
            except Unreachable as error:
                if attempt == self.limits.attempts_max or not is_repeatable or isinstance(error, Closed):
                    raise
                pause_ms = min(self.limits.backoff_ms << attempt - 1, self.limits.backoff_max_ms)
                await asyncio.sleep(pause_ms / 1_000)
        raise AssertionError("a call is attempted at least once")

    async def missing(self) -> tuple[str, ...]:
        """The reasons for which the node is not ready, as it reports them; empty when it is ready."""
        try:
            async with self._opened().get(f"{self.url}/readyz") as answer:
                if answer.status not in READY_STATUSES:
                    raise Unreachable(f"{self.url}: answers {answer.status} when asked whether it is ready")
                told = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise _trouble(self.url, error) from error
        listed = told.get("missing") if isinstance(told, dict) else None
        return tuple(map(str, listed)) if isinstance(listed, list) else ()

    async def connect(self) -> aiohttp.ClientWebSocketResponse:
        """A connection that stays, for what the node pushes. `Refused` where the caller is not let in."""
        url = "ws" + self.url.removeprefix("http") + LIVE_PATH
        heartbeat_s, bytes_max = self.limits.heartbeat_ms / 1_000, self.limits.answer_bytes_max
        try:
            socket = await self._opened().ws_connect(url, heartbeat=heartbeat_s, max_msg_size=bytes_max)
        except aiohttp.WSServerHandshakeError as error:
            if error.status in NOT_LET_IN_STATUSES:
                raise Refused(NOT_AUTHORISED, f"{url}: the node does not let this caller in", {}) from error
            raise Unreachable(f"{url}: answers {error.status}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _trouble(url, error) from error
        self._sockets.add(socket)
        return socket

    async def disconnect(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Let go of a connection that stayed."""
        self._sockets.discard(socket)
        await socket.close()

    async def _post(self, request: dict[str, object]) -> object:
        try:
            async with self._opened().post(self.url, data=written(request), headers=JSON) as answer:
                body = await answer.content.read(self.limits.answer_bytes_max + 1)
                while not answer.content.at_eof() and len(body) <= self.limits.answer_bytes_max:
                    body += await answer.content.read(self.limits.answer_bytes_max + 1 - len(body))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _trouble(self.url, error) from error
        if len(body) > self.limits.answer_bytes_max:
            raise Unreachable(f"{self.url}: the answer is longer than {self.limits.answer_bytes_max} bytes")
        try:
            return json.loads(body)
        except ValueError as error:
            if answer.status == METHOD_NOT_ALLOWED:
                what = f"takes no POST: this may be the node's port for WebSockets; {RIGHT_PORT}"
            else:
                shown = body[:SHOWN_CHARACTERS_MAX].decode(errors="replace")
                what = f"answers {answer.status} and no JSON-RPC: {shown!r}"
            raise Unreachable(f"{self.url}: {what}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise Closed(f"{self.url}: this client was closed")
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.limits.timeout_ms / 1_000)
            connector = self._connector
            if connector is None and self._tls is not None:
                connector = aiohttp.TCPConnector(ssl=self._tls)
            self._session = aiohttp.ClientSession(
                timeout=timeout, headers=self._headers, connector=connector, connector_owner=self._connector is None
            )
        return self._session


def trusting(ca: Path, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """What trusts the authorities in a file of certificates and no others, and shows a certificate of ours if given.

    A node's own certificate is an authority for itself. `OSError` or `ValueError` when a file cannot be used.
    """
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def bearer(token: str) -> Mapping[str, str]:
    """The headers with which a token is shown."""
    return {"Authorization": f"Bearer {token}"}


def written(request: Mapping[str, object]) -> bytes:
    """A request as JSON: bytes as hex, and what a node has answered as it had answered it."""
    return json.dumps(request, default=_plain, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{value!r} cannot be written as JSON")


def result_of(answer: object) -> object:
    """The result in an answer; raises its error."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(answer, dict) and error is None and "result" in answer:
        return answer["result"]
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        raise Unreachable("the answer is not one of JSON-RPC 2.0")
    message, details = str(error.get("message", "")), error.get("data")
    # An internal error is the node's, or that of the world around it, and may be over the next time.
    if error["code"] == INTERNAL:
        raise Unreachable(message)
    about = details if isinstance(details, dict) else {}
    if error["code"] == OVERLOADED:
        wait_s = about.get("retryAfterS")
        raise Overloaded(message, float(wait_s) if isinstance(wait_s, int) and wait_s > 0 else 1.0)
    if error["code"] == OUTCOME_UNKNOWN:
        raise Unsettled(message, about)
    if error["code"] == NOT_REACHED:
        raise Behind(message)
    raise Refused(error["code"], message, about)


def _trouble(url: str, error: Exception) -> ClientError:
    """An address that is none is its writer's fault; all else is the world's."""
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return Refused(INVALID, f"url: must be such as http://127.0.0.1:31548, not {url!r}", {"field": "url"})
    return Unreachable(f"{url}: {_reason_of(error)}")


def _reason_of(error: Exception) -> str:
    """Why there is no connection or no answer, without the HTTP library's own wording."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorDNSError():
            return f"the host name {error.host!r} cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate is not trusted: {_tls_reason(error.certificate_error)}"
        case aiohttp.ClientConnectorSSLError():
            return f"no TLS there ({_tls_reason(error.os_error)}): an http:// address may be the right one"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "connection refused: no process listens on this port"
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str() as reason)):
            return f"no connection: {reason}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientResponseError() | ConnectionResetError():
            return f"no HTTP answer: the node stopped, or this is its port for peers or for gRPC; {RIGHT_PORT}"
        case _:
            return str(error) or type(error).__name__


def _tls_reason(error: Exception) -> str:
    """The failure, without the place in the source of the TLS library."""
    return getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__


def read(answer: object, shape: type[Shape]) -> Shape:
    """An answer as a value. Raises `Unreachable` if it has another shape."""
    try:
        # Numbers of contracts come as decimal text, as they may be larger than other clients' numbers.
        return msgspec.convert(answer, shape, strict=False)
    except msgspec.ValidationError as error:
        raise Unreachable(f"the answer is not what it should be: {error}") from error


def read_if_any(answer: object, shape: type[Shape]) -> Shape | None:
    """The same for an answer that may be null."""
    return None if answer is None else read(answer, shape)
