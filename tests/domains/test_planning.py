"""The plan of a transaction: what a domain may ask for, and that endorsers recompute it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from rota.domains.base import AttestationPlan, Deployment, Domain, Proposal, TransactionPlan
from rota.domains.contents import Role
from rota.domains.records import Record
from rota.host import Checked, Hosted, UserCall, assemble, check
from rota.model.types import Attesters, Mode, NodeName, Party, PartySignature, Transition, node_of
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire.messages import AssemblyOutcome
from tests.domains.kit import ALICE, NOTARY, Counter, Counting, Settings, assembly_order, hosted_by, intent, round_of

NODE1, NODE2, NODE3 = map(NodeName, ("node1", "node2", "node3"))
SECOND = Party("second@node2")


class Planned(Counting):
    """A counter of three nodes, two of which sign; the test chooses the plan of a step."""

    name = "planned"
    answer: ClassVar[object] = TransactionPlan()
    mode: ClassVar[Mode] = Mode.RING
    seen: ClassVar[list[Proposal[Settings]]] = []

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Settings]:
        assert isinstance(arguments, Settings)
        members = (NOTARY, ALICE, Party("bob@node3"))
        every = AttestationPlan.some_of(members, 0 if self.mode is Mode.SENDER else 2)
        committee = every.committee[:1] if self.mode is Mode.STATIC else every.committee
        return Deployment(AttestationPlan(members, every.threshold, self.mode, committee), arguments, members)

    def plan(self, proposal: Proposal[Settings]) -> TransactionPlan:
        self.seen.append(proposal)
        return self.answer  # type: ignore[return-value]


def contract(monkeypatch: pytest.MonkeyPatch, answer: object, mode: Mode = Mode.RING) -> Hosted:
    monkeypatch.setattr(Planned, "answer", answer)
    monkeypatch.setattr(Planned, "mode", mode)
    monkeypatch.setattr(Planned, "seen", [])
    return hosted_by(Planned(), {"keeper": NOTARY})


def assembled(hosted: Hosted, by: int = 5) -> AssemblyFinished | AssemblyFailed:
    order = assembly_order([intent(hosted, 1, UserCall(ALICE, "raise", [by]))])
    (result,) = assemble(hosted, order, {}, NODE2)
    return result


def made(hosted: Hosted) -> Transition:
    result = assembled(hosted)
    assert isinstance(result, AssemblyFinished)
    assert result.transition is not None, result.reason
    return result.transition


def judged(hosted: Hosted, transition: Transition, attesters: tuple[Attesters, ...]) -> Checked:
    order = replace(round_of(hosted, (transition,), (ALICE,)), attesters=attesters)
    return check(hosted, order, {}, NODE1)


def test_parties_of_a_plan_become_attesters_of_the_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TransactionPlan(signers=(SECOND, ALICE, SECOND), endorsers=(NOTARY, Party("other@node1"), Party("x@node3")))
    result = assembled(contract(monkeypatch, plan))
    assert isinstance(result, AssemblyFinished)
    assert result.attesters == Attesters((PartySignature(SECOND),), (NODE1, NODE3))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (
            TransactionPlan(signers=(NOTARY,)),
            "plan.signers: must be parties of node2, the node of the sender, and notary@node1 is not",
        ),
        (
            TransactionPlan(signers=(Party("no name@node2"),)),
            "plan.signers: must be a party such as alice@node1, not 'no name@node2'",
        ),
        (
            TransactionPlan(endorsers=(Party("x@node9"),)),
            "plan.endorsers: must endorse in the contract, and x@node9 does not",
        ),
        (
            TransactionPlan(signers=tuple(Party(f"p{number}@node2") for number in range(5))),
            "plan: must add at most 4 signers and 16 endorsers",
        ),
        (
            TransactionPlan(submitter=NOTARY),
            "plan.submitter: must be left out in ring mode, where the members take turns to submit",
        ),
    ],
)
def test_plan_that_cannot_be_had_reverts_the_intent_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, plan: TransactionPlan, reason: str
) -> None:
    result = assembled(contract(monkeypatch, plan))
    assert isinstance(result, AssemblyFinished)
    assert (result.outcome, result.reason) == (AssemblyOutcome.REVERTED, reason)


@pytest.mark.parametrize(
    ("mode", "submitter", "reason"),
    [
        (Mode.STATIC, NOTARY, ""),
        (Mode.STATIC, ALICE, "plan.submitter: must be a party of node1, whose node submits, and alice@node2 is not"),
        (Mode.SENDER, ALICE, ""),
        (Mode.SENDER, NOTARY, "plan.submitter: must be a party of node2, whose node submits, and notary@node1 is not"),
    ],
)
def test_endorser_that_must_submit_is_on_the_node_that_coordinates(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, submitter: Party, reason: str
) -> None:
    result = assembled(contract(monkeypatch, TransactionPlan(submitter=submitter), mode))
    assert isinstance(result, AssemblyFinished)
    assert result.reason == reason
    assert (result.transition is None) == bool(reason)


def test_plan_adds_no_attesters_in_a_contract_without_endorsement(monkeypatch: pytest.MonkeyPatch) -> None:
    result = assembled(contract(monkeypatch, TransactionPlan(signers=(SECOND,)), Mode.SENDER))
    assert isinstance(result, AssemblyFinished)
    assert result.reason == "plan: must be empty, because this contract has no endorsement"


def test_plan_of_another_type_is_a_failure_of_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    result = assembled(contract(monkeypatch, None))
    assert isinstance(result, AssemblyFailed)
    assert result.reason == "the domain failed: TypeError: a plan must be a TransactionPlan, not NoneType"


def test_sender_and_endorser_ask_for_the_plan_with_the_same_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are equal: all that differs by node is left out."""
    hosted = contract(monkeypatch, TransactionPlan())
    first = made(hosted)
    held = {state.id: state for state in first.outputs}
    order = assembly_order([intent(hosted, 2, UserCall(ALICE, "raise", [7]))])
    (second,) = assemble(hosted, order, held, NODE2)
    assert isinstance(second, AssemblyFinished)
    assert second.transition is not None
    assert not check(hosted, round_of(hosted, (second.transition,), (ALICE,)), held, NODE1).refusals
    _, at_sender, at_endorser = Planned.seen
    fields = ("intent", "sender", "spends", "reads", "makes", "calls", "preparation", "history", "verifiers", "memory")
    assert [getattr(at_sender, name) for name in fields] == [getattr(at_endorser, name) for name in fields]
    assert [each.role for each in at_sender.makes] == [Role.STATE, Role.INFO]
    assert [each.record for each in at_sender.spends] == [Counter(5)]
    assert at_sender.available().where(Counter) == at_endorser.available().where(Counter) == ()


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ((), "its plan must also name second@node2, node3"),
        ((Attesters((PartySignature(SECOND),)),), "its plan must also name node3"),
        ((Attesters(endorsers=(NODE3,)),), "its plan must also name second@node2"),
        ((Attesters((PartySignature(SECOND),), (NODE3,)),), ""),
        ((Attesters((PartySignature(SECOND), PartySignature(Party("c@node2"))), (NODE1, NODE3)),), ""),
    ],
)
def test_endorser_refuses_a_weaker_plan_for_the_sake_of_the_leaf(
    monkeypatch: pytest.MonkeyPatch, shown: tuple[Attesters, ...], reason: str
) -> None:
    hosted = contract(monkeypatch, TransactionPlan((SECOND,), (Party("bob@node3"),)))
    transition = made(hosted)
    found = judged(hosted, transition, shown)
    assert [each.reason for each in found.refusals] == ([reason] if reason else [])
    assert found.judged == ((transition.leaf,) if reason else ()), "so that the refusal is signed"


def test_endorser_refuses_a_transition_whose_plan_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = contract(monkeypatch, TransactionPlan())
    transition = made(hosted)
    monkeypatch.setattr(Planned, "answer", TransactionPlan(endorsers=(Party("x@node9"),)))
    [refusal] = judged(hosted, transition, ()).refusals
    assert refusal.reason == "plan.endorsers: must endorse in the contract, and x@node9 does not"


def test_domain_that_fails_to_plan_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = contract(monkeypatch, TransactionPlan())
    transition = made(hosted)
    monkeypatch.setattr(Planned, "answer", "nonsense")
    found = judged(hosted, transition, ())
    assert (found.refusals, [leaf for leaf, _ in found.failures]) == ((), [transition.leaf])


def test_transition_that_has_to_be_approved_is_not_built_upon_in_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = contract(monkeypatch, TransactionPlan(endorsers=(NOTARY,)))
    intents = [intent(hosted, number, UserCall(ALICE, "raise", [by])) for number, by in enumerate((5, 7))]
    first, second = assemble(hosted, assembly_order(intents), {}, NODE2)
    assert isinstance(first, AssemblyFinished)
    assert isinstance(second, AssemblyFinished)
    assert second.transition is not None
    assert second.transition.inputs == ()


def test_domain_without_plans_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Domain, "plan", None)
    hosted = hosted_by(Counting(), {"keeper": NOTARY})
    order = assembly_order([intent(hosted, 1, UserCall(ALICE, "raise", [5]))])
    (result,) = assemble(hosted, order, {}, node_of(ALICE))
    assert isinstance(result, AssemblyFinished)
    assert result.attesters == Attesters()
