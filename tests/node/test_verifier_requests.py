"""Peers ask for verifiers of made-up parties: few are looked up, and an answer is given again without a look-up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import LookUpVerifier
from rota.machine.events import VerifierLookedUp, VerifierWanted
from rota.model.types import NO_CONTRACT, ContractAddress, Mode, NodeName, Party, RequestId
from rota.node import verifier_requests
from rota.node.effects import LoadContract
from rota.node.events import ForContract
from rota.node.verifier_requests import (
    ANNOUNCED_OF_PEER_MAX,
    ANSWER_MS,
    HOUR_MS,
    LOOKUPS_LEAST,
    LOOKUPS_MAX,
    LOOKUPS_OF_PEER_MAX,
)
from rota.wire.messages import VerifierRequest, VerifierResponse
from tests.node.node_bench import OURS, NodeBench
from tests.sequencer.kit import ADDRESS, A, B, C


def ask(bench: NodeBench, peer: NodeName, name: str, of: ContractAddress = ADDRESS) -> int:
    """A peer asks for a party of ours; how many look-ups that made."""
    before = len(bench.all(LookUpVerifier))
    bench.hear(peer, VerifierRequest(RequestId(1, 1), Party(f"{name}@A")), of)
    return len(bench.all(LookUpVerifier)) - before


def answer(bench: NodeBench, name: str, verifier: str, of: ContractAddress = ADDRESS) -> None:
    bench.tell(ForContract(of, VerifierLookedUp(B, RequestId(1, 1), Party(f"{name}@A"), verifier)))


@pytest.mark.parametrize("of", [ADDRESS, NO_CONTRACT])
def test_peer_that_asks_for_made_up_parties_has_a_bounded_number_looked_up(of: ContractAddress) -> None:
    bench = NodeBench()
    made = sum(ask(bench, B, f"name{number}", of) for number in range(4 * LOOKUPS_OF_PEER_MAX))
    assert made == LOOKUPS_OF_PEER_MAX
    assert bench.node.verifiers.dropped_count == 3 * LOOKUPS_OF_PEER_MAX
    assert ask(bench, C, "carol", of) == 1, "another peer has its own allowance"
    bench.wait(bench.config.request_timeout_ms)
    assert ask(bench, B, "later", of) == 1


def test_peers_that_collude_leave_another_one_its_least() -> None:
    bench = NodeBench()
    liars = [NodeName(f"liar{number}") for number in range(4)]
    made = sum(ask(bench, liar, f"name{n}") for liar in liars for n in range(LOOKUPS_OF_PEER_MAX))
    assert made == LOOKUPS_MAX + LOOKUPS_LEAST * len(liars)
    assert [ask(bench, C, f"party{number}") for number in range(LOOKUPS_LEAST + 1)] == [1] * LOOKUPS_LEAST + [0]


@pytest.mark.parametrize("verifier", ["0xa11ce", ""])
def test_answer_is_given_again_without_a_look_up_also_that_there_is_no_such_party(verifier: str) -> None:
    bench = NodeBench()
    assert ask(bench, B, "alice") == 1
    answer(bench, "alice", verifier)
    bench.seen.clear()
    assert ask(bench, C, "alice") == 0
    assert [reply.verifier for reply in bench.said(VerifierResponse, C)] == [verifier]
    assert ask(bench, B, "alice", NO_CONTRACT) == 1, "the verifier of a party may be another in another contract"
    bench.wait(ANSWER_MS)
    assert ask(bench, C, "alice") == 1, "an operator may have imported a key"


def test_answers_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_requests, "ANSWERS_MAX", 2)
    bench = NodeBench()
    for name in ("one", "two", "three"):
        answer(bench, name, "0x1")
    assert [party for _, party in bench.node.verifiers.answers] == ["two@A", "three@A"]


def test_own_node_asks_as_often_as_it_likes() -> None:
    bench = NodeBench()
    assert sum(ask(bench, A, f"name{number}") for number in range(2 * LOOKUPS_OF_PEER_MAX)) == 2 * LOOKUPS_OF_PEER_MAX


def found(bench: NodeBench, peer: NodeName, name: str, announced: bool | None, of: ContractAddress = ADDRESS) -> None:
    """Our key store has answered what this peer asked."""
    event = VerifierLookedUp(peer, RequestId(1, 1), Party(f"{name}@A"), "0xa11ce", announced)
    bench.tell(ForContract(of, event))


def asks(bench: NodeBench, peer: NodeName, name: str, of: ContractAddress = ADDRESS) -> int:
    """A peer asks also whether the party is announced; how many look-ups that made."""
    before = len(bench.all(LookUpVerifier))
    bench.hear(peer, VerifierRequest(RequestId(1, 1), Party(f"{name}@A"), asks_announced=True), of)
    return len(bench.all(LookUpVerifier)) - before


def told(bench: NodeBench, peer: NodeName) -> list[bool | None]:
    return [reply.announced for reply in bench.said(VerifierResponse, peer)]


def test_announced_party_is_told_to_nodes_that_share_the_contract() -> None:
    bench = NodeBench(contracts=(replace(OURS, mode=Mode.RING, committee=(A, B)),))
    stranger = NodeName("stranger")
    for of in (ADDRESS, NO_CONTRACT):
        assert asks(bench, B, "alice", of) == 1
        found(bench, B, "alice", True, of)
    assert told(bench, B) == [True, None]
    assert (asks(bench, stranger, "alice"), told(bench, stranger)) == (0, []), "also from what is kept"
    assert all(each.asks_announced for each in bench.all(LookUpVerifier)[:1])


def test_party_that_is_not_announced_is_looked_up_again_when_that_is_asked() -> None:
    bench = NodeBench()
    asks(bench, B, "bbo")
    found(bench, B, "bbo", False)
    assert told(bench, B) == [False]
    assert ask(bench, B, "bbo") == 0, "its verifier is known"
    assert asks(bench, B, "bbo") == 1, "it may have been created since"
    found(bench, B, "bbo", True)
    assert asks(bench, B, "bbo") == 0
    assert told(bench, B) == [False, None, True, True]


def test_peer_cannot_try_all_names_that_there_could_be() -> None:
    bench = NodeBench()
    for number in range(ANNOUNCED_OF_PEER_MAX + 10):
        found(bench, B, f"name{number}", number % 2 == 0)
    found(bench, A, "own", True)
    answers = told(bench, B)
    assert answers[:2] == [True, False]
    assert answers[ANNOUNCED_OF_PEER_MAX:] == [None] * 10
    found(bench, C, "carol", True)
    assert told(bench, C) == [True], "another peer has its own allowance"
    bench.wait(HOUR_MS)
    found(bench, B, "later", True)
    assert told(bench, B)[-1] is True


@pytest.mark.parametrize("asks_announced", [False, True])
def test_user_who_asks_for_a_verifier_has_the_contract_loaded(asks_announced: bool) -> None:
    bench = NodeBench(contracts=(), known=(OURS,))
    bench.tell(ForContract(ADDRESS, VerifierWanted(Party("bob@B"), asks_announced=asks_announced)))
    assert len(bench.all(LoadContract)) == 1
    assert [request.party for request in bench.said(VerifierRequest, B)] == ["bob@B"]
