"""The transactions of commands at a running node: `service.commands.commands.TransactionDesk`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from rota.model.types import FINALITY_BROKEN, IntentId, Outcome, Receipt
from rota.ports import Unavailable
from rota.service import interface
from rota.service.run import RunningNode
from rota.service.submissions.repeating import Comparison

PUBLIC_LOOK_S: Final = 0.2

Compare = Callable[[interface.Submission, IntentId], Awaitable[Comparison]]


class NodeTransactions:
    """`TransactionDesk` of a running node."""

    def __init__(self, node: interface.Transactions, running: RunningNode, compare: Compare) -> None:
        self._node: Final = node
        self._compare: Final = compare
        self._running: Final = running

    async def submit(self, submission: interface.Submission) -> IntentId:
        """Submit it as any user's transaction."""
        return await self._node.submit(submission)

    async def transaction_with_key(self, key: str) -> IntentId | None:
        """Return the transaction with this key from the store."""
        return await self._running.adapters.store.submissions.with_key(key)

    async def compared(self, submission: interface.Submission, intent: IntentId) -> Comparison:
        """Compare the submission with the stored transaction."""
        return await self._compare(submission, intent)

    async def receipt(self, intent: IntentId) -> interface.ReceiptView | None:
        """Return the receipt from the store, or a recent one from memory."""
        return await self._node.receipt(intent)

    async def may_return(self, intent: IntentId) -> bool:
        """Return from the store whether the chain may still commit it."""
        return await self._running.adapters.store.listening.may_return(intent)

    def expect_receipt(self, intent: IntentId) -> asyncio.Future[Receipt]:
        """Wait for the core's receipt. The core does not know public transactions: these are polled until they end."""
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
