"""Durable listeners: an application receives batches, from the position that it last acknowledged.

Theory of operation. A listener has a definition, and a position up to which everything was acknowledged: both are
stored. Its items are read from its `Source` behind that position, one batch at a time, while a receiver is attached: a
backlog of any length takes the memory of one batch. A batch goes to one of the listener's receivers; several take
turns. An acknowledgement moves the position, durably, and then the next batch is read. A refused batch is delivered
again after a pause, which grows. When its receiver leaves, the batch goes to another, or waits for one. So every item
arrives at least once, in order and without a gap.

A `Source` signals with its `Bell` that there may be more items.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from rota.domains.queries import Query
from rota.domains.records import Record
from rota.domains.records import Rejected as QueryRejected
from rota.engine.accepting import Acceptance, Acceptances, settled
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.ports import ListenerPosition, ListeningStore, Store, StoredListener, Unavailable
from rota.rpc.errors import ErrorCode, Rejected, invalid
from rota.rpc.formats import timestamp_of
from rota.service.interface import Batch, Listener, Receiver, ReceiverLeft
from rota.service.listeners.held import HeldListeners, Narrowed

LISTENERS_MAX: Final = 1_000
RECEIVERS_MAX: Final = 1_000
PAUSE_MS: Final = 200
PAUSE_MAX_MS: Final = 30_000
RETRY_S: Final = 0.5
# A listener whose filters pass few items advances so far without an acknowledgement before its position is stored.
PASSED_NOTED: Final = 10_000

D = TypeVar("D", bound=Narrowed)
T = TypeVar("T")


class Bell:
    """Wakes all tasks that wait for more items."""

    def __init__(self) -> None:
        self.rung = 0
        self._next = asyncio.Event()

    def ring(self) -> None:
        """Signal that there may be more."""
        self.rung += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, since: int) -> None:
        """Wait until it has rung after the count `since`."""
        if self.rung == since:
            await self._next.wait()


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The items of a source behind a position, as many as fit in a batch, and the position behind all that were read.

    With `is_all` there is no more for now; without it, the next read finds more, though perhaps nothing that passes.
    """

    items: tuple[T, ...]
    position: ListenerPosition
    is_all: bool


class Source(Protocol[D, T]):
    """The origin of the items of one kind of listeners."""

    @property
    def kind(self) -> str:
        """The name of the kind in the store."""
        ...

    @property
    def bell(self) -> Bell:
        """Rings when there may be more."""
        ...

    def encode(self, definition: D) -> bytes:
        """Encode a definition for the store."""
        ...

    def decode(self, kept: bytes) -> D:
        """Decode a stored definition."""
        ...

    async def first_position(self, definition: D) -> ListenerPosition:
        """Return the position at which a new listener begins. `Rejected` when the definition is invalid."""
        ...

    async def read(self, definition: D, position: ListenerPosition) -> Found[T]:
        """Read the items behind this position. `Unavailable` when they cannot be read now."""
        ...


class DurableListeners(Generic[D, T]):
    """`service.interface.Listeners` on a store and a source."""

    def __init__(self, source: Source[D, T], store: Store, acceptances: Acceptances) -> None:
        self._source: Final = source
        self._store: Final = store
        self._acceptances: Final = acceptances
        self._deliveries: Final[dict[str, _Delivery[D, T]]] = {}
        self._changing: Final = asyncio.Lock()

    async def create(
        self,
        name: str,
        definition: D,
        is_started: bool,
        require_room: Callable[[tuple[Listener[D], ...]], None] = lambda _: None,
    ) -> None:
        """Create a listener durably. `require_room` raises `Rejected` when the existing ones leave no room for it."""
        await self._acceptances.accept(partial(self._create, name, definition, is_started, require_room))

    async def _create(
        self,
        name: str,
        definition: D,
        is_started: bool,
        require_room: Callable[[tuple[Listener[D], ...]], None],
        acceptance: Acceptance,
    ) -> None:
        # Serialised, so that each of several concurrent creations sees the earlier ones.
        async with self._changing:
            listeners = await self.listeners()
            require_room(listeners)
            if any(each.name == name for each in listeners):
                raise invalid("listener.name", f"must be new: there is a listener {name!r} already")
            if len(listeners) >= LISTENERS_MAX:
                raise Rejected(ErrorCode.INVALID_REQUEST, "", f"a node has at most {LISTENERS_MAX} listeners of a kind")
            position = await self._source.first_position(definition)
            kept = self._source.encode(definition)
            now_ms = time.time_ns() // 1_000_000
            stored = StoredListener(self._source.kind, name, now_ms, is_started, kept, position)
            acceptance.begin(listenerName=name)
            await settled(lambda: self._listening.add_listener(stored))

    async def listener(self, name: str) -> Listener[D] | None:
        """Return the listener of this name."""
        stored = await self._listening.listener(self._source.kind, name)
        return self._shown(stored) if stored is not None else None

    async def listeners(self) -> tuple[Listener[D], ...]:
        """Return all listeners, by name."""
        return tuple(self._shown(each) for each in await self._listening.listeners(self._source.kind))

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[D], ...]:
        """Return the listeners that a query matches."""
        return self.chosen(query, await self.listeners())

    def chosen(self, query: Mapping[str, Any], listeners: tuple[Listener[D], ...]) -> tuple[Listener[D], ...]:
        """Return those of these listeners that a query matches."""
        try:
            return tuple(Query.parse(query).select(listeners, _Row.of))
        except QueryRejected as flaw:
            raise invalid(flaw.field, flaw.message) from None

    def held_by(self, credential: str, parties: tuple[str, ...]) -> HeldListeners[D, T]:
        """Return the listeners of a credential that is held to parties."""
        return HeldListeners(self, credential, parties)

    def stored_name(self, name: str) -> str:
        """Return the name under which a listener is stored."""
        return name

    async def start(self, name: str) -> None:
        """Start delivering batches to its receivers."""
        await self._acceptances.accept(partial(self._set_started, name, True))

    async def stop(self, name: str) -> None:
        """Deliver no further batch."""
        await self._acceptances.accept(partial(self._set_started, name, False))

    async def delete(self, name: str) -> None:
        """Delete a listener; its receivers get no further batch."""
        await self._acceptances.accept(partial(self._delete, name))

    async def _delete(self, name: str, acceptance: Acceptance) -> None:
        async with self._changing:
            await self._known(name)
            acceptance.begin(listenerName=name)
            await settled(lambda: self._listening.remove_listener(self._source.kind, name))
            delivery = self._deliveries.pop(name, None)
        if delivery is not None:
            await delivery.close()

    async def attach(self, name: str, receiver: Receiver[Batch[T]]) -> Callable[[], None]:
        """Deliver its batches to this receiver, in turn with others."""
        async with self._changing:
            stored = await self._known(name)
            delivery = self._deliveries.get(name)
            if delivery is None:
                delivery = self._deliveries[name] = _Delivery(self._source, self._store, stored)
            delivery.add(receiver)
        return partial(delivery.remove, receiver)

    async def position(self, name: str) -> ListenerPosition | None:
        """Return the acknowledged position, or a later one if no item in between passed; None if unknown."""
        stored = await self._listening.listener(self._source.kind, name)
        delivery = self._deliveries.get(name)
        if stored is None or delivery is None:
            return stored.acknowledged if stored is not None else None
        return delivery.position

    async def close(self) -> None:
        """Stop all deliveries; the node is stopping."""
        deliveries = tuple(self._deliveries.values())
        self._deliveries.clear()
        await asyncio.gather(*(delivery.close() for delivery in deliveries))

    @property
    def _listening(self) -> ListeningStore:
        return self._store.listening

    async def _known(self, name: str) -> StoredListener:
        stored = await self._listening.listener(self._source.kind, name)
        if stored is None:
            raise invalid("listenerName", f"there is no listener {name!r}")
        return stored

    async def _set_started(self, name: str, is_started: bool, acceptance: Acceptance) -> None:
        async with self._changing:
            await self._known(name)
            acceptance.begin(listenerName=name)
            await settled(lambda: self._listening.start_listener(self._source.kind, name, is_started))
            delivery = self._deliveries.get(name)
            if delivery is not None:
                delivery.set_started(is_started)

    def _shown(self, stored: StoredListener) -> Listener[D]:
        definition = self._source.decode(stored.definition)
        return Listener(stored.name, stored.created_at_ms, stored.is_started, definition)


@dataclass(frozen=True, slots=True)
class _Row(Record):
    """A listener as queries see it."""

    name: str
    created: str
    started: bool

    @classmethod
    def of(cls, listener: Listener[Any]) -> _Row:
        """Return the listener with its time as clients read it."""
        return cls(listener.name, timestamp_of(listener.created_at_ms), listener.is_started)


class _Delivery(Generic[D, T]):
    """The deliveries of one listener. Without receivers it holds no batch and waits for a receiver."""

    def __init__(self, source: Source[D, T], store: Store, stored: StoredListener) -> None:
        self.receivers: Final[list[Receiver[Batch[T]]]] = []
        self._source: Final = source
        self._store: Final = store
        self._name: Final = stored.name
        self._definition: Final = source.decode(stored.definition)
        self.position = stored.acknowledged
        self._noted = stored.acknowledged
        self._batches = 0
        self._may_give: Final = asyncio.Event()
        self._is_started = stored.is_started
        self._trouble: Final = Trouble()
        self._task: Final = _looked_after(self._run())

    def add(self, receiver: Receiver[Batch[T]]) -> None:
        """Add a receiver. `Rejected` when the listener has the maximum number already."""
        if len(self.receivers) >= RECEIVERS_MAX:
            text = f"a listener has at most {RECEIVERS_MAX} subscriptions at a time"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)
        self.receivers.append(receiver)
        self._set_may_give()

    def remove(self, receiver: Receiver[Batch[T]]) -> None:
        """Remove a receiver that has left."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
        self._set_may_give()

    def set_started(self, is_started: bool) -> None:
        """Set whether further batches are delivered."""
        self._is_started = is_started
        self._set_may_give()

    async def close(self) -> None:
        """Cancel the delivery task and wait for its end."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _set_may_give(self) -> None:
        if self._is_started and self.receivers:
            self._may_give.set()
        else:
            self._may_give.clear()

    async def _run(self) -> None:
        while True:
            await self._may_give.wait()
            rung = self._source.bell.rung
            try:
                found = await self._source.read(self._definition, self.position)
                if found.items:
                    if not await self._given(found.items):
                        continue
                    await self._note(found.position)
                elif found.position.number >= self._noted.number + PASSED_NOTED:
                    await self._note(found.position)
            except Unavailable as trouble:
                self._log_postponed(trouble)
                await asyncio.sleep(RETRY_S)
                continue
            self._trouble.end()
            self.position = found.position
            if found.is_all:
                await self._source.bell.wait(rung)

    def _log_postponed(self, trouble: Unavailable) -> None:
        if self._trouble.is_new(str(trouble)):
            catalogue.LISTENER_POSTPONED.log(listener=self._name, reason=str(trouble))

    async def _given(self, items: tuple[T, ...]) -> bool:
        """Deliver until a receiver acknowledges; returns False when all have left, and then nothing is held."""
        pause_ms = PAUSE_MS
        while self.receivers:
            await self._may_give.wait()
            self._batches += 1
            receiver = self.receivers[self._batches % len(self.receivers)]
            try:
                if await receiver.take(Batch(self._batches, items)):
                    return True
                await asyncio.sleep(pause_ms / 1_000)
                pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)
            except ReceiverLeft:
                self.remove(receiver)
        return False

    async def _note(self, position: ListenerPosition) -> None:
        """Store an acknowledged position, which must be durable before the next batch leaves; retry if unavailable."""
        while True:
            try:
                await self._store.listening.note_acknowledged(self._source.kind, self._name, position)
            except Unavailable as trouble:
                self._log_postponed(trouble)
                await asyncio.sleep(RETRY_S)
            else:
                self._noted = position
                return


def _looked_after(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task that reports an unexpected error to the event loop's exception handler."""
    task = asyncio.create_task(work)
    task.add_done_callback(_tell_of_end)
    return task


def _tell_of_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "a listener has stopped by an unhandled exception", "exception": problem, "task": task}
        asyncio.get_running_loop().call_exception_handler(context)
