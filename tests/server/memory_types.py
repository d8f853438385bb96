"""What bytes mean, at a node in memory: the product's own answers, from ABIs in a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rota import host
from rota.abi.codec import Entry, definition_of, hash_of
from rota.domains.queries import Query
from rota.domains.records import Bytes32, Record
from rota.engine.contracts import KnownContracts
from rota.engine.verifiers import Verifiers
from rota.keys.secp256k1 import PrivateKey
from rota.keys.signers import MemorySigner
from rota.model.types import NodeName, Party
from rota.ports import StoredAbi
from rota.service.abis.types import Types
from rota.service.keys.verifiers import PartyVerifiers

KEY = PrivateKey(b"\x07" * 32)


@dataclass(frozen=True, slots=True)
class Row(Record):
    """An ABI as queries name its fields."""

    hash: Bytes32


@dataclass(slots=True)
class MemoryAbis:
    """`ports.AbiStore` in memory."""

    kept: dict[bytes, tuple[Entry, ...]] = field(default_factory=dict)

    async def add(self, entries: Sequence[Entry]) -> bytes:
        self.kept[hash_of(entries)] = tuple(entries)
        return hash_of(entries)

    async def get(self, hash_: bytes) -> StoredAbi | None:
        found = self.kept.get(hash_)
        return _stored(found) if found is not None else None

    async def find(self, query: Query) -> tuple[StoredAbi, ...]:
        return query.select(map(_stored, self.kept.values()), lambda each: Row(each.hash))

    async def entries(self, kind: str, key: bytes) -> tuple[Entry, ...]:
        every = (entry for entries in self.kept.values() for entry in entries if entry.kind == kind)
        return tuple(entry for entry in every if entry.topic[: len(key)] == key)


def _stored(entries: Sequence[Entry]) -> StoredAbi:
    return StoredAbi(hash_of(entries), msgspec.json.encode([definition_of(entry) for entry in entries]))


def memory_types() -> Types:
    """Alice has a key here; no other node answers."""
    signer = MemorySigner({"party/alice@node1": KEY, "coins/alice@node1": KEY})

    async def note(_: Party) -> None:
        """Nobody asks this node which parties are announced."""

    node = NodeName("node1")
    contracts = KnownContracts(node, 1337, host.load_domains(), bytes(32))
    others = Verifiers(lambda _: None, patience_ms=1)
    return Types(node, MemoryAbis(), PartyVerifiers(node, signer, contracts, others), note)
