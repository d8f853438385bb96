"""Push-back by predicted wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.model.types import ContractAddress, IntentId, NodeName, SubmitMode
from rota.rpc.credentials import CALLER, EVERY_ROLE, Caller
from rota.rpc.errors import Overloaded
from rota.service.submissions import backlog
from rota.service.submissions.backlog import LEAST, MEASURED_S, RETRY_AFTER_MAX_S, WINDOW_S, Backlog, Moving, moving_of
from tests.service.kit import network
from tests.store.kit import in_loop

NODE1 = NodeName("node1")


class Load:
    """Transactions that are open and that ended, and a clock."""

    def __init__(self, wait_max_s: float = 30) -> None:
        self.now_s = 0.0
        self.moving = 0
        self.ended = 0
        self.asked = 0
        self.backlog = Backlog(lambda: self.now_s, self._moving, lambda: self.ended, wait_max_s)

    def _moving(self) -> int:
        self.asked += 1
        return self.moving

    def run(self, seconds: int, rate: int) -> bool:
        """Let time pass with transactions ending; whether one more was taken in each second of it."""
        taken = True
        for _ in range(seconds):
            self.now_s += 1
            self.ended += rate
            try:
                self.backlog.require_room()
            except Overloaded:
                taken = False
        return taken


def test_few_transactions_are_never_too_many() -> None:
    load = Load()
    load.moving = LEAST - 1
    assert load.run(1_000, rate=0)


def test_burst_into_a_quiet_node_is_taken() -> None:
    load = Load()
    assert load.run(100, rate=0)
    load.moving = 40_000
    assert load.run(int(MEASURED_S), rate=0)


def test_wait_is_what_moves_over_the_recent_rate() -> None:
    load = Load()
    load.moving = 5_900
    assert load.run(60, rate=200)
    load.moving = 6_200
    assert not load.run(2, rate=200)
    assert load.backlog.wait_s == pytest.approx(31)
    # The node has become faster, which is seen when the window has passed.
    load.run(31, rate=400)
    assert load.run(1, rate=400)


def test_node_that_ends_nothing_refuses_when_that_lasted_as_long_as_a_wait_may() -> None:
    load = Load(wait_max_s=45)
    load.moving = LEAST
    assert load.run(45, rate=0)
    assert not load.run(2, rate=0)
    load.moving = 0
    assert load.run(1, rate=0)


def test_refusal_says_when_to_try_again() -> None:
    load = Load()
    load.moving = 7_000
    load.run(20, rate=200)
    with pytest.raises(Overloaded) as refused:
        load.backlog.require_room()
    assert refused.value.retry_after_s == 5
    load.moving = 1_000_000
    load.run(1, rate=200)
    with pytest.raises(Overloaded) as refused:
        load.backlog.require_room()
    assert refused.value.retry_after_s == RETRY_AFTER_MAX_S


def test_overloaded_node_takes_a_transaction_of_a_caller_below_its_equal_part() -> None:
    load = Load()
    load.moving = 7_000
    load.run(20, rate=200)
    load.backlog.require_room(None, lambda room: room == pytest.approx(6_000))
    with pytest.raises(Overloaded):
        load.backlog.require_room(None, lambda _: False)


def test_transactions_are_counted_once_a_second() -> None:
    load = Load()
    load.moving = LEAST
    for _ in range(1_000):
        load.now_s += 0.01
        load.backlog.require_room()
    assert load.asked <= 11


def intents(first: int, count: int) -> frozenset[IntentId]:
    return frozenset(IntentId(number.to_bytes(16)) for number in range(first, first + count))


def test_contract_in_which_nothing_ends_keeps_no_other_contract_out() -> None:
    """Its members may be away for good: whoever submits 1,000 transactions there does not stop the node."""
    dead, alive = ContractAddress("0x" + "dd" * 20), ContractAddress("0x" + "aa" * 20)
    load = Load()
    known = Moving(lambda: load.now_s, 30)
    stuck = intents(1_000_000, LEAST)

    def moving() -> int:
        # One ends in each second, and another one comes.
        return known.count({dead: stuck, alive: intents(int(load.now_s), 3)})

    load.backlog = Backlog(lambda: load.now_s, moving, lambda: load.ended, 30, known.is_stuck)
    for _ in range(200):
        assert load.run(1, rate=1)
        load.backlog.require_room(alive)
    with pytest.raises(Overloaded, match="more than an hour"):
        load.backlog.require_room(dead, lambda _: True)
    # They have ended or were cancelled.
    stuck = intents(1_000_000, 1)
    load.run(1, rate=1)
    load.backlog.require_room(dead)


def test_transactions_count_in_a_contract_of_which_some_ended_lately() -> None:
    now_s, contract = 0.0, ContractAddress("0x" + "aa" * 20)
    known = Moving(lambda: now_s, 30)
    assert known.count({contract: intents(0, 10)}) == 0
    now_s = 1.0
    assert known.count({contract: intents(1, 10)}) == 10
    now_s = 1.0 + WINDOW_S
    assert known.count({contract: intents(1, 10)}) == 10
    now_s = 2.0 + WINDOW_S
    assert known.count({contract: intents(1, 10)}) == 0


@in_loop
async def test_node_that_is_behind_refuses_private_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAST", "SAMPLE_S", "MEASURED_S", "WINDOW_S"):
        monkeypatch.setattr(backlog, name, 0)
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        contract = await nodes.create([f"alice@{NODE1}"])
        facade = nodes.processes[NODE1].facade
        monkeypatch.setattr(facade._backlog, "_wait_max_s", 0.0)
        monkeypatch.setattr(facade._backlog, "_moving", lambda: 5)
        with pytest.raises(Overloaded):
            await nodes.submit(NODE1, contract, "mint")


@in_loop
async def test_callers_load_does_not_make_the_node_refuse_another_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        contract = await nodes.create([f"alice@{NODE1}"])
        load = nodes.processes[NODE1].facade._backlog
        greedy, modest = (Caller(name, EVERY_ROLE) for name in ("greedy", "modest"))
        CALLER.set(greedy)
        for _ in range(2):
            await nodes.submit(NODE1, contract, "mint", submit_mode=SubmitMode.EXTERNAL)
        monkeypatch.setattr(load, "_predicted_s", lambda _: 31.0)
        monkeypatch.setattr(load, "_sampled_s", 0.0)
        monkeypatch.setattr(load, "_rate", 0.05)
        with pytest.raises(Overloaded):
            await nodes.submit(NODE1, contract, "mint")
        CALLER.set(modest)
        await nodes.submit(NODE1, contract, "mint")


@in_loop
async def test_transactions_that_wait_for_a_prepared_one_do_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "LEAST", 0)
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        contract = await nodes.create([f"alice@{NODE1}"])
        running = nodes.processes[NODE1].running
        prepared = await nodes.submit(NODE1, contract, "mint", submit_mode=SubmitMode.EXTERNAL)
        while moving_of(running):
            await asyncio.sleep(0.01)
        first = await nodes.submit(NODE1, contract, "mint", depends_on=(prepared,))
        await nodes.submit(NODE1, contract, "mint", depends_on=(first,))
        transactions = running.engine.core.sequencers.loaded[contract].sender.transactions
        assert (len(transactions), moving_of(running)) == (3, {})
