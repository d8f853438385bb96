"""Those who follow receipts and events durably, and what they are given."""

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
    """What a listener has for one of its receivers: in order, and after all that was acknowledged."""

    id: int
    items: tuple[Item, ...]


class Receiver(Protocol[Offered]):
    """Takes a listener's batches, one at a time."""

    async def take(self, batch: Offered) -> bool:
        """Whether it is acknowledged; what is not is given again. `ReceiverLeft` when nobody is there any more."""
        ...


@dataclass(frozen=True, slots=True)
class Listener(Generic[Definition]):
    """What an application follows, durably: under its name, from where it last acknowledged."""

    name: str
    created_at_ms: int
    is_started: bool
    definition: Definition


class Listeners(Protocol[Definition, Item]):
    """The listeners of one kind. A name that is not known is `Rejected`, and so is one that is taken."""

    async def create(self, name: str, definition: Definition, is_started: bool) -> None:
        """Have it from now on; durable when this returns."""
        ...

    async def listener(self, name: str) -> Listener[Definition] | None:
        """The one of this name."""
        ...

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[Definition], ...]:
        """Those that a QueryJSON over name, created and started looks for; by name, unless it says otherwise."""
        ...

    def held_by(self, credential: str, parties: tuple[str, ...]) -> Listeners[Definition, Item]:
        """Those of a credential that is held to parties: only its own, which get only what these parties may see."""
        ...

    def stored_name(self, name: str) -> str:
        """The name under which one is stored: a credential that is held to parties has names of its own."""
        ...

    async def start(self, name: str) -> None:
        """Its receivers are given batches from now on."""
        ...

    async def stop(self, name: str) -> None:
        """No further batch is given; one that is out may still be acknowledged."""
        ...

    async def delete(self, name: str) -> None:
        """It is forgotten, with all that it had still to give."""
        ...

    async def attach(self, name: str, receiver: Receiver[Batch[Item]]) -> Callable[[], None]:
        """Give its batches to this receiver; several take turns. What is returned is called when it leaves."""
        ...


class IncompleteReceipts(Enum):
    """What becomes of receipts whose states are not all here. Here there are none: one is released when it is whole."""

    BLOCK_CONTRACT = "block_contract"
    PROCESS = "process"
    COMPLETE_ONLY = "complete_only"


@dataclass(frozen=True, slots=True)
class ReceiptDefinition:
    """Which receipts a listener gets: those after a number, of a type, of a domain; with the domain's own or not.

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
    """Which events a listener gets, from which block on (None: from where the chain stands now), and how many at once.

    A batch that is not full is given after `batch_timeout_ms`. Events are public: with `parties` a listener gets no
    fewer, and only who acts for these parties may use it.
    """

    sources: tuple[EventSource, ...]
    from_block: int | None = 0
    batch_size: int = EVENTS_A_BATCH
    batch_timeout_ms: int = BATCH_TIMEOUT_MS
    parties: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """An event of the base ledger, decoded. `signature` is its first topic, `solidity_signature` as people write it."""

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
    """Whether it still goes through the past, and the block up to which all was acknowledged."""

    is_catching_up: bool
    block_number: int


class Listening(Protocol):
    """Following what ends and what happens."""

    @property
    def receipt_listeners(self) -> Listeners[ReceiptDefinition, AnyReceipt]:
        """Those that get receipts."""
        ...

    @property
    def event_listeners(self) -> Listeners[EventDefinition, EventView]:
        """Those that get events of the base ledger."""
        ...

    async def event_listener_status(self, name: str) -> EventListenerStatus | None:
        """How far one of them is; nothing when there is none of this name."""
        ...


class MessageListening(Protocol):
    """Following what members of groups tell each other."""

    @property
    def message_listeners(self) -> Listeners[MessageDefinition, MessageView]:
        """Those that get messages."""
        ...
