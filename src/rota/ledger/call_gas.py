"""How much gas a call needs that a ledger contract makes, as our own Ethereum node simulates it on the latest block."""

from __future__ import annotations

from typing import Final

from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.model.types import ContractAddress
from rota.ports import Unavailable

# Whether a call would succeed with more gas is tried with so much more than it may have. A target may use up all that
# it is given, and an estimate takes many executions.
MORE_GAS: Final = 500_000
# What a transaction costs beside what its call uses: an estimate contains it, a call from a contract does not pay it.
_TRANSACTION_GAS: Final = 21_000
_ZERO_BYTE_GAS: Final = 4
_BYTE_GAS: Final = 16


def transaction_gas(call: bytes) -> int:
    """What a transaction with this data costs before its call begins."""
    zeros = call.count(0)
    return _TRANSACTION_GAS + _ZERO_BYTE_GAS * zeros + _BYTE_GAS * (len(call) - zeros)


async def gas_of_call(
    client: RpcClient, caller: ContractAddress, to: ContractAddress, call: bytes, gas: int
) -> int | None:
    """The gas that a call uses which may have so much; nothing when it fails now, or the node does not answer.

    One that needs a little more than it may have is estimated too.
    """
    before = transaction_gas(call)
    try:
        wanted = {"from": caller, "to": to, "data": data(call), "gas": quantity(before + gas + MORE_GAS)}
        estimate = read_quantity(await client.call("eth_estimateGas", wanted, attempts_max=1))
    except (RpcRefused, Unavailable, ValueError):
        return None
    return max(0, estimate - before)
