"""JSON-RPC 2.0 by hand: bytes in, bytes out, whatever they travelled over.

Theory of operation. An `id` is anything and is sent back as it was written, byte for byte; nothing is looked up by
it, so that several requests at a time may bear the same one. A request without an id is a notification and has no
answer. The entries of a batch are begun in its order and answered in its order, and wait for nobody in between.

Before anything is decoded the text is UTF-8 and not nested too deep: a decoder that runs out of stack would take
the request down in a way that tells the client nothing.

Errors by whose fault they are: `Rejected` goes to the client as it is; `Unavailable` and a call that takes too
long are told as such; anything else is ours, is logged whole under a reference, and the client gets the reference.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
import structlog

from rota.api.credentials import CALLER, Caller
from rota.api.errors import ErrorCode, OutcomeUnknown, Rejected, invalid
from rota.api.facade import Node
from rota.api.formats import encode
from rota.api.methods import Method
from rota.api.settings import Limits
from rota.api.subscriptions import Subscriber
from rota.ports import FOR_CALLER, Unanswerable, Unavailable

REFERENCE_BYTES: Final = 6
METHOD_CHARACTERS_MAX: Final = 128
UNKNOWN: Final = "unknown"

_NULL: Final = msgspec.Raw(b"null")
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]')

_log = structlog.get_logger(__name__)


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


class Watch(Protocol):
    """Whoever counts calls."""

    def called(self, method: str, outcome: str, took_s: float) -> None:
        """A call has ended: with `ok`, or with the name of its error's code."""
        ...


class Dispatcher:
    """Answers requests for one node."""

    def __init__(self, node: Node, methods: Mapping[str, Method], limits: Limits, watch: Watch) -> None:
        self._node: Final = node
        self._methods: Final = methods
        self._limits: Final = limits
        self._watch: Final = watch
        self._calls: Final = asyncio.Semaphore(limits.calls_max)

    async def answer(self, body: bytes, caller: Caller, subscriber: Subscriber | None = None) -> bytes | None:
        """The answer to a request or a batch; nothing when it holds notifications alone.

        `subscriber` is there when the caller's connection stays and can be told of what comes.
        """
        flaw = _flaw_of(body, self._limits.json_depth_max)
        if flaw:
            return refusal(flaw)
        try:
            if body.lstrip()[:1] == b"[":
                return await self._answer_batch(msgspec.json.decode(body, type=list[msgspec.Raw]), caller, subscriber)
            request = msgspec.json.decode(body, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            return refusal(f"not JSON: {error}")
        return await self._answer_one(request, caller, subscriber)

    async def _answer_batch(
        self, entries: list[msgspec.Raw], caller: Caller, subscriber: Subscriber | None
    ) -> bytes | None:
        if not entries:
            return refusal("a batch holds at least one request")
        if len(entries) > self._limits.batch_entries_max:
            return refusal(
                f"a batch holds at most {self._limits.batch_entries_max} requests, and this one has {len(entries)}"
            )
        answers = await asyncio.gather(*(self._answer_one(entry, caller, subscriber) for entry in entries))
        given = [answer for answer in answers if answer is not None]
        return b"[" + b",".join(given) + b"]" if given else None

    async def _answer_one(self, entry: msgspec.Raw, caller: Caller, subscriber: Subscriber | None) -> bytes | None:
        try:
            request = msgspec.json.decode(entry, type=_Request)
        except msgspec.DecodeError as error:
            return refusal(f"a request is an object with method, params and id: {error}")
        began_s = time.perf_counter()
        name = UNKNOWN
        answer: bytes | None
        CALLER.set(caller)
        FOR_CALLER.set(True)
        try:
            method = self._method_of(request, caller)
            name = method.name
            result = await self._call(method, request, subscriber)
            answer, outcome = None if method.is_silent else _encode_result(request.id, result), "ok"
        except Rejected as error:
            answer, outcome = _rejection(request.id, error), error.code.name.lower()
        except OutcomeUnknown as error:
            answer = _failure(request.id, ErrorCode.OUTCOME_UNKNOWN, str(error), error.details)
            outcome = ErrorCode.OUTCOME_UNKNOWN.name.lower()
        except Unanswerable as error:
            refused = invalid("", str(error))
            answer, outcome = _rejection(request.id, refused), refused.code.name.lower()
        except Unavailable as error:
            text = f"the node cannot do this now, try again: {error}"
            answer, outcome = _failure(request.id, ErrorCode.INTERNAL, text), "unavailable"
        except Exception:
            answer, outcome = _our_fault(request.id, name), ErrorCode.INTERNAL.name.lower()
        self._watch.called(name, outcome, time.perf_counter() - began_s)
        return answer if bytes(request.id) else None

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
            known = ", ".join(sorted(caller.families))
            text = f"{method.name} is of the family {method.family!r}, and your credentials are for {known}"
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)
        return method

    async def _call(self, method: Method, request: _Request, subscriber: Subscriber | None) -> object:
        """A call waits for its turn and is done within one time; what it began may be done later all the same."""
        arguments = method.read(bytes(request.params))
        if method.needs_connection and subscriber is None:
            raise Rejected(ErrorCode.INVALID_REQUEST, "", f"{method.name} works over a WebSocket alone, not over HTTP")
        connection = (subscriber,) if method.needs_connection else ()
        try:
            async with asyncio.timeout(self._limits.call_timeout_ms / 1_000), self._calls:
                return await method.function(self._node, *connection, **arguments)
        except asyncio.CancelledError:
            # Somebody stopped waiting: our own caller, or the node for what it would have answered with.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise Unavailable(f"{method.name} will not be answered, as the node is stopping") from None
        except TimeoutError:
            raise Unavailable(
                f"{method.name} was not answered within {self._limits.call_timeout_ms} ms and may yet be done"
            ) from None


def refusal(message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> bytes:
    """The answer to what is no request: nobody knows its id."""
    return _failure(_NULL, code, message)


def _flaw_of(body: bytes, depth_max: int) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"not JSON: not UTF-8 at byte {error.start}"
    # What opens less often than the limit cannot be nested deeper, and that is cheap to see.
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return ""
    depth = 0
    for token in _TOKENS.finditer(body):
        opening = token[0][:1]
        if opening in b"[{":
            depth += 1
            if depth > depth_max:
                return f"nested deeper than {depth_max}"
        elif opening in b"]}":
            depth -= 1
    return ""


def _encode_result(request_id: msgspec.Raw, result: object) -> bytes:
    return encode(_Result("2.0", request_id, result)) if bytes(request_id) else b""


def _rejection(request_id: msgspec.Raw, error: Rejected) -> bytes:
    about = {"field": error.field} if error.field else {}
    return _failure(request_id, error.code, str(error), {**about, **error.details})


def _our_fault(request_id: msgspec.Raw, method: str) -> bytes:
    reference = secrets.token_hex(REFERENCE_BYTES)
    _log.exception("a call failed by our own fault", method=method, reference=reference)
    return _failure(request_id, ErrorCode.INTERNAL, f"internal error; the node's log has it under {reference}")


def _failure(
    request_id: msgspec.Raw, code: ErrorCode, message: str, about: Mapping[str, object] | None = None
) -> bytes:
    shown_id = request_id if bytes(request_id) else _NULL
    return encode(_Error("2.0", shown_id, _ErrorBody(int(code), message, about or None)))
