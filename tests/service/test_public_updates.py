"""Updates of public transactions: the node shows what a block has, and which updates came too late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import aiohttp
import pytest

from rota.chain.public_transaction import UPDATE_LATE, UPDATES_MAX, Mined, PublicTransaction, State, late_updates
from rota.ledger.client import RpcClient
from rota.ledger.public_chain import PublicChain, Refusal, Reverted
from rota.model.types import IntentId
from rota.ports import Ask, StoredSubmission
from rota.service.public import transactions as public_transactions
from rota.service.public.held import Held
from rota.service.public.public import receipt_view
from rota.service.public.transactions import PublicTransactions
from rota.sim.disk import Fate
from rota.store.group_commit import wall_clock_ms
from tests.ledger.chains import CHAIN_ID, in_loop, running
from tests.service.callers import callers
from tests.service.kit import network
from tests.service.test_public_flow import FREE
from tests.service.test_public_transactions import ACCOUNT, LIMITS, OTHER, SIGNER, Bench, bench, lose, open_again

LONG_DATA = b"\x01" * 10_000
REVERTING = "0x60006000fd"


def held(made: Bench, intent: IntentId) -> Held:
    found = made.public.held(intent)
    assert found is not None
    return found


async def asked(made: Bench, intent: IntentId) -> StoredSubmission:
    found = await made.opened.store.submissions.get(intent)
    assert found is not None
    return found


async def late(made: Bench) -> PublicTransaction:
    """A payment of 5 that a block has, and an update to 9 that was signed after that."""
    await made.chain.rpc("evm_setAutomine", False)
    intent = await made.send(value_wei=5)
    sent = await made.in_state(intent, State.SENT)
    made.life.cancel()
    assert await made.update(replace(sent, to=ACCOUNT, data=b"\x01", value_wei=9)) == ""
    await made.chain.mine()
    await made.again()
    return await made.ended(intent)


@in_loop
async def test_update_that_came_too_late_is_shown_beside_what_was_mined(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        found = await late(made)
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)
        assert (found.to, found.data, found.value_wei, late_updates(found)) == (OTHER, b"", 5, 1)
        assert receipt_view(found).late_updates == 1
        shown = await asked(made, found.id)
        assert (shown.to, shown.value_wei, shown.changed_at_ms, shown.earlier) == (None, None, None, ())
        (too_late,) = shown.late
        assert (too_late.to, too_late.value_wei) == (ACCOUNT, 9)


@in_loop
async def test_update_that_was_mined_is_not_late(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        for value_wei in (7, 9):
            assert await made.update(replace(sent, value_wei=value_wei)) == ""
        await made.until(lambda: held(made, intent).transaction.versions[-1].asked == 2)
        await made.in_state(intent, State.SENT)
        await chain.mine()
        found = await made.ended(intent)
        assert (found.value_wei, late_updates(found)) == (9, 0)
        shown = await asked(made, intent)
        assert (shown.value_wei, [each.value_wei for each in shown.earlier], shown.late) == (9, [None, 7], ())


@in_loop
async def test_update_that_was_reported_as_late_is_not_sent_after_its_block_is_lost(tmp_path: Path) -> None:
    """Its user may have asked for it again, as another transaction: then both would happen."""
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        first = await made.in_state(intent, State.SENT)
        assert await made.update(replace(first, value_wei=9)) == ""
        await made.until(lambda: len(held(made, intent).transaction.versions) == 2)
        await made.in_state(intent, State.SENT)
        made.life.cancel()
        # The chain had lost the update, and mines the version from before it.
        await chain.rpc("anvil_dropAllTransactions")
        await chain.rpc("eth_sendRawTransaction", "0x" + first.versions[0].raw.hex())
        await chain.mine()
        await made.again()
        assert late_updates(await made.ended(intent)) == 1
        await lose(made, 1)
        await open_again(made, intent)
        await made.in_state(intent, State.SENT)
        await chain.mine()
        found = await made.ended(intent)
        assert (found.value_wei, late_updates(found)) == (5, 1)
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(5)


@in_loop
async def test_gas_of_an_update_is_estimated_anew(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        assert await made.update(replace(sent, data=LONG_DATA)) == ""
        await made.until(lambda: len(held(made, intent).transaction.versions) == 2)
        before, after = held(made, intent).transaction.versions
        assert before.gas < 16 * len(LONG_DATA) < after.gas
        await made.in_state(intent, State.SENT)
        await chain.mine()
        found = await made.ended(intent)
        assert found.ending is not None
        assert (found.ending.has_succeeded, found.data) == (True, LONG_DATA)
        # One that asks for the same, or names its gas, is not estimated.
        other = await made.send(value_wei=5)
        sent = await made.in_state(other, State.SENT)
        assert await made.update(sent) == ""
        await made.until(lambda: len(held(made, other).transaction.versions) == 2)
        assert await made.update(replace(sent, data=b"\x01", wish=replace(sent.wish, gas=77_777))) == ""
        await made.until(lambda: len(held(made, other).transaction.versions) == 3)
        assert [each.gas for each in held(made, other).transaction.versions] == [before.gas, before.gas, 77_777]


@in_loop
async def test_update_that_would_fail_leaves_the_version_before_it_under_way(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        assert await made.update(replace(sent, to=None, data=bytes.fromhex(REVERTING[2:]))) == ""
        await made.until(lambda: "would fail now" in held(made, intent).update_trouble)
        poor = await made.send(value_wei=5)
        sent = await made.in_state(poor, State.SENT)
        assert await made.update(replace(sent, value_wei=10**21)) == ""
        await made.until(lambda: "would fail now" in held(made, poor).update_trouble)
        await chain.mine()
        assert [late_updates(await made.ended(each)) for each in (intent, poor)] == [1, 1]
        assert await chain.rpc("eth_getBalance", OTHER, "latest") == hex(10)


@in_loop
async def test_version_before_an_update_that_would_fail_is_offered_for_more_when_prices_rise(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        assert await made.update(replace(sent, to=None, data=bytes.fromhex(REVERTING[2:]))) == ""
        await made.until(lambda: "would fail now" in held(made, intent).update_trouble)
        await chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10 * sent.versions[0].fees.most_wei))
        await chain.mine()
        await made.until(lambda: len(held(made, intent).transaction.versions) > 1)
        await chain.rpc("evm_setAutomine", True)
        await chain.mine()
        found = await made.ended(intent)
        assert (found.to, found.value_wei, late_updates(found)) == (OTHER, 5, 1)
        assert {each.asked for each in found.versions} == {0}


class WaitingChain(PublicChain):
    """Estimates when the test lets it."""

    def __init__(self, client: RpcClient) -> None:
        super().__init__(client, CHAIN_ID, SIGNER)
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def estimate(self, transaction: PublicTransaction) -> int | Reverted | Refusal:
        answer = await super().estimate(transaction)
        self.is_asked.set()
        await self.may_answer.wait()
        return answer


@in_loop
async def test_update_that_comes_while_the_first_request_is_estimated_has_gas_of_its_own(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        made.life.cancel()
        waiting, store = WaitingChain(made.client), made.opened.store
        made.public = PublicTransactions(waiting, store.public, store.abis, 0, wall_clock_ms, LIMITS)
        made.life = asyncio.create_task(made.public.run())
        intent = await made.send(value_wei=5)
        await waiting.is_asked.wait()
        assert await made.update(replace(held(made, intent).transaction, data=LONG_DATA)) == ""
        waiting.may_answer.set()
        found = await made.ended(intent)
        assert found.ending is not None
        assert (found.ending.has_succeeded, found.data, len(found.versions)) == (True, LONG_DATA, 1)
        assert found.versions[0].gas > 16 * len(LONG_DATA)


class UpdatedMeanwhile(PublicChain):
    """Its user updates a transaction while the receipt that ends it is on its way."""

    def __init__(self, client: RpcClient) -> None:
        super().__init__(client, CHAIN_ID, SIGNER)
        self.update: Callable[[], Awaitable[None]] | None = None

    async def receipts(self, hashes: Iterable[bytes]) -> dict[bytes, Mined]:
        found = await super().receipts(hashes)
        if found and self.update is not None:
            update, self.update = self.update, None
            await update()
        return found


class WatchedLock(asyncio.Lock):
    """Says that somebody waits for it."""

    def __init__(self, is_awaited: asyncio.Event) -> None:
        super().__init__()
        self._is_awaited = is_awaited

    async def acquire(self) -> Literal[True]:
        if self.locked():
            self._is_awaited.set()
        return await super().acquire()


@in_loop
async def test_update_that_becomes_durable_while_its_transaction_ends_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that reads what was asked for before the update is durable knows nothing of the update."""
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        made.life.cancel()
        on, store = UpdatedMeanwhile(made.client), made.opened.store
        made.public = PublicTransactions(on, store.public, store.abis, 0, wall_clock_ms, LIMITS)
        made.life = asyncio.create_task(made.public.run())
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        save, submission = store.public.save, store.public.submission
        is_writing, may_write = asyncio.Event(), asyncio.Event()
        updating: list[asyncio.Task[str]] = []

        async def save_later(transactions: Sequence[PublicTransaction], asks: Sequence[Ask] = ()) -> None:
            if asyncio.current_task() in updating:
                is_writing.set()
                await may_write.wait()
            await save(transactions, asks)

        async def read_slowly(of: IntentId) -> StoredSubmission | None:
            found = await submission(of)
            if asyncio.current_task() is made.life:
                may_write.set()
                await asyncio.gather(*updating)
            return found

        async def update() -> None:
            held(made, intent).updating = WatchedLock(may_write)
            updating.append(asyncio.create_task(made.update(replace(sent, value_wei=9))))
            await is_writing.wait()

        on.update = update
        monkeypatch.setattr(store.public, "save", save_later)
        monkeypatch.setattr(store.public, "submission", read_slowly)
        await chain.mine()
        found = await made.ended(intent)
        assert (found.value_wei, late_updates(found)) == (5, 1)
        assert [each.value_wei for each in (await asked(made, intent)).late] == [9]


@pytest.mark.parametrize("fate", [Fate.FAILS, Fate.LIES])
@in_loop
async def test_update_is_answered_when_all_of_it_is_durable(
    tmp_path: Path, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store is away nobody is told that it was refused: it is in force."""
    monkeypatch.setattr(public_transactions, "RETRY_S", 0.001)
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        made.database.fate = fate
        updating = asyncio.create_task(made.update(replace(sent, value_wei=9)))
        await made.until(lambda: held(made, intent).transaction.value_wei == 9 and bool(made.public.trouble))
        assert not updating.done()
        assert len(held(made, intent).transaction.versions) == 1
        made.database.fate = Fate.WORKS
        assert await updating == ""
        found = await made.opened.store.public.get(intent)
        assert found is not None
        assert (found.value_wei, (await asked(made, intent)).value_wei) == (9, 9)
        assert len((await asked(made, intent)).earlier) == 1


@in_loop
async def test_update_that_the_run_before_did_not_sign_is_signed(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("evm_setAutomine", False)
        intent = await made.send(value_wei=5)
        sent = await made.in_state(intent, State.SENT)
        made.life.cancel()
        assert await made.update(replace(sent, value_wei=9)) == ""
        await made.again()
        await open_again(made, intent)
        await made.until(lambda: held(made, intent).transaction.versions[-1].asked == 1)
        await made.in_state(intent, State.SENT)
        await chain.mine()
        assert (await made.ended(intent)).value_wei == 9


@in_loop
async def test_updates_at_a_time_follow_each_other_and_are_bounded(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain, bench(chain, tmp_path) as made:
        await chain.rpc("anvil_setBalance", ACCOUNT, "0x0")
        intent = await made.send(value_wei=5)
        waiting = await made.in_state(intent, State.WAITING)
        changes = (made.update(replace(waiting, value_wei=100 + each)) for each in range(UPDATES_MAX))
        assert set(await asyncio.gather(*changes)) == {""}
        shown = await asked(made, intent)
        values = [each.value_wei for each in (*shown.earlier, shown)]
        assert values[0] is None
        assert sorted(map(str, values[1:])) == [str(100 + each) for each in range(UPDATES_MAX)]
        assert "changed 16 times" in await made.update(replace(waiting, value_wei=1))


@pytest.mark.slow
@in_loop
async def test_application_sees_that_its_update_came_too_late(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        (one,) = callers(session, nodes)
        await nodes.client.call("evm_setAutomine", False)
        wanted = {"type": "public", "from": "alice", "to": OTHER, "data": "0x01"}
        sent = await one.call("ptx_sendTransaction", wanted)
        while (await one.call("seq_explain", sent))["state"] != State.SENT.value:
            await asyncio.sleep(0.01)
        changed = {"type": "public", "from": "alice", "bytecode": REVERTING, "data": "0x"}
        assert await one.call("ptx_updateTransaction", sent, changed) == sent
        assert "to" not in await one.call("ptx_getTransaction", sent)
        while "would fail now" not in (await one.call("seq_explain", sent)).get("detail", ""):
            await asyncio.sleep(0.01)
        await nodes.client.call("evm_mine")
        receipt = await one.receipt(sent)
        assert (receipt["success"], receipt["lateUpdates"]) == (True, 1)
        shown = await one.call("ptx_getTransaction", sent)
        assert (shown["to"], shown["data"]) == (OTHER, "0x01")
        (too_late,) = shown["lateUpdates"]
        assert "to" not in too_late
        assert [each["id"] for each in await one.call("ptx_queryTransactions", _to(OTHER))] == [sent]
        explained = await one.call("seq_explain", sent)
        assert explained["detail"] == UPDATE_LATE
        assert UPDATE_LATE in [each["text"] for each in explained["history"]]


def _to(address: str) -> dict[str, object]:
    return {"eq": [{"field": "to", "value": address}], "limit": 10}
