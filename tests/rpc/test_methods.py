"""Each method, as its callers see it."""

import json
from typing import Any

import pytest

from rota.model.types import ContractAddress, IntentId
from rota.rpc.errors import OutcomeUnknown
from rota.rpc.formats import Uuid, uuid_of
from rota.server.table import TABLE, document
from rota.service.interface import Submission, TransactionType
from tests.server.kit import TRANSFER, UNKNOWN_ID, asynchronous, served
from tests.server.memory_node import CONTRACT, MemoryNode

DEPLOYMENT = {
    "type": "private",
    "domain": "noto",
    "abi": [{"type": "constructor", "inputs": [{"name": "notary", "type": "string"}]}],
    "function": "",
    "from": "a@node1",
    "data": {"notary": "a@node1", "notaryMode": "basic", "options": {"basic": {"restrictMint": True}}},
}
PUBLIC = {
    "type": "public",
    "abi": [{"type": "function", "name": "setERC20", "inputs": [{"name": "erc20", "type": "address"}]}],
    "function": "setERC20",
    "to": "0x" + "Ab" * 20,
    "from": "a@node1",
    "data": {"erc20": "0x1111111111111111111111111111111111111111"},
}

LEAF = {"contract": "0x" + "22" * 20, "id": UNKNOWN_ID, "leaf": "0x" + "11" * 32}


@asynchronous
async def test_a_transaction_is_accepted_and_shown_as_it_was_asked_for() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", {**TRANSFER, "idempotencyKey": "k1", "gas": 21000, "junk": [1]})
        assert await to.call("ptx_getTransaction", sent) == {
            "id": sent,
            "created": "2025-10-09T08:53:20.123Z",
            "submitMode": "auto",
            "type": "private",
            "from": "alice@node1",
            "idempotencyKey": "k1",
            "function": "transfer",
            "to": CONTRACT,
            "data": {"amount": 5},
            "gas": "0x5208",
        }


@pytest.mark.parametrize("asked", [DEPLOYMENT, PUBLIC, {**TRANSFER, "dependsOn": [], "abi": None, "bytecode": None}])
@asynchronous
async def test_what_client_libraries_send_is_accepted(asked: dict[str, Any]) -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", asked)
        view = to.node.kept[Uuid(sent).intent].view
        assert view.type is TransactionType(asked["type"])
        assert view.data == asked["data"]
        assert view.to == (asked["to"].lower() if "to" in asked else None)


@asynchronous
async def test_a_function_may_be_given_as_an_abi_entry() -> None:
    async with served() as to:
        entry = {"type": "function", "name": "store", "inputs": [{"name": "num", "type": "uint256"}]}
        sent = await to.call("ptx_sendTransaction", {**TRANSFER, "function": entry})
        assert to.node.kept[Uuid(sent).intent].view.function == "store"


@asynchronous
async def test_a_used_idempotency_key_is_an_error_with_its_code_and_the_existing_id() -> None:
    async with served() as to:
        first = await to.call("ptx_sendTransaction", {**TRANSFER, "idempotencyKey": "k1"})
        error = await to.call("ptx_sendTransaction", {**TRANSFER, "idempotencyKey": "k1"})
        assert error == {
            "code": -32001,
            "message": f"PD012220: idempotencyKey 'k1' was used before, for transaction {first}",
            "data": {"transactionId": first, "same": True},
        }


@asynchronous
async def test_what_the_node_refuses_is_named_as_the_caller_wrote_it() -> None:
    async with served() as to:
        error = await to.call("ptx_sendTransaction", {**TRANSFER, "dependsOn": [UNKNOWN_ID]})
        assert error == {
            "code": -32602,
            "message": "transaction.dependsOn[0]: must be a transaction of node1",
            "data": {"field": "transaction.dependsOn[0]"},
        }


@asynchronous
async def test_several_transactions_are_accepted_in_their_order() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransactions", [{**TRANSFER, "data": {"amount": n}} for n in range(20)])
        assert [to.node.kept[Uuid(each).intent].view.data for each in sent] == [{"amount": n} for n in range(20)]
        assert [Uuid(each).intent for each in sent] == list(to.node.kept)


@asynchronous
async def test_a_slip_in_one_of_several_transactions_accepts_none() -> None:
    async with served() as to:
        error = await to.call("ptx_sendTransactions", [TRANSFER, {**TRANSFER, "from": ""}])
        assert error["message"] == "transactions[1].from: must be a party of this node, such as 'alice'"
        assert to.node.kept == {}


@asynchronous
async def test_when_the_node_refuses_one_of_several_the_ids_of_the_others_are_told() -> None:
    async with served() as to:
        error = await to.call("ptx_sendTransactions", [TRANSFER, {**TRANSFER, "from": "bob@node2"}, TRANSFER])
        accepted = error["data"]["transactionIds"]
        first, second = to.node.kept
        assert error["code"] == -32602
        assert error["message"] == "transactions[1].from: must be a party of node1; 2 of 3 were accepted"
        assert error["data"]["field"] == "transactions[1].from"
        assert [Uuid(each).intent if each else None for each in accepted] == [first, None, second]


@asynchronous
async def test_several_transactions_are_refused_whole_while_the_world_is_away() -> None:
    async with served(MemoryNode(is_away=True)) as to:
        error = await to.call("ptx_sendTransactions", [TRANSFER, TRANSFER])
        assert error["code"] == -32603
        assert error["message"] == (
            "transactions[0]: the node cannot accept it now, try again: the store is away; 0 of 2 were accepted"
        )


class UnsettledNode(MemoryNode):
    """Does not know yet whether it has accepted what bob asks for."""

    async def submit(self, submission: Submission) -> IntentId:
        if submission.sender == "bob":
            raise OutcomeUnknown({"transactionId": UNKNOWN_ID, "idempotencyKey": "key"})
        return await super().submit(submission)


@asynchronous
async def test_what_is_not_settled_is_told_with_the_ids_to_ask_with() -> None:
    async with served(UnsettledNode()) as to:
        error = await to.call("ptx_sendTransaction", {**TRANSFER, "from": "bob"})
        about = {"definite": False, "transactionId": UNKNOWN_ID, "idempotencyKey": "key"}
        assert (error["code"], error["data"]) == (-32003, about)
        assert UNKNOWN_ID in error["message"]
        three = [TRANSFER, {**TRANSFER, "from": "bob"}, {**TRANSFER, "from": "eve@node2"}]
        error = await to.call("ptx_sendTransactions", three)
        (accepted,) = to.node.kept
        ids = [str(uuid_of(accepted)), UNKNOWN_ID, None]
        assert (error["code"], error["data"]) == (-32003, {"definite": False, "transactionIds": ids, "unsettled": [1]})


@asynchronous
async def test_a_receipt_has_every_field_that_clients_know() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        assert await to.call("ptx_getTransactionReceipt", sent) is None
        to.node.confirm(Uuid(sent).intent)
        assert await to.call("ptx_getTransactionReceipt", sent) == {
            "id": sent,
            "indexed": "2025-10-09T08:53:21.123Z",
            "sequence": 7,
            "domain": "noto",
            "success": True,
            "transactionHash": "0x" + "02" * 32,
            "blockNumber": 12,
            "transactionIndex": 0,
            "logIndex": 3,
            "source": CONTRACT,
            "contractAddress": CONTRACT,
        }


@asynchronous
async def test_a_failed_receipt_says_why_and_leaves_success_out() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        assert await to.call("ptx_cancelTransaction", sent) is True
        receipt = await to.call("ptx_getTransactionReceipt", sent)
        assert "success" not in receipt
        assert receipt["failureMessage"] == "cancelled"
        late = await to.call("ptx_cancelTransaction", sent)
        assert late["code"] == -32602
        assert late["message"] == "transactionId: is not under way at this node"


@asynchronous
async def test_only_what_is_parked_is_resumed() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        assert (await to.call("ptx_resumeTransaction", sent))["message"] == "transactionId: is Pending, not Parked"
        to.node.kept[Uuid(sent).intent].state = "Parked"
        assert await to.call("ptx_resumeTransaction", sent) is True


@asynchronous
async def test_what_is_not_there_is_null() -> None:
    async with served() as to:
        for method in ("ptx_getTransaction", "ptx_getTransactionReceipt", "seq_explain"):
            assert await to.call(method, UNKNOWN_ID) is None
        assert await to.call("seq_status", "0x" + "99" * 20) is None


@asynchronous
async def test_an_explanation_names_the_state_what_is_awaited_since_when_and_from_whom() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        assert await to.call("seq_explain", sent) == {
            "id": sent,
            "role": "sender",
            "state": "Pending",
            "waitsFor": "its delegation to be accepted",
            "blockedBy": ["node2"],
            "history": [{"at": "2025-10-09T08:53:20.123Z", "text": "accepted"}],
            "contract": CONTRACT,
            "since": "2025-10-09T08:53:20.123Z",
        }


@asynchronous
async def test_a_change_of_leader_says_what_it_was_and_why_the_former_one_was_lost() -> None:
    async with served() as to:
        changes = await to.call("seq_leaders", CONTRACT)
        told = [(each["kind"], each["former"], each["leader"], each.get("cause")) for each in changes]
        assert told == [
            ("seen", None, "node2", None),
            ("hand-over", "node2", "node3", None),
            ("fail-over", "node3", "node1", "its heartbeats had stopped"),
        ]
        assert await to.call("seq_leaders", CONTRACT, 1) == changes[-1:]


@asynchronous
async def test_a_status_names_the_ranking_the_leader_and_what_is_under_way() -> None:
    async with served() as to:
        await to.call("ptx_sendTransaction", TRANSFER)
        assert await to.call("seq_status", CONTRACT.upper().replace("0X", "0x")) == {
            "contract": CONTRACT,
            "domain": "noto",
            "mode": "ring",
            "rotation": "sticky",
            "committee": ["node1", "node2"],
            "endorsers": ["node1", "node2"],
            "threshold": 2,
            "height": 250,
            "range": 2,
            "rangeSize": 100,
            "ranking": ["node2", "node1"],
            "activeCoordinator": "node2",
            "activeSince": "2025-10-09T08:53:20.123Z",
            "coordinatorState": "Observing",
            "coordinatorSince": "2025-10-09T08:53:20.123Z",
            "senderState": "Sending",
            "sending": {"Pending": 1},
            "coordinating": {},
            "silent": [],
        }


@asynchronous
async def test_contracts_are_listed_in_pages() -> None:
    known = tuple(ContractAddress("0x" + f"{n:02x}" * 20) for n in range(5))
    async with served(MemoryNode(known=known)) as to:
        first = await to.call("seq_list", 2)
        assert [each["contract"] for each in first] == list(known[:2])
        rest = await to.call("seq_list", None, first[-1]["contract"])
        assert [each["contract"] for each in rest] == list(known[2:])
        assert rest[0] == {
            "contract": known[2],
            "domain": "noto",
            "mode": "ring",
            "loaded": False,
            "coordinatorState": "",
            "senderState": "",
            "activeCoordinator": None,
            "sending": 0,
            "coordinating": 0,
        }


@asynchronous
async def test_a_contract_comes_to_a_member_that_says_with_which_address_it_endorses() -> None:
    async with served() as to:
        addresses = [await to.call("seq_endorserAddress", UNKNOWN_ID) for _ in range(2)]
        assert addresses[0] == addresses[1]
        assert await to.call("seq_endorserAddress", UNKNOWN_ID.replace("1", "2")) != addresses[0]
        genesis = b"genesis of " + Uuid(UNKNOWN_ID).intent
        wrong = await to.call("seq_addContract", "0x00", UNKNOWN_ID)
        assert wrong["message"] == "genesis: is not the one whose hash stands on the chain"
        contract = await to.call("seq_addContract", genesis.hex(), UNKNOWN_ID)
        assert (await to.call("seq_status", contract))["contract"] == contract


@asynchronous
async def test_parameters_may_be_given_by_name() -> None:
    async with served() as to:
        body = {"id": 1, "method": "seq_list", "params": {"after": "0x" + "00" * 20}}
        assert [each["contract"] for each in (await to.post(body))[1]["result"]] == [CONTRACT]


BAD_TRANSACTIONS = [
    ({"type": 5}, "type", "must be 'private' or 'public', not 5"),
    ({"type": "secret"}, "type", "must be 'private' or 'public', not 'secret'"),
    ({"from": None}, "from", "must be text, not null"),
    ({"from": ["alice"]}, "from", "must be text, not a list"),
    ({"from": ""}, "from", "must be a party of this node, such as 'alice'"),
    ({"from": "a" * 1_025}, "from", "must be text of length <= 1024"),
    ({"domain": 5}, "domain", "must be text or null, not a whole number"),
    ({"to": "0x11"}, "to", "must be an address of 40 hex digits, not '0x11'"),
    ({"to": 17}, "to", "must be an address of 40 hex digits, not 17"),
    ({"to": None}, "to", "must be the contract's address, or domain the name of the domain to deploy in"),
    ({"function": 5}, "function", "must be text or an object or null, not a whole number"),
    ({"function": {"name": 5}}, "function.name", "must be text"),
    ({"abi": "[]"}, "abi", "must be a list or null, not text"),
    ({"abi": [5]}, "abi[0]", "must be an object, not a whole number"),
    ({"abiReference": "0x12"}, "abiReference", "must be 32 bytes as 64 hex digits, not '0x12'"),
    ({"bytecode": "0xabc"}, "bytecode", "must be hex digits in pairs, with or without 0x, not '0xabc'"),
    ({"bytecode": "xyz"}, "bytecode", "must be hex digits in pairs, with or without 0x, not 'xyz'"),
    ({"idempotencyKey": 5}, "idempotencyKey", "must be text or null, not a whole number"),
    ({"dependsOn": "x"}, "dependsOn", "must be a list or null, not text"),
    ({"sequencing": 5}, "sequencing", "must be an object or null, not a whole number"),
    ({"sequencing": {"mode": "round"}}, "sequencing.mode", "must be ring, static or sender, not 'round'"),
    ({"sequencing": {"rotation": "slow"}}, "sequencing.rotation", "must be sticky or strict, not 'slow'"),
    ({"sequencing": {"rangeSize": 0}}, "sequencing.rangeSize", "must be a whole number >= 1"),
    ({"sequencing": {"rangeSize": "5"}}, "sequencing.rangeSize", "must be a whole number or null, not text"),
    ({"sequencing": {"size": 5}}, "sequencing.size", "must be left out: there is no such field"),
    ({"sequencing": {}}, "sequencing", "must be left out: only the deployment of a private contract has it"),
    ({"dependsOn": ["x"]}, "dependsOn[0]", "must be a UUID, or an object with contract, id and leaf, not 'x'"),
    ({"dependsOn": [{"id": UNKNOWN_ID, "leaf": "0x" + "11" * 32}]}, "dependsOn[0].contract", "is missing"),
    ({"dependsOn": [{**LEAF, "leaf": "0x11"}]}, "dependsOn[0].leaf", "must be 32 bytes as 64 hex digits, not '0x11'"),
    ({"dependsOn": [{**LEAF, "id": "x"}]}, "dependsOn[0].id", "must be a UUID, not 'x'"),
    (
        {"dependsOn": [{**LEAF, "validUntil": 0}]},
        "dependsOn[0].validUntil",
        f"must be chain time in seconds, from 1 to {2**63 - 1}",
    ),
    (
        {"dependsOn": [{**LEAF, "validUntil": str(2**63)}]},
        "dependsOn[0].validUntil",
        f"must be chain time in seconds, from 1 to {2**63 - 1}",
    ),
    (
        {"dependsOn": [LEAF, {**LEAF, "leaf": "0x" + "22" * 32}]},
        "dependsOn[1]",
        "must not name the same transaction twice: at most one leaf can be committed",
    ),
    ({"gas": -1}, "gas", None),
    ({"gas": 1.5}, "gas", None),
    ({"gas": "0x"}, "gas", None),
    ({"value": str(2**256)}, "value", None),
    ({"maxFeePerGas": True}, "maxFeePerGas", None),
    ({"maxPriorityFeePerGas": "many"}, "maxPriorityFeePerGas", None),
]


@pytest.mark.parametrize(
    ("change", "field", "flaw"), BAD_TRANSACTIONS, ids=[str(bad[0])[:40] for bad in BAD_TRANSACTIONS]
)
@asynchronous
async def test_a_wrong_field_is_refused_by_its_name_with_what_would_be_right(
    change: dict[str, Any], field: str, flaw: str | None
) -> None:
    async with served() as to:
        error = await to.call("ptx_sendTransaction", {**TRANSFER, **change})
        (given,) = change.values()
        flaw = flaw or (
            f"must be a whole number of at most 256 bits: a JSON number, decimal text or 0x hex, not {given!r}"
        )
        assert error == {
            "code": -32602,
            "message": f"transaction.{field}: {flaw}",
            "data": {"field": f"transaction.{field}"},
        }
        assert to.node.kept == {}


@pytest.mark.parametrize("missing", ["type", "from"])
@asynchronous
async def test_a_missing_field_is_named(missing: str) -> None:
    async with served() as to:
        asked = {name: value for name, value in TRANSFER.items() if name != missing}
        error = await to.call("ptx_sendTransaction", asked)
        assert error["code"] == -32602
        assert error["message"] == f"transaction.{missing}: is missing"


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("ptx_sendTransaction", [], "transaction: is missing; ptx_sendTransaction takes (transaction)"),
        ("ptx_sendTransaction", None, "transaction: is missing; ptx_sendTransaction takes (transaction)"),
        ("ptx_sendTransaction", [None], "transaction: must be an object, not null"),
        ("ptx_sendTransaction", [TRANSFER, 1], "params: are 2, but ptx_sendTransaction takes (transaction)"),
        ("ptx_sendTransaction", "x", "params: must be a list, or an object with the parameters by name"),
        ("ptx_sendTransactions", [TRANSFER], "transactions: must be a list, not an object"),
        ("ptx_sendTransactions", [[]], "transactions: must be from 1 to 1000, not 0"),
        ("ptx_sendTransactions", [[TRANSFER, 5]], "transactions[1]: must be an object, not a whole number"),
        ("ptx_getTransaction", [5], "transactionId: must be a UUID, not 5"),
        ("ptx_getTransaction", ["0x" + "1" * 100], f"transactionId: must be a UUID, not '0x{'1' * 77}…"),
        ("ptx_getTransactionReceipt", ["zz"], "transactionId: must be a UUID, not 'zz'"),
        ("ptx_resumeTransaction", [{}], "transactionId: must be a UUID, not {}"),
        ("ptx_cancelTransaction", [[]], "transactionId: must be a UUID, not []"),
        ("seq_status", ["node1"], "contract: must be an address of 40 hex digits, not 'node1'"),
        ("seq_explain", [""], "transactionId: must be a UUID, not ''"),
        ("seq_list", [0], "limit: must be a whole number >= 1"),
        ("seq_list", [1_001], "limit: must be a whole number <= 1000"),
        ("seq_list", ["x"], "limit: must be a whole number, not text"),
        ("seq_list", [1, 2], "after: must be an address of 40 hex digits, not 2"),
        ("seq_endorserAddress", [1], "deployment: must be a UUID, not 1"),
        ("seq_addContract", ["0x1", UNKNOWN_ID], "genesis: must be hex digits in pairs, with or without 0x, not '0x1'"),
        ("seq_addContract", ["0x"], "deployment: is missing; seq_addContract takes (genesis, deployment)"),
        ("transport_nodeName", [1], "params: are 1, but transport_nodeName takes ()"),
        ("rpc.discover", [1], "params: are 1, but rpc.discover takes ()"),
    ],
)
@asynchronous
async def test_wrong_parameters_are_refused_by_name(method: str, params: object, message: str) -> None:
    async with served() as to:
        status, answer = await to.post({"id": 1, "method": method, "params": params})
        assert status == 200
        assert answer["error"]["code"] == -32602
        assert answer["error"]["message"] == message


@asynchronous
async def test_the_document_is_served_and_describes_every_method() -> None:
    async with served() as to:
        served_document = await to.call("rpc.discover")
    assert served_document == json.loads(json.dumps(document()))
    described = {each["name"]: each for each in served_document["methods"]}
    assert list(described) == list(TABLE)
    for name, method in TABLE.items():
        entry = described[name]
        assert entry["summary"] == method.summary
        assert entry["x-role"] == method.role.value
        assert [(each["name"], each["required"]) for each in entry["params"]] == [
            (parameter.name, parameter.is_required) for parameter in method.parameters
        ]
        assert all(each["summary"] and each["schema"] for each in entry["params"])
        assert entry["result"]["name"] == method.result.name
        assert entry["result"]["summary"]
    for reference in references_in(served_document["methods"]):
        assert reference.removeprefix("#/components/schemas/") in served_document["components"]["schemas"]


def references_in(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [each for inner in value.values() for each in references_in(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in references_in(inner)]
    return []


CLIENT_FIELDS = {
    "TransactionInput": (
        "idempotencyKey type domain function abiReference from to data gas value maxPriorityFeePerGas maxFeePerGas "
        "dependsOn abi bytecode"
    ),
    "Transaction": (
        "id created submitMode idempotencyKey type domain function abiReference from to data gas value "
        "maxPriorityFeePerGas maxFeePerGas"
    ),
    "TransactionReceipt": (
        "id indexed sequence domain success transactionHash blockNumber transactionIndex logIndex source "
        "failureMessage revertData contractAddress"
    ),
}


@pytest.mark.parametrize("name", CLIENT_FIELDS)
def test_our_values_have_every_field_that_client_libraries_know(name: str) -> None:
    ours = document()["components"]["schemas"][name]["properties"]
    assert set(CLIENT_FIELDS[name].split()) <= set(ours)
