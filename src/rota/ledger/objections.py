"""The meaning of nodes' errors when they do not accept a transaction.

There is no standard for it: every client has its own texts and some have their own codes, and gateways add prefixes. So
a text is searched in lower case for known parts; a name that one client writes as one word and another as two is listed
in both forms. The order matters: "replacement transaction underpriced" is about a price, and a text about a known
transaction may mention its nonce too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.chain.events import Objection
from rota.ledger.transports import RpcFailure


@dataclass(frozen=True, slots=True)
class AlreadyKnown:
    """The node already has this transaction, which counts as accepted."""


_ALREADY_KNOWN: Final = (
    "already known",  # Geth, Reth
    "known transaction",  # Besu, and Geth of old
    "alreadyknown",  # Nethermind
    "already imported",  # Anvil
    "existing tx with same hash",  # Erigon
    "already in the mempool",
    "already exists in",
)
_OBJECTIONS: Final = (
    (
        Objection.NO_FUNDS,
        (
            "insufficient funds",  # Geth, Reth, Anvil, Erigon
            "insufficientfunds",  # Nethermind
            "upfront cost exceeds account balance",  # Besu
            "not enough funds",
            "insufficient balance",
        ),
    ),
    (
        Objection.UNDERPRICED,
        (
            "underpriced",  # Geth, Reth, Anvil, Besu: of a replacement, and of a transaction as such
            "replacement fee too low",
            "could not replace existing",  # Erigon
            "replacementnotallowed",  # Nethermind
            "feetoolow",  # Nethermind; FeeTooLowToCompete too
            "fee too low",
            "gas price below",  # Besu: the minimum of its configuration, or the base fee
            "less than block base fee",  # Geth, Reth, Anvil
            "lower than the block base fee",
            "below the base fee",
            "tip above fee cap",
            "fee cap less than block",  # Erigon
            "gas price too low",
        ),
    ),
    (
        Objection.NONCE_TOO_LOW,
        (
            "nonce too low",  # Geth, Besu, Reth, Anvil, Erigon
            "nonce is too low",
            "oldnonce",  # Nethermind
            "below current nonce",
            "below sender account nonce",  # Besu
        ),
    ),
)


def objection_of(failure: RpcFailure) -> Objection | AlreadyKnown:
    """Return the meaning of a refused `eth_sendRawTransaction`."""
    text = failure.message.lower()
    if isinstance(failure.data, str):
        text += " " + failure.data.lower()
    if any(each in text for each in _ALREADY_KNOWN):
        return AlreadyKnown()
    return next((objection for objection, texts in _OBJECTIONS if any(each in text for each in texts)), Objection.OTHER)
