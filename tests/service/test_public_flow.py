"""Public transactions on real nodes and a real chain: deployed, invoked, called, decoded, reverted, restarted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.abi.codec import entries_of
from rota.ledger.embedded import Settings
from rota.model.types import NodeName
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, CallFailed, callers
from tests.service.kit import CHAIN_ID, FUNDS_WEI, network, send

ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
FREE = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
PLAYGROUND = json.loads((Path(__file__).parents[1] / "contracts/artifacts/Playground.json").read_text())
ABI: list[dict[str, Any]] = PLAYGROUND["abi"]
STORED = next(entry for entry in entries_of(ABI, "abi") if entry.name == "Stored")
LIMIT = {"limit": 100}


async def deployed(caller: Caller) -> dict[str, Any]:
    return await caller.succeed(
        type="public", from_="deployer", abi=ABI, bytecode=PLAYGROUND["bytecode"], data={"initial": 7}
    )


@pytest.mark.slow
@in_loop
async def test_contract_is_deployed_invoked_called_and_its_events_are_told(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, two, _ = callers(session, nodes)
        receipt = await deployed(one)
        contract = receipt["contractAddress"]
        assert receipt["blockNumber"] > 0
        assert receipt["transactionIndex"] == 0
        ask = {"type": "public", "abi": ABI, "to": contract}
        # Any node's user may call it, with a function in any of its forms.
        for function in ("stored", "stored()", "function stored() view returns (uint256)"):
            assert await two.call("ptx_call", {**ask, "function": function, "from": "bob@node2"}) == {"0": "7"}
        assert await two.call("ptx_call", {**ask, "function": "retrieve", "dataFormat": "mode=array&number=hex"}) == [
            "0x7"
        ]
        fragment = next(entry for entry in ABI if entry.get("name") == "store")
        done = await two.succeed(type="public", from_="bob@node2", to=contract, function=fragment, data=["0x2a"])
        assert await one.call("ptx_call", {**ask, "function": "retrieve", "data": {}}) == {"value": "42"}
        before = await one.call("ptx_call", {**ask, "function": "retrieve", "block": receipt["blockNumber"]})
        assert before == {"value": "7"}
        mined: Any = await nodes.client.call("eth_getTransactionReceipt", done["transactionHash"])
        (log,) = mined["logs"]
        # The events of what is submitted at a node can be told there.
        event = await one.call("ptx_decodeEvent", log["topics"], log["data"], "")
        assert event["signature"] == STORED.signature
        assert event["data"]["value"] == "42"
        with pytest.raises(CallFailed, match="PD012229"):
            await two.call("ptx_decodeEvent", log["topics"], log["data"], "")
        address = await one.call("ptx_resolveVerifier", "bob@node2", "ecdsa:secp256k1", "eth_address")
        assert address == mined["from"]
        sent: Any = await nodes.client.call("eth_getTransactionByHash", done["transactionHash"])
        call = await one.call("ptx_decodeCall", sent["input"])
        assert call["data"] == {"num": "42"}


@pytest.mark.slow
@in_loop
async def test_what_reverts_tells_why(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        (one,) = callers(session, nodes)
        contract = (await deployed(one))["contractAddress"]
        invoke = {"type": "public", "from_": "alice", "to": contract, "abi": ABI}
        # It is seen before it is sent, or, with gas that its user names, on the chain.
        for more in ({}, {"gas": 200_000}):
            failed = await one.do(**invoke, function="failWithError", data=[3], **more)
            assert "success" not in failed
            assert failed["failureMessage"].startswith("PD012216: Transaction reverted: Refused(3, ")
            assert ("transactionHash" in failed) is bool(more)
            told = await one.call("ptx_decodeError", failed["revertData"])
            assert told["signature"] == "Refused(uint256,string)"
        text = await one.do(**invoke, function="failWithText")
        assert text["failureMessage"].startswith("PD012216: Transaction reverted: ")
        with pytest.raises(CallFailed, match=r"the call reverted: Refused\(5, "):
            await one.call(
                "ptx_call", {"type": "public", "to": contract, "abi": ABI, "function": "failWithError", "data": [5]}
            )
        # A failure leaves no gap.
        await one.succeed(**invoke, function="store", data=[1])
        # The function, the contract, and advice.
        absent = {"type": "function", "name": "absent", "inputs": [], "outputs": [{"type": "uint256"}]}
        call = {"type": "public", "to": contract, "abi": [absent], "function": "absent"}
        advice = "it may have no such function, or a check without a text; compare address, ABI and values"
        with pytest.raises(CallFailed, match=rf"reverted: absent\(\) of {contract} gave no reason: {advice}"):
            await one.call("ptx_call", call)
        nowhere = "0x" + "ab" * 20
        with pytest.raises(CallFailed, match=rf"must be a contract with the function absent\(\): {nowhere} answers"):
            await one.call("ptx_call", {**call, "to": nowhere})
        for more in ({}, {"gas": 200_000}):
            failed = await one.do(**{**invoke, "abi": [absent]}, function="absent", **more)
            reason = f"PD012216: Transaction reverted: absent() of {contract} gave no reason: {advice}"
            assert failed["failureMessage"].startswith(reason)


@pytest.mark.slow
@in_loop
async def test_many_are_under_way_and_all_are_found(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        (one,) = callers(session, nodes)
        contract = (await deployed(one))["contractAddress"]
        invoke = {"type": "public", "from": "alice", "to": contract, "abi": ABI, "function": "store"}
        sent = await one.call("ptx_sendTransactions", [{**invoke, "data": [number]} for number in range(40)])
        receipts = [await one.receipt(each) for each in sent]
        assert all(receipt["success"] for receipt in receipts)
        assert await one.call("ptx_call", {**invoke, "function": "stored"}) == {"0": "39"}
        account = await one.call("ptx_resolveVerifier", "alice", "ecdsa:secp256k1", "eth_address")
        fulls = [await one.call("ptx_getTransactionFull", each) for each in sent]
        assert [full["public"][0]["nonce"] for full in fulls] == [hex(number) for number in range(40)]
        assert {full["public"][0]["from"] for full in fulls} == {account}
        assert (
            len(await one.call("ptx_queryTransactions", {"limit": 50, "eq": [{"field": "to", "value": contract}]}))
            == 40
        )
        assert await one.call("ptx_queryPendingTransactions", LIMIT, False) == []
        assert len(await one.call("ptx_queryTransactionReceipts", LIMIT)) == 41
        (stored,) = await one.call("ptx_queryStoredABIs", LIMIT)
        assert stored["hash"] == fulls[0]["abiReference"]
        number = fulls[3]["public"][0]["localId"]
        assert (await one.call("ptx_getPublicTransaction", number))["transaction"] == sent[3]
        explained = await one.call("seq_explain", sent[0])
        assert explained["state"] == "confirmed"


@pytest.mark.slow
@in_loop
async def test_key_is_used_once_and_dependencies_end_first(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        (one,) = callers(session, nodes)
        contract = (await deployed(one))["contractAddress"]
        invoke = {"type": "public", "from": "alice", "to": contract, "abi": ABI, "function": "store"}
        keyed = {**invoke, "data": [1], "idempotencyKey": "once"}
        answers = await asyncio.gather(
            *(one.call("ptx_sendTransaction", keyed) for _ in range(3)), return_exceptions=True
        )
        (first,) = [each for each in answers if isinstance(each, str)]
        with pytest.raises(CallFailed, match=f"PD012220.*{first}") as used:
            await one.call("ptx_sendTransaction", keyed)
        assert used.value.code == -32001
        assert (await one.call("ptx_getTransactionByIdempotencyKey", "once"))["id"] == first
        failing = await one.call("ptx_sendTransaction", {**invoke, "function": "failWithText"})
        after = await one.call("ptx_sendTransaction", {**invoke, "data": [2], "dependsOn": [first]})
        never = await one.call("ptx_sendTransaction", {**invoke, "data": [3], "dependsOn": [failing]})
        assert (await one.receipt(after))["success"]
        assert f"{failing} did not succeed" in (await one.receipt(never))["failureMessage"]
        assert await one.call("ptx_getTransactionDependencies", after) == {"dependsOn": [first], "prereqOf": []}
        with pytest.raises(CallFailed, match=r"dependsOn\[0\]: must be a transaction of node1"):
            await one.call(
                "ptx_sendTransaction", {**invoke, "data": [2], "dependsOn": ["0" * 8 + "-0000-4000-8000-" + "0" * 12]}
            )
        for wrong, says in (
            ({"from": "bob@node2"}, "from: must be a party of this node"),
            ({"function": "gone"}, "function: must be a function of the ABI"),
            ({"data": ["x"]}, "data.num: must be a whole number"),
            ({"to": None}, "to: must be an address, or bytecode"),
            ({"abi": None}, "abi: must have the function"),
            ({"abi": None, "abiReference": "0x" + "00" * 32}, "abiReference: must be the hash of an ABI"),
        ):
            with pytest.raises(CallFailed, match=says):
                await one.call("ptx_sendTransaction", {**invoke, "data": [1], **wrong})


@pytest.mark.slow
@in_loop
async def test_account_without_funds_waits_and_says_what_it_needs(tmp_path: Path) -> None:
    async with network(tmp_path, "node1") as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        (one,) = callers(session, nodes)
        sent = await one.call(
            "ptx_sendTransaction",
            {"type": "public", "from": "deployer", "abi": ABI, "bytecode": PLAYGROUND["bytecode"], "data": [1]},
        )
        account = await one.call("ptx_resolveVerifier", "deployer", "ecdsa:secp256k1", "eth_address")
        while "funds" not in (explained := await one.call("seq_explain", sent))["waitsFor"]:
            await asyncio.sleep(0.01)
        assert account in explained["waitsFor"]
        assert explained["state"] == "Waiting"
        assert await one.call("ptx_getTransactionReceipt", sent) is None
        changed = {"type": "public", "from": "deployer", "abi": ABI, "bytecode": PLAYGROUND["bytecode"], "data": [2]}
        assert await one.call("ptx_updateTransaction", sent, changed) == sent
        assert (await one.call("ptx_getTransaction", sent))["data"] == [2]
        with pytest.raises(CallFailed, match=r"transaction\.from: must be deployer@node1"):
            await one.call("ptx_updateTransaction", sent, {**changed, "from": "other"})
        given_up = await one.call("ptx_sendTransaction", {"type": "public", "from": "poor", "to": account, "value": 5})
        assert await one.call("ptx_cancelTransaction", given_up)
        assert (await one.receipt(given_up))["failureMessage"] == "cancelled by its user"
        await send(nodes.client, {"to": account, "value": hex(FUNDS_WEI)})
        contract = (await one.receipt(sent))["contractAddress"]
        asked = {"type": "public", "to": contract, "abi": ABI, "function": "stored"}
        assert await one.call("ptx_call", asked) == {"0": "2"}
        with pytest.raises(CallFailed, match="transactionId: cannot be changed any more"):
            await one.call("ptx_updateTransaction", sent, changed)


@pytest.mark.slow
@in_loop
async def test_restart_goes_on_with_what_was_accepted(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        (name,) = nodes.names
        await nodes.start(name)
        (one,) = callers(session, nodes)
        contract = (await deployed(one))["contractAddress"]
        invoke = {"type": "public", "from": "alice", "to": contract, "abi": ABI, "function": "store"}
        sent = []
        for number in range(12):
            sent.append(await one.call("ptx_sendTransaction", {**invoke, "data": [number]}))
            if number % 4 == 3:
                await nodes.kill(name)
                await nodes.start(name)
                (one,) = callers(session, nodes)
        receipts = [await one.receipt(each) for each in sent]
        assert all(receipt["success"] for receipt in receipts)
        account = await one.call("ptx_resolveVerifier", "alice", "ecdsa:secp256k1", "eth_address")
        # Each was done once.
        assert await nodes.client.call("eth_getTransactionCount", account, "latest") == hex(12)
