"""How the questions of peers for states take turns, and how much of the processor a peer gets."""

from __future__ import annotations

import pytest

from rota.machine.effects import FindStates
from rota.model.types import ContractAddress, Digest, Leaf, NodeName
from rota.store import findings
from rota.store.findings import FOUND_S, LEAF_S, SHARE, WAITING_OF_PEER_MAX, Findings
from tests.store.kit import a_transition

CONTRACT = ContractAddress("0x" + "c0" * 20)
OWN, PEER, OTHER = NodeName("own"), NodeName("peer"), NodeName("other")
FOUND = ((Digest(bytes(32)), (a_transition(1),) * 64),)
NOT_FOUND: findings.Answer = ()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def question(peer: NodeName, number: int, leaves: int = 64) -> FindStates:
    return FindStates(CONTRACT, peer, tuple(Leaf((number * 100 + each).to_bytes(32)) for each in range(leaves)))


@pytest.mark.parametrize(("answer", "found_count"), [(FOUND, 64), (NOT_FOUND, 0)], ids=["found", "not found"])
def test_peer_that_asks_without_end_gets_its_share_of_the_processor(answer: findings.Answer, found_count: int) -> None:
    clock, answered = Clock(), 0
    waiting = Findings(OWN, clock)
    while clock.now_s < 60:
        waiting.put(question(PEER, answered))
        waiting.put(question(PEER, answered + 1))
        taken = waiting.take()
        if taken is None:
            clock.now_s += waiting.wait_s() or 0.001
        else:
            waiting.charge(taken, answer)
            answered += 1
    spent_s = answered * (64 * LEAF_S + found_count * FOUND_S)
    assert 0.9 * SHARE * 60 < spent_s < 1.1 * SHARE * 60


def test_question_of_a_peer_that_rests_waits_and_others_are_answered() -> None:
    clock = Clock()
    waiting = Findings(OWN, clock)
    for number in range(3):
        waiting.put(question(PEER, number))
    first = waiting.take()
    assert first == question(PEER, 0)
    waiting.charge(first, FOUND)
    assert waiting.take() is None
    waiting.put(question(OTHER, 1))
    assert waiting.wait_s() == 0
    assert waiting.take() == question(OTHER, 1)
    rest_s = waiting.wait_s()
    assert rest_s is not None
    assert rest_s == pytest.approx((64 * LEAF_S + 64 * FOUND_S) / SHARE)
    clock.now_s = rest_s
    assert waiting.take() == question(PEER, 1)
    assert len(waiting) == 1


def test_node_itself_does_not_rest() -> None:
    waiting = Findings(OWN, Clock())
    for number in range(2):
        waiting.put(question(OWN, number, 1))
        taken = waiting.take()
        assert taken == question(OWN, number, 1)
        waiting.charge(taken, FOUND)
    assert waiting.wait_s() is None


def test_question_that_waits_already_takes_no_further_place() -> None:
    waiting = Findings(OWN, Clock())
    for _ in range(2):
        for number in range(WAITING_OF_PEER_MAX + 1):
            waiting.put(question(PEER, number, 1))
    assert len(waiting) == WAITING_OF_PEER_MAX
    assert [waiting.take() for _ in range(3)] == [question(PEER, number, 1) for number in range(3)]


def test_memory_of_peers_that_rest_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "RESTING_MAX", 2)
    waiting = Findings(OWN, Clock())
    for number, leaves in enumerate((3, 1, 2)):
        waiting.charge(question(NodeName(f"peer{number}"), 0, leaves), NOT_FOUND)
    for number in range(3):
        waiting.put(question(NodeName(f"peer{number}"), 1))
    assert waiting.take() == question(NodeName("peer1"), 1)
    assert waiting.take() is None
