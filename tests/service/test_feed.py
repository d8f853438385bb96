"""The live feed: a snapshot, then what changes, of each thing the latest, and never more than there is room for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.machine.effects import Effect, IntentAccepted, Persist, ReportReceipt
from rota.machine.events import MessageReceived, Tick
from rota.model.blocks import ChainBlock, MinedStatus, MinedTransaction
from rota.model.types import (
    BlockHash,
    ContractAddress,
    DelegationNumber,
    HeartbeatNumber,
    Mode,
    NodeName,
    Outcome,
    Receipt,
    RequestId,
)
from rota.rpc.credentials import CALLER, EVERY_ROLE, Caller
from rota.rpc.errors import Rejected
from rota.sequencer.effects import PermissionGranted
from rota.service.interface import (
    ContractSummary,
    FeedUpdate,
    Heartbeats,
    PeerMeasurements,
    RoundChange,
    TransactionChange,
)
from rota.service.watch import feed as feeds
from rota.service.watch import journeys
from rota.service.watch.feed import LiveFeed, Looks, Past
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, Envelope
from tests.store.kit import FIRST, PEER, SECOND, a_dispatch, a_transition, an_intent, in_loop, intent_id

NODE = NodeName("node1")
INTERVAL_MS = 1


@dataclass
class World:
    """What the feed looks at."""

    contracts: dict[ContractAddress, ContractSummary] = field(default_factory=dict)
    peers: tuple[PeerMeasurements, ...] = ()
    past: Past = Past()

    async def remembered(self, transactions: int, rounds: int) -> Past:
        return Past(self.past.rounds[:rounds], self.past.transactions[:transactions])

    def feed(self) -> LiveFeed:
        return LiveFeed(
            NODE,
            Looks(
                lambda: 5,
                lambda: 9,
                lambda: tuple(self.contracts),
                self.contracts.get,
                lambda _, intent: f"state of {intent[-1]}",
                lambda limit: tuple(TransactionChange(intent_id(n), 1, FIRST, state="Pending") for n in range(limit))[
                    :2
                ],
                lambda: self.peers,
                self.remembered,
            ),
        )


def summary(contract: ContractAddress) -> ContractSummary:
    return ContractSummary(contract, "noto", Mode.RING, is_loaded=True, coordinator_state="Idle")


@asynccontextmanager
async def watched(feed: LiveFeed) -> AsyncIterator[AsyncIterator[FeedUpdate]]:
    updates = feed.watch(INTERVAL_MS)
    try:
        yield updates
    finally:
        await updates.aclose()  # type: ignore[attr-defined]


def accepted(number: int) -> Effect:
    return Persist(FIRST, (IntentAccepted(an_intent(number)),))


def permitted(number: int) -> Effect:
    made = a_transition(number)
    return Persist(FIRST, (PermissionGranted(made.intent, DelegationNumber(1, 1), PEER, made.leaf, 0),))


@in_loop
async def test_the_first_update_is_a_snapshot() -> None:
    world = World({FIRST: summary(FIRST)}, (PeerMeasurements(PEER, True, 0, 0),))
    async with watched(world.feed()) as updates:
        first = await anext(updates)
        assert (first.number, first.height, first.is_snapshot, first.has_gap) == (1, 9, True, False)
        assert first.contracts == (summary(FIRST),)
        assert first.peers == world.peers
        assert [each.state for each in first.transactions] == ["Pending", "Pending"]


@in_loop
async def test_of_several_changes_of_a_transaction_the_latest_is_told_and_all_are_counted() -> None:
    feed = World().feed()
    async with watched(feed) as updates:
        await anext(updates)
        for effect in (accepted(1), accepted(2), permitted(1)):
            feed.saw_effect(effect)
        feed.saw_effect(ReportReceipt(Receipt(intent_id(2), Outcome.REVERTED, "no money")))
        update = await anext(updates)
        assert not update.is_snapshot
        told = {each.id: each for each in update.transactions}
        one, two = told[intent_id(1)], told[intent_id(2)]
        assert (one.milestone, one.state, one.by, one.contract) == ("permitted", "state of 1", PEER, FIRST)
        assert (two.milestone, two.has_failed, two.detail) == ("reported", True, "reverted: no money")
        assert {each.milestone: each.count for each in update.counts} == {"accepted": 2, "permitted": 1, "reported": 1}


@in_loop
async def test_a_transaction_has_all_its_milestones_as_steps_and_never_too_many() -> None:
    feed = World().feed()
    async with watched(feed) as updates:
        await anext(updates)
        feed.saw_effect(accepted(1))
        feed.saw_effect(permitted(1))
        (change,) = (await anext(updates)).transactions
        assert [(step.milestone, step.by) for step in change.steps] == [("accepted", None), ("permitted", PEER)]
        for _ in range(journeys.STEPS_MAX + 3):
            feed.saw_effect(permitted(1))
        (change,) = (await anext(updates)).transactions
        assert len(change.steps) == journeys.STEPS_MAX


@in_loop
async def test_heartbeats_are_counted_by_contract_and_node() -> None:
    feed = World().feed()
    async with watched(feed) as updates:
        await anext(updates)
        beat = CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE)
        for contract in (FIRST, FIRST, SECOND):
            feed.saw_event(MessageReceived(PEER, Envelope(contract, RequestId(1, 1), 1, 9, beat)))
        update = await anext(updates)
        assert update.heartbeats == (Heartbeats(FIRST, PEER, 2), Heartbeats(SECOND, PEER, 1))


@in_loop
async def test_a_contract_is_told_when_it_has_changed() -> None:
    world = World({FIRST: summary(FIRST), SECOND: summary(SECOND)})
    feed = world.feed()
    async with watched(feed) as updates:
        await anext(updates)
        world.contracts[FIRST] = replace(summary(FIRST), coordinator_state="Active", active_coordinator=NODE)
        feed.saw_effect(accepted(1))
        assert (await anext(updates)).contracts == (world.contracts[FIRST],)
        feed.saw_effect(accepted(2))
        assert (await anext(updates)).contracts == ()


@in_loop
async def test_rounds_are_told_when_dispatched_and_when_mined() -> None:
    feed = World().feed()
    async with watched(feed) as updates:
        await anext(updates)
        dispatch: RoundDispatch = a_dispatch(1, 4, (a_transition(1), a_transition(2)))
        feed.saw_effect(Persist(FIRST, (dispatch,)))
        mined = ChainBlock(
            7, BlockHash(b"7"), BlockHash(b"6"), 1, (), (MinedTransaction(4, MinedStatus.SUCCEEDED, gas_used=66_760),)
        )
        feed.saw_effect(Persist(FIRST, (BlocksIndexed(6, (mined,)),)))
        rounds = (await anext(updates)).rounds
        assert [(each.nonce, each.state, each.transaction_count, each.height) for each in rounds] == [
            (4, "dispatched", 2, None),
            (4, "succeeded", 0, 7),
        ]
        assert [each.gas_used for each in rounds] == [None, 66_760]


@in_loop
async def test_peers_are_told_when_they_have_changed() -> None:
    world = World()
    async with watched(world.feed()) as updates:
        await anext(updates)
        world.peers = (PeerMeasurements(PEER, False, 3, 0),)
        assert (await anext(updates)).peers == world.peers


@in_loop
async def test_all_milestones_are_counted_and_transactions_told_as_far_as_there_is_room() -> None:
    feed = World().feed()
    room = journeys.budget_of(INTERVAL_MS).begun
    async with watched(feed) as updates:
        await anext(updates)
        for number in range(room + 5):
            feed.saw_effect(accepted(number + 10))
        update = await anext(updates)
        assert [each.id for each in update.transactions] == [intent_id(number + 10) for number in range(room)]
        assert update.counts[0].count == room + 5


@in_loop
async def test_what_somebody_has_opened_is_told_also_where_there_is_no_room() -> None:
    feed = World().feed()
    opened = {intent_id(99)}
    updates = feed.watch(INTERVAL_MS, opened)
    try:
        await anext(updates)
        for number in (*range(10, 90), 99):
            feed.saw_effect(accepted(number))
        assert (await anext(updates)).transactions[-1].id == intent_id(99)
        opened.clear()
        for number in (*range(10, 90), 99):
            feed.saw_effect(permitted(number))
        assert intent_id(99) not in {each.id for each in (await anext(updates)).transactions}
    finally:
        await updates.aclose()  # type: ignore[attr-defined]


@in_loop
async def test_the_first_snapshot_begins_with_the_past_and_a_later_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "ROUNDS_MAX", 0)
    ended = TransactionChange(intent_id(7), 1, FIRST, "reported")
    sent = RoundChange(3, "succeeded", FIRST, transaction_count=64, height=8)
    feed = World(past=Past((sent,), (ended,))).feed()
    async with watched(feed) as updates:
        first = await anext(updates)
        assert first.rounds == (sent,)
        assert first.transactions[0] == ended
        assert [each.state for each in first.transactions[1:]] == ["Pending", "Pending"]
        feed.saw_effect(Persist(FIRST, (a_dispatch(1, 4, (a_transition(1),)),)))
        again = await anext(updates)
        assert (again.is_snapshot, again.rounds, ended in again.transactions) == (True, (), False)


@in_loop
async def test_of_many_contracts_that_changed_some_are_told_and_the_others_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journeys, "CONTRACTS_A_SECOND", 10)  # One in the shortest interval.
    world = World({FIRST: summary(FIRST), SECOND: summary(SECOND)})
    feed = world.feed()
    async with watched(feed) as updates:
        await anext(updates)
        for contract in (FIRST, SECOND):
            world.contracts[contract] = replace(summary(contract), coordinator_state="Active")
            feed.saw_effect(Persist(contract, (IntentAccepted(an_intent(1)),)))
        told = [(await anext(updates)).contracts, (await anext(updates)).contracts]
        assert told == [(world.contracts[FIRST],), (world.contracts[SECOND],)]


@in_loop
async def test_who_was_too_slow_is_told_of_a_gap_and_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ROUNDS_MAX", 1)
    world = World({FIRST: summary(FIRST)})
    feed = world.feed()
    async with watched(feed) as updates:
        await anext(updates)
        for nonce in range(3):
            feed.saw_effect(Persist(FIRST, (a_dispatch(1, nonce, (a_transition(1),)),)))
        update = await anext(updates)
        assert (update.is_snapshot, update.has_gap, update.contracts) == (True, True, (summary(FIRST),))
        feed.saw_effect(accepted(1))
        assert not (await anext(updates)).has_gap


@in_loop
async def test_nothing_is_noted_when_nobody_watches() -> None:
    feed = World().feed()
    seen = [feed.is_watched]
    async with watched(feed) as updates:
        await anext(updates)
        seen.append(feed.is_watched)
        feed.saw_event(Tick())
    assert [*seen, feed.is_watched] == [False, True, False]


@in_loop
async def test_a_bounded_number_may_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "FOLLOWERS_MAX", 1)
    feed = World().feed()
    async with watched(feed) as updates:
        await anext(updates)
        with pytest.raises(Rejected, match="at most 1"):
            await anext(feed.watch(INTERVAL_MS))


@in_loop
async def test_one_caller_takes_half_of_the_places_of_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "FOLLOWERS_MAX", 2)
    feed = World().feed()
    CALLER.set(Caller("one", EVERY_ROLE))
    async with watched(feed) as updates:
        await anext(updates)
        with pytest.raises(Rejected, match=r"at most 2 .* 1 of one caller"):
            await anext(feed.watch(INTERVAL_MS))
        CALLER.set(Caller("other", EVERY_ROLE))
        async with watched(feed) as others:
            await anext(others)


@in_loop
async def test_an_idle_node_tells_nothing() -> None:
    async with watched(World().feed()) as updates:
        await anext(updates)
        waiting = asyncio.ensure_future(anext(updates))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
