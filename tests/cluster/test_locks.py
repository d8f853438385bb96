"""Locks with a public side on node processes and Anvil: another chain than the one that most tests use."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client
from rota.ledger.artifacts import load_artifact
from rota.localnet.chains import NO_ANVIL, ChainKind, find_anvil
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import ContractAddress, NodeName
from tests.ledger.chains import in_loop

NODES = NODE1, NODE2 = NodeName("node1"), NodeName("node2")
QUICK = {"automation.expected_task_duration_ms": 100, "automation.polling_interval_ms": 400}
WEI = 10**18


async def lock_of(alice: Client, token: str, amount: int, expires_at: int = 0) -> dict[str, Any]:
    """A prepared lock for Bob, as its receipt shows it."""
    hers = alice.tokens.at(token)
    sent = await hers.create_transfer_lock("alice@node1", {"bob@node2": amount}, expires_at=expires_at)
    return await hers.lock_info(sent.id)


async def holds(client: Client, token: str, account: str, amount: int) -> None:
    while (await client.tokens.at(token).balance_of(account)).total_balance != amount:
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(find_anvil() is None, reason=f"There is no Anvil: {NO_ANVIL}")
@in_loop
async def test_delegate_spends_and_an_expired_lock_returns_on_anvil(tmp_path: Path) -> None:
    async with LocalNetwork(Plan(home=tmp_path, names=NODES, chain=ChainKind.ANVIL, settings=QUICK)) as network:
        await network.start(*NODES)
        made = await network.create_contract("noto", {"notary": "alice@node1", "notaryMode": "basic"})
        urls = [network.nodes[name].client.url for name in NODES]
        async with Client(urls[0], sender="alice") as alice, Client(urls[1], sender="bob") as bob:
            await (await alice.tokens.at(made.address).mint("alice@node1", 100))
            delegate = await bob.address_of("bob@node2")
            await network.deployer.transact(ContractAddress(delegate), value_wei=WEI)
            lock = await lock_of(alice, made.address, 30)
            await (await alice.tokens.at(made.address).delegate_lock(lock["lockId"], delegate))
            ledger = bob.ledger.contract(made.address, load_artifact("NotaryLedger").abi)
            await (await ledger.send(lock["unlockFunction"], lock["unlockParams"]))
            await holds(bob, made.address, "bob@node2", 30)
            await (await bob.tokens.at(made.address).transfer("alice@node1", 10))
            expiring = await lock_of(alice, made.address, 5, int(time.time()) + 3)
            await (await alice.tokens.at(made.address).delegate_lock(expiring["lockId"], delegate))
            await holds(alice, made.address, "alice@node1", 75)
            await holds(alice, made.address, "alice@node1", 80)
