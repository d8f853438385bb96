"""The failure of a command whose transaction failed: the receipt's code, as a status code and an error id.

A receipt says in words why a transaction failed, as its domain, the sequencer or the ledger put it. Programs need more:
whether a retry of the command may succeed, and whether something that it names is gone. They use the receipt's code
alone: words may change, and a domain may write any text.
"""

from __future__ import annotations

from typing import Final

from rota.commands.errors import CONTRACT_NOT_ACTIVE, INTENT_ID_USED, TRANSACTION_CANCELLED, TRANSACTION_REVERTED
from rota.schema.commands import Failure, StatusCode

# The sequencer's reason when a user cancelled the transaction; only this one is recognised by its words.
CANCELLED: Final = "cancelled"

MEANINGS: Final = {
    # A state that the command names does not exist: another transaction was faster, or this very change, long ago.
    CONTRACT_NOT_ACTIVE: StatusCode.NOT_FOUND,
    # An operator has to find out whether the change happened: no program may submit it again.
    INTENT_ID_USED: StatusCode.FAILED_PRECONDITION,
}


def failure_of(reason: str, code: str) -> Failure:
    """The failure of a command whose transaction failed with this reason, under this code."""
    if code in MEANINGS:
        return Failure(MEANINGS[code], code, reason)
    if reason == CANCELLED:
        return Failure(StatusCode.CANCELLED, TRANSACTION_CANCELLED, reason)
    return Failure(StatusCode.FAILED_PRECONDITION, TRANSACTION_REVERTED, reason or "no reason was given")
