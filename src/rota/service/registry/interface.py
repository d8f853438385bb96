"""The node's network as clients read it: peers, reliable messages, registries, domains."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rota.model.types import ContractAddress, NodeName
from rota.rpc.formats import Address, HexText, Timestamp, Uuid
from rota.rpc.values import JsonValue


class PeerStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Messages sent and received in this run of the node. `reliableHighestSent` is the latest of the repeated ones."""

    created_at: Timestamp
    sent_msgs: int
    received_msgs: int
    sent_bytes: int
    received_bytes: int
    reliable_highest_sent: int
    last_send: Timestamp | None = None
    last_receive: Timestamp | None = None


class PeerInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Another node. `outbound` is its address, `outboundError` the reason why it is not reached."""

    name: str
    stats: PeerStats
    outbound_transport: str = ""
    activated: Timestamp | None = None
    outbound: dict[str, str] | None = None
    outbound_error: str = ""


class ReliableMessageAckNoMsgID(msgspec.Struct, frozen=True, omit_defaults=True):
    """An acknowledgement by a peer, without the message's id."""

    time: Timestamp
    error: str = ""


class ReliableMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A message that is sent to a peer until it is acknowledged. `messageType` is state or privacy_group_message."""

    sequence: int
    id: Uuid
    created: Timestamp
    node: str
    message_type: str
    metadata: Any
    ack: ReliableMessageAckNoMsgID | None = None


class ReliableMessageAck(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An acknowledgement of a message by a peer."""

    message_id: Uuid
    time: Timestamp
    error: str = ""


class RegistryEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A registered node, with the place of its registration on the chain if known."""

    registry: str
    id: HexText
    name: str
    active: bool
    parent_id: HexText | None = None
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None


class RegistryEntryWithProperties(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A registered node, with its properties."""

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
    """A property of a registered node."""

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
        """Return the details that other nodes need to reach this one, as JSON text."""
        ...

    def peers(self, query: JsonValue = None) -> tuple[PeerInfo, ...]:
        """Return the other nodes, or those that a QueryJSON matches."""
        ...

    def peer(self, name: NodeName) -> PeerInfo | None:
        """Return another node."""
        ...

    async def reliable_messages(self, query: JsonValue) -> tuple[ReliableMessage, ...]:
        """Return messages that are or were sent until they are acknowledged."""
        ...


class Registries(Protocol):
    """The registered nodes."""

    def names(self) -> tuple[str, ...]:
        """List the registries that this node reads."""
        ...

    def entries(self, registry: str, query: JsonValue, active_filter: str) -> tuple[RegistryEntryWithProperties, ...]:
        """Return the nodes in a registry that a QueryJSON matches."""
        ...

    def properties(self, registry: str, entry: bytes, active_filter: str) -> tuple[RegistryProperty, ...]:
        """Return the registered properties of a node."""
        ...


class Domains(Protocol):
    """The domains and private contracts of this node."""

    def names(self) -> tuple[str, ...]:
        """Return the installed domains."""
        ...

    def domain(self, name: str) -> Domain | None:
        """Return a domain."""
        ...

    def domain_at(self, address: ContractAddress) -> Domain | None:
        """Return the first domain whose contracts are deployed through this address, or that of the contract at it."""
        ...

    def contract(self, address: ContractAddress) -> SmartContract | None:
        """Return a private contract of this node."""
        ...

    def contracts(self, query: JsonValue) -> tuple[SmartContract, ...]:
        """Return the private contracts of this node that a QueryJSON matches."""
        ...


class HasNetwork(Protocol):
    """A node in a network."""

    @property
    def neighbours(self) -> Neighbours:
        """The other nodes."""
        ...

    @property
    def registries(self) -> Registries:
        """The registered nodes."""
        ...

    @property
    def domains(self) -> Domains:
        """The domains and private contracts."""
        ...
