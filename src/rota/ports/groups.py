"""Keys by name, privacy groups and their messages, states for users to look through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from rota.domains.pente.groups import DescribedGroup
from rota.domains.queries import Query
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, Party, State, StateId
from rota.ports.parties import PartyNames


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A place in the tree of key identifiers; without an address it is only a branch.

    `place` numbers what has the same parent, in the order in which it came.
    """

    path: str
    parent: str
    name: str
    place: int
    address: ContractAddress | None = None
    handle: str = ""
    has_children: bool = False


class KeyNames(Protocol):
    """Which keys users asked for, so that an address leads back to its identifier. All: `Unavailable` when away."""

    async def at(self, paths: Sequence[str]) -> tuple[StoredKey, ...]:
        """Those of these that are there, in the order asked for."""
        ...

    async def with_address(self, address: ContractAddress) -> StoredKey | None:
        """The key that has this address."""
        ...

    async def next_place(self, parent: str) -> int:
        """The number of the next one under this parent."""
        ...

    async def add(self, keys: Sequence[StoredKey]) -> None:
        """Remember these, durably; one that is there as a branch becomes a key as well."""
        ...

    async def find(self, query: Query) -> tuple[StoredKey, ...]:
        """Those that are looked for. `domains.records.Rejected` names what is wrong with the query."""
        ...


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A privacy group that this node knows; its contract is there when the node has it."""

    domain: str
    group: DescribedGroup
    created_at_ms: int
    deployment: IntentId
    contract: ContractAddress | None = None


class Groups(Protocol):
    """The privacy groups of this node. All: `Unavailable` when the store is away."""

    async def with_id(self, domain: str, group: bytes) -> StoredGroup | None:
        """The group of this id."""
        ...

    async def with_contract(self, contract: ContractAddress) -> StoredGroup | None:
        """The group whose contract this is."""
        ...

    async def find(
        self, query: Query, member: Party | None = None, among: PartyNames | None = None
    ) -> tuple[StoredGroup, ...]:
        """Those that are looked for, with this member, and with one that is `among` these parties.

        `Rejected` names what is wrong with the query.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What a member of a group told the others. `sequence` is this node's own order."""

    id: bytes
    sequence: int
    domain: str
    group: bytes
    node: NodeName
    sent_at_ms: int
    received_at_ms: int
    topic: str
    content: bytes
    correlation_id: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredMail:
    """What is sent to a peer until it says that it has it: `reference` is a message's id or a state's leaf."""

    id: bytes
    peer: NodeName
    kind: str
    contract: ContractAddress
    reference: bytes
    created_at_ms: int
    sequence: int = 0
    acknowledged_at_ms: int | None = None


class Mail(Protocol):
    """Messages of groups, and what is owed to peers beside what the core owes. All: `Unavailable` when away."""

    async def add(self, message: StoredMessage, mail: Sequence[StoredMail]) -> None:
        """Have this message, in the order of this node, and owe it to these; one that is there stays as it is."""
        ...

    async def owe(self, mail: StoredMail) -> None:
        """Owe a peer something that is no message."""
        ...

    async def acknowledge(self, peer: NodeName, reference: bytes, now_ms: int) -> None:
        """The peer has this."""
        ...

    async def open_for(self, peer: NodeName, limit: int) -> tuple[tuple[StoredMail, StoredMessage | None], ...]:
        """What a peer is owed, the oldest first, with the messages."""
        ...

    async def open_counts(self) -> Mapping[NodeName, int]:
        """Who is owed anything, and how much."""
        ...

    async def message(self, message: bytes) -> StoredMessage | None:
        """A message by its id."""
        ...

    async def messages(self, query: Query, among: PartyNames | None = None) -> tuple[StoredMessage, ...]:
        """Those that are looked for, of groups with a member that is `among` these parties.

        `Rejected` names what is wrong with the query.
        """
        ...

    async def messages_after(self, sequence: int, limit: int) -> tuple[StoredMessage, ...]:
        """The next ones in this node's order."""
        ...

    async def latest_sequence(self) -> int:
        """The number of the latest message; 0 when there is none."""
        ...

    async def sent(self, query: Query) -> tuple[StoredMail, ...]:
        """What is or was owed, also by the core. `Rejected` names what is wrong with the query."""
        ...


class StateStatus(Enum):
    """Which states are asked for; what is available is here the same as what is confirmed and unspent."""

    AVAILABLE = "available"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    SPENT = "spent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ArchivedState:
    """A private state that this node has, since when, and who made and spent it, as far as that is known.

    `nullifier` is what spends it in place of its id, if that is so and its owner is one of this node's.
    """

    state: State
    created_at_ms: int
    is_committed: bool
    made_by: IntentId | None
    is_spent: bool
    spent_by: IntentId | None
    nullifier: bytes | None = None


class ArchivePage(NamedTuple):
    """Some of them, and behind which the next ones are; nothing when there are no more."""

    states: tuple[ArchivedState, ...]
    next_after: StateId | None


class Archive(Protocol):
    """The private states that this node has, for users. All: `Unavailable` when the store is away."""

    async def page(
        self, contract: ContractAddress, status: StateStatus, after: StateId | None, limit: int
    ) -> ArchivePage:
        """The next states of a contract, in the order of their ids."""
        ...

    async def made_by(self, intent: IntentId) -> tuple[Leaf, ...]:
        """What is known as made by a transaction."""
        ...

    async def with_leaves(self, contract: ContractAddress, leaves: Sequence[Leaf]) -> tuple[ArchivedState, ...]:
        """All that these made and this node has."""
        ...

    async def by_hand(self, contract: ContractAddress) -> tuple[ArchivedState, ...]:
        """What users gave to this node."""
        ...

    async def store_by_hand(self, contract: ContractAddress, state: State, now_ms: int) -> None:
        """Have a state that no contract made; it is never on the chain, and no domain is shown it."""
        ...

    async def schemas_seen(self, schemas: Sequence[bytes], now_ms: int) -> Mapping[bytes, int]:
        """Since when each schema is known; those that were not are from now on."""
        ...
