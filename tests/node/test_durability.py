"""A node that cannot write counts as one without a ledger, until it can (decision 33)."""

from __future__ import annotations

from rota.machine.effects import Persist, SendMessage
from rota.model.config import Config
from rota.model.types import DelegationNumber, RequestId
from rota.node.durability import Durability
from rota.node.effects import StoreTried
from rota.wire.messages import Delegation, DelegationCommand, DelegationRejected, Rejection
from tests.node.node_bench import CONFIG, NodeBench, intent
from tests.sequencer.kit import A, B, C, contract

GRACE_MS = CONFIG.ledger_grace_ms
TRY_MS = CONFIG.request_timeout_ms


def failing() -> NodeBench:
    """Node A's intents and its own tries cannot be written; the first has just failed."""
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.failing = (object,)  # type: ignore[assignment]
    bench.submit("A-1")
    return bench


def test_node_whose_writes_fail_for_long_says_that_it_has_no_ledger() -> None:
    bench = failing()
    bench.wait(GRACE_MS - 1)
    before = bench.node.has_ledger
    bench.wait(TRY_MS)
    assert (before, bench.node.has_ledger, bench.node.index.is_lost) == (True, False, False)


def test_it_tries_to_write_and_is_back_when_that_succeeds() -> None:
    bench = failing()
    bench.wait(GRACE_MS + TRY_MS)
    tried = len(bench.records(StoreTried))
    assert tried == GRACE_MS // TRY_MS + 1
    bench.failing = ()
    bench.wait(TRY_MS)
    assert (bench.node.has_ledger, len(bench.records(StoreTried))) == (True, tried + 1)
    bench.wait(10 * TRY_MS)
    assert len(bench.records(StoreTried)) == tried + 1


def test_one_contracts_fault_is_not_the_stores() -> None:
    bench = failing()
    bench.failing = tuple(type(record) for write in bench.all(Persist) for record in write.records)
    for _ in range(2 * GRACE_MS // TRY_MS):
        bench.submit("A-2")
        bench.wait(TRY_MS)
    assert bench.node.has_ledger


def test_who_cannot_write_takes_no_delegation() -> None:
    bench = failing()
    bench.wait(GRACE_MS + TRY_MS)
    bench.hear(B, DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    answer = bench.all(SendMessage)[-1]
    assert isinstance(answer.envelope.body, DelegationRejected)
    assert (answer.envelope.body.rejection, answer.envelope.no_ledger) == (Rejection.NO_LEDGER, True)


def test_loss_and_return_are_told_once() -> None:
    known = Durability(Config())
    assert not known.take_written(0, succeeded=True)
    assert (known.try_at_ms, known.is_try_due(10_000)) == (None, False)
    assert not known.take_written(0, succeeded=False)
    assert (known.try_at_ms, known.is_try_due(TRY_MS - 1)) == (TRY_MS, False)
    assert known.is_try_due(TRY_MS)
    assert known.try_at_ms == 2 * TRY_MS
    assert not known.take_written(GRACE_MS - 1, succeeded=False)
    assert [known.take_written(GRACE_MS, succeeded=False) for _ in range(2)] == [True, False]
    assert [known.take_written(GRACE_MS, succeeded=True) for _ in range(2)] == [True, False]
