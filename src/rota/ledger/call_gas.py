"""Estimates the gas of a call made by a ledger contract, by simulation on our own Ethereum node's latest block."""

from __future__ import annotations

from typing import Final

from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.model.types import ContractAddress
from rota.ports import Unavailable

# To see whether a call would succeed with more gas, it is tried with this much more than its limit. A target may use up
# all its gas, and an estimate takes many executions.
MORE_GAS: Final = 500_000
# The gas of a transaction beside that of its call: an estimate contains it, a contract's call does not pay it.
_TRANSACTION_GAS: Final = 21_000
_ZERO_BYTE_GAS: Final = 4
_BYTE_GAS: Final = 16


def transaction_gas(call: bytes) -> int:
    """Return the gas that a transaction with this data costs before its call begins."""
    zeros = call.count(0)
    return _TRANSACTION_GAS + _ZERO_BYTE_GAS * zeros + _BYTE_GAS * (len(call) - zeros)


async def gas_of_call(
    client: RpcClient, caller: ContractAddress, to: ContractAddress, call: bytes, gas: int
) -> int | None:
    """Return the gas that a call with this limit uses; None when it fails now, or the node does not answer.

    A call that needs up to `MORE_GAS` above its limit is estimated too.
    """
    before = transaction_gas(call)
    try:
        wanted = {"from": caller, "to": to, "data": data(call), "gas": quantity(before + gas + MORE_GAS)}
        estimate = read_quantity(await client.call("eth_estimateGas", wanted, attempts_max=1))
    except (RpcRefused, Unavailable, ValueError):
        return None
    return max(0, estimate - before)
