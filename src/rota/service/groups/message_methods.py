"""Listeners of group messages: durable, with their positions, and followed over a WebSocket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Choice, HexText, Timestamp, hex_of, timestamp_of
from rota.rpc.methods import method
from rota.rpc.subscriptions import Subscriber, Subscription
from rota.service.groups.interface import MessageDefinition, MessageView
from rota.service.groups.methods import PrivacyGroupMessage, shown_message
from rota.service.interface import Batch, Listener, MessageListening
from rota.service.listeners.methods import Done, Name, QueryInput, Sequence, checked_name, own
from rota.service.submissions.formats import Text

PUSH: Final = "pgroup_subscription"


class MessageFilters(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which messages to deliver: those after a sequence number, of a domain, a group, a topic."""

    sequence_above: Sequence | None = None
    domain: Text | None = None
    group: HexText | None = None
    topic: Text | None = None


class MessageOptions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether to leave out messages that were sent by this node."""

    exclude_local: bool = False


class MessageListenerInput(msgspec.Struct, frozen=True):
    """A listener to create. It is started by default."""

    name: str
    started: bool | None = None
    filters: MessageFilters | None = None
    options: MessageOptions | None = None


class PrivacyGroupMessageListener(msgspec.Struct, frozen=True):
    """A listener of group messages."""

    name: str
    created: Timestamp
    started: bool
    filters: MessageFilters
    options: MessageOptions


class MessageBatch(msgspec.Struct, frozen=True, rename="camel"):
    """A pushed batch: messages in this node's order."""

    batch_id: int
    messages: list[PrivacyGroupMessage]


@method("pgroup_createMessageListener", role=Role.SUBMIT, answers="success")
async def create_message_listener(
    node: MessageListening, listener: Annotated[MessageListenerInput, Meta(description="What it is to listen to")]
) -> Done:
    """Create a message listener. It delivers every message eventually, also those from times without a subscription."""
    filters, options = listener.filters or MessageFilters(), listener.options or MessageOptions()
    definition = MessageDefinition(
        filters.sequence_above,
        filters.domain or "",
        filters.group.content if filters.group is not None else b"",
        filters.topic or "",
        options.exclude_local,
    )
    await own(node.message_listeners).create(checked_name(listener.name), definition, listener.started is not False)
    return True


@method("pgroup_getMessageListener", role=Role.READ, answers="listener")
async def get_message_listener(
    node: MessageListening, listener_name: Name
) -> Annotated[PrivacyGroupMessageListener | None, Meta(description="The listener; null when there is none")]:
    """Return a message listener."""
    found = await own(node.message_listeners).listener(listener_name)
    return _shown(found) if found is not None else None


@method("pgroup_queryMessageListeners", role=Role.READ, answers="listeners")
async def query_message_listeners(
    node: MessageListening, query: QueryInput
) -> Annotated[list[PrivacyGroupMessageListener], Meta(description="Those that are looked for")]:
    """Query message listeners."""
    return [_shown(each) for each in await own(node.message_listeners).find(query)]


@method("pgroup_startMessageListener", role=Role.SUBMIT, answers="success")
async def start_message_listener(node: MessageListening, listener_name: Name) -> Done:
    """Start a listener at its last acknowledged position."""
    await own(node.message_listeners).start(listener_name)
    return True


@method("pgroup_stopMessageListener", role=Role.SUBMIT, answers="success")
async def stop_message_listener(node: MessageListening, listener_name: Name) -> Done:
    """Stop a listener. It pushes no further batch until it is started; a pushed batch can still be acknowledged."""
    await own(node.message_listeners).stop(listener_name)
    return True


@method("pgroup_deleteMessageListener", role=Role.SUBMIT, answers="success")
async def delete_message_listener(node: MessageListening, listener_name: Name) -> Done:
    """Delete a listener. An error if there is none with this name."""
    await own(node.message_listeners).delete(listener_name)
    return True


# Subscriptions.


class MessageFeed(Choice):
    """The kinds of listeners that can be subscribed to."""

    __slots__ = ()
    right = "'messages'"
    options = ("messages",)


SubscriptionId = Annotated[str, Meta(description="The id that pgroup_subscribe answered on this connection")]


@method("pgroup_subscribe", role=Role.READ, answers="subscription")
async def subscribe(
    node: MessageListening,
    subscriber: Subscriber,
    feed: Annotated[MessageFeed, Meta(description="The kind of listener")],  # noqa: ARG001  # there is one kind
    listener_name: Name,
) -> Annotated[str, Meta(description="The subscription's id: pushes come as pgroup_subscription with it")]:
    """Subscribe to the batches of a listener over this WebSocket. Acknowledge each one with `pgroup_ack`."""
    return await subscriber.follow(
        PUSH, lambda it: own(node.message_listeners).attach(listener_name, _MessagesOver(it))
    )


@method("pgroup_ack", role=Role.READ, answers="nothing", is_silent=True)
async def acknowledge(
    node: MessageListening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Annotated[None, Meta(description="It has no answer, unless it fails")]:
    """Acknowledge the last batch. The node then pushes the next one."""
    subscriber.find(subscription, PUSH).answer(is_taken=True)


@method("pgroup_nack", role=Role.READ, answers="nothing", is_silent=True)
async def refuse(
    node: MessageListening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Annotated[None, Meta(description="It has no answer, unless it fails")]:
    """Reject the last batch. The node pushes it again after a pause."""
    subscriber.find(subscription, PUSH).answer(is_taken=False)


@method("pgroup_unsubscribe", role=Role.READ, answers="success")
async def unsubscribe(
    node: MessageListening,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: SubscriptionId,
) -> Done:
    """Cancel a subscription. Unacknowledged batches go to the listener's next subscription."""
    subscriber.close(subscriber.find(subscription, PUSH))
    return True


@dataclass(frozen=True, slots=True)
class _MessagesOver:
    subscription: Subscription

    async def take(self, batch: Batch[MessageView]) -> bool:
        return await self.subscription.offer(MessageBatch(batch.id, [shown_message(each) for each in batch.items]))


def _shown(listener: Listener[MessageDefinition]) -> PrivacyGroupMessageListener:
    definition = listener.definition
    filters = MessageFilters(
        definition.sequence_above,
        definition.domain or None,
        hex_of(definition.group) if definition.group else None,
        definition.topic or None,
    )
    options = MessageOptions(definition.excludes_local)
    return PrivacyGroupMessageListener(
        listener.name, timestamp_of(listener.created_at_ms), listener.is_started, filters, options
    )


METHODS: Final = (
    create_message_listener,
    get_message_listener,
    query_message_listeners,
    start_message_listener,
    stop_message_listener,
    delete_message_listener,
    subscribe,
    acknowledge,
    refuse,
    unsubscribe,
)
