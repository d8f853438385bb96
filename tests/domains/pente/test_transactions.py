"""Private contracts: deployed, called, asked, and told of when they fail."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rota.domains.pente.domain import GAS_MAX
from rota.domains.pente.records import EXTERNAL_CALL_GAS, AccountState, PrivateTransaction
from rota.host import UserCall, call
from rota.model.types import Call, ContractAddress, NodeName, Party, SubmitMode
from rota.testing.workloads.pente import call_of
from rota.wire.messages import Snapshot
from tests.domains.pente.members import ALICE, BOB, CAROL, Members, Reverts, address_of, playground, token

TARGET = ContractAddress("0x" + "7a" * 20)
NODE2, NODE3 = NodeName("node2"), NodeName("node3")
# CALLER SELFDESTRUCT, and code that returns it.
DESTROYING = "0x6133ff5f526002601ef3"


@pytest.fixture
def members() -> Members:
    return Members()


def test_contract_is_deployed_called_and_asked_by_all_members(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    assert [members.ask(party, address, playground(), "retrieve") for party in (ALICE, BOB, CAROL)] == [
        {"value": "42"}
    ] * 3
    members.done(BOB, address, playground(), "store", 7)
    assert members.ask(CAROL, address, playground(), "retrieve") == {"value": "7"}


def test_sender_of_a_message_is_the_verifier_of_the_party(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    assert members.ask(BOB, address, playground(), "pair") == {"0": "1", "named": address_of(ALICE)}
    assert members.ask(BOB, address, playground(), "whoAndWhen")["sender"] == address_of(BOB)


def test_block_number_counts_the_transactions_that_changed_the_contract(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    other = members.deployed(ALICE, playground(), [1])
    for value in (1, 2, 3, 4, 4, 5, 6, 7):
        members.done(ALICE, address, playground(), "store", value)
    told = members.ask(BOB, address, playground(), "whoAndWhen")
    assert (told["number"], told["time"], told["chain"]) == ("6", "6", "1337")
    assert members.ask(BOB, other, playground(), "whoAndWhen")["number"] == "0"


def test_receipt_tells_the_contract_and_what_it_logged(members: Members) -> None:
    deployment = members.settle(ALICE, members.deploy(ALICE, playground(), [42]))
    made = members.receipt(deployment, NODE2)["receipt"]
    assert made["to"] is None
    assert made["logs"] == []
    stored = members.done(BOB, made["contractAddress"], playground(), "store", 7)
    told = members.receipt(stored, NODE3)
    assert told["transaction"]["from"] == address_of(BOB)
    assert told["transaction"]["to"] == made["contractAddress"]
    assert "contractAddress" not in told["receipt"]
    (log,) = told["receipt"]["logs"]
    assert log["address"] == made["contractAddress"]
    assert log["topics"][1] == "0x" + (7).to_bytes(32, "big").hex()
    assert bytes.fromhex(log["data"][2:]).rstrip(b"\0").endswith(b"stored")


def test_outsiders_node_is_told_nothing(members: Members) -> None:
    deployment = members.settle(ALICE, members.deploy(ALICE, playground(), [42]))
    members.nodes[NodeName("node9")] = members.hosted.at_another_node()
    assert members.receipt(deployment, NodeName("node9")) == {}
    assert all(set(state.distribution) == {"node1", "node2", "node3"} for state in deployment.outputs)


def test_state_holds_what_changed_and_nothing_else(members: Members) -> None:
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    for holder in range(40):
        members.done(ALICE, address, token(), "mint", f"0x{holder + 1:040x}", 10**18)
    before = members.done(ALICE, address, token(), "mint", address_of(ALICE), 10**18)
    transfer = members.done(ALICE, address, token(), "transfer", address_of(BOB), 5)
    (state,) = transfer.outputs
    assert state.content is not None
    assert len(state.content) < 1_100
    assert transfer.inputs == (before.outputs[0].id,)
    assert members.ask(CAROL, address, token(), "balanceOf", address_of(BOB)) == {"balance": "5"}


def test_values_of_every_shape_go_in_and_come_out(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    item = {"id": "0x10", "name": "näm", "owners": [address_of(ALICE), address_of(BOB)], "junk": 1}
    members.done(ALICE, address, playground(), "addItem", item)
    members.done(ALICE, address, playground(), "addItem", ["7", "b", []])
    assert members.ask(BOB, address, playground(), "allItems") == {
        "0": [
            {"id": "16", "name": "näm", "owners": [address_of(ALICE), address_of(BOB)]},
            {"id": "7", "name": "b", "owners": []},
        ]
    }


def test_question_changes_nothing(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    members.ask(BOB, address, playground(), "store", 7)
    assert members.ask(BOB, address, playground(), "retrieve") == {"value": "42"}


# Failures.


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        ("failWithText", (), "no, never"),
        ("failWithError", (9,), 'Refused(9, "because")'),
        ("failWithPanic", (0,), "Panic(0x12): division by zero"),
        ("loopForever", (), f"out of gas: it needs more than {GAS_MAX}"),
        ("breakRule", (), "the EVM refuses it: InvalidFEOpcode"),
        ("pay", ("0x" + "22" * 20,), "nothing to pay with"),
    ],
)
def test_failure_is_told_in_the_contracts_own_words(
    members: Members, function: str, arguments: tuple[object, ...], reason: str
) -> None:
    address = members.deployed(ALICE, playground(), [42])
    with pytest.raises(Reverts) as reverted:
        members.invoke(ALICE, address, playground(), function, *arguments)
    assert str(reverted.value) == reason


def test_revert_without_a_reason_names_function_and_contract(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    hint = "reverted without a reason: it may have no such function; compare address, ABI and values"
    with pytest.raises(Reverts, match=f"^0x[0-9a-f]{{8}} of {address} {hint}$"):
        members.invoke(ALICE, address, playground(), "failSilently")
    with pytest.raises(Reverts, match=f"^0x12345678 of {address} {hint}$"):
        members.assemble(ALICE, "invoke", {"to": address, "input": "0x12345678"})
    with pytest.raises(Reverts, match=r"^the constructor reverted without a reason$"):
        members.assemble(ALICE, "deploy", {"bytecode": "0x5f5ffd"})


def test_error_that_nobody_explained_is_told_in_hex(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    asked = {**call_of(address, playground(), "failWithError", 9), "errors": ""}
    with pytest.raises(Reverts, match=r"^reverted with 0x"):
        members.assemble(ALICE, "invoke", asked)


def test_constructor_that_fails_is_told_too(members: Members) -> None:
    with pytest.raises(Reverts, match=r'Refused\(666, "not this one"\)'):
        members.deploy(ALICE, playground(), [666])


def test_question_that_fails_is_told_too(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    with pytest.raises(Exception, match="no, never"):
        members.ask(ALICE, address, playground(), "failWithText")


def test_overspending_a_private_token_is_told_with_its_amounts(members: Members) -> None:
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    members.done(ALICE, address, token(), "mint", address_of(ALICE), 3)
    with pytest.raises(Reverts) as reverted:
        members.invoke(ALICE, address, token(), "transfer", address_of(BOB), 5)
    assert str(reverted.value) == f"InsufficientBalance({address_of(ALICE)}, 3, 5)"


def test_little_gas_is_too_little(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    with pytest.raises(Reverts, match="gas"):
        members.invoke(ALICE, address, playground(), "store", 1, gas=21_500)
    with pytest.raises(Reverts, match=r"gas|Gas"):
        members.invoke(ALICE, address, playground(), "store", 1, gas=100)


def test_huge_input_is_taken_up_to_its_bound(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    members.done(ALICE, address, playground(), "take", "0x" + "01" * 130_000)
    assert members.ask(BOB, address, playground(), "retrieve") == {"value": "130000"}


def test_code_that_is_too_long_is_refused(members: Members) -> None:
    with pytest.raises(Reverts, match="CreateInitCodeSizeLimit"):
        members.assemble(ALICE, "deploy", {"bytecode": "0x" + "00" * 49_153})


def test_more_slots_than_a_state_holds_are_refused(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    members.done(ALICE, address, playground(), "fill", 0, 1_000, 1)
    with pytest.raises(Reverts, match="out of gas"):
        members.invoke(ALICE, address, playground(), "fill", 1_000, 2_000, 1)
    for first in range(1_000, 5_000, 1_000):
        members.done(ALICE, address, playground(), "fill", first, 1_000, 1)
    with pytest.raises(Reverts, match="it changes 4000 slots of one account"):
        members.invoke(ALICE, address, playground(), "fill", 0, 4_000, 2)


def test_more_logs_than_an_info_holds_are_refused(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    members.done(ALICE, address, playground(), "shout", 255, 10)
    with pytest.raises(Reverts, match="it logs more than 255 events"):
        members.invoke(ALICE, address, playground(), "shout", 256, 10)
    with pytest.raises(Reverts, match="bytes, and 400000 are the most"):
        members.invoke(ALICE, address, playground(), "shout", 60, 10_000)


def test_destroyed_contract_stays(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    members.done(ALICE, address, playground(), "make", DESTROYING)
    child = members.ask(ALICE, address, playground(), "child")["0"]
    for _ in range(2):
        members.done(ALICE, address, playground(), "callIt", child)
        assert members.ask(ALICE, address, playground(), "retrieve") == {"value": "5"}
        members.done(ALICE, address, playground(), "store", 1)


def test_party_without_an_address_cannot_send(members: Members) -> None:
    members = Members((ALICE, Party("dora@node2")))
    with pytest.raises(Reverts, match="must be a party with an address, and dora@node2 has none"):
        members.deploy(Party("dora@node2"), playground(), [42])


# The public ledger.


def test_event_has_a_public_contract_called() -> None:
    members = Members(externalCallsEnabled="true")
    address = members.deployed(ALICE, playground(), [42])
    target = ContractAddress("0x" + "7a" * 20)
    transition = members.done(ALICE, address, playground(), "callOutside", target, "0x1234", 2)
    assert transition.calls == (Call(target, EXTERNAL_CALL_GAS, b"\x12\x34"),) * 2


def assembled(
    members: Members, address: str, estimate: int, count: int = 1, mode: SubmitMode = SubmitMode.AUTO, **more: object
) -> list[int]:
    """The gas of the calls of a transaction, whose first call is estimated to need this much."""
    asked = call_of(address, playground(), "callOutside", TARGET, "0x1234", count) | more
    background = replace(members.background(), call_gas={(TARGET, b"\x12\x34"): estimate})
    made = members.assemble_on(ALICE, "invoke", asked, Snapshot(), mode, background)
    assert members.refusals(made, ALICE) == []
    return [call.gas for call in made.calls]


def test_first_external_call_has_the_gas_that_it_needs_and_some_to_spare() -> None:
    members = Members(externalCallsEnabled="true")
    address = members.deployed(ALICE, playground(), [42])
    assert assembled(members, address, 100_000) == [135_000]
    assert assembled(members, address, 100_000, count=3) == [135_000, EXTERNAL_CALL_GAS, EXTERNAL_CALL_GAS]
    assert assembled(members, address, 480_000) == [EXTERNAL_CALL_GAS]
    assert assembled(members, address, 100_000, externalCallGas=120_000) == [120_000]
    assert assembled(members, address, 100_000, externalCallGas=10**9) == [135_000]
    # A prepared transaction must come to the same whenever it is assembled.
    assert assembled(members, address, 100_000, mode=SubmitMode.EXTERNAL) == [EXTERNAL_CALL_GAS]


def test_external_call_that_needs_more_gas_than_its_bound_is_refused() -> None:
    members = Members(externalCallsEnabled="true", externalCallGasMax=600_000)
    address = members.deployed(ALICE, playground(), [42])
    assert assembled(members, address, 600_000) == [600_000]
    about = f"its external call 0x1234 of {TARGET} needs about"
    with pytest.raises(Reverts, match=f"{about} 600001 gas, and 600000 is the most: externalCallGasMax"):
        assembled(members, address, 600_001)
    with pytest.raises(Reverts, match=f"{about} 5 gas, and 4 is the most: externalCallGas of the transaction"):
        assembled(members, address, 5, externalCallGas=4)


def test_more_external_calls_than_a_transaction_has_are_refused() -> None:
    members = Members(externalCallsEnabled=True)
    address = members.deployed(ALICE, playground(), [42])
    with pytest.raises(Reverts, match="it makes 5 external calls, and 4 are the most"):
        members.invoke(ALICE, address, playground(), "callOutside", "0x" + "7a" * 20, "0x", 5)


def test_external_call_is_refused_where_it_is_not_enabled(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    with pytest.raises(Reverts, match="external calls are not enabled in this group"):
        members.invoke(ALICE, address, playground(), "callOutside", "0x" + "7a" * 20, "0x1234", 1)


def test_badly_encoded_external_call_is_refused() -> None:
    members = Members(externalCallsEnabled=True)
    # PUSH32 topic, then LOG1 without data.
    topic = "cac03685d5ba4ab3e1465a8ee1b2bb21094ddbd612a969fd34f93a5be7a0ac4f"
    with pytest.raises(Reverts, match="badly encoded"):
        members.assemble(ALICE, "deploy", {"bytecode": f"0x7f{topic}5f5fa1"})


# Records, as the API shows them.


def test_schemas_of_its_states_name_what_can_be_looked_for(members: Members) -> None:
    account, told = members.hosted.domain.schemas()
    assert (account.name, account.labels) == ("PenteAccount", ("address",))
    assert [field.name for field in told.fields] == ["salt", "from", "to", "isDeployment", "input", "gas", "logs"]
    assert set(members.hosted.domain.states) == {AccountState, PrivateTransaction}


def test_answer_that_is_not_what_the_function_says_is_told(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [42])
    wrong = {**call_of(address, playground(), "retrieve")}
    entry = json.loads(str(wrong["function"]))
    entry["outputs"] = [{"type": "string"}]
    node = NodeName("node1")
    with pytest.raises(Exception, match="is not what the ABI says"):
        call(
            members.nodes[node],
            UserCall(ALICE, "call", {**wrong, "function": json.dumps(entry)}),
            members.held(node),
            node,
            members.background(),
        )
