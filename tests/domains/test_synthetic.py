"""The synthetic domain, alone and in the simulator."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from rota.domains.base import Rejected
from rota.host import UserCall
from rota.model.types import IntentId, Mode, NodeName, Party, StateId
from rota.testing import Scene, Workload, findings, simulate
from rota.testing.synthetic import Synthetic
from tests.domains.town import Reverts, Town


def calls(scene: Scene) -> Generator[UserCall, IntentId | None, None]:
    """Every function now and then."""
    random, nodes = scene.random, scene.nodes
    while True:
        user = Party(f"user@{random.choice(nodes)}")
        payee = f"user@{random.choice(nodes)}"
        name = random.choice(("x", "y"))
        yield random.choice(
            (
                UserCall(user, "spend", {"names": [name], "data": "0x01"}),
                UserCall(user, "spend", {"names": ["x", "y"]}),
                UserCall(user, "look", {"name": name}),
                UserCall(user, "mint", {"data": "0x02"}),
                UserCall(user, "pay", {"to": payee}),
                UserCall(user, "revert"),
                UserCall(user, "refuse"),
                UserCall(user, "spend", {"names": []}),
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ring", "static", "sender"])
def test_it_holds_under_faults(mode: str) -> None:
    workload = Workload(Party("user@A"), {"members": ["user@A", "user@B", "user@C"], "mode": mode}, calls)
    reports = simulate(Synthetic(), workload, seeds=range(3), minutes=0.2)
    assert findings(reports) == []
    assert all(report.confirmed > 20 and report.reverted and report.refused for report in reports)


# Alone.


MEMBERS = (Party("a@node1"), Party("b@node2"))


@pytest.fixture
def group() -> Town:
    return Town(Synthetic(), {"members": ["a", "b@node2"]}, MEMBERS[0])


def test_members_endorse_and_coordinate(group: Town) -> None:
    contract = group.hosted.contract
    assert contract.committee == contract.endorsers == ("node1", "node2")
    assert (contract.mode, contract.threshold) == (Mode.RING, 2)
    static = Town(Synthetic(), {"members": list(MEMBERS), "mode": "static", "threshold": 1}, MEMBERS[0]).hosted.contract
    assert (static.mode, static.committee, static.threshold) == (Mode.STATIC, ("node1",), 1)
    wrongs: tuple[dict[str, object], ...] = (
        {"members": []},
        {"members": ["a"], "mode": "flat"},
        {"members": ["a"], "threshold": 2},
    )
    for wrong in wrongs:
        with pytest.raises(Rejected):
            Town(Synthetic(), wrong, MEMBERS[0])


def test_a_request_that_is_too_large_is_refused(group: Town) -> None:
    huge = {"names": [letter * 400_000 for letter in "abc"]}
    with pytest.raises(Rejected, match="a request must be at most 1048576 bytes"):
        group.assemble(MEMBERS[0], "spend", huge)


def test_shared_states_are_replaced_and_read(group: Town) -> None:
    first = group.do(MEMBERS[0], "spend", {"data": "0x01"})
    second = group.do(MEMBERS[1], "spend", {"names": ["shared", "x"], "data": "0x02"})
    assert second.inputs == (first.outputs[0].id,)
    assert group.do(MEMBERS[1], "look", {}).reads == (second.outputs[0].id,)
    assert group.ask(MEMBERS[0], "value") == {"name": "shared", "data": "0x02"}
    assert group.ask(MEMBERS[0], "value", {"name": "y"}) is None
    assert group.receipt(first, NodeName("node2")) == {"made": [{"schema": "Shared", "name": "shared", "data": "0x01"}]}


def test_what_is_against_the_rules_is_refused(group: Town) -> None:
    assert group.refusal(group.assemble(MEMBERS[0], "refuse", {}), MEMBERS[0]) == "against the rules"
    shared = group.do(MEMBERS[0], "spend", {})
    minted = group.assemble(MEMBERS[0], "mint", {})
    stolen = replace(minted, inputs=(shared.outputs[0].id,))
    assert group.refusal(stolen, MEMBERS[0]) == "shared is spent and not made again"
    group.do(MEMBERS[0], "pay", {"to": "b@node2"})
    again = group.assemble(MEMBERS[0], "pay", {"to": "b@node2"})
    theirs = replace(again, inputs=(StateId(again.inputs[0].leaf, 0),))
    assert group.refusal(theirs, MEMBERS[0]) == "the coin is not the sender's"
    for function in ("revert", "park"):
        with pytest.raises(Reverts, match="because it was asked to"):
            group.assemble(MEMBERS[0], function, {})
