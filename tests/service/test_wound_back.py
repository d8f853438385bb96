"""A database that was wound back: no public transaction is paid twice, and an operator decides about those in doubt."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from rota.chain.public_transaction import DROPPED, NONCE_FORGOTTEN, TAKEN_LOOKS_MIN, PublicTransaction, State
from rota.keys.files import write_new
from rota.keys.secret import Secret
from rota.ledger.client import ClientLimits, RpcClient
from rota.model.types import IntentId
from rota.ports import Unavailable
from rota.server.number_file import FILE_NAME, NumberFile
from rota.store.database import FenceBroken
from tests.ledger.chains import Chain, in_loop, running
from tests.service.kit import network, send
from tests.service.test_public_transactions import ACCOUNT, OTHER, Bench, public_on
from tests.store.kit import FaultyDatabase, MemoryMark, Opened, new_sqlite

VALUE_WEI = 5
ENDINGS = ("", "-wal", "-shm")


@asynccontextmanager
async def a_life(chain: Chain, folder: Path, mark: MemoryMark | None) -> AsyncIterator[Bench]:
    database = FaultyDatabase(new_sqlite(folder))
    opened = await Opened(database, mark=mark).start(())
    client = RpcClient(chain.url, ClientLimits(backoff_ms=1, backoff_max_ms=2, timeout_ms=2_000))
    public = public_on(client, opened, 0)
    made = Bench(chain, opened, database, public, client, asyncio.create_task(public.run()))
    try:
        yield made
    finally:
        made.life.cancel()
        await asyncio.gather(made.life, return_exceptions=True)
        await client.close()
        await opened.store.close()


async def fund(chain: Chain, balance_wei: int) -> None:
    await chain.rpc("anvil_setBalance", ACCOUNT, hex(balance_wei))
    await chain.mine()


async def paid_wei(chain: Chain) -> int:
    return int(await chain.rpc("eth_getBalance", OTHER, "latest"), 16)


def copy(folder: Path) -> None:
    """A backup of the database of a node that is stopped."""
    for ending in ENDINGS:
        if (folder / f"node.db{ending}").exists():
            shutil.copy(folder / f"node.db{ending}", folder / f"copy{ending}")


def bring_back(folder: Path) -> None:
    for ending in ENDINGS:
        (folder / f"node.db{ending}").unlink(missing_ok=True)
        if (folder / f"copy{ending}").exists():
            (folder / f"copy{ending}").rename(folder / f"node.db{ending}")


async def pay_and_wind_back(chain: Chain, folder: Path, mark: MemoryMark | None) -> IntentId:
    """One payment, and a database in which it is accepted and has not been sent."""
    await fund(chain, 0)
    async with a_life(chain, folder, mark) as made:
        intent = await made.send(value_wei=VALUE_WEI)
        await made.in_state(intent, State.WAITING)
    copy(folder)
    await fund(chain, 10**20)
    async with a_life(chain, folder, mark) as made:
        await made.ended(intent)
        assert await paid_wei(chain) == VALUE_WEI
    bring_back(folder)
    return intent


async def some_rounds(made: Bench) -> None:
    for _ in range(50):
        await asyncio.sleep(0.005)
        if made.life.done():
            made.life.result()


@pytest.mark.parametrize("has_mark", [True, False])
def test_a_payment_of_before_is_set_aside_and_not_paid_again(tmp_path: Path, has_mark: bool) -> None:
    """By the number that is kept beside the keys; by the chain's nonces, where that was wound back too."""

    @in_loop
    async def scenario() -> None:
        mark = MemoryMark() if has_mark else None
        async with running("embedded", tmp_path) as chain:
            intent = await pay_and_wind_back(chain, tmp_path, mark)
            async with a_life(chain, tmp_path, mark) as made:
                await made.in_state(intent, State.SET_ASIDE)
                await some_rounds(made)
                assert await paid_wei(chain) == VALUE_WEI
                (aside,) = (each.transaction for each in made.public.open() if each.is_aside)
                assert aside.id == intent
                assert bool(made.opened.store.wound_back) is has_mark
                reason = aside.set_aside
                assert ("was wound back" if has_mark else "the chain has 1 transactions") in reason
            # It stays so: the next life finds a database that has gone on since.
            async with a_life(chain, tmp_path, mark) as made:
                await made.in_state(intent, State.SET_ASIDE)
                await some_rounds(made)
                assert await paid_wei(chain) == VALUE_WEI

    scenario()


@in_loop
async def test_an_operator_drops_what_was_paid_and_later_ones_go_on(tmp_path: Path) -> None:
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        intent = await pay_and_wind_back(chain, tmp_path, mark)
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SET_ASIDE)
            made.count = 10
            later = await made.send(value_wei=1)
            await some_rounds(made)
            held = made.public.held(later)
            assert held is not None
            assert "an operator to decide about 1 earlier" in held.waits_for
            assert await made.public.drop(intent)
            dropped = await made.ended(intent)
            assert dropped.ending is not None
            assert (dropped.ending.has_succeeded, dropped.ending.reason) == (False, DROPPED)
            assert (await made.ended(later)).ending is not None
            assert await paid_wei(chain) == VALUE_WEI + 1
            assert not await made.public.drop(intent)
            assert not await made.public.release(later)


@in_loop
async def test_an_operator_releases_what_had_not_happened(tmp_path: Path) -> None:
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        await fund(chain, 0)
        async with a_life(chain, tmp_path, mark) as made:
            intent = await made.send(value_wei=VALUE_WEI)
            await made.in_state(intent, State.WAITING)
        await fund(chain, 10**20)
        mark.number += 1_000
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SET_ASIDE)
            assert await made.public.release(intent)
            assert (await made.ended(intent)).ending is not None
            assert await paid_wei(chain) == VALUE_WEI
        async with a_life(chain, tmp_path, mark) as made:
            assert not made.opened.store.wound_back


@in_loop
async def test_what_is_set_aside_and_found_mined_ends_by_itself(tmp_path: Path) -> None:
    """Its signature is in the copy: the chain says what became of it, and nothing is signed again."""
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        await fund(chain, 10**20)
        await chain.rpc("evm_setAutomine", False)
        async with a_life(chain, tmp_path, mark) as made:
            intent = await made.send(value_wei=VALUE_WEI)
            sent = await made.in_state(intent, State.SENT)
        mark.number += 1_000
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SET_ASIDE)
            await some_rounds(made)
            await chain.mine()
            ended: PublicTransaction = await made.ended(intent)
            assert ended.ending is not None
            assert ended.ending.has_succeeded
            assert ended.versions == sent.versions


@in_loop
async def test_a_nonce_that_a_forgotten_version_used_does_not_end_it_as_failed(tmp_path: Path) -> None:
    """Its user would pay again: the copy has the first version, and the second one is in a block."""
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        await fund(chain, 10**20)
        await chain.rpc("evm_setAutomine", False)
        async with a_life(chain, tmp_path, mark) as made:
            intent = await made.send(value_wei=VALUE_WEI)
            sent = await made.in_state(intent, State.SENT)
        copy(tmp_path)
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SENT)
            assert await made.update(replace(sent, value_wei=VALUE_WEI + 1)) == ""
            await made.until(lambda: _versions(made, intent) == 2)
            await made.in_state(intent, State.SENT)
            await chain.mine()
            await made.ended(intent)
            assert await paid_wei(chain) == VALUE_WEI + 1
        bring_back(tmp_path)
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SET_ASIDE)
            await some_rounds(made)
            held = made.public.held(intent)
            assert held is not None
            assert (held.state, held.taken_looks > TAKEN_LOOKS_MIN) == (State.SET_ASIDE, True)


@pytest.mark.parametrize("is_released", [True, False])
@in_loop
async def test_payment_whose_mined_version_the_database_and_the_number_forgot_is_not_reported_as_failed(
    tmp_path: Path, is_released: bool
) -> None:
    """A whole machine that was wound back: the chain's nonce is in the book, with a version that was never mined."""
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        await fund(chain, 10**20)
        await chain.rpc("evm_setAutomine", False)
        async with a_life(chain, tmp_path, mark) as made:
            intent = await made.send(value_wei=VALUE_WEI)
            sent = await made.in_state(intent, State.SENT)
        copy(tmp_path)
        number = mark.number
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SENT)
            assert await made.update(replace(sent, value_wei=VALUE_WEI + 1)) == ""
            await made.until(lambda: _versions(made, intent) == 2)
            await made.in_state(intent, State.SENT)
            await chain.mine()
            await made.ended(intent)
        bring_back(tmp_path)
        mark.number = number
        async with a_life(chain, tmp_path, mark) as made:
            aside = await made.in_state(intent, State.SET_ASIDE)
            assert aside.set_aside == NONCE_FORGOTTEN
            await some_rounds(made)
            assert await paid_wei(chain) == VALUE_WEI + 1
            if is_released:
                await chain.rpc("evm_setAutomine", True)
                assert await made.public.release(intent)
                found = await made.ended(intent)
                assert (found.nonce, found.ending is not None and found.ending.has_succeeded) == (1, True)
            else:
                assert await made.public.drop(intent)
                found = await made.ended(intent)
                assert found.ending is not None
                assert (found.ending.has_succeeded, found.ending.reason) == (False, DROPPED)


def _versions(made: Bench, intent: IntentId) -> int:
    held = made.public.held(intent)
    return len(held.transaction.versions) if held is not None else 0


@in_loop
async def test_a_user_who_cancels_what_is_set_aside_is_not_told_that_it_did_not_happen(tmp_path: Path) -> None:
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        intent = await pay_and_wind_back(chain, tmp_path, mark)
        async with a_life(chain, tmp_path, mark) as made:
            await made.in_state(intent, State.SET_ASIDE)
            assert await made.public.give_up(intent)
            await some_rounds(made)
            await made.in_state(intent, State.SET_ASIDE)
            assert await made.public.release(intent)
            assert (await made.ended(intent)).ending is not None
            assert await paid_wei(chain) == VALUE_WEI


@in_loop
async def test_update_of_what_is_set_aside_is_refused(tmp_path: Path) -> None:
    """An operator who looks for the payment on the chain has to look for what may have been sent."""
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        intent = await pay_and_wind_back(chain, tmp_path, mark)
        async with a_life(chain, tmp_path, mark) as made:
            aside = await made.in_state(intent, State.SET_ASIDE)
            assert await made.update(replace(aside, value_wei=VALUE_WEI + 1)) != ""
            assert [each.transaction.value_wei for each in made.public.open() if each.is_aside] == [VALUE_WEI]


@in_loop
async def test_nothing_is_sent_before_its_number_is_kept(tmp_path: Path) -> None:
    """Otherwise a database that forgets the signature would not be recognised."""
    mark = MemoryMark()
    async with running("embedded", tmp_path) as chain:
        await fund(chain, 10**20)
        async with a_life(chain, tmp_path, mark) as made:
            mark.is_broken = True
            intent = await made.send(value_wei=VALUE_WEI)
            await made.until(lambda: "cannot be written to" in made.public.trouble)
            await some_rounds(made)
            assert await paid_wei(chain) == 0
            mark.is_broken = False
            assert (await made.ended(intent)).ending is not None
            assert await paid_wei(chain) == VALUE_WEI


# A whole node.


@in_loop
async def test_a_node_ends_when_its_database_is_wound_back_under_it_and_its_next_life_knows(tmp_path: Path) -> None:
    """As by a failover that lost the last commits."""
    async with network(tmp_path, "node1") as nodes:
        node1 = nodes.names[0]
        await nodes.start(node1)
        life = nodes.lives.pop(node1)
        with closing(sqlite3.connect(tmp_path / node1 / "rota.db", timeout=5)) as connection, connection:
            connection.execute("UPDATE node SET written = written - 1")
        await send(nodes.client, {"to": nodes.keys[node1].submitter, "value": "0x1"})
        with pytest.raises(FenceBroken, match=r"wound back .*This process stops"):
            await life
        await nodes.start(node1)
        warnings = nodes.processes[node1].facade.warnings()
        assert any("the store: the database was wound back" in each for each in warnings)
        await nodes.stop(node1)
        await nodes.start(node1)
        assert nodes.processes[node1].facade.warnings() == ()


# The file.


def test_the_number_is_kept_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = NumberFile(tmp_path)
    assert file.read() == 0
    file.write(7)
    file.write(8)
    assert NumberFile(tmp_path).read() == 8
    assert [each.name for each in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_file_that_holds_no_number_stops_a_start(tmp_path: Path) -> None:
    """To take it for nothing would forget that the database was wound back."""
    write_new(tmp_path / FILE_NAME, Secret(b"many"))
    with pytest.raises(Unavailable, match="must hold the last write number"):
        NumberFile(tmp_path).read()
    with pytest.raises(Unavailable, match="No such file"):
        NumberFile(tmp_path / "nowhere").write(1)
