"""One trigger at one node, step by step: what it checks, when it begins, and what it makes of how that went."""

from __future__ import annotations

from rota.automation.breaker import BreakerState
from rota.automation.effects import CheckStaleness, KeepPause, KeepSetAside, ListTasks, Perform, ReportRun, Warn
from rota.automation.events import (
    LedgerTimeSeen,
    ListingFailed,
    MembersSeen,
    PauseRequested,
    ResumeRequested,
    RunOnceRequested,
    StalenessKnown,
    StalenessUnknown,
    Tick,
)
from rota.automation.settings import (
    BATCH_TASKS_MAX,
    BREAKER_FAILURES_MAX,
    BREAKER_OPEN_MS,
    REFUSALS_MAX,
    SET_ASIDE_MAX,
    TASKS_MAX,
    Strategy,
    TriggerSettings,
)
from rota.automation.strategies import Member, order_of
from rota.automation.tallies import Outcome
from rota.automation.triggers import Task
from tests.automation.kit import ME, NAME, OTHER, Bench, ids

RANK = TriggerSettings(strategy=Strategy.RANK)


# From a task to its action.


def test_a_task_is_checked_before_the_delay_and_after_it() -> None:
    bench = Bench()
    bench.find("a")
    assert ids(bench.take(CheckStaleness)[0]) == ("a",)
    bench.pass_ms(200_000)
    assert not bench.take(Perform), "without an answer nothing goes on"
    bench = Bench()
    bench.find("a")
    order = bench.until_performing()
    assert ids(order) == ("a",)
    bench.succeeded(order)
    assert bench.counts() == {"won": 1}
    assert not bench.duty.attempts.by_number


def test_what_is_done_before_the_delay_is_skipped() -> None:
    bench = Bench()
    bench.find("a")
    bench.stale("a")
    bench.pass_ms(200_000)
    assert not bench.take(Perform)
    assert bench.counts() == {"skipped": 1}


def test_what_is_done_after_the_delay_is_skipped() -> None:
    bench = Bench()
    bench.find("a")
    bench.fresh()
    bench.pass_ms(200_000)
    bench.stale("a")
    assert not bench.take(Perform)
    assert bench.counts() == {"skipped": 1}


def test_a_waiting_attempt_is_cancelled_as_soon_as_its_task_is_done() -> None:
    bench = Bench()
    bench.find("a")
    bench.fresh()
    assert bench.automation.next_deadline_ms() is not None
    bench.done("a")
    assert not bench.duty.attempts.by_number
    bench.pass_ms(200_000)
    assert not bench.take(CheckStaleness)
    assert bench.counts() == {"skipped": 1}


def test_a_task_that_is_no_longer_listed_is_cancelled() -> None:
    bench = Bench()
    bench.pass_ms(0)
    bench.one(ListTasks)
    bench.listed("a", "b")
    bench.fresh()
    bench.listed("b")
    assert list(bench.duty.attempts.by_task) == ["b"]


def test_a_task_of_an_event_stays_when_a_look_does_not_show_it_yet() -> None:
    bench = Bench()
    bench.find("a")
    bench.fresh()
    bench.listed()
    assert list(bench.duty.attempts.by_task) == ["a"]


def test_a_task_that_is_known_to_be_done_is_not_found_again() -> None:
    bench = Bench()
    bench.done("a")
    bench.find("a")
    assert not bench.take(CheckStaleness)


def test_a_task_that_is_not_ready_is_not_begun() -> None:
    bench = Bench(settings=RANK, members=(ME,))
    bench.find(Task("a", bench.now_ms + 50_000))
    bench.fresh()
    bench.pass_ms(49_999)
    assert not bench.take(CheckStaleness)
    bench.pass_ms(1)
    assert bench.take(CheckStaleness)


def test_polling_looks_at_every_interval_and_after_a_failure() -> None:
    bench = Bench()
    bench.tell(Tick())
    bench.one(ListTasks)
    bench.pass_ms(100_000)
    assert not bench.take(ListTasks), "one look at a time"
    bench.tell(ListingFailed(NAME, "the ledger is away"))
    assert bench.duty.trouble == "the ledger is away"
    bench.pass_ms(0)
    bench.one(ListTasks)
    bench.listed()
    assert bench.duty.trouble == ""
    bench.pass_ms(29_999)
    assert not bench.take(ListTasks)
    bench.pass_ms(1)
    bench.one(ListTasks)


def test_a_schedule_makes_one_task_for_each_period_of_the_ledgers_time() -> None:
    bench = Bench(period_ms=60_000, now_ms=600_000)
    bench.tell(LedgerTimeSeen(595_000))
    bench.tell(Tick())
    assert ids(bench.one(CheckStaleness)) == (f"{NAME}/9",)
    bench.pass_ms(4_999)
    assert not bench.take(CheckStaleness)
    bench.pass_ms(1)
    assert ids(bench.take(CheckStaleness)[-1]) == (f"{NAME}/10",)


def test_a_local_duty_knows_nobody_and_waits_for_nobody() -> None:
    bench = Bench(is_local=True)
    bench.find("a")
    bench.fresh()
    bench.fresh()
    assert ids(bench.one(Perform)) == ("a",)


def test_who_is_no_member_attempts_nothing_until_it_is_one() -> None:
    bench = Bench(members=(OTHER,))
    bench.find("a")
    bench.pass_ms(100_000)
    assert not bench.effects
    bench.tell(MembersSeen(NAME, (ME, OTHER)))
    bench.tell(Tick())
    bench.one(ListTasks)
    bench.listed("a")
    bench.fresh()
    bench.tell(MembersSeen(NAME, (OTHER,)))
    assert not bench.duty.attempts.by_number


# Strategies.


def test_rank_is_used_only_when_every_member_announces_it() -> None:
    bench = Bench(settings=RANK)
    used = [bench.duty.strategy]
    for ranked in ((ME,), (OTHER,)):
        bench.tell(MembersSeen(NAME, (ME, OTHER), ranked))
        used.append(bench.duty.strategy)
    assert used == [Strategy.RANK, Strategy.RANDOM, Strategy.RANK], "it need not hear its own"
    assert Bench().duty.strategy is Strategy.RANDOM


def test_the_first_of_the_order_begins_at_once_and_the_second_a_slot_later() -> None:
    first = next(f"task {n}" for n in range(99) if order_of(f"task {n}", (ME, OTHER))[0] == ME)
    second = next(f"task {n}" for n in range(99) if order_of(f"task {n}", (ME, OTHER))[0] == OTHER)
    bench = Bench(settings=RANK)
    bench.find(first, second)
    bench.fresh()
    assert ids(bench.one(CheckStaleness)) == (first,)
    bench.pass_ms(bench.duty.slot_ms)
    assert ids(bench.one(CheckStaleness)) == (second,)


def test_a_backlog_stays_with_whom_it_falls_to_while_that_one_is_at_work() -> None:
    tasks = [f"task {n}" for n in range(99) if order_of(f"task {n}", (ME, OTHER))[0] == OTHER][:2]
    bench = Bench(settings=RANK)
    bench.find(*tasks)
    bench.fresh()
    bench.pass_ms(bench.duty.slot_ms - 1)
    bench.done(tasks[0], OTHER)
    bench.pass_ms(1)
    assert not bench.take(CheckStaleness), "the other is alive and will come to it"
    bench.pass_ms(bench.duty.slot_ms)
    assert ids(bench.one(CheckStaleness)) == (tasks[1],)


# Parallelism and coalescing.


def test_no_more_tasks_are_at_work_than_allowed() -> None:
    bench = Bench(settings=TriggerSettings(parallel_tasks=2))
    bench.find("a", "b", "c")
    bench.fresh()
    bench.pass_ms(200_000)
    bench.fresh()
    orders = bench.take(Perform)
    assert len(orders) == 2
    bench.succeeded(orders[0])
    bench.fresh()
    assert len(bench.take(Perform)) == 1


def test_tasks_with_one_action_key_are_performed_together() -> None:
    bench = Bench()
    bench.find(*(Task(name, bench.now_ms, "locks") for name in "abc"), "d")
    bench.fresh()
    bench.pass_ms(200_000)
    bench.fresh()
    assert sorted(map(ids, bench.take(Perform))) == [("a", "b", "c"), ("d",)]


def test_a_batch_is_bounded() -> None:
    bench = Bench()
    bench.find(*(Task(f"{n}", bench.now_ms, "locks") for n in range(BATCH_TASKS_MAX + 1)))
    sizes = [len(each.tasks) for each in bench.duty.attempts.by_number.values()]
    assert sizes == [BATCH_TASKS_MAX, 1]


def test_tasks_beyond_the_bound_wait_for_a_later_look() -> None:
    bench = Bench()
    bench.find(*(f"{n}" for n in range(TASKS_MAX + 5)))
    assert len(bench.duty.attempts.by_task) == TASKS_MAX
    assert str(TASKS_MAX) in bench.one(Warn).text
    bench.find("one more")
    assert not bench.take(Warn), "it was told"


def test_of_a_batch_only_what_is_done_is_cancelled() -> None:
    bench = Bench()
    bench.find(*(Task(name, bench.now_ms, "locks") for name in "abc"))
    bench.fresh()
    bench.done("b")
    order = bench.until_performing()
    assert ids(order) == ("a", "c")


# How it went.


def test_a_refusal_of_what_somebody_else_has_done_is_a_lost_race() -> None:
    bench = Bench()
    bench.find("a")
    order = bench.until_performing()
    bench.refused(order, "TooEarly")
    bench.stale("a")
    assert bench.counts() == {"lost": 1}
    assert not bench.duty.attempts.by_number


def test_a_success_that_performed_another_task_is_no_success_for_this_one() -> None:
    bench = Bench()
    bench.find("epoch 5", "epoch 6")
    bench.fresh()
    bench.pass_ms(200_000)
    bench.fresh()
    first, second = bench.take(Perform)
    bench.succeeded(first, "epoch 6")
    bench.stale("epoch 5")
    bench.refused(second)
    bench.stale("epoch 6")
    assert bench.count(Outcome.WON) == 1
    assert bench.count(Outcome.LOST) == 2


def test_a_refused_task_is_tried_again_with_backoff_and_then_set_aside() -> None:
    bench = Bench()
    bench.find("a")
    bench.fresh()
    bench.pass_ms(200_000)
    for number in range(REFUSALS_MAX):
        bench.fresh()
        bench.refused(bench.one(Perform), f"refusal {number}")
        assert not bench.take(KeepSetAside)
        bench.fresh()
        bench.pass_ms(10_000)
    assert bench.take(KeepSetAside) == [KeepSetAside(NAME, "a", "refusal 2")]
    assert "a is set aside after 3 refusals: refusal 2" in bench.one(Warn).text
    assert bench.duty.set_aside == {"a": "refusal 2"}
    assert bench.counts() == {"failed": REFUSALS_MAX}
    bench.find("a")
    bench.listed("a")
    bench.pass_ms(200_000)
    assert not bench.take(Perform)
    bench.done("a")
    assert bench.take(KeepSetAside) == [KeepSetAside(NAME, "a", None)]


def test_what_an_earlier_life_set_aside_is_not_tried() -> None:
    bench = Bench(set_aside=(("a", "bad"),))
    bench.find("a", "b")
    assert ids(bench.one(CheckStaleness)) == ("b",)


def test_the_list_of_what_is_set_aside_is_bounded() -> None:
    bench = Bench(set_aside=tuple((f"{n}", "bad") for n in range(SET_ASIDE_MAX)))
    bench.find("a")
    bench.fresh()
    bench.pass_ms(200_000)
    for _ in range(REFUSALS_MAX):
        bench.fresh()
        bench.refused(bench.one(Perform))
        bench.fresh()
        bench.pass_ms(10_000)
    assert bench.take(KeepSetAside) == [KeepSetAside(NAME, "a", "no"), KeepSetAside(NAME, "0", None)]
    assert len(bench.duty.set_aside) == SET_ASIDE_MAX


def test_a_batch_with_a_bad_task_is_halved_until_it_is_found() -> None:
    bench = Bench()
    bench.find(*(Task(name, bench.now_ms, "locks") for name in "abcdefgh"))
    order = bench.until_performing()
    orders = [order]
    won: list[str] = []
    for _ in range(40):
        if not orders:
            bench.pass_ms(10_000)
        for each in orders:
            if "c" in ids(each):
                bench.refused(each)
            else:
                won += ids(each)
                bench.succeeded(each)
        bench.fresh()
        orders = bench.take(Perform)
        bench.fresh()
        orders += bench.take(Perform)
    assert sorted(won) == list("abdefgh")
    assert list(bench.duty.set_aside) == ["c"]
    assert bench.duty.breaker.opened == 0, "one bad task says nothing of the trigger"


def test_a_transaction_of_which_nothing_was_heard_may_have_been_ours() -> None:
    bench = Bench()
    bench.find("a")
    bench.away(bench.until_performing())
    bench.done("a", ME)
    bench.stale("a")
    assert bench.counts() == {"won": 1}
    bench = Bench()
    bench.find("a")
    bench.away(bench.until_performing())
    bench.fresh()
    bench.done("a", ME)
    assert bench.counts() == {"failed": 1, "won": 1}


def test_the_worlds_failures_set_no_task_aside() -> None:
    bench = Bench()
    bench.find("a")
    bench.away(bench.until_performing())
    bench.fresh()
    for _ in range(REFUSALS_MAX + 1):
        bench.pass_ms(BREAKER_OPEN_MS * 20)
        bench.fresh()
        for order in bench.take(Perform):
            bench.away(order)
        bench.fresh()
    assert not bench.duty.set_aside
    assert bench.duty.breaker.opened


def test_a_check_without_an_answer_is_no_reason_to_perform() -> None:
    bench = Bench()
    bench.find("a")
    (check,) = bench.take(CheckStaleness)
    bench.tell(StalenessUnknown(NAME, check.attempt, "away"))
    bench.pass_ms(100_000)
    (check,) = bench.take(CheckStaleness)
    bench.tell(StalenessUnknown(NAME, check.attempt, "away"))
    assert not bench.take(Perform)
    assert bench.counts() == {"failed": 1}
    bench.pass_ms(10_000)
    assert bench.take(CheckStaleness), "again"


def test_answers_to_what_is_not_asked_any_more_are_nothing() -> None:
    bench = Bench()
    bench.tell(StalenessKnown(NAME, 77, ("a",)))
    bench.tell(StalenessUnknown(NAME, 77, "away"))
    bench.find("a")
    order = bench.until_performing()
    bench.succeeded(order)
    bench.succeeded(order)
    bench.refused(order)
    assert bench.counts() == {"won": 1}


# The breaker.


def break_it(bench: Bench) -> None:
    bench.find(*(f"{n}" for n in range(BREAKER_FAILURES_MAX)))
    bench.fresh()
    bench.pass_ms(200_000)
    for _ in range(BREAKER_FAILURES_MAX):
        bench.fresh()
        for order in bench.take(Perform):
            bench.refused(order)
        bench.fresh()
    assert "its breaker is open" in bench.take(Warn)[-1].text


def test_different_tasks_refused_in_a_row_open_the_breaker() -> None:
    bench = Bench()
    break_it(bench)
    assert bench.duty.breaker.state(bench.now_ms) is BreakerState.OPEN
    bench.pass_ms(BREAKER_OPEN_MS - 1)
    assert not bench.take(Perform)


def test_one_attempt_shows_whether_a_trigger_works_again() -> None:
    bench = Bench()
    break_it(bench)
    bench.pass_ms(BREAKER_OPEN_MS + 10_000)
    bench.fresh()
    order = bench.one(Perform)
    bench.refused(order)
    bench.fresh()
    assert bench.duty.breaker.state(bench.now_ms) is BreakerState.OPEN, "for twice as long"
    bench.pass_ms(2 * BREAKER_OPEN_MS + 10_000)
    bench.fresh()
    bench.succeeded(bench.one(Perform))
    assert bench.duty.breaker.state(bench.now_ms) is BreakerState.CLOSED
    bench.fresh()
    assert len(bench.take(Perform)) > 1


def test_a_lost_race_does_not_open_the_breaker() -> None:
    bench = Bench()
    for number in range(3 * BREAKER_FAILURES_MAX):
        bench.find(f"{number}")
        bench.refused(bench.until_performing())
        bench.stale(f"{number}")
    assert bench.duty.breaker.opened == 0


# Operators.


def test_a_paused_trigger_begins_nothing_and_ends_what_it_began() -> None:
    bench = Bench()
    bench.find("a")
    order = bench.until_performing()
    bench.find("b")
    bench.fresh()
    bench.tell(PauseRequested(NAME))
    assert bench.take(KeepPause) == [KeepPause(NAME, is_paused=True)]
    bench.effects.clear()
    bench.find("c")
    bench.pass_ms(200_000)
    assert not bench.effects
    bench.succeeded(order)
    assert bench.counts() == {"won": 1}


def test_a_resumed_trigger_looks_at_once_and_tries_what_was_set_aside() -> None:
    bench = Bench(is_paused=True, set_aside=(("a", "bad"),))
    bench.pass_ms(100_000)
    assert not bench.effects
    bench.tell(ResumeRequested(NAME))
    assert bench.take(KeepPause) == [KeepPause(NAME, is_paused=False)]
    assert bench.take(KeepSetAside) == [KeepSetAside(NAME, "a", None)]
    bench.pass_ms(0)
    bench.one(ListTasks)
    bench.listed("a")
    assert ids(bench.one(CheckStaleness)) == ("a",)


def test_run_once_attempts_everything_at_once_even_when_paused() -> None:
    bench = Bench(is_paused=True, set_aside=(("b", "bad"),))
    bench.tell(RunOnceRequested(NAME))
    bench.one(ListTasks)
    bench.tell(RunOnceRequested(NAME))
    bench.listed("a", "b", Task("later", bench.now_ms + 1))
    bench.fresh()
    first, second = bench.take(Perform)
    bench.succeeded(first)
    assert not bench.take(ReportRun)
    bench.refused(second, "bad still")
    bench.fresh()
    assert bench.one(ReportRun) == ReportRun(NAME, 1, 0, 0, 1, "bad still")
    assert bench.duty.is_paused
    assert not bench.duty.attempts.by_number
    bench.pass_ms(200_000)
    assert not bench.take(Perform), "once"


def test_run_once_with_nothing_to_do_ends_at_once() -> None:
    bench = Bench()
    bench.tell(RunOnceRequested(NAME))
    bench.listed()
    assert bench.one(ReportRun) == ReportRun(NAME, 0, 0, 0, 0)
    bench.tell(RunOnceRequested(NAME))
    bench.tell(ListingFailed(NAME, "away"))
    assert bench.one(ReportRun) == ReportRun(NAME, 0, 0, 0, 0, "away")


def test_run_once_of_a_stranger_says_why_not() -> None:
    bench = Bench(members=(Member("other"),))
    bench.tell(RunOnceRequested(NAME))
    assert "no member" in bench.one(ReportRun).trouble
