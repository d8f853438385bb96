"""Events that wait for the core: a peer that floods a node delays itself and no other peer."""

from __future__ import annotations

import asyncio

import pytest

from rota.engine import inbox as inbox_module
from rota.engine import loop as engine_module
from rota.engine.inbox import Inbox
from rota.engine.loop import Engine
from rota.engine.outbox import Outbox
from rota.machine.effects import Effect
from rota.machine.events import ConnectionLost, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.types import NO_CONTRACT, Digest, IntentId, Leaf, NodeName, RequestId, State, StateId, Transition
from rota.wire.messages import Envelope, Message, Startup, StateDistribution
from tests.ledger.chains import in_loop

OWN, LIAR, HONEST = NodeName("node1"), NodeName("liar"), NodeName("node2")
FLOOD = 20_000
STEP_NS = 50_000


def said(peer: NodeName, number: int = 1, body: Message | None = None) -> MessageReceived:
    number_of = RequestId(1, number)
    return MessageReceived(peer, Envelope(NO_CONTRACT, number_of, 1, 0, body or Startup(number_of)))


class Core:
    """Records its events, and uses the processor for so long at each step."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.used_ns = 0
        self.costs_ns: dict[NodeName, int] = {}

    def start(self) -> list[Effect]:
        return []

    def step(self, _: int, event: Event) -> list[Effect]:
        self.told.append(event)
        self.used_ns += self.costs_ns.get(event.peer, STEP_NS) if isinstance(event, MessageReceived) else STEP_NS
        return []

    def next_deadline_ms(self) -> int | None:
        return None


def running() -> tuple[Engine, Core]:
    core = Core()
    engine = Engine(lambda _: None, lambda _: None, name=OWN, used_ns=lambda: core.used_ns)
    engine.start(core)  # type: ignore[arg-type]  # as much of a core as an engine needs
    return engine, core


@in_loop
async def test_peer_that_floods_a_node_keeps_neither_the_others_nor_the_node_itself_waiting() -> None:
    engine, core = running()
    for number in range(FLOOD):
        engine.tell(said(LIAR, number))
    honest, own, to_itself = said(HONEST), Tick(), said(OWN)
    for event in (honest, own, to_itself):
        engine.tell(event)
    assert engine.waiting <= inbox_module.WAITING_OF_PEER_MAX + 3, "a flood takes bounded memory"
    assert engine.dropped == FLOOD - inbox_module.WAITING_OF_PEER_MAX
    await asyncio.sleep(0)
    assert core.told[:2] == [own, to_itself]
    assert honest in core.told[2:5], "whoever has used least is next"
    assert len(core.told) <= 2 + engine_module.EVENTS_A_TURN_MAX
    engine.stop()


@in_loop
async def test_turns_of_peers_go_by_the_processor_time_that_their_messages_take() -> None:
    engine, core = running()
    core.costs_ns = {LIAR: 10 * STEP_NS}
    for number in range(100):
        engine.tell(said(LIAR, number))
    for number in range(100):
        engine.tell(said(HONEST, number))
    while engine.waiting:
        await asyncio.sleep(0)
    last = max(place for place, event in enumerate(core.told) if event.peer == HONEST)  # type: ignore[attr-defined]
    assert last - 99 <= 12, "ten of the honest peer for one of the other"
    assert [event.envelope.message_id.counter for event in core.told if event.peer == LIAR] == [*range(100)]  # type: ignore[attr-defined]
    engine.stop()


@in_loop
async def test_turn_ends_when_messages_of_peers_have_taken_their_time() -> None:
    engine, core = running()
    core.costs_ns = {LIAR: engine_module.PEERS_A_TURN_NS}
    for number in range(3):
        engine.tell(said(LIAR, number))
    await asyncio.sleep(0)
    assert len(core.told) == 1
    engine.stop()
    assert not engine.waiting


def test_messages_that_wait_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "BYTES_OF_PEER_MAX", 100_000)
    monkeypatch.setattr(inbox_module, "BYTES_MAX", 150_000)
    leaf = Leaf(bytes(32))
    state = State(StateId(leaf, 0), bytes(32), (OWN,), bytes(10_000))
    body = StateDistribution(Digest(leaf), (Transition(IntentId(bytes(16)), leaf, outputs=(state,)),))
    unmeasured = 70
    monkeypatch.setattr(inbox_module, "UNMEASURED_MAX", unmeasured)
    inbox = Inbox(OWN)
    for peer, most in ((LIAR, 10), (NodeName("other liar"), 5)):
        before = len(inbox)
        for number in range(200):
            inbox.put(said(peer, number, body))
        assert unmeasured < len(inbox) - before <= unmeasured + most
    before = len(inbox)
    inbox.put(said(HONEST, 1, body))
    assert len(inbox) == before + 1, "whoever has little waiting has room whatever the others do"
    while inbox.of_peers:
        peer, _ = inbox.take_of_peer()
        inbox.charge(peer, 1)
    for number in range(200):
        inbox.put(said(LIAR, number, body))
    assert unmeasured < len(inbox) <= unmeasured + 10, "what was taken makes room"


@in_loop
async def test_large_messages_that_wait_while_the_store_stalls_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections are read on then, however many messages of a peer wait."""
    engine, _ = running()
    monkeypatch.setattr(Outbox, "is_stalled", property(lambda _: True))
    leaf = Leaf(bytes(32))
    state = State(StateId(leaf, 0), bytes(32), (OWN,), bytes(1_000_000))
    body = StateDistribution(Digest(leaf), (Transition(IntentId(bytes(16)), leaf, outputs=(state,)),))
    liars = [NodeName(f"liar{number}") for number in range(10)]
    for liar in liars:
        before = engine.waiting
        for number in range(100):
            engine.tell(said(liar, number, body))
        assert not engine.is_behind(liar)
        assert engine.waiting - before <= inbox_module.BYTES_OF_PEER_MAX // 1_000_000
    assert engine.waiting <= inbox_module.BYTES_MAX // 1_000_000, "of all peers together"
    waiting = engine.waiting
    engine.tell(said(HONEST))
    assert engine.waiting == waiting + 1, "a short message of a peer that has little waiting has room"
    engine.stop()


def test_end_of_a_connection_stands_behind_messages_of_the_peer_and_is_never_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox_module, "WAITING_OF_PEER_MAX", 2)
    inbox = Inbox(OWN)
    events = [said(LIAR, number) for number in range(3)]
    for event in (*events, ConnectionLost(LIAR)):
        inbox.put(event)
    taken = []
    while inbox.of_peers:
        peer, event = inbox.take_of_peer()
        taken.append(event)
        inbox.charge(peer, 1)
    assert taken == [*events[:2], ConnectionLost(LIAR)]
    assert inbox.dropped_count == 1


def test_peer_that_speaks_while_its_message_is_stepped_is_next_once() -> None:
    inbox = Inbox(OWN)
    inbox.put(said(LIAR, 1))
    peer, _ = inbox.take_of_peer()
    inbox.put(said(LIAR, 2))
    inbox.charge(peer, 5)
    assert inbox.take_of_peer() == (LIAR, said(LIAR, 2))
    assert len(inbox) == 0


def test_peer_with_much_waiting_is_behind_until_that_was_taken() -> None:
    inbox = Inbox(OWN)
    for number in range(inbox_module.BEHIND_MIN):
        assert not inbox.is_behind(LIAR)
        inbox.put(said(LIAR, number))
    assert inbox.is_behind(LIAR)
    assert not inbox.is_behind(HONEST)
    inbox.charge(inbox.take_of_peer()[0], 1)
    assert not inbox.is_behind(LIAR)
