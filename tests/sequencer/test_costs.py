"""One step of a coordinator costs as much as what it concerns, however much members have it hold (trust, T4).

What is counted are looks into the graph's table of placed transitions: a walk through the table counts as its length.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rota.model.types import Leaf, StateId
from rota.sequencer import graph, quotas
from rota.sequencer.graph import Placed
from rota.wire.messages import AssembleRequest, EndorsementRequest
from tests.sequencer.coordinator_bench import CoordinatorBench, active, elect, endorsed_by_others, hand_over, handed
from tests.sequencer.kit import B, C

NOTARISED = endorsed_by_others(endorsers=(C,))
# Twice as many take less than this many times as long; a quadratic cost would be four times as high.
GROWTH_MAX = 3


class Counted(dict[Leaf, Placed]):
    """A table that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, leaf: Leaf) -> Placed:
        self.looks += 1
        return super().__getitem__(leaf)

    def values(self) -> Iterator[Placed]:  # type: ignore[override]
        self.looks += len(self)
        return iter(super().values())


def counting(bench: CoordinatorBench) -> Counted:
    """From now on looks are counted."""
    counted = Counted(bench.coordinator.graph.placed)
    bench.coordinator.graph.placed = counted
    return counted


def with_waiting(count: int) -> CoordinatorBench:
    """B has so many transitions assembled, of which most wait for a round."""
    bench = active(of=NOTARISED)
    bench.delegate(*(f"B-{number}" for number in range(1, count + 1)))
    while any(True for _ in bench.said(AssembleRequest, B)):
        bench.assemble()
        bench.asked(EndorsementRequest)
    return bench


def looks_of_isolating(count: int) -> int:
    bench = with_waiting(count)
    counted = counting(bench)
    bench.coordinator.isolate(B)
    assert len(bench.coordinator.rounds.apart) == count
    return counted.looks


def test_fault_of_a_member_with_many_transitions_costs_no_more_for_each_than_with_few() -> None:
    """The attack: one fault of a member with 3,300 waiting transitions stopped its coordinator for half a minute."""
    assert looks_of_isolating(320) < GROWTH_MAX * looks_of_isolating(160)


def looks_of_a_hand_over(count: int) -> int:
    bench = elect()
    counted = counting(bench)
    hand_over(bench, *(handed(f"D-{n}", StateId(Leaf(n.to_bytes(32, "big")), 0)) for n in range(1, count + 1)))
    assert len(bench.coordinator.awaited) == count
    return counted.looks


def test_hand_over_of_many_flush_points_costs_no_more_for_each_than_of_few() -> None:
    """The attack: a coordinator that handed 4,096 endorsed transitions over stopped its successor for seconds."""
    assert looks_of_a_hand_over(60) <= GROWTH_MAX * looks_of_a_hand_over(30)


def test_room_in_a_snapshot_is_known_without_a_look_at_all_states_that_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attack: from half of a snapshot on, each transition of a member took five milliseconds of its coordinator."""
    for module in (graph, quotas):
        monkeypatch.setattr(module, "SNAPSHOT_STATES_MAX", 64)
    bench = with_waiting(40)
    held = next(iter(bench.coordinator.transactions.values()))
    counted = counting(bench)
    assert bench.coordinator.quotas.may_offer(held.sender, held.made)
    assert counted.looks == 0
