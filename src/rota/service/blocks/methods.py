"""The confirmed blocks, transactions and events of the base ledger."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, Quantity, Word, quantity_of
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.blocks.interface import DecodedEvent, HasChain, IndexedBlock, IndexedEvent, IndexedTransaction
from rota.service.submissions.formats import Abi

BlockNumber = Annotated[Quantity, Meta(description="The number of a block")]
TransactionHash = Annotated[Word, Meta(description="The hash of a base-ledger transaction")]


@method("bidx_getConfirmedBlockHeight", role=Role.READ, answers="blockHeight")
async def confirmed_height(node: HasChain) -> Annotated[Quantity, Meta(description="Its number")]:
    """Return the number of the latest block that this node considers confirmed."""
    return quantity_of(node.chain.confirmed_height())


@method("bidx_getBlockByNumber", role=Role.READ, answers="block")
async def block_by_number(
    node: HasChain, block_number: BlockNumber
) -> Annotated[IndexedBlock | None, Meta(description="The block; null while it is not confirmed")]:
    """Return a block by its number."""
    return await node.chain.block(block_number.number)


@method("bidx_getBlockTransactionsByNumber", role=Role.READ, answers="transactions")
async def transactions_by_number(
    node: HasChain, block_number: BlockNumber
) -> Annotated[list[IndexedTransaction], Meta(description="In the order of the block; none while it is not confirmed")]:
    """List the transactions of a block."""
    return [*await node.chain.transactions_in(block_number.number)]


@method("bidx_getTransactionByHash", role=Role.READ, answers="transaction")
async def transaction_by_hash(
    node: HasChain, block_hash: TransactionHash
) -> Annotated[IndexedTransaction | None, Meta(description="The transaction; null while it is not confirmed")]:
    """Return a base-ledger transaction by its hash. Existing clients name the parameter `blockHash`."""
    return await node.chain.transaction(block_hash.content)


@method("bidx_getTransactionByNonce", role=Role.READ, answers="transaction")
async def transaction_by_nonce(
    node: HasChain,
    from_: Annotated[Address, Meta(description="The account that sent it")],
    nonce: Annotated[Quantity, Meta(description="Its number among those of that account")],
) -> Annotated[IndexedTransaction | None, Meta(description="The transaction; null while it is not confirmed")]:
    """Return a base-ledger transaction by its account and nonce."""
    return await node.chain.transaction_with_nonce(from_.contract, nonce.number)


@method("bidx_getTransactionEventsByHash", role=Role.READ, answers="events")
async def events_by_hash(
    node: HasChain, transaction_hash: TransactionHash
) -> Annotated[list[IndexedEvent], Meta(description="In the order of the block; none while it is not confirmed")]:
    """List the events of a base-ledger transaction."""
    return [*await node.chain.events_of(transaction_hash.content)]


@method("bidx_decodeTransactionEvents", role=Role.READ, answers="events")
async def decode_events(
    node: HasChain,
    transaction_hash: TransactionHash,
    abi: Annotated[Abi, Meta(description="Entries of an ABI; what is no event is passed over")],
    result_format: Annotated[str, Meta(description="How values are written, such as mode=object&number=string")] = "",
) -> Annotated[list[DecodedEvent], Meta(description="Those that the ABI knows, in the order of the block")]:
    """List the events of a base-ledger transaction, decoded."""
    return [*await node.chain.decoded_events(transaction_hash.content, tuple(abi), result_format)]


@method("bidx_queryIndexedBlocks", role=Role.READ, answers="blocks")
async def query_blocks(
    node: HasChain, query: QueryJson
) -> Annotated[list[IndexedBlock], Meta(description="The latest first, if no other order is asked for")]:
    """Query blocks of the base ledger. Fields: number, hash, timestamp.

    At most 1,000 blocks are looked at: those that the query bounds by `number`, or else the latest.
    """
    return [*await node.chain.query_blocks(query)]


@method("bidx_queryIndexedTransactions", role=Role.READ, answers="transactions")
async def query_transactions(
    node: HasChain, query: QueryJson
) -> Annotated[list[IndexedTransaction], Meta(description="The latest first, if no other order is asked for")]:
    """Transactions of the base ledger. Fields: hash, blockNumber, transactionIndex, from, to, nonce, contractAddress,
    result.

    A `hash` is found wherever it is. Else at most 100 blocks are looked at: those that the query bounds by
    `blockNumber`, or the latest.
    """
    return [*await node.chain.query_transactions(query)]


@method("bidx_queryIndexedTransactionsWithReceipt", role=Role.READ, answers="transactions")
async def query_transactions_with_receipts(
    node: HasChain, query: QueryJson
) -> Annotated[list[IndexedTransaction], Meta(description="The latest first, if no other order is asked for")]:
    """Transactions of the base ledger that have a receipt at this node, private or public; the fields are the same.

    At most 100 blocks with such transactions are looked at: the latest of those that the query bounds by `blockNumber`.
    """
    return [*await node.chain.query_transactions_with_receipts(query)]


@method("bidx_queryIndexedEvents", role=Role.READ, answers="events")
async def query_events(
    node: HasChain, query: QueryJson
) -> Annotated[list[IndexedEvent], Meta(description="The latest first, if no other order is asked for")]:
    """Events of the base ledger. Fields: blockNumber, transactionIndex, logIndex, transactionHash, signature.

    Those of a `transactionHash` are found wherever it is. Else at most 1,000 blocks are looked at: those that the query
    bounds by `blockNumber`, or the latest.
    """
    return [*await node.chain.query_events(query)]


METHODS: Final = (
    confirmed_height,
    block_by_number,
    transactions_by_number,
    transaction_by_hash,
    transaction_by_nonce,
    events_by_hash,
    decode_events,
    query_blocks,
    query_transactions,
    query_transactions_with_receipts,
    query_events,
)
