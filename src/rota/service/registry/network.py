"""The node's network: peers, registries and domains (`service.registry.interface`)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from rota.domains.base import Rejected as DomainRejected
from rota.domains.records import Record, shown
from rota.engine.clock import monotonic_ms
from rota.engine.contracts import KnownContracts
from rota.ledger.bindings import RegisteredNode
from rota.model.digests import keccak
from rota.model.types import ContractAddress, NodeName
from rota.ports import Mail, Registration, Registry
from rota.rpc import errors
from rota.rpc.formats import Address, Timestamp, Uuid, hex_of, timestamp_of
from rota.rpc.values import JsonValue
from rota.service.asking import of_query, read_query, selected_at_once
from rota.service.registry.interface import (
    Domain,
    PeerInfo,
    PeerStats,
    RegistryEntryWithProperties,
    RegistryProperty,
    ReliableMessage,
    ReliableMessageAckNoMsgID,
    SmartContract,
)
from rota.transport.peer_state import PeerStatus

TRANSPORT: Final = "grpc"
REGISTRY: Final = "registry"
# The property by which clients find a node's address.
TRANSPORT_PROPERTY: Final = f"transport.{TRANSPORT}"
OWNER_PROPERTY: Final = "$owner"
NO_ADDRESS: Final = ContractAddress("0x" + "00" * 20)

ReadPeers = Callable[[], tuple[PeerStatus, ...]]
ReadRegistered = Callable[[], Mapping[NodeName, RegisteredNode]]


class Neighbours:
    """`service.registry.interface.Neighbours`."""

    def __init__(
        self,
        node: NodeName,
        registry: Registry,
        read_peers: ReadPeers,
        mail: Mail,
        highest_said: Mapping[NodeName, int],
    ) -> None:
        self._node: Final = node
        self._registry: Final = registry
        self._read_peers: Final = read_peers
        self._mail: Final = mail
        self._highest_said: Final = highest_said
        # The event loop's clock starts at an arbitrary value.
        self._epoch_ms: Final = time.time_ns() // 1_000_000 - monotonic_ms()

    def transports(self) -> tuple[str, ...]:
        """Return gRPC, the only transport."""
        return (TRANSPORT,)

    def transport_details(self, transport: str) -> str:
        """Return this node's registered details."""
        if transport != TRANSPORT:
            raise errors.invalid("transportName", f"must be {TRANSPORT}, not {transport!r}")
        own = self._registry.registrations().get(self._node)
        if own is None:
            raise errors.invalid("transportName", f"{self._node} is not registered: `rota ledger register` does it")
        return _details(own)

    def peers(self, query: JsonValue = None) -> tuple[PeerInfo, ...]:
        """Return all nodes but this one, or those that a query matches."""
        registered = self._registry.registrations()
        every = [self._info(each, registered.get(each.name)) for each in self._read_peers()]
        return selected_at_once(query, every, PeerRow.of)

    def peer(self, name: NodeName) -> PeerInfo | None:
        """Return another node."""
        return next((each for each in self.peers() if each.name == name), None)

    async def reliable_messages(self, query: JsonValue) -> tuple[ReliableMessage, ...]:
        """Return messages that are or were sent until they are acknowledged."""
        try:
            found = await self._mail.sent(read_query(query))
        except DomainRejected as flaw:
            raise of_query(flaw) from None
        return tuple(
            ReliableMessage(
                each.sequence,
                Uuid(UUID(bytes=each.id)),
                timestamp_of(each.created_at_ms),
                each.peer,
                each.kind,
                {"contractAddress": each.contract, "reference": "0x" + each.reference.hex()},
                ReliableMessageAckNoMsgID(timestamp_of(each.acknowledged_at_ms))
                if each.acknowledged_at_ms is not None
                else None,
            )
            for each in found
        )

    def _info(self, status: PeerStatus, registration: Registration | None) -> PeerInfo:
        traffic = status.traffic
        stats = PeerStats(
            timestamp_of(self._epoch_ms + traffic.known_since_ms),
            traffic.sent_messages,
            traffic.received_messages,
            traffic.sent_bytes,
            traffic.received_bytes,
            self._highest_said.get(status.name, 0),
            self._at(traffic.sent_at_ms),
            self._at(traffic.received_at_ms),
        )
        return PeerInfo(
            status.name,
            stats,
            TRANSPORT,
            self._at(traffic.connected_since_ms),
            {"endpoint": registration.endpoint} if registration is not None else None,
            status.trouble,
        )

    def _at(self, loop_ms: int | None) -> Timestamp | None:
        return timestamp_of(self._epoch_ms + loop_ms) if loop_ms is not None else None


class Registries:
    """The single registry, on the chain or in a file. `read_registered` returns the chain's further data."""

    def __init__(self, registry: Registry, read_registered: ReadRegistered) -> None:
        self._registry: Final = registry
        self._read_registered: Final = read_registered

    def names(self) -> tuple[str, ...]:
        """Return the name of the only registry."""
        return (REGISTRY,)

    def entries(self, registry: str, query: JsonValue, active_filter: str) -> tuple[RegistryEntryWithProperties, ...]:
        """Return the nodes that are registered now; removed ones are not kept."""
        _require_registry(registry)
        on_chain = self._read_registered()
        registered = () if active_filter == "inactive" else tuple(self._registry.registrations().items())
        every = [_entry(name, registration, on_chain.get(name)) for name, registration in registered]
        return selected_at_once(query, every, EntryRow.of)

    def properties(self, registry: str, entry: bytes, active_filter: str) -> tuple[RegistryProperty, ...]:
        """Return the properties of a node."""
        return tuple(
            RegistryProperty(
                REGISTRY, found.id, name, value, True, found.block_number, found.transaction_index, found.log_index
            )
            for found in self.entries(registry, None, active_filter)
            if found.id.content == entry
            for name, value in sorted(found.properties.items())
        )


class Domains:
    """`service.registry.interface.Domains`."""

    def __init__(self, contracts: KnownContracts, factory: ContractAddress | None) -> None:
        self._contracts: Final = contracts
        self._factory: Final = factory

    def names(self) -> tuple[str, ...]:
        """Return the installed domains."""
        return self._contracts.domain_names

    def domain(self, name: str) -> Domain | None:
        """Return a domain."""
        return Domain(name, self._factory_address()) if name in self.names() else None

    def domain_at(self, address: ContractAddress) -> Domain | None:
        """Return the domain of a contract; for the factory, which serves all of them, the first."""
        if address == self._factory:
            return self.domain(self.names()[0])
        return self.domain(self._contracts.domain_of(address))

    def contract(self, address: ContractAddress) -> SmartContract | None:
        """Return a private contract of this node."""
        hosted = self._contracts.hosted(address)
        if hosted is None:
            return None
        config = {**shown(hosted.configuration), "mode": hosted.contract.mode.value}
        return SmartContract(hosted.domain.name, Address(address), config, self._factory_address())

    def contracts(self, query: JsonValue) -> tuple[SmartContract, ...]:
        """Return the private contracts that a query matches."""
        every = (self.contract(address) for address in sorted(self._contracts.addresses()))
        return selected_at_once(query, [each for each in every if each is not None], ContractRow.of)

    def _factory_address(self) -> Address | None:
        return Address(self._factory) if self._factory is not None else None


# Rows, as queries name their fields.


@dataclass(frozen=True, slots=True)
class PeerRow(Record):
    """A peer."""

    name: str
    outbound_transport: str
    outbound_error: str

    @classmethod
    def of(cls, peer: PeerInfo) -> PeerRow:
        """Return the row of a peer."""
        return cls(peer.name, peer.outbound_transport, peer.outbound_error)


@dataclass(frozen=True, slots=True)
class EntryRow(Record):
    """A registered node."""

    id: bytes
    name: str
    active: bool

    @classmethod
    def of(cls, entry: RegistryEntryWithProperties) -> EntryRow:
        """Return the row of an entry."""
        return cls(entry.id.content, entry.name, entry.active)


@dataclass(frozen=True, slots=True)
class ContractRow(Record):
    """A private contract."""

    address: ContractAddress
    domain_name: str
    domain_address: ContractAddress

    @classmethod
    def of(cls, contract: SmartContract) -> ContractRow:
        """Return the row of a contract."""
        factory = contract.domain_address.contract if contract.domain_address is not None else NO_ADDRESS
        return cls(contract.address.contract, contract.domain_name, factory)


def _require_registry(name: str) -> None:
    if name != REGISTRY:
        raise errors.invalid("registryName", f"must be {REGISTRY}, not {name!r}")


def _entry_id(name: NodeName) -> bytes:
    """Return the hash of the name, as in the Registry's events."""
    return keccak(name.encode())


def _entry(name: NodeName, registration: Registration, on_chain: RegisteredNode | None) -> RegistryEntryWithProperties:
    """Return a node's registration, and its event where that is known."""
    owned = {OWNER_PROPERTY: str(on_chain.owner)} if on_chain is not None else {}
    event = on_chain.event if on_chain is not None else None
    return RegistryEntryWithProperties(
        REGISTRY,
        hex_of(_entry_id(name)),
        name,
        True,
        {TRANSPORT_PROPERTY: _details(registration), **owned},
        block_number=event.height if event is not None else None,
        transaction_index=event.place if event is not None else None,
        log_index=event.number if event is not None else None,
    )


def _details(registration: Registration) -> str:
    details = {"endpoint": registration.endpoint, "fingerprint": registration.fingerprint.hex()}
    if registration.next_fingerprint:
        details["nextFingerprint"] = registration.next_fingerprint.hex()
    return json.dumps(details)
