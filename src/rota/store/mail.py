"""Messages of groups, and mail that is sent to a peer until it acknowledges it (`ports.Mail`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.domains.queries import Query
from rota.model.types import NO_CONTRACT, ContractAddress, NodeName
from rota.ports import PartyNames, StoredMail, StoredMessage
from rota.store.database import Read, Reading, Statement, Write
from rota.store.groups import group_of_one_of
from rota.store.queries import Column, Kind, Table, selection, stored_text

STATE: Final = "state"
GROUP_MESSAGE: Final = "privacy_group_message"
ID_BYTES: Final = 16


class Mail:
    """`ports.Mail` on a database."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read: Final = read
        self._write: Final = write

    async def add(self, message: StoredMessage, mail: Sequence[StoredMail]) -> None:
        """Store both in one write; the message gets the next number, unless it is there already."""
        values = (
            message.id,
            stored_text(message.domain),
            message.group,
            message.node,
            message.sent_at_ms,
            message.received_at_ms,
            message.correlation_id or None,
            stored_text(message.topic),
            message.content,
        )
        await self._write(Statement(_ADD_MESSAGE, values), *(_owed(each) for each in mail))

    async def owe(self, mail: StoredMail) -> None:
        """Store mail that is not a message."""
        await self._write(_owed(mail))

    async def acknowledge(self, peer: NodeName, reference: bytes, now_ms: int) -> None:
        """Note that the peer has received this; a repeated acknowledgement changes nothing."""
        await self._write(Statement(_ACKNOWLEDGE, (now_ms, reference, peer)))

    async def open_for(self, peer: NodeName, limit: int) -> tuple[tuple[StoredMail, StoredMessage | None], ...]:
        """The mail that a peer has not acknowledged, the oldest first, with its message if it has one."""
        return await self._read(_open_for(peer, limit))

    async def open_counts(self) -> Mapping[NodeName, int]:
        """The number of unacknowledged mails of each peer that has any."""
        return await self._read(_open_counts())

    async def message(self, message: bytes) -> StoredMessage | None:
        """The message with this id; None if there is none."""
        found = await self._read(
            _messages(
                Statement(f"SELECT {_MESSAGE} FROM group_messages WHERE id = ? ORDER BY sequence LIMIT 1", (message,))
            )
        )
        return found[0] if found else None

    async def messages(self, query: Query, among: PartyNames | None = None) -> tuple[StoredMessage, ...]:
        """The messages that match, in this node's order unless the query has another one; with `among`, only those of
        groups of which one of these parties is a member.
        """
        if among is None:
            return await self._read(_messages(selection(_MESSAGES, _MESSAGE, query)))
        own = group_of_one_of(among, "group_messages.domain", "group_messages.group_id")
        found = selection(_MESSAGES, _MESSAGE, query, also=own.sql)
        return await self._read(_messages(Statement(found.sql, (*own.parameters, *found.parameters))))

    async def messages_after(self, sequence: int, limit: int) -> tuple[StoredMessage, ...]:
        """The next messages in this node's order."""
        sql = f"SELECT {_MESSAGE} FROM group_messages WHERE sequence > ? ORDER BY sequence LIMIT ?"
        return await self._read(_messages(Statement(sql, (sequence, limit))))

    async def latest_sequence(self) -> int:
        """The number of the latest message."""
        return await self._read(_latest_sequence())

    async def sent(self, query: Query) -> tuple[StoredMail, ...]:
        """Mail that is or was sent, the oldest first unless the query has another order."""
        return await self._read(_sent(selection(_SENT, _MAIL, query)))


def _owed(mail: StoredMail) -> Statement:
    values = (mail.id, mail.peer, mail.kind, mail.contract, mail.reference, mail.created_at_ms)
    return Statement(_OWE, values)


def _open_for(peer: NodeName, limit: int) -> Reading[tuple[tuple[StoredMail, StoredMessage | None], ...]]:
    sql = f"SELECT {_MAIL} FROM mail WHERE peer = ? AND acknowledged_at_ms IS NULL ORDER BY sequence LIMIT ?"
    rows: Any = yield Statement(sql, (peer, limit))
    owed = [_mail(row) for row in rows]
    found: list[tuple[StoredMail, StoredMessage | None]] = []
    for mail in owed:
        sql = f"SELECT {_MESSAGE} FROM group_messages WHERE id = ? ORDER BY sequence LIMIT 1"
        rows = (yield Statement(sql, (mail.reference,))) if mail.kind == GROUP_MESSAGE else []
        found.append((mail, _message(rows[0]) if rows else None))
    return tuple(found)


def _open_counts() -> Reading[dict[NodeName, int]]:
    rows: Any = yield Statement("SELECT peer, COUNT(*) FROM mail WHERE acknowledged_at_ms IS NULL GROUP BY peer")
    return {NodeName(peer): int(count) for peer, count in rows}


def _latest_sequence() -> Reading[int]:
    rows: Any = yield Statement("SELECT MAX(sequence) FROM group_messages")
    return int(rows[0][0] or 0)


def _messages(query: Statement) -> Reading[tuple[StoredMessage, ...]]:
    rows: Any = yield query
    return tuple(_message(row) for row in rows)


def _sent(query: Statement) -> Reading[tuple[StoredMail, ...]]:
    rows: Any = yield query
    return tuple(_mail(row) for row in rows)


def _message(row: Sequence[Any]) -> StoredMessage:
    message, sequence, domain, group, node, sent_at_ms, received_at_ms, topic, content, correlation = row
    return StoredMessage(
        message, sequence, domain, group, NodeName(node), sent_at_ms, received_at_ms, topic, content, correlation or b""
    )


def _mail(row: Sequence[Any]) -> StoredMail:
    identity, peer, kind, contract, reference, created_at_ms, sequence, acknowledged_at_ms = row
    return StoredMail(
        # A delivery of the core has no id of its own.
        identity if len(identity) == ID_BYTES else hashlib.sha256(identity + peer.encode()).digest()[:ID_BYTES],
        NodeName(peer),
        kind,
        ContractAddress(contract),
        reference,
        created_at_ms,
        sequence,
        acknowledged_at_ms,
    )


_MESSAGE: Final = "id, sequence, domain, group_id, node, sent_at_ms, received_at_ms, topic, content, correlation_id"
_MAIL: Final = "id, peer, kind, contract, reference, created_at_ms, sequence, acknowledged_at_ms"

# WHERE TRUE separates the SELECT from ON CONFLICT for the parser.
_ADD_MESSAGE: Final = """
INSERT INTO group_messages (
    id, domain, group_id, node, sent_at_ms, received_at_ms, correlation_id, topic, content, sequence)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(MAX(sequence), 0) + 1 FROM group_messages WHERE TRUE
ON CONFLICT (id, node) DO NOTHING"""

_OWE: Final = """
INSERT INTO mail (id, peer, kind, contract, reference, created_at_ms, sequence)
SELECT ?, ?, ?, ?, ?, ?, COALESCE(MAX(sequence), 0) + 1 FROM mail WHERE TRUE
ON CONFLICT (id) DO NOTHING"""

_ACKNOWLEDGE: Final = """
UPDATE mail SET acknowledged_at_ms = ? WHERE reference = ? AND peer = ? AND acknowledged_at_ms IS NULL"""

_MESSAGES: Final = Table(
    "group_messages",
    {
        "id": Column("id", Kind.UUID),
        "localSequence": Column("sequence", Kind.NUMBER),
        "domain": Column("domain", Kind.TEXT),
        "group": Column("group_id", Kind.BYTES),
        "node": Column("node", Kind.TEXT),
        "sent": Column("sent_at_ms", Kind.TIME),
        "received": Column("received_at_ms", Kind.TIME),
        "correlationId": Column("correlation_id", Kind.UUID),
        "topic": Column("topic", Kind.TEXT),
    },
    "sequence",
)

# Beside the mail, the private states that the core delivers. They are known by round, peer and part.
_DELIVERIES: Final = f"""
SELECT digest AS id, peer, '{STATE}' AS kind, '{NO_CONTRACT}' AS contract, digest AS reference, created_at_ms,
    part AS sequence, acknowledged_at_ms
FROM deliveries"""

_SENT: Final = Table(
    f"(SELECT {_MAIL} FROM mail UNION ALL {_DELIVERIES}) AS sent",
    {
        "id": Column("id", Kind.UUID),
        "sequence": Column("sequence", Kind.NUMBER),
        "created": Column("created_at_ms", Kind.TIME),
        "node": Column("peer", Kind.TEXT),
        "messageType": Column("kind", Kind.TEXT),
        "acknowledged": Column("acknowledged_at_ms", Kind.TIME),
    },
    "created_at_ms, sequence, id, peer",
)
