"""Transactions of several contracts that happen together or not at all (docs/settlement.md).

    draft = await client.settlements.draft(token, "spendLock", {"lockId": lock}, readers=["bob@node2"], sender="alice")
    shown = await client.settlements.examine(their_opening)
    transaction = await draft.bind([draft.leg_name, their_leg_name])
    leg = await transaction.leg()

What a draft tells travels between applications by a way of their own, as text: an opening, and the names of the legs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from rota.client.answers import DraftRecord, Examined
from rota.client.jsonrpc import read
from rota.client.transactions import Transaction, TransactionClient


class Settlements:
    """The drafts of a node, and what others show it of theirs."""

    def __init__(self, client: TransactionClient) -> None:
        self._client: Final = client

    async def draft(
        self, contract: str, function: str, arguments: object = None, *, readers: Sequence[str] = (), sender: str = ""
    ) -> Draft:
        """Work out what a transaction would do now. Nothing is submitted; each reader gets an opening to examine."""
        wanted = {
            "type": "private",
            "from": sender or self._client.sender,
            "to": contract,
            "function": function,
            "data": arguments,
        }
        answer = await self._client.ask("settle_draft", wanted, list(readers), is_repeatable=True)
        return Draft(self._client, read(answer, DraftRecord))

    async def examine(self, opening: str) -> Examined:
        """Verify the draft of another party before being bound to it; this node computes its core itself."""
        return read(await self._client.ask("settle_examine", opening, is_repeatable=True), Examined)


class Draft:
    """A transaction as it would be now; its node keeps it for a while."""

    def __init__(self, client: TransactionClient, record: DraftRecord) -> None:
        self.record: Final = record
        self._client: Final = client

    def __repr__(self) -> str:
        return f"Draft({self.record.id!r})"

    @property
    def leg_name(self) -> dict[str, Any]:
        """The data that binds the others: the contract, and the cores of the transactions to commit in it."""
        return {"ledger": self.record.ledger, "cores": list(self.record.cores)}

    async def bind(self, legs: Sequence[Mapping[str, Any]], *, key: str = "") -> Transaction:
        """Submit it, to be committed only together with all legs; every party names them in the same order."""
        named = [{"ledger": each["ledger"], "cores": list(each["cores"])} for each in legs]
        parameters = (self.record.id, named, key or str(uuid4()))
        return Transaction(self._client, await self._client.accepted("settle_bind", *parameters, is_own_key=not key))
