"""Blocks, transactions, receipts and logs as JSON-RPC shows them."""

from __future__ import annotations

from typing import Any

from rota.ledger.embedded.blocks import EXTRA, NO_HASH, NO_NONCE, NO_UNCLES_HASH, Block, Receipt
from rota.ledger.embedded.evm import NO_ADDRESS
from rota.ledger.embedded.fees import effective_price
from rota.ledger.embedded.history import PlacedLog
from rota.ledger.embedded.pool import Waiting
from rota.ledger.embedded.trie import EMPTY_ROOT
from rota.ledger.hexadecimal import data, quantity
from rota.ledger.transaction import DynamicFeeTransaction, LegacyTransaction, SignedTransaction, type_of

Json = dict[str, Any]


def shown_header(block: Block) -> Json:
    """Return a block's header, as in `newHeads`: all fields that its hash covers."""
    header = block.header
    return {
        "number": quantity(header.number),
        "hash": data(block.hash),
        "parentHash": data(header.parent_hash),
        "sha3Uncles": data(NO_UNCLES_HASH),
        "miner": data(NO_ADDRESS),
        "stateRoot": data(header.state_root),
        "transactionsRoot": data(header.transactions_root),
        "receiptsRoot": data(header.receipts_root),
        "logsBloom": data(header.bloom),
        "difficulty": "0x0",
        "gasLimit": quantity(header.gas_limit),
        "gasUsed": quantity(header.gas_used),
        "timestamp": quantity(header.timestamp_s),
        "extraData": data(EXTRA),
        "mixHash": data(header.random),
        "nonce": data(NO_NONCE),
        "baseFeePerGas": quantity(header.base_fee_wei),
        "withdrawalsRoot": data(EMPTY_ROOT),
        "blobGasUsed": "0x0",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": data(NO_HASH),
    }


def shown_block(block: Block, full: bool) -> Json:
    """Return a block with its transactions, whole or by their hashes."""
    return {
        **shown_header(block),
        "totalDifficulty": "0x0",
        "size": quantity(block.size_bytes),
        "uncles": [],
        "withdrawals": [],
        "transactions": [
            shown_mined(receipt, block) if full else data(receipt.transaction.hash) for receipt in block.receipts
        ],
    }


def shown_mined(receipt: Receipt, block: Block) -> Json:
    """Return a transaction that is in a block."""
    return {
        **_shown_transaction(receipt.transaction, receipt.sender),
        "gasPrice": quantity(receipt.effective_gas_price),
        "blockHash": data(block.hash),
        "blockNumber": quantity(block.number),
        "transactionIndex": quantity(receipt.position),
    }


def shown_waiting(waiting: Waiting, base_fee_wei: int) -> Json:
    """Return a transaction that is in no block yet, with its price in the next one."""
    return {
        **_shown_transaction(waiting.signed, waiting.sender),
        "gasPrice": quantity(effective_price(waiting.signed.transaction, base_fee_wei)),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
    }


def shown_receipt(receipt: Receipt, block: Block) -> Json:
    """Return a transaction's receipt. `revertReason` is there when it was reverted, as in Besu."""
    transaction = receipt.transaction.transaction
    shown: Json = {
        "transactionHash": data(receipt.transaction.hash),
        "transactionIndex": quantity(receipt.position),
        "blockHash": data(block.hash),
        "blockNumber": quantity(block.number),
        "from": data(receipt.sender),
        "to": None if transaction.to is None else data(transaction.to),
        "cumulativeGasUsed": quantity(receipt.cumulative_gas_used),
        "gasUsed": quantity(receipt.gas_used),
        "effectiveGasPrice": quantity(receipt.effective_gas_price),
        "contractAddress": None if receipt.contract_address is None else data(receipt.contract_address),
        "logs": [
            shown_log(PlacedLog(block, receipt, receipt.first_log_position + place, log))
            for place, log in enumerate(receipt.logs)
        ],
        "logsBloom": data(receipt.bloom),
        "type": quantity(type_of(transaction)),
        "status": "0x1" if receipt.succeeded else "0x0",
    }
    if not receipt.succeeded:
        shown["revertReason"] = data(receipt.output)
    return shown


def shown_log(placed: PlacedLog, removed: bool = False) -> Json:
    """Return a log with its position, also that in a removed block."""
    return {
        "address": data(placed.log.address),
        "topics": [data(topic) for topic in placed.log.topics],
        "data": data(placed.log.data),
        "blockNumber": quantity(placed.block.number),
        "blockHash": data(placed.block.hash),
        "blockTimestamp": quantity(placed.block.header.timestamp_s),
        "transactionHash": data(placed.receipt.transaction.hash),
        "transactionIndex": quantity(placed.receipt.position),
        "logIndex": quantity(placed.position),
        "removed": removed,
    }


def _shown_transaction(signed: SignedTransaction, sender: bytes) -> Json:
    transaction = signed.transaction
    shown: Json = {
        "hash": data(signed.hash),
        "type": quantity(type_of(transaction)),
        "nonce": quantity(transaction.nonce),
        "from": data(sender),
        "to": None if transaction.to is None else data(transaction.to),
        "value": quantity(transaction.value),
        "gas": quantity(transaction.gas_limit),
        "input": data(transaction.data),
        "r": quantity(signed.r),
        "s": quantity(signed.s),
    }
    if transaction.chain_id is not None:
        shown["chainId"] = quantity(transaction.chain_id)
    if isinstance(transaction, LegacyTransaction):
        first = 27 if transaction.chain_id is None else 35 + 2 * transaction.chain_id
        shown["v"] = quantity(first + signed.parity)
        return shown
    shown["v"] = shown["yParity"] = quantity(signed.parity)
    shown["accessList"] = [
        {"address": data(entry.address), "storageKeys": [data(slot) for slot in entry.slots]}
        for entry in transaction.access_list
    ]
    if isinstance(transaction, DynamicFeeTransaction):
        shown["maxFeePerGas"] = quantity(transaction.max_fee_per_gas)
        shown["maxPriorityFeePerGas"] = quantity(transaction.max_priority_fee_per_gas)
    return shown
