"""Empty transitions cost their sender nothing: a coordinator pays for few of other nodes, and for those earned."""

from __future__ import annotations

import pytest

from rota.machine.context import Ids
from rota.model.types import Contract, Mode, NodeName
from rota.sequencer import empties
from rota.sequencer.context import Context
from rota.sequencer.empties import FREE_OF_ALL, FREE_OF_SENDER, WINDOW_MS, Empties
from rota.sequencer.held_intent import State as Held
from tests.sequencer.coordinator_bench import CoordinatorBench, active
from tests.sequencer.kit import A, B, C, contract, transition, void_transition

STATIC = contract(A, mode=Mode.STATIC, endorsers=(B, C))


def allowances(of: Contract = STATIC) -> Empties:
    return Empties(Context(A, Ids(1), of, CoordinatorBench().config, 0, 0, 0))


def take_all(of: Empties, sender: NodeName, most: int = 1_000) -> int:
    """How many a sender gets paid for when it brings as many as it can."""
    for count in range(most):
        if not of.may_take(sender):
            return count
        of.take(sender)
    return most


def void(bench: CoordinatorBench, name: str) -> Held | None:
    bench.delegate(name, is_voiding=True)
    bench.assemble(void_transition(name))
    return bench.state_of(name)


@pytest.mark.parametrize("is_voiding", [True, False])
def test_stranger_that_brings_empty_transitions_without_end_has_few_paid_for(
    monkeypatch: pytest.MonkeyPatch, is_voiding: bool
) -> None:
    monkeypatch.setattr(empties, "FREE_OF_SENDER", 2)
    bench = active(of=STATIC)
    states = []
    for number in range(1, 5):
        bench.delegate(f"B-{number}", is_voiding=is_voiding)
        bench.assemble(void_transition(f"B-{number}"))
        states.append(bench.state_of(f"B-{number}"))
    assert states[:2] == [Held.ENDORSEMENT_GATHERING] * 2
    assert Held.ENDORSEMENT_GATHERING not in states[2:]


def test_sender_earns_an_empty_transition_by_one_that_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "FREE_OF_SENDER", 0)
    bench = active(of=STATIC)
    made = transition("B-1")
    bench.bring(Held.DISPATCHED, made)
    bench.block(1, bench.outcome(made))
    assert void(bench, "B-2") is Held.ENDORSEMENT_GATHERING
    assert void(bench, "B-3") is Held.ASSEMBLING, "it was asked again, with backoff"


def test_senders_share_what_is_free_and_get_it_anew_each_hour() -> None:
    paid = allowances()
    assert take_all(paid, B) == FREE_OF_SENDER
    others = [NodeName(f"stranger{number}") for number in range(10)]
    assert sum(take_all(paid, each) for each in others) == FREE_OF_ALL - FREE_OF_SENDER
    paid.earn(C)
    assert take_all(paid, C) == 1, "what was earned is not shared"
    paid.context.now_ms += WINDOW_MS
    assert take_all(paid, B) == FREE_OF_SENDER


def test_what_is_earned_and_who_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "SENDERS_MAX", 2)
    monkeypatch.setattr(empties, "EARNED_MAX", 3)
    paid = allowances()
    for sender in (B, B, B, B, B, C, NodeName("D")):
        paid.earn(sender)
    assert list(paid.accounts) == [C, "D"]
    for _ in range(9):
        paid.earn(C)
    assert paid.accounts[C].earned == 3


@pytest.mark.parametrize(("of", "sender"), [(STATIC, A), (contract(), B)], ids=["itself", "a member"])
def test_node_itself_and_members_of_a_group_have_no_such_allowance(of: Contract, sender: NodeName) -> None:
    paid = allowances(of)
    paid.earn(sender)
    assert take_all(paid, sender) == 1_000
    assert paid.accounts == {}
