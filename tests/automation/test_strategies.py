"""When a node attempts a task: the seed's formula and backoff, the order of `rank`, and the closed form."""

from __future__ import annotations

import hashlib
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.automation.draws import Draws
from rota.automation.settings import BACK_MS, Strategy, TriggerSettings
from rota.automation.standing import Durations, LedgerClock, Standing
from rota.automation.strategies import Member, Turn, backoff_ms, group_of, order_of, random_delay_ms, turn_of, window_ms
from rota.bench.automation import measure_cell
from rota.sim.automation import ANSWER_MS, AutomationWorld, Conditions

SETTINGS = TriggerSettings()
MEMBERS = tuple(Member(f"node{number}") for number in range(13))


# Random.


def test_window_is_the_greater_of_all_durations_together_and_the_polling_interval() -> None:
    assert window_ms(SETTINGS, 13) == 65_000
    assert window_ms(SETTINGS, 6) == 30_000
    assert window_ms(SETTINGS, 1) == 30_000


def test_random_delay_is_uniform_in_the_window() -> None:
    draws = Draws(b"seed")
    delays = [random_delay_ms(SETTINGS, 13, draws) for _ in range(4_000)]
    assert 0 <= min(delays) < 200
    assert 64_800 < max(delays) < 65_000
    quarters = [sum(low <= delay < low + 16_250 for delay in delays) for low in range(0, 65_000, 16_250)]
    assert all(abs(count - 1_000) < 4 * sqrt(750) for count in quarters)


def test_backoff_begins_with_the_expected_duration_and_ends_at_twice_it() -> None:
    draws = Draws(b"seed")
    for retry, most_ms in ((0, 5_000), (1, 10_000), (2, 10_000), (40, 10_000)):
        delays = [backoff_ms(SETTINGS, retry, draws) for _ in range(200)]
        assert most_ms // 2 < min(delays)
        assert max(delays) <= most_ms
        assert len(set(delays)) > 100


def test_draws_of_one_seed_repeat_and_of_another_differ() -> None:
    first, again, other = Draws(b"a"), Draws(b"a"), Draws(b"b")
    drawn = [first.fraction() for _ in range(5)]
    assert drawn == [again.fraction() for _ in range(5)]
    assert drawn != [other.fraction() for _ in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "task_ms"), [(4, 2_000), (13, 2_000), (13, 5_000)])
def test_random_keeps_to_the_closed_form(nodes: int, task_ms: int) -> None:
    """E[duplicates] = nτ - τⁿ with τ = (t + time until seen)/W; the mean wait is W/(n + 1)."""
    count, seen_ms = 1_200, 300
    conditions = Conditions(task_ms=task_ms, seen_ms=seen_ms, is_seen_time_fixed=True, are_tasks_seen_at_once=True)
    world = AutomationWorld(7, [f"node{number}" for number in range(nodes)], Strategy.RANDOM, conditions)
    world.start()
    world.run_until(world.now_ms + 1_000)
    waits_ms = []
    for number in range(count):
        ready_ms = world.now_ms
        world.add(f"task {number}")
        world.run_until(world.now_ms + 100_000)
        waits_ms.append(world.board.done[f"task {number}"][0] - task_ms - ready_ms)
    tau = (task_ms + seen_ms) / window_ms(SETTINGS, nodes)
    expected = nodes * tau - tau**nodes
    found = (len(world.board.records) - count) / count
    # The number of duplicates varies about as a binomial one does.
    assert abs(found - expected) < 4 * sqrt(nodes * tau * (1 - tau) / count)
    mean_ms = window_ms(SETTINGS, nodes) / (nodes + 1)
    # The standard deviation of the shortest of n waits is a little less than its mean.
    assert abs(sum(waits_ms) / count - mean_ms) < 4 * mean_ms / sqrt(count)
    assert not world.disagreements()


# Rank.


def test_order_is_by_the_sha_256_of_task_and_node() -> None:
    order = order_of("epoch 7", MEMBERS)
    assert sorted(order) == sorted(MEMBERS)
    hashes = [hashlib.sha256(f"epoch 7/{member}".encode()).digest() for member in order]
    assert hashes == sorted(hashes)


def test_later_ranks_share_slots_in_doubling_groups() -> None:
    assert [group_of(place) for place in range(13)] == [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4]
    order = order_of("epoch 7", MEMBERS)
    for place, member in enumerate(order):
        turn = turn_of("epoch 7", member, MEMBERS, (), 1_000, 100)
        assert turn.start_ms(0) == 1_000 + 100 * group_of(place)
        assert turn.ahead == tuple(each for at, each in enumerate(order) if group_of(at) < group_of(place))


def test_who_missed_its_slots_stands_behind_all_others() -> None:
    natural = order_of("epoch 7", MEMBERS)
    turn = turn_of("epoch 7", natural[2], MEMBERS, (natural[0], natural[1]), 0, 100)
    assert turn.order == (*natural[2:], natural[0], natural[1])
    assert turn.group == 0


def test_slots_come_round_again_for_who_sees_a_task_late() -> None:
    turn = Turn(MEMBERS, 2, 1_000, 100)
    assert turn.start_ms(0) == 1_200
    assert turn.start_ms(1_250) == 1_250, "its slot is running"
    assert turn.start_ms(1_300) == 1_700, "there are five slots in a round"
    assert turn.start_ms(1_750) == 1_750
    assert turn.start_ms(1_800) == 2_200


@given(st.integers(1, 64), st.integers(0, 10**6), st.integers(1, 10_000), st.integers(0, 10**7))
def test_a_slot_is_never_over_when_an_attempt_begins_in_it(count: int, ready: int, slot: int, now: int) -> None:
    members = tuple(Member(f"node{number}") for number in range(count))
    groups = group_of(count - 1) + 1
    for member in members[:4]:
        turn = turn_of("task", member, members, (), ready, slot)
        start = turn.start_ms(now)
        assert now <= start <= max(now, ready) + (groups + 1) * slot
        assert (start - ready - turn.group * slot) % (groups * slot) < slot


def test_a_slot_follows_the_longest_measured_duration() -> None:
    durations = Durations(5_000)
    assert durations.slot_ms == 6_250
    for _ in range(15):
        durations.measured(2_000)
    assert durations.slot_ms == 6_250, "one of the first is still there"
    durations.measured(2_400)
    assert durations.slot_ms == 3_000
    durations.measured(7_000)
    assert durations.slot_ms == 8_750, "longer at once"
    for _ in range(20):
        durations.was_too_short()
    assert durations.slot_ms == 20_000, "and never longer than four expected ones"


def test_a_miss_sends_to_the_back_for_longer_each_time_and_a_win_brings_forward() -> None:
    standing, node = Standing(), Member("node1")
    standing.missed(node, 1_000, 0)
    assert standing.back(1_000 + BACK_MS - 1) == (node,)
    assert standing.back(1_000 + BACK_MS) == ()
    standing.missed(node, 100_000, 0)
    assert standing.back(100_000 + 2 * BACK_MS - 1) == (node,)
    standing.won(node, 200_000)
    assert standing.back(200_000) == ()
    standing.missed(node, 210_000, 150_000)
    assert standing.back(210_000) == (), "it was busy: it has won since the task was ready"
    standing.keep(())
    assert not standing.has_won_since(node, 0)


def test_clocks_that_differ_agree_on_the_time_of_the_ledger() -> None:
    fast, slow = LedgerClock(), LedgerClock()
    for second in range(20):
        fast.seen(second * 1_000, second * 1_000 + 4_000 + 50 * (second % 3))
        slow.seen(second * 1_000, second * 1_000 - 3_000 + 70 * (second % 4))
    assert fast.own_ms(30_000) == 34_000
    assert slow.own_ms(30_000) == 27_000
    assert fast.ledger_ms(34_000) == slow.ledger_ms(27_000) == 30_000
    assert LedgerClock().own_ms(5) == 5


def test_rank_without_chance_makes_no_duplicate_and_waits_for_nothing() -> None:
    """Where everybody is up and sees everything in the same time, the closed form is that of one attempt each."""
    conditions = Conditions(task_ms=2_000, seen_ms=300, is_seen_time_fixed=True, are_tasks_seen_at_once=True)
    world = AutomationWorld(7, MEMBERS, Strategy.RANK, conditions)
    world.start()
    world.run_until(world.now_ms + 1_000)
    for number in range(60):
        ready_ms = world.now_ms
        world.add(f"task {number}")
        world.run_until(world.now_ms + 10_000)
        done_ms, member = world.board.done[f"task {number}"]
        assert member == order_of(f"task {number}", MEMBERS)[0]
        # The ledger's time is known as late as its blocks are seen, and both checks take a moment.
        assert done_ms - ready_ms - 2_000 <= 300 + 2 * ANSWER_MS
    assert len(world.board.records) == 60


@pytest.mark.slow
def test_rank_makes_few_duplicates_and_does_not_wait() -> None:
    for down in (0, 4):
        cell = measure_cell(Strategy.RANK, 13, down, 2_000, 400)
        assert cell.duplicates <= 0.05
        assert cell.mean_s <= 3
        assert cell.p99_s <= measure_cell(Strategy.RANDOM, 13, down, 2_000, 400).p99_s
