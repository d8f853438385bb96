"""What the store says late, or not at all, of a sender's records."""

from __future__ import annotations

import pytest

from rota.machine.effects import Persist, ReplyToUser
from rota.machine.events import CancelRequested, ConnectionLost, Persisted, PersistFailed
from rota.model.blocks import LedgerStatus
from rota.model.types import RequestId
from rota.sequencer.events import AssemblyFinished, BlocksRemoved
from rota.sequencer.states.sender_transaction import State
from rota.wire.messages import AssemblyOutcome
from tests.sequencer import test_sender as s
from tests.sequencer import test_sender_transaction as x
from tests.sequencer.kit import GENESIS_S, B, C


def test_when_nobody_answers_a_sticky_walk_starts_again_from_the_first() -> None:
    bench = s.bench_of_sender("A-1", of=s.WITHOUT_US)
    bench.wait(2_000)
    bench.forget()
    bench.wait(1_001)
    assert s.told(bench)[0] == B


@pytest.mark.parametrize("is_written", [False, True])
def test_second_cancel_shares_the_fate_of_the_first(is_written: bool) -> None:
    bench = x.assembled()
    bench.write()
    bench.forget()
    bench.tell(CancelRequested("first", x.ID))
    bench.tell(CancelRequested("second", x.ID))
    (decision,) = bench.take(Persist)
    bench.tell(Persisted(decision.token) if is_written else PersistFailed(decision.token, "disk full"))
    replies = bench.take(ReplyToUser)
    assert [reply.reply_to for reply in replies] == ["first", "second"]
    assert [reply.error == "" for reply in replies] == [is_written, is_written]
    assert x.machine(bench).is_voiding == is_written


def test_intent_whose_parking_was_not_written_moves_when_its_coordinator_is_gone() -> None:
    bench = x.assembling()
    bench.tell(AssemblyFinished(RequestId(1, 10), x.ID, AssemblyOutcome.PARKED, reason="not yet"))
    x.fail_write(bench)
    bench.tell(ConnectionLost(B))
    assert x.numbers(bench, C) == [x.SECOND]


def test_cancel_that_was_not_written_does_not_end_what_a_reorganisation_brings_back() -> None:
    bench = x.assembled()
    bench.tell(CancelRequested("canceller", x.ID))
    bench.block(x.HEIGHT + 1, x.outcome())
    x.fail_write(bench)
    bench.tell(BlocksRemoved(x.HEIGHT, (x.outcome(),)))
    assert x.state(bench) is State.SUBMITTED


def test_user_who_was_told_that_a_cancel_failed_is_not_told_that_it_succeeded() -> None:
    bench = x.assembled()
    bench.forget()
    bench.tell(CancelRequested("canceller", x.ID))
    (cancel,) = bench.take(Persist)
    x.final_at(bench, x.HEIGHT + 1, GENESIS_S + 601)
    bench.tell(PersistFailed(cancel.token, "disk full"))
    bench.write()
    assert len(bench.take(ReplyToUser)) == 1


def test_late_write_of_an_earlier_permission_is_not_told_and_says_nothing_of_the_present_one() -> None:
    bench = x.asked()
    (earlier,) = bench.take(Persist)
    x.ask_assembly(bench, 11)
    x.finish_assembly(bench, 11, version=1)
    x.ask_permission(bench, 21, number=x.SECOND, version=1)
    bench.tell(Persisted(earlier.token))
    assert x.permitted(bench) == []
    assert not x.machine(bench).is_permission_durable


def test_failed_write_of_an_earlier_permission_does_not_withdraw_the_present_one() -> None:
    bench = x.asked()
    (earlier,) = bench.take(Persist)
    x.ask_assembly(bench, 11)
    x.finish_assembly(bench, 11, version=1)
    x.ask_permission(bench, 21, number=x.SECOND, version=1)
    bench.tell(PersistFailed(earlier.token, "disk full"))
    bench.write()
    assert x.permitted(bench) == [(RequestId(1, 21), B)]


def test_permission_that_was_not_written_makes_no_dispatch_credible_after_its_delegate_asked_anew() -> None:
    bench = x.asked()
    x.ask_assembly(bench, 11)
    x.fail_write(bench)
    x.list_dispatched(bench)
    assert x.state(bench) is State.ASSEMBLING


def test_failure_whose_block_is_indexed_again_counts_once() -> None:
    bench = x.submitted()
    failed = x.outcome(LedgerStatus.SKIPPED)
    for _ in range(2):
        bench.block(x.HEIGHT + 1, failed)
        bench.tell(BlocksRemoved(x.HEIGHT, (failed,)))
    assert bench.sequencer.sender.transactions[x.ID].revert_count == 1
