"""Public transactions where chain, store and strangers misbehave: done once, or ended with a reason; never stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web

from rota.core.public_transaction import CANCELLED, NONCE_TAKEN, PublicTransaction, State, Wish
from rota.keys.names import party_key
from rota.keys.secp256k1 import PrivateKey
from rota.keys.signers import MemorySigner
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.hexadecimal import data
from rota.ledger.public_chain import PublicChain
from rota.ports import StoredSubmission
from rota.runtime.public_transactions import PublicLimits, PublicTransactions
from rota.sim.disk import Fate
from rota.store.group_commit import wall_clock_ms
from rota.types import ContractAddress, Fees, IntentId, Party, SubmitMode
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.embedded.contracts import KEEPER, REVERTER, creation, error_string, keep
from tests.ledger.fault_proxy import Request, proxied
from tests.store.kit import FaultyDatabase, Opened, new_sqlite

ALICE = Party("alice@node1")
KEY = PrivateKey(b"\x11" * 32)
SIGNER = MemorySigner({party_key(ALICE): KEY})
ACCOUNT = SIGNER.address_of(party_key(ALICE))
OTHER = ContractAddress("0x" + "0a" * 20)
# Looked at without a pause, and sent again at once: what takes seconds in life takes none here.
LIMITS = PublicLimits(look_ms=1, look_later_ms=1, resend_ms=1, taken_ms=1)
CHAINS = ["embedded", pytest.param("anvil", marks=pytest.mark.slow)]


@dataclass
class Bench:
    """One node's public transactions on one chain."""

    chain: Chain
    opened: Opened
    database: FaultyDatabase
    public: PublicTransactions
    client: RpcClient
    life: asyncio.Task[None]
    count: int = 0

    async def send(
        self, to: ContractAddress | None = OTHER, call: bytes = b"", value_wei: int = 0, **more: object
    ) -> IntentId:
        self.count += 1
        intent = IntentId(self.count.to_bytes(16, "big"))
        wanted = PublicTransaction(0, intent, ALICE, ACCOUNT, to, call, value_wei, 0)
        submission = StoredSubmission(intent, 0, True, SubmitMode.AUTO, ALICE)
        await self.public.accept(submission, replace(wanted, **more), ())  # type: ignore[arg-type]
        return intent

    async def ended(self, intent: IntentId) -> PublicTransaction:
        while True:
            await self.until(lambda: self.public.held(intent) is None)
            found = await self.opened.store.public.get(intent)
            assert found is not None
            if found.ending is not None:
                return found

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if self.life.done():
                self.life.result()
            await asyncio.sleep(0.001)

    async def in_state(self, intent: IntentId, state: State) -> PublicTransaction:
        def holds() -> bool:
            held = self.public.held(intent)
            return held is not None and held.state is state

        await self.until(holds)
        held = self.public.held(intent)
        assert held is not None
        return held.transaction

    async def again(self) -> None:
        """A new life, from what the store has."""
        self.life.cancel()
        await asyncio.gather(self.life, return_exceptions=True)
        self.public = public_on(self.client, self.opened, 0)
        self.life = asyncio.create_task(self.public.run())

    async def used(self) -> int:
        return int(await self.chain.rpc("eth_getTransactionCount", ACCOUNT, "latest"), 16)


def public_on(client: RpcClient, opened: Opened, confirmations: int) -> PublicTransactions:
    chain = PublicChain(client, CHAIN_ID, SIGNER)
    store = opened.store
    return PublicTransactions(chain, store.public, store.abis, confirmations, wall_clock_ms, LIMITS)


@asynccontextmanager
async def bench(chain: Chain, folder: Path, confirmations: int = 0, url: str = "") -> AsyncIterator[Bench]:
    await chain.rpc("anvil_setBalance", ACCOUNT, hex(10**20))
    # A reorganisation must not take the funds away.
    await chain.mine()
    database = FaultyDatabase(new_sqlite(folder))
    opened = await Opened(database).start(())
    client = RpcClient(url or chain.url, ClientLimits(backoff_ms=1, backoff_max_ms=2, timeout_ms=2_000))
    public = public_on(client, opened, confirmations)
    made = Bench(chain, opened, database, public, client, asyncio.create_task(public.run()))
    try:
        yield made
    finally:
        made.life.cancel()
        await asyncio.gather(made.life, return_exceptions=True)
        await client.close()
        await opened.store.close()


@pytest.mark.parametrize("kind", CHAINS)
@in_loop
async def test_contract_is_made_and_used_and_a_failure_tells_why(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, bench(chain, tmp_path) as made:
        keeper = (await made.ended(await made.send(None, creation(KEEPER)))).ending
        reverter = (await made.ended(await made.send(None, creation(REVERTER)))).ending
        assert keeper is not None
        assert reverter is not None
        assert keeper.mined is not None
        assert reverter.mined is not None
        sent = [await made.send(keeper.mined.contract, keep(1, number)) for number in range(5)]
        for intent in sent:
            ending = (await made.ended(intent)).ending
            assert ending is not None
            assert ending.has_succeeded
        reason = error_string("not today")
        for wish in (Wish(), Wish(gas=100_000)):
            failed = (await made.ended(await made.send(reverter.mined.contract, reason, wish=wish))).ending
            assert failed is not None
            assert (failed.has_succeeded, failed.revert_data) == (False, reason)
            assert failed.reason == "PD012216: Transaction reverted: not today"
        assert await made.used() == 8


@pytest.mark.parametrize("kind", CHAINS)
@in_loop
async def test_reorganisation_leads_back_to_sending(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, bench(chain, tmp_path, confirmations=2) as made:
        intent = await made.send(value_wei=5)
        await made.in_state(intent, State.MINED)
        before = await chain.height()
        await chain.reorganise(1)
        await made.until(lambda: any("gone" in each.text for each in made.public.held(intent).history))  # type: ignore[union-attr]
        await chain.mine()
        await made.in_state(intent, State.MINED)
        await chain.mine(3)
        ending = (await made.ended(intent)).ending
        assert ending is not None
        assert ending.mined is not None
        assert ending.mined.height > before
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)


@pytest.mark.parametrize("kind", CHAINS)
@in_loop
async def test_dearer_blocks_are_met_with_a_dearer_offer_under_the_same_nonce(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        await chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10 * sent.versions[0].fees.most_wei))
        await chain.mine()
        await made.until(lambda: len(made.public.held(intent).transaction.versions) > 1)  # type: ignore[union-attr]
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        done = await made.ended(intent)
        assert done.ending is not None
        assert done.ending.mined is not None
        assert done.ending.mined.hash in [version.hash for version in done.versions[1:]]
        assert await made.used() == 1


@pytest.mark.parametrize("kind", CHAINS)
@in_loop
async def test_what_is_given_up_uses_its_nonce_for_nothing(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent, after = await made.send(value_wei=5), await made.send(value_wei=7)
        await made.in_state(after, State.SENT)
        assert await made.public.give_up(intent)
        await made.until(lambda: made.public.held(intent).transaction.versions[-1].is_withdrawal)  # type: ignore[union-attr]
        await made.in_state(intent, State.SENT)
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        ending = (await made.ended(intent)).ending
        assert ending is not None
        assert (ending.has_succeeded, ending.reason) == (False, CANCELLED)
        assert (await made.ended(after)).ending is not None
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(7)
        assert not await made.public.give_up(intent)


@in_loop
async def test_what_is_changed_replaces_what_waits(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        assert await made.public.update(replace(sent, value_wei=9))
        await made.until(lambda: len(made.public.held(intent).transaction.versions) > 1)  # type: ignore[union-attr]
        await made.in_state(intent, State.SENT)
        await chain.mine()
        await made.ended(intent)
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(9)
        assert not await made.public.update(sent)


@in_loop
async def test_nonce_that_a_stranger_used_ends_it(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        stranger = PublicChain(made.client, CHAIN_ID, SIGNER)
        fees = Fees(*(2 * fee for fee in sent.versions[0].fees))
        version = await stranger.withdraw(ACCOUNT, party_key(ALICE), 0, fees, 0)
        assert await chain.rpc("eth_sendRawTransaction", data(version.raw))
        await chain.mine()
        ending = (await made.ended(intent)).ending
        assert ending is not None
        assert ending.reason == NONCE_TAKEN


@in_loop
async def test_what_no_block_has_room_for_is_withdrawn(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        intent, after = await made.send(wish=Wish(gas=10**9)), await made.send(value_wei=3)
        ending = (await made.ended(intent)).ending
        assert ending is not None
        assert ending.reason.startswith("the chain does not take it: exceeds block gas limit")
        done = (await made.ended(after)).ending
        assert done is not None
        assert done.has_succeeded


@in_loop
async def test_lost_answers_do_not_make_it_happen_twice(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, proxied(chain.url) as (proxy, url):
        lost = 0

        async def lose(request: web.Request, requests: list[Request]) -> web.StreamResponse | None:
            nonlocal lost
            if any(each["method"] == "eth_sendRawTransaction" for each in requests) and lost < 3:
                lost += 1
                # It is done, and nobody hears of it.
                await proxy._pass_on(requests if len(requests) > 1 else requests[0])
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            return None

        proxy.fault = lose
        async with bench(chain, tmp_path, url=url) as made:
            for intent in [await made.send(value_wei=1) for _ in range(3)]:
                ending = (await made.ended(intent)).ending
                assert ending is not None
                assert ending.has_succeeded
            assert lost == 3
            assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(3)


@in_loop
async def test_nothing_is_sent_before_it_is_written(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        asked = asyncio.create_task(made.send(value_wei=5))
        while not made.database.transaction_count:
            await asyncio.sleep(0)
        made.database.fate = Fate.FAILS
        intent = await asked
        await made.until(lambda: made.public.trouble == "the disk is failing")
        assert await chain.rpc("eth_getTransactionCount", ACCOUNT, "pending") == "0x0"
        made.database.fate = Fate.WORKS
        await made.ended(intent)
        assert await made.used() == 1


@pytest.mark.parametrize("state", [State.SIGNED, State.SENT, State.MINED])
@in_loop
async def test_new_life_goes_on_wherever_the_last_one_ended(state: State, tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path, confirmations=1) as made:
        await chain.rpc("evm_setAutomine", False)
        intents = [await made.send(value_wei=1) for _ in range(3)]
        await made.in_state(intents[-1], State.SENT if state is State.MINED else state)
        if state is State.MINED:
            await chain.mine()
            await made.in_state(intents[-1], state)
        await made.again()
        await chain.rpc("evm_setAutomine", True)
        await chain.mine(2)
        for intent in intents:
            ending = (await made.ended(intent)).ending
            assert ending is not None
            assert ending.has_succeeded
        assert await made.used() == 3
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(3)
