"""Reads a node's answers: headers, logs, transactions, receipts.

A node may lie, so every field is checked, and a `ValueError` names the wrong one. A node answers null for data that it
does not have, which is read as None: it may have it later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final, TypeVar

from rota.ledger.hexadecimal import read_data, read_quantity
from rota.ledger.transaction import ADDRESS_BYTES
from rota.model.digests import WORD_BYTES, keccak
from rota.model.frozen import dataclass
from rota.model.types import BlockHash, ContractAddress

TOPICS_MAX: Final = 4
BLOOM_BYTES: Final = 256
MASKS_KEPT_MAX: Final = 20_000

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Header:
    """A block's place in the chain, its time, the price of its gas, and which logs it may have."""

    height: int
    hash: BlockHash
    parent: BlockHash
    time_s: int
    base_fee_wei: int
    bloom: bytes


@dataclass(frozen=True, slots=True)
class Log:
    """A log of a block."""

    address: ContractAddress
    topics: tuple[bytes, ...]
    data: bytes
    height: int
    block_hash: BlockHash
    transaction_hash: bytes
    number: int
    # The position of its transaction in the block, if the node returns it; for display only.
    place: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class MinedCall:
    """A transaction of a block: sender, recipient and input."""

    hash: bytes
    sender: ContractAddress
    nonce: int
    to: ContractAddress | None
    input: bytes
    gas_limit: int


@dataclass(frozen=True, slots=True)
class FullBlock:
    """A block with its transactions."""

    header: Header
    calls: tuple[MinedCall, ...]


@dataclass(frozen=True, slots=True)
class CallReceipt:
    """The outcome of a transaction, and its block."""

    block_hash: BlockHash
    has_succeeded: bool
    gas_used: int
    contract: ContractAddress | None
    logs: tuple[Log, ...]
    height: int = 0
    place: int = 0


def read_header(told: object) -> Header | None:
    """Read a block without its transactions; chains without EIP-1559 have no base fee."""
    if told is None:
        return None
    block = _object(told, "a block")
    has_base_fee = block.get("baseFeePerGas") is not None
    return Header(
        _field(block, "number", read_quantity),
        BlockHash(_field(block, "hash", read_hash)),
        BlockHash(_field(block, "parentHash", read_hash)),
        _field(block, "timestamp", read_quantity),
        _field(block, "baseFeePerGas", read_quantity) if has_base_fee else 0,
        _field(block, "logsBloom", _read_bloom),
    )


def read_full_block(told: object) -> FullBlock | None:
    """Read a block with its transactions."""
    header = read_header(told)
    if header is None:
        return None
    calls = _object(told, "a block").get("transactions")
    if not isinstance(calls, list):
        raise ValueError("transactions: must be a list")
    return FullBlock(header, tuple(_read_call(call) for call in calls))


def read_receipt(told: object) -> CallReceipt | None:
    """Read a receipt; None while the node has none."""
    if told is None:
        return None
    receipt = _object(told, "a receipt")
    logs = receipt.get("logs")
    if not isinstance(logs, list):
        raise ValueError("logs: must be a list")
    made = receipt.get("contractAddress")
    return CallReceipt(
        BlockHash(_field(receipt, "blockHash", read_hash)),
        _field(receipt, "status", read_quantity) == 1,
        _field(receipt, "gasUsed", read_quantity),
        _field(receipt, "contractAddress", read_address) if made is not None else None,
        tuple(read_log(log) for log in logs),
        _field(receipt, "blockNumber", read_quantity) if receipt.get("blockNumber") is not None else 0,
        _field(receipt, "transactionIndex", read_quantity) if receipt.get("transactionIndex") is not None else 0,
    )


def read_logs(told: object) -> tuple[Log, ...]:
    """Read the answer to `eth_getLogs`."""
    if not isinstance(told, list):
        raise ValueError(f"logs: must be a list, not {type(told).__name__}")
    return tuple(read_log(log) for log in told)


def read_log(told: object) -> Log:
    """Read a log that is in a block."""
    log = _object(told, "a log")
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) > TOPICS_MAX:
        raise ValueError(f"topics: must be a list of at most {TOPICS_MAX}")
    if log.get("removed"):
        raise ValueError("removed: a reorganisation took the log back")
    return Log(
        _field(log, "address", read_address),
        tuple(read_hash(topic) for topic in topics),
        _field(log, "data", read_data),
        _field(log, "blockNumber", read_quantity),
        BlockHash(_field(log, "blockHash", read_hash)),
        _field(log, "transactionHash", read_hash),
        _field(log, "logIndex", read_quantity),
        _field(log, "transactionIndex", read_quantity) if log.get("transactionIndex") is not None else None,
    )


def read_hash(told: object) -> bytes:
    """Read 32 bytes."""
    return read_data(told, WORD_BYTES)


def read_address(told: object) -> ContractAddress:
    """Read an address, in lower case."""
    return ContractAddress("0x" + read_data(told, ADDRESS_BYTES).hex())


def is_in_bloom(bloom: bytes, element: bytes) -> bool:
    """Return whether a block with this bloom may have a log with this address or topic; false is certain."""
    mask = _bloom_mask(element)
    return int.from_bytes(bloom, "big") & mask == mask


@lru_cache(maxsize=MASKS_KEPT_MAX)
def _bloom_mask(element: bytes) -> int:
    digest = keccak(element)
    places = (int.from_bytes(digest[at : at + 2], "big") % (8 * BLOOM_BYTES) for at in (0, 2, 4))
    return reduce(or_, (1 << place for place in places))


def _read_call(told: object) -> MinedCall:
    call = _object(told, "a transaction")
    to = call.get("to")
    return MinedCall(
        _field(call, "hash", read_hash),
        _field(call, "from", read_address),
        _field(call, "nonce", read_quantity),
        _field(call, "to", read_address) if to is not None else None,
        _field(call, "input", read_data),
        _field(call, "gas", read_quantity),
    )


def _read_bloom(told: object) -> bytes:
    return read_data(told, BLOOM_BYTES)


def _object(told: object, what: str) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise ValueError(f"{what} is an object, not {type(told).__name__}")
    return told


def _field(told: dict[str, Any], name: str, read: Callable[[object], Read]) -> Read:
    try:
        return read(told.get(name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
