"""Following transactions: what clients are told has exactly the fields that they know."""

from __future__ import annotations

from typing import Any

import pytest

from rota.rpc.formats import Uuid
from tests.server.kit import TRANSFER, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_following import ADDRESS
from tests.server.memory_node import CONTRACT

ALL = {"limit": 10}


async def confirmed(to: Served, **more: object) -> str:
    sent: str = await to.call("ptx_sendTransaction", {**TRANSFER, **more})
    to.node.confirm(Uuid(sent).intent)
    return sent


@asynchronous
async def test_a_transaction_is_found_by_its_key() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", {**TRANSFER, "idempotencyKey": "k1"})
        found = await to.call("ptx_getTransactionByIdempotencyKey", "k1")
        assert found == await to.call("ptx_getTransaction", sent)
        assert await to.call("ptx_getTransactionByIdempotencyKey", "k2") is None


@asynchronous
async def test_a_full_transaction_has_its_receipt_and_what_went_to_the_ledger() -> None:
    async with served() as to:
        sent = await confirmed(to)
        full = await to.call("ptx_getTransactionFull", sent)
        receipt = await to.call("ptx_getTransactionReceipt", sent)
        assert full["receipt"] == {name: value for name, value in receipt.items() if name != "id"}
        assert full["public"] == [
            {
                "localId": 2,
                "from": ADDRESS,
                "created": "2025-10-09T08:53:20.123Z",
                "dispatcher": "node1",
                "data": "0x01",
                "nonce": "0x4",
                "completedAt": "2025-10-09T08:53:21.000Z",
                "transactionHash": "0x" + "02" * 32,
                "success": True,
                "revertData": "0x03",
                "submissions": [
                    {
                        "time": "2025-10-09T08:53:20.500Z",
                        "transactionHash": "0x" + "02" * 32,
                        "maxPriorityFeePerGas": "0x2",
                        "maxFeePerGas": "0x14",
                    }
                ],
                "activity": [{"time": "2025-10-09T08:53:20.123Z", "message": "accepted"}],
                "gas": "0x5208",
                "value": hex(2**100),
                "maxPriorityFeePerGas": "0x2",
                "maxFeePerGas": "0x14",
            }
        ]
        assert await to.call("ptx_getTransactionFull", UNKNOWN_ID) is None


@asynchronous
async def test_transactions_and_receipts_are_looked_for() -> None:
    async with served() as to:
        ended = await confirmed(to)
        waiting = await to.call("ptx_sendTransaction", TRANSFER)
        both = await to.call("ptx_queryTransactions", ALL)
        assert [each["id"] for each in both] == [ended, waiting]
        assert [each["id"] for each in await to.call("ptx_queryTransactionsFull", ALL)] == [ended, waiting]
        pending = await to.call("ptx_queryPendingTransactions", ALL, False)
        assert [each["id"] for each in pending] == [waiting]
        assert "public" not in pending[0]
        assert "public" in (await to.call("ptx_queryPendingTransactions", ALL, True))[0]
        assert [each["id"] for each in await to.call("ptx_queryTransactionReceipts", ALL)] == [ended]


@asynchronous
async def test_a_full_receipt_has_states_and_the_domains_own() -> None:
    async with served() as to:
        sent = await confirmed(to)
        full = await to.call("ptx_getTransactionReceiptFull", sent)
        state = {
            "id": "0x" + "05" * 33,
            "created": "2025-10-09T08:53:20.123Z",
            "domain": "noto",
            "schema": "0x" + "06" * 32,
            "contractAddress": ADDRESS,
            "data": {"amount": "5"},
        }
        states = {"confirmed": [state], "unavailable": {"spent": ["0x" + "07" * 33]}}
        assert full["states"] == states == await to.call("ptx_getStateReceipt", sent)
        assert full["domainReceipt"] == {"transfers": []} == await to.call("ptx_getDomainReceipt", "noto", sent)
        assert full["contractAddress"] == CONTRACT
        error = await to.call("ptx_getDomainReceipt", "pente", sent)
        assert error["message"] == "domain: must be noto, not pente"
        for method in ("ptx_getTransactionReceiptFull", "ptx_getStateReceipt"):
            assert await to.call(method, UNKNOWN_ID) is None


@asynchronous
async def test_a_prepared_transaction_comes_with_what_commits_it() -> None:
    async with served() as to:
        sent = await to.call("ptx_prepareTransaction", TRANSFER)
        prepared = await to.call("ptx_getPreparedTransaction", sent)
        assert prepared["transaction"] == {
            "type": "public",
            "to": ADDRESS,
            "function": "commit",
            "abi": [{"name": "commit"}],
            "abiReference": "0x" + "00" * 32,
            "data": {"payload": "0x"},
        }
        assert (prepared["id"], prepared["domain"], prepared["to"]) == (sent, "noto", ADDRESS)
        assert await to.call("ptx_queryPreparedTransactions", ALL) == [prepared]
        (second,) = await to.call("ptx_prepareTransactions", [TRANSFER])
        assert (await to.call("ptx_getTransaction", second))["submitMode"] == "external"
        error = await to.call("ptx_prepareTransaction", {**TRANSFER, "type": "public"})
        assert error["message"].startswith("transaction.type: must be private")
        error = await to.call("ptx_prepareTransactions", [])
        assert error["message"] == "transactions: must be from 1 to 1000, not 0"


@asynchronous
async def test_dependencies_are_told_both_ways() -> None:
    async with served() as to:
        first = await to.call("ptx_sendTransaction", TRANSFER)
        second = await to.call("ptx_sendTransaction", {**TRANSFER, "dependsOn": [first]})
        assert await to.call("ptx_getTransactionDependencies", second) == {"dependsOn": [first], "prereqOf": []}
        assert await to.call("ptx_getTransactionDependencies", first) == {"dependsOn": [], "prereqOf": [second]}
        assert await to.call("ptx_getTransactionDependencies", UNKNOWN_ID) is None
        assert (await to.call("ptx_getTransactionFull", second))["dependsOn"] == [first]


@asynchronous
async def test_leaves_of_other_nodes_are_shown_beside_dependencies_of_this_node() -> None:
    async with served() as to:
        first = await to.call("ptx_sendTransaction", TRANSFER)
        leaf: dict[str, Any] = {"contract": "0x" + "22" * 20, "id": UNKNOWN_ID, "leaf": "0x" + "11" * 32}
        asked: dict[str, Any] = {**TRANSFER, "dependsOn": [first, {**leaf, "validUntil": "1000"}]}
        second = await to.call("ptx_sendTransaction", asked)
        shown = {"dependsOn": [first], "prereqOf": [], "dependsOnLeaves": [{**leaf, "validUntil": "0x3e8"}]}
        assert await to.call("ptx_getTransactionDependencies", second) == shown
        assert (await to.call("ptx_getTransactionFull", second))["dependsOnLeaves"] == shown["dependsOnLeaves"]
        third = await to.call("ptx_sendTransaction", {**TRANSFER, "dependsOn": [leaf]})
        assert (await to.call("ptx_getTransactionDependencies", third))["dependsOnLeaves"] == [leaf]


@asynchronous
async def test_base_ledger_transactions_are_found_by_their_numbers() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        found = await to.call("ptx_getPublicTransaction", 7)
        assert (found["localId"], found["transaction"], found["transactionType"]) == (7, sent, "public")
        assert (found["sender"], found["contractAddress"]) == ("alice@node1", ADDRESS)
        assert await to.call("ptx_getPublicTransaction", 11) is None
        (queried,) = await to.call("ptx_queryPublicTransactions", ALL)
        assert (queried["transaction"], await to.call("ptx_queryPendingPublicTransactions", ALL)) == (sent, [queried])
        assert await to.call("ptx_getPublicTransactionByNonce", queried["from"], queried["nonce"]) == queried
        assert await to.call("ptx_getPublicTransactionByNonce", queried["from"], 11) is None
        assert await to.call("ptx_getPublicTransactionByHash", queried["transactionHash"]) == queried
        assert await to.call("ptx_getPublicTransactionByHash", "0x" + "00" * 32) is None
        (dispatch,) = await to.call("ptx_queryDispatches", ALL)
        assert dispatch == {"id": dispatch["id"], "transactionID": sent, "publicTransactionID": 7}
        assert await to.call("ptx_getDispatch", dispatch["id"]) == dispatch
        assert await to.call("ptx_getDispatch", "none") is None
        assert await to.call("ptx_getChainedDispatch", "none") is None
        assert await to.call("ptx_queryChainedDispatches", ALL) == []
        chained = await to.call("ptx_sendTransaction", {**TRANSFER, "idempotencyKey": "again"})
        (found,) = await to.call("ptx_queryChainedDispatches", ALL)
        assert found == {"id": found["id"], "transactionID": sent, "chainedTransactionID": chained}
        assert await to.call("ptx_getChainedDispatch", found["id"]) == found


@asynchronous
async def test_a_question_is_answered_as_the_node_says() -> None:
    async with served() as to:
        asked = {**TRANSFER, "function": "get"}
        assert await to.call("ptx_call", asked) == {"block": "latest", "format": "", "from": "alice"}
        told = await to.call("ptx_call", {**asked, "block": "latest", "dataFormat": "mode=array"})
        assert told == {"block": "latest", "format": "mode=array", "from": "alice"}
        public = {"type": "public", "to": CONTRACT, "function": "get", "block": 16}
        assert await to.call("ptx_call", public) == {"block": "16", "format": "", "from": ""}
        public = {"type": "public", "to": CONTRACT, "function": "get", "block": "FINALIZED"}
        assert await to.call("ptx_call", public) == {"block": "finalized", "format": "", "from": ""}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({**TRANSFER, "function": "other"}, "transaction.function: must be get"),
        ({**TRANSFER, "function": "get", "block": 16}, "transaction.block: must be latest"),
        ({**TRANSFER, "block": "newest"}, "transaction.block: must be a block's number"),
        ({**TRANSFER, "from": ""}, "transaction.from: must be a party"),
    ],
)
@asynchronous
async def test_a_question_that_is_wrong_names_the_parameter(asked: dict[str, Any], says: str) -> None:
    async with served() as to:
        assert (await to.call("ptx_call", asked))["message"].startswith(says)


@asynchronous
async def test_a_transaction_is_changed_under_its_id() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        changed = {"type": "public", "from": "alice", "to": CONTRACT, "maxFeePerGas": 5}
        assert await to.call("ptx_updateTransaction", sent, changed) == sent
        ((intent, submission),) = to.node.following.updates
        assert (intent, submission.options.fee_max_wei) == (Uuid(sent).intent, 5)
        error = await to.call("ptx_updateTransaction", UNKNOWN_ID, changed)
        assert error["message"].startswith("transactionId: ")
        error = await to.call("ptx_updateTransaction", sent, {**changed, "to": None})
        assert error["message"].startswith("transaction.to: ")


@asynchronous
async def test_the_status_of_a_contracts_transaction_is_told() -> None:
    async with served() as to:
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        status = await to.call("debug_getTransactionStatus", CONTRACT, sent)
        assert status == {"transactionId": sent, "status": "Pending", "latestEvent": "accepted", "latestError": ""}
        assert await to.call("debug_getTransactionStatus", "0x" + "22" * 20, sent) is None
        assert await to.call("debug_getTransactionStatus", CONTRACT, UNKNOWN_ID) is None
