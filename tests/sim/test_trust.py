"""What honest nodes promise among liars, judged by facts alone."""

from __future__ import annotations

import pytest

from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import core_of, domain_separator, leaf_of, state_commitment, void_leaf
from rota.model.types import (
    INTENT_ID_USED,
    Contract,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.sequencer.effects import LeavesSigned
from rota.sim.facts import Committed, Fact, Recorded, Reorganised, Reported, Signed, Undone
from rota.sim.invariants import AMONG_LIARS, Judge, Terms
from rota.sim.liars.making import with_false_contents
from rota.sim.services import verify

A, B, LIAR = NodeName("A"), NodeName("B"), NodeName("L")
ADDRESS = ContractAddress("0x" + "07" * 20)
CONTRACT = Contract(ADDRESS, (A, B, LIAR), (A, B, LIAR), 2)
SEPARATOR = domain_separator(CONTRACT.chain_id, ADDRESS)
ID = IntentId(b"A-1".ljust(16, b"\x00"))
ACCEPTED = Recorded(A, ADDRESS, IntentAccepted(Intent(ID, ADDRESS, Party("user@A"), b"mint")))


def transition(content: bytes) -> Transition:
    commitment = state_commitment(content)
    leaf = leaf_of(core_of(SEPARATOR, ID, outputs=(commitment,)))
    return Transition(ID, leaf, outputs=(State(StateId(leaf, 0), commitment, (A, B), content),))


OWN, OTHERS = transition(b"own"), transition(b"other")
EMPTY = Transition(ID, void_leaf(SEPARATOR, ID))
SIGNED = Signed(A, ADDRESS, ID, OWN.leaf)
VOIDED = Signed(A, ADDRESS, ID, EMPTY.leaf)


def committed(made: Transition) -> Committed:
    return Committed(ADDRESS, 1, made)


def reported(outcome: Outcome, made: Transition | None = None, code: str = "") -> Reported:
    return Reported(A, Receipt(ID, outcome, "", made.leaf if made is not None else OWN.leaf, code=code))


def found_in(*facts: Fact, concludes: bool = False) -> set[str]:
    judge = Judge(Terms((A, B, LIAR), {ADDRESS: CONTRACT}, 1, verify, {}, frozenset({LIAR})), AMONG_LIARS)
    if not any(isinstance(fact, Recorded) and isinstance(fact.record, IntentAccepted) for fact in facts):
        facts = (ACCEPTED, *facts)
    for fact in facts:
        if isinstance(fact, Reported) and fact.receipt.outcome is Outcome.REVERTED:
            judge.tell(Recorded(A, ADDRESS, IntentFinalised(fact.receipt)))
        judge.tell(fact)
    if concludes:
        judge.conclude()
    return {violation.invariant for violation in judge.found}


CONFIRMED, REVERTED = Outcome.CONFIRMED, Outcome.REVERTED


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((SIGNED, committed(OWN), reported(CONFIRMED)), set(), id="its own leaf"),
        pytest.param((SIGNED, reported(CONFIRMED)), {"T1"}, id="confirmed and not there"),
        pytest.param(
            (SIGNED, committed(OTHERS), reported(CONFIRMED, OTHERS)), {"T1", "R2"}, id="confirmed by another leaf"
        ),
        pytest.param((VOIDED, committed(EMPTY), reported(CONFIRMED, EMPTY)), {"T1"}, id="confirmed by the empty leaf"),
        pytest.param((SIGNED, committed(OWN), reported(CONFIRMED, OTHERS)), {"T1"}, id="confirmed as another version"),
        pytest.param((SIGNED, committed(OWN), reported(REVERTED)), {"T1"}, id="reverted and there"),
        pytest.param((SIGNED, reported(REVERTED), committed(OWN)), {"T1"}, id="reverted and revived"),
        pytest.param((VOIDED, committed(EMPTY), reported(REVERTED)), set(), id="reverted by the empty leaf"),
        pytest.param((committed(OTHERS), reported(REVERTED, None, INTENT_ID_USED)), {"R2"}, id="used by another"),
        pytest.param((reported(REVERTED, None, INTENT_ID_USED),), {"T1"}, id="used by nobody"),
        pytest.param(
            (SIGNED, reported(REVERTED), committed(OWN), reported(CONFIRMED)), {"T1"}, id="an outcome that changes"
        ),
        pytest.param(
            (SIGNED, committed(OWN), reported(CONFIRMED), Reorganised(1), Undone(ADDRESS, 1, OWN)),
            {"T1"},
            id="confirmed before it was final",
        ),
        pytest.param((ACCEPTED, SIGNED, committed(OWN)), set(), id="an id that its party uses"),
        pytest.param((ACCEPTED, SIGNED, committed(OTHERS)), {"R2"}, id="an id that another uses"),
        pytest.param((ACCEPTED, committed(EMPTY)), {"R2"}, id="an id that another voids"),
        pytest.param((committed(OTHERS), ACCEPTED), {"R2"}, id="an id that was used before"),
    ],
)
def test_outcomes_and_ids_among_liars(facts: tuple[Fact, ...], found: set[str]) -> None:
    assert found_in(*facts) == found


def received(node: NodeName, made: Transition) -> Recorded:
    return Recorded(node, ADDRESS, StatesReceived(Digest(bytes(32)), (Consistent(made),)))


PLANTED = with_false_contents(OWN, b"planted")


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((received(B, OWN), committed(OWN)), set(), id="the state on the chain"),
        pytest.param((received(B, PLANTED),), set(), id="nothing is confirmed"),
        pytest.param((received(B, PLANTED), committed(OWN)), {"T2"}, id="planted before"),
        pytest.param((committed(OWN), received(B, PLANTED)), {"T2"}, id="planted afterwards"),
        pytest.param((received(B, OWN), received(B, PLANTED), committed(OWN)), {"T2"}, id="two contents"),
        pytest.param((received(LIAR, PLANTED), committed(OWN)), set(), id="what a liar holds"),
    ],
)
def test_states_that_are_held_as_confirmed(facts: tuple[Fact, ...], found: set[str]) -> None:
    assert found_in(SIGNED, *facts) == found


def signed_with_contents(node: NodeName, made: Transition) -> Recorded:
    return Recorded(node, ADDRESS, LeavesSigned((Authorised(Consistent(made)),)))


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((signed_with_contents(A, OWN), committed(OWN)), set(), id="on the signer's disk"),
        pytest.param((committed(OWN), received(A, OWN)), set(), id="sent back to it"),
        pytest.param((committed(OWN),), {"R1"}, id="nowhere"),
        pytest.param((committed(OWN), received(B, OWN)), {"R1"}, id="only elsewhere"),
        pytest.param((committed(OWN), Undone(ADDRESS, 1, OWN)), set(), id="not on the chain any more"),
        pytest.param((committed(OTHERS),), {"R2"}, id="of a leaf that its party did not sign"),
    ],
)
def test_contents_of_what_a_party_signed(facts: tuple[Fact, ...], found: set[str]) -> None:
    assert found_in(SIGNED, *facts, concludes=True) - {"L4"} == found


def test_what_a_liar_reports_is_not_judged() -> None:
    lie = Reported(LIAR, Receipt(ID, CONFIRMED, "", OWN.leaf))
    assert found_in(lie, concludes=True) == set()
