"""JSON-RPC 2.0 without a library: bytes in, bytes out, over any transport.

Theory of operation. An `id` may be any value and is returned as it was written, byte for byte; it is not used for
lookups, so that several concurrent requests may have the same one. A request without an id is a notification and has no
answer. The entries of a batch are started and answered in its order, without waiting for one another.

Before decoding, the text is checked to be UTF-8 and its structure is bounded (`structure`), for the whole body and for
each call. The entries of a batch start a few at a time, so that the event loop serves others in between. No request
holds it for more than 50 ms of processor time.

The answers to one message are bounded by `answer_bytes_max`. A call that starts when nothing is left of that is refused
before it does anything; a long answer that does not fit is replaced by an error. Short answers are always sent, as a
client could not know otherwise whether a submission was accepted.

Errors by their cause: `Rejected` goes to the client unchanged; `Unavailable` and timeouts are reported as such; any
other error is ours, is logged in full under a reference, and the client gets the reference.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from rota.logs import catalogue
from rota.ports import FOR_CALLER, Unanswerable, Unavailable
from rota.rpc.credentials import CALLER, Caller, share_of, shown_trouble
from rota.rpc.errors import ErrorCode, NotReached, OutcomeUnknown, Overloaded, Rejected, invalid
from rota.rpc.formats import encode
from rota.rpc.methods import Method, begun_in_order
from rota.rpc.structure import flaw_of
from rota.rpc.subscriptions import Subscriber
from rota.server.settings import SHORT_ANSWER_BYTES, Limits
from rota.service.interface import Node
from rota.service.parties import require_allowed

REFERENCE_BYTES: Final = 6
METHOD_CHARACTERS_MAX: Final = 128
UNKNOWN: Final = "unknown"

_NULL: Final = msgspec.Raw(b"null")


class _Request(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    method: Any = None
    params: msgspec.Raw = msgspec.Raw(b"")
    jsonrpc: Any = "2.0"


class _Result(msgspec.Struct):
    jsonrpc: str
    id: msgspec.Raw
    result: object


class _ErrorBody(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    data: object = None


class _Error(msgspec.Struct):
    jsonrpc: str
    id: msgspec.Raw
    error: _ErrorBody


class Answer(NamedTuple):
    """The reply to a message, if any. `code` is the error of a message that is one request; a batch has none.

    `retry_after_s` is when the client of an overloaded node should retry.
    """

    body: bytes | None
    code: ErrorCode | None = None
    retry_after_s: int = 0


class _Room:
    """How many bytes the answers to one message may still use."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Watch(Protocol):
    """Counts calls."""

    def called(self, method: str, outcome: str, took_s: float) -> None:
        """Count a call that has ended: with `ok`, or with the name of its error's code."""
        ...


class Dispatcher:
    """Answers requests for one node."""

    def __init__(self, node: Node, methods: Mapping[str, Method], limits: Limits, watch: Watch) -> None:
        self._node: Final = node
        self._methods: Final = methods
        self._limits: Final = limits
        self._watch: Final = watch
        self._calls: Final = asyncio.Semaphore(limits.calls_max)
        # By caller name: there are no more of them than credentials.
        self._shares: Final[dict[str, asyncio.Semaphore]] = {}

    async def answer(self, body: bytes, caller: Caller, subscriber: Subscriber | None = None) -> Answer:
        """Return the answer to a request or a batch; it has no body when the message holds only notifications.

        `subscriber` is given when the caller's connection stays open and can receive notifications.
        """
        limits = self._limits
        try:
            body.decode()
        except UnicodeDecodeError as error:
            return _refused(f"not JSON: not UTF-8 at byte {error.start}", ErrorCode.PARSE_ERROR)
        if flaw := flaw_of(body, limits.json_depth_max, limits.json_tokens_max):
            return _refused(flaw)
        room = _Room(limits.answer_bytes_max)
        try:
            if body.lstrip()[:1] == b"[":
                entries = msgspec.json.decode(body, type=list[msgspec.Raw])
                return await self._answer_batch(entries, caller, subscriber, room)
            request = msgspec.json.decode(body, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            return _refused(f"not JSON: {error}", ErrorCode.PARSE_ERROR)
        return await self._answer_one(request, caller, subscriber, room)

    async def _answer_batch(
        self, entries: list[msgspec.Raw], caller: Caller, subscriber: Subscriber | None, room: _Room
    ) -> Answer:
        if not entries:
            return _refused("a batch holds at least one request")
        if len(entries) > self._limits.batch_entries_max:
            return _refused(
                f"a batch holds at most {self._limits.batch_entries_max} requests, and this one has {len(entries)}"
            )
        begun = await begun_in_order(self._answer_one(entry, caller, subscriber, room) for entry in entries)
        given = [body for task in begun if (body := task.result().body) is not None]
        if not given:
            return Answer(None)
        # Includes the brackets, so that many megabytes are copied only once.
        given[0] = b"[" + given[0]
        given[-1] += b"]"
        return Answer(b",".join(given))

    async def _answer_one(
        self, entry: msgspec.Raw, caller: Caller, subscriber: Subscriber | None, room: _Room
    ) -> Answer:
        try:
            request = msgspec.json.decode(entry, type=_Request)
        except msgspec.DecodeError as error:
            return _refused(f"a request is an object with method, params and id: {error}")
        began_s = time.perf_counter()
        name = UNKNOWN
        body: bytes | None = None
        code: ErrorCode | None = None
        outcome = "ok"
        retry_after_s = 0
        CALLER.set(caller)
        FOR_CALLER.set(True)
        try:
            method = self._method_of(request, caller)
            name = method.name
            self._check_bounds(request, room)
            result = await self._call(method, request, subscriber)
            body = None if method.is_silent else self._fitted(_encode_result(request.id, result), room)
        except Rejected as error:
            body, code = _rejection(request.id, error), error.code
        except OutcomeUnknown as error:
            code = ErrorCode.OUTCOME_UNKNOWN
            body = _failure(request.id, code, str(error), error.details)
        except Unanswerable as error:
            refusal = invalid("", str(error))
            body, code = _rejection(request.id, refusal), refusal.code
        except Overloaded as error:
            retry_after_s, code = error.retry_after_s, ErrorCode.OVERLOADED
            body = _failure(request.id, code, str(error), error.details)
        except NotReached as error:
            code = ErrorCode.NOT_REACHED
            body = _failure(request.id, code, str(error), error.details)
        except Unavailable as error:
            text, outcome = f"the node cannot do this now, try again: {shown_trouble(error)}", "unavailable"
            body, code = _failure(request.id, ErrorCode.INTERNAL, text), ErrorCode.INTERNAL
        except Exception as error:
            body, code = _internal_error(request.id, name, error), ErrorCode.INTERNAL
        if code is not None and outcome == "ok":
            outcome = code.name.lower()
        self._watch.called(name, outcome, time.perf_counter() - began_s)
        if body is not None:
            room.left -= len(body)
        # A malformed request has no id and is answered all the same; a notification is not.
        is_answered = bool(bytes(request.id)) or code is ErrorCode.INVALID_REQUEST
        return Answer(body if is_answered else None, code, retry_after_s)

    def _check_bounds(self, request: _Request, room: _Room) -> None:
        """Raise `Rejected` when the parameters have too many tokens, or when there is no room left for an answer."""
        flaw = flaw_of(bytes(request.params), self._limits.json_depth_max, self._limits.call_tokens_max)
        if flaw:
            raise invalid("params", flaw)
        if room.left <= 0:
            raise self._too_long()

    def _fitted(self, answer: bytes, room: _Room) -> bytes:
        if len(answer) > room.left and len(answer) > SHORT_ANSWER_BYTES:
            raise self._too_long()
        return answer

    def _too_long(self) -> Rejected:
        most = self._limits.answer_bytes_max
        text = f"the answers to one message have at most {most} bytes; ask for less at a time"
        return Rejected(ErrorCode.ANSWER_TOO_LONG, "", text, {"bytesMax": most})

    def _method_of(self, request: _Request, caller: Caller) -> Method:
        if request.jsonrpc != "2.0":
            raise Rejected(ErrorCode.INVALID_REQUEST, "jsonrpc", "must be '2.0'")
        if not isinstance(request.method, str) or not request.method:
            raise Rejected(ErrorCode.INVALID_REQUEST, "method", "must be the name of a method")
        method = self._methods.get(request.method)
        if method is None:
            known = request.method[:METHOD_CHARACTERS_MAX]
            raise Rejected(
                ErrorCode.UNKNOWN_METHOD, "", f"there is no method {known!r}; rpc.discover lists those that there are"
            )
        if method.role not in caller.roles:
            raise Rejected(
                ErrorCode.NOT_AUTHORISED, "", f"{method.name} needs the role {method.role.value!r}, which you lack"
            )
        if caller.families is not None and method.family not in caller.families:
            families = caller.families_text
            text = f"{method.name} is of the family {method.family!r}, and your credentials are for {families}"
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)
        return method

    async def _call(self, method: Method, request: _Request, subscriber: Subscriber | None) -> object:
        """Call the method within `call_timeout_ms`, including the wait for a turn; its effects may still come later."""
        arguments = method.read(bytes(request.params))
        if method.needs_connection and subscriber is None:
            raise Rejected(ErrorCode.INVALID_REQUEST, "", f"{method.name} works over a WebSocket alone, not over HTTP")
        connection = (subscriber,) if method.needs_connection else ()
        caller = CALLER.get()
        try:
            async with asyncio.timeout(self._limits.call_timeout_ms / 1_000), self._share_of(caller), self._calls:
                narrow = await require_allowed(method, arguments, self._node, caller)
                answer = await method.function(self._node, *connection, **arguments)
                return narrow(answer) if narrow is not None else answer
        except asyncio.CancelledError:
            # Cancelled: either our own caller is gone, or the node has cancelled what the method waits for.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise Unavailable(f"{method.name} will not be answered, as the node is stopping") from None
        except TimeoutError:
            raise Unavailable(
                f"{method.name} was not answered within {self._limits.call_timeout_ms} ms and may yet be done"
            ) from None

    def _share_of(self, caller: Caller) -> asyncio.Semaphore:
        """Return the caller's semaphore, which keeps its waiting calls from delaying those of others."""
        share = self._shares.get(caller.name)
        if share is None:
            share = self._shares[caller.name] = asyncio.Semaphore(share_of(caller, self._limits.calls_max))
        return share


def refusal(message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> bytes:
    """Return the answer to a malformed request, whose id is unknown."""
    return _failure(_NULL, code, message)


def _refused(message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> Answer:
    return Answer(refusal(message, code), code)


def _encode_result(request_id: msgspec.Raw, result: object) -> bytes:
    return encode(_Result("2.0", request_id, result)) if bytes(request_id) else b""


def _rejection(request_id: msgspec.Raw, error: Rejected) -> bytes:
    about = {"field": error.field} if error.field else {}
    return _failure(request_id, error.code, str(error), {**about, **error.details})


def _internal_error(request_id: msgspec.Raw, method: str, error: Exception) -> bytes:
    reference = secrets.token_hex(REFERENCE_BYTES)
    catalogue.RPC_METHOD_FAILED.log(method=method, reference=reference, error=error)
    return _failure(request_id, ErrorCode.INTERNAL, f"internal error; the node's log has it under {reference}")


def _failure(
    request_id: msgspec.Raw, code: ErrorCode, message: str, about: Mapping[str, object] | None = None
) -> bytes:
    shown_id = request_id if bytes(request_id) else _NULL
    return encode(_Error("2.0", shown_id, _ErrorBody(int(code), message, about or None)))
