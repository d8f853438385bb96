"""Deposits and withdrawals: coins made of a public token (ERC-20), and turned into it.

Either is a transition with one call of the token, which the ledger makes itself and holds to what it says: a deposit
takes from the sender's address what it has let the ledger take, a withdrawal gives to it. The leaf binds the call, and
what it moves is the net of the proof.
"""

from __future__ import annotations

from typing import Final

from rota.types import Call, ContractAddress, address_bytes

# What the token may use for a transfer and for being asked twice what the ledger has; what is left of it is not paid.
MOVE_GAS: Final = 250_000

_DEPOSIT: Final = bytes.fromhex("23b872dd")  # transferFrom(address,address,uint256)
_WITHDRAWAL: Final = bytes.fromhex("a9059cbb")  # transfer(address,uint256)
_WORD_BYTES: Final = 32


def deposit_call(
    token: ContractAddress, account: ContractAddress, ledger: ContractAddress, amount: int, gas: int = MOVE_GAS
) -> Call:
    """Takes the account's tokens."""
    return Call(token, gas, _DEPOSIT + _word(account) + _word(ledger) + amount.to_bytes(_WORD_BYTES, "big"))


def withdrawal_call(token: ContractAddress, account: ContractAddress, amount: int, gas: int = MOVE_GAS) -> Call:
    """Gives the ledger's tokens."""
    return Call(token, gas, _WITHDRAWAL + _word(account) + amount.to_bytes(_WORD_BYTES, "big"))


def is_deposit(call: Call) -> bool:
    """Whether it takes tokens, for which their owner has to sign."""
    return call.data.startswith(_DEPOSIT)


def moved_by(call: Call) -> tuple[int, int]:
    """How much comes in by it, and how much leaves."""
    amount = int.from_bytes(call.data[-_WORD_BYTES:], "big")
    return (amount, 0) if is_deposit(call) else (0, amount)


def _word(address: ContractAddress) -> bytes:
    return address_bytes(address).rjust(_WORD_BYTES, b"\0")
