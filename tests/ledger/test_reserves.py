"""What stands behind coins of a public token, as the chain tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.bench.gas import address_of
from rota.domains.base import Reserve
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import creation_code, encode_call
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.hexadecimal import data
from rota.ledger.reserves import reserve_of
from rota.model.digests import domain_separator, keccak
from rota.model.types import ContractAddress
from rota.ports import Unavailable
from tests.contracts.evm import artifact, call_data
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.participant import DEPLOYER, deploy_contract, send

ISSUER = PrivateKey(keccak(b"issuer"))
ACCOUNT = ContractAddress(DEPLOYER)


@asynccontextmanager
async def ledger_of_coins(home: Path) -> AsyncIterator[tuple[Chain, RpcClient, ContractAddress]]:
    """On a chain of its own, with a node's way to it. What verifies its proofs is not asked here."""
    async with running("embedded", home) as chain:
        verifier = await deploy_contract(chain, "VerifierAnon2x2")
        code = creation_code("Proved", address_of(ISSUER), verifier, verifier, False)
        made = await send(chain, {"data": data(code)})
        assert made.contract is not None
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1))
        try:
            yield chain, client, made.contract
        finally:
            await client.close()


async def with_erc20(chain: Chain, ledger: ContractAddress, name: str) -> ContractAddress:
    made = (await send(chain, {"data": data(artifact(name).bytecode)})).contract
    assert made is not None
    call = encode_call("Proved", "setERC20", made)
    signature = ISSUER.sign_compact(keccak(domain_separator(CHAIN_ID, ledger) + call))
    await send(chain, {"to": ledger, "data": data(call + signature)})
    return made


@in_loop
async def test_reserve_is_what_the_ledgers_own_erc20_says(tmp_path: Path) -> None:
    async with ledger_of_coins(tmp_path) as (chain, client, ledger):
        assert await reserve_of(client, ledger, ACCOUNT) is None, "it was given none"
        token = await with_erc20(chain, ledger, "TestToken")
        assert await reserve_of(client, ledger, ACCOUNT) == Reserve(token, ACCOUNT, 0, 0, 0)
        for function, arguments in (("mint", (ACCOUNT, 9)), ("mint", (ledger, 4)), ("approve", (ledger, 7))):
            await send(chain, {"to": token, "data": data(call_data("TestToken", function, *arguments))})
        assert await reserve_of(client, ledger, ACCOUNT) == Reserve(token, ACCOUNT, 9, 7, 4)


@in_loop
async def test_what_a_contract_that_is_no_erc20_does_not_say_is_not_known(tmp_path: Path) -> None:
    async with ledger_of_coins(tmp_path) as (chain, client, ledger):
        target = await with_erc20(chain, ledger, "Target")
        assert await reserve_of(client, ledger, ACCOUNT) == Reserve(target, ACCOUNT)
        with pytest.raises(Unavailable, match=f"which ERC-20 {target} has"):
            await reserve_of(client, target, ACCOUNT)
