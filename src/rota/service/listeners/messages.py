"""Messages of groups in this node's own order, for listeners (`Source`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from rota.model.types import NodeName
from rota.ports import Groups, ListenerPosition, Mail, PartyNames, StoredMessage
from rota.service.groups.groups import message_view, messages_of
from rota.service.groups.interface import MessageDefinition, MessageView
from rota.service.groups.mail import GroupMail
from rota.service.listeners.listeners import Bell, Found

PAGE: Final = 200
MESSAGES_A_BATCH_MAX: Final = 50


class MessageSource:
    """The messages of one node."""

    kind: Final = "messages"

    def __init__(self, node: NodeName, messages: Mail, mail: GroupMail, groups: Groups) -> None:
        self._groups: Final = groups
        self._node: Final = node
        self._messages: Final = messages
        self.bell: Final = Bell()
        mail.on_message = self.bell.ring

    def encode(self, definition: MessageDefinition) -> bytes:
        """Encode a definition as JSON."""
        return msgspec.json.encode(definition)

    def decode(self, kept: bytes) -> MessageDefinition:
        """Decode a stored definition."""
        return msgspec.json.decode(kept, type=MessageDefinition)

    async def first_position(self, definition: MessageDefinition) -> ListenerPosition:
        """Return the position of the definition's first message; by default this node's first."""
        return ListenerPosition(definition.sequence_above or 0)

    async def read(self, definition: MessageDefinition, position: ListenerPosition) -> Found[MessageView]:
        """Read the next page of the order, as far as it passes the filters and fits in a batch."""
        page = await self._messages.messages_after(position.number, PAGE)
        own = await self._own(definition, page)
        wanted: list[MessageView] = []
        reached, number = position
        for each in page:
            if len(wanted) == MESSAGES_A_BATCH_MAX:
                break
            reached = each.sequence
            if self._passes(definition, each) and each.sequence in own:
                view = message_view(each)
                if definition.parties is not None:
                    # The node's own numbers would reveal the number of messages in other groups.
                    number += 1
                    view = replace(view, sequence=number)
                wanted.append(view)
        is_all = len(page) < PAGE and (not page or reached == page[-1].sequence)
        return Found(tuple(wanted), ListenerPosition(reached, number), is_all)

    async def _own(self, definition: MessageDefinition, page: tuple[StoredMessage, ...]) -> frozenset[int]:
        """Return the numbers of the messages that a listener may get: one held to parties, those of their groups."""
        if definition.parties is not None:
            page = await messages_of(self._groups, page, PartyNames(definition.parties, self._node))
        return frozenset(each.sequence for each in page)

    def _passes(self, definition: MessageDefinition, message: StoredMessage) -> bool:
        return (
            (not definition.domain or definition.domain == message.domain)
            and (not definition.group or definition.group == message.group)
            and (not definition.topic or definition.topic == message.topic)
            and not (definition.excludes_local and message.node == self._node)
        )
