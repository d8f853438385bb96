"""Blocks, receipts and logs: the chain's record of its transactions.

A header is encoded and hashed as on any chain since Cancun, so a block's hash binds its parent, its transactions and
its receipts, and a follower sees a reorganisation as it would elsewhere. One field differs: a real state root would
need a trie over all accounts, which nothing here reads. In its place is a hash that binds the same content, the
parent's root and the changes of this block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rota.ledger import rlp
from rota.ledger.embedded.evm import NO_ADDRESS
from rota.ledger.embedded.state import Changes
from rota.ledger.embedded.trie import EMPTY_ROOT, root_of
from rota.ledger.transaction import SignedTransaction, type_of
from rota.model.digests import keccak
from rota.revm import Emitted

BLOOM_BYTES: Final = 256
NO_BLOOM: Final = bytes(BLOOM_BYTES)
NO_HASH: Final = bytes(32)
NO_NONCE: Final = bytes(8)
NO_UNCLES_HASH: Final = keccak(rlp.encode([]))
EXTRA: Final = b"rota"

_BLOOM_BITS: Final = BLOOM_BYTES * 8
_BLOOM_BITS_KEPT_MAX: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The content that a block's hash covers."""

    parent_hash: bytes
    state_root: bytes
    transactions_root: bytes
    receipts_root: bytes
    bloom: bytes
    number: int
    gas_limit: int
    gas_used: int
    timestamp_s: int
    random: bytes
    base_fee_wei: int

    def encoded(self) -> bytes:
        """Encode the header in the order of the yellow paper and its amendments up to Cancun."""
        number = rlp.encode_unsigned
        return rlp.encode(
            [
                self.parent_hash,
                NO_UNCLES_HASH,
                NO_ADDRESS,
                self.state_root,
                self.transactions_root,
                self.receipts_root,
                self.bloom,
                number(0),  # difficulty
                number(self.number),
                number(self.gas_limit),
                number(self.gas_used),
                number(self.timestamp_s),
                EXTRA,
                self.random,
                NO_NONCE,
                number(self.base_fee_wei),
                EMPTY_ROOT,  # withdrawals
                number(0),  # blob gas used
                number(0),  # excess blob gas
                NO_HASH,  # parent beacon block
            ]
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a transaction, and its position."""

    transaction: SignedTransaction
    sender: bytes
    block_number: int
    position: int
    succeeded: bool
    gas_used: int
    cumulative_gas_used: int
    effective_gas_price: int
    contract_address: bytes | None
    logs: tuple[Emitted, ...]
    first_log_position: int  # of its logs among those of the block
    bloom: bytes
    output: bytes  # of a reverted one: the contract's reason

    def encoded(self) -> bytes:
        """Encode it as the receipts root commits to it."""
        logs: list[rlp.Item] = [(log.address, log.topics, log.data) for log in self.logs]
        succeeded = b"\x01" if self.succeeded else b""
        body = rlp.encode([succeeded, rlp.encode_unsigned(self.cumulative_gas_used), self.bloom, logs])
        kind = type_of(self.transaction.transaction)
        return bytes([kind]) + body if kind else body


@dataclass(frozen=True, slots=True)
class Block:
    """A header, its hash, the block's content, and its position in the state's journal."""

    header: Header
    hash: bytes
    receipts: tuple[Receipt, ...]
    size_bytes: int
    state_position: int

    @property
    def number(self) -> int:
        return self.header.number


def make_block(
    parent: Block | None,
    receipts: Sequence[Receipt],
    changes: Iterable[Changes],
    *,
    gas_limit: int,
    timestamp_s: int,
    random: bytes,
    base_fee_wei: int,
    state_position: int,
    number: int = 0,
) -> Block:
    """Return the block with these receipts on top of `parent`."""
    raws = [receipt.transaction.raw for receipt in receipts]
    header = Header(
        parent_hash=NO_HASH if parent is None else parent.hash,
        state_root=_state_root(NO_HASH if parent is None else parent.header.state_root, changes),
        transactions_root=root_of(raws),
        receipts_root=root_of([receipt.encoded() for receipt in receipts]),
        bloom=merged_bloom(receipt.bloom for receipt in receipts),
        number=number,
        gas_limit=gas_limit,
        gas_used=receipts[-1].cumulative_gas_used if receipts else 0,
        timestamp_s=timestamp_s,
        random=random,
        base_fee_wei=base_fee_wei,
    )
    encoded = header.encoded()
    size_bytes = len(encoded) + sum(len(raw) for raw in raws)
    return Block(header, keccak(encoded), tuple(receipts), size_bytes, state_position)


def bloom_of(logs: Iterable[Emitted]) -> bytes:
    """Return the bloom of the addresses and topics of these logs."""
    bits = 0
    for log in logs:
        bits |= _bloom_bits(log.address)
        for topic in log.topics:
            bits |= _bloom_bits(topic)
    return bits.to_bytes(BLOOM_BYTES, "big")


def merged_bloom(blooms: Iterable[bytes]) -> bytes:
    """Return the union of blooms."""
    bits = 0
    for bloom in blooms:
        if bloom is not NO_BLOOM:
            bits |= int.from_bytes(bloom, "big")
    return bits.to_bytes(BLOOM_BYTES, "big")


def may_hold(bloom: bytes, content: bytes) -> bool:
    """Return whether an address or topic may be among the logs; false is certain, true is not."""
    bits = _bloom_bits(content)
    return int.from_bytes(bloom, "big") & bits == bits


@lru_cache(maxsize=_BLOOM_BITS_KEPT_MAX)
def _bloom_bits(content: bytes) -> int:
    """Return three bits, each from eleven bits of the hash."""
    digest = keccak(content)
    bits = 0
    for place in (0, 2, 4):
        bits |= 1 << int.from_bytes(digest[place : place + 2], "big") % _BLOOM_BITS
    return bits


def _state_root(parent_root: bytes, changes: Iterable[Changes]) -> bytes:
    parts = [parent_root]
    for step in changes:
        for address, (_, account) in sorted(step.accounts.items()):
            parts += [address, account.nonce.to_bytes(8, "big"), account.balance.to_bytes(32, "big"), account.code_hash]
        for (address, number), (_, value) in sorted(step.slots.items()):
            parts += [address, number.to_bytes(32, "big"), value.to_bytes(32, "big")]
    return keccak(b"".join(parts))
