"""Listeners of a running node: of its receipts, and of the base ledger's events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from rota.ledger.client import RpcClient
from rota.ports import NumberedReceipt
from rota.service.interface import (
    AnyReceipt,
    EventDefinition,
    EventListenerStatus,
    EventView,
    FullReceipt,
    ReceiptDefinition,
    ReceiptView,
)
from rota.service.listeners.chain_events import ChainEvents
from rota.service.listeners.listeners import DurableListeners
from rota.service.receipts.order import ReceiptSource, RelationOf
from rota.service.run import RunningNode


class NodeListeners:
    """Implement `service.interface.Listening`. `view` returns the receipt that users see, `full_view` the full one.

    `relation` returns the relation of a receipt to parties.
    """

    def __init__(
        self,
        running: RunningNode,
        client: RpcClient,
        view: Callable[[NumberedReceipt], Awaitable[ReceiptView | None]],
        full_view: Callable[[NumberedReceipt], Awaitable[FullReceipt | None]],
        relation: RelationOf,
    ) -> None:
        store = running.adapters.store
        self._receipts: Final = ReceiptSource(running.receipts, store, view, full_view, relation)
        self._events: Final = ChainEvents(client, running.final_height)
        self.receipt_listeners: Final[DurableListeners[ReceiptDefinition, AnyReceipt]] = DurableListeners(
            self._receipts, store, running.acceptances
        )
        self.event_listeners: Final[DurableListeners[EventDefinition, EventView]] = DurableListeners(
            self._events, store, running.acceptances
        )
        running.when_head_moves(self._events.bell.ring)
        running.before_closing(self.close)

    async def event_listener_status(self, name: str) -> EventListenerStatus | None:
        """Return the progress of an event listener."""
        position = await self.event_listeners.position(name)
        return self._events.status_at(position) if position is not None else None

    def receipts(self, after_sequence: int) -> AsyncIterator[ReceiptView]:
        """Yield receipts with greater numbers in order: the existing ones, then new ones as they come."""
        return self._receipts.after(after_sequence)

    async def close(self) -> None:
        """Stop all deliveries; the node is stopping."""
        await self.receipt_listeners.close()
        await self.event_listeners.close()
