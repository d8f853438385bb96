"""The public token behind coins that are made of one: its address, and an account's balance and allowance.

The ledger contract names its ERC-20. The rest is requested from that token: the account's balance, the amount that the
contract may take, and the contract's own balance. The token may be any contract: values that it does not return are
unknown, and the chain decides when coins are made of it or turned into it.
"""

from __future__ import annotations

from typing import Final

from rota.domains.base import Reserve
from rota.ledger.bindings import decode_result, encode_call
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_data
from rota.model.digests import WORD_BYTES
from rota.model.types import ContractAddress, address_bytes
from rota.ports import Unavailable

# All ledgers of coins have it from `Proofs.sol`.
_LEDGER: Final = "Proved"
_LATEST: Final = "latest"
_BALANCE_OF: Final = bytes.fromhex("70a08231")  # balanceOf(address)
_ALLOWANCE: Final = bytes.fromhex("dd62ed3e")  # allowance(address,address)


async def reserve_of(client: RpcClient, contract: ContractAddress, account: ContractAddress) -> Reserve | None:
    """Return the reserve as of the latest block; None when the contract has no token. Else `Unavailable`."""
    try:
        answer = await client.call("eth_call", _question(contract, encode_call(_LEDGER, "erc20")), _LATEST)
    except RpcRefused as refused:
        raise Unavailable(f"which ERC-20 {contract} has: {refused}") from None
    (found,) = decode_result(_LEDGER, "erc20", read_data(answer))
    if not int(found, 16):
        return None
    token = ContractAddress(found.lower())
    calls = (_BALANCE_OF + _word(account), _ALLOWANCE + _word(account) + _word(contract), _BALANCE_OF + _word(contract))
    together = await client.call_together(*(Call("eth_call", (_question(token, each), _LATEST)) for each in calls))
    balance, allowed, held = map(_number, together.answers)
    return Reserve(token, account, balance, allowed, held)


def _question(to: ContractAddress, call: bytes) -> dict[str, str]:
    return {"to": to, "data": data(call)}


def _word(address: ContractAddress) -> bytes:
    return address_bytes(address).rjust(WORD_BYTES, b"\0")


def _number(answer: object) -> int | None:
    """Return the answer if it is one word."""
    try:
        word = read_data(answer)
    except ValueError:
        return None
    return int.from_bytes(word, "big") if len(word) == WORD_BYTES else None
