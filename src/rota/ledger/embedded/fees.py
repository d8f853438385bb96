"""Gas prices and costs: the base fee's rule, a transaction's price, and the gas that it needs before it runs."""

from __future__ import annotations

from typing import Final

from rota.ledger.transaction import DynamicFeeTransaction, Transaction

# EIP-1559: a block is half full at its target, and the fee moves by at most an eighth.
ELASTICITY: Final = 2
CHANGE_DENOMINATOR: Final = 8

TRANSACTION_GAS: Final = 21_000
CREATION_GAS: Final = 32_000
ZERO_BYTE_GAS: Final = 4
BYTE_GAS: Final = 16
INIT_CODE_WORD_GAS: Final = 2  # EIP-3860
INIT_CODE_BYTES_MAX: Final = 2 * 24_576
ACCESS_ADDRESS_GAS: Final = 2_400  # EIP-2930
ACCESS_SLOT_GAS: Final = 1_900
# EIP-7623: calldata costs at least this much a token, four tokens to a byte that is not zero.
FLOOR_TOKEN_GAS: Final = 10
FLOOR_TOKENS_PER_BYTE: Final = 4


def next_base_fee(base_fee_wei: int, gas_used: int, gas_limit: int) -> int:
    """The base fee of the block after one that used this much gas (EIP-1559)."""
    target = max(gas_limit // ELASTICITY, 1)
    if gas_used == target:
        return base_fee_wei
    if gas_used > target:
        return base_fee_wei + max(base_fee_wei * (gas_used - target) // target // CHANGE_DENOMINATOR, 1)
    return base_fee_wei - base_fee_wei * (target - gas_used) // target // CHANGE_DENOMINATOR


def max_fee(transaction: Transaction) -> int:
    """Return the most that it pays for a unit of gas."""
    if isinstance(transaction, DynamicFeeTransaction):
        return transaction.max_fee_per_gas
    return transaction.gas_price


def max_tip(transaction: Transaction) -> int:
    """Return the most of that which is on top of the base fee."""
    if isinstance(transaction, DynamicFeeTransaction):
        return transaction.max_priority_fee_per_gas
    return transaction.gas_price


def effective_price(transaction: Transaction, base_fee_wei: int) -> int:
    """Return the price of a unit of gas in a block with this base fee."""
    return min(max_fee(transaction), base_fee_wei + max_tip(transaction))


def cost_max(transaction: Transaction) -> int:
    """Return the most that it takes from its sender."""
    return transaction.gas_limit * max_fee(transaction) + transaction.value


def intrinsic_gas(transaction: Transaction) -> int:
    """Return the gas that it uses before its first instruction."""
    data = transaction.data
    zeros = data.count(0)
    gas = TRANSACTION_GAS + zeros * ZERO_BYTE_GAS + (len(data) - zeros) * BYTE_GAS
    if transaction.to is None:
        gas += CREATION_GAS + INIT_CODE_WORD_GAS * ((len(data) + 31) // 32)
    for entry in getattr(transaction, "access_list", ()):
        gas += ACCESS_ADDRESS_GAS + ACCESS_SLOT_GAS * len(entry.slots)
    return gas


def floor_gas(data: bytes) -> int:
    """Return the least gas of a transaction with this calldata (EIP-7623)."""
    zeros = data.count(0)
    return TRANSACTION_GAS + FLOOR_TOKEN_GAS * (zeros + FLOOR_TOKENS_PER_BYTE * (len(data) - zeros))
