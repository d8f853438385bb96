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
    """An event that an ABI knows: by which contract, and with which values."""

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
    """The base ledger, as far as it is confirmed by this node's rule. What is not there, or not yet, is None."""

    def confirmed_height(self) -> int:
        """The latest block that counts as confirmed."""
        ...

    async def block(self, number: int) -> IndexedBlock | None:
        """Return a block by its number."""
        ...

    async def transactions_in(self, number: int) -> tuple[IndexedTransaction, ...]:
        """The transactions of a block, in its order."""
        ...

    async def transaction(self, transaction_hash: bytes) -> IndexedTransaction | None:
        """A transaction by its hash."""
        ...

    async def transaction_with_nonce(self, sender: ContractAddress, nonce: int) -> IndexedTransaction | None:
        """A transaction by who sent it and its number among those."""
        ...

    async def events_of(self, transaction_hash: bytes) -> tuple[IndexedEvent, ...]:
        """What a transaction emitted, in order."""
        ...

    async def decoded_events(
        self, transaction_hash: bytes, abi: tuple[AbiEntry, ...], result_format: str
    ) -> tuple[DecodedEvent, ...]:
        """Those of its events that an ABI knows."""
        ...

    async def query_blocks(self, query: JsonValue) -> tuple[IndexedBlock, ...]:
        """The blocks that a QueryJSON looks for."""
        ...

    async def query_transactions(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """The transactions that a QueryJSON looks for."""
        ...

    async def query_transactions_with_receipts(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """Those of them that have a receipt at this node."""
        ...

    async def query_events(self, query: JsonValue) -> tuple[IndexedEvent, ...]:
        """The events that a QueryJSON looks for."""
        ...


class HasChain(Protocol):
    """A node that follows a base ledger."""

    @property
    def chain(self) -> Chain:
        """The base ledger."""
        ...
