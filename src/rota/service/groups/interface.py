"""Privacy groups, as methods see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rota.model.types import NOTHING_CHOSEN, Contract, ContractAddress, IntentId, NodeName, Party, SequencingChoice
from rota.rpc.values import AbiEntry, JsonValue


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A privacy group that is to be. Members without a node are of this one."""

    domain: str
    members: tuple[str, ...]
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, JsonValue] = field(default_factory=dict)
    idempotency_key: str = ""
    sequencing: SequencingChoice = NOTHING_CHOSEN


@dataclass(frozen=True, slots=True)
class GroupView:
    """A privacy group. Its contract is there when it is deployed, and `deployment` is the transaction that does it.

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
    """A private contract in a group is to be called, or without `to` deployed. Only types have been looked at.

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
    """What a group's members are to be told. `correlation_id` names a message that it is about."""

    domain: str
    group: bytes
    topic: str
    data: JsonValue
    correlation_id: bytes = b""


@dataclass(frozen=True, slots=True)
class MessageView:
    """What somebody told a group. `sequence` is this node's own order; `node` is where it was said."""

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
    """Which messages a listener gets: those after a number, of a domain, a group, a topic; what is empty is any.

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
    """Privacy groups, the private contracts in them, and what their members tell each other."""

    async def create(self, wanted: NewGroup) -> GroupView:
        """A new group: its id is given when it is durable that it will be deployed."""
        ...

    async def with_id(self, domain: str, group: bytes) -> GroupView | None:
        """The group of this id."""
        ...

    async def with_address(self, contract: ContractAddress) -> GroupView | None:
        """The group whose contract this is."""
        ...

    async def query(
        self, query: JsonValue, member: str = "", parties: tuple[str, ...] | None = None
    ) -> tuple[GroupView, ...]:
        """The groups that a QueryJSON looks for, with this member if one is named.

        With `parties` only groups of which one of these parties of this node is a member.
        """
        ...

    async def send(self, call: GroupCall) -> IntentId:
        """A transaction in a group; the id is given when it is durable."""
        ...

    async def call(self, call: GroupCall) -> JsonValue:
        """What a private contract answers now, without a transaction."""
        ...

    async def send_message(self, message: NewMessage) -> bytes:
        """Tell all nodes of a group's members; the id is given when it is durable here, and so that all will get it."""
        ...

    async def message(self, message: bytes) -> MessageView | None:
        """A message by its id."""
        ...

    async def messages(self, query: JsonValue, parties: tuple[str, ...] | None = None) -> tuple[MessageView, ...]:
        """The messages that a QueryJSON looks for, with `parties` only those of their groups."""
        ...


class HasGroups(Protocol):
    """A node that has privacy groups."""

    @property
    def groups(self) -> Groups:
        """Its groups."""
        ...
