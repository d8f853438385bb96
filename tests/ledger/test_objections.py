"""What nodes say when they do not take a transaction, client by client."""

from __future__ import annotations

import pytest

from rota.chain.events import Objection
from rota.ledger.objections import AlreadyKnown, objection_of
from rota.ledger.transports import RpcFailure

KNOWN = AlreadyKnown()

TABLE = [
    ("Geth", -32000, "already known", KNOWN),
    ("Geth of old", -32000, "known transaction: 0b8f3c", KNOWN),
    ("Geth", -32000, "nonce too low: next nonce 5, tx nonce 3", Objection.NONCE_TOO_LOW),
    ("Geth", -32000, "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued", Objection.UNDERPRICED),
    ("Geth", -32000, "transaction underpriced: gas tip cap 0, minimum needed 1000000", Objection.UNDERPRICED),
    (
        "Geth",
        -32000,
        "insufficient funds for gas * price + value: balance 0, tx cost 420000, overshot 420000",
        Objection.NO_FUNDS,
    ),
    (
        "Geth",
        -32000,
        "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 875000000",
        Objection.UNDERPRICED,
    ),
    ("Geth", -32000, "txpool is full", Objection.OTHER),
    ("Geth", -32000, "exceeds block gas limit", Objection.OTHER),
    ("Besu", -32000, "Known transaction", KNOWN),
    ("Besu", -32001, "Nonce too low", Objection.NONCE_TOO_LOW),
    ("Besu", -32000, "Replacement transaction underpriced", Objection.UNDERPRICED),
    ("Besu", -32009, "Gas price below configured minimum gas price", Objection.UNDERPRICED),
    ("Besu", -32009, "Gas price below current base fee", Objection.UNDERPRICED),
    ("Besu", -32004, "Upfront cost exceeds account balance", Objection.NO_FUNDS),
    ("Besu", -32005, "Transaction gas limit exceeds block gas limit", Objection.OTHER),
    ("Reth", -32000, "already known", KNOWN),
    ("Reth", -32000, "nonce too low: next nonce 2, tx nonce 1", Objection.NONCE_TOO_LOW),
    ("Reth", -32000, "replacement transaction underpriced", Objection.UNDERPRICED),
    ("Reth", -32003, "insufficient funds for gas * price + value: have 0 want 42000", Objection.NO_FUNDS),
    ("Reth", -32000, "max fee per gas less than block base fee", Objection.UNDERPRICED),
    ("Anvil", -32003, "transaction already imported", KNOWN),
    ("Anvil", -32003, "nonce too low", Objection.NONCE_TOO_LOW),
    ("Anvil", -32003, "replacement transaction underpriced", Objection.UNDERPRICED),
    ("Anvil", -32003, "Insufficient funds for gas * price + value", Objection.NO_FUNDS),
    ("Anvil", -32003, "max fee per gas less than block base fee", Objection.UNDERPRICED),
    ("Nethermind", -32010, "AlreadyKnown", KNOWN),
    ("Nethermind", -32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 3", Objection.NONCE_TOO_LOW),
    ("Nethermind", -32010, "FeeTooLow, MaxFeePerGas too low", Objection.UNDERPRICED),
    ("Nethermind", -32010, "FeeTooLowToCompete", Objection.UNDERPRICED),
    ("Nethermind", -32010, "ReplacementNotAllowed, existing: 1, replacement: 1", Objection.UNDERPRICED),
    ("Nethermind", -32010, "InsufficientFunds, Account balance: 0, cumulative cost: 42000", Objection.NO_FUNDS),
    ("Erigon", -32000, "INTERNAL_ERROR: existing tx with same hash", KNOWN),
    ("Erigon", -32000, "could not replace existing tx", Objection.UNDERPRICED),
    ("Erigon", -32000, "insufficient funds", Objection.NO_FUNDS),
    ("a gateway", -32000, "upstream said: nonce too low", Objection.NONCE_TOO_LOW),
    ("anybody", -32000, "internal error", Objection.OTHER),
    ("anybody", -32000, "", Objection.OTHER),
]


@pytest.mark.parametrize(("client", "code", "text", "meaning"), TABLE)
def test_refusal_is_understood(client: str, code: int, text: str, meaning: Objection | AlreadyKnown) -> None:
    assert objection_of(RpcFailure(code, text)) == meaning, client


def test_refusal_may_stand_in_the_data_of_an_error() -> None:
    assert objection_of(RpcFailure(-32000, "Server error", "nonce too low")) is Objection.NONCE_TOO_LOW
