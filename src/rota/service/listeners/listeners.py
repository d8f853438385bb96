"""Listeners that last: what an application follows, given in batches, from where it last acknowledged.

Theory of operation. A listener has a definition, and a position up to which all was acknowledged: both are stored.
What it has to give is read from its `Source` behind that position, as much as one batch holds, when somebody is there
to take it: a backlog of any length takes the memory of one batch. A batch goes to one of the listener's receivers;
several take turns. Acknowledged, it moves the position, durably, and then the next is read. Refused, it is given again
after a pause, which grows. When its receiver leaves, it goes to another, or waits for one. So every item arrives at
least once, in order, and there is no gap.

A `Source` tells by its `Bell` that there may be more.
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
# Of a listener whose filters let little pass: so far it goes without an acknowledgement before that is noted.
PASSED_NOTED: Final = 10_000

D = TypeVar("D", bound=Narrowed)
T = TypeVar("T")


class Bell:
    """Rings for all who wait for more."""

    def __init__(self) -> None:
        self.rung = 0
        self._next = asyncio.Event()

    def ring(self) -> None:
        """There may be more."""
        self.rung += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, since: int) -> None:
        """Until it has rung after that."""
        if self.rung == since:
            await self._next.wait()


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What a source has behind a position, as much as fits in a batch, and the position behind all that was looked at.

    With `is_all` there is no more for now; without it, the next look finds more, though perhaps nothing that passes.
    """

    items: tuple[T, ...]
    position: ListenerPosition
    is_all: bool


class Source(Protocol[D, T]):
    """What the listeners of one kind follow."""

    @property
    def kind(self) -> str:
        """The name of the kind in the store."""
        ...

    @property
    def bell(self) -> Bell:
        """Rings when there may be more."""
        ...

    def encode(self, definition: D) -> bytes:
        """A definition as it is kept."""
        ...

    def decode(self, kept: bytes) -> D:
        """What was kept."""
        ...

    async def first_position(self, definition: D) -> ListenerPosition:
        """Where a new listener begins. `Rejected` when the definition is not right."""
        ...

    async def read(self, definition: D, position: ListenerPosition) -> Found[T]:
        """What is behind this position. `Unavailable` when it cannot be said now."""
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
        """Have it from now on. `require_room` raises `Rejected` when there may be no more beside those that exist."""
        await self._acceptances.accept(partial(self._create, name, definition, is_started, require_room))

    async def _create(
        self,
        name: str,
        definition: D,
        is_started: bool,
        require_room: Callable[[tuple[Listener[D], ...]], None],
        acceptance: Acceptance,
    ) -> None:
        # Of several that are created at once, each sees those before it.
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
        """The one of this name."""
        stored = await self._listening.listener(self._source.kind, name)
        return self._shown(stored) if stored is not None else None

    async def listeners(self) -> tuple[Listener[D], ...]:
        """All of them, by name."""
        return tuple(self._shown(each) for each in await self._listening.listeners(self._source.kind))

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[D], ...]:
        """Those that a query looks for."""
        return self.chosen(query, await self.listeners())

    def chosen(self, query: Mapping[str, Any], listeners: tuple[Listener[D], ...]) -> tuple[Listener[D], ...]:
        """Of these, those that a query looks for."""
        try:
            return tuple(Query.parse(query).select(listeners, _Row.of))
        except QueryRejected as flaw:
            raise invalid(flaw.field, flaw.message) from None

    def held_by(self, credential: str, parties: tuple[str, ...]) -> HeldListeners[D, T]:
        """Those of a credential that is held to parties."""
        return HeldListeners(self, credential, parties)

    def stored_name(self, name: str) -> str:
        """The name under which one is stored."""
        return name

    async def start(self, name: str) -> None:
        """Its receivers are given batches from now on."""
        await self._acceptances.accept(partial(self._set_started, name, True))

    async def stop(self, name: str) -> None:
        """No further batch is given."""
        await self._acceptances.accept(partial(self._set_started, name, False))

    async def delete(self, name: str) -> None:
        """Forget it; its receivers are given nothing any more."""
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
        """Give its batches to this receiver, in turn with others."""
        async with self._changing:
            stored = await self._known(name)
            delivery = self._deliveries.get(name)
            if delivery is None:
                delivery = self._deliveries[name] = _Delivery(self._source, self._store, stored)
            delivery.add(receiver)
        return partial(delivery.remove, receiver)

    async def position(self, name: str) -> ListenerPosition | None:
        """Up to where it was acknowledged, or further where nothing was to be given."""
        stored = await self._listening.listener(self._source.kind, name)
        delivery = self._deliveries.get(name)
        if stored is None or delivery is None:
            return stored.acknowledged if stored is not None else None
        return delivery.position

    async def close(self) -> None:
        """The node stops: nothing is given any more."""
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
        """With its time as clients read it."""
        return cls(listener.name, timestamp_of(listener.created_at_ms), listener.is_started)


class _Delivery(Generic[D, T]):
    """One listener at work. Without receivers it holds nothing and waits for one."""

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
        """It takes its turn from now on."""
        if len(self.receivers) >= RECEIVERS_MAX:
            text = f"a listener has at most {RECEIVERS_MAX} subscriptions at a time"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)
        self.receivers.append(receiver)
        self._set_may_give()

    def remove(self, receiver: Receiver[Batch[T]]) -> None:
        """It has left."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
        self._set_may_give()

    def set_started(self, is_started: bool) -> None:
        """Whether further batches are given."""
        self._is_started = is_started
        self._set_may_give()

    async def close(self) -> None:
        """End, and wait for that."""
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
        """Whether one of the receivers has acknowledged it; not when all have left, and then nothing is held."""
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
        """An acknowledgement is durable before the next batch leaves; a store that is away is waited for."""
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
    """A task that ends by an error of ours is loud."""
    task = asyncio.create_task(work)
    task.add_done_callback(_tell_of_end)
    return task


def _tell_of_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "a listener has stopped by our own fault", "exception": problem, "task": task}
        asyncio.get_running_loop().call_exception_handler(context)
