"""A coordinator verifies the signatures of new senders before their transitions share a round (protocol §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.types import Mode, NodeName, RequestId
from rota.sequencer import signers as module
from rota.sequencer.coordinator_transaction_events import ValidityEnded
from rota.sequencer.effects import VerifyParties
from rota.sequencer.events import PartiesVerified
from rota.sequencer.held_intent import State
from rota.sequencer.signers import ENDORSED_ENOUGH
from rota.wire.messages import AssembleRequest, AssembleResponse
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others, parked
from tests.sequencer.kit import ADDRESS, FORGED, A, B, C, contract, intent, transition
from tests.sequencer.test_probation import rounds

NOTARISED = endorsed_by_others(endorsers=(C,))
MADE = transition("B-1")


def assembled(*names: str, verifies_parties: bool = False) -> CoordinatorBench:
    """These are assembled, one sender after the other; whether their signatures are verified at once."""
    bench = active(of=NOTARISED)
    bench.verifies_parties = verifies_parties
    for name in names:
        bench.delegate(name)
        bench.assemble(transition(name))
    return bench


def test_transition_of_a_new_sender_joins_a_round_when_its_signature_is_verified() -> None:
    bench = assembled("B-1")
    assert rounds(bench) == []
    [order] = bench.take(VerifyParties)
    assert order == VerifyParties(ADDRESS, order.request_id, (MADE,), (intent("B-1").sender,))
    bench.tell(PartiesVerified(order.request_id))
    assert rounds(bench) == [(None, ["B-1"])]
    bench.tell(PartiesVerified(order.request_id))
    assert rounds(bench) == [(None, ["B-1"])]


def test_transitions_that_wait_are_verified_in_one_order() -> None:
    bench = active(of=NOTARISED)
    bench.verifies_parties = False
    bench.delegate("B-1", "B-2")
    bench.assemble(transition("B-1"), transition("B-2"))
    [order] = bench.take(VerifyParties)
    assert len(order.transitions) == 2


def test_transition_with_a_false_signature_shares_no_round_and_puts_its_sender_on_probation() -> None:
    """Endorsers would refuse the whole round, and its other members would lose time."""
    bench = assembled("C-1", "B-1", verifies_parties=False)
    first, second = bench.take(VerifyParties)
    bench.tell(PartiesVerified(second.request_id, (MADE.leaf,)))
    bench.tell(PartiesVerified(first.request_id))
    assert rounds(bench) == [(B, ["B-1"]), (None, ["C-1"])]
    assert bench.coordinator.probation.has(B)
    assert not bench.coordinator.probation.has(C)


def test_transition_whose_partys_verifier_is_not_known_rides_apart_without_a_fault() -> None:
    bench = assembled("B-1")
    [order] = bench.take(VerifyParties)
    bench.tell(PartiesVerified(order.request_id, unknown=(MADE.leaf,)))
    assert rounds(bench) == [(B, ["B-1"])]
    assert not bench.coordinator.probation.has(B)


def test_verification_that_is_not_answered_in_time_lets_the_transition_ride_apart() -> None:
    bench = assembled("B-1")
    bench.wait(bench.config.request_timeout_ms)
    assert rounds(bench) == [(B, ["B-1"])]


def test_states_are_offered_to_nobody_before_the_signature_is_verified() -> None:
    bench = assembled("B-1")
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert request.snapshot.states == ()
    [order] = bench.take(VerifyParties)
    bench.tell(PartiesVerified(order.request_id))
    bench.hear(C, parked_response(request, "C-1"))
    bench.delegate("C-2")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert request.snapshot.states == MADE.outputs


def parked_response(request: AssembleRequest, name: str) -> AssembleResponse:
    return AssembleResponse(request.request_id, (parked(name),))


def test_transition_that_is_given_up_meanwhile_is_forgotten() -> None:
    bench = assembled("B-1")
    [order] = bench.take(VerifyParties)
    bench.coordinator.reset_users_of(MADE.leaf, frozenset())
    bench.transaction("B-1").handle(ValidityEnded())
    assert bench.coordinator.signers.waiting == {}
    bench.tell(PartiesVerified(order.request_id))
    assert rounds(bench) == []


def test_sender_at_fault_meanwhile_rides_apart_without_verification() -> None:
    bench = assembled("B-1")
    [order] = bench.take(VerifyParties)
    bench.coordinator.isolate(B)
    bench.tell(PartiesVerified(order.request_id))
    assert rounds(bench) == [(B, ["B-1"])]


def test_sender_is_verified_until_enough_of_its_transitions_are_endorsed() -> None:
    bench = active(of=NOTARISED)
    bench.verifies_parties = False
    for number in range(ENDORSED_ENOUGH):
        bench.delegate(f"B-{number}")
        bench.assemble(transition(f"B-{number}"))
        [order] = bench.take(VerifyParties)
        bench.tell(PartiesVerified(order.request_id))
        bench.sign()
    bench.delegate("B-99")
    bench.assemble(transition("B-99"))
    assert bench.take(VerifyParties) == []
    assert ["B-99"] in [members for _, members in rounds(bench)]


def test_sender_at_fault_is_verified_again_and_a_forger_for_ever() -> None:
    bench = assembled("B-1", verifies_parties=True)
    signers = bench.coordinator.signers
    transaction = bench.transaction("B-1")
    signers.endorsed[B] = ENDORSED_ENOUGH
    assert not signers.must_verify(transaction)
    signers.doubt(B)
    assert signers.must_verify(transaction)
    signers.endorsed[B] = ENDORSED_ENOUGH
    signers.forgers[B] = None
    assert signers.must_verify(transaction)


def test_forged_signature_is_remembered() -> None:
    bench = active(of=NOTARISED)
    bench.delegate("B-1")
    bench.assemble(replace(MADE, signature=FORGED))
    assert B in bench.coordinator.signers.forgers
    assert rounds(bench) == [(B, ["B-1"])]


def test_own_transitions_and_contracts_without_endorsers_need_no_verification() -> None:
    bench = assembled("B-1")
    bench.sequencer.context.node = B
    assert not bench.coordinator.signers.must_verify(bench.transaction("B-1"))
    bench = active(of=contract(A, mode=Mode.STATIC, endorsers=(), threshold=0))
    bench.verifies_parties = False
    bench.delegate("B-1")
    bench.assemble(MADE)
    assert bench.take(VerifyParties) == []


def test_memory_of_senders_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDERS_MAX", 2)
    signers = active(of=NOTARISED).coordinator.signers
    for number in range(4):
        for _ in range(ENDORSED_ENOUGH + 1):
            signers.note_endorsed(NodeName(str(number)))
    assert list(signers.endorsed) == [NodeName("2"), NodeName("3")]


def test_answer_to_no_question_changes_nothing() -> None:
    bench = assembled("B-1")
    bench.tell(PartiesVerified(RequestId(9, 9)))
    assert rounds(bench) == []
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
