"""Creating groups, and who may ask what of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from rota.domains.base import Rejected
from rota.domains.pente import Pente
from rota.domains.pente.domain import GAS_MAX
from rota.domains.pente.records import Group
from rota.domains.records import packed, unpacked
from rota.evm.private_evm import PrivateEvm
from rota.host import UserCall, assemble, call, deploy, init, load_domains
from rota.model.types import Intent, IntentId, Mode, NodeName, Party, SubmitMode
from rota.sequencer.events import AssemblyFinished
from rota.testing.workloads.pente import call_of, entry_of
from tests.domains.kit import ADDRESS, assembly_order, hosted_by, transition_of
from tests.domains.pente.members import ALICE, BOB, CAROL, MALLORY, Members, Reverts, playground, token

NODES = tuple(NodeName(f"node{n}") for n in (1, 2, 3))


def test_nodes_find_it_by_its_entry_point() -> None:
    assert isinstance(load_domains()["pente"], Pente)


def test_all_members_nodes_coordinate_in_turn_and_endorse() -> None:
    contract = Members().hosted.contract
    assert contract.mode is Mode.RING
    assert contract.committee == contract.endorsers == NODES
    assert contract.threshold == 3


def test_configuration_may_come_as_text_and_with_what_nobody_knows() -> None:
    written = {"evmVersion": "shanghai", "externalCallsEnabled": "true", "endorsementThreshold": "2", "colour": "blue"}
    hosted = hosted_by(Pente(PrivateEvm), {"members": ["alice@node1", "bob", "carol@node3"], "configuration": written})
    assert hosted.contract.threshold == 2
    assert hosted.configuration.members == (Party("alice@node1"), Party("bob@node1"), Party("carol@node3"))  # type: ignore[attr-defined]
    assert hosted.configuration.external_calls_enabled is True  # type: ignore[attr-defined]


def test_members_of_one_node_sign_once() -> None:
    contract = hosted_by(Pente(PrivateEvm), {"members": ["alice@node1", "bob@node1", "carol@node2"]}).contract
    assert (contract.endorsers, contract.threshold) == (NODES[:2], 2)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "members"),
        ({"members": []}, "members"),
        ({"members": ["alice@node1", "alice@node1"]}, "members"),
        ({"members": [f"m{n}@node1" for n in range(65)]}, "members"),
        ({"members": [f"m{n}@node{n}" for n in range(33)]}, "members"),
        ({"members": ["not a name"]}, "members[0]"),
        ({"members": ["a@b"], "configuration": {"evmVersion": "frontier"}}, "configuration.evmVersion"),
        ({"members": ["a@b"], "configuration": {"endorsementType": "majority"}}, "configuration.endorsementType"),
        ({"members": ["a@b"], "configuration": {"endorsementThreshold": 2}}, "configuration.endorsementThreshold"),
        ({"members": ["a@b"], "configuration": {"externalCallGasMax": 24_999}}, "configuration.externalCallGasMax"),
        ({"members": ["a@b"], "configuration": {"externalCallGasMax": "5000001"}}, "configuration.externalCallGasMax"),
        (
            {"members": ["a@b"], "configuration": {"externalCallsEnabled": "maybe"}},
            "configuration.externalCallsEnabled",
        ),
    ],
)
def test_wrong_group_is_rejected_by_its_field(given: object, field: str) -> None:
    with pytest.raises(Rejected) as rejected:
        deploy(Pente(PrivateEvm), given, ALICE)
    assert rejected.value.field == field


# Who may ask, and what is refused before it has an id.


def test_outsiders_request_is_refused() -> None:
    members = Members()
    address = members.deployed(ALICE, playground(), [1])
    with pytest.raises(Rejected, match="must be a member of the group, and mallory@node9 is none"):
        init(members.hosted, UserCall(MALLORY, "invoke", call_of(address, playground(), "store", 1)))


def test_outsiders_question_is_refused() -> None:
    members = Members()
    address = members.deployed(ALICE, playground(), [1])
    members.nodes[NodeName("node9")] = members.hosted.at_another_node()
    with pytest.raises(Rejected, match="must be a member"):
        members.ask(MALLORY, address, playground(), "retrieve")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"value": "1"}, "value"),
        ({"gas": GAS_MAX + 1}, "gas"),
        ({"function": "nonsense"}, "function"),
        ({"function": "[]"}, "function"),
        ({"function": json.dumps({"name": "f", "inputs": [{}]})}, "function.inputs[0].type"),
        ({"input": "[1, 2]"}, "input"),
        ({"input": '["not a number"]'}, "input.num"),
        ({"input": "{}"}, "input.num"),
        ({"function": "", "input": "0xabc"}, "input"),
        ({"to": "0x12"}, "to"),
        ({"errors": "{}"}, "errors"),
        ({"function": json.dumps(entry_of(playground(), "take")), "input": f'["0x{"00" * 131_072}"]'}, "input"),
    ],
)
def test_request_that_cannot_be_encoded_is_rejected_by_its_field(changes: dict[str, object], field: str) -> None:
    members = Members()
    asked = {**call_of("0x" + "11" * 20, playground(), "store", 1), **changes}
    with pytest.raises(Rejected) as rejected:
        init(members.hosted, UserCall(ALICE, "invoke", asked))
    assert rejected.value.field == field


def test_deployment_without_code_is_rejected() -> None:
    with pytest.raises(Rejected, match="bytecode: is missing"):
        init(Members().hosted, UserCall(ALICE, "deploy", {"bytecode": "0x"}))


def test_sender_is_resolved_before_it_is_delegated() -> None:
    started = init(Members().hosted, UserCall(BOB, "deploy", {"bytecode": "0x00"}))
    assert started.parties == (BOB,)


def test_contract_of_nobody_is_told() -> None:
    members = Members()
    with pytest.raises(Reverts, match=f"must be a contract of this group, and 0x{'11' * 20} is none"):
        members.invoke(ALICE, "0x" + "11" * 20, playground(), "store", 1)
    with pytest.raises(Rejected, match="is none"):
        members.ask(ALICE, "0x" + "11" * 20, playground(), "retrieve")


def test_call_data_may_come_encoded() -> None:
    members = Members()
    address = members.deployed(ALICE, playground(), [42])
    asked = {"to": address, "input": "0x2e64cec1"}
    node = NodeName("node1")
    answer = call(members.nodes[node], UserCall(ALICE, "call", asked), members.held(node), node, members.background())
    assert answer == "0x" + (42).to_bytes(32, "big").hex()


def test_function_and_input_may_come_as_json_or_as_text() -> None:
    members = Members()
    address = members.deployed(ALICE, playground(), [42])
    node = NodeName("node1")
    entry = entry_of(playground(), "filled")
    answers = [
        call(
            members.nodes[node],
            UserCall(ALICE, "call", {"to": address, "function": function, "input": given}),
            members.held(node),
            node,
            members.background(),
        )
        for function, given in ((entry, {"key": 5}), (entry, ["5"]), (json.dumps(entry), '{"key": "0x5"}'))
    ]
    assert answers == [{"value": "0"}] * 3


def test_json_that_is_too_long_is_rejected() -> None:
    asked = {"to": "0x" + "11" * 20, "input": ["0" * 524_288]}
    with pytest.raises(Rejected, match="input: must be at most 524288 bytes of JSON"):
        init(Members().hosted, UserCall(ALICE, "invoke", asked))


def test_what_its_user_brings_to_the_ledger_has_the_committer_that_the_user_names() -> None:
    members = Members()
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    asked = call_of(address, token(), "mint", "0x" + "22" * 20, 5)
    committer = "0x" + "5e" * 20
    prepared = members.assemble(
        ALICE, "invoke", {**asked, "committer": committer, "condition": "0x" + "c0" * 32}, SubmitMode.EXTERNAL
    )
    assert prepared.preparation is not None
    assert (prepared.preparation.committer, prepared.preparation.condition) == (committer, b"\xc0" * 32)
    assert members.refusals(prepared, ALICE) == []
    anybodys = members.assemble(ALICE, "invoke", asked, SubmitMode.EXTERNAL)
    assert anybodys.preparation is None
    assert CAROL in members.hosted.configuration.members  # type: ignore[attr-defined]


def test_group_that_forbids_prepared_transactions_has_none_endorsed() -> None:
    """A sender whose node has another opinion assembles one all the same; no endorser signs it."""
    members, open_group = Members(preparedTransactionsEnabled="false"), Members()
    asked = {"to": "0x" + "11" * 20, "input": "0x"}
    with pytest.raises(Rejected, match="submitMode: must be auto: this group forbids prepared transactions"):
        init(members.hosted, UserCall(ALICE, "invoke", asked, SubmitMode.EXTERNAL))
    init(open_group.hosted, UserCall(ALICE, "invoke", asked, SubmitMode.EXTERNAL))
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    minting = {**call_of(address, token(), "mint", "0x" + "22" * 20, 5), "committer": "0x" + "5e" * 20}
    payload = init(members.hosted, UserCall(ALICE, "invoke", minting)).payload
    asked_for = Intent(IntentId(bytes(16)), ADDRESS, ALICE, payload, submit_mode=SubmitMode.EXTERNAL)
    held, background = members.held(NODES[0]), members.background()
    (honest,) = assemble(members.hosted, assembly_order([asked_for]), held, NODES[0], background)
    assert isinstance(honest, AssemblyFinished)
    assert honest.reason == "submitMode: must be auto: this group forbids prepared transactions"
    allowing = replace(cast(Any, members.hosted.configuration), prepared_transactions_enabled=True)
    lying = replace(members.hosted, configuration=allowing)
    (result,) = assemble(lying, assembly_order([asked_for]), held, NODES[0], background)
    prepared = transition_of(result)
    assert prepared.preparation is not None
    assert members.refusals(prepared, ALICE) == ["this group forbids prepared transactions"] * 3


def test_genesis_of_a_group_without_later_options_is_what_it_was() -> None:
    groups = (Members(), Members(preparedTransactionsEnabled=False))
    configurations = [packed(group.hosted.configuration) for group in groups]
    assert [len(each) for each in configurations] == [6, 7]
    assert unpacked(Group, configurations[0]).prepared_transactions_enabled
    assert not unpacked(Group, configurations[1]).prepared_transactions_enabled
    with pytest.raises(Rejected, match="must leave out later values"):
        unpacked(Group, [*configurations[0], True])
