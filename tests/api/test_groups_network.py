"""Privacy groups on three real nodes, as applications use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.storage import BYTECODE, CONSTRUCTOR, RETRIEVE, STORE
from tests.api.three_nodes import RpcFailed, ThreeNodes, three_nodes, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    home: Path = tmp_path_factory.mktemp("groups")
    with three_nodes(home) as running:
        yield running


def test_a_private_storage_contract_is_for_members_alone(to: ThreeNodes) -> None:
    spec = {
        "domain": "pente",
        "members": ["a@node1", "b@node2"],
        "configuration": {"evmVersion": "shanghai", "externalCallsEnabled": "true"},
        "name": "storage",
        "properties": {"purpose": "a test"},
    }
    group = to.node1.ask("pgroup_createGroup", spec)
    assert group["id"] == group["genesisSalt"]
    assert group["members"] == ["a@node1", "b@node2"]
    assert "contractAddress" not in group
    receipt = to.node1.receipt(group["genesisTransaction"])
    found = to.node1.ask("pgroup_getGroupById", "pente", group["id"])
    assert found == {**group, "contractAddress": receipt["contractAddress"]}
    theirs = until(lambda: to.node2.ask("pgroup_getGroupByAddress", receipt["contractAddress"]))
    assert {**theirs, "created": None} == {**found, "created": None}
    assert theirs["configuration"]["externalCallsEnabled"] == "true"
    assert theirs["properties"] == {"purpose": "a test"}
    assert to.node3.ask("pgroup_getGroupById", "pente", group["id"]) is None

    base = {"domain": "pente", "group": group["id"]}
    deployment = to.node1.ask(
        "pgroup_sendTransaction", {**base, "from": "a@node1", "bytecode": BYTECODE, "function": CONSTRUCTOR}
    )
    deployed = to.node1.receipt(deployment, is_full=True)
    address = deployed["domainReceipt"]["receipt"]["contractAddress"]
    sent = to.node2.ask(
        "pgroup_sendTransaction", {**base, "from": "b", "to": address, "function": STORE, "input": {"num": 125}}
    )
    to.node2.receipt(sent)
    ask = {**base, "to": address, "function": RETRIEVE, "input": []}
    assert to.node2.ask("pgroup_call", {**ask, "from": "b@node2"}) == {"value": "125"}
    assert until(lambda: to.node1.ask("pgroup_call", {**ask, "from": "a"})["value"] == "125")
    assert to.node2.ask("pgroup_call", {**ask, "from": "b", "dataFormat": "mode=array&number=hex"}) == ["0x7d"]

    with pytest.raises(RpcFailed, match=r"^call\.from: must be a member of the group, and x@node1 is none$"):
        to.node1.ask("pgroup_call", {**ask, "from": "x@node1"})
    with pytest.raises(RpcFailed, match=r"^call\.group: must be a group of node3, and 0x"):
        to.node3.ask("pgroup_call", {**ask, "from": "c@node3"})
    with pytest.raises(RpcFailed, match=r"^tx\.from: must be a member of the group"):
        to.node1.ask("pgroup_sendTransaction", {**base, "from": "x", "to": address, "function": STORE, "input": [1]})


def test_a_member_is_known_to_a_private_contract_by_its_one_address(to: ThreeNodes) -> None:
    everyone = to.node1.ask("pgroup_queryGroupsWithMember", "a@node1", {"limit": 10})
    assert [each["name"] for each in everyone] == ["storage"]
    assert to.node1.ask("pgroup_queryGroupsWithMember", "b@node2", {"eq": [{"field": "name", "value": "none"}]}) == []
    assert len(to.node2.ask("pgroup_queryGroups", {"eq": [{"field": "domain", "value": "pente"}]})) == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"domain": "noto", "members": ["a@node1"]}, "spec.domain: must be pente: 'noto' has no groups"),
        ({"domain": "pente", "members": ["a@node2"]}, "spec.members: must have a party of this node among them"),
        ({"domain": "pente", "members": []}, "spec.members: must have a party of this node among them"),
        (
            {"domain": "pente", "members": ["a@node1"], "configuration": {"evmVersion": "old"}},
            "spec.configuration.evmVersion: must be ",
        ),
    ],
)
def test_what_is_wrong_with_a_group_is_named(to: ThreeNodes, spec: dict[str, object], message: str) -> None:
    with pytest.raises(RpcFailed) as error:
        to.node1.ask("pgroup_createGroup", spec)
    assert str(error.value).startswith(message)
