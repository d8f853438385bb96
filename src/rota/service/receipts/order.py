"""The order of this node's receipts, and what listeners of receipts read from it.

Theory of operation. `store.listening` finds the receipts that are final and complete and have no number; `ReceiptOrder`
numbers them soon afterwards. It looks for them when a record may have made one due (`MAKE_NOTHING_DUE` names frequent
ones that do not), at most every `PAUSE_S`, so that many receipts share a write, and rests four times as long as a look
took, which grows with the number of open transactions. A caller that cannot wait requests a look at once.

A number is given once. A receipt that changed, because the chain took back final blocks or confirmed a transaction that
had ended, gets a new number in place of its old one; `undone_open` counts those that no longer hold. Listeners read
from the order, never from events: nothing is lost between two runs, and a receipt that was numbered while no listener
was connected is read as any other.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Final

import msgspec

from rota.exchange.effects import StatesAcknowledged
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.machine.effects import IntentAccepted, Record
from rota.model.genesis import decode_genesis
from rota.model.types import FINALITY_BROKEN, FINALITY_BROKEN_REASON, ContractAddress, IntentId
from rota.ports import DueReceipt, ListenerPosition, NumberedReceipt, Store, Unavailable
from rota.sequencer.effects import LeavesSigned, PermissionGranted
from rota.service.interface import AnyReceipt, FullReceipt, ReceiptDefinition, ReceiptView, TransactionType
from rota.service.listeners.listeners import Bell, Found

# A leaf signed after the chain has it belongs to an intent of this node, whose receipt is reported anyway.
MAKE_NOTHING_DUE: Final = frozenset((IntentAccepted, LeavesSigned, PermissionGranted, StatesAcknowledged))
NUMBERED_AT_ONCE_MAX: Final = 500
PAUSE_S: Final = 0.02
REST: Final = 4
RETRY_S: Final = 0.5
# A little longer than receipts are held for acknowledgements (`service.receipts.holdings`).
HELD_S: Final = 0.3
LOOKS_BETWEEN_CLEANINGS: Final = 500
RECEIPTS_A_BATCH_MAX: Final = 100
FULL_RECEIPTS_A_BATCH_MAX: Final = 10
PAGE: Final = 200
VIEWS_KEPT_MAX: Final = 4_096
PAGES_KEPT_MAX: Final = 64

Ready = Callable[[Sequence[DueReceipt]], Sequence[DueReceipt]]
View = Callable[[NumberedReceipt], Awaitable[ReceiptView | None]]
FullView = Callable[[NumberedReceipt], Awaitable[FullReceipt | None]]


class Relation(Enum):
    """The relation of a transaction to parties: one of them sent it, or may see a state that it made."""

    SENT = "sent"
    RECEIVED = "received"


RelationOf = Callable[[NumberedReceipt, tuple[str, ...]], Awaitable[Relation | None]]


class ReceiptOrder:
    """Number receipts. `domain_of` returns the domain of a contract.

    `ready` returns the leading ones that may be numbered now; for the others `release` is called later.
    """

    def __init__(
        self, store: Store, domain_of: Callable[[ContractAddress], str], ready: Ready = lambda due: due
    ) -> None:
        self._ready: Final = ready
        self._released: Final = Bell()
        self._is_holding = False
        self.bell: Final = Bell()
        self._store: Final = store
        self._domain_of: Final = domain_of
        self._wanted: Final = asyncio.Event()
        self._wanted.set()
        self._numbering: Final = asyncio.Lock()
        self._looks = 0
        # The numbers of ordered and of durable writes, and the writes that make receipts due.
        self._ordered = self._written = 0
        self._making_due: Final[deque[int]] = deque()
        self.undone_open = 0
        self.breaks = 0
        self._asks_undone = True
        self._tell_changed: Final[list[Callable[[tuple[DueReceipt, ...]], None]]] = []

    def when_changed(self, tell: Callable[[tuple[DueReceipt, ...]], None]) -> None:
        """Call this with the receipts that got a new number because their outcome on the chain changed."""
        self._tell_changed.append(tell)

    def finality_broke(self) -> None:
        """Drop cached receipts: some no longer hold."""
        self.breaks += 1
        self._asks_undone = True
        self._wanted.set()

    async def acknowledge_undone(self) -> int:
        """Acknowledge the receipts that no longer hold; return their number. `Unavailable` when the store is away."""
        known = await self._store.listening.undone_count()
        await self._store.listening.acknowledge_undone()
        self.undone_open = 0
        return known

    async def _count_undone(self) -> None:
        """Count the receipts that no longer hold, again as long as there are any: they may hold again."""
        if self._asks_undone:
            self.undone_open = await self._store.listening.undone_count()
            self._asks_undone = self.undone_open > 0

    def look_soon(self) -> None:
        """Request a look: a receipt may be final or complete now."""
        self._wanted.set()

    def ordered(self, kinds: Iterable[type[Record]]) -> None:
        """Note that a write with records of these kinds was given to the store, after all earlier ones."""
        self._ordered += 1
        if not MAKE_NOTHING_DUE.issuperset(kinds):
            self._making_due.append(self._ordered)

    def written(self, count: int) -> None:
        """Record that `count` more of the writes are durable."""
        self._written += count
        while self._making_due and self._making_due[0] <= self._written:
            self._making_due.popleft()
            self._wanted.set()

    async def run(self) -> None:
        """Number due receipts until cancelled."""
        repeated = Trouble()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began_s = time.monotonic()
            try:
                await self.look()
                await self._count_undone()
                await self._clean()
                repeated.end()
            except Unavailable as trouble:
                if repeated.is_new(str(trouble)):
                    catalogue.RECEIPT_POSTPONED.log(reason=str(trouble))
                self._wanted.set()
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(max(PAUSE_S, REST * (time.monotonic() - began_s)))

    async def look(self) -> None:
        """Number due receipts. `Unavailable` when the store is away."""
        async with self._numbering:
            is_more = True
            while is_more:
                due = await self._store.listening.due(NUMBERED_AT_ONCE_MAX)
                ready = tuple(self._ready(due))
                self._is_holding = len(ready) < len(due)
                is_more = len(ready) == NUMBERED_AT_ONCE_MAX
                if ready:
                    await self._number(ready)

    async def _number(self, due: Sequence[DueReceipt]) -> None:
        await self._store.listening.number([(each, self._domain(each)) for each in due])
        self.bell.ring()
        changed = tuple(each for each in due if each.is_changed)
        for tell in self._tell_changed if changed else ():
            tell(changed)

    def release(self) -> None:
        """Continue numbering: held receipts may be numbered now."""
        self._wanted.set()
        self._released.ring()

    async def place_of_final(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        """Return the number of a final receipt and the time of numbering; number it now if needed.

        Waits for a held receipt, for `HELD_S` at most: a caller that knows that a transaction has ended gets its
        receipt.
        """
        place = await self._store.listening.receipt_number(contract, intent)
        held_until_s = time.monotonic() + HELD_S
        while place is None:
            rung = self._released.rung
            await self.look()
            place = await self._store.listening.receipt_number(contract, intent)
            left_s = held_until_s - time.monotonic()
            if place is not None or not self._is_holding or left_s <= 0:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._released.wait(rung)
        return place

    async def _clean(self) -> None:
        self._looks += 1
        if self._looks % LOOKS_BETWEEN_CLEANINGS == 1:
            await self._store.listening.forget_expired()

    def _domain(self, due: DueReceipt) -> str:
        if due.deployment is not None:
            return decode_genesis(due.deployment.payload).domain
        return self._domain_of(due.contract)


class ReceiptSource:
    """A `Source`: receipts in their order. `view` makes the receipt that users see, `full_view` the full one.

    Recent ones are cached: many listeners read the same. `relation` is the relation of a receipt to parties, for
    listeners that are held to some: these get the receipts of their parties, with numbers of the listener, because the
    node's own numbers count the receipts of all. For transactions of other parties they get no states.
    """

    kind: Final = "receipts"

    def __init__(
        self, order: ReceiptOrder, store: Store, view: View, full_view: FullView, relation: RelationOf | None = None
    ) -> None:
        self._relation: Final = relation
        self.bell: Final = order.bell
        self._order: Final = order
        self._breaks = 0
        self._store: Final = store
        self._view: Final = view
        self._full_view: Final = full_view
        self._pages: Final[OrderedDict[int, tuple[NumberedReceipt, ...]]] = OrderedDict()
        self._kept: Final[OrderedDict[int, asyncio.Future[ReceiptView]]] = OrderedDict()

    def encode(self, definition: ReceiptDefinition) -> bytes:
        """Encode a definition as JSON."""
        return msgspec.json.encode(definition)

    def decode(self, kept: bytes) -> ReceiptDefinition:
        """Decode a stored definition."""
        return msgspec.json.decode(kept, type=ReceiptDefinition)

    async def first_position(self, definition: ReceiptDefinition) -> ListenerPosition:
        """Return the position of the definition's first receipt; by default this node's first."""
        return ListenerPosition(definition.sequence_above or 0)

    async def read(self, definition: ReceiptDefinition, position: ListenerPosition) -> Found[AnyReceipt]:
        """Read the next page of the order, as far as it passes the filters and fits in a batch."""
        self._forget_broken()
        most = FULL_RECEIPTS_A_BATCH_MAX if definition.has_domain_receipts else RECEIPTS_A_BATCH_MAX
        page = await self._page(position.number)
        views: list[AnyReceipt] = []
        reached, number = position
        for each in page:
            if len(views) == most:
                break
            relation = await self._relation_of(definition, each) if _passes(definition, each) else None
            if relation is not None:
                is_full = definition.has_domain_receipts and relation is Relation.SENT
                view = await (self._full(each) if is_full else self.view_of(each))
                if definition.parties is not None:
                    number += 1
                    view = _numbered(view if relation is Relation.SENT else _as_received(view), number)
                views.append(view)
            reached = each.sequence
        is_all = len(page) < PAGE and (not page or reached == page[-1].sequence)
        return Found(tuple(views), ListenerPosition(reached, number), is_all)

    async def _relation_of(self, definition: ReceiptDefinition, place: NumberedReceipt) -> Relation | None:
        """Return the relation of the listener's parties to a receipt; for a listener without parties always `SENT`."""
        if definition.parties is None:
            return Relation.SENT
        return await self._relation(place, definition.parties) if self._relation is not None else None

    def _forget_broken(self) -> None:
        """Clear the cache if finality broke: it may have a receipt that no longer holds."""
        if self._breaks != self._order.breaks:
            self._breaks = self._order.breaks
            self._pages.clear()
            self._kept.clear()

    async def _page(self, after: int) -> tuple[NumberedReceipt, ...]:
        """Return the next page of the order. A full page never changes, so recent ones are cached."""
        page = self._pages.get(after)
        if page is None:
            page = await self._store.listening.receipts_after(after, PAGE)
            if len(page) == PAGE:
                self._pages[after] = page
                if len(self._pages) > PAGES_KEPT_MAX:
                    self._pages.popitem(last=False)
        return page

    async def view_of(self, place: NumberedReceipt) -> ReceiptView:
        """Return the receipt that users see."""
        kept = self._kept.get(place.sequence)
        if kept is not None and kept.done():
            return kept.result()
        if kept is None:
            # Many listeners reach the same receipt at the same time: the first reads it, the others wait for the
            # result.
            kept = self._kept[place.sequence] = asyncio.ensure_future(self._look(place))
            kept.add_done_callback(partial(self._drop_failed, place.sequence))
            if len(self._kept) > VIEWS_KEPT_MAX:
                self._kept.popitem(last=False)
        return await asyncio.shield(kept)

    async def _look(self, place: NumberedReceipt) -> ReceiptView:
        view = await self._view(place)
        if view is None:
            raise _not_indexed(place)
        return view

    def _drop_failed(self, sequence: int, looked: asyncio.Future[ReceiptView]) -> None:
        """Remove a failed read from the cache, so that it is repeated."""
        if looked.cancelled() or looked.exception() is not None:
            self._kept.pop(sequence, None)

    async def _full(self, place: NumberedReceipt) -> FullReceipt:
        full = await self._full_view(place)
        if full is None:
            raise _not_indexed(place)
        return full

    async def after(self, sequence: int) -> AsyncIterator[ReceiptView]:
        """Yield all receipts with greater numbers: the existing ones, then new ones as they come."""
        everything, position = ReceiptDefinition(), ListenerPosition(sequence)
        while True:
            rung = self.bell.rung
            found = await self.read(everything, position)
            for view in found.items:
                assert isinstance(view, ReceiptView), "without domain receipts"
                yield view
            position = found.position
            if found.is_all:
                await self.bell.wait(rung)


def _numbered(view: AnyReceipt, number: int) -> AnyReceipt:
    if isinstance(view, FullReceipt):
        # The numbers of base-ledger transactions count those of all parties too.
        public = tuple(replace(each, local_id=0) for each in view.public)
        return replace(view, receipt=replace(view.receipt, sequence=number), public=public)
    return replace(view, sequence=number)


def _as_received(view: AnyReceipt) -> AnyReceipt:
    """Return a receipt for parties that did not send the transaction: without the nodes that hold its other states."""
    assert isinstance(view, ReceiptView), "only senders get full receipts"
    place = replace(view.position, nodes=()) if view.position is not None else None
    return replace(view, position=place, unacknowledged=())


def undone_view(place: NumberedReceipt) -> ReceiptView:
    """Return a receipt that no longer holds, of a transaction of which this node has no other data."""
    return ReceiptView(
        place.intent,
        False,
        place.numbered_at_ms,
        place.sequence,
        place.domain,
        failure_message=FINALITY_BROKEN_REASON,
        failure_code=FINALITY_BROKEN,
        source=place.contract or None,
    )


def _not_indexed(place: NumberedReceipt) -> Unavailable:
    """The error while a node indexes the chain again: it has the number, and not yet the receipt."""
    return Unavailable(f"the receipt with number {place.sequence} waits for the index to catch up")


def _passes(definition: ReceiptDefinition, place: NumberedReceipt) -> bool:
    return (definition.type is None or TransactionType(place.type) is definition.type) and (
        definition.domain is None or definition.domain == place.domain
    )
