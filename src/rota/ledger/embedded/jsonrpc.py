"""JSON-RPC 2.0 over the chain: requests, notifications and batches in, answers out, as bytes.

The transactions of one batch share a block: the chain mines when all of it has been read. Errors have the codes of the
specification and Geth's texts. Every answer is JSON-RPC; a bug is an assertion and is not caught here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.control import CONTROL
from rota.ledger.embedded.errors import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcError
from rota.ledger.embedded.methods import METHODS
from rota.ledger.embedded.parameters import Parameters

BATCH_MAX: Final = 1_000
RESPONSE_BYTES_MAX: Final = 25 * 1024 * 1024
RESPONSE_TOO_LARGE: Final = -32_003

ConnectionMethod: TypeAlias = Callable[[Parameters], object]
"""A method that only some connections have, such as eth_subscribe."""

_ALL: Final = {**METHODS, **CONTROL}
_SUBSCRIPTION_METHODS: Final = ("eth_subscribe", "eth_unsubscribe")
_SUBSCRIPTION_PARAMETERS_MAX: Final = 2


class Rpc:
    """The methods of a chain, as one connection sees them."""

    def __init__(
        self,
        chain: EmbeddedChain,
        of_connection: dict[str, ConnectionMethod] | None = None,
        *,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._chain: Final = chain
        self._response_bytes_max: Final = response_bytes_max
        self._of_connection: Final = of_connection or {}

    def call(self, method: str, parameters: object = None) -> object:
        """Run one method; return its answer, or raise `RpcError`."""
        found = _ALL.get(method)
        if found is not None:
            return found.run(self._chain, Parameters(parameters, found.parameters_max))
        own = self._of_connection.get(method)
        if own is not None:
            return own(Parameters(parameters, _SUBSCRIPTION_PARAMETERS_MAX))
        if method in _SUBSCRIPTION_METHODS:
            raise RpcError(METHOD_NOT_FOUND, "notifications not supported")
        raise RpcError(METHOD_NOT_FOUND, f"the method {method[:64]} does not exist/is not available")

    async def request(self, method: str, *parameters: object) -> object:
        """Do the same for callers in this process."""
        return self.call(method, list(parameters))

    def answer(self, body: bytes | str) -> bytes | None:
        """Return the answer to a message of a connection; None when it expects none."""
        try:
            message = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            return _encoded(_failure(None, RpcError(PARSE_ERROR, f"parse error: {error}")))
        if not isinstance(message, list):
            return self._answer_one(message)
        if not message:
            return _encoded(_failure(None, RpcError(INVALID_REQUEST, "empty batch")))
        if len(message) > BATCH_MAX:
            return _encoded(_failure(None, RpcError(INVALID_REQUEST, f"batch too large: at most {BATCH_MAX} requests")))
        return self._answer_batch(message)

    def _answer_batch(self, messages: list[object]) -> bytes | None:
        answers: list[bytes] = []
        size_bytes = 0
        with self._chain.together():
            for message in messages:
                if size_bytes > self._response_bytes_max:
                    too_large = RpcError(RESPONSE_TOO_LARGE, "response too large")
                    answers.append(_encoded(_failure(_id_of(message), too_large)))
                    continue
                answer = self._answer_one(message)
                if answer is not None:
                    answers.append(answer)
                    size_bytes += len(answer)
        return b"[" + b",".join(answers) + b"]" if answers else None

    def _answer_one(self, message: object) -> bytes | None:
        if (
            not isinstance(message, dict)
            or message.get("jsonrpc") != "2.0"
            or not isinstance(message.get("method"), str)
            or not isinstance(message.get("id"), str | int | float | None)
            or isinstance(message.get("id"), bool)
        ):
            return _encoded(_failure(_id_of(message), RpcError(INVALID_REQUEST, "invalid request")))
        try:
            answer: dict[str, Any] = {
                "jsonrpc": "2.0",
                "id": message.get("id"),
                "result": self.call(message["method"], message.get("params")),
            }
        except RpcError as error:
            answer = _failure(message.get("id"), error)
        return _encoded(answer) if "id" in message else None


def _id_of(message: object) -> object:
    """Return the id of a possibly malformed request, if it is one that can be returned; else None."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def _failure(request_id: object, error: RpcError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def _encoded(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode(answer)
