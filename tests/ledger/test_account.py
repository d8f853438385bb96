"""An account that sends single transactions: each once, the next in the place of one that is stuck."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.ledger.account import Account, AccountLimits, CallReverted, TransactionRejected
from rota.ledger.bindings import deploy_endorsed
from rota.ledger.client import ClientLimits, RpcClient
from rota.model.types import ContractAddress
from rota.ports import Unavailable
from rota.sim.domain import intent_id
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.participant import ENDORSER, PAYER, OneKey, deploy_contract

ANYBODY = ContractAddress("0x" + "77" * 20)


@asynccontextmanager
async def account_on(chain: Chain, **limits: int) -> AsyncIterator[Account]:
    client = RpcClient(chain.url, ClientLimits(backoff_ms=1, backoff_max_ms=5))
    try:
        yield Account(client, CHAIN_ID, OneKey(), "registrar", AccountLimits(look_ms=1, **limits))
    finally:
        await client.close()


@in_loop
async def test_contract_that_does_not_take_a_call_says_why(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, account_on(chain) as account:
        factory = await deploy_contract(chain, "Factory")
        await account.transact(factory, deploy_endorsed(intent_id("one"), bytes(32), (ENDORSER,), 1))
        with pytest.raises(CallReverted, match="IntentUsed"):
            await account.transact(factory, deploy_endorsed(intent_id("one"), bytes(32), (ENDORSER,), 1))
        with pytest.raises(CallReverted):
            await account.transact(factory, deploy_endorsed(intent_id("two"), bytes(32), (ENDORSER, ENDORSER), 1))


@in_loop
async def test_lack_of_funds_is_no_contract_s_word(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, account_on(chain) as account:
        await chain.rpc("anvil_setBalance", PAYER, "0x0")
        with pytest.raises(TransactionRejected, match="send it funds") as caught:
            await account.transact(ANYBODY, value_wei=1)
        assert not isinstance(caught.value, CallReverted)


@in_loop
async def test_transaction_that_is_not_mined_gives_its_nonce_to_the_next_one(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, account_on(chain, looks_max=3) as account:
        await chain.rpc("evm_setAutomine", False)
        with pytest.raises(Unavailable, match="may still be"):
            await account.transact(ANYBODY, value_wei=1)
        with pytest.raises(Unavailable, match="may still be"):
            await account.transact(ANYBODY, value_wei=2)
        await chain.mine()
        assert int(await chain.rpc("eth_getTransactionCount", PAYER, "latest"), 16) == 1
        assert int(await chain.rpc("eth_getBalance", ANYBODY, "latest"), 16) == 2
        # What was mined meanwhile is nobody's place any more.
        await chain.rpc("evm_setAutomine", True)
        await account.transact(ANYBODY, value_wei=4)
        assert int(await chain.rpc("eth_getBalance", ANYBODY, "latest"), 16) == 6
