"""Decoding of bytes on the chain, and the addresses of parties there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.rpc.values import AbiEntry, JsonValue


@dataclass(frozen=True, slots=True)
class AbiView:
    """An ABI that users stored."""

    hash: bytes
    abi: tuple[AbiEntry, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded bytes: the values as JSON text in the requested style, and the ABI entry that they match."""

    data: str
    summary: str
    definition: AbiEntry
    signature: str


class Types(Protocol):
    """Decoding of bytes on the chain, and the addresses of parties there."""

    async def store_abi(self, abi: Sequence[AbiEntry]) -> bytes:
        """Store an ABI; returns the hash that identifies it."""
        ...

    async def stored_abi(self, hash_: bytes) -> AbiView | None:
        """Return the ABI with this hash."""
        ...

    async def query_abis(self, query: JsonValue) -> tuple[AbiView, ...]:
        """Return the ABIs that a QueryJSON matches."""
        ...

    async def decode_call(self, call_data: bytes, data_format: str) -> Decoded:
        """Decode call data with the stored ABIs. `Rejected` when none matches."""
        ...

    async def decode_error(self, revert_data: bytes, data_format: str) -> Decoded:
        """Decode the data with which a contract reverted."""
        ...

    async def decode_event(self, topics: Sequence[bytes], data: bytes, data_format: str) -> Decoded:
        """Decode an event."""
        ...

    async def resolve_verifier(self, identifier: str, algorithm: str, verifier_type: str) -> str:
        """Return the address of a party of any node."""
        ...


class HasTypes(Protocol):
    """A node that decodes bytes."""

    @property
    def types(self) -> Types:
        """Its decoder."""
        ...
