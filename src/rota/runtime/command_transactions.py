"""The transactions of commands at a running node: `runtime.commands.TransactionDesk`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from rota.api import facade
from rota.ports import Unavailable
from rota.runtime.facades.repeating import Comparison
from rota.runtime.node import RunningNode
from rota.types import FINALITY_BROKEN, IntentId, Outcome, Receipt

PUBLIC_LOOK_S: Final = 0.2

Compare = Callable[[facade.Submission, IntentId], Awaitable[Comparison]]


class NodeTransactions:
    """`TransactionDesk` of a running node."""

    def __init__(self, node: facade.Transactions, running: RunningNode, compare: Compare) -> None:
        self._node: Final = node
        self._compare: Final = compare
        self._running: Final = running

    async def submit(self, submission: facade.Submission) -> IntentId:
        """As any user's."""
        return await self._node.submit(submission)

    async def transaction_with_key(self, key: str) -> IntentId | None:
        """By the store's word."""
        store = self._running.adapters.store
        stored = await store.transaction_with_key(key)
        return stored.intent.id if stored is not None else await store.submissions.with_key(key)

    async def compared(self, submission: facade.Submission, intent: IntentId) -> Comparison:
        """By the store's word."""
        return await self._compare(submission, intent)

    async def receipt(self, intent: IntentId) -> facade.ReceiptView | None:
        """By the store's word, or by what was told of late."""
        return await self._node.receipt(intent)

    async def may_return(self, intent: IntentId) -> bool:
        """By the store's word."""
        return await self._running.adapters.store.listening.may_return(intent)

    def expect_receipt(self, intent: IntentId) -> asyncio.Future[Receipt]:
        """As the core tells it. Of public transactions it knows nothing: those are looked at until they have ended."""
        if self._running.adapters.public.held(intent) is None:
            return self._running.users.expect_receipt(intent)
        return asyncio.create_task(self._public_receipt(intent))

    async def _public_receipt(self, intent: IntentId) -> Receipt:
        while True:
            with suppress(Unavailable):
                view = await self._node.receipt(intent)
                if view is not None and view.failure_code != FINALITY_BROKEN:
                    outcome = Outcome.CONFIRMED if view.success else Outcome.REVERTED
                    return Receipt(intent, outcome, view.failure_message)
            await asyncio.sleep(PUBLIC_LOOK_S)
