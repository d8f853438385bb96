"""Settlements as applications make them: over JSON-RPC alone, with public transactions for what is public."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.ledger.artifacts import load_artifact
from rota.model.types import NodeName
from rota.testing.workloads.pente import entry_of
from tests.domains.pente.members import token
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, CallFailed, callers
from tests.service.kit import Network, network
from tests.service.test_public_flow import FREE

ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
SETTLEMENT = load_artifact("Settlement")
PRICE, SHARES = 40, 7


async def address_of(caller: Caller, party: str) -> str:
    told = await caller.call("ptx_resolveVerifier", party, "ecdsa:secp256k1", "eth_address")
    assert isinstance(told, str)
    return told


async def locked_gold(bank: Caller, buyer: Caller, delegate: str) -> tuple[str, str]:
    """A token, and the id of the buyer's lock for the seller, which the delegate alone may end."""
    data = {
        "notary": "bank@node1",
        "name": "Gold",
        "symbol": "AU",
        "notaryMode": "basic",
        "options": {"publicLocks": False},
    }
    gold = (await bank.succeed(type="private", domain="noto", from_="bank", data=data))["contractAddress"]
    # All nodes hear of the token before it has a round. One that came later would begin a new life, at another port.
    both = [{"to": party, "amount": 1} for party in ("buyer@node2", "seller@node3")]
    await bank.succeed(type="private", from_="bank", to=gold, function="createMintLock", data=[both, "0x", "0x"])
    await bank.succeed(type="private", from_="bank", to=gold, function="mint", data=["buyer@node2", 100, "0x"])
    ask = {"type": "private", "from_": "buyer", "to": gold}
    recipients = [{"to": "seller@node3", "amount": PRICE}]
    made = await buyer.succeed(**ask, function="createTransferLock", data=["buyer@node2", recipients, "0x", "0x"])
    full = await buyer.call("ptx_getTransactionReceiptFull", made["id"])
    lock: str = full["domainReceipt"]["lockInfo"]["lockId"]
    await buyer.succeed(**ask, function="delegateLock", data=[lock, delegate, "0x"])
    return gold, lock


async def private_shares(seller: Caller) -> tuple[str, str, str]:
    """A group of all, by id and address, and a private token of which the seller has fifty."""
    members = ["bank@node1", "buyer@node2", "seller@node3"]
    group = await seller.call("pgroup_createGroup", {"domain": "pente", "members": members})
    created = await seller.receipt(group["genesisTransaction"])
    wanted = {"domain": "pente", "group": group["id"], "from": "seller"}
    constructor = entry_of(token(), "constructor")
    sent = await seller.call(
        "pgroup_sendTransaction",
        {**wanted, "bytecode": "0x" + token().bytecode.hex(), "function": constructor, "input": ["Shares", "S"]},
    )
    await seller.receipt(sent)
    full = await seller.call("ptx_getTransactionReceiptFull", sent)
    shares: str = full["domainReceipt"]["receipt"]["contractAddress"]
    mint = {"function": entry_of(token(), "mint"), "input": [await address_of(seller, "seller@node3"), 50]}
    assert (await seller.receipt(await seller.call("pgroup_sendTransaction", {**wanted, "to": shares, **mint})))[
        "success"
    ]
    return group["id"], created["contractAddress"], shares


async def leg(caller: Caller, transaction: str) -> dict[str, Any]:
    """When it is endorsed; the test's own time limit bounds it."""
    while (found := await caller.call("settle_leg", transaction)) is None:
        await asyncio.sleep(0.01)
    assert isinstance(found, dict)
    return found


async def balance(caller: Caller, gold: str, account: str) -> str:
    ask = {"type": "private", "domain": "noto", "to": gold, "function": "balanceOf", "from": "bank"}
    told = await caller.call("ptx_call", {**ask, "data": {"account": account}})
    return str(told["totalBalance"])


async def applications(nodes: Network, session: aiohttp.ClientSession) -> tuple[Caller, Caller, Caller]:
    await nodes.start(*ALL)
    bank, buyer, seller = callers(session, nodes)
    return bank, buyer, seller


@pytest.mark.slow
@in_loop
async def test_gold_is_settled_against_private_shares_by_applications(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        bank, buyer, seller = await applications(nodes, session)
        deployment = {"abi": list(SETTLEMENT.abi), "bytecode": "0x" + SETTLEMENT.bytecode.hex()}
        settlement = (await bank.succeed(type="public", from_="bank", **deployment, data=[]))["contractAddress"]
        gold, lock = await locked_gold(bank, buyer, settlement)
        group, ledger, shares = await private_shares(seller)
        transfer = {
            "to": shares,
            "function": entry_of(token(), "transfer"),
            "input": [await address_of(seller, "buyer@node2"), SHARES],
            "committer": settlement,
        }
        payment = await buyer.call(
            "settle_draft",
            {"type": "private", "from": "buyer", "to": gold, "function": "spendLock", "data": {"lockId": lock}},
            ["seller@node3"],
        )
        delivery = await seller.call(
            "settle_draft",
            {"type": "private", "from": "seller", "to": ledger, "function": "invoke", "data": transfer},
            ["buyer@node2"],
        )
        # Each looks at what it is offered.
        offered = await buyer.call("settle_examine", delivery["openings"]["buyer@node2"])
        assert (offered["ledger"], offered["cores"]) == (ledger, delivery["cores"])
        paid = await seller.call("settle_examine", payment["openings"]["seller@node3"])
        assert paid["domainReceipt"]["transfers"] == [{"to": "seller@node3", "amount": str(PRICE)}]
        # The drafts are the legs, and what is endorsed is the settlement's argument, as they are.
        bound = [
            await caller.call("settle_bind", draft["id"], [payment, delivery], "a deal")
            for caller, draft in ((buyer, payment), (seller, delivery))
        ]
        with pytest.raises(CallFailed, match=f"PD012220.*{bound[0]}"):
            await buyer.call("settle_bind", payment["id"], [payment, delivery], "a deal")
        asked = await buyer.call("ptx_getTransaction", bound[0])
        assert (asked["function"].partition("(")[0], asked["data"]) == ("spendLock", {"lockId": lock})
        legs = [await leg(caller, each) for caller, each in zip((buyer, seller), bound, strict=True)]
        settle = {"type": "public", "from_": "bank", "to": settlement, "abi": list(SETTLEMENT.abi)}
        await bank.succeed(**settle, function="settle", data={"legs": legs})
        for caller, each in zip((buyer, seller), bound, strict=True):
            assert (await caller.receipt(each))["success"]
        while await balance(bank, gold, "seller@node3") != str(PRICE):
            await asyncio.sleep(0.01)
        call = {"domain": "pente", "group": group, "from": "buyer", "to": shares}
        view = {"function": entry_of(token(), "balanceOf"), "input": [await address_of(buyer, "buyer@node2")]}
        while await buyer.call("pgroup_call", {**call, **view}) != {"balance": str(SHARES)}:
            await asyncio.sleep(0.01)


@pytest.mark.slow
@in_loop
async def test_a_party_to_whom_a_lock_was_delegated_commits_what_was_prepared_for_it(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        bank, buyer, _ = await applications(nodes, session)
        keeper = await address_of(bank, "keeper@node1")
        gold, lock = await locked_gold(bank, buyer, keeper)
        wanted = {"type": "private", "from": "buyer", "to": gold, "function": "spendLock", "data": {"lockId": lock}}
        spending = await buyer.call("ptx_prepareTransaction", wanted)
        while (prepared := await buyer.call("ptx_getPreparedTransaction", spending)) is None:
            await asyncio.sleep(0.01)
        transaction = prepared["transaction"]
        failed = await bank.do(**{**transaction, "from": "mallory"})
        assert "WrongCommitter" in failed["failureMessage"]
        await bank.succeed(**{**transaction, "from": "keeper"})
        assert (await buyer.receipt(spending))["success"]
        while await balance(bank, gold, "seller@node3") != str(PRICE):
            await asyncio.sleep(0.01)
