"""Tokens whose spends cannot be linked to coins, on three real nodes: real proofs, checked by the chain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from rota.domains.zeto.circuits import CIRCUITS
from rota.domains.zeto.domain import ANON_NULLIFIER, KINDS
from rota.model.config import Config
from tests.domains.zeto.kit import (
    LOOK_S,
    NAMES,
    NODE1,
    NODE2,
    TOKEN_ABI,
    balance,
    begun,
    lose_database,
    mint,
    pay,
    recovered,
    token,
    transfer,
    until_balance,
)
from tests.domains.zeto.on_chain import ROOTS, age_roots, asked_of
from tests.domains.zeto.prover import key_of
from tests.domains.zeto.test_kept_proofs import StopsWhenProved
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, callers
from tests.service.kit import Network, network

BLOCK_MS = 150


@pytest.fixture(scope="module", autouse=True)
def small_key() -> None:
    """Read before anything waits for a proof."""
    key_of(next(circuit for circuit in CIRCUITS if circuit.kind is KINDS[ANON_NULLIFIER]))


async def coin_schema(caller: Caller) -> str:
    """The id of the schema of coins."""
    found = await caller.call("pstate_listSchemas", "zeto")
    identity: str = next(each["id"] for each in found if "Coin" in each["signature"])
    return identity


async def is_nullified(net: Network, contract: str, state: dict[str, Any]) -> bool:
    """Whether the ledger has marked the nullifier that a state shows."""
    nullifier = bytes.fromhex(state["nullifier"]["id"].removeprefix("0x"))
    return await asked_of(net.client.call, contract, "isNullified", nullifier) == (1,)


async def input_of(net: Network, receipt: dict[str, Any]) -> str:
    """What the base ledger was given for a transaction."""
    told = await net.client.call("eth_getTransactionByHash", receipt["transactionHash"])
    return cast(dict[str, str], told)["input"]


@pytest.mark.slow
@in_loop
async def test_owners_spend_at_the_same_time_and_their_change_and_after_a_restart(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, ANON_NULLIFIER)
        await mint(one, contract, pay("b@node2", 100), pay("c@node3", 50))
        await until_balance(two, contract, "b@node2", 100)
        await until_balance(three, contract, "c@node3", 50)

        # Each is proved for a root that the others' coins make an older one; the second of b spends b's change.
        receipts = await asyncio.gather(
            transfer(two, contract, "b@node2", pay("c@node3", 10)),
            transfer(two, contract, "b@node2", pay("c@node3", 10)),
            transfer(three, contract, "c@node3", pay("a@node1", 5)),
        )
        await until_balance(three, contract, "c@node3", 65)
        await until_balance(one, contract, "a@node1", 5)
        assert len(prover.statements) == 3, "nobody's spend makes another's worthless"
        assert sum(bool(statement.pending) for statement in prover.statements) == 1

        # The tree is worked out from what is stored.
        await net.stop(NODE2)
        await net.start(NODE2)
        two = callers(session, net)[1]
        assert await balance(two, contract, "b@node2") == 80
        alone = await transfer(two, contract, "b@node2", pay("a@node1", 30))
        await until_balance(one, contract, "a@node1", 35)
        await until_balance(two, contract, "b@node2", 50)
        assert (await asked_of(net.client.call, contract, "size"))[0] == 10

        place = ("zeto", contract, await coin_schema(two), {"limit": 9})
        spent = await two.call("pstate_queryContractNullifiers", *place, "spent")
        assert sorted(each["data"]["amount"] for each in spent) == ["100", "80", "90"]
        spenders = {each["nullifier"]["spent"]["transaction"] for each in spent}
        assert {receipt["id"] for receipt in receipts[:2]} < spenders
        for each in spent:
            assert await is_nullified(net, contract, each)
        (change,) = await two.call("pstate_queryContractNullifiers", *place, "available")
        assert change["data"]["amount"] == "50"
        assert not await is_nullified(net, contract, change)

        # What the chain was given names neither the coin nor what made it, and shows its nullifier.
        (coin,) = [each for each in spent if each["spent"]["transaction"] == alone["id"]]
        maker = next(each for each in receipts if each["id"] == coin["confirmed"]["transaction"])
        told = await two.call("ptx_getDomainReceipt", "zeto", maker["id"])
        commitments = [f"{int(each['id'], 16):064x}" for each in told["coins"]]
        given, made = [await input_of(net, each) for each in (alone, maker)]
        assert coin["nullifier"]["id"].removeprefix("0x") in given
        assert all(each in made for each in commitments), "the search finds what is there"
        leaf = coin["id"].removeprefix("0x")[:64]
        assert not any(each in given for each in (leaf, *commitments))
        full = await two.call("ptx_getTransactionReceiptFull", receipts[0]["id"])
        assert [each["data"]["amount"] for each in full["states"]["spent"]] in (["100"], ["90"])
        assert "unavailable" not in full["states"]


@pytest.mark.slow
@in_loop
async def test_owner_that_lost_its_database_finds_its_coins_and_spends_them(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, ANON_NULLIFIER)
        await mint(one, contract, pay("b@node2", 40), pay("c@node3", 5))
        await until_balance(two, contract, "b@node2", 40)
        await transfer(two, contract, "b@node2", pay("b@node2", 40))
        await mint(one, contract, pay("b@node2", 7))
        await until_balance(two, contract, "b@node2", 47)
        await lose_database(net, NODE2)
        await net.start(NODE2)

        # What the issuer made comes from its node, and what of it is spent the chain says. Nobody else had the change.
        two = await recovered(net, session, contract, "b@node2", 7)
        await transfer(two, contract, "b@node2", pay("c@node3", 3))
        await until_balance(three, contract, "c@node3", 8)
        await until_balance(two, contract, "b@node2", 4)


@pytest.mark.slow
@in_loop
async def test_spend_outlives_a_reorganisation_that_takes_its_root_back(tmp_path: Path) -> None:
    config = Config(confirmations=4)
    async with network(tmp_path, *NAMES, config=config) as net, aiohttp.ClientSession() as session:
        await net.client.call("rota_setIntervalMining", BLOCK_MS)
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, ANON_NULLIFIER)
        await mint(one, contract, pay("b@node2", 40))
        await until_balance(two, contract, "b@node2", 40)

        # Another coin makes the root that b's spend is proved for. Both are taken back before they are final.
        mints = {"mints": [pay("c@node3", 5)]}
        of_token = {"type": "private", "to": contract, "abi": TOKEN_ABI}
        minted = await one.call(
            "ptx_sendTransaction", {**of_token, "from": "a@node1", "function": "mint", "data": mints}
        )
        while (await asked_of(net.client.call, contract, "size"))[0] < 2:
            await asyncio.sleep(LOOK_S)
        await net.client.call("rota_setIntervalMining", 0)
        before = int(str(await net.client.call("eth_blockNumber")), 16)
        await until_balance(two, contract, "b@node2", 40)
        transfers = {"transfers": [pay("c@node3", 10)]}
        sent = await two.call(
            "ptx_sendTransaction", {**of_token, "from": "b@node2", "function": "transfer", "data": transfers}
        )
        while (await asked_of(net.client.call, contract, "size"))[0] < 4:
            pool = cast(dict[str, str], await net.client.call("txpool_status"))
            if int(pool["pending"], 16):
                await net.client.call("anvil_mine", "0x1")
            await asyncio.sleep(LOOK_S)
        depth = int(str(await net.client.call("eth_blockNumber")), 16) - before + 1
        assert depth < config.confirmations, "nothing is final that is taken back"
        await net.client.call("anvil_reorg", depth, [])
        assert (await asked_of(net.client.call, contract, "size"))[0] == 1
        await net.client.call("rota_setIntervalMining", BLOCK_MS)
        for caller, transaction in ((one, minted), (two, sent)):
            assert (await caller.receipt(transaction))["success"]
        await until_balance(three, contract, "c@node3", 15)
        await until_balance(two, contract, "b@node2", 30)
        assert (await asked_of(net.client.call, contract, "size"))[0] == 4


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [False, True])
@in_loop
async def test_proof_of_the_life_before_is_used_while_the_ledger_takes_its_root(is_old: bool, tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as net, aiohttp.ClientSession() as session:
        dying = net.watchers[NODE2] = StopsWhenProved(net, NODE2)
        prover = await begun(net)
        one, two = callers(session, net)
        contract = await token(one, ANON_NULLIFIER)
        await mint(one, contract, pay("b@node2", 100))
        await until_balance(two, contract, "b@node2", 100)
        transfers = {"transfers": [pay("a@node1", 10)]}
        wanted = {"type": "private", "to": contract, "from": "b@node2", "function": "transfer", "data": transfers}
        sent = await two.call("ptx_sendTransaction", wanted)
        await net.until(lambda: dying.made)
        await net.kill(NODE2)
        if is_old:
            await age_roots(net.client.call, contract, ROOTS)
        await mint(one, contract, pay("a@node1", 1))
        net.watchers.clear()
        await net.start(NODE2)
        two = callers(session, net)[1]
        assert (await two.receipt(sent))["success"]
        await until_balance(one, contract, "a@node1", 11)
        assert len(prover.statements) == 1 + is_old
