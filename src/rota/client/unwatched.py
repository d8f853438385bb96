"""Transactions that were sent and are never awaited: the client logs one that fails.

A program that sends a transaction and does not await it does not learn that it failed. When such a `Transaction` is
dropped, its client looks for the receipt, a few at a time and for as long as it waits for any other, and logs an error
if the transaction failed. Those still open when the client is closed are logged at level info. `Transaction.detach` is
for programs that look for the end elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from rota.client.answers import TransactionReceipt
from rota.client.errors import ClientError

SENT_MAX: Final = 10_000
DROPPED_MAX: Final = 1_000
LOOKED_AT: Final = 16
PAUSE_S: Final = 1.0
PATIENCE_S: Final = 120.0
NAMED_MAX: Final = 5

logger = logging.getLogger("rota.client")


class Unwatched:
    """Of one client. `receipt` asks how a transaction ended."""

    def __init__(self, receipt: Callable[[str], Awaitable[TransactionReceipt | None]], url: str) -> None:
        self._receipt: Final = receipt
        self._url: Final = url
        self._sent: Final[dict[str, None]] = {}
        self._dropped: Final[dict[str, float]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def sent(self, transaction_id: str) -> None:
        """It was accepted; the oldest of too many are forgotten."""
        self._loop = asyncio.get_running_loop()
        self._sent[transaction_id] = None
        while len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]

    def forget(self, transaction_id: str) -> None:
        """The program awaits it."""
        self._sent.pop(transaction_id, None)

    def dropped(self, transaction_id: str) -> None:
        """The program dropped it; called by the thread that collects garbage."""
        if transaction_id in self._sent and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look_after, transaction_id)

    def _look_after(self, transaction_id: str) -> None:
        if self._sent.pop(transaction_id, transaction_id) is None and len(self._dropped) < DROPPED_MAX:
            self._dropped[transaction_id] = time.monotonic()
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while self._dropped:
            for transaction_id in list(self._dropped)[:LOOKED_AT]:
                await self._look_at(transaction_id)
            if self._dropped:
                await asyncio.sleep(PAUSE_S)

    async def _look_at(self, transaction_id: str) -> None:
        """A transaction that has not ended goes to the end of the queue, and is given up after a while."""
        since_s = self._dropped[transaction_id]
        try:
            receipt = await self._receipt(transaction_id)
        except ClientError:
            receipt = None
        self._dropped.pop(transaction_id, None)
        if receipt is not None and not receipt.success:
            told = receipt.failure_message
            logger.error("%s: transaction %s failed and was never awaited: %s", self._url, transaction_id, told)
        elif receipt is None and time.monotonic() - since_s < PATIENCE_S:
            self._dropped[transaction_id] = since_s
        elif receipt is None:
            logger.warning("%s: transaction %s has not ended and was never awaited", self._url, transaction_id)

    async def close(self) -> None:
        """Log those whose outcome is unknown."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        left = [*self._dropped, *self._sent]
        self._dropped.clear()
        self._sent.clear()
        if left:
            more = f" and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else ""
            text = "%s: these transactions were never awaited: %s%s"
            logger.info(text, self._url, ", ".join(left[:NAMED_MAX]), more)
