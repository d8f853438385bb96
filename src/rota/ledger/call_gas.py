"""How much gas a call needs that a ledger contract makes, as our own Ethereum node simulates it on the latest block."""

from __future__ import annotations

from typing import Final

from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_quantity
from rota.model.types import ContractAddress
from rota.ports import Unavailable

# What a transaction costs beside what its call uses: an estimate contains it, a call from a contract does not pay it.
_TRANSACTION_GAS: Final = 21_000
_ZERO_BYTE_GAS: Final = 4
_BYTE_GAS: Final = 16


def transaction_gas(call: bytes) -> int:
    """What a transaction with this data costs before its call begins."""
    zeros = call.count(0)
    return _TRANSACTION_GAS + _ZERO_BYTE_GAS * zeros + _BYTE_GAS * (len(call) - zeros)


async def gas_of_call(client: RpcClient, caller: ContractAddress, to: ContractAddress, call: bytes) -> int | None:
    """The gas that the call uses; nothing when it fails now, or the node does not answer."""
    try:
        wanted = {"from": caller, "to": to, "data": data(call)}
        estimate = read_quantity(await client.call("eth_estimateGas", wanted, attempts_max=1))
    except (RpcRefused, Unavailable, ValueError):
        return None
    return max(0, estimate - transaction_gas(call))
