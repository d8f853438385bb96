"""Coordinators choose the ids of their requests, and two that lie together may share one (trust rule 5).

What our own domain or signer answers is matched by an id of our own, one for each order.
"""

from __future__ import annotations

import pytest

from rota.machine.events import ConnectionLost
from rota.model.types import NodeName, RequestId, StateId
from rota.sequencer.effects import AssembleIntents, SignTransition
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, TransitionSigned
from rota.sequencer.sender_transaction import State
from rota.wire.messages import AssembleRequest, AssembleResponse, AssemblyOutcome, Snapshot
from tests.sequencer.kit import B, Bench, C, transition
from tests.sequencer.test_sender_transaction import HEIGHT, ID, accept, delegated, state

# Above every id that the bench's own node draws.
SHARED = RequestId(1, 1_000)
LOCKED = Snapshot(locks=(StateId(transition("X-1").leaf, 0),))


def ask(bench: Bench, peer: NodeName, snapshot: Snapshot) -> AssembleIntents:
    bench.hear(peer, AssembleRequest(SHARED, (ID,), snapshot), height=HEIGHT)
    [order] = bench.take(AssembleIntents)
    return order


def move_to_c(bench: Bench) -> None:
    bench.tell(ConnectionLost(B))
    accept(bench, C)


def asked_by_two() -> tuple[Bench, AssembleIntents, AssembleIntents]:
    """B has the intent assembled on a snapshot that locks its coins, then C under the same id on an empty one."""
    bench = delegated()
    first = ask(bench, B, LOCKED)
    move_to_c(bench)
    return bench, first, ask(bench, C, Snapshot())


@pytest.mark.parametrize("outcome", [AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_coordinators_that_share_a_request_id_end_nothing_by_a_snapshot_of_the_first(outcome: AssemblyOutcome) -> None:
    bench, first, second = asked_by_two()
    bench.tell(AssemblyFinished(first.request_id, ID, outcome, reason="no funds"))
    assert state(bench) is State.ASSEMBLING
    bench.tell(AssemblyFinished(second.request_id, ID, AssemblyOutcome.ASSEMBLED, transition("A-1", signature=b"")))
    assert state(bench) is State.SIGNING


def test_failure_of_an_order_under_a_shared_request_id_is_not_that_of_the_next() -> None:
    bench, first, _ = asked_by_two()
    bench.tell(AssemblyFailed(first.request_id, ID, "domain is down"))
    assert state(bench) is State.ASSEMBLING


def test_signature_of_a_version_for_another_coordinator_is_not_taken_for_the_next() -> None:
    """It would be shown as that of another leaf, and every honest endorser would sign a refusal of it."""
    bench = delegated()
    first = ask(bench, B, Snapshot())
    bench.tell(AssemblyFinished(first.request_id, ID, AssemblyOutcome.ASSEMBLED, transition("A-1", signature=b"")))
    [signing] = bench.take(SignTransition)
    move_to_c(bench)
    second = ask(bench, C, Snapshot())
    made = transition("A-1", version=1, signature=b"")
    bench.tell(AssemblyFinished(second.request_id, ID, AssemblyOutcome.ASSEMBLED, made))
    [signing_again] = bench.take(SignTransition)
    bench.tell(TransitionSigned(signing.request_id, ID, b"of another leaf"))
    assert state(bench) is State.SIGNING
    bench.tell(TransitionSigned(signing_again.request_id, ID, b"signed"))
    assert state(bench) is State.ENDORSEMENT_GATHERING
    [response] = bench.said(AssembleResponse, C)
    assert response.request_id == SHARED
    assert [each.transition for each in response.results] == [transition("A-1", version=1)]
