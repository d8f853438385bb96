"""Durable listeners of receipts, events and messages, and the batches that they deliver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from rota.model.types import ContractAddress
from rota.rpc.values import JsonValue
from rota.service.groups.interface import MessageDefinition, MessageView
from rota.service.receipts.interface import AnyReceipt
from rota.service.submissions.interface import TransactionType

EVENTS_A_BATCH: Final = 50
BATCH_TIMEOUT_MS: Final = 500


Definition = TypeVar("Definition")
Item = TypeVar("Item")
Offered = TypeVar("Offered", contravariant=True)


@dataclass(frozen=True, slots=True)
class Batch(Generic[Item]):
    """The next items of a listener for one of its receivers, in order, after all acknowledged ones."""

    id: int
    items: tuple[Item, ...]


class Receiver(Protocol[Offered]):
    """Take a listener's batches, one at a time."""

    async def take(self, batch: Offered) -> bool:
        """Return whether the batch is acknowledged; if not, it is delivered again. `ReceiverLeft` when it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Listener(Generic[Definition]):
    """A durable subscription of an application, by name; it continues after the last acknowledged item."""

    name: str
    created_at_ms: int
    is_started: bool
    definition: Definition


class Listeners(Protocol[Definition, Item]):
    """The listeners of one kind. `Rejected` for an unknown name, and on creation for one that is taken."""

    async def create(self, name: str, definition: Definition, is_started: bool) -> None:
        """Create a listener; durable on return."""
        ...

    async def listener(self, name: str) -> Listener[Definition] | None:
        """Return the listener of this name."""
        ...

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[Definition], ...]:
        """Return those that a QueryJSON over name, created and started matches; by name unless it has another order."""
        ...

    def held_by(self, credential: str, parties: tuple[str, ...]) -> Listeners[Definition, Item]:
        """Return the listeners of a credential that is held to parties; they get only these parties' data."""
        ...

    def stored_name(self, name: str) -> str:
        """Return the name under which a listener is stored: a credential that is held to parties has its own names."""
        ...

    async def start(self, name: str) -> None:
        """Start delivering batches to its receivers."""
        ...

    async def stop(self, name: str) -> None:
        """Deliver no further batch; a delivered batch can still be acknowledged."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a listener with its undelivered items."""
        ...

    async def attach(self, name: str, receiver: Receiver[Batch[Item]]) -> Callable[[], None]:
        """Deliver its batches to this receiver, in turn with others. Call the returned function to detach it."""
        ...


class IncompleteReceipts(Enum):
    """How to treat receipts whose states are not all here. Here there are none: one is released when it is complete."""

    BLOCK_CONTRACT = "block_contract"
    PROCESS = "process"
    COMPLETE_ONLY = "complete_only"


@dataclass(frozen=True, slots=True)
class ReceiptDefinition:
    """Which receipts a listener gets: by first number, type and domain; with or without the domain's own receipt.

    With `parties` only those of transactions that one of these parties of this node sent, or that made a state which
    one of them may see; they are numbered for this listener alone.
    """

    sequence_above: int | None = None
    type: TransactionType | None = None
    domain: str | None = None
    has_domain_receipts: bool = False
    incomplete: IncompleteReceipts = IncompleteReceipts.BLOCK_CONTRACT
    parties: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventSource:
    """Events with these ABI entries, of one contract or of any."""

    abi: tuple[Mapping[str, Any], ...]
    address: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """Which events a listener gets, from which block on (None: after the latest final one), and how many per batch.

    A batch that is not full is delivered after `batch_timeout_ms`. Events are public: with `parties` a listener gets no
    fewer, but only callers that act for these parties may use it.
    """

    sources: tuple[EventSource, ...]
    from_block: int | None = 0
    batch_size: int = EVENTS_A_BATCH
    batch_timeout_ms: int = BATCH_TIMEOUT_MS
    parties: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """A decoded event of the base ledger. `signature` is its first topic, `solidity_signature` its readable form."""

    block_number: int
    transaction_index: int
    log_index: int
    transaction_hash: bytes
    signature: bytes
    solidity_signature: str
    address: ContractAddress
    data: JsonValue


@dataclass(frozen=True, slots=True)
class EventListenerStatus:
    """Whether the listener is behind the latest final block, and the block up to which all was acknowledged."""

    is_catching_up: bool
    block_number: int


class Listening(Protocol):
    """Following receipts and events."""

    @property
    def receipt_listeners(self) -> Listeners[ReceiptDefinition, AnyReceipt]:
        """The listeners that receive receipts."""
        ...

    @property
    def event_listeners(self) -> Listeners[EventDefinition, EventView]:
        """The listeners that receive events of the base ledger."""
        ...

    async def event_listener_status(self, name: str) -> EventListenerStatus | None:
        """Return the progress of an event listener, or None if there is none of this name."""
        ...


class MessageListening(Protocol):
    """Following the messages of groups."""

    @property
    def message_listeners(self) -> Listeners[MessageDefinition, MessageView]:
        """The listeners that receive messages."""
        ...
