"""What leaves a node of a coin, what another makes of it, and what is refused; between them stands a wire of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import get_args, get_type_hints

import pytest
from structlog.testing import capture_logs

from rota import host
from rota.domains.available import Known
from rota.domains.base import ENTROPY_BYTES
from rota.domains.records import Record
from rota.domains.zeto.domain import Zeto
from rota.engine import encrypted_peers
from rota.engine.contracts import KnownContracts
from rota.engine.encrypted_peers import WITH_STATES, EncryptedPeers, Pace
from rota.engine.encryption import StateEncryption
from rota.host import Background, UserCall
from rota.host.encryption import OVERHEAD_BYTES_MAX
from rota.logs.trouble import LINES_MAX
from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.machine.tables import Event
from rota.model.consistency import consistent_for
from rota.model.types import ContractAddress, Digest, NodeName, Party, RequestId, State, StateId, Transition, node_of
from rota.ports import Tell, Unavailable, UnknownKey
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire import messages
from rota.wire.codec import Frame, decode_frame, encode_frame
from rota.wire.messages import Envelope, Handover, Message, StateDistribution, StateDistributionAcknowledgement
from rota.wire.sizes import transition_bytes
from tests.domains.kit import ADDRESS, assembly_order, intent, known_by, transition_of
from tests.ledger.chains import in_loop

ISSUER, BOB, CAROL = Party("issuer@node1"), Party("bob@node2"), Party("carol@node2")
NODE1, NODE2 = NodeName("node1"), NodeName("node2")
MARKED_AMOUNT = 7_231_904_585_517
MEMO = b"a word for bob alone"
PLAIN, UNKNOWN = ContractAddress("0x" + "33" * 20), ContractAddress("0x" + "22" * 20)


@dataclass
class Wire:
    """A `Peers` that keeps what it is to say."""

    tell: Tell
    said: list[SendMessage] = field(default_factory=list)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def send(self, order: SendMessage) -> None:
        self.said.append(order)

    def troubles(self) -> Mapping[NodeName, str]:
        return {NODE2: "is away"}


@dataclass
class Side:
    """One node's end: what its core is told, and what goes into the wire."""

    name: NodeName
    contracts: KnownContracts
    peers: EncryptedPeers
    wire: Wire
    told: list[Event]

    async def say(self, *transitions: Transition, to: NodeName = NODE2) -> list[SendMessage]:
        """What leaves of this; nothing when all is withheld."""
        before = len(self.wire.said)
        body = StateDistribution(Digest(bytes(32)), tuple(each.as_seen_by(to) for each in transitions))
        self.peers.send(SendMessage(to, enveloped(body)))
        await idle()
        return self.wire.said[before:]

    async def hear(self, *transitions: Transition) -> tuple[Transition, ...]:
        """What the core is told when this comes; nothing when it is refused."""
        body = StateDistribution(Digest(bytes(32)), transitions)
        self.wire.tell(MessageReceived(NODE1, enveloped(body)))
        await idle()
        if not self.told:
            return ()
        told = self.told.pop()
        assert isinstance(told, MessageReceived)
        assert isinstance(told.envelope.body, StateDistribution)
        return told.envelope.body.transitions


def secret(party: Party) -> bytes:
    """As with a wallet, there is one for every name."""
    return party.encode().ljust(48, b"\1")


async def idle() -> None:
    """Until nothing is left to be done."""
    for _ in range(50):
        await asyncio.sleep(0)


def enveloped(body: Message, contract: ContractAddress = ADDRESS) -> Envelope:
    return Envelope(contract, RequestId(1, 1), 1, 1, body)


def contracts_of(node: NodeName) -> KnownContracts:
    """A token, and a contract of another domain."""
    contracts = KnownContracts(node, 1337, host.load_domains(), b"k" * 32)
    contracts.add(known_by("zeto", {"tokenName": "Zeto_Anon"}, ISSUER, ADDRESS))
    contracts.add(known_by("synthetic", {"members": [ISSUER]}, ISSUER, PLAIN))
    return contracts


@asynccontextmanager
async def side(name: NodeName) -> AsyncIterator[Side]:
    contracts, told, numbers = contracts_of(name), list[Event](), count()

    def secret_of(party: Party) -> bytes:
        if node_of(party) != name:
            raise UnknownKey(f"the party is not one of {name}")
        return secret(party)

    def drawn(size: int) -> bytes:
        assert size == ENTROPY_BYTES
        return next(numbers).to_bytes(size, "big")

    wires: list[Wire] = []

    def connect(tell: Tell) -> Wire:
        wires.append(Wire(tell))
        return wires[0]

    peers = EncryptedPeers(connect, StateEncryption(contracts, secret_of, drawn), told.append)
    running = asyncio.create_task(peers.run())
    try:
        yield Side(name, contracts, peers, wires[0], told)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def minted(maker: Side, *parties: Party, memo: bytes = MEMO) -> Transition:
    """Coins for these, with a word for each."""
    return transition_of(assembled(maker, *parties, memo=memo))


def assembled(maker: Side, *parties: Party, memo: bytes) -> AssemblyFinished | AssemblyFailed:
    hosted = maker.contracts.hosted(ADDRESS)
    assert hosted is not None
    payments = [{"to": party, "amount": MARKED_AMOUNT, "data": "0x" + memo.hex()} for party in parties]
    order = assembly_order([intent(hosted, 1, UserCall(ISSUER, "mint", {"mints": payments}))])
    keys = {party: Zeto().verifier_of(secret(party)) for party in (ISSUER, *parties)}
    (made,) = host.assemble(hosted, order, {}, NODE1, Background(verifiers=keys))
    return made


def transitions_in(order: SendMessage) -> tuple[Transition, ...]:
    body = order.envelope.body
    assert isinstance(body, StateDistribution)
    return body.transitions


def is_taken(node: Side, transition: Transition) -> bool:
    """Whether the core takes it."""
    hosted = node.contracts.hosted(ADDRESS)
    assert hosted is not None
    return consistent_for(hosted.separator, node.name, transition) is not None


@in_loop
async def test_coin_leaves_encrypted_and_arrives_as_it_was() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        coins = minted(maker, BOB, CAROL, ISSUER)
        (said,) = await maker.say(coins)
        (left,) = transitions_in(said)
        for mark in (b"ZetoCoin", str(MARKED_AMOUNT).encode(), MEMO.hex().encode()):
            assert mark in repr(coins).encode()
            assert mark not in repr(left).encode()
        assert [state.content is None for state in left.outputs] == [False, False, True]
        (come,) = await owner.hear(left)
        assert come == coins.as_seen_by(NODE2)
        assert is_taken(owner, come)


@in_loop
async def test_longest_coin_for_the_longest_name_still_goes_into_a_frame() -> None:
    longest = Party("b" * (255 - len("@node2")) + "@node2")
    async with side(NODE1) as maker, side(NODE2) as owner:
        # All that is said to one party is with its first coin.
        least = minted(maker, *[longest] * 8, memo=b".").outputs
        bytes_max = host.TRANSITION_BYTES_MAX - 8 * OVERHEAD_BYTES_MAX
        room = bytes_max - sum(len(state.content or b"") for state in least)
        memo = b"." * (1 + room // (8 * len(b".".hex())))
        coins = minted(maker, *[longest] * 8, memo=memo)
        (said,) = await maker.say(coins)
        frame = decode_frame(encode_frame((said.envelope,)))
        assert isinstance(frame, Frame)
        body = frame.envelopes[0].body
        assert isinstance(body, StateDistribution)
        assert await owner.hear(*body.transitions) == (coins,)
        refused = assembled(maker, *[longest] * 8, memo=memo + b".")
        assert refused.reason == f"the states of a transition are at most {bytes_max} bytes"


@in_loop
async def test_no_two_messages_have_anything_in_common() -> None:
    async with side(NODE1) as maker:
        coins = minted(maker, BOB)
        (first,), (second,) = await maker.say(coins), await maker.say(coins)
        (one,), (two,) = transitions_in(first), transitions_in(second)
        assert one.outputs[0].content != two.outputs[0].content


@in_loop
async def test_each_flipped_byte_of_a_message_is_refused_with_words() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB))
        (left,) = transitions_in(said)
        (state,) = left.outputs
        assert state.content is not None
        # Form and reader; some of the point, of the content and of its filling; the last byte of the tag.
        places = (*range(2 + len(BOB) + 4), *range(40, len(state.content), 61), len(state.content) - 1)
        with capture_logs() as logged:
            for place in places:
                flipped = bytearray(state.content)
                flipped[place] ^= 1
                assert not await owner.hear(replace(left, outputs=(replace(state, content=bytes(flipped)),))), place
        assert [line["event"] for line in logged] == ["state.refused"] * LINES_MAX
        assert all(line["peer"] == NODE1 and line["reason"].startswith("state: ") for line in logged)
        assert await owner.hear(left), "nothing else was wrong with it"


@in_loop
async def test_nonsense_of_a_peer_is_refused_and_ends_nothing() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB))
        (left,) = transitions_in(said)
        (state,) = left.outputs
        names = (
            b"",
            b"@",
            b"@node2",
            b"/@node2",
            b"\0\n@node2",
            "\N{SNOWMAN}".encode() * 80 + b"@node2",
            b"\xff@node2",
        )
        contents = [bytes([1, len(name)]) + name + bytes(80) for name in names]
        for wrong in (
            *(replace(state, content=content) for content in contents),
            *(replace(state, content=content) for content in (b"", b"\1", b"\1\xff", bytes(4_000))),
            replace(state, id=StateId(state.id.leaf, (1 << 32) - 1)),
        ):
            assert not await owner.hear(replace(left, outputs=(wrong,))), wrong
        assert await owner.hear(left), "it is still at work"


@in_loop
async def test_coin_that_comes_in_the_clear_is_refused() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        coins = minted(maker, BOB).as_seen_by(NODE2)
        assert is_taken(owner, coins), "the core would not mind"
        assert not await owner.hear(coins)
        assert not await owner.hear(replace(coins, outputs=(replace(coins.outputs[0], content=b""),)))


@in_loop
async def test_coin_for_a_party_of_another_node_is_refused() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, ISSUER), to=NODE1)
        with capture_logs() as logged:
            assert not await owner.hear(*transitions_in(said))
        assert logged[0]["reason"] == "state: the party is not one of node2"


@in_loop
async def test_state_without_a_reader_at_a_node_is_withheld_from_it() -> None:
    """As when who paid a coin has lost its database, and asks who got it."""
    async with side(NODE2) as owner:
        coins = minted(owner, BOB)
        with capture_logs() as logged:
            assert not await owner.say(coins, to=NODE1)
        assert (logged[0]["event"], logged[0]["reason"]) == ("state.withheld", "state: must have a reader at node1")
        nonsense = replace(coins, outputs=(replace(coins.outputs[0], content=b"nonsense"),))
        assert not await owner.say(nonsense, to=NODE1)


@in_loop
async def test_other_contracts_and_other_messages_pass_as_they_are_and_at_once() -> None:
    async with side(NODE1) as maker:
        digest = Digest(bytes(32))
        states, thanks = StateDistribution(digest, (minted(maker, BOB),)), StateDistributionAcknowledgement(digest)
        for envelope in (enveloped(states, PLAIN), enveloped(thanks)):
            maker.peers.send(SendMessage(NODE2, envelope))
            assert maker.wire.said.pop() == SendMessage(NODE2, envelope)
            maker.wire.tell(MessageReceived(NODE2, envelope))
            assert maker.told.pop() == MessageReceived(NODE2, envelope)
        maker.wire.tell(ConnectionMade(NODE2))
        assert maker.told.pop() == ConnectionMade(NODE2)
        assert maker.peers.troubles() == {NODE2: "is away"}


@in_loop
async def test_nothing_else_that_may_have_states_is_said_of_a_token() -> None:
    async with side(NODE1) as maker:
        for contract, passes in ((PLAIN, 1), (ADDRESS, 0)):
            maker.peers.send(SendMessage(NODE2, enveloped(Handover(RequestId(1, 1), ()), contract)))
            await idle()
            assert len(maker.wire.said) == passes
            maker.wire.said.clear()


@in_loop
async def test_contract_without_its_domain_is_heard_of_and_its_states_are_not_said() -> None:
    async with side(NODE1) as maker:
        distribution = StateDistribution(Digest(bytes(32)), (minted(maker, BOB),))
        with capture_logs() as logged:
            for body in (distribution, Handover(RequestId(1, 1), ())):
                maker.peers.send(SendMessage(NODE2, enveloped(body, UNKNOWN)))
            await idle()
        assert maker.wire.said == []
        assert [line["message_type"] for line in logged] == ["StateDistribution", "Handover"]
        assert {line["reason"] for line in logged} == {"the domain is not loaded"}
        heard = MessageReceived(NODE2, enveloped(distribution, UNKNOWN))
        maker.wire.tell(heard)
        assert maker.told == [heard], "whether it is taken is for the core to say"


@in_loop
async def test_speaking_of_states_before_the_contracts_are_known_is_our_own_error_and_nothing_is_said() -> None:
    async with side(NODE1) as maker:
        coins = minted(maker, BOB)
        maker.contracts.is_complete = False
        with pytest.raises(AssertionError, match="before it knows its contracts"):
            await maker.say(coins)
        assert maker.wire.said == []


def test_all_messages_that_may_have_states_are_known() -> None:
    every = [each for each in vars(messages).values() if isinstance(each, type) and issubclass(each, Message)]
    assert {each for each in every if State in parts_of(each)} == {StateDistribution, *WITH_STATES}


def parts_of(kind: object) -> set[object]:
    """All types that something is made of."""
    found: set[object] = set()
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            is_record = isinstance(each, type) and hasattr(each, "__annotations__")
            waiting += [*get_args(each), *(get_type_hints(each).values() if is_record else ())]
    return found


@in_loop
async def test_what_a_lost_peer_said_is_not_told_any_more() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB))
        owner.wire.tell(MessageReceived(NODE1, said.envelope))
        owner.wire.tell(ConnectionLost(NODE1))
        await idle()
        assert owner.told == [ConnectionLost(NODE1)]
        owner.wire.tell(MessageReceived(NODE1, said.envelope))
        await idle()
        assert len(owner.told) == 2


@in_loop
async def test_line_that_is_full_drops_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_peers, "LEAVING_OF_A_PEER_MAX", 2)
    async with side(NODE1) as maker:
        body = StateDistribution(Digest(bytes(32)), (minted(maker, BOB).as_seen_by(NODE2),))
        for _ in range(5):
            maker.peers.send(SendMessage(NODE2, enveloped(body)))
        await idle()
        assert len(maker.wire.said) == 2


@in_loop
async def test_peer_that_asks_for_many_states_does_not_hold_up_the_states_for_others() -> None:
    dave = Party("dave@node3")
    async with side(NODE1) as maker:
        for coins, peer in ((minted(maker, *[BOB] * 8), NODE2), (minted(maker, dave), NodeName("node3"))):
            body = StateDistribution(Digest(bytes(32)), (coins.as_seen_by(peer),))
            for _ in range(300 if peer == NODE2 else 1):
                maker.peers.send(SendMessage(peer, enveloped(body)))
        await idle()
        assert maker.wire.said[0].peer == "node3"


@in_loop
async def test_peer_that_says_too_much_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_peers, "COMING_OF_A_PEER_MAX", 2)
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB))
        other = NodeName("node3")
        for _ in range(2):
            for peer in (NODE1, NODE1, NODE1, other):
                owner.wire.tell(MessageReceived(peer, said.envelope))
            await idle()
            assert [event.peer for event in owner.told if isinstance(event, MessageReceived)] == [NODE1, other, NODE1]
            owner.told.clear()


@in_loop
async def test_peer_that_sends_many_states_does_not_hold_up_the_states_of_others() -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (many,) = await maker.say(minted(maker, *[BOB] * 8))
        (one,) = await maker.say(minted(maker, BOB))
        for peer, said in ((NODE1, many), (NODE1, many), (NodeName("node3"), one)):
            owner.wire.tell(MessageReceived(peer, said.envelope))
        await idle()
        told = [event.peer for event in owner.told if isinstance(event, MessageReceived)]
        assert told == ["node3", NODE1, NODE1]


@in_loop
async def test_bytes_that_wait_are_bounded_by_peer_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB))
        size_bytes = sum(map(transition_bytes, transitions_in(said)))
        monkeypatch.setattr(encrypted_peers, "BYTES_OF_A_PEER_MAX", 2 * size_bytes)
        monkeypatch.setattr(encrypted_peers, "BYTES_MAX", 3 * size_bytes)
        for peer in (NODE1, NODE1, NODE1, NodeName("node3"), NodeName("node4")):
            owner.wire.tell(MessageReceived(peer, said.envelope))
        await idle()
        told = [event.peer for event in owner.told if isinstance(event, MessageReceived)]
        assert told == [NODE1, "node3", NODE1]
        assert await owner.hear(*transitions_in(said)), "there is room again"


def test_states_are_decrypted_at_a_pace_that_no_number_of_peers_changes() -> None:
    pace = Pace(10, 3)
    assert [pace.wait_s(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.1, 0.2]
    assert [round(pace.wait_s(at_s), 6) for at_s in (0.2, 0.2, 100.0, 100.0)] == [0.1, 0.2, 0.0, 0.0]


@in_loop
async def test_nullifier_of_a_state_is_worked_out_when_it_is_decrypted_and_not_when_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked_out: list[StateId] = []

    def noted(_domain: Zeto, _configuration: object, state: Known[Record], _secret_of: object) -> None:
        worked_out.append(state.id)

    monkeypatch.setattr(Zeto, "nullifier", noted)
    async with side(NODE1) as maker, side(NODE2) as owner:
        (said,) = await maker.say(minted(maker, BOB, CAROL))
        worked_out.clear()
        (come,) = await owner.hear(*transitions_in(said))
        known = [state.id for state in come.outputs]
        assert worked_out == known
        for state in come.outputs:
            owner.contracts.nullifier_of(ADDRESS, state)
        assert worked_out == known
        other = replace(come.outputs[0], content=come.outputs[1].content)
        changed = (other.content or b"").replace(b"carol", b"karla")
        owner.contracts.nullifier_of(ADDRESS, replace(other, content=changed))
        assert worked_out == [*known, other.id], "it is remembered by the contents and not by the id"


@in_loop
async def test_network_that_cannot_listen_ends_the_node_s_life() -> None:
    class Deaf(Wire):
        async def run(self) -> None:
            raise Unavailable("the port is taken")

    async with side(NODE1) as maker:
        encryption = StateEncryption(maker.contracts, secret, bytes)
        peers = EncryptedPeers(Deaf, encryption, maker.told.append)
        with pytest.raises(Unavailable, match="the port is taken"):
            await peers.run()
