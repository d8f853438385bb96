"""Keys by name, privacy groups and their messages, and states for users' queries."""

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
    """A place in the tree of key identifiers; one without an address is only a branch.

    `place` numbers the children of a parent in the order of their creation.
    """

    path: str
    parent: str
    name: str
    place: int
    address: ContractAddress | None = None
    handle: str = ""
    has_children: bool = False


class KeyNames(Protocol):
    """The keys that users have used, so that an address leads back to its identifier. `Unavailable` when away."""

    async def at(self, paths: Sequence[str]) -> tuple[StoredKey, ...]:
        """The existing ones of these paths, in the order of the request."""
        ...

    async def with_address(self, address: ContractAddress) -> StoredKey | None:
        """The key that has this address."""
        ...

    async def next_place(self, parent: str) -> int:
        """The number of the next one under this parent."""
        ...

    async def add(self, keys: Sequence[StoredKey]) -> None:
        """Store these, durable on return; an existing branch becomes a key as well."""
        ...

    async def find(self, query: Query) -> tuple[StoredKey, ...]:
        """The keys that match a query. `domains.records.Rejected` names the error in the query."""
        ...


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A privacy group; `contract` is set when the node has it."""

    domain: str
    group: DescribedGroup
    created_at_ms: int
    deployment: IntentId
    contract: ContractAddress | None = None


class Groups(Protocol):
    """The privacy groups of this node. All methods: `Unavailable` when the store is away."""

    async def with_id(self, domain: str, group: bytes) -> StoredGroup | None:
        """The group of this id."""
        ...

    async def with_contract(self, contract: ContractAddress) -> StoredGroup | None:
        """The group with this contract."""
        ...

    async def find(
        self, query: Query, member: Party | None = None, among: PartyNames | None = None
    ) -> tuple[StoredGroup, ...]:
        """The groups that match a query and have this member, and one that is `among` these parties.

        `Rejected` names the error in the query.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a member to a group. `sequence` is this node's own order."""

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
    """A delivery that is repeated until the peer acknowledges it: `reference` is a message's id or a state's leaf."""

    id: bytes
    peer: NodeName
    kind: str
    contract: ContractAddress
    reference: bytes
    created_at_ms: int
    sequence: int = 0
    acknowledged_at_ms: int | None = None


class Mail(Protocol):
    """Group messages, and deliveries to peers beside the core's. All methods: `Unavailable` when away."""

    async def add(self, message: StoredMessage, mail: Sequence[StoredMail]) -> None:
        """Store a message in the order of this node, with its deliveries; an existing one is not changed."""
        ...

    async def owe(self, mail: StoredMail) -> None:
        """Store a delivery that is no message."""
        ...

    async def acknowledge(self, peer: NodeName, reference: bytes, now_ms: int) -> None:
        """The peer has acknowledged this."""
        ...

    async def open_for(self, peer: NodeName, limit: int) -> tuple[tuple[StoredMail, StoredMessage | None], ...]:
        """Open deliveries for a peer, the oldest first, with the messages."""
        ...

    async def open_counts(self) -> Mapping[NodeName, int]:
        """Peers with open deliveries, and their number."""
        ...

    async def message(self, message: bytes) -> StoredMessage | None:
        """A message by its id."""
        ...

    async def messages(self, query: Query, among: PartyNames | None = None) -> tuple[StoredMessage, ...]:
        """The messages that match a query, of groups with a member that is `among` these parties.

        `Rejected` names the error in the query.
        """
        ...

    async def messages_after(self, sequence: int, limit: int) -> tuple[StoredMessage, ...]:
        """The next messages in this node's order."""
        ...

    async def latest_sequence(self) -> int:
        """The number of the latest message; 0 when there is none."""
        ...

    async def sent(self, query: Query) -> tuple[StoredMail, ...]:
        """Open and acknowledged deliveries, also of the core. `Rejected` names the error in the query."""
        ...


class StateStatus(Enum):
    """The states that a query asks for; here, available is the same as confirmed and unspent."""

    AVAILABLE = "available"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    SPENT = "spent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ArchivedState:
    """A private state that this node has, since when, and who made and spent it, as far as that is known.

    `nullifier` spends the state in place of its id, where a nullifier does and its owner is one of this node's.
    """

    state: State
    created_at_ms: int
    is_committed: bool
    made_by: IntentId | None
    is_spent: bool
    spent_by: IntentId | None
    nullifier: bytes | None = None


class ArchivePage(NamedTuple):
    """Some states, and the place after which the next ones come; `None` when there are no more."""

    states: tuple[ArchivedState, ...]
    next_after: StateId | None


class Archive(Protocol):
    """The private states that this node has, for users. All methods: `Unavailable` when the store is away."""

    async def page(
        self, contract: ContractAddress, status: StateStatus, after: StateId | None, limit: int
    ) -> ArchivePage:
        """The next states of a contract, in the order of their ids."""
        ...

    async def made_by(self, intent: IntentId) -> tuple[Leaf, ...]:
        """The leaves that a transaction is known to have made."""
        ...

    async def with_leaves(self, contract: ContractAddress, leaves: Sequence[Leaf]) -> tuple[ArchivedState, ...]:
        """All states of these leaves that this node has."""
        ...

    async def by_hand(self, contract: ContractAddress) -> tuple[ArchivedState, ...]:
        """The states that users stored at this node."""
        ...

    async def store_by_hand(self, contract: ContractAddress, state: State, now_ms: int) -> None:
        """Store a state that no contract made; it is never on the chain, and no domain gets it."""
        ...

    async def schemas_seen(self, schemas: Sequence[bytes], now_ms: int) -> Mapping[bytes, int]:
        """Since when each schema is known; new ones are known from now on."""
        ...
