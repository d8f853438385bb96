"""What the end of a transaction means for its command: the receipt's words, as a code and an id.

A receipt says in words why a transaction failed, as its domain, the sequencer or the ledger put it. Programmes need
more: whether the same command may go well another time, and whether what it names is gone. The first that fits counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rota.command_types import Failure, StatusCode
from rota.commands.errors import CONTRACT_NOT_ACTIVE, INTENT_ID_USED, TRANSACTION_CANCELLED, TRANSACTION_REVERTED


class Meaning(NamedTuple):
    """What a reason that begins with one of these texts means."""

    code: StatusCode
    error_id: str
    beginnings: tuple[str, ...]


MEANINGS: Final = (
    # What the command names is not there any more: somebody was faster, or it was this very change, long ago.
    Meaning(
        StatusCode.NOT_FOUND,
        CONTRACT_NOT_ACTIVE,
        ("PD200028", "an input is not available", "a read is not available", "state not available"),
    ),
    Meaning(StatusCode.CANCELLED, TRANSACTION_CANCELLED, ("cancelled",)),
    # Whether the change happened has to be found out by somebody: no program may submit it again.
    Meaning(StatusCode.FAILED_PRECONDITION, INTENT_ID_USED, (INTENT_ID_USED,)),
)


def failure_of(reason: str) -> Failure:
    """Why a command whose transaction failed with this reason did not happen."""
    for meaning in MEANINGS:
        if reason.startswith(meaning.beginnings):
            return Failure(meaning.code, meaning.error_id, reason)
    return Failure(StatusCode.FAILED_PRECONDITION, TRANSACTION_REVERTED, reason or "no reason was given")
