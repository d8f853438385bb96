"""Delivery of group messages to all nodes of their members, until each of them has acknowledged them.

Theory of operation. A message is no part of sequencing: it changes no state, and needs no agreement. So the core does
not see it. The message and its deliveries to the other nodes of the group are made durable in one write, before its
author gets its id, and it is sent whether or not the author waits for that. A peer with open deliveries that can be
reached gets the oldest, a window at a time, and again after a pause that grows, until it has acknowledged them; the
rest waits in the store. The recipient makes a message durable, then acknowledges it, each copy again. A copy has no
effect.

A message is accepted only from a node of the group that it names. A node that does not have the group yet does not
answer, and gets the message again. Messages are kept permanently, so a peer has a quota of bytes per hour; messages
beyond it are neither kept nor acknowledged, and are sent again later.

States that a user has sent again (`pstate_transferPrivateState`) are delivered in the same way, except that the store
finds them, and the core sends them and receives their acknowledgements.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from rota.domains.pente.groups import DOMAIN
from rota.engine.accepting import Acceptance, Acceptances, settled
from rota.engine.contracts import KnownContracts
from rota.logs import catalogue
from rota.logs.trouble import PeerLines, Trouble
from rota.machine.effects import FindStates, SendMessage
from rota.machine.events import ConnectionMade, MessageReceived
from rota.machine.tables import Event
from rota.model.json_text import NotJson, read_json
from rota.model.types import ContractAddress, Digest, IntentId, Leaf, NodeName, RequestId
from rota.node.events import StatesFound
from rota.ports import Background, Store, StoredMail, StoredMessage, Unavailable
from rota.rpc.structure import flaw_of
from rota.store.mail import GROUP_MESSAGE, STATE
from rota.wire.messages import (
    Envelope,
    GroupMessage,
    GroupMessageAcknowledgement,
    Message,
    StateDistributionAcknowledgement,
)

MESSAGE_BYTES_MAX: Final = 524_288
# The depth that a user's request may have.
MESSAGE_DEPTH_MAX: Final = 64
WINDOW: Final = 32
PAUSE_MS: Final = 1_000
PAUSE_MAX_MS: Final = 60_000
OPEN_MAX: Final = 100_000
ARRIVALS_MAX: Final = 256
ARRIVALS_OF_PEER_MAX: Final = 2 * WINDOW
ROUNDS_KEPT_MAX: Final = 4_096
HOUR_MS: Final = 3_600_000
TAKEN_OF_PEER_BYTES_MAX: Final = 67_108_864
# The size of a message beside its content.
ENTRY_BYTES: Final = 1_024
TAKEN_PEERS_MAX: Final = 4_096


@dataclass(slots=True)
class _Peer:
    """A peer with open deliveries: their number, when sent ones are repeated, and the pause after that.

    `said` are sent, unacknowledged ones; `acknowledged` those acknowledged since the store was last read.
    """

    count: int = 0
    again_ms: int = 0
    pause_ms: int = PAUSE_MS
    has_more: bool = True
    said: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)

    def is_due(self, now_ms: int) -> bool:
        """Whether there are unsent deliveries, or sent ones to repeat."""
        return self.has_more or self.again_ms <= now_ms

    def forget_said(self) -> None:
        """Send everything again at once, as it may be lost, and reset the pause."""
        self.said.clear()
        self.has_more, self.pause_ms = True, PAUSE_MS


@dataclass(slots=True)
class _Taken:
    """The bytes of a peer's messages that were accepted in the hour that began at `since_ms`."""

    since_ms: int
    size_bytes: int = 0


class GroupMail:
    """The mail of one node.

    `send` sends a message to a peer, `author` returns this run's incarnation and the height.
    """

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        store: Store,
        send: Callable[[SendMessage], None],
        author: Callable[[], tuple[int, int]],
        now_ms: Callable[[], int],
        acceptances: Acceptances,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._store: Final = store
        self._send: Final = send
        self._author: Final = author
        self._now_ms: Final = now_ms
        self._acceptances: Final = acceptances
        self._owing: Final[dict[NodeName, _Peer]] = {}
        self._taken: Final[dict[NodeName, _Taken]] = {}
        self._rarely: Final = PeerLines(now_ms)
        self._changed: Final = asyncio.Event()
        self._arrivals: Final = Background("mail that arrives")
        self._arriving: Final[Counter[NodeName]] = Counter()
        self._sending: Final = Background("mail that is owed")
        self._said = 0
        # States that are being sent again, and their rounds: an acknowledgement names the round.
        self._transfers: Final[dict[tuple[NodeName, Leaf], None]] = {}
        self._rounds: Final[dict[tuple[NodeName, Digest], Leaf]] = {}
        self.on_message: Callable[[], None] = lambda: None
        # The number of the latest mail that was sent to each peer in this run, for users to read.
        self.highest_said: Final[dict[NodeName, int]] = {}

    # The run.

    def start(self) -> None:
        """Continue the deliveries that the previous run left open."""
        self._sending.begin(self._run())

    async def close(self) -> None:
        """Stop; open deliveries are left to the next run."""
        await self._arrivals.close()
        await self._sending.close()

    # Sending.

    async def post(self, contract: ContractAddress, group: bytes, topic: str, content: bytes, about: bytes) -> bytes:
        """Store a message of a member at this node and its deliveries; returns its id once durable."""
        nodes = self._nodes_of(contract)
        if sum(peer.count for peer in self._owing.values()) >= OPEN_MAX:
            raise Unavailable(f"{OPEN_MAX} messages wait for nodes that have not acknowledged them")
        now_ms = _wall_ms()
        message = StoredMessage(uuid4().bytes, 0, DOMAIN, group, self._node, now_ms, now_ms, topic, content, about)
        owed = [
            StoredMail(uuid4().bytes, peer, GROUP_MESSAGE, contract, message.id, now_ms)
            for peer in nodes
            if peer != self._node
        ]

        async def accept(acceptance: Acceptance) -> bytes:
            acceptance.begin(messageId=str(UUID(bytes=message.id)))
            await settled(lambda: self._store.mail.add(message, owed))
            for each in owed:
                self._owe(each.peer)
            self.on_message()
            return message.id

        return await self._acceptances.accept(accept)

    async def transfer(self, contract: ContractAddress, leaf: Leaf, peer: NodeName) -> bytes:
        """Send the outputs of a leaf to a peer again until it acknowledges; returns the delivery's id once durable."""
        mail = StoredMail(uuid4().bytes, peer, STATE, contract, leaf, _wall_ms())

        async def accept(acceptance: Acceptance) -> bytes:
            acceptance.begin(messageId=str(UUID(bytes=mail.id)))
            await settled(lambda: self._store.mail.owe(mail))
            self._owe(peer)
            return mail.id

        return await self._acceptances.accept(accept)

    def _owe(self, peer: NodeName) -> None:
        owing = self._owing.setdefault(peer, _Peer())
        owing.count += 1
        # A full window of unacknowledged messages delays the rest.
        if len(owing.said) < WINDOW:
            owing.has_more = True
            self._changed.set()

    async def _run(self) -> None:
        """Send due messages, then wait until the next are due or something changes."""
        repeated = Trouble()
        while True:
            try:
                if not self._owing:
                    for peer, count in (await self._store.mail.open_counts()).items():
                        self._owing.setdefault(peer, _Peer(count))
                await self._say_due()
                repeated.end()
            except Unavailable as trouble:
                if repeated.is_new(str(trouble)):
                    catalogue.GROUP_POSTPONED.log(reason=str(trouble))
                await asyncio.sleep(PAUSE_MS / 1_000)
                continue
            self._changed.clear()
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _pause_s(self) -> float | None:
        """Return the time until something is due; None without open deliveries."""
        if not self._owing:
            return None
        if any(owing.has_more for owing in self._owing.values()):
            return 0
        again_ms = min(owing.again_ms for owing in self._owing.values())
        return max(0, again_ms - self._now_ms()) / 1_000

    async def _say_due(self) -> None:
        for peer, owing in tuple(self._owing.items()):
            now_ms = self._now_ms()
            if not owing.is_due(now_ms):
                continue
            if owing.again_ms <= now_ms:
                owing.said.clear()
            if not owing.said:
                owing.again_ms = now_ms + owing.pause_ms
                owing.pause_ms = min(2 * owing.pause_ms, PAUSE_MAX_MS)
            # Reset before the store is read, so that deliveries added meanwhile are read next time.
            owing.has_more = False
            owing.acknowledged.clear()
            mail = await self._store.mail.open_for(peer, WINDOW)
            if not mail and not owing.has_more:
                del self._owing[peer]
                continue
            for each, message in mail:
                if each.reference not in owing.said and each.reference not in owing.acknowledged:
                    owing.said.add(each.reference)
                    self._say(peer, each, message)

    def _say(self, peer: NodeName, mail: StoredMail, message: StoredMessage | None) -> None:
        self.highest_said[peer] = max(mail.sequence, self.highest_said.get(peer, 0))
        if mail.kind == STATE:
            self._transfers[(peer, Leaf(mail.reference))] = None
            self._store.perform(FindStates(mail.contract, peer, (Leaf(mail.reference),)))
        elif message is not None:
            body = GroupMessage(
                IntentId(message.id),
                message.sent_at_ms,
                message.topic,
                message.content,
                IntentId(message.correlation_id) if message.correlation_id else None,
            )
            self._tell(peer, mail.contract, body)

    def _tell(self, peer: NodeName, contract: ContractAddress, body: Message) -> None:
        incarnation, height = self._author()
        self._said += 1
        self._send(SendMessage(peer, Envelope(contract, RequestId(incarnation, self._said), incarnation, height, body)))

    # Events.

    def take(self, event: Event) -> bool:
        """Handle an event; returns True for mail's own messages. Events that concern the core too are only observed."""
        match event:
            case MessageReceived(peer, Envelope(contract=contract, body=GroupMessage() as message)):
                self._arrive(peer, self._received(peer, contract, message))
                return True
            case MessageReceived(peer, Envelope(body=GroupMessageAcknowledgement(reference))):
                self._arrive(peer, self._acknowledged(peer, reference))
                return True
            case MessageReceived(peer, Envelope(body=StateDistributionAcknowledgement(digest))):
                leaf = self._rounds.pop((peer, digest), None)
                if leaf is not None:
                    self._arrive(peer, self._acknowledged(peer, leaf))
            case StatesFound(_, peer, digest, transitions) if self._transfers:
                for transition in transitions:
                    if (peer, transition.leaf) in self._transfers:
                        del self._transfers[(peer, transition.leaf)]
                        self._rounds[(peer, digest)] = transition.leaf
                while len(self._rounds) > ROUNDS_KEPT_MAX:
                    del self._rounds[next(iter(self._rounds))]
            case ConnectionMade(peer) if peer in self._owing:
                self._owing[peer].forget_said()
                self._changed.set()
        return False

    def _arrive(self, peer: NodeName, work: Coroutine[Any, Any, None]) -> None:
        """Handle an arrival in a task; one beyond the limits, of the peer or of all, is dropped, as it comes again."""
        if len(self._arrivals) >= ARRIVALS_MAX or self._arriving[peer] >= ARRIVALS_OF_PEER_MAX:
            work.close()
            return
        self._arriving[peer] += 1
        self._arrivals.begin(self._arrived(peer, work))

    async def _arrived(self, peer: NodeName, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self._arriving[peer] -= 1
            if not self._arriving[peer]:
                del self._arriving[peer]

    async def _received(self, peer: NodeName, contract: ContractAddress, message: GroupMessage) -> None:
        group = self._contracts.group_of(contract)
        if group is not None and self._contracts.contracts_of_group(group) != (contract,):
            # Users read messages by the group's id, and members of a second group with that id must not see them.
            group = None
        is_members = group is not None and peer in self._nodes_of(contract)
        if group is None or not is_members or not self._has_room(peer, message) or not _is_content(message.content):
            if self._rarely.is_due(peer):
                catalogue.GROUP_MESSAGE_REFUSED.log(peer=peer, contract=contract)
            return
        stored = StoredMessage(
            message.id,
            0,
            DOMAIN,
            group,
            peer,
            message.sent_at_ms,
            _wall_ms(),
            message.topic,
            message.content,
            message.correlation_id or b"",
        )
        try:
            await self._store.mail.add(stored, ())
        except Unavailable:
            return
        self._tell(peer, contract, GroupMessageAcknowledgement(message.id))
        self.on_message()

    def _has_room(self, peer: NodeName, message: GroupMessage) -> bool:
        """Charge a message to the peer's hourly quota; returns False if it does not fit."""
        now_ms = self._now_ms()
        taken = self._taken.get(peer)
        if taken is None or now_ms - taken.since_ms >= HOUR_MS:
            self._taken.pop(peer, None)
            taken = self._taken[peer] = _Taken(now_ms)
            if len(self._taken) > TAKEN_PEERS_MAX:
                del self._taken[next(iter(self._taken))]
        size_bytes = taken.size_bytes + ENTRY_BYTES + len(message.topic.encode()) + len(message.content)
        if size_bytes > TAKEN_OF_PEER_BYTES_MAX:
            return False
        taken.size_bytes = size_bytes
        return True

    async def _acknowledged(self, peer: NodeName, reference: bytes) -> None:
        """Record an acknowledgement. One of an unsent delivery is ignored: the delivery is sent again."""
        owing = self._owing.get(peer)
        if owing is None or reference not in owing.said:
            return
        try:
            await self._store.mail.acknowledge(peer, reference, _wall_ms())
        except Unavailable:
            return
        if reference in owing.said:
            owing.said.remove(reference)
            owing.count -= 1
        owing.acknowledged.add(reference)
        # An acknowledged window makes room for the next.
        if not owing.said:
            owing.has_more, owing.pause_ms = True, PAUSE_MS
            self._changed.set()

    def _nodes_of(self, contract: ContractAddress) -> tuple[NodeName, ...]:
        known = self._contracts.known(contract)
        return known.contract.committee if known is not None else ()


def _is_content(content: bytes) -> bool:
    """Whether the content is JSON, no larger or deeper than messages of this node.

    JSON nested so deep that it can just be parsed here might not be parsed where it is shown, and would end a listener.
    """
    if len(content) > MESSAGE_BYTES_MAX or flaw_of(content, MESSAGE_DEPTH_MAX, MESSAGE_BYTES_MAX):
        return False
    try:
        read_json(content)
    except NotJson:
        return False
    return True


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
