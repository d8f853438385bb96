"""Deposits and withdrawals: coins made of a public token (ERC-20), and turned into it.

Either is a transition with one call of the token, which the ledger makes itself and holds to what it says: a deposit
takes from the sender's address what it has let the ledger take, a withdrawal gives to it. The leaf binds the call, and
what it moves is the net of the proof. What a node can tell beforehand it tells before anything is proved; the chain
decides, and a transition whose call fails there is skipped.
"""

from __future__ import annotations

from typing import Any, Final

from rota.domains.base import Assembly, Rejected, Reserve
from rota.model.types import Call, ContractAddress, Party, address_bytes

# What the token may use for a transfer and for being asked twice what the ledger has; what is left of it is not paid.
MOVE_GAS: Final = 250_000

_SELECTOR_BYTES: Final = 4
_WORD_BYTES: Final = 32
_DEPOSIT: Final = bytes.fromhex("23b872dd")  # transferFrom(address,address,uint256)
_WITHDRAWAL: Final = bytes.fromhex("a9059cbb")  # transfer(address,uint256)
_SET_TOKEN: Final = bytes.fromhex("c29a6fda")  # setERC20(address)

# Errors that ERC-20s have in common (ERC-6093): each has an address, what there is, and what is needed.
_TOO_LITTLE: Final = {
    bytes.fromhex("fb8f41b2"): "the contract may take {there} of the {needed}",  # ERC20InsufficientAllowance
    bytes.fromhex("e450d38c"): "there are {there} of the {needed}",  # ERC20InsufficientBalance
}
_TOO_LITTLE_BYTES: Final = _SELECTOR_BYTES + 3 * _WORD_BYTES


# Calls.


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


def moved_by(calls: tuple[Call, ...]) -> tuple[int, int]:
    """How much comes in by a transition's calls, and how much leaves: it has one at most."""
    if not calls:
        return 0, 0
    (call,) = calls
    amount = int.from_bytes(call.data[-_WORD_BYTES:], "big")
    return (amount, 0) if is_deposit(call) else (0, amount)


def sets_token(call: bytes) -> bool:
    """Whether this call tells the ledger its token."""
    return call.startswith(_SET_TOKEN) and len(call) == _SELECTOR_BYTES + _WORD_BYTES


def _word(address: ContractAddress) -> bytes:
    return address_bytes(address).rjust(_WORD_BYTES, b"\0")


# What there is.


def require_reserve(work: Assembly[Any]) -> Reserve:
    """What the chain has of the token. `Rejected` when the contract was given none."""
    if work.reserve is None:
        raise Rejected("", f"{work.contract.address} has no ERC-20: its issuer must set one first (setERC20)")
    return work.reserve


def shortage_of(reserve: Reserve, sender: Party, comes_in: int = 0, leaves: int = 0) -> str:
    """Why so much cannot be moved now; empty when it can, or nobody knows."""
    if reserve.balance is not None and reserve.balance < comes_in:
        return f"{sender} has {reserve.balance} of the {comes_in} at {reserve.account}"
    if reserve.allowed is not None and reserve.allowed < comes_in:
        return f"{sender} has let the contract take {reserve.allowed} of the {comes_in}"
    if reserve.held is not None and reserve.held < leaves:
        return f"the contract holds {reserve.held} of the {leaves}: not all of its coins were deposited"
    return ""


def explained(revert: bytes) -> str | None:
    """What a token said when it refused, where that is known; nothing when it is not."""
    text = _TOO_LITTLE.get(revert[:_SELECTOR_BYTES])
    if text is None or len(revert) != _TOO_LITTLE_BYTES:
        return None
    there, needed = (int.from_bytes(revert[at : at + _WORD_BYTES], "big") for at in (36, 68))
    return text.format(there=there, needed=needed)
