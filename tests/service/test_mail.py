"""Messages of groups: who gets them, how often, and from whom they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rota.directory.effects import ContractTaken
from rota.domains.queries import Query
from rota.engine.accepting import Acceptances
from rota.engine.contracts import KnownContracts
from rota.evm.groups import pente
from rota.logs.trouble import LINES_MAX
from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionMade, MessageReceived, Tick
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, Party, RequestId
from rota.node.node import OWN
from rota.ports import ListenerPosition, StoredMessage
from rota.service.groups import mail as mail_module
from rota.service.groups.interface import MessageDefinition
from rota.service.groups.mail import ENTRY_BYTES, HOUR_MS, MESSAGE_DEPTH_MAX, WINDOW, GroupMail
from rota.service.groups.methods import shown_message
from rota.service.listeners.messages import MessageSource
from rota.wire.messages import Envelope, GroupMessage, GroupMessageAcknowledgement, Message
from tests.domains.kit import known_by
from tests.store.kit import NODE, Opened, in_loop, new_sqlite

ALICE = Party("alice@node1")
NODE2, NODE3, STRANGER = NodeName("node2"), NodeName("node3"), NodeName("node4")
CONTRACT = ContractAddress("0x" + "77" * 20)
GROUP = b"\1" * 32
CHAIN_ID = 31_337


def group_contract() -> KnownContract:
    """Alice here, Bob at node2, Carol at node3."""
    arguments = {"members": [ALICE, "bob@node2", "carol@node3"], "salt": GROUP.hex()}
    return known_by("pente", arguments, ALICE, CONTRACT)


@dataclass
class Post:
    """A node's mail, with what it has said."""

    mail: GroupMail
    opened: Opened
    contracts: KnownContracts
    said: list[SendMessage] = field(default_factory=list)
    now_ms: list[int] = field(default_factory=lambda: [0])

    def to(self, peer: NodeName, kind: type[Message] = GroupMessage) -> list[Message]:
        return [each.envelope.body for each in self.said if each.peer == peer and isinstance(each.envelope.body, kind)]

    def hear(self, peer: NodeName, body: Message, contract: ContractAddress = CONTRACT) -> bool:
        return self.mail.take(MessageReceived(peer, Envelope(contract, RequestId(1, 1), 1, 1, body)))

    async def until(self, peer: NodeName, count: int, kind: type[Message] = GroupMessage) -> list[Message]:
        """The test's own time limit bounds it."""
        while len(self.to(peer, kind)) < count:
            await asyncio.sleep(0)
        return self.to(peer, kind)


@asynccontextmanager
async def posted(home: Path) -> AsyncIterator[Post]:
    opened = await Opened(new_sqlite(home)).start()
    contracts = KnownContracts(NODE, CHAIN_ID, {"pente": pente()}, bytes(32))
    contracts.add(group_contract())
    said: list[SendMessage] = []
    # A clock that stands: what is said again is said for another reason than time.
    now_ms = [0]
    mail = GroupMail(NODE, contracts, opened.store, said.append, lambda: (7, 1), lambda: now_ms[0], Acceptances())
    mail.start()
    try:
        yield Post(mail, opened, contracts, said, now_ms)
    finally:
        await mail.close()
        await opened.store.close()


@in_loop
async def test_a_message_goes_to_each_other_node_of_the_group_until_it_is_acknowledged(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        sent = await post.mail.post(CONTRACT, GROUP, "topic", b'"hello"', b"")
        for peer in (NODE2, NODE3):
            (body,) = await post.until(peer, 1)
            assert isinstance(body, GroupMessage)
            assert (body.id, body.topic, body.content) == (sent, "topic", b'"hello"')
        post.hear(NODE2, GroupMessageAcknowledgement(IntentId(sent)))
        while await post.opened.store.mail.open_counts() != {NODE3: 1}:
            await asyncio.sleep(0)
        # A peer that comes back is told again what it has not acknowledged.
        assert not post.mail.take(ConnectionMade(NODE3))
        await post.until(NODE3, 2)
        assert len(post.to(NODE2)) == 1
        assert len(await post.opened.store.mail.messages(Query())) == 1


@in_loop
async def test_a_peer_is_sent_a_window_at_a_time(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        count = WINDOW + 10
        for number in range(count):
            await post.mail.post(CONTRACT, GROUP, "topic", b"%d" % number, b"")
        seen: set[bytes] = set()
        while len(seen) < count:
            for body in await post.until(NODE2, 1):
                assert isinstance(body, GroupMessage)
                seen.add(body.id)
            assert len({body.id for body in post.to(NODE2) if isinstance(body, GroupMessage)}) <= WINDOW
            for body in post.to(NODE2):
                assert isinstance(body, GroupMessage)
                post.hear(NODE2, GroupMessageAcknowledgement(body.id))
            post.said[:] = [each for each in post.said if each.peer != NODE2]
        while NODE2 in await post.opened.store.mail.open_counts():
            await asyncio.sleep(0)


@in_loop
async def test_every_copy_is_acknowledged_and_kept_once(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        message = GroupMessage(IntentId(b"m" * 16), 5, "topic", b"1")
        for count in (1, 2):
            assert post.hear(NODE2, message)
            await post.until(NODE2, count, GroupMessageAcknowledgement)
        (kept,) = await post.opened.store.mail.messages(Query())
        assert (kept.node, kept.group, kept.sequence) == (NODE2, GROUP, 1)


@in_loop
async def test_a_message_of_a_stranger_or_of_an_unknown_group_is_neither_kept_nor_acknowledged(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        message = GroupMessage(IntentId(b"m" * 16), 5, "topic", b"1")
        assert post.hear(STRANGER, message)
        assert post.hear(NODE2, message, ContractAddress("0x" + "99" * 20))
        assert post.hear(NODE2, GroupMessage(IntentId(b"n" * 16), 5, "topic", b"2"))
        await post.until(NODE2, 1, GroupMessageAcknowledgement)
        (kept,) = await post.opened.store.mail.messages(Query())
        assert kept.content == b"2"
        assert post.to(STRANGER, Message) == []


@in_loop
async def test_what_is_no_json_is_not_taken(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        for number, content in enumerate((b"{", b"", b"[" * 5_000, b'"' + b"x" * 600_000 + b'"')):
            assert post.hear(NODE2, GroupMessage(IntentId(bytes([number]) * 16), 5, "topic", content))
        assert post.hear(NODE2, GroupMessage(IntentId(b"n" * 16), 5, "topic", b"2"))
        await post.until(NODE2, 1, GroupMessageAcknowledgement)
        assert len(await post.opened.store.mail.messages(Query())) == 1


@in_loop
async def test_message_that_is_nested_deeper_than_users_can_be_shown_is_not_taken(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        for depth in (*range(950, 1_000), MESSAGE_DEPTH_MAX + 1, MESSAGE_DEPTH_MAX):
            content = b"[" * depth + b"]" * depth
            post.hear(NODE2, GroupMessage(IntentId(b"%016d" % depth), 1, "topic", content, None))
        await post.until(NODE2, 1, GroupMessageAcknowledgement)
        (message,) = await post.opened.store.mail.messages(Query())
        assert message.id == b"%016d" % MESSAGE_DEPTH_MAX


@in_loop
async def test_message_of_a_time_that_no_calendar_has_is_shown_and_ends_no_listener(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        source = MessageSource(NODE, post.opened.store.mail, post.mail, post.opened.store.groups)
        post.hear(NODE2, GroupMessage(IntentId(b"m" * 16), 2**63 - 1, "topic", b"1"))
        await post.until(NODE2, 1, GroupMessageAcknowledgement)
        (found,) = (await source.read(MessageDefinition(), ListenerPosition(0))).items
        assert shown_message(found).sent == "9999-12-31T23:59:59.999Z"


@in_loop
async def test_member_that_sends_messages_without_end_has_so_many_kept_in_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_module, "TAKEN_OF_PEER_BYTES_MAX", 3 * (ENTRY_BYTES + len("topic") + 7))
    monkeypatch.setattr(mail_module, "TAKEN_PEERS_MAX", 1)
    async with posted(tmp_path) as post:
        for number in range(10):
            post.hear(NODE2, GroupMessage(IntentId(b"%016d" % number), 1, "topic", b'"hello"', None))
        await post.until(NODE2, 3, GroupMessageAcknowledgement)
        post.hear(NODE3, GroupMessage(IntentId(bytes(16)), 1, "topic", b'"hello"', None))
        await post.until(NODE3, 1, GroupMessageAcknowledgement)
        assert len(post.to(NODE2, GroupMessageAcknowledgement)) == 3
        assert len(await post.opened.store.mail.messages(Query())) == 4
        post.now_ms[0] = HOUR_MS
        post.hear(NODE3, GroupMessage(IntentId(bytes(16)), 1, "topic", b'"hello"', None))
        await post.until(NODE3, 2, GroupMessageAcknowledgement)


@in_loop
async def test_peer_that_floods_a_node_with_messages_keeps_those_of_no_other_away(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        for number in range(500):
            post.hear(STRANGER, GroupMessage(IntentId(b"%016d" % number), 1, "topic", b"1"))
            post.hear(NODE2, GroupMessage(IntentId(b"%016d" % number), 1, "topic", b"1"))
        post.hear(NODE3, GroupMessage(IntentId(b"m" * 16), 1, "topic", b"1"))
        assert await post.until(NODE3, 1, GroupMessageAcknowledgement)


@in_loop
async def test_messages_that_are_not_taken_fill_no_log(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        with capture_logs() as logged:
            for number in range(50):
                post.hear(STRANGER, GroupMessage(IntentId(b"%016d" % number), 1, "topic", b"1"))
            post.hear(NODE2, GroupMessage(IntentId(b"m" * 16), 1, "topic", b"1"))
            assert await post.until(NODE2, 1, GroupMessageAcknowledgement)
        assert [each["event"] for each in logged] == ["group.message_refused"] * LINES_MAX


@in_loop
async def test_nobody_keeps_a_message_away_by_using_its_id_first(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        for peer, content in ((NODE3, b'"forged"'), (NODE2, b'"true"')):
            assert post.hear(peer, GroupMessage(IntentId(b"m" * 16), 5, "topic", content))
            await post.until(peer, 1, GroupMessageAcknowledgement)
        kept = await post.opened.store.mail.messages(Query())
        assert [(each.node, each.content) for each in kept] == [(NODE3, b'"forged"'), (NODE2, b'"true"')]


@in_loop
async def test_an_acknowledgement_of_what_was_not_said_ends_nothing(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        sent = await post.mail.post(CONTRACT, GROUP, "topic", b"1", b"")
        await post.until(NODE2, 1)
        assert post.hear(STRANGER, GroupMessageAcknowledgement(IntentId(sent)))
        assert post.hear(NODE2, GroupMessageAcknowledgement(IntentId(b"x" * 16)))
        assert post.hear(NODE2, GroupMessageAcknowledgement(IntentId(sent)))
        while await post.opened.store.mail.open_counts() != {NODE3: 1}:
            await asyncio.sleep(0)


@in_loop
async def test_what_is_not_for_the_mail_goes_on_to_the_core(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        assert not post.mail.take(Tick())


@in_loop
async def test_listener_held_to_parties_gets_messages_of_their_groups_with_numbers_of_its_own(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        store = post.opened.store
        source = MessageSource(NODE, store.mail, post.mail, store.groups)
        await post.opened.write(OWN, ContractTaken(group_contract()))
        group = await store.groups.with_id("pente", GROUP)
        assert group is not None
        (member,) = (each for each in group.group.members if each.endswith(f"@{NODE}"))
        other = StoredMessage(b"o" * 16, 0, "pente", b"\7" * 32, NODE2, 5, 6, "topic", b"1")
        await store.mail.add(other, ())
        await post.mail.post(CONTRACT, GROUP, "topic", b'"hello"', b"")
        await store.mail.add(replace(other, id=b"p" * 16), ())
        everything = await source.read(MessageDefinition(), ListenerPosition(0))
        assert [each.sequence for each in everything.items] == [1, 2, 3]
        held = MessageDefinition(parties=(member.partition("@")[0],))
        found = await source.read(source.decode(source.encode(held)), ListenerPosition(0))
        assert [(each.sequence, each.group) for each in found.items] == [(1, GROUP)]
        assert found.position == ListenerPosition(3, 1)
        assert (await source.read(MessageDefinition(parties=("mallory",)), ListenerPosition(0))).items == ()
