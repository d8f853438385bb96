"""Errors between a user and a node, by owner.

The caller's: `Rejected`, with the code that JSON-RPC clients know and the field to correct. The world's:
`rota.ports.Unavailable`; a retry may succeed. Ours: an assertion, of which the user sees only where to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from rota.model.types import IntentId, intent_text
from rota.ports import Unavailable
from rota.schema.commands import Failure

HOUR_S: Final = 3_600


class ErrorCode(IntEnum):
    """The codes of JSON-RPC answers; clients decide by them what to do next."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    UNKNOWN_METHOD = -32601
    INVALID_PARAMETERS = -32602
    INTERNAL = -32603
    NOT_AUTHORISED = -32000
    KEY_USED = -32001
    COMMAND_REJECTED = -32002
    OUTCOME_UNKNOWN = -32003
    OVERLOADED = -32004
    ANSWER_TOO_LONG = -32005
    NOT_REACHED = -32006


class Rejected(Exception):
    """The request is invalid; the same request gets the same error.

    `field` is a path in the request, such as `dependsOn[0]`, or empty for the whole request. `details` is for programs:
    JSON values in the error's `data`.
    """

    def __init__(self, code: ErrorCode, field: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.code = code
        self.field = field
        self.message = message
        self.details = dict(details or {})

    def within(self, place: str) -> Rejected:
        """The same error with its fields relative to this place of the request."""
        if not self.field:
            return self
        return Rejected(self.code, f"{place}.{self.field}", self.message, self.details)


class OutcomeUnknown(Exception):
    """The node does not know yet whether it accepted this. It will: `ask_with` has the id and the key to query."""

    def __init__(self, ask_with: Mapping[str, object]) -> None:
        names = ", ".join(f"{name} {value}" for name, value in ask_with.items() if isinstance(value, str))
        super().__init__(f"not settled yet whether this was accepted; ask with {names or 'what data names'}")
        self.details: dict[str, object] = {"definite": False, **ask_with}


class Overloaded(Unavailable):
    """The node has too much to do and has not begun this; retry after `retry_after_s`."""

    def __init__(self, wait_s: float, wait_max_s: float, retry_after_s: int) -> None:
        shown = "more than an hour" if wait_s > HOUR_S else f"about {wait_s:.0f} s"
        super().__init__(
            f"the node is overloaded: a transaction would wait for {shown}, and at most {wait_max_s:g} s are allowed; "
            f"try again in {retry_after_s} s"
        )
        self.retry_after_s = retry_after_s
        self.details: dict[str, object] = {"definite": True, "retryAfterS": retry_after_s}


class NotReached(Unavailable):
    """The node has not reached the position that its caller requires; it may later."""

    def __init__(self, node: str, height: int, lacks: str, waited_s: float) -> None:
        super().__init__(f"{node} still lacks {lacks} after {waited_s:g} s; its index is at block {height}; try again")
        self.details: dict[str, object] = {"definite": True, "height": height}


def invalid(field: str, message: str) -> Rejected:
    """A parameter is invalid; the message says what is valid."""
    return Rejected(ErrorCode.INVALID_PARAMETERS, field, message)


class KeyUsed(Rejected):
    """The idempotency key belongs to this transaction; clients look for `PD012220` and for its id in the text.

    `is_same`: whether that transaction requests the same; `None` where the node cannot tell, with the `reason`.
    """

    def __init__(
        self,
        key: str,
        intent: IntentId,
        is_same: bool | None = None,
        first: Mapping[str, object] | None = None,
        reason: str = "",
    ) -> None:
        existing = intent_text(intent)
        text = f"PD012220: idempotencyKey {key!r} was used before, for transaction {existing}"
        details: dict[str, object] = {"transactionId": existing}
        if is_same is not None:
            details["same"] = is_same
        if is_same is False:
            text += ", which asks for something else"
            details["first"] = dict(first or {})
        if reason:
            text += f"; whether that asks for the same cannot be told: {reason}"
            details["reason"] = reason
        super().__init__(ErrorCode.KEY_USED, "", text, details)
        self.key = key
        self.intent = intent

    def compared(self, is_same: bool, first: Mapping[str, object]) -> KeyUsed:
        """The same error after a comparison; if the requests differ, with the first request."""
        return KeyUsed(self.key, self.intent, is_same, first)

    def not_compared(self, reason: str) -> KeyUsed:
        """The same error where the node cannot compare the requests, with the reason."""
        return KeyUsed(self.key, self.intent, reason=reason)


def key_used(key: str, intent: IntentId) -> KeyUsed:
    """The idempotency key belongs to this transaction; the requests are not compared yet."""
    return KeyUsed(key, intent)


def unknown_payee(party: str, message: str, *, is_checked: bool) -> Rejected:
    """A transaction for known parties names this one. With `is_checked` the party is unknown, else nobody was asked."""
    return Rejected(ErrorCode.INVALID_PARAMETERS, "payees", message, {"party": party, "checked": is_checked})


def command_rejected(failure: Failure) -> Rejected:
    """The error of a command in the form of gRPC: its status code, its error id and its metadata."""
    about = {"statusCode": failure.code.name, "errorId": failure.error_id, "metadata": dict(failure.metadata)}
    return Rejected(ErrorCode.COMMAND_REJECTED, "", failure.message, about)
