"""A node with the prover that comes with Rota: in a process of its own, which ends with the node."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import aiohttp
import pytest

from tests.domains.zeto.kit import NODE1, NODE2, mint, pay, token, transfer, until_balance
from tests.ledger.chains import in_loop
from tests.service.callers import callers
from tests.service.kit import network


@pytest.mark.slow
@in_loop
async def test_node_proves_in_a_process_of_its_own_that_ends_with_it(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    async with network(tmp_path, NODE1, NODE2) as net, aiohttp.ClientSession() as session:
        await net.start(*net.names)
        await net.connected()
        one, two = callers(session, net)
        contract = await token(one)
        await mint(one, contract, pay("b@node2", 100))
        await until_balance(two, contract, "b@node2", 100)
        # The issuer signs, and nothing was proved yet: each node reads its keys because it has the contract.
        provers = set(multiprocessing.active_children()) - before
        assert len(provers) == 2
        await asyncio.wait_for(transfer(two, contract, "b@node2", pay("a@node1", 30)), 150)
        await until_balance(one, contract, "a@node1", 30)
        assert set(multiprocessing.active_children()) - before == provers
    assert not any(prover.is_alive() for prover in provers)
