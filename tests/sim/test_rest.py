"""L6 and L7, each by itself: a network that is quiet when all has ended, and work that is bounded."""

from __future__ import annotations

import pytest

from rota.model.types import NodeName
from rota.sim.facts import Assembled, CalmPassed, Fact, FaultsEnded, HeartbeatSeen, Quiet, Skipped, Submitted, Wanted
from rota.sim.invariants import EVERY, Judge, Terms
from rota.sim.invariants.rest import BUDGETS, CHANGES_IN_RANGE_MAX
from rota.sim.services import verify
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, StateDistribution
from tests.sim.test_invariants import ADDRESS, CONTRACT, ID, INTENT, MADE, A, B, C, dispatch, recorded


def judged(*facts: Fact) -> Judge:
    judge = Judge(Terms((A, B, C), {ADDRESS: CONTRACT}, 3, verify), EVERY)
    for fact in facts:
        judge.tell(fact)
    judge.conclude()
    return judge


def is_wrong(name: str, *facts: Fact) -> bool:
    return name in {violation.invariant for violation in judged(*facts).found}


def test_what_waits_for_nothing_ends_in_the_calm() -> None:
    assert not is_wrong("L6", CalmPassed(120_000, ()))
    assert is_wrong("L6", CalmPassed(120_000, (ID,)))


def test_network_that_has_nothing_left_to_do_sends_heartbeats_alone() -> None:
    assert not is_wrong("L6", Quiet(True, 0, 10_000, {CoordinatorHeartbeat.__name__: 7}))
    assert is_wrong("L6", Quiet(True, 0, 10_000, {StateDistribution.__name__: 1}))
    assert is_wrong("L6", Quiet(False, 400_000, 10_000, {})), "it never came to rest"


@pytest.mark.parametrize(("kind", "fact"), [("assemblies", Assembled(A, ADDRESS, MADE)), ("skips", Skipped(ID, ""))])
def test_intent_of_the_calm_time_keeps_its_budget(kind: str, fact: Fact) -> None:
    begun = (FaultsEnded(0), Wanted(A, INTENT, frozenset()))
    enough = (fact,) * BUDGETS[kind]
    assert not is_wrong("L7", *begun, *enough)
    assert is_wrong("L7", *begun, *enough, fact)
    assert not is_wrong("L7", begun[1], begun[0], *enough, fact), "it was asked for under faults"


def test_dispatches_count_for_each_intent_and_transactions_that_are_sent_again_as_waste() -> None:
    begun = (FaultsEnded(0), Wanted(A, INTENT, frozenset()))
    order = dispatch(0, MADE)
    most = BUDGETS["dispatches"]
    written = [recorded(B, dispatch(nonce, MADE)) for nonce in range(most)]
    assert not is_wrong("L7", *begun, *written)
    assert is_wrong("L7", *begun, *written, recorded(B, dispatch(most, MADE)))
    work = judged(*begun, Submitted(B, order), Submitted(B, order)).work()
    assert (work["transactions"], work["resends"]) == (2, 1)


def test_coordinators_do_not_take_turns_in_one_range() -> None:
    def beat(node: NodeName, state: CoordinatorState = CoordinatorState.ACTIVE) -> HeartbeatSeen:
        return HeartbeatSeen(node, ADDRESS, state, 0, 0)

    turns = [
        each
        for node, other in ((A, B), (B, A)) * (CHANGES_IN_RANGE_MAX // 2 + 1)
        for each in (beat(node), beat(other, CoordinatorState.CLOSING), beat(node))
    ]
    assert not is_wrong("L7", FaultsEnded(0), *turns[: 3 * (CHANGES_IN_RANGE_MAX + 1)])
    assert is_wrong("L7", FaultsEnded(0), *turns)
    # Two that are active for a while, as after a demotion, are one change.
    assert not is_wrong("L7", FaultsEnded(0), *[beat(node) for node in (A, B) * (CHANGES_IN_RANGE_MAX + 1)])
