"""A member spends a state that all share and withholds its permission: the others get the state (protocol §7).

A leads, B withholds, C and D want the same state.
"""

from __future__ import annotations

import pytest

from rota.model.config import Config
from rota.model.types import DelegationNumber, Leaf, Mode, NodeName, StateId, Transition
from rota.sequencer.held_intent import State
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    ErrorCode,
    IntentError,
)
from rota.wire.sizes import state_bytes
from tests.sequencer.coordinator_bench import CoordinatorBench, active, name_of
from tests.sequencer.kit import A, B, C, D, contract, remade, transition

CONFIG = Config()
# Who is no member may send where one node coordinates.
NOTARISED = contract(A, endorsers=(C,), mode=Mode.STATIC)
SHARED = StateId(Leaf(b"s" * 32), 0)


def on_probation(*senders: NodeName, config: Config = CONFIG) -> CoordinatorBench:
    """An active coordinator that has found these senders at fault."""
    bench = active(of=NOTARISED, config=config)
    for sender in senders or (B,):
        bench.coordinator.isolate(sender)
    return bench


def asked(bench: CoordinatorBench, *names: str) -> AssembleRequest:
    """A sender delegates these intents and is asked to assemble them."""
    bench.delegate(*names)
    [(_, request)] = bench.asked(AssembleRequest)
    return request


def answer(bench: CoordinatorBench, request: AssembleRequest, *made: Transition) -> None:
    """The sender of these transitions answers with them."""
    results = tuple(
        AssemblyResult(each.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), each) for each in made
    )
    bench.hear(NodeName(name_of(made[0].intent).partition("-")[0]), AssembleResponse(request.request_id, results))


def test_member_that_withholds_permission_again_and_again_keeps_nobody_from_a_shared_state() -> None:
    """The attack: its next transition on the state was assembled in the moment in which the last one left."""
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", SHARED))
    bench.wait(CONFIG.permission_timeout_ms)
    bench.assemble(transition("B-1", SHARED, version=1))
    bench.sign()
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    request = asked(bench, "C-1")
    assert SHARED not in request.snapshot.locks
    answer(bench, request, transition("C-1", SHARED))
    assert bench.state_of("B-1") is State.ASSEMBLING
    bench.sign()
    bench.permit("C-1")
    assert [name_of(each.intent) for order in bench.write_rounds() for each in order.transitions] == ["C-1"]


@pytest.mark.parametrize("state", [State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH])
@pytest.mark.parametrize("reads", [False, True], ids=["spends", "reads"])
def test_sender_on_probation_gives_a_state_up_with_all_that_stands_on_it(state: State, reads: bool) -> None:
    bench = on_probation()
    first = transition("B-1", SHARED)
    bench.bring(state, first, transition("B-2", first.outputs[0].id), transition("B-3"))
    wanted = remade(transition("C-1"), reads=(SHARED,)) if reads else transition("C-1", SHARED)
    answer(bench, asked(bench, "C-1"), wanted)
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING
    assert [bench.transaction(f"B-{number}").transition is None for number in (1, 2, 3)] == [True, True, False]


def test_sender_on_probation_is_told_all_locks_and_takes_no_state_from_another() -> None:
    bench = on_probation(B, D)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", SHARED))
    request = asked(bench, "D-1")
    assert SHARED in request.snapshot.locks
    answer(bench, request, transition("D-1", SHARED))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    assert bench.transaction("D-1").transition is None


def test_sender_in_good_standing_keeps_its_locks() -> None:
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", SHARED))
    request = asked(bench, "C-1")
    assert SHARED in request.snapshot.locks
    answer(bench, request, transition("C-1", SHARED))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    assert bench.transaction("C-1").transition is None


def test_sender_on_probation_keeps_what_it_has_permitted() -> None:
    bench = on_probation()
    bench.bring(State.READY_FOR_DISPATCH, transition("B-1", SHARED))
    assert SHARED in asked(bench, "C-1").snapshot.locks


def test_sender_whose_probation_ended_keeps_its_locks_again() -> None:
    bench = on_probation()
    bench.wait(CONFIG.probation_ms - 1)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", SHARED))
    bench.wait(1)
    assert SHARED in asked(bench, "C-1").snapshot.locks


def test_state_that_a_sender_on_probation_locks_is_shown_if_it_is_not_on_the_chain() -> None:
    bench = on_probation()
    maker = transition("D-1")
    bench.bring(State.DISPATCHED, maker)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", maker.outputs[0].id))
    request = asked(bench, "C-1")
    assert request.snapshot.locks == ()
    assert request.snapshot.states == maker.outputs
    answer(bench, request, transition("C-1", maker.outputs[0].id))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING


def test_state_that_no_message_holds_stays_locked() -> None:
    """Else its sender would take it for not there."""
    maker = transition("D-1")
    bench = on_probation()
    bench.bring(State.DISPATCHED, maker)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", maker.outputs[0].id))
    graph, taken = bench.coordinator.graph, (transition("B-1", maker.outputs[0].id).leaf,)
    size = state_bytes(maker.outputs[0])
    for room, locks in ((size - 1, (maker.outputs[0].id,)), (size, ())):
        assert graph.snapshot(C, unseen=(maker.leaf,), bytes_max=room, giving_way=taken).locks == locks


def test_state_that_a_sender_on_probation_has_made_and_spent_stays_locked() -> None:
    bench = on_probation()
    first = transition("B-1")
    bench.bring(State.CONFIRMING_DISPATCH, first, transition("B-2", first.outputs[0].id))
    assert asked(bench, "C-1").snapshot.locks == (first.outputs[0].id,)


def test_sender_that_refuses_permission_late_is_on_probation() -> None:
    """Else it would hold a state for as long as one that withholds its permission, and be at no fault."""
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1", SHARED))
    bench.wait(CONFIG.permission_timeout_ms // 2)
    _, request = bench.asked(DispatchConfirmationRequest, B)[0]
    error = DispatchConfirmationError(request.request_id, (IntentError(request.items[0].intent, ErrorCode.CANCELLED),))
    bench.hear(B, error)
    assert bench.coordinator.probation.has(B)
