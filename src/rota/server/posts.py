"""JSON-RPC over HTTP POST.

An answer to JSON-RPC has HTTP status 200, whether it is a result or an error, with two exceptions that proxies should
see: a caller who may not make this one call (403), and an overloaded node (503). A request that is refused before it is
read as JSON-RPC has the status of the reason, with an error of the same shape in the body: missing or unknown
credentials (401), too long (413), too slow (408), encoded (415), too much at a time (503), a page of a refused origin
(403).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs, web

from rota.rpc.credentials import Caller
from rota.rpc.errors import ErrorCode, Rejected
from rota.server.doors import Door, TooMuch
from rota.server.jsonrpc import Dispatcher, refusal
from rota.server.settings import Limits

JSON: Final = "application/json"
RETRY_AFTER_S: Final = "1"
PREFLIGHT_S: Final = "600"
CHALLENGE: Final = 'Bearer realm="rota"'
OK: Final = web.HTTPOk.status_code
# For a message that is one request; the entries of a batch have errors of their own.
STATUSES: Final[Mapping[ErrorCode | None, int]] = {
    ErrorCode.NOT_AUTHORISED: web.HTTPForbidden.status_code,
    ErrorCode.OVERLOADED: web.HTTPServiceUnavailable.status_code,
}


class Posts:
    """Answers POST requests."""

    def __init__(self, dispatcher: Dispatcher, door: Door, limits: Limits) -> None:
        self._dispatcher: Final = dispatcher
        self._door: Final = door
        self._limits: Final = limits

    def add_to(self, application: web.Application) -> None:
        """Serve at `/`."""
        application.router.add_post("/", self._on_post)
        application.router.add_options("/", self._on_options)

    async def _on_post(self, request: web.Request) -> web.StreamResponse:
        if not self._door.is_welcome_page(request):
            return _error(web.HTTPForbidden.status_code, "pages of this origin may not call this node")
        try:
            caller = await self._door.admit(request)
        except Rejected as rejected:
            answer = _not_admitted(rejected)
            await self._send(request, answer)
            return answer
        answer = await self._answer(request, caller)
        try:
            with self._door.sending(len(answer.body) if isinstance(answer.body, bytes) else 0, caller):
                await self._send(request, answer)
        except TooMuch:
            answer = _busy()
            await self._send(request, answer)
        return answer

    async def _answer(self, request: web.Request, caller: Caller) -> web.Response:
        size_max = self._limits.body_bytes_max
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
            return _error(web.HTTPUnsupportedMediaType.status_code, "the body must not be encoded")
        if (request.content_length or 0) > size_max:
            return self._too_long()
        # A body of unknown length may become as long as any.
        size = request.content_length if request.content_length is not None else size_max
        try:
            with self._door.room_for(size, caller):
                async with asyncio.timeout(self._limits.receive_timeout_ms / 1_000):
                    body = await request.read()
                answer = await self._dispatcher.answer(body, caller)
        except TooMuch:
            return _busy()
        except web.HTTPRequestEntityTooLarge:
            return self._too_long()
        except TimeoutError:
            self._door.metrics.refused("slow")
            return _error(web.HTTPRequestTimeout.status_code, f"not received in {self._limits.receive_timeout_ms} ms")
        if answer.body is None:
            return web.Response(status=web.HTTPNoContent.status_code)
        headers = {hdrs.RETRY_AFTER: str(answer.retry_after_s)} if answer.retry_after_s else None
        return web.Response(status=STATUSES.get(answer.code, OK), body=answer.body, content_type=JSON, headers=headers)

    def _too_long(self) -> web.Response:
        self._door.metrics.refused("long")
        size_max = self._limits.body_bytes_max
        return _error(web.HTTPRequestEntityTooLarge.status_code, f"the body must be at most {size_max} bytes")

    async def _send(self, request: web.Request, answer: web.Response) -> None:
        """Send an answer; disconnect a client that does not take it in time, to free its memory."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            answer.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            answer.headers[hdrs.VARY] = hdrs.ORIGIN
        try:
            async with asyncio.timeout(self._limits.send_timeout_ms / 1_000):
                await answer.prepare(request)
                await answer.write_eof()
        except TimeoutError:
            self._door.metrics.refused("slow")
            if request.transport is not None:
                request.transport.abort()

    async def _on_options(self, request: web.Request) -> web.Response:
        """Answer a browser's preflight request for a page of another origin."""
        if hdrs.ORIGIN not in request.headers or not self._door.is_welcome_page(request):
            return web.Response(status=web.HTTPForbidden.status_code)
        return web.Response(
            status=web.HTTPNoContent.status_code,
            headers={
                hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: request.headers[hdrs.ORIGIN],
                hdrs.ACCESS_CONTROL_ALLOW_METHODS: hdrs.METH_POST,
                hdrs.ACCESS_CONTROL_ALLOW_HEADERS: f"{hdrs.AUTHORIZATION}, {hdrs.CONTENT_TYPE}",
                hdrs.ACCESS_CONTROL_MAX_AGE: PREFLIGHT_S,
                hdrs.VARY: hdrs.ORIGIN,
            },
        )


def _not_admitted(rejected: Rejected) -> web.Response:
    """Return a 401 without reading the body. A Basic challenge would make browsers prompt for a password."""
    answer = web.Response(
        status=web.HTTPUnauthorized.status_code,
        body=refusal(str(rejected), rejected.code),
        content_type=JSON,
        headers={hdrs.WWW_AUTHENTICATE: CHALLENGE},
    )
    answer.force_close()
    return answer


def _error(status: int, message: str) -> web.Response:
    """Return an error that closes the connection, since the rest of the request is not read."""
    answer = web.Response(status=status, body=refusal(message), content_type=JSON)
    answer.force_close()
    return answer


def _busy() -> web.Response:
    answer = web.Response(
        status=web.HTTPServiceUnavailable.status_code,
        body=refusal("too much is being answered at this moment, try again", ErrorCode.INTERNAL),
        content_type=JSON,
        headers={hdrs.RETRY_AFTER: RETRY_AFTER_S},
    )
    answer.force_close()
    return answer
