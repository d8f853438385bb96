"""Zero-knowledge tokens on three real nodes, asked for as client libraries ask: real proofs, checked by the chain."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from rota.domains.zeto.domain import LEDGERS
from tests.domains.zeto.kit import (
    LOOK_S,
    NAMES,
    TOKEN_ABI,
    balance,
    begun,
    die_while_proving,
    pay,
    registered,
    token,
    until_balance,
)
from tests.ledger.chains import in_loop
from tests.service.callers import callers
from tests.service.kit import network
from tests.service.test_public_flow import FREE


@pytest.mark.slow
@in_loop
async def test_token_is_deployed_minted_paid_and_its_change_paid_on(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one)
        of_token = {"type": "private", "to": contract, "abi": TOKEN_ABI}
        mints = {"mints": [pay("b@node2", 100), pay("b@node2", 9_000)]}
        await one.succeed(**of_token, from_="a@node1", function="mint", data=mints)
        await until_balance(two, contract, "b@node2", 9_100)

        # Four at once: each stands on the change of the one before it.
        transfers = {"transfers": [pay("c@node3", 10)]}
        receipts = await asyncio.gather(
            *(two.succeed(**of_token, from_="b@node2", function="transfer", data=transfers) for _ in range(4))
        )
        assert all(receipt["domain"] == "zeto" for receipt in receipts)
        await until_balance(three, contract, "c@node3", 40)
        assert await balance(two, contract, "b@node2") == 9_060
        assert len(prover.statements) == 4, "a proof is made once, however often the core asks"

        # What is received is spent, and what is too much is refused with a reason.
        await three.succeed(**of_token, from_="c@node3", function="transfer", data={"transfers": [pay("a@node1", 25)]})
        await until_balance(one, contract, "a@node1", 25)
        refused = await three.do(
            **of_token, from_="c@node3", function="transfer", data={"transfers": [pay("a@node1", 16)]}
        )
        assert "success" not in refused
        assert "c@node3 has 15, and 16 are needed" in refused["failureMessage"]
        # A token that was given no ERC-20 has nothing to deposit or withdraw.
        for function in ("deposit", "withdraw"):
            without = await two.do(**{**of_token, "abi": None}, from_="b@node2", function=function, data={"amount": 5})
            assert "has no ERC-20: its issuer must set one first (setERC20)" in without["failureMessage"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEDGERS)
@in_loop
async def test_locked_coin_is_spent_by_its_delegate(kind: str, tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, kind)
        await registered(one, contract, kind, b_node2=two, c_node3=three)
        of_token = {"type": "private", "to": contract}
        await one.succeed(**of_token, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 100)]})
        await until_balance(two, contract, "b@node2", 100)
        delegate = await three.call("ptx_resolveVerifier", "d@node3", "ecdsa:secp256k1", "eth_address")
        locked = await two.succeed(
            **of_token, from_="b@node2", function="lock", data={"amount": 30, "delegate": delegate}
        )
        await until_balance(two, contract, "b@node2", 70)
        told = await two.call("ptx_getDomainReceipt", "zeto", locked["id"])
        (coin,) = [each for each in told["coins"] if each.get("delegate") == delegate]
        spends = {"lockedInputs": [coin["id"]], "delegate": "d@node3", "transfers": [pay("c@node3", 30)]}
        sent = await two.call(
            "ptx_prepareTransaction", {**of_token, "from": "b@node2", "function": "transferLocked", "data": spends}
        )
        while (prepared := await two.call("ptx_getPreparedTransaction", sent)) is None:
            await asyncio.sleep(LOOK_S)
        # Its owner cannot bring it, nor anybody else: only the delegate.
        stranger = await two.do(**prepared["transaction"], from_="b@node2")
        assert "WrongCommitter" in stranger["failureMessage"]
        await three.succeed(**prepared["transaction"], from_="d@node3")
        assert (await two.receipt(sent))["success"]
        await until_balance(three, contract, "c@node3", 30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEDGERS)
@in_loop
async def test_prepared_payment_is_voided_in_seconds_and_without_a_proof(kind: str, tmp_path: Path) -> None:
    """It would be valid for a day. The key of its intent signs an empty transition, which needs nothing else."""
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, kind)
        await registered(one, contract, kind, b_node2=two, c_node3=three)
        of_token = {"type": "private", "to": contract}
        await one.succeed(**of_token, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 100)]})
        await until_balance(two, contract, "b@node2", 100)
        delegate = await three.call("ptx_resolveVerifier", "d@node3", "ecdsa:secp256k1", "eth_address")
        locked = await two.succeed(
            **of_token, from_="b@node2", function="lock", data={"amount": 30, "delegate": delegate}
        )
        await until_balance(two, contract, "b@node2", 70)
        told = await two.call("ptx_getDomainReceipt", "zeto", locked["id"])
        (coin,) = [each for each in told["coins"] if each.get("delegate") == delegate]
        spends = {"lockedInputs": [coin["id"]], "delegate": "d@node3", "transfers": [pay("c@node3", 30)]}
        sent = await two.call(
            "ptx_prepareTransaction", {**of_token, "from": "b@node2", "function": "transferLocked", "data": spends}
        )
        while (prepared := await two.call("ptx_getPreparedTransaction", sent)) is None:
            await asyncio.sleep(LOOK_S)
        proofs = len(prover.statements)
        assert await two.call("ptx_cancelTransaction", sent)
        ended = await two.receipt(sent)
        assert "cancelled" in ended["failureMessage"]
        assert len(prover.statements) == proofs
        # What was prepared is worth nothing now: its intent is used up.
        await three.do(**prepared["transaction"], from_="d@node3")
        assert await balance(three, contract, "c@node3") == 0


@pytest.mark.slow
@in_loop
async def test_owner_that_dies_while_it_proves_pays_once_when_it_is_back(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one)
        of_token = {"type": "private", "to": contract}
        await one.succeed(**of_token, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 100)]})
        await until_balance(two, contract, "b@node2", 100)
        wanted = {**of_token, "from": "b@node2", "function": "transfer", "data": {"transfers": [pay("c@node3", 10)]}}
        sent = [await two.call("ptx_sendTransaction", wanted) for _ in range(3)]
        two = await die_while_proving(net, session, prover)
        for transaction in sent:
            assert (await two.receipt(transaction))["success"]
        await until_balance(three, contract, "c@node3", 30)
        await until_balance(two, contract, "b@node2", 70)
