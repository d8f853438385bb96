"""The keys of a node's parties, as methods see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.rpc.values import JsonValue


@dataclass(frozen=True, slots=True)
class KeySegment:
    """One segment of an identifier's path, and its number among its siblings."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class KeyVerifier:
    """The public form of a key: an address, of this type, for this algorithm."""

    verifier: str
    type: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """An identifier, the location of its key, and its verifier."""

    identifier: str
    wallet: str
    handle: str
    path: tuple[KeySegment, ...]
    verifier: KeyVerifier


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A node in the tree of identifiers: a key, a branch, or both."""

    is_key: bool
    has_children: bool
    parent: str
    path: str
    name: str
    index: int
    wallet: str
    handle: str
    verifiers: tuple[KeyVerifier, ...]


class Keys(Protocol):
    """The keys of this node's parties, by their identifiers."""

    def wallets(self) -> tuple[str, ...]:
        """Return the wallets, the sources of keys."""
        ...

    async def resolve(self, identifier: str, algorithm: str, verifier_type: str) -> KeyMapping:
        """Return the key of an identifier; every name has one."""
        ...

    async def reverse(self, algorithm: str, verifier_type: str, verifier: str) -> KeyMapping | None:
        """Return the key that has this verifier, if it was resolved or used before."""
        ...

    async def query(self, query: JsonValue) -> tuple[KeyEntry, ...]:
        """Return the resolved or used identifiers that a QueryJSON matches."""
        ...

    async def sign(
        self, identifier: str, algorithm: str, verifier_type: str, payload_type: str, payload: bytes
    ) -> bytes:
        """Return a signature of this payload."""
        ...


class HasKeys(Protocol):
    """A node that has keys."""

    @property
    def keys(self) -> Keys:
        """The keys of its parties."""
        ...
