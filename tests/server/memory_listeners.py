"""A store of listeners in memory, and sources that a test fills: what delivers from them is the node's own code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import msgspec

from rota.model.blocks import LedgerOutcome
from rota.model.types import ContractAddress, IntentId
from rota.ports import DueReceipt, ListenerPosition, NumberedReceipt, StoredListener, Unavailable
from rota.service.listeners.listeners import Bell, Found

D = TypeVar("D")
T = TypeVar("T")


@dataclass
class MemoryListening:
    """`ports.ListeningStore`, as far as listeners need it."""

    kept: dict[tuple[str, str], StoredListener] = field(default_factory=dict)
    is_away: bool = False

    @property
    def listening(self) -> MemoryListening:
        return self

    async def add_listener(self, listener: StoredListener) -> None:
        self._look()
        self.kept.setdefault((listener.kind, listener.name), listener)

    async def listener(self, kind: str, name: str) -> StoredListener | None:
        self._look()
        return self.kept.get((kind, name))

    async def listeners(self, kind: str) -> tuple[StoredListener, ...]:
        self._look()
        return tuple(self.kept[key] for key in sorted(self.kept) if key[0] == kind)

    async def start_listener(self, kind: str, name: str, is_started: bool) -> None:
        self._look()
        self.kept[kind, name] = replace(self.kept[kind, name], is_started=is_started)

    async def note_acknowledged(self, kind: str, name: str, position: ListenerPosition) -> None:
        self._look()
        self.kept[kind, name] = replace(self.kept[kind, name], acknowledged=position)

    async def remove_listener(self, kind: str, name: str) -> None:
        self._look()
        del self.kept[kind, name]

    def _look(self) -> None:
        if self.is_away:
            raise Unavailable("the store is away")

    async def due(self, most: int) -> tuple[DueReceipt, ...]:
        return ()

    async def number(self, receipts: object) -> None: ...

    async def forget_expired(self) -> None: ...

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        return ()

    async def latest_receipts(self, limit: int) -> tuple[NumberedReceipt, ...]:
        return ()

    async def receipt_number(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        return None

    async def receipts_of(self, intent: IntentId) -> tuple[NumberedReceipt, ...]:
        return ()

    async def may_return(self, intent: IntentId) -> bool:
        return True

    async def undone_count(self) -> int:
        return 0

    async def acknowledge_undone(self) -> None: ...

    async def commit_of(self, receipt: NumberedReceipt) -> tuple[int, LedgerOutcome] | None:
        return None


class MemorySource(Generic[D, T]):
    """Items in a list; `passes` says which of them a definition wants."""

    def __init__(self, kind: str, type_: type[D], passes: Callable[[D, T], bool], batch: int = 3) -> None:
        self.kind = kind
        self.bell = Bell()
        self.items: list[T] = []
        self.read_most = 0
        self._type = type_
        self._passes = passes
        self._batch = batch

    def put(self, *items: T) -> None:
        self.items += items
        self.bell.ring()

    def encode(self, definition: D) -> bytes:
        return msgspec.json.encode(definition)

    def decode(self, kept: bytes) -> D:
        return msgspec.json.decode(kept, type=self._type)

    async def first_position(self, definition: D) -> ListenerPosition:
        return ListenerPosition(getattr(definition, "sequence_above", 0) or 0)

    async def read(self, definition: D, position: ListenerPosition) -> Found[T]:
        page = self.items[position.number : position.number + self._batch]
        self.read_most = max(self.read_most, len(page))
        found = tuple(item for item in page if self._passes(definition, item))
        reached = position.number + len(page)
        return Found(found, ListenerPosition(reached), is_all=reached == len(self.items))
