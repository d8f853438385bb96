"""Calls and transactions that are given as objects: run, estimated, or completed and signed."""

from __future__ import annotations

from typing import Final

from rota.ledger.embedded.blocks import Block
from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.errors import execution_failed, rejected
from rota.ledger.embedded.evm import NO_ADDRESS, Message, Outcome
from rota.ledger.embedded.fees import TRANSACTION_GAS, floor_gas
from rota.ledger.embedded.parameters import CallWanted
from rota.ledger.hexadecimal import data
from rota.ledger.transaction import AccessListTransaction, DynamicFeeTransaction, LegacyTransaction, Transaction

ESTIMATE_STEPS_MAX: Final = 40  # more than halving any gas limit takes


def run_call(chain: EmbeddedChain, wanted: CallWanted, block: Block) -> bytes:
    """Return the output; raise `RpcError` when the call fails."""
    outcome = chain.call(_message(wanted, _gas_of(wanted, block)), block)
    if not outcome.succeeded:
        raise execution_failed(outcome.reason, outcome.output, outcome.reverted)
    return outcome.output


def estimate_gas(chain: EmbeddedChain, wanted: CallWanted, block: Block) -> int:
    """Return the least gas limit with which the call succeeds."""
    floor = floor_gas(wanted.data)
    high = _gas_of(wanted, block)
    first = _tried(chain, wanted, high, block)
    if not first.succeeded:
        raise execution_failed(first.reason, first.output, first.reverted)
    # The gas used is the lower bound; refunds and the gas that a call must leave unused add to it.
    low = max(first.gas_used, TRANSACTION_GAS) - 1
    for _ in range(ESTIMATE_STEPS_MAX):
        if low + 1 >= high:
            break
        # The answer is nearly always a little above the gas used, so that is tried first.
        middle = min((low + high) // 2, low + low // 2)
        if _succeeds(chain, wanted, middle, block):
            high = middle
        else:
            low = middle
    return max(high, floor)


def complete(chain: EmbeddedChain, sender: bytes, wanted: CallWanted) -> Transaction:
    """Return the transaction that a wallet would make of the object: missing fields are filled in."""
    gas = wanted.gas if wanted.gas is not None else estimate_gas(chain, wanted, chain.head)
    nonce = wanted.nonce if wanted.nonce is not None else chain.next_nonce(sender)
    chain_id = chain.settings.chain_id
    if wanted.gas_price is not None and wanted.access_list is not None:
        return AccessListTransaction(
            chain_id=chain_id,
            nonce=nonce,
            gas_price=wanted.gas_price,
            gas_limit=gas,
            to=wanted.to,
            value=wanted.value,
            data=wanted.data,
            access_list=wanted.access_list,
        )
    if wanted.gas_price is not None:
        return LegacyTransaction(
            chain_id=chain_id,
            nonce=nonce,
            gas_price=wanted.gas_price,
            gas_limit=gas,
            to=wanted.to,
            value=wanted.value,
            data=wanted.data,
        )
    fee, tip = wanted.max_fee_per_gas, wanted.max_priority_fee_per_gas
    if tip is None:
        tip = chain.settings.priority_fee_wei if fee is None else min(chain.settings.priority_fee_wei, fee)
    return DynamicFeeTransaction(
        chain_id=chain_id,
        nonce=nonce,
        max_priority_fee_per_gas=tip,
        # Twice the base fee lasts for six full blocks.
        max_fee_per_gas=2 * chain.next_base_fee_wei + tip if fee is None else fee,
        gas_limit=gas,
        to=wanted.to,
        value=wanted.value,
        data=wanted.data,
        access_list=wanted.access_list or (),
    )


def send(chain: EmbeddedChain, wanted: CallWanted) -> bytes:
    """Complete, sign and submit a transaction of one of the chain's own accounts; return its hash."""
    if wanted.sender is None:
        raise rejected("from is missing: eth_accounts lists the accounts that this chain signs for")
    account = next((each for each in chain.accounts if each.address == wanted.sender), None)
    if account is None:
        raise rejected(f"unknown account {data(wanted.sender)}: eth_accounts lists those that this chain signs for")
    return chain.sign_and_submit(account, complete(chain, wanted.sender, wanted))


def _gas_of(wanted: CallWanted, block: Block) -> int:
    """Return the gas of a call, by default and at most that of a whole block."""
    return block.header.gas_limit if wanted.gas is None else min(wanted.gas, block.header.gas_limit)


def _message(wanted: CallWanted, gas: int) -> Message:
    return Message(
        wanted.sender or NO_ADDRESS,
        wanted.to,
        wanted.data,
        wanted.value,
        gas,
        wanted.gas_price or wanted.max_fee_per_gas or 0,
        wanted.access_list or (),
    )


def _tried(chain: EmbeddedChain, wanted: CallWanted, gas: int, block: Block) -> Outcome:
    return chain.call(_message(wanted, gas), block)


def _succeeds(chain: EmbeddedChain, wanted: CallWanted, gas: int, block: Block) -> bool:
    return _tried(chain, wanted, gas, block).succeeded
