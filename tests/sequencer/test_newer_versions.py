"""What a newer version has said of a transition or a state arrives whole where it is passed on or stored (§6)."""

from __future__ import annotations

from dataclasses import replace

from rota.exchange.effects import StatesReceived
from rota.model.consistency import Authorised, Consistent
from rota.model.types import State, StateId, SubmitMode, Transition
from rota.sequencer.held_intent import State as TransactionState
from rota.store.encoding import decode_permission, decode_prepared, decode_transition, encode
from rota.wire.messages import (
    AssembleRequest,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    EndorsementRequest,
    ErrorCode,
    Handover,
    IntentError,
    PreparedTransaction,
    StateDistribution,
)
from tests.node.node_bench import NodeBench
from tests.sequencer.coordinator_bench import active
from tests.sequencer.kit import A, B, C, contract, digest_of, permission_of, prepared_transition, transition

OF_TRANSITION, OF_STATE = b"\xc0\x3e\x2a", b"\xc2\x3e\x05hello"


def newer(made: Transition) -> Transition:
    """The same transition as a node of a newer version says it."""
    outputs = tuple(replace(state, unknown=OF_STATE) for state in made.outputs)
    return replace(made, outputs=outputs, unknown=OF_TRANSITION)


def hidden_from(node: str, made: Transition) -> Transition:
    """A transition whose state is not for that node."""
    outputs = tuple(
        replace(state, distribution=tuple(n for n in state.distribution if n != node)) for state in made.outputs
    )
    return replace(made, outputs=outputs)


def test_endorsers_get_what_the_coordinator_does_not_understand() -> None:
    bench = active()
    made = newer(transition("B-1"))
    bench.delegate("B-1")
    bench.assemble(made)
    assert [request.transitions for _, request in bench.asked(EndorsementRequest)] == [(made,), (made,)]


def test_what_is_not_understood_of_a_state_is_as_private_as_its_content() -> None:
    bench = active()
    made = hidden_from(C, newer(transition("B-1")))
    bench.delegate("B-1")
    bench.assemble(made)
    asked = dict(bench.asked(EndorsementRequest))
    assert asked[B].transitions == (made,)
    [seen] = asked[C].transitions[0].outputs
    assert (seen.content, seen.unknown) == (None, b"")
    assert asked[C].transitions[0].unknown == OF_TRANSITION


def test_a_state_without_content_may_still_have_something_private() -> None:
    state = State(StateId(transition("A-1").leaf, 0), bytes(32), (A,), None, OF_STATE)
    assert state.as_seen_by(A) is state
    assert state.as_seen_by(B) == replace(state, unknown=b"")


def test_snapshot_dispatch_and_hand_over_pass_it_on() -> None:
    bench = active()
    made = newer(transition("B-1"))
    bench.bring(TransactionState.CONFIRMING_DISPATCH, made)
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert request.snapshot.states == made.outputs
    bench.permit("B-1")
    assert [order.transitions for order in bench.write_rounds()] == [(made,)]
    bench.block(400)
    bench.ask_to_yield(B)
    [handover] = bench.said(Handover, B)
    assert handover.points[0].transition.outputs == made.outputs


def test_a_sender_that_lost_its_states_gets_them_whole_and_stores_them_whole() -> None:
    bench = active()
    made = newer(transition("B-1"))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, made)
    bench.sign()
    [(_, asked)] = bench.asked(DispatchConfirmationRequest)
    error = IntentError(made.intent, ErrorCode.STATES_MISSING)
    bench.hear(B, DispatchConfirmationError(asked.request_id, (error,)))
    [(_, repeated)] = bench.asked(DispatchConfirmationRequest)
    assert repeated.items[0].transition == made
    stored = permission_of(repeated.items[0].number, A, Authorised(Consistent(made)))
    assert decode_permission(encode(stored)) == stored


def test_a_prepared_transition_goes_to_its_sender_whole_and_is_stored_whole() -> None:
    bench = active()
    made = newer(prepared_transition("B-1"))
    bench.delegate("B-1", submit_mode=SubmitMode.EXTERNAL)
    bench.assemble(made)
    bench.sign()
    [prepared] = bench.said(PreparedTransaction, B)
    assert prepared.transition == made
    said = replace(prepared, unknown=OF_TRANSITION)
    assert decode_prepared(encode(said)) == said


def test_distributed_states_are_stored_as_they_came() -> None:
    bench = NodeBench(contracts=(contract(A, B, C),))
    made = newer(transition("B-1"))
    bench.hear(B, StateDistribution(digest_of(made.leaf), (made,)))
    [received] = bench.records(StatesReceived)
    assert received.transitions == (made,)
    assert decode_transition(encode(made)) == made
