"""Privacy groups on three real nodes, as applications use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.storage import BYTECODE, CONSTRUCTOR, RETRIEVE, STORE
from tests.server.three_nodes import RpcFailed, ThreeNodes, three_nodes, until

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
        "sequencing": {"rotation": "strict", "rangeSize": 20},
    }
    group = to.node1.ask("pgroup_createGroup", spec)
    assert group["sequencing"] == {"mode": "ring", "rotation": "strict", "rangeSize": 20}
    assert group["id"] == group["genesisSalt"]
    assert group["members"] == ["a@node1", "b@node2"]
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


def test_groups_are_found_by_member_name_and_domain(to: ThreeNodes) -> None:
    spec = {"domain": "pente", "members": ["m@node1", "n@node2"], "name": "found"}
    group = to.node1.ask("pgroup_createGroup", spec)
    receipt = to.node1.receipt(group["genesisTransaction"])
    until(lambda: to.node2.ask("pgroup_getGroupByAddress", receipt["contractAddress"]))
    named = [{"field": "name", "value": "found"}]
    for node in (to.node1, to.node2):
        for member in ("m@node1", "n@node2"):
            found = node.ask("pgroup_queryGroupsWithMember", member, {"limit": 10})
            assert [each["name"] for each in found] == ["found"]
        assert node.ask("pgroup_queryGroupsWithMember", "m@node1", {"eq": [{"field": "name", "value": "none"}]}) == []
        assert len(node.ask("pgroup_queryGroups", {"eq": [*named, {"field": "domain", "value": "pente"}]})) == 1
        assert node.ask("pgroup_queryGroups", {"eq": [*named, {"field": "domain", "value": "noto"}]}) == []


def stored_contract(to: ThreeNodes) -> dict[str, Any]:
    """A private contract in a group of two; how it is asked."""
    base = group_of_two(to)
    deploy = {**base, "from": "a@node1", "bytecode": BYTECODE, "function": CONSTRUCTOR}
    deployed = to.node1.receipt(to.node1.ask("pgroup_sendTransaction", deploy), is_full=True)
    return {**base, "to": deployed["domainReceipt"]["receipt"]["contractAddress"]}


def store(to: ThreeNodes, contract: dict[str, Any], number: int) -> dict[str, Any]:
    """The receipt of a write at node1, read with tight polling."""
    sent = to.node1.ask("pgroup_sendTransaction", {**contract, "from": "a", "function": STORE, "input": [number]})
    while True:
        if (receipt := to.node1.ask("ptx_getTransactionReceipt", sent)) is not None:
            return dict(receipt)


def test_read_at_another_node_sees_the_write_of_a_receipt(to: ThreeNodes) -> None:
    contract = stored_contract(to)
    ask = {**contract, "from": "b", "function": RETRIEVE, "input": []}
    for number in range(1, 13):
        receipt = store(to, contract, number)
        position = receipt["position"]
        assert position["nodes"] == ["node1", "node2"]
        assert position["blockNumber"] == receipt["blockNumber"]
        # With the position the new value, always; without it, because node2 has acknowledged before the receipt.
        at_least = position if number % 2 else [position]
        assert to.node2.ask("pgroup_call", {**ask, "atLeast": at_least}) == {"value": str(number)}
        assert "unacknowledged" not in receipt


def test_read_of_a_position_that_is_not_there_is_an_error(to: ThreeNodes) -> None:
    contract = stored_contract(to)
    position = store(to, contract, 7)["position"]
    ask = {**contract, "from": "b", "function": RETRIEVE, "input": []}
    with pytest.raises(RpcFailed, match="node2 still lacks block 9999999 after 2 s") as late:
        to.node2.ask("pgroup_call", {**ask, "atLeast": {**position, "blockNumber": 9_999_999}})
    assert late.value.code == -32006
    with pytest.raises(RpcFailed, match="still lacks the private states") as lacking:
        to.node2.ask("pgroup_call", {**ask, "atLeast": {**position, "leaf": "0x" + "ab" * 32}})
    assert lacking.value.code == -32006
    with pytest.raises(RpcFailed, match=r"^call\.atLeast\.blockHash: must be that of block") as fork:
        to.node2.ask("pgroup_call", {**ask, "atLeast": {**position, "blockHash": "0x" + "ab" * 32}})
    assert fork.value.code == -32602
    with pytest.raises(RpcFailed, match=r"^call\.atLeast\.chain: must be this node's chain"):
        to.node2.ask("pgroup_call", {**ask, "atLeast": {**position, "chain": "0x" + "ab" * 32}})
    with pytest.raises(RpcFailed, match=r"^call\.atLeast: must be at most 16 positions, not 17$"):
        to.node2.ask("pgroup_call", {**ask, "atLeast": [position] * 17})
    # A node that is not named holds nothing of it, and waits for the block alone.
    elsewhere = {**position, "leaf": "0x" + "ab" * 32, "nodes": ["node1"]}
    assert to.node2.ask("pgroup_call", {**ask, "atLeast": elsewhere}) == {"value": "7"}
    schema = to.node2.ask("pstate_listSchemas", "pente")[0]["id"]
    for method in ("pstate_queryStates", "pstate_queryNullifiers"):
        to.node2.ask(method, "pente", schema, {}, "all", position)
        with pytest.raises(RpcFailed, match=r"^atLeast\.blockHash: must be"):
            to.node2.ask(method, "pente", schema, {}, "all", {**position, "blockHash": "0x" + "ab" * 32})


def group_of_two(to: ThreeNodes) -> dict[str, Any]:
    group: dict[str, Any] = to.node1.ask("pgroup_createGroup", {"domain": "pente", "members": ["a@node1", "b@node2"]})
    receipt = to.node1.receipt(group["genesisTransaction"])
    until(lambda: to.node2.ask("pgroup_getGroupByAddress", receipt["contractAddress"]))
    return {"domain": "pente", "group": group["id"]}


def test_a_message_reaches_every_member_s_node_and_no_other(to: ThreeNodes) -> None:
    group = group_of_two(to)
    first = to.node1.ask("pgroup_sendMessage", {**group, "topic": "greetings", "data": {"text": "hello"}})
    told = to.node2.wait_for("pgroup_getMessageById", first)
    own = to.node1.ask("pgroup_getMessageById", first)
    assert (told["data"], told["node"], told["topic"], told["group"]) == (
        {"text": "hello"},
        "node1",
        "greetings",
        group["group"],
    )
    assert {**told, "received": 0, "localSequence": 0} == {**own, "received": 0, "localSequence": 0}
    assert to.node1.ask("transport_getPeer", "node2")["stats"]["reliableHighestSent"] > 0
    assert to.node1.ask("transport_getPeer", "node3")["stats"]["reliableHighestSent"] == 0
    reply = to.node2.ask("pgroup_sendMessage", {**group, "topic": "replies", "data": 7, "correlationId": first})
    to.node1.wait_for("pgroup_getMessageById", reply)
    about = {"eq": [{"field": "correlationId", "value": first}]}
    assert [each["id"] for each in to.node1.ask("pgroup_queryMessages", about)] == [reply]
    assert to.node3.ask("pgroup_queryMessages", {}) == []
    with pytest.raises(RpcFailed, match=r"^msg\.group: must be a group of node3"):
        to.node3.ask("pgroup_sendMessage", {**group, "topic": "t", "data": 1})


def test_messages_wait_for_a_node_that_is_away_and_outlast_restarts(to: ThreeNodes) -> None:
    group = group_of_two(to)
    to.stop("node2")
    sent = [to.node1.ask("pgroup_sendMessage", {**group, "topic": "later", "data": n}) for n in range(40)]
    unacknowledged = {
        "null": [{"field": "acknowledged"}],
        "eq": [{"field": "messageType", "value": "privacy_group_message"}],
    }
    assert len(to.node1.ask("transport_queryReliableMessages", unacknowledged)) == 40
    to.stop("node1")
    to.start("node1")
    to.start("node2")
    later = {"eq": [{"field": "topic", "value": "later"}], "sort": ["localSequence"]}
    got = until(lambda: len(found := to.node2.ask("pgroup_queryMessages", later)) == 40 and found)
    assert sorted(each["id"] for each in got) == sorted(sent)
    until(lambda: to.node1.ask("transport_queryReliableMessages", unacknowledged) == [])


def test_a_listener_is_pushed_messages_until_they_are_acknowledged(to: ThreeNodes) -> None:
    group = group_of_two(to)
    definition = {
        "name": "mine",
        "filters": {"group": group["group"], "topic": "news"},
        "options": {"excludeLocal": True},
    }
    assert to.node2.ask("pgroup_createMessageListener", definition) is True
    shown = to.node2.ask("pgroup_getMessageListener", "mine")
    assert (shown["started"], shown["filters"], shown["options"]) == (
        True,
        definition["filters"],
        definition["options"],
    )
    with pytest.raises(RpcFailed, match="there is a listener 'mine' already"):
        to.node2.ask("pgroup_createMessageListener", definition)
    to.node2.ask("pgroup_sendMessage", {**group, "topic": "news", "data": "our own"})
    ids = [to.node1.ask("pgroup_sendMessage", {**group, "topic": "news", "data": n}) for n in range(3)]
    to.node2.wait_for("pgroup_getMessageById", ids[-1])
    socket = to.socket("node2")
    subscription = socket.ask("pgroup_subscribe", "messages", "mine")
    got: list[dict[str, Any]] = []
    push = socket.receive()
    assert (push["method"], push["params"]["subscription"]) == ("pgroup_subscription", subscription)
    socket.close()
    # What was not acknowledged comes again, to whoever subscribes next.
    socket = to.socket("node2")
    subscription = socket.ask("pgroup_subscribe", "messages", "mine")
    while len(got) < 3:
        push = socket.receive()
        got += push["params"]["result"]["messages"]
        socket.tell("pgroup_ack", subscription)
    assert [each["id"] for each in got] == ids
    assert [each["data"] for each in got] == [0, 1, 2]
    assert socket.ask("pgroup_unsubscribe", subscription) is True
    socket.close()
    assert to.node2.ask("pgroup_stopMessageListener", "mine") is True
    assert to.node2.ask("pgroup_queryMessageListeners", {})[0]["started"] is False
    assert to.node2.ask("pgroup_startMessageListener", "mine") is True
    assert to.node2.ask("pgroup_deleteMessageListener", "mine") is True
    with pytest.raises(RpcFailed, match="there is no listener 'mine'"):
        to.node2.ask("pgroup_deleteMessageListener", "mine")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"domain": "noto", "members": ["a@node1"]}, "spec.domain: must be pente: 'noto' has no groups"),
        ({"domain": "pente", "members": ["a@node2"]}, "spec.members: must have a party of this node among them"),
        ({"domain": "pente", "members": []}, "spec.members: must have a party of this node among them"),
        (
            {"domain": "pente", "members": ["a@node1", "b@node9"]},
            "spec.members: must name parties of registered nodes, and b@node9 is of none",
        ),
        (
            {"domain": "pente", "members": ["a@node1"], "configuration": {"endorsementType": "x"}},
            "spec.configuration.endorsementType: must be group_scoped_identities",
        ),
        (
            {"domain": "pente", "members": ["a@node1"], "configuration": {"evmVersion": "old"}},
            "spec.configuration.evmVersion: must be ",
        ),
        (
            {"domain": "pente", "members": ["a@node1"], "sequencing": {"mode": "static"}},
            "spec.sequencing.mode: must be ring in the domain pente",
        ),
        (
            {"domain": "pente", "members": ["a@node1"], "sequencing": {"rangeSize": 0}},
            "spec.sequencing.rangeSize: must be a whole number >= 1",
        ),
    ],
)
def test_what_is_wrong_with_a_group_is_named(to: ThreeNodes, spec: dict[str, object], message: str) -> None:
    with pytest.raises(RpcFailed) as error:
        to.node1.ask("pgroup_createGroup", spec)
    assert str(error.value).startswith(message)
