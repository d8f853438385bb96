"""A registered node that is no member learns nothing of a privacy group: not even who its members are (trust, T5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rota.directory.acquaintance_events import AcquisitionEnded
from rota.directory.effects import AcquireContract
from rota.machine.effects import LookUpVerifier, ReportVerifier, SendMessage
from rota.machine.events import VerifierLookedUp, VerifierWanted
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Mode, NodeName, Party, RequestId
from rota.node.acquaintance import MISTRUST_MS, UNANSWERED
from rota.node.events import ForContract
from rota.wire.messages import (
    GenesisRequest,
    GenesisResponse,
    GroupMessage,
    GroupMessageAcknowledgement,
    HoldingsRequest,
    HoldingsResponse,
    Message,
    Startup,
    StartupAcknowledgement,
    Verdict,
    VerifierRequest,
    VerifierResponse,
)
from tests.directory.deployment_bench import ID
from tests.node.node_bench import CONFIG, OTHER, OURS, NodeBench
from tests.sequencer.kit import ADDRESS, A, B, C
from tests.wire.samples import MESSAGE_TYPES, full_envelope

STRANGER = NodeName("stranger")
RING = replace(OURS, mode=Mode.RING, committee=(A, B), endorsers=(A, C), threshold=1)
STARTUP = Startup(RequestId(1, 1))
# The core does not see these (`service.groups.mail`, `service.receipts.holdings`).
OF_THE_RUNTIME = (GroupMessage, GroupMessageAcknowledgement, HoldingsRequest, HoldingsResponse)


@dataclass
class Bench(NodeBench):
    """Node A with a factory, and with a privacy group of A and B unless told otherwise."""

    contracts: tuple[Contract, ...] = (RING,)
    factory: ContractAddress = ContractAddress("0x" + "fa" * 20)

    def to(self, peer: NodeName) -> list[type[Message]]:
        """The kinds of messages that a peer was sent."""
        return [type(sent.envelope.body) for sent in self.all(SendMessage) if sent.peer == peer]


@pytest.mark.parametrize("kind", [each for each in MESSAGE_TYPES if each not in OF_THE_RUNTIME])
def test_member_answers_a_stranger_as_a_node_that_has_no_such_contract_does(kind: type[Message]) -> None:
    """The attack: a stranger says something about each contract on the chain to each node, and sees who answers."""
    member, other = Bench(), Bench(contracts=())
    for bench in (member, other):
        bench.hear(STRANGER, full_envelope(kind).body)
        bench.wait(CONFIG.request_timeout_ms)
    assert member.to(STRANGER) == other.to(STRANGER)
    if not issubclass(kind, UNANSWERED):
        assert member.to(STRANGER)[:1] in ([GenesisRequest], [])


def test_member_and_endorser_are_answered_also_after_the_group_was_paged_out() -> None:
    bench = Bench(contracts=(), known=(RING,), config=Config(sequencers_max=1))
    for peer in (STRANGER, B, C):
        bench.hear(peer, STARTUP)
    assert (bench.to(STRANGER), bench.to(B)[-1], bench.to(C)[-1]) == (
        [GenesisRequest],
        StartupAcknowledgement,
        StartupAcknowledgement,
    )


def test_verifier_that_is_kept_is_not_told_to_a_stranger_while_the_group_is_not_in_memory() -> None:
    bench = Bench(config=Config(sequencers_max=1), known=(replace(RING, address=OTHER),))
    question = VerifierRequest(RequestId(1, 1), Party("alice@A"))
    bench.hear(B, question)
    bench.tell(ForContract(ADDRESS, VerifierLookedUp(B, RequestId(1, 1), Party("alice@A"), "0xa11ce")))
    assert bench.said(VerifierResponse, B)
    bench.hear(B, STARTUP, OTHER)
    assert ADDRESS not in bench.node.sequencers.loaded
    bench.hear(STRANGER, question)
    assert bench.to(STRANGER) == [GenesisRequest]
    assert len(bench.all(LookUpVerifier)) == 1


def test_genesis_that_a_stranger_answers_with_counts_as_false_at_a_member_too() -> None:
    member, other = Bench(), Bench(contracts=())
    for bench in (member, other):
        bench.hear(STRANGER, STARTUP)
        question = bench.said(GenesisRequest, STRANGER)[-1]
        bench.hear(STRANGER, GenesisResponse(question.request_id, ID, b"made up"))
    assert member.all(AcquireContract) == []
    other.tell(AcquisitionEnded(ADDRESS, STRANGER, Verdict.REFUSED, is_false=True))
    for wait_ms in (0, MISTRUST_MS, 10 * MISTRUST_MS):
        for bench in (member, other):
            bench.wait(wait_ms)
            bench.hear(STRANGER, STARTUP)
            bench.hear(STRANGER, STARTUP, OTHER)
        assert member.to(STRANGER) == other.to(STRANGER)


def test_verifier_of_a_party_that_a_member_asked_a_stranger_for_is_taken() -> None:
    bench = Bench()
    bench.tell(ForContract(ADDRESS, VerifierWanted(Party("bob@stranger"))))
    [asked] = bench.said(VerifierRequest, STRANGER)
    bench.hear(STRANGER, VerifierResponse(asked.request_id, asked.party, "0xb0b"))
    assert [report.verifier for report in bench.all(ReportVerifier)] == ["0xb0b"]
