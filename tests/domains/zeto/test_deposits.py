"""Deposits from an ERC-20 and withdrawals to it, on real nodes, as client libraries ask for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.domains.zeto.domain import KINDS, LEDGERS
from tests.domains.zeto.kit import NAMES, balance, begun, die_while_proving, pay, registered, token, until_balance
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, callers
from tests.service.kit import network
from tests.service.test_public_flow import FREE

ERC20 = json.loads((Path(__file__).parents[2] / "contracts/artifacts/TestToken.json").read_text())
KEEPING_ONE = 3
SET_ABI = [{"type": "function", "name": "setERC20", "inputs": [{"name": "erc20", "type": "address"}], "outputs": []}]


class PublicToken:
    """An ERC-20 on the base ledger, asked through a node."""

    def __init__(self, caller: Caller, address: str) -> None:
        self._caller = caller
        self.address = address
        self._of = {"type": "public", "to": address, "abi": ERC20["abi"]}

    @classmethod
    async def deployed(cls, caller: Caller) -> PublicToken:
        made = await caller.succeed(type="public", from_="a@node1", abi=[], bytecode=ERC20["bytecode"], data={})
        return cls(caller, made["contractAddress"])

    async def do(self, function: str, *values: object, caller: Caller | None = None, from_: str = "a@node1") -> None:
        await (caller or self._caller).succeed(**self._of, from_=from_, function=function, data=list(values))

    async def balance(self, account: str) -> int:
        asked: dict[str, Any] = {**self._of, "function": "balanceOf", "data": [account]}
        told = await self._caller.call("ptx_call", asked)
        return int(next(iter(told.values())) if isinstance(told, dict) else told)


async def address_of(caller: Caller, party: str) -> str:
    found: str = await caller.call("ptx_resolveVerifier", party, "ecdsa:secp256k1", "eth_address")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.nightly if KINDS[kind].has_identities else ()) for kind in LEDGERS]
)
@in_loop
async def test_tokens_become_coins_and_coins_become_tokens(kind: str, tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, kind)
        await registered(one, contract, kind, b_node2=two, c_node3=three)
        erc20 = await PublicToken.deployed(one)
        set_it = {"type": "public", "to": contract, "abi": SET_ABI, "function": "setERC20"}
        stranger = await two.do(**set_it, from_="b@node2", data={"erc20": erc20.address})
        assert "NotIssuer" in stranger["failureMessage"]
        await one.succeed(**set_it, from_="a@node1", data={"erc20": erc20.address})

        bob, carol = await address_of(two, "b@node2"), await address_of(three, "c@node3")
        of_token = {"type": "private", "to": contract}
        deposit = {**of_token, "from_": "b@node2", "function": "deposit"}
        poor = await two.do(**deposit, data={"amount": 10})
        assert f"b@node2 has 0 of the 10 at {bob}" in poor["failureMessage"]
        await erc20.do("mint", bob, 100)
        await erc20.do("approve", contract, 3, caller=two, from_="b@node2")
        unlet = await two.do(**deposit, data={"amount": 10})
        assert "b@node2 has let the contract take 3 of the 10" in unlet["failureMessage"]
        await erc20.do("approve", contract, 90, caller=two, from_="b@node2")
        # Each of the two is allowed, but not both. The chain refuses the second, or its sender does if it sees the
        # effect of the first before it assembles the second; `test_reserve.py` has the text of each.
        asked = {"type": "private", "to": contract, "from": "b@node2", "function": "deposit"}
        sent = [await two.call("ptx_sendTransaction", {**asked, "data": {"amount": each}}) for each in (60, 40)]
        first, second = [await two.receipt(each) for each in sent]
        assert first["success"]
        assert "take 30 of the 40" in second["failureMessage"]
        await two.succeed(**deposit, data={"amount": 20})
        await until_balance(two, contract, "b@node2", 80)
        assert (await erc20.balance(bob), await erc20.balance(contract)) == (20, 80)

        await two.succeed(**of_token, from_="b@node2", function="transfer", data={"transfers": [pay("c@node3", 70)]})
        await until_balance(three, contract, "c@node3", 70)
        withdraw = {**of_token, "from_": "c@node3", "function": "withdraw"}
        await three.succeed(**withdraw, data={"amount": 45})
        await until_balance(three, contract, "c@node3", 25)
        assert (await erc20.balance(carol), await erc20.balance(contract)) == (45, 35)
        much = await three.do(**withdraw, data={"amount": 26})
        assert "c@node3 has 25, and 26 are needed" in much["failureMessage"]

        # What only the chain can tell: a token that keeps something back. The coins stay what they are.
        await erc20.do("behave", KEEPING_ONE)
        short = await two.do(**deposit, data={"amount": 5})
        assert "must move exactly what is said" in short["failureMessage"]
        assert (await balance(two, contract, "b@node2"), await erc20.balance(contract)) == (10, 35)
        await three.succeed(**withdraw, data={"amount": 25})
        await until_balance(three, contract, "c@node3", 0)
        assert await erc20.balance(contract) == 10

        # A transition without coins adds nothing to the tree of commitments, and the owners of coins still pay.
        await two.succeed(**of_token, from_="b@node2", function="transfer", data={"transfers": [pay("c@node3", 4)]})
        await until_balance(three, contract, "c@node3", 4)


@pytest.mark.slow
@in_loop
async def test_owner_that_dies_while_it_proves_deposits_once_when_it_is_back(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, _ = callers(session, net)
        contract = await token(one)
        erc20 = await PublicToken.deployed(one)
        await one.succeed(
            type="public", to=contract, abi=SET_ABI, function="setERC20", from_="a@node1", data={"erc20": erc20.address}
        )
        bob = await address_of(two, "b@node2")
        await erc20.do("mint", bob, 100)
        await erc20.do("approve", contract, 100, caller=two, from_="b@node2")
        asked = {"type": "private", "to": contract, "from": "b@node2", "function": "deposit"}
        sent = [await two.call("ptx_sendTransaction", {**asked, "data": {"amount": 20}}) for _ in range(2)]
        two = await die_while_proving(net, session, prover)
        for transaction in sent:
            assert (await two.receipt(transaction))["success"]
        await until_balance(two, contract, "b@node2", 40)
        assert (await erc20.balance(bob), await erc20.balance(contract)) == (60, 40)
