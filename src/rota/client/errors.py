"""Errors between an application and a node, by their cause.

Refused        the caller: the same request gets the same answer; `field` names the parameter to correct
Unreachable    the node or the network: the request may succeed later, and was retried where that is safe
Overloaded     the node: it has too much to do, began nothing of this, and was asked several times
Behind         the node: it has not seen the blocks that this process has, and does not return an older value
Unsettled      as unreachable; the error has the id and key with which to ask whether the request was accepted
BalanceUnknown none: another node knows the balance
Failed         the transaction: it was accepted, and ended without success; its receipt has the reason
Pending        none yet: it has not ended in the time that its application wanted to wait, and continues
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.client.answers import Explanation, TransactionReceipt

KEY_USED: Final = -32_001
UNKNOWN_METHOD: Final = -32_601
INVALID: Final = -32_602
INTERNAL: Final = -32_603
OVERLOADED: Final = -32_004
OUTCOME_UNKNOWN: Final = -32_003
NOT_REACHED: Final = -32_006
NOT_AUTHORISED: Final = -32_000


class ClientError(Exception):
    """A call did not end well."""


class Refused(ClientError):
    """The node refuses the request; the same request gets the same answer.

    `field` names the parameter to correct, if there is one. `details` are further fields of the error.
    """

    def __init__(self, code: int, message: str, details: Mapping[str, object]) -> None:
        super().__init__(message)
        self.code: Final = code
        self.details: Final = dict(details)
        self.field: Final = str(details.get("field", ""))

    @property
    def same_transaction(self) -> str | None:
        """The transaction that has the idempotency key of this request and asks for the same, if there is one."""
        return self.keyed_transaction if self.details.get("same") is True else None

    @property
    def keyed_transaction(self) -> str | None:
        """The transaction that has the idempotency key of this request, whatever it asks for."""
        return str(self.details["transactionId"]) if self.code == KEY_USED else None

    @property
    def is_not_compared(self) -> bool:
        """The idempotency key was used before, and the node does not know whether for the same request."""
        return self.code == KEY_USED and "same" not in self.details


class Unreachable(ClientError):
    """No answer, or none for now. The request may succeed later, and may have been carried out already."""


class Unsettled(Unreachable):
    """The node does not know whether it accepted this. `details` has the id and the key to ask with.

    It may not know yet, or the transaction with this idempotency key cannot be compared with the request.
    """

    def __init__(self, message: str, details: Mapping[str, object]) -> None:
        super().__init__(message)
        self.details: Final = dict(details)


class Overloaded(Unreachable):
    """The node has too much to do and began nothing of this; `retry_after_s` is when it wants to be asked again."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s: Final = retry_after_s


class Behind(Unreachable):
    """The node has not seen the block or the states of a receipt that this process has read."""


class BalanceUnknown(ClientError):
    """This node does not know the balance of an account; the nodes of `known_by` do."""

    def __init__(self, account: str, known_by: tuple[str, ...]) -> None:
        super().__init__(f"this node does not know the balance of {account}; {' and '.join(known_by)} would")
        self.known_by: Final = known_by


class Closed(Unreachable):
    """This client is closed."""


class Failed(ClientError):
    """A transaction has ended without success: nothing of it happened. `receipt` is how it ended."""

    def __init__(self, receipt: TransactionReceipt) -> None:
        super().__init__(receipt.failure_message or "the node gave no reason")
        self.receipt: Final = receipt


class Pending(ClientError):
    """A transaction has not ended yet. It continues; `explanation` has its state and the node that blocks it."""

    def __init__(self, message: str, explanation: Explanation | None) -> None:
        super().__init__(message)
        self.explanation: Final = explanation
