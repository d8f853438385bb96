"""Deliveries that a peer has not acknowledged, read from the store in their order and as many as are asked for."""

from __future__ import annotations

from rota.chain.effects import RoundDispatch
from rota.exchange.distribution import DeliveriesRecalled, deliveries_of, delivery_bytes
from rota.exchange.effects import RecallDeliveries, StatesAcknowledged
from rota.machine.effects import TransitionPrepared
from rota.model.types import Digest, NodeName
from rota.node.node import OWN
from tests.store.kit import FIRST, NODE, PEER, Make, a_dispatch, a_prepared, a_transition, again, in_loop, opened_on

ALL = 1 << 40


def rounds() -> list[RoundDispatch]:
    return [a_dispatch(number, number, (a_transition(number, 7),)) for number in range(5)]


@in_loop
async def test_deliveries_are_recalled_in_their_order_up_to_a_count_and_a_size(make: Make) -> None:
    owed = [delivery for each in rounds() for delivery in deliveries_of(each.round, NODE) if delivery.peer == PEER]
    size = delivery_bytes(owed[0])
    async with opened_on(await make()) as opened:
        for each in rounds():
            await opened.write(OWN, each)
        first_two = DeliveriesRecalled(PEER, 1, tuple(owed[:2]), is_all=False)
        assert await opened.ask(RecallDeliveries(PEER, 1, 2, ALL)) == first_two
        assert await opened.ask(RecallDeliveries(PEER, 1, 5, 2 * size)) == first_two
        assert await opened.ask(RecallDeliveries(PEER, 2, 5, ALL)) == DeliveriesRecalled(
            PEER, 2, tuple(owed), is_all=True
        )
        one = DeliveriesRecalled(PEER, 1, tuple(owed[:1]), is_all=False)
        assert await opened.ask(RecallDeliveries(PEER, 1, 5, 1)) == one


@in_loop
async def test_acknowledged_deliveries_are_not_recalled_after_a_restart(make: Make) -> None:
    first, second, *_ = rounds()
    database = await make()
    async with opened_on(database) as opened:
        await opened.write(OWN, first)
        await opened.write(OWN, second)
        await opened.write(FIRST, StatesAcknowledged(first.round.digest, PEER))
        assert PEER in (await opened.store.restore(())).owed
    async with opened_on(again(database)) as opened:
        (left,) = [each for each in deliveries_of(second.round, NODE) if each.peer == PEER]
        assert await opened.ask(RecallDeliveries(PEER, 1, 5, ALL)) == DeliveriesRecalled(PEER, 1, (left,), is_all=True)
        await opened.write(FIRST, StatesAcknowledged(second.round.digest, PEER))
        assert await opened.ask(RecallDeliveries(PEER, 2, 5, ALL)) == DeliveriesRecalled(PEER, 2, (), is_all=True)
        assert PEER not in (await opened.store.restore(())).owed


@in_loop
async def test_delivery_of_a_prepared_transition_is_recalled(make: Make) -> None:
    prepared = TransitionPrepared(NodeName("node3"), a_prepared(a_transition(1, 7), 1_000))
    async with opened_on(await make()) as opened:
        await opened.write(FIRST, prepared)
        answer = await opened.ask(RecallDeliveries(PEER, 1, 5, ALL))
        assert isinstance(answer, DeliveriesRecalled)
        assert [each.digest for each in answer.deliveries] == [Digest(prepared.prepared.transition.leaf)]
