"""Following transactions: the accepted transactions and their outcomes. A value that does not exist (yet) is null."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, Quantity, Uuid, Word, uuid_of
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.interface import FullTransaction, HasFollowing, Sequencing, Transactions
from rota.service.receipts.formats import (
    ChainedDispatch,
    Dependencies,
    Dispatch,
    PreparedTransaction,
    PublicTxWithBinding,
    States,
    TransactionFull,
    TransactionReceiptFull,
    shown_bound_public,
    shown_chained_dispatch,
    shown_dispatch,
    shown_full_receipt,
    shown_full_transaction,
    shown_prepared,
    shown_states,
)
from rota.service.submissions.formats import (
    Text,
    Transaction,
    TransactionReceipt,
    shown_leaf,
    shown_receipt,
    shown_transaction,
)

Id = Annotated[Uuid, Meta(description="The id that the transaction was accepted under")]


# Transactions.


@method("ptx_getTransaction", role=Role.READ, answers="transaction")
async def get_transaction(
    node: Transactions, transaction_id: Id
) -> Annotated[Transaction | None, Meta(description="The transaction; null when this node has none of this id")]:
    """Return a transaction by its id."""
    view = await node.transaction(transaction_id.intent)
    return shown_transaction(view) if view is not None else None


@method("ptx_getTransactionFull", role=Role.READ, answers="transaction")
async def get_transaction_full(
    node: HasFollowing, transaction_id: Id
) -> Annotated[TransactionFull | None, Meta(description="The transaction; null when this node has none of this id")]:
    """Return a transaction by its id, with its receipt and its base-ledger transactions."""
    full = await node.following.full(transaction_id.intent)
    return shown_full_transaction(full) if full is not None else None


@method("ptx_getTransactionByIdempotencyKey", role=Role.READ, answers="transaction")
async def get_transaction_by_idempotency_key(
    node: HasFollowing, idempotency_key: Annotated[Text, Meta(description="The key that it was sent with")]
) -> Annotated[Transaction | None, Meta(description="The transaction; null when this node has none with this key")]:
    """Return a transaction by its idempotency key."""
    view = await node.following.with_key(idempotency_key)
    return shown_transaction(view) if view is not None else None


@method("ptx_queryTransactions", role=Role.READ, answers="transactions")
async def query_transactions(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[Transaction], Meta(description="The transactions, latest first unless sorted")]:
    """Query the transactions of this node."""
    return [shown_transaction(view) for view in await node.following.query(query)]


@method("ptx_queryTransactionsFull", role=Role.READ, answers="transactions")
async def query_transactions_full(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[TransactionFull], Meta(description="The transactions, latest first unless sorted")]:
    """Query the transactions of this node, with receipts and base-ledger transactions."""
    return [shown_full_transaction(full) for full in await node.following.query_full(query)]


@method("ptx_queryPendingTransactions", role=Role.READ, answers="transactions")
async def query_pending_transactions(
    node: HasFollowing,
    query: QueryJson,
    full: Annotated[bool, Meta(description="Whether all that is known of each is wanted")] = False,
) -> Annotated[list[TransactionFull], Meta(description="The transactions that have not ended")]:
    """Query the transactions of this node that have no receipt yet."""
    if full:
        return [shown_full_transaction(each) for each in await node.following.query_full(query, is_open=True)]
    return [shown_full_transaction(FullTransaction(view)) for view in await node.following.query(query, is_open=True)]


@method("ptx_getTransactionDependencies", role=Role.READ, answers="dependencies")
async def get_transaction_dependencies(
    node: HasFollowing, transaction_id: Id
) -> Annotated[Dependencies | None, Meta(description="Null when this node has no transaction of this id")]:
    """Return the dependencies of a transaction, and the transactions that depend on it."""
    found = await node.following.dependencies(transaction_id.intent)
    if found is None:
        return None
    return Dependencies(
        [uuid_of(each) for each in found.depends_on],
        [uuid_of(each) for each in found.prerequisite_of],
        [shown_leaf(each) for each in found.awaits],
    )


# Receipts.


@method("ptx_getTransactionReceipt", role=Role.READ, answers="receipt")
async def get_transaction_receipt(
    node: Transactions, transaction_id: Id
) -> Annotated[TransactionReceipt | None, Meta(description="The receipt; null while there is none")]:
    """Return a transaction's receipt. It is final, unless the chain takes back a final block (`FINALITY_BROKEN`)."""
    view = await node.receipt(transaction_id.intent)
    return shown_receipt(view) if view is not None else None


@method("ptx_getTransactionReceiptFull", role=Role.READ, answers="receipt")
async def get_transaction_receipt_full(
    node: HasFollowing, transaction_id: Id
) -> Annotated[TransactionReceiptFull | None, Meta(description="The receipt; null while there is none")]:
    """Return the receipt of a transaction, with its states, its domain receipt and its base-ledger transactions."""
    full = await node.following.full_receipt(transaction_id.intent)
    return shown_full_receipt(full) if full is not None else None


@method("ptx_queryTransactionReceipts", role=Role.READ, answers="receipts")
async def query_transaction_receipts(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[TransactionReceipt], Meta(description="The receipts, latest first unless sorted")]:
    """Query the receipts of this node's transactions."""
    return [shown_receipt(view) for view in await node.following.query_receipts(query)]


@method("ptx_getStateReceipt", role=Role.READ, answers="stateReceipt")
async def get_state_receipt(
    node: HasFollowing, transaction_id: Id
) -> Annotated[States | None, Meta(description="Its states; null while there is no receipt")]:
    """Return the private states that a transaction spent, read and created."""
    states = await node.following.states(transaction_id.intent)
    return shown_states(states) if states is not None else None


@method("ptx_getDomainReceipt", role=Role.READ, answers="domainReceipt")
async def get_domain_receipt(
    node: HasFollowing, domain: Annotated[Text, Meta(description="The domain of its contract")], transaction_id: Id
) -> Annotated[Any, Meta(description="As the domain tells it; null while there is no receipt")]:  # noqa: ANN401
    """Return the domain's receipt of a private transaction."""
    return await node.following.domain_receipt(domain, transaction_id.intent)


# Prepared transactions.


@method("ptx_getPreparedTransaction", role=Role.READ, answers="preparedTransaction")
async def get_prepared_transaction(
    node: HasFollowing, transaction_id: Id
) -> Annotated[PreparedTransaction | None, Meta(description="Null until it is endorsed, and when it has ended")]:
    """Return the base-ledger call that commits a prepared transaction."""
    view = await node.following.prepared(transaction_id.intent)
    return shown_prepared(view) if view is not None else None


@method("ptx_queryPreparedTransactions", role=Role.READ, answers="preparedTransactions")
async def query_prepared_transactions(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[PreparedTransaction], Meta(description="The prepared transactions, latest first unless sorted")]:
    """Query prepared transactions that can be committed."""
    return [shown_prepared(view) for view in await node.following.query_prepared(query)]


# The base ledger.


@method("ptx_getPublicTransaction", role=Role.READ, answers="publicTransaction")
async def get_public_transaction(
    node: HasFollowing, id: Annotated[int, Meta(description="Its localId", ge=0, le=2**63 - 1)]
) -> Annotated[PublicTxWithBinding | None, Meta(description="Null when this node has none of this number")]:
    """Return a base-ledger transaction of this node, sent for a user or for private transactions."""
    view = await node.following.public_transaction(id)
    return shown_bound_public(view) if view is not None else None


@method("ptx_queryPublicTransactions", role=Role.READ, answers="publicTransactions")
async def query_public_transactions(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[PublicTxWithBinding], Meta(description="The latest localId first unless sorted, at most 500")]:
    """Query the base-ledger transactions of this node; a round appears once for each private transaction in it.

    Fields: localId, transaction, transactionType, sender, from, to, created, nonce, contractAddress, success. A round's
    `sender` and `created` are those of this node's own transactions. ptx_getPublicTransactionByHash finds a hash.
    """
    return [shown_bound_public(view) for view in await node.following.query_public(query)]


@method("ptx_queryPendingPublicTransactions", role=Role.READ, answers="publicTransactions")
async def query_pending_public_transactions(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[PublicTxWithBinding], Meta(description="The latest localId first unless sorted, at most 500")]:
    """Query pending base-ledger transactions: those of users without a receipt, and rounds that are in no block."""
    return [shown_bound_public(view) for view in await node.following.query_public(query, is_open=True)]


@method("ptx_getPublicTransactionByNonce", role=Role.READ, answers="publicTransaction")
async def get_public_transaction_by_nonce(
    node: HasFollowing,
    from_: Annotated[Address, Meta(description="The account that signs it")],
    nonce: Annotated[Quantity, Meta(description="Its number among those of that account")],
) -> Annotated[PublicTxWithBinding | None, Meta(description="Null when this node sent none with this nonce")]:
    """Return a base-ledger transaction of this node by its account and nonce."""
    view = await node.following.public_with_nonce(from_.contract, nonce.number)
    return shown_bound_public(view) if view is not None else None


@method("ptx_getPublicTransactionByHash", role=Role.READ, answers="publicTransaction")
async def get_public_transaction_by_hash(
    node: HasFollowing, hash: Annotated[Word, Meta(description="The hash of a version that was sent or mined")]
) -> Annotated[PublicTxWithBinding | None, Meta(description="Null when this node sent none with this hash")]:
    """Return a base-ledger transaction of this node by its hash."""
    view = await node.following.public_with_hash(hash.content)
    return shown_bound_public(view) if view is not None else None


@method("ptx_getDispatch", role=Role.READ, answers="dispatch")
async def get_dispatch(
    node: HasFollowing, id: Annotated[Text, Meta(description="The id of a dispatch")]
) -> Annotated[Dispatch | None, Meta(description="Null when this node has none of this id")]:
    """Return the base-ledger transaction that carried a private transaction."""
    view = await node.following.dispatch(id)
    return shown_dispatch(view) if view is not None else None


@method("ptx_queryDispatches", role=Role.READ, answers="dispatches")
async def query_dispatches(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[Dispatch], Meta(description="The dispatches, latest first unless sorted")]:
    """Query the dispatches of this node. Fields: transactionID, publicTransactionID."""
    return [shown_dispatch(view) for view in await node.following.query_dispatches(query)]


@method("ptx_getChainedDispatch", role=Role.READ, answers="chainedDispatch")
async def get_chained_dispatch(
    node: HasFollowing, id: Annotated[Text, Meta(description="The id of a chained dispatch")]
) -> Annotated[ChainedDispatch | None, Meta(description="Null when this node has none of this id")]:
    """Return a chained dispatch: a private transaction, and the one that carries it out."""
    view = await node.following.chained_dispatch(id)
    return shown_chained_dispatch(view) if view is not None else None


@method("ptx_queryChainedDispatches", role=Role.READ, answers="chainedDispatches")
async def query_chained_dispatches(
    node: HasFollowing, query: QueryJson
) -> Annotated[list[ChainedDispatch], Meta(description="The chained dispatches, latest first unless sorted")]:
    """Query chained dispatches. Fields: transactionID, chainedTransactionID."""
    return [shown_chained_dispatch(view) for view in await node.following.query_chained_dispatches(query)]


# Diagnostics.


class TransactionStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a transaction. seq_explain returns more."""

    transaction_id: Uuid
    status: str
    latest_event: str
    latest_error: str


@method("debug_getTransactionStatus", role=Role.READ, answers="status")
async def get_transaction_status(
    node: Sequencing,
    contract_address: Annotated[Address, Meta(description="The contract that the transaction is for")],
    transaction_id: Id,
) -> Annotated[TransactionStatus | None, Meta(description="Null when this node knows no such transaction of it")]:
    """Return the state of a transaction of a contract, and its latest event."""
    found = await node.explain(transaction_id.intent)
    if found is None or found.contract != contract_address.contract:
        return None
    latest = found.history[-1].text if found.history else found.state
    return TransactionStatus(transaction_id, found.state, latest, found.detail)


METHODS: Final = (
    get_transaction,
    get_transaction_full,
    get_transaction_by_idempotency_key,
    query_transactions,
    query_transactions_full,
    query_pending_transactions,
    get_transaction_dependencies,
    get_transaction_receipt,
    get_transaction_receipt_full,
    query_transaction_receipts,
    get_state_receipt,
    get_domain_receipt,
    get_prepared_transaction,
    query_prepared_transactions,
    get_public_transaction,
    query_public_transactions,
    query_pending_public_transactions,
    get_public_transaction_by_nonce,
    get_public_transaction_by_hash,
    get_dispatch,
    query_dispatches,
    get_chained_dispatch,
    query_chained_dispatches,
    get_transaction_status,
)
