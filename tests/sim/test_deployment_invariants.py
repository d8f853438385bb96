"""What is judged of deployments and of workloads, each rule by itself: facts that keep it, and facts that do not."""

from __future__ import annotations

import pytest

from rota.machine.effects import IntentAccepted
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, Intent, IntentId, Mode, Outcome, Party, Receipt, Rotation
from rota.sim.facts import (
    Cause,
    ContractsKnown,
    Deployed,
    DomainSaid,
    Fact,
    Promised,
    Reported,
    Request,
    Wanted,
    WorkloadEnded,
)
from rota.sim.invariants import EVERY, Judge, Terms, WorkloadHolds
from rota.sim.services import verify
from tests.sim.test_invariants import A, B, C, recorded

MADE, STRANGE = ContractAddress("0x" + "aa" * 20), ContractAddress("0x" + "bb" * 20)
ID, OTHER_ID = (IntentId(name.ljust(16, b"\0")) for name in (b"deploy-1", b"deploy-2"))


def deployment(mode: Mode = Mode.RING, depends_on: tuple[IntentId, ...] = (), intent: IntentId = ID) -> Intent:
    nodes = (A, B)
    committee = nodes if mode is Mode.RING else nodes[:1]
    genesis = Genesis("any", b"", (), committee, nodes, 1, mode, Rotation.STICKY, 100, 16, 1337, bytes(32))
    return Intent(intent, NO_CONTRACT, Party("user@A"), encode_genesis(genesis), depends_on)


def wanted(intent: Intent, *causes: Cause) -> tuple[Fact, ...]:
    accepted = recorded(A, IntentAccepted(intent))
    return Wanted(A, intent, frozenset(causes)), accepted, Promised(A, Request.SUBMIT, intent.id)


def receipt(reason: str = "", intent: IntentId = ID) -> Reported:
    if reason:
        return Reported(A, Receipt(intent, Outcome.REVERTED, reason))
    return Reported(A, Receipt(intent, Outcome.CONFIRMED, contract=MADE))


def known(*nodes_with_it: object, contract: ContractAddress = MADE) -> list[Fact]:
    return [ContractsKnown(name, frozenset((contract,) if name in nodes_with_it else ())) for name in (A, B, C)]


def violated(name: str, *facts: Fact) -> bool:
    judge = Judge(Terms((A, B, C), {}, 3, verify), (*EVERY, WorkloadHolds))
    for fact in facts:
        judge.tell(fact)
    judge.conclude()
    assert judge.counts()[name].judged
    return name in {violation.invariant for violation in judge.found}


def test_contract_that_was_reported_stays_on_the_chain() -> None:
    undone = Deployed(ID, MADE, is_undone=True)
    assert not violated("D1", Deployed(ID, MADE), undone, Deployed(ID, MADE), receipt())
    assert violated("D1", Deployed(ID, MADE), receipt(), undone)


def test_stranger_may_deploy_under_the_id_of_what_was_cancelled() -> None:
    assert not violated("D1", receipt("cancelled"), Deployed(ID, STRANGE, is_strange=True))
    assert violated("D1", receipt("cancelled"), Deployed(ID, MADE))


@pytest.mark.parametrize(
    ("mode", "nodes", "is_wrong"),
    [
        (Mode.RING, (A, B), False),
        (Mode.RING, (A,), True),
        (Mode.RING, (A, B, C), True),
        (Mode.STATIC, (A, B, C), False),
        (Mode.STATIC, (A, B), True),
    ],
)
def test_nodes_that_may_know_a_contract_have_it_and_no_others(mode: Mode, nodes: object, is_wrong: bool) -> None:
    assert isinstance(nodes, tuple)
    assert violated("D3", *wanted(deployment(mode)), Deployed(ID, MADE), *known(*nodes)) is is_wrong


def test_nobody_has_what_a_stranger_deployed() -> None:
    facts = (*wanted(deployment(Mode.STATIC)), Deployed(ID, STRANGE, is_strange=True))
    assert not violated("D3", *facts, *known())
    assert violated("D3", *facts, *known(B, contract=STRANGE))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("B does not take the contract: against its rules", Cause.NODE_REFUSES),
        ("the factory does not deploy it: against its rules", Cause.FACTORY_REFUSES),
        (f"somebody else has deployed {STRANGE} under its id; deploy it again", Cause.ID_TAKEN),
        ("cancelled", Cause.CANCELLED),
    ],
)
def test_reverted_deployment_names_a_cause_that_the_plan_injected(reason: str, cause: Cause) -> None:
    assert not violated("O1", *wanted(deployment(), cause), receipt(reason))
    others = [each for each in Cause if each is not cause]
    assert violated("O1", *wanted(deployment(), *others), receipt(reason))


def test_deployment_that_nothing_stands_against_is_deployed_as_wanted() -> None:
    assert not violated("O1", *wanted(deployment()), Deployed(ID, MADE))
    assert violated("O1", *wanted(deployment()))
    assert violated("O1", *wanted(deployment()), Deployed(ID, STRANGE, is_strange=True))


def test_deployment_comes_after_what_it_depends_on() -> None:
    both = (*wanted(deployment()), *wanted(deployment(depends_on=(ID,), intent=OTHER_ID)))
    first, second = Deployed(ID, MADE), Deployed(OTHER_ID, STRANGE)
    assert not violated("O3", *both, first, second)
    assert violated("O3", *both, second, first)


def test_deployment_ends_with_what_it_depends_on() -> None:
    both = (*wanted(deployment(), Cause.CANCELLED), *wanted(deployment(depends_on=(ID,), intent=OTHER_ID)))
    ended = receipt(f"{ID.hex()}, which it depends on, was reverted", OTHER_ID)
    assert not violated("O1", *both, receipt("cancelled"), ended)
    assert violated("O1", *both, Deployed(ID, MADE), ended)


def test_reason_of_a_shipped_domain_is_one_that_the_domain_gave() -> None:
    intent = deployment()
    facts = (*wanted(intent, Cause.DOMAIN), receipt("PD200005: Insufficient funds"))
    assert violated("O1", *facts)
    assert not violated("O1", DomainSaid(ID, "PD200005: Insufficient funds"), *facts)


def test_flaw_that_a_workload_finds_is_told() -> None:
    assert not violated("W1", WorkloadEnded("noto", 3, ()))
    assert violated("W1", WorkloadEnded("noto", 3, ("7 was minted, and 8 is there",)))
    judge = Judge(Terms((A,), {}, 3, verify), (WorkloadHolds,))
    judge.tell(WorkloadEnded("noto", 0, ()))
    assert judge.counts()["W1"] == (1, 0, {"noto": 0})
