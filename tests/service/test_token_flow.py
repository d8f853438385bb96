"""Notary tokens as applications use them over three nodes: sent, followed, asked for, prepared, committed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.model.types import NodeName
from rota.sequencer.signers import ENDORSED_ENOUGH
from tests.ledger.chains import in_loop
from tests.service.callers import BALANCE_OF, Caller, CallFailed, callers
from tests.service.kit import network
from tests.service.test_public_flow import FREE, LIMIT

ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
TOKEN_ABI: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "transfer",
        "inputs": [
            {"name": "to", "type": "string"},
            {"name": "amount", "type": "uint256"},
            {"name": "data", "type": "bytes"},
        ],
    },
    BALANCE_OF,
]


async def token(notary: Caller) -> str:
    receipt = await notary.succeed(
        type="private",
        domain="noto",
        from_="notary@node1",
        function="",
        data={"notary": "notary@node1", "notaryMode": "basic", "name": "Gold", "symbol": "GLD", "junk": 1},
    )
    address: str = receipt["contractAddress"]
    # The ledger's word on a deployment is an event of the factory.
    assert receipt["transactionHash"].startswith("0x")
    assert {"blockNumber", "transactionIndex", "logIndex", "source"} <= set(receipt)
    return address


async def balance(caller: Caller, contract: str, account: str, sender: str) -> str:
    asked = {"type": "private", "domain": "noto", "abi": TOKEN_ABI, "function": "balanceOf", "to": contract}
    told = await caller.call("ptx_call", {**asked, "from": sender, "data": {"account": account}})
    assert set(told) == {"totalBalance", "totalStates", "overflow"}
    amount: str = told["totalBalance"]
    return amount


async def asked_otherwise(caller: Caller, contract: str) -> None:
    """A private contract is asked of the present, and its answer written as wished where an ABI has its outputs."""
    asked = {"type": "private", "to": contract, "function": "balanceOf", "from": "notary"}
    asked["data"] = {"account": "bob@node2"}  # type: ignore[assignment]
    wished = {**asked, "abi": TOKEN_ABI, "block": "latest", "dataFormat": "mode=array&number=hex"}
    assert await caller.call("ptx_call", wished) == ["0x1", "0x46", False]
    text = {"name": "totalBalance", "type": "address"}
    another = [{**entry, "outputs": [text]} for entry in TOKEN_ABI if entry["name"] == "balanceOf"]
    for wrong, says in (
        ({"block": 1}, "transaction.block: must be latest"),
        ({"dataFormat": "number=hex"}, "transaction.dataFormat: must come with an ABI"),
        ({"dataFormat": "number=hex", "abi": another}, "transaction.dataFormat: the outputs of the function"),
    ):
        with pytest.raises(CallFailed, match=says):
            await caller.call("ptx_call", {**asked, **wrong})


@pytest.mark.slow
@in_loop
async def test_tokens_go_round_and_the_notary_tells_every_balance(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, two, three = callers(session, nodes)
        contract = await token(one)
        pay = {"type": "private", "to": contract, "abi": TOKEN_ABI}
        minted = await one.succeed(
            type="private",
            to=contract,
            from_="notary",
            function="mint",
            data={"to": "bob@node2", "amount": "0x64", "data": "0x"},
        )
        assert minted["domain"] == "noto"
        assert {"transactionHash", "transactionIndex", "logIndex"} <= set(minted)
        # The function as a signature, the values as a list, the sender without its node.
        paid = await two.succeed(
            **pay, from_="bob", function="transfer(string,uint256,bytes)", data=["carol@node3", 30, "0x"]
        )
        # The nodes' indexes may be a block behind the one that told of the receipt.
        for node, account, asker in ((one, "carol@node3", "notary@node1"), (three, "carol", "carol@node3")):
            while await balance(node, contract, account, asker) != "30":
                await asyncio.sleep(0.01)
        assert await balance(one, contract, "bob@node2", "notary") == "70"
        await asked_otherwise(one, contract)
        full = await two.call("ptx_getTransactionReceiptFull", paid["id"])
        bob, carol = [
            await two.call("ptx_resolveVerifier", party, "ecdsa:secp256k1", "eth_address")
            for party in ("bob@node2", "carol@node3")
        ]
        parties = {"from": bob, "fromParty": "bob@node2", "to": carol, "toParty": "carol@node3"}
        assert full["domainReceipt"]["transfers"] == [{**parties, "amount": "30"}]
        states = full["states"]
        assert {state["data"]["owner"]: state["data"]["ownerParty"] for state in states["confirmed"]} == {
            bob: "bob@node2",
            carol: "carol@node3",
        }
        assert sorted(state["data"]["amount"] for state in states["confirmed"]) == ["30", "70"]
        assert [state["data"]["amount"] for state in states["spent"]] == ["100"]
        assert await two.call("ptx_getStateReceipt", paid["id"]) == states
        assert await two.call("ptx_getDomainReceipt", "noto", paid["id"]) == full["domainReceipt"]
        # Node1 brought it to the ledger.
        mine = {"eq": [{"field": "transactionID", "value": paid["id"]}]}
        (dispatch,) = await one.call("ptx_queryDispatches", mine)
        assert await one.call("ptx_getDispatch", dispatch["id"]) == dispatch
        public = await one.call("ptx_getPublicTransaction", dispatch["publicTransactionID"])
        assert (public["to"], public["transactionType"]) == (contract, "private")
        assert (public["success"], public["data"][:2]) == (True, "0x")
        assert "completedAt" in public
        shown = await two.call("ptx_getTransaction", paid["id"])
        assert shown["function"] == "transfer(string,uint256,bytes)"
        assert shown["data"] == ["carol@node3", 30, "0x"]
        assert shown["from"] == "bob@node2"
        failed = await two.do(
            **pay, from_="bob", function="transfer", data={"to": "carol@node3", "amount": 1_000, "data": "0x"}
        )
        assert "PD200005" in failed["failureMessage"]
        assert "success" not in failed
        full = await two.call("ptx_getTransactionFull", failed["id"])
        assert full["receipt"]["failureMessage"] == failed["failureMessage"]
        for wrong, says in (
            ({"from": "bob@node1"}, "from: must be a party of this node"),
            ({"function": "gone"}, "function: must be a function of the ABI"),
            ({"data": {"to": "carol@node3", "amount": "x"}}, "data.amount: must be a whole number"),
            ({"domain": "pente"}, "domain: must be noto"),
        ):
            with pytest.raises(CallFailed, match=says):
                await two.call(
                    "ptx_sendTransaction", {**pay, "from": "bob", "function": "transfer", "data": [], **wrong}
                )


@pytest.mark.slow
@in_loop
async def test_payment_from_the_change_of_its_dependency_is_submitted_before_that_is_confirmed(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, two, _ = callers(session, nodes)
        contract = await token(one)
        mint = {"type": "private", "to": contract, "from": "notary", "function": "mint"}
        await one.succeed(type="private", to=contract, from_="notary", function="mint", data=["bob@node2", 100, "0x"])
        # A coordinator verifies the signatures of a new sender before it offers states of its transitions to others. A
        # dependent that is assembled meanwhile cannot read them, and waits for the confirmation.
        for _ in range(ENDORSED_ENOUGH):
            payment = ["carol@node3", 1, "0x"]
            await two.succeed(type="private", to=contract, from_="bob", function="transfer", data=payment)
        await nodes.client.call("evm_setAutomine", False)
        pay = {"type": "private", "to": contract, "from": "bob", "function": "transfer"}
        first = await two.call("ptx_sendTransaction", {**pay, "data": ["carol@node3", 30, "0x"]})
        second = await two.call("ptx_sendTransaction", {**pay, "data": ["carol@node3", 20, "0x"], "dependsOn": [first]})
        # A mint reads no state: it waits for what it depends on.
        apart = await one.call("ptx_sendTransaction", {**mint, "data": ["dave@node1", 1, "0x"]})
        after = await one.call("ptx_sendTransaction", {**mint, "data": ["dave@node1", 2, "0x"], "dependsOn": [apart]})
        for node, sent in ((two, first), (two, second), (one, apart)):
            while (await node.call("seq_explain", sent))["state"] != "Submitted":
                await asyncio.sleep(0.01)
        waiting = await one.call("seq_explain", after)
        assert waiting["state"] == "Pending"
        assert "what it depends on to be confirmed" in waiting["waitsFor"]
        await nodes.client.call("evm_setAutomine", True)
        await nodes.client.call("evm_mine")
        places = []
        for node, sent in ((two, first), (two, second), (one, after)):
            receipt = await node.receipt(sent)
            assert receipt["success"]
            places.append((receipt["blockNumber"], receipt["logIndex"]))
        assert places == sorted(places)
        assert await balance(one, contract, "bob@node2", "notary") == str(50 - ENDORSED_ENOUGH)


@pytest.mark.slow
@in_loop
async def test_prepared_transaction_is_committed_by_whoever_is_given_it(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, two, three = callers(session, nodes)
        contract = await token(one)
        await one.succeed(type="private", to=contract, from_="notary", function="mint", data=["bob@node2", 100, "0x"])
        wanted = {"type": "private", "to": contract, "from": "bob", "function": "transfer"}
        sent = await two.call("ptx_prepareTransaction", {**wanted, "data": ["carol@node3", 40, "0x"]})
        while (prepared := await two.call("ptx_getPreparedTransaction", sent)) is None:
            await asyncio.sleep(0.01)
        assert (prepared["id"], prepared["domain"], prepared["to"]) == (sent, "noto", contract)
        assert sorted(state["data"]["amount"] for state in prepared["states"]["confirmed"]) == ["40", "60"]
        assert [each["id"] for each in await two.call("ptx_queryPreparedTransactions", LIMIT)] == [sent]
        assert (await two.call("ptx_getTransaction", sent))["submitMode"] == "external"
        (pending,) = await two.call("ptx_queryPendingTransactions", LIMIT, True)
        assert pending["id"] == sent
        # Transactions of another node wait for its leaf, private and public ones; another leaf never comes.
        metadata = prepared["metadata"]
        leaf = {"contract": contract, "id": sent, "leaf": metadata["transitionHash"]}
        leaf["validUntil"] = metadata["validUntil"]
        mint = {**wanted, "from": "notary", "function": "mint", "data": ["dave@node1", 1, "0x"]}
        after = await one.call("ptx_sendTransaction", {**mint, "dependsOn": [leaf]})
        never = await one.call("ptx_sendTransaction", {**mint, "dependsOn": [{**leaf, "leaf": "0x" + "11" * 32}]})
        public = {"type": "public", "from": "stranger", "to": "0x" + "11" * 20, "data": "0x", "gas": 100_000}
        public_after = await one.call("ptx_sendTransaction", {**public, "dependsOn": [leaf]})
        public_never = await one.call(
            "ptx_sendTransaction", {**public, "from": "other", "dependsOn": [{**leaf, "leaf": "0x" + "11" * 32}]}
        )
        assert leaf["leaf"].removeprefix("0x") in (await one.call("seq_explain", after))["waitsFor"]
        with pytest.raises(CallFailed, match="dependsOn: must name a contract of node1"):
            await one.call("ptx_sendTransaction", {**mint, "dependsOn": [{**leaf, "contract": "0x" + "11" * 20}]})
        # Without a bound of its user, the wait counts from now on, however old the latest block is.
        begun_s = int(time.time())
        unbounded = {name: value for name, value in leaf.items() if name != "validUntil"}
        later = await one.call("ptx_sendTransaction", {**public, "from": "third", "dependsOn": [unbounded]})
        (shown,) = (await one.call("ptx_getTransactionFull", later))["dependsOnLeaves"]
        assert int(shown["validUntil"], 16) >= begun_s + 3_600
        # Nothing has happened until somebody commits it; here it is a stranger of another node.
        assert await balance(one, contract, "carol@node3", "notary") == "0"
        committed = await three.succeed(**prepared["transaction"], from_="stranger")
        assert committed["transactionHash"]
        assert (await two.receipt(sent))["success"]
        assert (await one.receipt(after))["success"]
        assert (await one.receipt(public_after))["success"]
        assert "another transition uses its id" in (await one.receipt(never))["failureMessage"]
        assert "did not succeed" in (await one.receipt(public_never))["failureMessage"]
        # A private transaction may wait for a public one; carol's node has the coin when her payment is assembled.
        back = {**wanted, "from": "carol", "data": ["bob@node2", 1, "0x"], "dependsOn": [committed["id"]]}
        while await balance(three, contract, "carol", "carol") != "40":
            await asyncio.sleep(0.01)
        assert (await three.receipt(await three.call("ptx_sendTransaction", back)))["success"]
        reverting = {"type": "public", "from": "stranger", "to": contract, "data": "0xdeadbeef", "gas": 100_000}
        failed = await three.call("ptx_sendTransaction", reverting)
        after = await three.call("ptx_sendTransaction", {**back, "dependsOn": [failed]})
        assert "depends on" in (await three.receipt(after))["failureMessage"]
        assert await two.call("ptx_getPreparedTransaction", sent) is None
        assert await two.call("ptx_queryPreparedTransactions", LIMIT) == []


@pytest.mark.slow
@in_loop
async def test_receipt_names_the_node_that_lacks_the_states_and_waits_for_no_node_that_is_away(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, *_ = callers(session, nodes)
        contract = await token(one)
        mint = {"type": "private", "to": contract, "from_": "notary", "function": "mint"}
        received = await one.succeed(**mint, data=["bob@node2", 100, "0x"])
        assert "unacknowledged" not in received
        await nodes.stop(NodeName("node2"))
        received = await one.succeed(**mint, data=["bob@node2", 1, "0x"])
        assert received["unacknowledged"] == ["node2"]


@pytest.mark.slow
@in_loop
async def test_sender_and_coordinator_name_the_endorser_that_has_not_signed(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        await nodes.connected()
        one, two, _ = callers(session, nodes)
        contract = await nodes.create([f"alice@{name}" for name in ALL], threshold=3)
        processes = nodes.processes.values()
        await nodes.until(lambda: all(process.running.contracts.known(contract) for process in processes))
        await nodes.stop(NodeName("node3"))
        wanted = {"type": "private", "to": contract, "from": "alice", "function": "spend", "data": []}
        for node in (one, two):
            sent = await node.call("ptx_sendTransaction", wanted)
            missing: list[dict[str, Any]] = []
            # At first the others have not signed either.
            while [each["node"] for each in missing] != ["node3"]:
                missing = (await node.call("seq_explain", sent)).get("missing", [])
                await asyncio.sleep(0.01)
            assert missing[0]["since"]
            assert missing[0]["toldBy"] in ("node1", "node2")
