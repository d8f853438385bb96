"""JSON-RPC over WebSockets.

Messages of one connection are answered as they are done, in any order; clients match answers by their ids. A client
that sends faster than it is answered is not read from while `websocket_messages_max` are unanswered; one that does not
take its answers within `send_timeout_ms` is disconnected. So one connection uses a bounded amount of memory. Pings are
answered.

Subscriptions belong to a connection. Notifications of one come after the answer that names it.

A page in a browser cannot set headers of a WebSocket. It offers the value of the `Authorization` header as one more
subprotocol, `rota.authorization.` and the text in base64url; never in the address, which is logged in many places.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from rota.rpc.credentials import Caller, share_of
from rota.rpc.errors import ErrorCode, Rejected
from rota.rpc.subscriptions import Subscriber, Subscriptions
from rota.server.doors import Door, TooMuch
from rota.server.jsonrpc import Dispatcher, refusal
from rota.server.settings import Limits

JSON: Final = "application/json"
SUBPROTOCOL: Final = "rota.v1"
AUTHORIZATION_PREFIX: Final = "rota.authorization."


class WebSockets:
    """Accepts WebSockets, within the limits for all and for one caller."""

    def __init__(self, dispatcher: Dispatcher, door: Door, limits: Limits) -> None:
        self._dispatcher: Final = dispatcher
        self._door: Final = door
        self._limits: Final = limits
        self._open: Final[dict[Connection, None]] = {}
        self._parting: Final[set[asyncio.Task[None]]] = set()

    def add_to(self, application: web.Application, path: str = "/") -> None:
        """Serve at this path."""
        application.router.add_get(path, self._on_get)
        application.on_shutdown.append(self._on_shutdown)

    async def _on_get(self, request: web.Request) -> web.StreamResponse:
        if not self._door.is_welcome_page(request):
            return web.Response(
                status=web.HTTPForbidden.status_code,
                body=refusal("pages of this origin may not call this node"),
                content_type=JSON,
            )
        try:
            caller = await self._door.admit(request, _offered_authorization(request))
        except Rejected as rejected:
            body = refusal(str(rejected), rejected.code)
            return web.Response(status=web.HTTPUnauthorized.status_code, body=body, content_type=JSON)
        most = self._limits.websockets_max
        share = share_of(caller, most)
        is_shared_out = sum(each.caller.name == caller.name for each in self._open) >= share
        if len(self._open) >= most or is_shared_out:
            self._door.metrics.refused("connections")
            body = refusal(f"at most {most} WebSockets are open at a time, and {share} of one caller")
            return web.Response(status=web.HTTPServiceUnavailable.status_code, body=body, content_type=JSON)
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            max_msg_size=self._limits.websocket_message_bytes_max,
            heartbeat=self._limits.idle_timeout_ms / 1_000,
            compress=False,
        )
        await socket.prepare(request)
        connection = Connection(socket, request, self._dispatcher, self._door, self._limits, caller)
        self._open[connection] = None
        try:
            await connection.serve()
        finally:
            del self._open[connection]
        return socket

    def part_from(self, names: frozenset[str]) -> None:
        """Close the connections of callers whose credentials are gone."""
        for connection in tuple(self._open):
            if connection.caller.name in names:
                task = asyncio.create_task(connection.close(WSCloseCode.POLICY_VIOLATION, b"your credentials are gone"))
                self._parting.add(task)
                task.add_done_callback(self._parting.discard)

    async def _on_shutdown(self, _: web.Application) -> None:
        await asyncio.gather(*(connection.close() for connection in tuple(self._open)))


class Connection:
    """The connection of one client."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        request: web.Request,
        dispatcher: Dispatcher,
        door: Door,
        limits: Limits,
        caller: Caller,
    ) -> None:
        self._socket: Final = socket
        self._request: Final = request
        self._dispatcher: Final = dispatcher
        self._door: Final = door
        self._limits: Final = limits
        self.caller: Final = caller
        self._room: Final = asyncio.Semaphore(limits.websocket_messages_max)
        self._answering: Final[dict[asyncio.Task[None], None]] = {}
        self._subscriptions: Final = Subscriptions(self.send, limits.websocket_subscriptions_max)

    async def serve(self) -> None:
        """Answer messages until it is closed; calls that are unanswered then are cancelled."""
        try:
            while (message := await self._socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
                body = message.data.encode() if message.type is WSMsgType.TEXT else message.data
                await self._room.acquire()
                task = asyncio.create_task(self._answer(body))
                self._answering[task] = None
                task.add_done_callback(self._answered)
        finally:
            try:
                # Messages read before the end are started, so that a client's last acknowledgement counts.
                await asyncio.sleep(0)
            finally:
                await self._end()

    async def _end(self) -> None:
        self._subscriptions.end()
        for task in tuple(self._answering):
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def send(self, text: bytes) -> None:
        """Send a frame; disconnect the client if it does not take it in time."""
        try:
            async with asyncio.timeout(self._limits.send_timeout_ms / 1_000):
                await self._socket.send_frame(text, WSMsgType.TEXT)
        except TimeoutError:
            self._door.metrics.refused("slow")
            self._cut()
        except ConnectionError:
            # The client is gone; the task that reads from it will end the connection.
            return

    async def close(self, code: int = WSCloseCode.GOING_AWAY, reason: bytes = b"the node stops") -> None:
        """Close with a code and a reason."""
        try:
            async with asyncio.timeout(self._limits.stop_timeout_ms / 1_000):
                await self._socket.close(code=code, message=reason)
        except TimeoutError:
            self._cut()

    async def _answer(self, body: bytes) -> None:
        subscriber = Subscriber(self._subscriptions)
        try:
            with self._door.room_for(len(body), self.caller):
                answer = await self._dispatcher.answer(body, self.caller, subscriber)
                if answer.body is not None:
                    with self._door.sending(len(answer.body), self.caller):
                        await self.send(answer.body)
            subscriber.begin()
        except TooMuch:
            await self.send(refusal("too much is being answered at this moment, try again", ErrorCode.INTERNAL))

    def _answered(self, task: asyncio.Task[None]) -> None:
        del self._answering[task]
        self._room.release()

    def _cut(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


def _offered_authorization(request: web.Request) -> str | None:
    """Return the authorization that a page offers in place of the header; None when missing or unreadable."""
    offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
    for each in offered.split(","):
        name = each.strip()
        if name.startswith(AUTHORIZATION_PREFIX):
            encoded = name.removeprefix(AUTHORIZATION_PREFIX)
            try:
                return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            except (binascii.Error, UnicodeDecodeError):
                return None
    return None
