"""Which address a party has, where there is no contract: its own node says so, and nobody else may."""

from __future__ import annotations

import pytest

from rota.directory.lookups import LOOKUPS_MAX
from rota.machine.effects import LookUpVerifier, ReportVerifier
from rota.machine.events import VerifierLookedUp, VerifierWanted
from rota.model.types import NO_CONTRACT, Party, RequestId
from rota.node.events import ForContract
from rota.wire.messages import VerifierRequest, VerifierResponse
from tests.directory.deployment_bench import DeploymentBench
from tests.sequencer.kit import B, C

BOB = Party("bob@B")
ADDRESS = "0x" + "0b" * 20


def wanted(bench: DeploymentBench) -> VerifierRequest:
    bench.tell(ForContract(NO_CONTRACT, VerifierWanted(BOB)))
    return bench.said(VerifierRequest, B)[-1]


def test_node_of_a_party_is_asked_each_time_that_it_is_wanted() -> None:
    bench = DeploymentBench()
    assert wanted(bench) == wanted(bench)
    assert len(bench.said(VerifierRequest, B)) == 2


def test_answer_of_its_own_node_is_reported_once() -> None:
    bench = DeploymentBench()
    request = wanted(bench)
    bench.hear(C, VerifierResponse(request.request_id, BOB, "0xc"), NO_CONTRACT)
    bench.hear(B, VerifierResponse(RequestId(9, 9), BOB, "0xd"), NO_CONTRACT)
    assert bench.all(ReportVerifier) == []
    for _ in range(2):
        bench.hear(B, VerifierResponse(request.request_id, BOB, ADDRESS), NO_CONTRACT)
    assert bench.all(ReportVerifier) == [ReportVerifier(NO_CONTRACT, BOB, ADDRESS)]


@pytest.mark.parametrize("text", ["alice@A", ADDRESS.upper(), ADDRESS + "\n", ADDRESS[:-1], ""])
def test_text_that_is_no_address_names_no_party(text: str) -> None:
    """Clients see the address in the place of the party: a liar would appear under the name of another party."""
    bench = DeploymentBench()
    bench.hear(B, VerifierResponse(wanted(bench).request_id, BOB, text), NO_CONTRACT)
    assert bench.all(ReportVerifier) == [ReportVerifier(NO_CONTRACT, BOB, "")]


def test_another_node_is_answered_what_the_key_store_says() -> None:
    bench = DeploymentBench()
    alice, asked = Party("alice@A"), RequestId(3, 4)
    bench.hear(B, VerifierRequest(asked, alice), NO_CONTRACT)
    assert bench.all(LookUpVerifier) == [LookUpVerifier(NO_CONTRACT, B, asked, alice)]
    bench.tell(ForContract(NO_CONTRACT, VerifierLookedUp(B, asked, alice, "0xa11ce")))
    assert bench.said(VerifierResponse, B) == [VerifierResponse(asked, alice, "0xa11ce")]


def test_questions_without_an_answer_are_bounded() -> None:
    bench = DeploymentBench()
    for number in range(LOOKUPS_MAX + 1):
        bench.tell(ForContract(NO_CONTRACT, VerifierWanted(Party(f"bob{number}@B"))))
    assert len(bench.node.deployments.lookups.open) == LOOKUPS_MAX
