"""Privacy groups, as methods see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rota.model.types import NOTHING_CHOSEN, Contract, ContractAddress, IntentId, NodeName, Party, SequencingChoice
from rota.rpc.values import AbiEntry, JsonValue


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A privacy group to create. Members without a node name are of this node."""

    domain: str
    members: tuple[str, ...]
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, JsonValue] = field(default_factory=dict)
    idempotency_key: str = ""
    sequencing: SequencingChoice = NOTHING_CHOSEN


@dataclass(frozen=True, slots=True)
class GroupView:
    """A privacy group. Its contract is set once deployed; `deployment` is the transaction that deploys it.

    `terms` has the terms of sequencing.
    """

    id: bytes
    domain: str
    created_at_ms: int
    name: str
    members: tuple[Party, ...]
    properties: Mapping[str, str]
    configuration: Mapping[str, str]
    schema: bytes
    deployment: IntentId
    contract: ContractAddress | None = None
    terms: Contract | None = None


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A call of a private contract in a group, or without `to` a deployment. Only types have been checked.

    `function` is an entry of an ABI, or the name or signature of one in `abi`; without it `input` is call data as hex.
    """

    domain: str
    group: bytes
    sender: str
    to: ContractAddress | None = None
    function: AbiEntry | str | None = None
    input: JsonValue = None
    abi: tuple[AbiEntry, ...] = ()
    bytecode: bytes = b""
    gas: int = 0
    value: int = 0
    idempotency_key: str = ""
    data_format: str = ""
    external_call_gas: int = 0


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message for a group's members. `correlation_id` names a message that it refers to."""

    domain: str
    group: bytes
    topic: str
    data: JsonValue
    correlation_id: bytes = b""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message of a group. `sequence` is this node's own order; `node` is the node of its author."""

    id: bytes
    sequence: int
    sent_at_ms: int
    received_at_ms: int
    node: NodeName
    domain: str
    group: bytes
    topic: str
    data: JsonValue
    correlation_id: bytes = b""


@dataclass(frozen=True, slots=True)
class MessageDefinition:
    """Which messages a listener gets: those after a number, of a domain, a group, a topic; empty fields match any.

    With `parties` only those of groups of which one of these parties of this node is a member, numbered for this
    listener alone.
    """

    sequence_above: int | None = None
    domain: str = ""
    group: bytes = b""
    topic: str = ""
    excludes_local: bool = False
    parties: tuple[str, ...] | None = None


class Groups(Protocol):
    """Privacy groups, the private contracts in them, and the messages of their members."""

    async def create(self, wanted: NewGroup) -> GroupView:
        """Create a group; returns once it is durable that it will be deployed."""
        ...

    async def with_id(self, domain: str, group: bytes) -> GroupView | None:
        """Return the group with this id."""
        ...

    async def with_address(self, contract: ContractAddress) -> GroupView | None:
        """Return the group whose contract this is."""
        ...

    async def query(
        self, query: JsonValue, member: str = "", parties: tuple[str, ...] | None = None
    ) -> tuple[GroupView, ...]:
        """Return the groups that a QueryJSON matches, with this member if one is named.

        With `parties` only groups of which one of these parties of this node is a member.
        """
        ...

    async def send(self, call: GroupCall) -> IntentId:
        """Submit a transaction in a group; returns its id once it is durable."""
        ...

    async def call(self, call: GroupCall) -> JsonValue:
        """Call a private contract without a transaction and return its present answer."""
        ...

    async def send_message(self, message: NewMessage) -> bytes:
        """Send a message to all nodes of a group's members; returns its id once it is durable, with its deliveries."""
        ...

    async def message(self, message: bytes) -> MessageView | None:
        """Return a message by its id."""
        ...

    async def messages(self, query: JsonValue, parties: tuple[str, ...] | None = None) -> tuple[MessageView, ...]:
        """Return the messages that a QueryJSON matches, with `parties` only those of their groups."""
        ...


class HasGroups(Protocol):
    """A node that has privacy groups."""

    @property
    def groups(self) -> Groups:
        """Its groups."""
        ...
