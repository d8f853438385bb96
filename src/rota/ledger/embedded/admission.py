"""Admission of transactions to the pool: the checks that need no other transaction, in the order of Geth's.

Geth has each of these checks, and the error texts are Geth's, because clients match on them.
"""

from __future__ import annotations

from rota.ledger.embedded.errors import rejected
from rota.ledger.embedded.fees import INIT_CODE_BYTES_MAX, cost_max, floor_gas, intrinsic_gas, max_fee, max_tip
from rota.ledger.embedded.state import Account
from rota.ledger.transaction import Transaction

NONCE_MAX = 2**64 - 2  # EIP-2681


def check_form(transaction: Transaction, chain_id: int, gas_limit: int) -> None:
    """Check the transaction alone; `RpcError` when it is refused."""
    if transaction.chain_id is not None and transaction.chain_id != chain_id:
        raise rejected(f"invalid chain id for signer: have {transaction.chain_id} want {chain_id}")
    if transaction.to is None and len(transaction.data) > INIT_CODE_BYTES_MAX:
        raise rejected(f"max initcode size exceeded: code size {len(transaction.data)}, limit {INIT_CODE_BYTES_MAX}")
    if transaction.gas_limit > gas_limit:
        raise rejected(f"exceeds block gas limit: gas {transaction.gas_limit}, limit {gas_limit}")
    if max_tip(transaction) > max_fee(transaction):
        raise rejected(
            "max priority fee per gas higher than max fee per gas: "
            f"maxPriorityFeePerGas: {max_tip(transaction)}, maxFeePerGas: {max_fee(transaction)}"
        )
    needed = intrinsic_gas(transaction)
    if transaction.gas_limit < needed:
        raise rejected(f"intrinsic gas too low: gas {transaction.gas_limit}, minimum needed {needed}")
    floor = floor_gas(transaction.data)
    if transaction.gas_limit < floor:
        raise rejected(f"insufficient gas for floor data gas cost: gas {transaction.gas_limit}, minimum needed {floor}")


def check_sender(transaction: Transaction, sender: bytes, account: Account, queued_cost_wei: int) -> None:
    """Check the sender's nonce, and that its funds cover this transaction and its queued ones; else `RpcError`."""
    if account.has_code:
        raise rejected(f"sender not an eoa: address 0x{sender.hex()}, which is a contract")
    if transaction.nonce < account.nonce:
        raise rejected(f"nonce too low: next nonce {account.nonce}, tx nonce {transaction.nonce}")
    if transaction.nonce > NONCE_MAX:
        raise rejected(f"nonce has max value: {transaction.nonce}")
    cost = cost_max(transaction)
    if account.balance < cost:
        raise rejected(
            f"insufficient funds for gas * price + value: balance {account.balance}, tx cost {cost}, "
            f"overshot {cost - account.balance}"
        )
    if account.balance < cost + queued_cost_wei:
        raise rejected(
            f"insufficient funds for gas * price + value: balance {account.balance}, queued cost {queued_cost_wei}, "
            f"tx cost {cost}, overshot {cost + queued_cost_wei - account.balance}"
        )
