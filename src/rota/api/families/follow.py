"""Following transactions: what was accepted, and how it ended. What is not there, or not yet, is null."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from rota.api.credentials import Role
from rota.api.facade import Transactions
from rota.api.formats import Uuid
from rota.api.methods import method
from rota.api.transactions import Transaction, TransactionReceipt, shown_receipt, shown_transaction

Id = Annotated[Uuid, Meta(description="The id that the transaction was accepted under")]


@method("ptx_getTransaction", role=Role.READ, answers="transaction")
async def get_transaction(
    node: Transactions, transaction_id: Id
) -> Annotated[Transaction | None, Meta(description="The transaction; null when this node has none of this id")]:
    """What was accepted under an id."""
    view = await node.transaction(transaction_id.intent)
    return shown_transaction(view) if view is not None else None


@method("ptx_getTransactionReceipt", role=Role.READ, answers="receipt")
async def get_transaction_receipt(
    node: Transactions, transaction_id: Id
) -> Annotated[TransactionReceipt | None, Meta(description="The receipt; null while there is none")]:
    """How a transaction ended. Once there is a receipt it never changes."""
    view = await node.receipt(transaction_id.intent)
    return shown_receipt(view) if view is not None else None


METHODS: Final = (get_transaction, get_transaction_receipt)
