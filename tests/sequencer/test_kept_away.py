"""A state that is kept for a prepared transition stands in an intent's way, and nothing is wrong with the intent."""

from __future__ import annotations

import pytest

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import KeptStates, NodeName, StateId, Transition
from rota.sequencer.held_intent import State
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    REFUSAL_KEPT_MAX,
    AssembleRequest,
    EndorsementRequest,
    EndorsementResponse,
    Refusal,
    TransactionReverted,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others
from tests.sequencer.kit import (
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    digest_of,
    intent_id,
    prepared_transition,
    remade,
    transition,
    void_transition,
)
from tests.sequencer.test_endorser import request, responses

GROUND = transition("A-0")
INPUT, OTHER = StateId(GROUND.leaf, 0), StateId(GROUND.leaf, 1)
PREPARED = prepared_transition("A-1", INPUT)
KEPT = KeptStates(PREPARED.intent, PREPARED.leaf, PREPARED.inputs, PREPARED.valid_until_s)
REASON = "a state is kept for a prepared transition"


def refuse(bench: CoordinatorBench, endorser: NodeName, name: str, *kept: KeptStates) -> None:
    """An endorser says what it keeps of what the intent spends, or only that it refuses it."""
    [(_, asked)] = bench.asked(EndorsementRequest, endorser)
    refusal = Refusal(intent_id(name), REASON if kept else "against the rules", kept)
    bench.hear(endorser, EndorsementResponse(asked.request_id, asked.digest, b"", (refusal,)))


def locks_of_next_slot(bench: CoordinatorBench) -> tuple[StateId, ...]:
    [(_, asked)] = bench.asked(AssembleRequest)
    return asked.snapshot.locks


def spending(bench: CoordinatorBench, *made: Transition) -> None:
    bench.bring(State.ENDORSEMENT_GATHERING, *made)


# The endorser.


def test_endorser_says_for_what_it_keeps_the_states() -> None:
    bench = Bench(node=C, stored=StoredContract(endorsed=(KEPT,)))
    bench.hear(A, request(transition("B-9", INPUT)))
    [answer] = responses(bench)
    assert answer.refusals == (Refusal(intent_id("B-9"), REASON, (KEPT,), transition("B-9", INPUT).leaf),)


def test_endorser_tells_each_prepared_transition_once_and_only_so_many() -> None:
    many = tuple(
        KeptStates(intent_id(f"A-{number}"), transition(f"A-{number}").leaf, (INPUT, OTHER), GENESIS_S + 600)
        for number in range(REFUSAL_KEPT_MAX + 1)
    )
    bench = Bench(node=C, stored=StoredContract(endorsed=many))
    bench.hear(A, request(transition("B-9", INPUT, OTHER)))
    [answer] = responses(bench)
    assert answer.refusals[0].kept == many[:REFUSAL_KEPT_MAX]


# The coordinator.


def test_state_that_is_kept_is_locked_and_the_intent_assembled_anew_without_counting() -> None:
    bench = active(config=Config(endorse_retry_max=1))
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", KEPT)
    assert bench.state_of("B-1") is State.ASSEMBLING
    assert bench.transaction("B-1").refused_count == 0
    assert bench.transaction("B-1").reason == REASON
    assert locks_of_next_slot(bench) == (INPUT,)
    assert bench.said(TransactionReverted) == []


def test_intent_that_is_kept_away_again_and_again_is_never_given_up_but_goes_more_slowly() -> None:
    bench = active(config=Config(endorse_retry_max=2))
    bench.delegate("B-1")
    for number in range(6):
        while not bench.said(AssembleRequest):
            bench.wait(100)
        state = StateId(transition("A-9", version=number).leaf, 0)
        prepared = prepared_transition(f"A-{number}", state)
        bench.assemble(transition("B-1", state, version=number))
        kept = KeptStates(prepared.intent, prepared.leaf, prepared.inputs, prepared.valid_until_s)
        refuse(bench, C, "B-1", kept)
        bench.asked(EndorsementRequest)
        assert bench.state_of("B-1") is (State.POOLED if number else State.ASSEMBLING)
    assert bench.transaction("B-1").kept_away_count == 6


def test_voiding_begins_anew() -> None:
    bench = active()
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", KEPT)
    bench.delegate("B-1", number=2, is_voiding=True)
    assert bench.transaction("B-1").kept_away_count == 0
    bench.assemble(void_transition("B-1"))


@pytest.mark.parametrize(
    "false",
    [
        KEPT._replace(inputs=(OTHER,)),
        KEPT._replace(intent=intent_id("B-1")),
        KEPT._replace(valid_until_s=GENESIS_S + 10 * 86_400),
    ],
    ids=["another state", "the intent itself", "valid for too long"],
)
def test_what_cannot_stand_in_the_way_is_a_refusal_like_any_other(false: KeptStates) -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(endorse_retry_max=1))
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", false)
    assert bench.state_of("B-1") is State.REVERTED
    assert false.leaf not in bench.coordinator.kept.standing


def test_what_is_used_on_our_own_index_is_kept_no_longer() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(endorse_retry_max=1))
    bench.block(1, LedgerOutcome(KEPT.intent, KEPT.leaf, digest_of(KEPT.leaf), LedgerStatus.COMMITTED))
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", KEPT)
    assert bench.state_of("B-1") is State.REVERTED


def test_one_of_several_endorsers_that_keeps_a_state_is_left_out() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", KEPT)
    assert bench.coordinator.kept.standing == {}
    bench.sign(C)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


@pytest.mark.parametrize(("first", "second", "is_counted"), [((), (), True), ((KEPT,), (), False)])
def test_refusals_count_when_they_alone_would_be_too_many(
    first: tuple[KeptStates, ...], second: tuple[KeptStates, ...], is_counted: bool
) -> None:
    bench = active(of=endorsed_by_others(threshold=1), config=Config(endorse_retry_max=1))
    spending(bench, transition("B-1", INPUT))
    refuse(bench, B, "B-1", *first)
    refuse(bench, C, "B-1", *second)
    assert bench.state_of("B-1") is (State.REVERTED if is_counted else State.ASSEMBLING)


def test_all_that_spend_the_state_begin_anew_and_what_stood_on_one_of_them_goes_once() -> None:
    """B-2 reads the state and B-3 spends it, on top of B-2: both go, B-3 with B-2 and not once more."""
    bench = active(config=Config(rounds_open_max=1))
    spending(bench, transition("B-1", OTHER))
    reading = remade(transition("B-2"), reads=(INPUT,))
    both = transition("B-3", INPUT, reading.outputs[0].id)
    bench.bring(State.ENDORSEMENT_GATHERING, reading, both)
    refuse(bench, B, "B-1", KEPT._replace(inputs=(INPUT, OTHER)))
    assert all(bench.transaction(name).transition is None for name in ("B-1", "B-2", "B-3"))
    assert set(locks_of_next_slot(bench)) == {INPUT, OTHER}


def test_refusal_of_what_has_gone_with_its_maker_changes_nothing() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    maker = transition("B-1")
    spending(bench, maker, transition("B-2", maker.outputs[0].id))
    [(_, asked)] = bench.asked(EndorsementRequest, B)
    refusals = tuple(Refusal(intent_id(name), "against the rules") for name in ("B-1", "B-2"))
    bench.hear(B, EndorsementResponse(asked.request_id, asked.digest, b"", refusals))
    assert [bench.transaction(name).refused_count for name in ("B-1", "B-2")] == [1, 0]
