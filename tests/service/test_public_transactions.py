"""Public transactions where chain, store and strangers misbehave: done once, or ended with a reason; never stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from rota.chain.effects import FinalityBroken
from rota.chain.public_transaction import (
    CANCELLED,
    DROPPED_LOST,
    NONCE_LOST,
    NONCE_TAKEN,
    PublicTransaction,
    State,
    Wish,
)
from rota.keys.names import party_key
from rota.keys.secp256k1 import PrivateKey
from rota.keys.signers import MemorySigner
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.hexadecimal import data
from rota.ledger.public_chain import PublicChain
from rota.model.types import ContractAddress, Fees, IntentId, Party, SubmitMode
from rota.node.node import OWN
from rota.ports import StoredSubmission
from rota.service.public.held import PublicLimits
from rota.service.public.public import Public
from rota.service.public.transactions import PublicTransactions
from rota.sim.disk import Fate
from rota.store.group_commit import wall_clock_ms
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.embedded.contracts import KEEPER, REVERTER, creation, error_string, keep
from tests.ledger.fault_proxy import Answer, Ask, Request, proxied
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

    async def update(self, changed: PublicTransaction) -> str:
        asked = StoredSubmission(
            changed.id, 0, True, SubmitMode.AUTO, ALICE, to=changed.to, value_wei=changed.value_wei
        )
        return await self.public.update(changed, asked)

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

    async def again(self, confirmations: int = 0) -> None:
        """A new life, from what the store has."""
        self.life.cancel()
        await asyncio.gather(self.life, return_exceptions=True)
        self.public = public_on(self.client, self.opened, confirmations)
        self.life = asyncio.create_task(self.public.run())

    async def used(self) -> int:
        return int(await self.chain.rpc("eth_getTransactionCount", ACCOUNT, "latest"), 16)


def public_on(
    client: RpcClient, opened: Opened, confirmations: int, signer: MemorySigner = SIGNER
) -> PublicTransactions:
    chain = PublicChain(client, CHAIN_ID, signer)
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
            assert failed.reason.startswith("PD012216: Transaction reverted: not today (0x")
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
async def test_open_transaction_is_found_by_its_hash_without_reading_all_from_the_store(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        (version,) = (await made.in_state(intent, State.SENT)).versions
        public = cast(Public, SimpleNamespace(_transactions=made.public, shown=lambda found: found.id))
        found: object = Public.under_way(public, version.hash)
        assert found == intent
        assert Public.under_way(public, bytes(32)) is None


@in_loop
async def test_what_is_changed_replaces_what_waits(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        assert await made.update(replace(sent, value_wei=9)) == ""
        await made.until(lambda: len(made.public.held(intent).transaction.versions) > 1)  # type: ignore[union-attr]
        await made.in_state(intent, State.SENT)
        await chain.mine()
        await made.ended(intent)
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(9)
        assert await made.update(sent) != ""


@in_loop
async def test_update_of_what_is_in_a_block_or_given_up_is_refused(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path, confirmations=2) as made:
        paid = await made.send(value_wei=5)
        mined = await made.in_state(paid, State.MINED)
        assert await made.update(replace(mined, value_wei=9)) != ""
        await chain.rpc("evm_setAutomine", False)
        cancelled = await made.send(value_wei=7)
        sent = await made.in_state(cancelled, State.SENT)
        assert await made.public.give_up(cancelled)
        assert await made.update(replace(sent, value_wei=9)) != ""
        for _ in range(4):
            await chain.mine()
        assert [(await made.ended(each)).value_wei for each in (paid, cancelled)] == [5, 7]


@in_loop
async def test_record_has_what_was_mined_when_a_version_from_before_an_update_was_faster(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        made.life.cancel()
        assert await made.update(replace(sent, to=ACCOUNT, data=b"\x01", value_wei=9)) == ""
        await chain.mine()
        await made.again()
        found = await made.ended(intent)
        assert found.ending is not None
        assert found.ending.has_succeeded
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)
        assert (found.to, found.data, found.value_wei) == (OTHER, b"", 5)


class WaitingSigner(MemorySigner):
    """Signs when the test lets it."""

    def __init__(self) -> None:
        super().__init__({party_key(ALICE): KEY})
        self.is_asked = asyncio.Event()
        self.may_sign = asyncio.Event()

    async def sign(self, *given: Any) -> Any:  # noqa: ANN401
        self.is_asked.set()
        await self.may_sign.wait()
        return await super().sign(*given)


@in_loop
async def test_update_while_the_first_version_is_signed_is_what_is_sent(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        made.life.cancel()
        signer = WaitingSigner()
        made.public = public_on(made.client, made.opened, 0, signer)
        made.life = asyncio.create_task(made.public.run())
        intent = await made.send(value_wei=5)
        await signer.is_asked.wait()
        held = made.public.held(intent)
        assert held is not None
        assert await made.update(replace(held.transaction, value_wei=9)) == ""
        signer.may_sign.set()
        found = await made.ended(intent)
        assert found.value_wei == 9
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(9)


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


async def lose(made: Bench, depth: int) -> int:
    """The latest blocks go with their transactions, which were final; nothing more is mined. The height before them."""
    parted_at = await made.chain.height() - depth
    await made.chain.rpc("evm_setAutomine", False)
    await made.chain.rpc("anvil_reorg", hex(depth), [])
    await made.chain.rpc("anvil_dropAllTransactions")
    broken = FinalityBroken(parted_at, parted_at + depth, ())
    await made.opened.write(OWN, broken)
    made.public.blocks_lost()
    return parted_at


async def open_again(made: Bench, *intents: IntentId) -> None:
    await made.until(lambda: all(made.public.held(intent) is not None for intent in intents))


@in_loop
async def test_ended_transactions_whose_blocks_are_lost_are_sent_again_with_their_nonces(tmp_path: Path) -> None:
    """One that had succeeded, one that was cancelled: its withdrawal is lost, and later nonces would wait for ever."""
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        paid = await made.ended(await made.send(value_wei=5))
        await chain.rpc("evm_setAutomine", False)
        cancelled = await made.send(value_wei=7)
        await made.in_state(cancelled, State.SENT)
        assert await made.public.give_up(cancelled)
        await made.until(lambda: len(made.public.held(cancelled).transaction.versions) == 2)  # type: ignore[union-attr]
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        assert (await made.ended(cancelled)).ending is not None
        await lose(made, 3)
        await open_again(made, paid.id, cancelled)
        assert await made.opened.store.listening.undone_count() == 2
        assert await made.opened.store.public.outcomes((paid.id,)) == {}
        later = await made.send(value_wei=11)
        await made.in_state(later, State.SENT)
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        again = [await made.ended(intent) for intent in (paid.id, cancelled, later)]
        assert [each.nonce for each in again] == [0, 1, 2]
        assert [each.ending.has_succeeded for each in again if each.ending is not None] == [True, False, True]
        assert again[0].versions == paid.versions
        assert await made.opened.store.listening.undone_count() == 0
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(16)


@in_loop
async def test_blocks_that_are_lost_during_an_acceptance_leave_it_held_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await made.ended(await made.send(value_wei=5))
        store, may_read = made.opened.store.public, asyncio.Event()
        get = store.get

        async def gated(intent: IntentId) -> PublicTransaction | None:
            await may_read.wait()
            return await get(intent)

        monkeypatch.setattr(store, "get", gated)
        sending = asyncio.create_task(made.send(value_wei=7))
        while len(await store.open()) < 1:
            await asyncio.sleep(0.001)
        made.public.blocks_lost()
        await made.until(lambda: not made.public._has_lost_blocks)
        may_read.set()
        assert (await made.ended(await sending)).value_wei == 7
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(12)


@in_loop
async def test_transaction_of_a_lost_block_is_open_again_in_the_next_life(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        paid = await made.ended(await made.send(value_wei=5))
        made.life.cancel()
        await lose(made, 1)
        await chain.rpc("evm_setAutomine", True)
        await made.again()
        await open_again(made, paid.id)
        assert (await made.ended(paid.id)).versions == paid.versions
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)


@pytest.mark.parametrize("is_released", [True, False])
@in_loop
async def test_transaction_whose_nonce_is_used_after_its_block_was_lost_is_set_aside(
    tmp_path: Path, is_released: bool
) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        paid = (await made.ended(await made.send(value_wei=5))).id
        before = await made.opened.store.public.get(paid)
        assert before is not None
        await lose(made, 1)
        await open_again(made, paid)
        stranger = PublicChain(made.client, CHAIN_ID, SIGNER)
        fees = Fees(*(4 * fee for fee in before.versions[0].fees))
        version = await stranger.withdraw(ACCOUNT, party_key(ALICE), 0, fees, 0)
        await chain.rpc("anvil_dropAllTransactions")
        assert await chain.rpc("eth_sendRawTransaction", data(version.raw))
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        aside = await made.in_state(paid, State.SET_ASIDE)
        assert aside.set_aside == NONCE_LOST
        assert await made.used() == 1
        await made.again()
        await made.in_state(paid, State.SET_ASIDE)
        assert await (made.public.release(paid) if is_released else made.public.drop(paid))
        found = await made.ended(paid)
        assert found.ending is not None
        if is_released:
            assert (found.nonce, found.ending.has_succeeded) == (1, True)
            assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)
        else:
            assert (found.ending.has_succeeded, found.ending.reason) == (False, DROPPED_LOST)
            assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(0)
        assert await made.opened.store.listening.undone_count() == 0


async def set_aside_by_a_stranger(made: Bench, confirmations: int) -> PublicTransaction:
    """One payment whose final block is lost, and whose nonce a stranger's transaction uses since."""
    chain = made.chain
    intent = await made.send(value_wei=5)
    await made.in_state(intent, State.MINED)
    for _ in range(confirmations):
        await chain.mine()
    paid = await made.ended(intent)
    await lose(made, 1 + confirmations)
    await open_again(made, intent)
    stranger = PublicChain(made.client, CHAIN_ID, SIGNER)
    fees = Fees(*(4 * fee for fee in paid.versions[0].fees))
    version = await stranger.withdraw(ACCOUNT, party_key(ALICE), 0, fees, 0)
    await chain.rpc("anvil_dropAllTransactions")
    assert await chain.rpc("eth_sendRawTransaction", data(version.raw))
    for _ in range(1 + confirmations):
        await chain.mine()
    aside = await made.in_state(intent, State.SET_ASIDE)
    assert aside.set_aside == NONCE_LOST
    return aside


@pytest.mark.parametrize("is_looked_at", [True, False])
@in_loop
async def test_release_of_what_the_chain_has_again_does_not_pay_twice(tmp_path: Path, is_looked_at: bool) -> None:
    """The chain comes back to the blocks with the payment, whether the node has seen that or not."""
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path, confirmations=2) as made:
        aside = await set_aside_by_a_stranger(made, 2)
        if not is_looked_at:
            made.life.cancel()
        await chain.rpc("anvil_reorg", hex(3), [])
        await chain.rpc("anvil_dropAllTransactions")
        assert await chain.rpc("eth_sendRawTransaction", data(aside.versions[0].raw))
        await chain.mine()
        if is_looked_at:
            await made.in_state(aside.id, State.MINED)
        assert await made.public.release(aside.id)
        if not is_looked_at:
            await made.again(confirmations=2)
        await chain.rpc("evm_setAutomine", True)
        while (found := await made.opened.store.public.get(aside.id)) is not None and found.ending is None:
            await chain.mine()
            if made.life.done():
                made.life.result()
        assert found is not None
        assert found.ending is not None
        assert (found.nonce, found.ending.has_succeeded) == (0, True)
        assert await made.used() == 1
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)


@pytest.mark.slow
@in_loop
async def test_release_in_the_middle_of_a_look_at_the_chain_does_not_end_the_node(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, proxied(chain.url) as (proxy, url):
        is_asked, may_answer, is_held = asyncio.Event(), asyncio.Event(), False

        async def hold_one(request: Request, ask: Ask) -> Answer:
            nonlocal is_held
            if is_held and request["method"] == "eth_getTransactionReceipt":
                is_held = False
                is_asked.set()
                await may_answer.wait()
            return await ask(request)

        proxy.view = hold_one
        async with bench(chain, tmp_path, confirmations=1, url=url) as made:
            aside = await set_aside_by_a_stranger(made, 1)
            is_held = True
            await is_asked.wait()
            assert await made.public.release(aside.id)
            may_answer.set()
            await chain.rpc("evm_setAutomine", True)
            while (found := await made.opened.store.public.get(aside.id)) is not None and found.ending is None:
                await chain.mine()
                if made.life.done():
                    made.life.result()
            assert found is not None
            assert found.nonce == 1
            assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)


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
