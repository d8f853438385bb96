"""A peer repeats what costs us work: how often it is done for it."""

from __future__ import annotations

import pytest

from rota.core import endorser as endorser_module
from rota.core import pacing as pacing_module
from rota.core.effects import AssembleIntents, CheckRound, FindStates, VerifyEndorsers
from rota.core.events import EndorsersVerified
from rota.core.pacing import ASSEMBLED_TIMES_MAX, STATES_ASKED_TIMES_MAX, VERIFIED_TIMES_MAX, Pacing
from rota.messages import (
    CoordinatorHeartbeat,
    EndorserSignature,
    Handover,
    HandoverRequest,
    ListingRequest,
    StateRequest,
    TransactionReverted,
)
from rota.types import RequestId
from tests.core import test_prepared as p
from tests.core.coordinator_bench import active, elect, handed, round_of
from tests.core.kit import A, B, Bench, C, D, transition
from tests.core.node_bench import OURS, NodeBench
from tests.core.test_endorser import endorser, request
from tests.core.test_sender_transaction import HEIGHT, ID, accept, ask_assembly, assembled, machine, pending


def test_peer_that_floods_an_endorser_with_rounds_has_only_so_many_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endorser_module, "CHECKS_OF_PEER_MAX", 2)
    bench = endorser()
    for number in range(5):
        bench.hear(A, request(transition("A-1", version=number), request_id=RequestId(1, number)))
    assert len(bench.take(CheckRound)) == 2
    bench.wait(bench.config.unavailable_ttl_ms + 1)
    bench.hear(A, request(transition("A-1", version=5), request_id=RequestId(1, 5)))
    assert len(bench.take(CheckRound)) == 1, "what was never judged holds up nobody for ever"


def test_coordinator_that_floods_a_sender_with_requests_gives_the_domain_few_orders() -> None:
    bench = pending()
    accept(bench)
    for counter in range(10, 100):
        ask_assembly(bench, counter)
    assert len(bench.take(AssembleIntents)) == 1 + ASSEMBLED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    ask_assembly(bench, 100)
    assert len(bench.take(AssembleIntents)) == 1


def test_sender_that_floods_a_coordinator_with_requests_for_its_list_gets_one_in_each_interval() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.wait(bench.config.heartbeat_ms)
    bench.forget()
    for _ in range(10):
        bench.hear(C, ListingRequest(bench.coordinator.number))
    assert len(bench.said(CoordinatorHeartbeat, C)) == 1
    bench.wait(bench.config.heartbeat_ms)
    bench.forget()
    bench.hear(C, ListingRequest(bench.coordinator.number))
    assert [heartbeat.is_whole for heartbeat in bench.said(CoordinatorHeartbeat, C)] == [True]


def test_coordinator_that_repeats_its_hand_over_has_it_verified_a_few_times() -> None:
    bench = elect()
    bench.verifies = False
    point = handed("A-1")
    asked = bench.said(HandoverRequest, A)[-1]
    handover = Handover(asked.request_id, (point,), (round_of(point, *bench.of.endorsers),))
    for _ in range(10):
        bench.hear(A, handover, height=400)
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX


def test_coordinator_that_repeats_a_prepared_transition_has_it_verified_a_few_times() -> None:
    bench = p.assembled()
    bench.verifies = False
    for _ in range(10):
        bench.hear(B, p.prepared(), height=HEIGHT)
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(B, p.prepared(), height=HEIGHT)
    assert len(bench.take(VerifyEndorsers)) == 1


def test_stranger_that_sends_prepared_transitions_of_our_intents_has_nothing_verified() -> None:
    bench = p.assembled()
    bench.verifies = False
    bench.hear(D, p.prepared(), height=HEIGHT)
    assert bench.take(VerifyEndorsers) == []


def test_forged_copy_of_a_prepared_transition_does_not_take_the_place_of_the_true_one() -> None:
    bench = p.assembled()
    bench.verifies = False
    bench.hear(B, p.prepared(), height=HEIGHT)
    bench.hear(C, p.prepared(valid_until_s=p.PREPARED_UNTIL_S - 1), height=HEIGHT)
    true, forged = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(forged.request_id, (False,) * 3, ID))
    bench.tell(EndorsersVerified(true.request_id, (True,) * 3, ID))
    bench.write()
    assert machine(bench).issued is not None


def test_delegate_that_repeats_its_refusals_has_them_verified_a_few_times() -> None:
    bench = assembled()
    bench.verifies = False
    made = machine(bench).result
    assert made is not None
    assert made.transition is not None
    refusals = tuple(EndorserSignature(node, b"refused") for node in (A, B, C))
    for _ in range(10):
        bench.hear(B, TransactionReverted(ID, machine(bench).number, made.transition.leaf, "no", refusals))
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX


def test_stranger_that_floods_a_node_with_requests_for_states_has_few_looked_for_and_keeps_nobody_away() -> None:
    bench = NodeBench(contracts=(OURS,))
    wanted = StateRequest((transition("B-1").leaf,))
    for _ in range(STATES_ASKED_TIMES_MAX + 10):
        bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX
    bench.hear(B, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX + 1
    bench.wait(bench.node.config.request_timeout_ms)
    bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX + 2


def test_memory_of_what_was_done_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing_module, "KEYS_MAX", 2)
    pacing = Pacing(Bench().sequencer.context)
    assert [pacing.is_due(key, 10) for key in (1, 1, 2, 3, 1)] == [True, False, True, True, True]
    assert [pacing.is_due(9, 10, 2) for _ in range(3)] == [True, True, False]
