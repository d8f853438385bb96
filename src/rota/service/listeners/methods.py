"""Listeners: durable, with their positions, and followed over a WebSocket.

An application subscribes to a listener by its name and receives batches, one at a time: the next is sent when the last
is acknowledged, and unacknowledged items are sent again. Several subscriptions of one listener take turns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import CALLER, Role
from rota.rpc.errors import invalid
from rota.rpc.formats import (
    NUMBER_MAX,
    Address,
    Choice,
    Quantity,
    Timestamp,
    TransactionKind,
    Word,
    encode,
    read,
    timestamp_of,
    word_of,
)
from rota.rpc.methods import method
from rota.rpc.subscriptions import Subscriber, Subscription
from rota.service.interface import (
    BATCH_TIMEOUT_MS,
    EVENTS_A_BATCH,
    AnyReceipt,
    Batch,
    Definition,
    EventDefinition,
    EventSource,
    EventView,
    IncompleteReceipts,
    Item,
    Listener,
    Listeners,
    Listening,
    ReceiptDefinition,
    ReceiptView,
    TransactionType,
)
from rota.service.receipts.formats import shown_full_receipt
from rota.service.submissions.formats import ABI_ENTRIES_MAX, shown_receipt

NAME_CHARACTERS_MAX: Final = 64
SOURCES_MAX: Final = 64
EVENTS_A_BATCH_MAX: Final = 1_000
BATCH_TIMEOUT_MAX_MS: Final = 60_000
LATEST: Final = "latest"
PUSH: Final = "ptx_subscription"
ENCODED_KEPT_MAX: Final = 4_096

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._*:-]{0,63}")
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}

Sequence = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Name = Annotated[str, Meta(description="The listener's name")]
Done = Annotated[bool, Meta(description="True: it is done")]
QueryInput = Annotated[dict[str, Any], Meta(description="QueryJSON over name, created and started")]


class IncompleteBehavior(Choice):
    """How to treat receipts whose states are not all here; here a receipt is released when it is complete."""

    __slots__ = ()
    right = "'block_contract', 'process' or 'complete_only'"
    options = tuple(each.value for each in IncompleteReceipts)


class ReceiptFilters(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which receipts to deliver: those after a sequence number, of a type, of a domain."""

    sequence_above: Sequence | None = None
    type: TransactionKind | None = None
    domain: str | None = None


class ReceiptOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether each receipt comes with its domain's own receipt."""

    domain_receipts: bool = False
    incomplete_state_receipt_behavior: IncompleteBehavior | None = None


class ReceiptListenerInput(msgspec.Struct, frozen=True, rename="camel"):
    """A listener to create. It is started by default."""

    name: str
    started: bool | None = None
    filters: ReceiptFilters | None = None
    options: ReceiptOptions | None = None


class ReceiptListener(msgspec.Struct, frozen=True, rename="camel"):
    """Return a receipt listener."""

    name: str
    created: Timestamp
    started: bool
    filters: ReceiptFilters
    options: ReceiptOptions


class EventSourceShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events with these ABI entries, of one contract or of any."""

    abi: Annotated[list[dict[str, Any]], Meta(max_length=ABI_ENTRIES_MAX)]
    address: Address | None = None


class EventOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The maximum batch size, how long to wait for a full batch, and the first block: a number, or `latest`."""

    batch_size: int | None = None
    batch_timeout: str | None = None
    from_block: Any = None


class EventListenerInput(msgspec.Struct, frozen=True):
    """A listener to create. It is started by default."""

    name: str
    sources: Annotated[list[EventSourceShape], Meta(min_length=1, max_length=SOURCES_MAX)]
    started: bool | None = None
    options: EventOptions | None = None


class EventListener(msgspec.Struct, frozen=True):
    """Return a blockchain event listener."""

    name: str
    created: Timestamp
    started: bool
    sources: list[EventSourceShape]
    options: EventOptions


class EventCheckpoint(msgspec.Struct, frozen=True, rename="camel"):
    """The block up to which everything was acknowledged; -1 before the first."""

    block_number: int


class EventListenerState(msgspec.Struct, frozen=True):
    """The progress of a listener; `catchup` while it is behind the latest final block."""

    catchup: bool
    checkpoint: EventCheckpoint


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """An event with its arguments."""

    block_number: int
    transaction_index: int
    log_index: int
    transaction_hash: Word
    signature: Word
    solidity_signature: str
    address: Address
    data: Any


class ReceiptBatch(msgspec.Struct, frozen=True, rename="camel"):
    """A pushed batch: receipts in the order of their sequence numbers."""

    batch_id: int
    receipts: list[msgspec.Raw]


class EventBatch(msgspec.Struct, frozen=True, rename="camel"):
    """A pushed batch: events in the order of the chain."""

    batch_id: int
    events: list[Event]


# Receipts.


@method("ptx_createReceiptListener", role=Role.SUBMIT, answers="success")
async def create_receipt_listener(
    node: Listening, listener: Annotated[ReceiptListenerInput, Meta(description="What it is to listen to")]
) -> Done:
    """Create a receipt listener. It delivers every receipt eventually, also those from times without a subscription."""
    filters, options = listener.filters or ReceiptFilters(), listener.options or ReceiptOptions()
    behavior = options.incomplete_state_receipt_behavior
    definition = ReceiptDefinition(
        filters.sequence_above,
        TransactionType(filters.type) if filters.type is not None else None,
        filters.domain or None,
        options.domain_receipts,
        IncompleteReceipts(behavior) if behavior is not None else IncompleteReceipts.BLOCK_CONTRACT,
    )
    await own(node.receipt_listeners).create(checked_name(listener.name), definition, listener.started is not False)
    return True


@method("ptx_getReceiptListener", role=Role.READ, answers="listener")
async def get_receipt_listener(
    node: Listening, listener_name: Name
) -> Annotated[ReceiptListener | None, Meta(description="The listener; null when there is none of this name")]:
    """Return a receipt listener."""
    found = await own(node.receipt_listeners).listener(listener_name)
    return _shown_receipt_listener(found) if found is not None else None


@method("ptx_queryReceiptListeners", role=Role.READ, answers="listeners")
async def query_receipt_listeners(
    node: Listening, query: QueryInput
) -> Annotated[list[ReceiptListener], Meta(description="Those that are looked for")]:
    """Query receipt listeners."""
    return [_shown_receipt_listener(each) for each in await own(node.receipt_listeners).find(query)]


@method("ptx_startReceiptListener", role=Role.SUBMIT, answers="success")
async def start_receipt_listener(node: Listening, listener_name: Name) -> Done:
    """Start a listener at its last acknowledged position."""
    await own(node.receipt_listeners).start(listener_name)
    return True


@method("ptx_stopReceiptListener", role=Role.SUBMIT, answers="success")
async def stop_receipt_listener(node: Listening, listener_name: Name) -> Done:
    """Stop a listener. It pushes no further batch until it is started; a pushed batch can still be acknowledged."""
    await own(node.receipt_listeners).stop(listener_name)
    return True


@method("ptx_deleteReceiptListener", role=Role.SUBMIT, answers="success")
async def delete_receipt_listener(node: Listening, listener_name: Name) -> Done:
    """Delete a listener. An error if there is none with this name."""
    await own(node.receipt_listeners).delete(listener_name)
    return True


# Blockchain events.


@method("ptx_createBlockchainEventListener", role=Role.SUBMIT, answers="success")
async def create_event_listener(
    node: Listening, listener: Annotated[EventListenerInput, Meta(description="What it is to listen to")]
) -> Done:
    """Create a blockchain event listener. It delivers every event once it is confirmed, in the order of the chain."""
    options = listener.options or EventOptions()
    size = options.batch_size if options.batch_size is not None else EVENTS_A_BATCH
    if not 1 <= size <= EVENTS_A_BATCH_MAX:
        raise invalid("listener.options.batchSize", f"must be from 1 to {EVENTS_A_BATCH_MAX}, not {size}")
    definition = EventDefinition(
        tuple(
            EventSource(_events_of(source, place), source.address.contract if source.address is not None else None)
            for place, source in enumerate(listener.sources)
        ),
        _from_block(options.from_block),
        size,
        _duration_ms(options.batch_timeout),
    )
    await own(node.event_listeners).create(checked_name(listener.name), definition, listener.started is not False)
    return True


@method("ptx_getBlockchainEventListener", role=Role.READ, answers="listener")
async def get_event_listener(
    node: Listening, listener_name: Name
) -> Annotated[EventListener | None, Meta(description="The listener; null when there is none of this name")]:
    """Return a blockchain event listener."""
    found = await own(node.event_listeners).listener(listener_name)
    return _shown_event_listener(found) if found is not None else None


@method("ptx_queryBlockchainEventListeners", role=Role.READ, answers="listeners")
async def query_event_listeners(
    node: Listening, query: QueryInput
) -> Annotated[list[EventListener], Meta(description="Those that are looked for")]:
    """Query blockchain event listeners."""
    return [_shown_event_listener(each) for each in await own(node.event_listeners).find(query)]


@method("ptx_startBlockchainEventListener", role=Role.SUBMIT, answers="success")
async def start_event_listener(node: Listening, listener_name: Name) -> Done:
    """Start a listener at its last acknowledged position."""
    await own(node.event_listeners).start(listener_name)
    return True


@method("ptx_stopBlockchainEventListener", role=Role.SUBMIT, answers="success")
async def stop_event_listener(node: Listening, listener_name: Name) -> Done:
    """Stop a listener. It pushes no further batch until it is started; a pushed batch can still be acknowledged."""
    await own(node.event_listeners).stop(listener_name)
    return True


@method("ptx_deleteBlockchainEventListener", role=Role.SUBMIT, answers="success")
async def delete_event_listener(node: Listening, listener_name: Name) -> Done:
    """Delete a listener. An error if there is none with this name."""
    await own(node.event_listeners).delete(listener_name)
    return True


@method("ptx_getBlockchainEventListenerStatus", role=Role.READ, answers="listenerStatus")
async def event_listener_status(
    node: Listening, listener_name: Name
) -> Annotated[EventListenerState | None, Meta(description="How far it is; null when there is none of this name")]:
    """Return the position of a blockchain event listener."""
    listeners = own(node.event_listeners)
    if await listeners.listener(listener_name) is None:
        return None
    found = await node.event_listener_status(listeners.stored_name(listener_name))
    if found is None:
        return None
    return EventListenerState(found.is_catching_up, EventCheckpoint(found.block_number))


# Subscriptions.


class Feed(Choice):
    """The kinds of listeners that can be subscribed to."""

    __slots__ = ()
    right = "'receipts' or 'blockchainevents'"
    options = ("receipts", "blockchainevents")


SubscriptionId = Annotated[str, Meta(description="The id that ptx_subscribe answered on this connection")]


@method("ptx_subscribe", role=Role.READ, answers="subscription")
async def subscribe(
    node: Listening,
    subscriber: Subscriber,
    feed: Annotated[Feed, Meta(description="The kind of listener")],
    listener_name: Name,
) -> Annotated[str, Meta(description="The subscription's id: pushes come as ptx_subscription with it")]:
    """Subscribe to the batches of a listener over this WebSocket. Acknowledge each one with `ptx_ack`."""
    if feed == "receipts":
        return await subscriber.follow(
            PUSH, lambda it: own(node.receipt_listeners).attach(listener_name, _ReceiptsOver(it))
        )
    return await subscriber.follow(PUSH, lambda it: own(node.event_listeners).attach(listener_name, _EventsOver(it)))


@method("ptx_ack", role=Role.READ, answers="nothing", is_silent=True)
async def acknowledge(
    node: Listening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Annotated[None, Meta(description="It has no answer, unless it fails")]:
    """Acknowledge the last batch. The node then pushes the next one."""
    subscriber.find(subscription, PUSH).answer(is_taken=True)


@method("ptx_nack", role=Role.READ, answers="nothing", is_silent=True)
async def refuse(
    node: Listening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Annotated[None, Meta(description="It has no answer, unless it fails")]:
    """Reject the last batch. The node pushes it again after a pause."""
    subscriber.find(subscription, PUSH).answer(is_taken=False)


@method("ptx_unsubscribe", role=Role.READ, answers="success")
async def unsubscribe(
    node: Listening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Done:
    """Cancel a subscription. Unacknowledged batches go to the listener's next subscription."""
    subscriber.close(subscriber.find(subscription, PUSH))
    return True


@dataclass(frozen=True, slots=True)
class _ReceiptsOver:
    subscription: Subscription

    async def take(self, batch: Batch[AnyReceipt]) -> bool:
        receipts = [
            _encoded_receipt(each) if isinstance(each, ReceiptView) else msgspec.Raw(encode(shown_full_receipt(each)))
            for each in batch.items
        ]
        return await self.subscription.offer(ReceiptBatch(batch.id, receipts))


@dataclass(frozen=True, slots=True)
class _EventsOver:
    subscription: Subscription

    async def take(self, batch: Batch[EventView]) -> bool:
        return await self.subscription.offer(EventBatch(batch.id, [_shown_event(each) for each in batch.items]))


@lru_cache(maxsize=ENCODED_KEPT_MAX)
def _encoded_receipt(view: ReceiptView) -> msgspec.Raw:
    """Encode a receipt as JSON, once for all subscriptions: a hundred of them get the same receipts."""
    return msgspec.Raw(encode(shown_receipt(view)))


def _shown_event(view: EventView) -> Event:
    return Event(
        view.block_number,
        view.transaction_index,
        view.log_index,
        word_of(view.transaction_hash),
        word_of(view.signature),
        view.solidity_signature,
        Address(view.address),
        view.data,
    )


def own(listeners: Listeners[Definition, Item]) -> Listeners[Definition, Item]:
    """Return the listeners that the caller may use: one that is held to parties has its own."""
    caller = CALLER.get()
    return listeners if caller.parties is None else listeners.held_by(caller.name, caller.parties)


# Parsing.


def checked_name(given: str) -> str:
    """Return the name for a new listener. `Rejected` states the allowed form."""
    if _NAME.fullmatch(given) is None:
        raise invalid(
            "listener.name",
            f"must be 1 to {NAME_CHARACTERS_MAX} letters, digits and . _ - * : and begin with a letter or digit",
        )
    return given


def _events_of(source: EventSourceShape, place: int) -> tuple[dict[str, Any], ...]:
    """Return the events of an ABI; its other entries are ignored."""
    events = tuple(entry for entry in source.abi if entry.get("type") == "event")
    if not events:
        raise invalid(f"listener.sources[{place}].abi", "must hold at least one entry of type event")
    return events


def _from_block(given: object) -> int | None:
    if given is None:
        return 0
    if given == LATEST:
        return None
    try:
        return read(Quantity, given).number
    except ValueError:
        raise invalid("listener.options.fromBlock", "must be a block number, or 'latest'") from None


def _duration_ms(given: str | None) -> int:
    if not given:
        return BATCH_TIMEOUT_MS
    found = _DURATION.fullmatch(given)
    duration_ms = int(float(found[1]) * _UNIT_MS[found[2]]) if found is not None else -1
    if not 0 <= duration_ms <= BATCH_TIMEOUT_MAX_MS:
        right = f"must be a time such as 500ms or 2s, at most {BATCH_TIMEOUT_MAX_MS // 1_000}s"
        raise invalid("listener.options.batchTimeout", right)
    return duration_ms


def _shown_receipt_listener(found: Listener[ReceiptDefinition]) -> ReceiptListener:
    wanted = found.definition
    return ReceiptListener(
        found.name,
        timestamp_of(found.created_at_ms),
        found.is_started,
        ReceiptFilters(
            wanted.sequence_above,
            TransactionKind(wanted.type.value) if wanted.type is not None else None,
            wanted.domain,
        ),
        ReceiptOptions(wanted.has_domain_receipts, IncompleteBehavior(wanted.incomplete.value)),
    )


def _shown_event_listener(found: Listener[EventDefinition]) -> EventListener:
    wanted = found.definition
    return EventListener(
        found.name,
        timestamp_of(found.created_at_ms),
        found.is_started,
        [
            EventSourceShape(
                [dict(entry) for entry in source.abi], Address(source.address) if source.address is not None else None
            )
            for source in wanted.sources
        ],
        EventOptions(
            wanted.batch_size,
            f"{wanted.batch_timeout_ms}ms",
            wanted.from_block if wanted.from_block is not None else LATEST,
        ),
    )


METHODS: Final = (
    create_receipt_listener,
    get_receipt_listener,
    query_receipt_listeners,
    start_receipt_listener,
    stop_receipt_listener,
    delete_receipt_listener,
    create_event_listener,
    get_event_listener,
    query_event_listeners,
    start_event_listener,
    stop_event_listener,
    delete_event_listener,
    event_listener_status,
    subscribe,
    acknowledge,
    refuse,
    unsubscribe,
)
