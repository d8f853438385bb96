"""Private states and their schemas, as clients read them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rota.model.types import ContractAddress, IntentId
from rota.rpc.formats import Address, HexText, Timestamp, Uuid, Word
from rota.rpc.values import JsonValue


class Schema(msgspec.Struct, frozen=True):
    """The fields of one kind of states; `labels` are the indexed ones."""

    id: Word
    created: Timestamp
    domain: str
    type: str
    signature: str
    definition: Any
    labels: list[str]


class StateConfirmRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The transaction that made a state, when that is known."""

    transaction: Uuid | None = None


class StateSpendRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The transaction that spent a state, when that is known."""

    transaction: Uuid | None = None


class StateNullifier(msgspec.Struct, frozen=True, omit_defaults=True):
    """The nullifier that spends a state in place of its id, and the transaction that spent it, if any."""

    id: Word
    spent: StateSpendRecord | None = None


class PrivateState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A private state that this node has. It is confirmed when it is on the chain."""

    id: HexText
    created: Timestamp
    domain: str
    schema: Word
    contract_address: Address
    data: Any
    confirmed: StateConfirmRecord | None = None
    spent: StateSpendRecord | None = None
    nullifier: StateNullifier | None = None


class States(Protocol):
    """The private states that this node has."""

    async def schemas(self, domain: str) -> tuple[Schema, ...]:
        """Return the schemas of a domain."""
        ...

    async def query(
        self,
        domain: str,
        contract: ContractAddress | None,
        schema: bytes,
        query: JsonValue,
        qualifier: str,
        parties: tuple[str, ...] | None = None,
    ) -> tuple[PrivateState, ...]:
        """Return the states of a domain, or of one contract, that a QueryJSON over the schema's fields matches.

        `qualifier` is available, confirmed, unconfirmed, spent, all, or the id of a transaction. With `parties` only
        states that one of these parties of this node may see.
        """
        ...

    async def query_nullifiers(
        self,
        domain: str,
        contract: ContractAddress | None,
        schema: bytes,
        query: JsonValue,
        qualifier: str,
        parties: tuple[str, ...] | None = None,
    ) -> tuple[PrivateState, ...]:
        """Return those of them with a nullifier that this node knows: states of its own parties."""
        ...

    async def store(self, domain: str, contract: ContractAddress, schema: bytes, data: JsonValue) -> PrivateState:
        """Store a state that no transaction made."""
        ...

    async def transfer(self, domain: str, state: bytes, recipient: str) -> IntentId:
        """Send a state again to the node of a party that may see it; returns the id of the repeated message."""
        ...


class HasStates(Protocol):
    """A node that has private states."""

    @property
    def states(self) -> States:
        """Its states."""
        ...
