"""The keys of a node's parties, as methods see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.rpc.values import JsonValue


@dataclass(frozen=True, slots=True)
class KeySegment:
    """One step on the way to an identifier, and its number among those beside it."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class KeyVerifier:
    """By what others know a key: an address, of this type, for this algorithm."""

    verifier: str
    type: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """An identifier, where its key is, and its verifier."""

    identifier: str
    wallet: str
    handle: str
    path: tuple[KeySegment, ...]
    verifier: KeyVerifier


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A place in the tree of identifiers: a key, a branch, or both."""

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
        """Where keys come from."""
        ...

    async def resolve(self, identifier: str, algorithm: str, verifier_type: str) -> KeyMapping:
        """The key of an identifier; there is one for every name."""
        ...

    async def reverse(self, algorithm: str, verifier_type: str, verifier: str) -> KeyMapping | None:
        """The key that has this verifier, if it was asked for or used before."""
        ...

    async def query(self, query: JsonValue) -> tuple[KeyEntry, ...]:
        """The identifiers that were asked for or used, which a QueryJSON looks for."""
        ...

    async def sign(
        self, identifier: str, algorithm: str, verifier_type: str, payload_type: str, payload: bytes
    ) -> bytes:
        """A signature of this payload."""
        ...


class HasKeys(Protocol):
    """A node that has keys."""

    @property
    def keys(self) -> Keys:
        """The keys of its parties."""
        ...
