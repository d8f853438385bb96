"""The identifiers of keys that were requested, as a tree (`ports.KeyNames`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rota.domains.queries import Query
from rota.model.types import ContractAddress
from rota.ports import StoredKey
from rota.store.database import Read, Reading, Statement, Write
from rota.store.queries import Column, Kind, Table, selection


class KeyNames:
    """`ports.KeyNames` on a database."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read: Final = read
        self._write: Final = write

    async def at(self, paths: Sequence[str]) -> tuple[StoredKey, ...]:
        """The stored ones of these, in the order of `paths`."""
        if not paths:
            return ()
        marks = ", ".join("?" * len(paths))
        found = await self._read(_keys(Statement(f"{_KEYS} WHERE path IN ({marks})", tuple(paths))))
        by_path = {key.path: key for key in found}
        return tuple(by_path[path] for path in paths if path in by_path)

    async def with_address(self, address: ContractAddress) -> StoredKey | None:
        """The key with this address; None if there is none."""
        found = await self._read(_keys(Statement(f"{_KEYS} WHERE address = ?", (address,))))
        return found[0] if found else None

    async def next_place(self, parent: str) -> int:
        """The number of the next key under this parent."""
        return await self._read(_next_place(parent))

    async def add(self, keys: Sequence[StoredKey]) -> None:
        """Store these; a path that is a branch already becomes a key as well."""
        await self._write(
            *(
                Statement(_ADD, (key.path, key.parent, key.name, key.place, key.address, key.handle), key.path.encode())
                for key in keys
            )
        )

    async def find(self, query: Query) -> tuple[StoredKey, ...]:
        """The keys that match, in the order of their paths unless the query has another one."""
        return await self._read(_keys(selection(_TABLE, _SELECTED, query)))


def _keys(query: Statement) -> Reading[tuple[StoredKey, ...]]:
    rows: Any = yield query
    return tuple(
        StoredKey(path, parent, name, place, None if address is None else ContractAddress(address), handle, bool(count))
        for path, parent, name, place, address, handle, count in rows
    )


def _next_place(parent: str) -> Reading[int]:
    rows: Any = yield Statement("SELECT MAX(place) FROM key_names WHERE parent = ?", (parent,))
    ((latest,),) = rows
    return 0 if latest is None else int(latest) + 1


_HAS_CHILDREN: Final = """
CASE WHEN EXISTS (SELECT 1 FROM key_names AS below WHERE below.parent = key_names.path) THEN 1 ELSE 0 END"""
_SELECTED: Final = f"path, parent, name, place, address, handle, {_HAS_CHILDREN}"
_KEYS: Final = f"SELECT {_SELECTED} FROM key_names"

_TABLE: Final = Table(
    "key_names",
    {
        "path": Column("path", Kind.TEXT),
        "parent": Column("parent", Kind.TEXT),
        "name": Column("name", Kind.TEXT),
        "index": Column("place", Kind.NUMBER),
        "isKey": Column("(CASE WHEN address IS NULL THEN 0 ELSE 1 END)", Kind.BOOLEAN),
        "hasChildren": Column(f"({_HAS_CHILDREN})", Kind.BOOLEAN),
        "keyHandle": Column("handle", Kind.TEXT),
        "address": Column("address", Kind.TEXT),
    },
    "path",
)

_ADD: Final = """
INSERT INTO key_names (path, parent, name, place, address, handle) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET address = excluded.address, handle = excluded.handle
WHERE key_names.address IS NULL"""
