"""The driver: whatever the core repeats, nothing is done twice at a time, and nothing is left at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rota.chain.effects import FetchBlocks, SubmitTransaction
from rota.chain.events import AccountSeen, BlocksFetched, TransactionSent
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.driver import LedgerDriver
from rota.ledger.follower import FollowerLimits
from rota.machine.tables import Event
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.fault_proxy import FaultProxy, proxied, times, with_status
from tests.ledger.participant import ALONE, PAYER, OneContract, OneKey, Participant, deploy, taking_part


@dataclass
class Driven:
    """A driver behind a proxy, and what it told."""

    chain: Chain
    proxy: FaultProxy
    driver: LedgerDriver
    order: SubmitTransaction
    told: list[Event] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, event: Event) -> None:
        self.told.append(event)
        self.news.set()

    async def until_told(self, kind: type[Event], count: int = 1) -> None:
        while sum(isinstance(event, kind) for event in self.told) < count:
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def driven(home: Path) -> AsyncIterator[Driven]:
    async with running("embedded", home) as chain, proxied(chain.url) as (proxy, url):
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            await node.confirmed(node.submit("A-1"))
        order = next(effect for effect in node.effects if isinstance(effect, SubmitTransaction))
        client = RpcClient(url, ClientLimits(backoff_ms=1, backoff_max_ms=2))
        made: Driven
        driver = LedgerDriver(
            client,
            chain_id=CHAIN_ID,
            contracts=OneContract(contract),
            signer=OneKey(),
            key_of=lambda _: ALONE,
            index_window_max=256,
            tell=lambda event: made.tell(event),
            limits=FollowerLimits(poll_ms=3_600_000),
        )
        made = Driven(chain, proxy, driver, order)
        running_task = asyncio.create_task(driver.run())
        try:
            await made.until_told(AccountSeen)
            yield made
        finally:
            running_task.cancel()
            await asyncio.gather(running_task, return_exceptions=True)
            await client.close()


@in_loop
async def test_account_is_told_first(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        assert made.told[0] == AccountSeen(1, signer=PAYER)


@in_loop
async def test_fetch_that_is_ordered_again_is_the_one_that_is_under_way(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        for _ in range(5):
            made.driver.perform(FetchBlocks(0, 3))
        await made.until_told(BlocksFetched)
        assert made.proxy.methods["eth_getLogs"] == 1
        made.driver.perform(FetchBlocks(0, 3))
        await made.until_told(BlocksFetched, 2)


@in_loop
async def test_fetch_that_is_under_way_is_not_given_up_for_another(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        made.driver.perform(FetchBlocks(0, 2))
        made.driver.perform(FetchBlocks(0, 3))
        await made.until_told(BlocksFetched)
        (fetched,) = [event for event in made.told if isinstance(event, BlocksFetched)]
        assert fetched.blocks[-1].height == 2
        assert made.proxy.methods["eth_getLogs"] == 1


@in_loop
async def test_when_a_fetch_brings_nothing_the_latest_order_is_begun(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        made.driver.perform(FetchBlocks(0, 100))
        made.driver.perform(FetchBlocks(0, 2))
        made.driver.perform(FetchBlocks(0, 3))
        await made.until_told(BlocksFetched)
        (fetched,) = [event for event in made.told if isinstance(event, BlocksFetched)]
        assert fetched.blocks[-1].height == 3


@in_loop
async def test_transaction_that_is_on_its_way_is_not_sent_twice(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        await made.chain.rpc("evm_setAutomine", False)
        await made.chain.rpc("anvil_rollback", 1)
        made.proxy.fault = times(3, with_status(503))
        for _ in range(5):
            made.driver.perform(made.order)
        await made.until_told(TransactionSent)
        assert made.proxy.methods["eth_sendRawTransaction"] == 1
        made.driver.perform(made.order)
        await made.until_told(TransactionSent, 2)


@in_loop
async def test_driver_that_is_stopped_leaves_no_task(tmp_path: Path) -> None:
    async with driven(tmp_path) as made:
        made.proxy.fault = with_status(503)
        made.driver.perform(FetchBlocks(0, 3))
        made.driver.perform(made.order)
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    assert not {name for name in names if name.startswith(("LedgerDriver", "RpcClient", "Follower"))}
