"""Blocks, transactions and events of the base ledger, as clients read them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rota.model.types import ContractAddress
from rota.rpc.formats import Address, Timestamp, Word
from rota.rpc.values import AbiEntry, JsonValue


class IndexedBlock(msgspec.Struct, frozen=True):
    """A block that is confirmed."""

    number: int
    hash: Word
    timestamp: Timestamp


class IndexedTransaction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A transaction of a confirmed block. `result` is success or failure."""

    hash: Word
    block_number: int
    transaction_index: int
    sender: Address = msgspec.field(name="from")
    nonce: int
    result: str
    to: Address | None = None
    contract_address: Address | None = None
    block: IndexedBlock | None = None


class IndexedEvent(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An event of a confirmed block; `signature` is its first topic."""

    block_number: int
    transaction_index: int
    log_index: int
    transaction_hash: Word
    signature: Word
    transaction: IndexedTransaction | None = None
    block: IndexedBlock | None = None


class DecodedEvent(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An event that an ABI matches: its contract, and its values."""

    block_number: int
    transaction_index: int
    log_index: int
    transaction_hash: Word
    signature: Word
    solidity_signature: str
    address: Address
    data: Any
    transaction: IndexedTransaction | None = None
    block: IndexedBlock | None = None


class Chain(Protocol):
    """The confirmed part of the base ledger. A value that does not exist (yet) is None."""

    def confirmed_height(self) -> int:
        """Return the latest block that counts as confirmed."""
        ...

    async def block(self, number: int) -> IndexedBlock | None:
        """Return a block by its number."""
        ...

    async def transactions_in(self, number: int) -> tuple[IndexedTransaction, ...]:
        """Return the transactions of a block, in its order."""
        ...

    async def transaction(self, transaction_hash: bytes) -> IndexedTransaction | None:
        """Return a transaction by its hash."""
        ...

    async def transaction_with_nonce(self, sender: ContractAddress, nonce: int) -> IndexedTransaction | None:
        """Return a transaction by its account and nonce."""
        ...

    async def events_of(self, transaction_hash: bytes) -> tuple[IndexedEvent, ...]:
        """Return the events of a transaction, in order."""
        ...

    async def decoded_events(
        self, transaction_hash: bytes, abi: tuple[AbiEntry, ...], result_format: str
    ) -> tuple[DecodedEvent, ...]:
        """Return its events that an ABI matches, decoded."""
        ...

    async def query_blocks(self, query: JsonValue) -> tuple[IndexedBlock, ...]:
        """Return the blocks that a QueryJSON matches."""
        ...

    async def query_transactions(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """Return the transactions that a QueryJSON matches."""
        ...

    async def query_transactions_with_receipts(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """Return those of them that have a receipt at this node."""
        ...

    async def query_events(self, query: JsonValue) -> tuple[IndexedEvent, ...]:
        """Return the events that a QueryJSON matches."""
        ...


class HasChain(Protocol):
    """A node that follows a base ledger."""

    @property
    def chain(self) -> Chain:
        """The base ledger."""
        ...
