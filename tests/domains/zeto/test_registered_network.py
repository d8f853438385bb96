"""Tokens of registered owners (KYC) on three real nodes, asked for as client libraries ask: a stablecoin."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from rota.domains.zeto.babyjubjub import ZERO, Point, add, key_of
from rota.domains.zeto.circuits import CIRCUITS, Kind
from rota.domains.zeto.domain import ANON_KYC, ANON_NULLIFIER_KYC
from rota.domains.zeto.field import ORDER
from rota.ledger.bindings import decode_result, encode_call
from rota.ledger.hexadecimal import data
from rota.model.digests import keccak
from tests.domains.zeto.kit import (
    NAMES,
    NODE3,
    balance,
    begun,
    coins_key,
    mint,
    pay,
    register,
    token,
    transfer,
    until_balance,
)
from tests.domains.zeto.test_deposits import SET_ABI, PublicToken, address_of
from tests.ledger.chains import in_loop
from tests.service.callers import CallFailed, callers
from tests.service.kit import Network, network
from tests.service.test_public_flow import FREE

PUBLIC_KEYS = ("hex_ecdsa_pubkey_uncompressed", "hex_ecdsa_pubkey_uncompressed_0x")


async def count_of(net: Network, contract: str) -> int:
    """How many owners the contract has."""
    asked = {"to": contract, "data": data(encode_call("NullifiedKyc", "identities", 0))}
    answer = await net.client.call("eth_call", asked, "latest")
    count: int = decode_result("NullifiedKyc", "identities", bytes.fromhex(str(answer).removeprefix("0x")))[1]
    return count


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ANON_KYC, pytest.param(ANON_NULLIFIER_KYC, marks=pytest.mark.nightly)])
@in_loop
async def test_owners_are_refused_until_they_are_registered_and_then_deposit_pay_and_withdraw(
    kind: str, tmp_path: Path
) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, kind)
        erc20 = await PublicToken.deployed(one)
        await one.succeed(
            type="public", to=contract, abi=SET_ABI, function="setERC20", from_="a@node1", data={"erc20": erc20.address}
        )
        await erc20.do("mint", await address_of(two, "b@node2"), 100)
        await erc20.do("approve", contract, 100, caller=two, from_="b@node2")
        of_token = {"type": "private", "to": contract}
        deposit = {**of_token, "from_": "b@node2", "function": "deposit", "data": {"amount": 60}}
        payment = {**of_token, "from_": "b@node2", "function": "transfer", "data": {"transfers": [pay("c@node3", 25)]}}

        bobs, carols = await coins_key(two, "b@node2"), await coins_key(three, "c@node3")
        # A public key in every form: the one to register, and the one of the address.
        assert await coins_key(one, "b@node2") == bobs
        told = [await two.call("ptx_resolveVerifier", "b@node2", "ecdsa:secp256k1", each) for each in PUBLIC_KEYS]
        assert told[1] == "0x" + told[0]
        assert "0x" + keccak(bytes.fromhex(told[0]))[-20:].hex() == await address_of(two, "b@node2")
        refused = await two.do(**deposit)
        assert f"b@node2 is not registered with {contract}" in refused["failureMessage"]
        assert "a@node1 must register its key 0x" in refused["failureMessage"]
        assert (await register(one, contract, bobs))["success"]
        await two.succeed(**deposit)
        await until_balance(two, contract, "b@node2", 60)

        # A receiver is registered too, or nothing is proved.
        proofs = len(prover.statements)
        refused = await two.do(**payment)
        assert f"c@node3 is not registered with {contract}" in refused["failureMessage"]
        assert len(prover.statements) == proofs
        assert (await register(one, contract, carols))["success"]
        await two.succeed(**payment)
        await until_balance(three, contract, "c@node3", 25)
        await until_balance(two, contract, "b@node2", 35)

        # A node that starts again works the roster out again.
        await net.stop(NODE3)
        await net.start(NODE3)
        three = callers(session, net)[2]
        withdrawal = {**of_token, "from_": "c@node3", "function": "withdraw"}
        await three.succeed(**withdrawal, data={"amount": 20})
        await until_balance(three, contract, "c@node3", 5)
        assert await erc20.balance(await address_of(three, "c@node3")) == 20
        unpaid = await three.do(
            **of_token, from_="c@node3", function="transfer", data={"transfers": [pay("d@node1", 5)]}
        )
        assert "d@node1 is not registered" in unpaid["failureMessage"]


@pytest.mark.slow
@in_loop
async def test_registrar_alone_registers_and_only_keys_and_mints_to_the_registered(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        prover = await begun(net)
        one, two, _ = callers(session, net)
        contract = await token(one, ANON_KYC)
        # The keys are read from the deployment on, so that no proof has to wait for them.
        assert [circuit for circuit in CIRCUITS if circuit.kind is Kind.ANON_KYC] == prover.prepared[:1]
        assert not prover.statements
        bobs = await coins_key(two, "b@node2")
        stranger = await register(two, contract, bobs, "b@node2")
        assert "NotIssuer" in stranger["failureMessage"]
        outside = add(bobs, Point(0, ORDER - 1))
        for no_key in (ZERO, outside, Point(1, 1), Point(bobs.x + ORDER, bobs.y)):
            with pytest.raises(CallFailed, match="publicKey: must be x and y of an owner's key on BabyJubJub"):
                await register(one, contract, no_key)
        assert await count_of(net, contract) == 0
        unknown = await one.do(
            type="private", to=contract, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 5)]}
        )
        assert "b@node2 is not registered" in unknown["failureMessage"]
        assert (await register(one, contract, bobs))["success"]
        again = await register(one, contract, bobs)
        assert "AlreadyRegistered" in again["failureMessage"]
        await mint(one, contract, pay("b@node2", 5))
        await until_balance(two, contract, "b@node2", 5)
        three_at_once = {"transfers": [pay("b@node2", 1), pay("b@node2", 1), pay("b@node2", 1)]}
        with pytest.raises(CallFailed, match="transfers: must be 1 to 2, not 3"):
            await two.do(type="private", to=contract, from_="b@node2", function="transfer", data=three_at_once)


@pytest.mark.slow
@in_loop
async def test_node_that_was_away_knows_who_was_registered_meanwhile(tmp_path: Path) -> None:
    async with network(tmp_path, *NAMES, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one, ANON_KYC)
        bobs, carols = await coins_key(two, "b@node2"), await coins_key(three, "c@node3")
        assert (await register(one, contract, bobs))["success"]
        await mint(one, contract, pay("b@node2", 40))
        await until_balance(two, contract, "b@node2", 40)
        await net.stop(NODE3)
        for key in (*(key_of(1_000 + number) for number in range(8)), carols):
            assert (await register(one, contract, key))["success"]
        assert await count_of(net, contract) == 10
        await net.start(NODE3)
        three = callers(session, net)[2]
        await transfer(two, contract, "b@node2", pay("c@node3", 15))
        await until_balance(three, contract, "c@node3", 15)
        await transfer(three, contract, "c@node3", pay("b@node2", 5))
        await until_balance(two, contract, "b@node2", 30)
        assert await balance(three, contract, "c@node3") == 10
