"""The order of receipts at a running node: numbered soon, looked up once, read in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from rota.chain.effects import BlocksIndexed
from rota.machine.effects import IntentAccepted
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import NO_CONTRACT, BlockHash, ContractAddress, IntentId, Leaf, Mode, NodeName, Rotation
from rota.ports import DueReceipt, ListenerPosition, NumberedReceipt, Unavailable, undone_leaf
from rota.service.interface import FullReceipt, PublicView, ReceiptDefinition, ReceiptView, TransactionType
from rota.service.positions.interface import PositionView
from rota.service.receipts import order as receipts
from rota.service.receipts.order import PAGE, RECEIPTS_A_BATCH_MAX, ReceiptOrder, ReceiptSource, Relation, undone_view
from tests.server.memory_listeners import MemoryListening
from tests.store.kit import FIRST, an_intent, in_loop, intent_id

PUBLIC = PublicView(14, intent_id(1), TransactionType.PUBLIC, "alice@node1", FIRST, None, b"", 0, "node1")


@dataclass
class Orders(MemoryListening):
    """A store that has receipts to be numbered."""

    waiting: list[DueReceipt] = field(default_factory=list)
    numbered: list[NumberedReceipt] = field(default_factory=list)
    asked: int = 0
    looks: int = 0
    reads: int = 0
    cleanings: int = 0
    undone: int = 0

    async def due(self, most: int) -> tuple[DueReceipt, ...]:
        self.asked += 1
        self._look()
        self.looks += 1
        return tuple(self.waiting[:most])

    async def number(self, receipts: object) -> None:
        assert isinstance(receipts, Sequence)
        for due, domain in receipts:
            self.put(due.intent, domain)
            self.waiting.remove(due)

    async def forget_expired(self) -> None:
        self.cleanings += 1

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        self.reads += 1
        return tuple(self.numbered[sequence : sequence + limit])

    async def receipt_number(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        return next((each for each in self.numbered if (each.contract, each.intent) == (contract, intent)), None)

    async def undone_count(self) -> int:
        self._look()
        return self.undone

    async def acknowledge_undone(self) -> None:
        self.undone = 0

    def put(self, intent: IntentId, domain: str = "noto", type_: str = "private") -> None:
        place = len(self.numbered) + 1
        self.numbered.append(NumberedReceipt(place, intent, FIRST, Leaf(b"leaf"), type_, domain, 7))


def due(number: int) -> DueReceipt:
    return DueReceipt(intent_id(number), FIRST, Leaf(b"leaf"))


def order_of(store: Orders) -> ReceiptOrder:
    return ReceiptOrder(store, lambda _: "noto")  # type: ignore[arg-type]


@dataclass
class Views:
    """What users see, and how often it was made."""

    made: list[IntentId] = field(default_factory=list)
    is_away: bool = False
    is_behind: bool = False

    async def view(self, place: NumberedReceipt) -> ReceiptView | None:
        intent = place.intent
        self.made.append(intent)
        await asyncio.sleep(0)
        if self.is_away:
            raise Unavailable("the store is away")
        if self.is_behind:
            return None
        return ReceiptView(intent, True, 1, int.from_bytes(intent, "big"))

    async def full(self, place: NumberedReceipt) -> FullReceipt | None:
        view = await self.view(place)
        return FullReceipt(view, domain_receipt={"transfers": []}, public=(PUBLIC,)) if view is not None else None


def source_of(store: Orders, views: Views) -> ReceiptSource:
    return ReceiptSource(order_of(store), store, views.view, views.full)  # type: ignore[arg-type]


@in_loop
async def test_all_that_is_due_is_numbered_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "NUMBERED_AT_ONCE_MAX", 2)
    store = Orders(waiting=[due(number) for number in range(1, 6)])
    order = order_of(store)
    running = asyncio.create_task(order.run())
    await order.bell.wait(0)
    while len(store.numbered) < 5:
        await asyncio.sleep(0)
    assert [each.sequence for each in store.numbered] == [1, 2, 3, 4, 5]
    assert store.cleanings == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@in_loop
async def test_store_is_asked_again_only_after_a_full_page() -> None:
    store = Orders(waiting=[due(1), due(2)])
    await order_of(store).look()
    assert (len(store.numbered), store.looks) == (2, 1)


@in_loop
async def test_held_receipts_are_not_asked_for_again_before_they_are_released() -> None:
    store = Orders(waiting=[due(1), due(2)])
    order = ReceiptOrder(store, lambda _: "noto", lambda found: found[:1])  # type: ignore[arg-type]
    await order.look()
    assert (len(store.numbered), store.looks) == (1, 1)


@in_loop
async def test_store_is_asked_when_an_order_that_may_make_a_receipt_due_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receipts, "PAUSE_S", 0)
    monkeypatch.setattr(receipts, "REST", 0)
    store = Orders()
    order = order_of(store)
    running = asyncio.create_task(order.run())
    while not store.looks:
        await asyncio.sleep(0)
    order.ordered((IntentAccepted,))
    order.ordered((BlocksIndexed, IntentAccepted))
    order.ordered((IntentAccepted,))
    order.written(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert store.looks == 1
    order.written(1)
    while store.looks == 1:
        await asyncio.sleep(0)
    order.written(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert store.looks == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@in_loop
async def test_a_store_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "RETRY_S", 0)
    monkeypatch.setattr(receipts, "PAUSE_S", 0)
    store = Orders(waiting=[due(1)], is_away=True)
    order = order_of(store)
    with capture_logs() as logs:
        running = asyncio.create_task(order.run())
        while store.asked < 5:
            await asyncio.sleep(0)
        store.is_away = False
        await order.bell.wait(0)
    assert len(store.numbered) == 1
    assert [line["event"] for line in logs] == ["receipt.postponed"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@in_loop
async def test_whoever_asks_for_a_final_receipt_need_not_wait_for_its_number() -> None:
    store = Orders(waiting=[due(1)])
    order = order_of(store)
    place = await order.place_of_final(FIRST, intent_id(1))
    assert place is not None
    assert place.sequence == 1


@in_loop
async def test_a_deployment_is_of_the_domain_of_the_contract_to_come() -> None:
    nodes = (NodeName("node1"),)
    genesis = Genesis("pente", b"[]", (), nodes, nodes, 1, Mode.STATIC, Rotation.STICKY, 100, 8, 1337, bytes(32))
    deployment = an_intent(1, NO_CONTRACT, payload=encode_genesis(genesis))
    store = Orders(waiting=[DueReceipt(intent_id(1), NO_CONTRACT, Leaf(b"leaf"), deployment)])
    await order_of(store).look()
    assert [each.domain for each in store.numbered] == ["pente"]


@in_loop
async def test_many_who_come_to_a_receipt_at_once_have_it_looked_up_once() -> None:
    store, views = Orders(), Views()
    for number in range(1, 4):
        store.put(intent_id(number))
    source = source_of(store, views)
    found = await asyncio.gather(*(source.read(ReceiptDefinition(), ListenerPosition(0)) for _ in range(20)))
    assert {len(each.items) for each in found} == {3}
    assert len(views.made) == 3


@in_loop
async def test_who_could_not_look_looks_again() -> None:
    store, views = Orders(), Views(is_away=True)
    store.put(intent_id(1))
    source = source_of(store, views)
    with pytest.raises(Unavailable):
        await source.read(ReceiptDefinition(), ListenerPosition(0))
    views.is_away = False
    assert len((await source.read(ReceiptDefinition(), ListenerPosition(0))).items) == 1


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_node_that_goes_through_the_chain_again_is_waited_for(is_whole: bool) -> None:
    @in_loop
    async def run() -> None:
        store, views = Orders(), Views(is_behind=True)
        store.put(intent_id(1))
        source, wanted = source_of(store, views), ReceiptDefinition(has_domain_receipts=is_whole)
        with pytest.raises(Unavailable, match="waits for the index"):
            await source.read(wanted, ListenerPosition(0))
        views.is_behind = False
        assert len((await source.read(wanted, ListenerPosition(0))).items) == 1

    run()


@in_loop
async def test_a_batch_is_bounded_and_the_next_goes_on_behind_it() -> None:
    store = Orders()
    for number in range(1, PAGE + 51):
        store.put(intent_id(number))
    source, position, seen = source_of(store, Views()), ListenerPosition(0), []
    while True:
        found = await source.read(ReceiptDefinition(), position)
        assert len(found.items) <= RECEIPTS_A_BATCH_MAX
        seen += [each.sequence for each in found.items if isinstance(each, ReceiptView)]
        position = found.position
        if found.is_all:
            break
    assert seen == list(range(1, PAGE + 51))


@in_loop
async def test_filters_pass_over_what_is_not_wanted_without_looking_it_up() -> None:
    store, views = Orders(), Views()
    for number in range(1, 7):
        store.put(intent_id(number), "pente" if number % 2 else "noto", "public" if number == 3 else "private")
    source = source_of(store, views)
    wanted = ReceiptDefinition(type=TransactionType.PRIVATE, domain="pente")
    found = await source.read(wanted, ListenerPosition(0))
    assert [each.sequence for each in found.items if isinstance(each, ReceiptView)] == [1, 5]
    assert found.position == ListenerPosition(6)
    assert len(views.made) == 2


@in_loop
async def test_with_domain_receipts_they_come_whole_and_a_few_at_a_time() -> None:
    store = Orders()
    for number in range(1, 31):
        store.put(intent_id(number))
    found = await source_of(store, Views()).read(ReceiptDefinition(has_domain_receipts=True), ListenerPosition(0))
    assert len(found.items) == receipts.FULL_RECEIPTS_A_BATCH_MAX
    assert all(isinstance(each, FullReceipt) and each.domain_receipt for each in found.items)
    assert found.position == ListenerPosition(receipts.FULL_RECEIPTS_A_BATCH_MAX)


@in_loop
async def test_receipts_are_followed_from_what_is_there_into_what_comes() -> None:
    store = Orders()
    store.put(intent_id(1))
    source = source_of(store, Views())
    following = source.after(0)
    assert (await anext(following)).sequence == 1
    coming = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    store.put(intent_id(2))
    source.bell.ring()
    assert (await coming).sequence == 2


def test_a_definition_is_kept_as_it_was() -> None:
    source = source_of(Orders(), Views())
    wanted = ReceiptDefinition(3, TransactionType.PUBLIC, "noto", True)
    assert source.decode(source.encode(wanted)) == wanted


# Receipts that no longer hold.


@in_loop
async def test_view_of_a_receipt_that_no_longer_holds_is_not_kept() -> None:
    store, views = Orders(), Views()
    store.put(intent_id(1))
    order = order_of(store)
    source = ReceiptSource(order, store, views.view, views.full)  # type: ignore[arg-type]
    start = ListenerPosition(0)
    await source.read(ReceiptDefinition(), start)
    await source.read(ReceiptDefinition(), start)
    assert views.made == [intent_id(1)]
    order.finality_broke()
    await source.read(ReceiptDefinition(), start)
    assert views.made == [intent_id(1)] * 2


@in_loop
async def test_undone_receipts_are_counted_until_none_is_left_or_an_operator_acknowledges_them() -> None:
    store = Orders(undone=3)
    order = order_of(store)
    running = asyncio.create_task(order.run())
    while order.undone_open != 3:
        await asyncio.sleep(0)
    store.undone = 1
    order.look_soon()
    while order.undone_open != 1:
        await asyncio.sleep(0.001)
    assert await order.acknowledge_undone() == 1
    assert order.undone_open == 0
    running.cancel()


def test_receipt_that_no_longer_holds_is_shown_as_failed_with_its_code() -> None:
    place = NumberedReceipt(4, intent_id(1), FIRST, undone_leaf(intent_id(1)), "private", "noto", 7)
    assert place.is_undone
    view = undone_view(place)
    assert (view.success, view.failure_code, view.sequence) == (False, "FINALITY_BROKEN", 4)


@in_loop
async def test_held_receipt_is_waited_for_by_whoever_knows_that_it_is_final() -> None:
    store = Orders(waiting=[due(1)])
    held = [True]
    order = ReceiptOrder(store, lambda _: "noto", lambda found: () if held[0] else found)  # type: ignore[arg-type]
    asked = asyncio.ensure_future(order.place_of_final(FIRST, intent_id(1)))
    while not store.looks:
        await asyncio.sleep(0)
    assert not asked.done()
    held[0] = False
    order.release()
    place = await asked
    assert place is not None
    assert place.intent == intent_id(1)


@in_loop
async def test_held_receipt_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "HELD_S", 0.001)
    store = Orders(waiting=[due(1)])
    order = ReceiptOrder(store, lambda _: "noto", lambda _: ())  # type: ignore[arg-type]
    assert await order.place_of_final(FIRST, intent_id(1)) is None


@in_loop
async def test_receiver_does_not_learn_which_nodes_hold_other_states_of_a_transaction() -> None:
    store = Orders()
    store.put(intent_id(1))
    nodes = (NodeName("node1"), NodeName("node2"))
    place = PositionView(7, BlockHash(b"7"), contract=FIRST, leaf=Leaf(b"leaf"), nodes=nodes)

    async def view(_: NumberedReceipt) -> ReceiptView:
        return ReceiptView(intent_id(1), True, 1, 1, position=place, unacknowledged=(NodeName("node2"),))

    async def relation(_: NumberedReceipt, parties: tuple[str, ...]) -> Relation:
        return Relation.SENT if parties == ("alice",) else Relation.RECEIVED

    source = ReceiptSource(order_of(store), store, view, Views().full, relation)  # type: ignore[arg-type]
    (sent,) = (await source.read(ReceiptDefinition(parties=("alice",)), ListenerPosition(0))).items
    (received,) = (await source.read(ReceiptDefinition(parties=("bob",)), ListenerPosition(0))).items
    assert isinstance(sent, ReceiptView)
    assert isinstance(received, ReceiptView)
    assert (sent.position, sent.unacknowledged) == (place, (NodeName("node2"),))
    assert (received.position, received.unacknowledged) == (replace(place, nodes=()), ())


@in_loop
async def test_listener_held_to_parties_gets_their_receipts_with_numbers_of_its_own() -> None:
    store, views = Orders(), Views()
    relations = {1: Relation.SENT, 3: Relation.RECEIVED, 4: Relation.SENT}
    for number in range(1, 6):
        store.put(intent_id(number))

    async def relation(place: NumberedReceipt, parties: tuple[str, ...]) -> Relation | None:
        assert parties == ("alice",)
        return relations.get(place.sequence)

    source = ReceiptSource(order_of(store), store, views.view, views.full, relation)  # type: ignore[arg-type]
    held = source.decode(source.encode(ReceiptDefinition(parties=("alice",), has_domain_receipts=True)))
    found = await source.read(held, ListenerPosition(0))
    # Of what another party sent it gets the receipt, and not the states.
    assert [isinstance(each, FullReceipt) for each in found.items] == [True, False, True]
    assert [each.receipt if isinstance(each, FullReceipt) else each for each in found.items] == [
        ReceiptView(intent_id(1), True, 1, 1),
        ReceiptView(intent_id(3), True, 1, 2),
        ReceiptView(intent_id(4), True, 1, 3),
    ]
    assert (found.position, views.made) == (ListenerPosition(5, 3), [intent_id(1), intent_id(3), intent_id(4)])
    # It goes on from there after a restart, whatever others did meanwhile.
    for number in range(6, 9):
        store.put(intent_id(number))
    relations[8] = Relation.SENT
    (more,) = (await source.read(held, found.position)).items
    assert isinstance(more, FullReceipt)
    assert more.receipt.sequence == 4
    assert [each.local_id for each in more.public] == [0]
    # Without a relation no receipt is given.
    closed = source_of(store, views)
    assert (await closed.read(held, ListenerPosition(0))).items == ()
