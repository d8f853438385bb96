"""What a coordinator does when others behave oddly: the cases that a review of its tests turned up."""

from __future__ import annotations

from rota.model.config import Config
from rota.sequencer.events import BlocksRemoved
from rota.sequencer.held_intent import State as TransactionState
from rota.wire.messages import AssembleRequest, EndorsementRequest, Handover, HandoverReason
from rota.wire.messages import CoordinatorState as State
from tests.sequencer.coordinator_bench import active, name_of
from tests.sequencer.kit import GENESIS_S, B, C, transition


def test_active_whose_only_ready_transition_stood_on_an_abandoned_one_closes() -> None:
    bench = active()
    one = transition("B-1")
    bench.bring(TransactionState.CONFIRMING_DISPATCH, one, transition("B-2", one.outputs[0].id))
    bench.permit("B-2")
    bench.block(400)
    bench.ask_to_yield(B)
    assert not bench.coordinator.transactions
    assert bench.state() is State.CLOSING


def test_dispatch_of_a_removed_block_is_a_flush_point_again() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.DISPATCHED, made)
    outcome = bench.outcome(made)
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (outcome,)))
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.FLUSH
    assert len(bench.said(Handover, B)[0].points) == 1


def test_sender_that_was_a_coordinator_before_is_assembled() -> None:
    bench = active()
    bench.beat(B)
    bench.delegate("C-1")
    bench.asked(AssembleRequest)
    bench.delegate("B-1")
    bench.wait(30_000)
    assert bench.asked(AssembleRequest, B)


def test_refusal_that_names_nobody_changes_nothing() -> None:
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    assert len(bench.asked(EndorsementRequest, C)) == 1
    bench.refuse(B)
    assert bench.asked(EndorsementRequest, C) == []


def test_transition_that_is_valid_no_longer_shortens_nobody_elses_round() -> None:
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-0"))
    bench.delegate("B-1")
    bench.assemble(transition("B-1", valid_until_s=GENESIS_S - 1))
    bench.delegate("C-1")
    bench.assemble(transition("C-1"))
    bench.sign()
    assert bench.asked(EndorsementRequest, C)[-1][1].valid_until_s >= GENESIS_S


def test_sender_that_joins_while_another_is_served_is_next() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2", "B-3")
    bench.delegate("C-1", "C-2")
    order = [name_of(bench.assemble().intents[0]) for _ in range(5)]
    assert order == ["B-1", "C-1", "B-2", "C-2", "B-3"]
