"""What a successor believes of a hand-over: what endorsers have signed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.model.types import FlushPoint, RequestId, StateId
from rota.sequencer import coordinator as rules
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.effects import VerifyEndorsers
from rota.sequencer.events import EndorsersVerified
from rota.sequencer.handover import ROUNDS_MAX
from rota.wire.messages import (
    AssembleRequest,
    EndorserSignature,
    HandedOver,
    HandedRound,
    Handover,
    HandoverReason,
    HandoverRequest,
)
from rota.wire.messages import CoordinatorState as State
from tests.sequencer.coordinator_bench import CoordinatorBench, active, elect, hand_over, handed, prepared, round_of
from tests.sequencer.kit import FORGED, GENESIS_S, A, B, C, contract, digest_of, intent_id, transition

SPENT = StateId(transition("X-1").leaf, 0)
POINT = handed("A-9", SPENT)
ROUND = round_of(POINT, B, C)


def answer(bench: CoordinatorBench, points: tuple[HandedOver, ...], rounds: tuple[HandedRound, ...]) -> None:
    request = bench.said(HandoverRequest, A)[-1]
    bench.hear(A, Handover(request.request_id, points, rounds), height=bench.sequencer.context.height)


def test_flush_point_that_endorsers_signed_is_waited_for_and_locks_what_it_spends() -> None:
    bench = elect()
    answer(bench, (POINT,), (ROUND,))
    assert bench.state() is State.PREPARED
    [placed] = bench.coordinator.graph.foreign()
    assert (placed.inputs, placed.valid_until_s) == ((SPENT,), ROUND.valid_until_s)


def forged() -> tuple[HandedOver, HandedRound]:
    return POINT, replace(ROUND, signatures=(EndorserSignature(B, b"by B"), EndorserSignature(C, FORGED)))


def signed_by_too_few() -> tuple[HandedOver, HandedRound]:
    return POINT, round_of(POINT, B)


def signed_twice_by_one() -> tuple[HandedOver, HandedRound]:
    return POINT, round_of(POINT, B, B)


def signed_by_strangers() -> tuple[HandedOver, HandedRound]:
    return POINT, round_of(POINT, A, B)


def of_another_round() -> tuple[HandedOver, HandedRound]:
    return POINT, round_of(handed("A-8"), B, C)


def not_in_its_round() -> tuple[HandedOver, HandedRound]:
    other = handed("A-8")
    return replace(POINT, point=FlushPoint(other.point.digest, POINT.point.intent)), round_of(other, B, C)


def of_another_intent() -> tuple[HandedOver, HandedRound]:
    return replace(POINT, point=POINT.point._replace(intent=intent_id("C-1"))), ROUND


def locking_more() -> tuple[HandedOver, HandedRound]:
    """The coins of others are added to what a real transition spends."""
    made = POINT.transition
    return replace(POINT, transition=replace(made, inputs=(*made.inputs, StateId(made.leaf, 7)))), ROUND


def with_false_content() -> tuple[HandedOver, HandedRound]:
    made = POINT.transition
    outputs = tuple(replace(state, content=b"a fortune") for state in made.outputs)
    return replace(POINT, transition=replace(made, outputs=outputs)), ROUND


def expired() -> tuple[HandedOver, HandedRound]:
    return lasting(POINT, GENESIS_S - 1)


def lasting_too_long() -> tuple[HandedOver, HandedRound]:
    return lasting(POINT, GENESIS_S + 100_000)


def lasting(point: HandedOver, valid_until_s: int) -> tuple[HandedOver, HandedRound]:
    digest = digest_of(point.transition.leaf, valid_until_s=valid_until_s)
    shown = replace(round_of(point, B, C), valid_until_s=valid_until_s)
    return replace(point, point=point.point._replace(digest=digest)), shown


def without_leaves() -> tuple[HandedOver, HandedRound]:
    return POINT, replace(ROUND, leaves=())


@pytest.mark.parametrize(
    "falsify",
    [
        forged,
        signed_by_too_few,
        signed_twice_by_one,
        signed_by_strangers,
        of_another_round,
        not_in_its_round,
        of_another_intent,
        locking_more,
        with_false_content,
        expired,
        lasting_too_long,
        without_leaves,
    ],
)
def test_flush_point_that_is_not_shown_to_be_one_locks_nothing_and_is_not_waited_for(
    falsify: Callable[[], tuple[HandedOver, HandedRound]],
) -> None:
    bench = elect()
    point, shown = falsify()
    answer(bench, (point,), (shown,))
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.graph.foreign() == ()
    [request] = bench.said(AssembleRequest, C)
    assert request.snapshot.locks == ()


def test_true_points_are_believed_beside_false_ones() -> None:
    bench = elect()
    other = handed("A-8")
    answer(bench, (POINT, other), (ROUND, round_of(other, B), ROUND))
    assert [placed.leaf for placed in bench.coordinator.graph.foreign()] == [POINT.transition.leaf]


def test_nothing_is_believed_before_it_is_verified_and_nothing_twice() -> None:
    bench = elect()
    bench.verifies = False
    answer(bench, (POINT,), (ROUND,))
    assert bench.state() is State.ELECT
    [order] = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(order.request_id, (True, True)))
    assert bench.state() is State.PREPARED
    bench.tell(EndorsersVerified(order.request_id, (True, True)))
    bench.tell(EndorsersVerified(RequestId(1, 99_999), (True, True)))
    assert len(bench.coordinator.graph.foreign()) == 1


def test_verdict_on_one_hand_over_is_not_taken_for_another_that_nobody_signed() -> None:
    """Both answer one request; the second comes while the first is being verified."""
    bench = elect()
    bench.verifies = False
    other = handed("A-8")
    answer(bench, (other,), (round_of(other, B, C),))
    point, shown = forged()
    answer(bench, (point,), (shown,))
    first, second = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(first.request_id, (True, True)))
    assert bench.state() is State.ELECT
    bench.tell(EndorsersVerified(second.request_id, (True, False)))
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.graph.foreign() == ()


def test_second_hand_over_with_more_signatures_does_not_stop_the_node() -> None:
    bench = elect()
    bench.verifies = False
    other = handed("A-8")
    answer(bench, (POINT,), (ROUND,))
    answer(bench, (POINT, other), (ROUND, round_of(other, B, C)))
    first, second = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(first.request_id, (True, True)))
    assert bench.state() is State.ELECT
    bench.tell(EndorsersVerified(second.request_id, (True,) * 4))
    assert bench.state() is State.PREPARED
    assert len(bench.coordinator.graph.foreign()) == 2


def test_no_more_signatures_are_verified_than_a_coordinator_has_rounds() -> None:
    bench = elect()
    bench.verifies = False
    points = tuple(handed(f"A-{number}") for number in range(ROUNDS_MAX + 10))
    answer(bench, points, tuple(round_of(point, B, C, A) for point in points))
    [order] = bench.take(VerifyEndorsers)
    assert len(order.signed) == 2 * ROUNDS_MAX


def test_contract_that_needs_no_signatures_takes_what_is_consistent() -> None:
    bench = CoordinatorBench(B, of=contract(A, B, C, endorsers=(), threshold=0), height=400)
    bench.beat(A)
    bench.delegate("C-1")
    answer(bench, (POINT,), (round_of(POINT),))
    assert bench.state() is State.PREPARED


def test_coordinator_that_has_its_answer_neither_repeats_its_request_nor_gives_up() -> None:
    bench = elect()
    timers, coordinator = bench.sequencer.context.timers, bench.coordinator
    assert [timers.is_set(coordinator, name) for name in ("request", "handover")] == [True, True]
    hand_over(bench)
    assert [timers.is_set(coordinator, name) for name in ("request", "handover")] == [False, False]


def test_coordinator_that_waited_long_enough_awaits_no_flush_point() -> None:
    bench = prepared(handed("C-7"))
    assert bench.coordinator.awaited
    bench.wait(600_000)
    assert bench.coordinator.awaited == {}


def test_coordinator_that_yields_to_a_better_rank_redirects_by_rank_alone() -> None:
    bench = active()
    bench.block(400)
    bench.ask_to_yield(B, HandoverReason.OUTRANKS)
    assert bench.coordinator.successor == B
    assert bench.coordinator.yielded_to is None


def test_one_that_was_asked_because_it_outranks_is_better_and_one_that_was_tried_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = elect()
    monkeypatch.setattr(Coordinator, "is_outranked_by", lambda *_: True)
    assert (bench.coordinator.asked, bench.coordinator.asked_because) == (A, HandoverReason.OUTRANKS)
    assert rules._is_better(bench.coordinator, A)
    bench.coordinator.asked_because = HandoverReason.TRIED
    assert not rules._is_better(bench.coordinator, A)


def test_elect_that_yields_drops_what_it_holds_and_names_its_successor() -> None:
    bench = elect(C)
    assert bench.coordinator.transactions
    bench.ask_to_yield(B)
    assert bench.coordinator.transactions == {}
    assert bench.coordinator.successor == B
