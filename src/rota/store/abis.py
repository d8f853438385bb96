"""The ABIs that users stored, and their entries by selector or topic (`ports.AbiStore`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from rota.abi.codec import Entry, definition_of, entry_of, hash_of
from rota.domains.queries import Query
from rota.ports import StoredAbi
from rota.store.database import Door, Reading, Statement
from rota.store.queries import Column, Kind, Table, selection

# More than the signatures that share four bytes in practice.
ENTRIES_FOUND_MAX: Final = 64

_TABLE: Final = Table(
    "abis",
    {"hash": Column("hash", Kind.BYTES), "created": Column("stored_at_ms", Kind.TIME)},
    "stored_at_ms DESC, hash",
)


class Abis:
    """`ports.AbiStore` in a database."""

    def __init__(self, door: Door, clock: Callable[[], int]) -> None:
        self._door: Final = door
        self._clock: Final = clock

    async def add(self, entries: Sequence[Entry]) -> bytes:
        """Store an ABI and each of its entries. Returns its hash."""
        await self._door.write(adding(entries, self._clock()))
        return hash_of(entries)

    async def get(self, hash_: bytes) -> StoredAbi | None:
        """The ABI with this hash; None if there is none."""
        found = await self._door.read(_abis(Statement("SELECT hash, abi FROM abis WHERE hash = ?", (hash_,))))
        return found[0] if found else None

    async def find(self, query: Query) -> tuple[StoredAbi, ...]:
        """The ABIs that match, the latest first if no order is given."""
        return await self._door.read(_abis(selection(_TABLE, "hash, abi", query)))

    async def entries(self, kind: str, key: bytes) -> tuple[Entry, ...]:
        """The stored entries of this kind: functions and errors by selector, events by topic."""
        sql = "SELECT entry FROM abi_entries WHERE kind = ? AND key = ? ORDER BY hash LIMIT ?"
        return await self._door.read(_entries(Statement(sql, (kind, key, ENTRIES_FOUND_MAX))))


def adding(entries: Sequence[Entry], now_ms: int) -> list[Statement]:
    """The statements that store an ABI, to be written together with others."""
    written = msgspec.json.encode([definition_of(entry) for entry in entries])
    statements = [Statement(_ADD, (hash_of(entries), now_ms, written))]
    for entry in entries:
        if entry.kind in ("function", "error"):
            key = entry.selector
        elif entry.kind == "event" and not entry.is_anonymous:
            key = entry.topic
        else:
            continue
        definition = msgspec.json.encode(definition_of(entry))
        statements.append(Statement(_ADD_ENTRY, (entry.kind, key, hash_of((entry,)), definition)))
    return statements


def _abis(query: Statement) -> Reading[tuple[StoredAbi, ...]]:
    rows: Any = yield query
    return tuple(StoredAbi(bytes(hash_), bytes(abi)) for hash_, abi in rows)


def _entries(query: Statement) -> Reading[tuple[Entry, ...]]:
    rows: Any = yield query
    return tuple(entry_of(msgspec.json.decode(entry), "entry") for (entry,) in rows)


_ADD: Final = "INSERT INTO abis (hash, stored_at_ms, abi) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING"
_ADD_ENTRY: Final = """
INSERT INTO abi_entries (kind, key, hash, entry) VALUES (?, ?, ?, ?) ON CONFLICT (kind, key, hash) DO NOTHING"""
