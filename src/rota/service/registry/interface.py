"""The node among others, as clients read it: peers, what is sent to them until they have it, registries, domains."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rota.model.types import ContractAddress, NodeName
from rota.rpc.formats import Address, HexText, Timestamp, Uuid
from rota.rpc.values import JsonValue


class PeerStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was said and heard in this life of the node. `reliableHighestSent` is the latest of what is repeated."""

    created_at: Timestamp
    sent_msgs: int
    received_msgs: int
    sent_bytes: int
    received_bytes: int
    reliable_highest_sent: int
    last_send: Timestamp | None = None
    last_receive: Timestamp | None = None


class PeerInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Another node. `outbound` tells where it is reached, `outboundError` why it is not."""

    name: str
    stats: PeerStats
    outbound_transport: str = ""
    activated: Timestamp | None = None
    outbound: dict[str, str] | None = None
    outbound_error: str = ""


class ReliableMessageAckNoMsgID(msgspec.Struct, frozen=True, omit_defaults=True):
    """The peer has it."""

    time: Timestamp
    error: str = ""


class ReliableMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is sent to a peer until it says that it has it. `messageType` is state or privacy_group_message."""

    sequence: int
    id: Uuid
    created: Timestamp
    node: str
    message_type: str
    metadata: Any
    ack: ReliableMessageAckNoMsgID | None = None


class ReliableMessageAck(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A peer has a message."""

    message_id: Uuid
    time: Timestamp
    error: str = ""


class RegistryEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node that is registered. Where on the chain that happened is there when it is known."""

    registry: str
    id: HexText
    name: str
    active: bool
    parent_id: HexText | None = None
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None


class RegistryEntryWithProperties(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node that is registered, and all that is registered of it."""

    registry: str
    id: HexText
    name: str
    active: bool
    properties: dict[str, str]
    parent_id: HexText | None = None
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None


class RegistryProperty(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is registered of a node."""

    registry: str
    entry_id: HexText
    name: str
    value: str
    active: bool
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None


class Domain(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A domain. `registryAddress` is the factory by which its contracts are deployed; all domains share it."""

    name: str
    registry_address: Address | None = None


class SmartContract(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A private contract that this node has."""

    domain_name: str
    address: Address
    config: Any
    domain_address: Address | None = None


class Neighbours(Protocol):
    """The other nodes, as this one is connected to them."""

    def transports(self) -> tuple[str, ...]:
        """List the transports of this node."""
        ...

    def transport_details(self, transport: str) -> str:
        """What others have to know of this node, as JSON text."""
        ...

    def peers(self, query: JsonValue = None) -> tuple[PeerInfo, ...]:
        """The others, or those that a QueryJSON looks for."""
        ...

    def peer(self, name: NodeName) -> PeerInfo | None:
        """One of them."""
        ...

    async def reliable_messages(self, query: JsonValue) -> tuple[ReliableMessage, ...]:
        """What is or was sent until it was acknowledged."""
        ...


class Registries(Protocol):
    """Which nodes there are."""

    def names(self) -> tuple[str, ...]:
        """List the registries that this node reads."""
        ...

    def entries(self, registry: str, query: JsonValue, active_filter: str) -> tuple[RegistryEntryWithProperties, ...]:
        """The nodes in one of them that a QueryJSON looks for."""
        ...

    def properties(self, registry: str, entry: bytes, active_filter: str) -> tuple[RegistryProperty, ...]:
        """Return the registered properties of a node."""
        ...


class Domains(Protocol):
    """What private contracts may be, and which there are."""

    def names(self) -> tuple[str, ...]:
        """The domains that are installed."""
        ...

    def domain(self, name: str) -> Domain | None:
        """One of them."""
        ...

    def domain_at(self, address: ContractAddress) -> Domain | None:
        """The first domain whose contracts are deployed through this address, or that of the contract at it."""
        ...

    def contract(self, address: ContractAddress) -> SmartContract | None:
        """A private contract of this node."""
        ...

    def contracts(self, query: JsonValue) -> tuple[SmartContract, ...]:
        """The private contracts of this node that a QueryJSON looks for."""
        ...


class HasNetwork(Protocol):
    """A node among others."""

    @property
    def neighbours(self) -> Neighbours:
        """List the other nodes."""
        ...

    @property
    def registries(self) -> Registries:
        """Which nodes there are."""
        ...

    @property
    def domains(self) -> Domains:
        """What private contracts may be."""
        ...
