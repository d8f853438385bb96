"""A whole node on a real PostgreSQL whose server fails over to a copy that lacks the last commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.ledger.embedded import Settings
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome
from rota.server.configuration import PostgresServer as ServerUrl
from rota.service.interface import GasOptions, Submission, TransactionType
from rota.store.database import FenceBroken
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, CHAIN_ID, Network, network
from tests.store.servers import PostgresServer, postgres_folder

pytestmark = pytest.mark.slow

NODE = NodeName("node1")
MEMBERS = (f"{ALICE}@{NODE}",)
SHOP = ContractAddress("0x" + "0b" * 20)
PRICE_WEI = 5
FREE = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of this test's own: it is stopped, and its data are replaced."""
    programmes = postgres_folder()
    if programmes is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")
    running = PostgresServer(programmes)
    try:
        running.start()
        yield running
    finally:
        running.remove()


async def pay(nodes: Network) -> IntentId:
    """A public payment of alice."""
    wanted = Submission(TransactionType.PUBLIC, ALICE, to=SHOP, options=GasOptions(value_wei=PRICE_WEI))
    return await nodes.processes[NODE].facade.submit(wanted)


async def paid_wei(nodes: Network) -> int:
    return int(str(await nodes.client.call("eth_getBalance", SHOP, "latest")), 16)


async def sent_count(nodes: Network, account: str) -> int:
    return int(str(await nodes.client.call("eth_getTransactionCount", account, "latest")), 16)


async def fund(nodes: Network) -> str:
    """Alice's account has enough for several payments from now on; its address."""
    key = await nodes.processes[NODE].facade.keys.resolve(ALICE, "ecdsa:secp256k1", "eth_address")
    await nodes.client.call("anvil_setBalance", key.verifier.verifier, hex(10 * PRICE_WEI))
    await nodes.client.call("evm_mine")
    return key.verifier.verifier


async def ended(nodes: Network, intent: IntentId, success: bool) -> None:
    while True:
        view = await nodes.processes[NODE].facade.receipt(intent)
        if view is not None and view.success is success:
            return
        await asyncio.sleep(0.01)


@in_loop
async def test_failover_that_lost_commits_ends_the_node_and_nothing_is_paid_or_signed_twice(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with network(tmp_path, NODE, chain_settings=FREE) as nodes:
        nodes.stores[NODE] = ServerUrl(server.url())
        await nodes.start(NODE)
        contract = await nodes.create(MEMBERS, threshold=1)
        waiting = await pay(nodes)
        aside = nodes.processes[NODE].facade.aside

        # The standby has what is committed so far. The primary goes on, and so does the node, over a new session.
        server.stop()
        server.copy_data("standby")
        server.start()
        private = await nodes.submit(NODE, contract, "spend")
        assert (await nodes.final(NODE, private)).outcome is Outcome.CONFIRMED
        account = await fund(nodes)
        await ended(nodes, waiting, success=True)
        later = await pay(nodes)
        await ended(nodes, later, success=True)
        assert await paid_wei(nodes) == 2 * PRICE_WEI
        assert aside.list() == ()

        # The failover: the standby lacks both payments and the private transaction.
        life = nodes.lives.pop(NODE)
        server.stop()
        server.bring_back("standby")
        server.start()
        await nodes.client.call("evm_mine")
        with pytest.raises(FenceBroken, match=r"wound back .*This process stops"):
            await life
        sent = await sent_count(nodes, account), await sent_count(nodes, nodes.keys[NODE].submitter)

        # An operator starts it again: what it does not know the end of is set aside, and nothing is signed.
        await nodes.start(NODE)
        facade = nodes.processes[NODE].facade
        assert any("the store: the database was wound back" in each for each in facade.warnings())
        await nodes.until(lambda: [each.id for each in facade.aside.list()] == [waiting])
        blocked = await pay(nodes)
        for _ in range(20):
            await nodes.client.call("evm_mine")
            await asyncio.sleep(0.05)
        assert (await sent_count(nodes, account), await sent_count(nodes, nodes.keys[NODE].submitter)) == sent
        assert await paid_wei(nodes) == 2 * PRICE_WEI
        assert await facade.receipt(blocked) is None

        # The chain still has the private transaction, and the node knows the contract: new ones go on.
        again = await nodes.submit(NODE, contract, "spend")
        assert (await nodes.final(NODE, again)).outcome is Outcome.CONFIRMED
        await facade.aside.drop(waiting)
        await ended(nodes, waiting, success=False)
        await ended(nodes, blocked, success=True)
        assert await paid_wei(nodes) == 3 * PRICE_WEI
