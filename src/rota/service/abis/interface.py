"""What bytes on the chain mean, and who parties are there."""

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
    """What bytes mean: the values as JSON text in the style that was asked for, and the entry that says so."""

    data: str
    summary: str
    definition: AbiEntry
    signature: str


class Types(Protocol):
    """What bytes on the chain mean, and who parties are there."""

    async def store_abi(self, abi: Sequence[AbiEntry]) -> bytes:
        """Remember an ABI; the hash by which it is known."""
        ...

    async def stored_abi(self, hash_: bytes) -> AbiView | None:
        """The ABI of this hash."""
        ...

    async def query_abis(self, query: JsonValue) -> tuple[AbiView, ...]:
        """The ABIs that a QueryJSON looks for."""
        ...

    async def decode_call(self, call_data: bytes, data_format: str) -> Decoded:
        """A call, by whatever ABI was stored. `Rejected` when none fits."""
        ...

    async def decode_error(self, revert_data: bytes, data_format: str) -> Decoded:
        """What a contract reverted with."""
        ...

    async def decode_event(self, topics: Sequence[bytes], data: bytes, data_format: str) -> Decoded:
        """An event."""
        ...

    async def resolve_verifier(self, identifier: str, algorithm: str, verifier_type: str) -> str:
        """The address of a party of any node."""
        ...


class HasTypes(Protocol):
    """A node that knows what bytes mean."""

    @property
    def types(self) -> Types:
        """What it knows."""
        ...
