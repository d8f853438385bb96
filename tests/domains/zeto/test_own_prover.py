"""A node with the prover that comes with Rota: in a process of its own, which ends with the node."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import aiohttp
import pytest

from tests.domains.zeto.test_network import TOKEN_ABI, pay, token, until_balance
from tests.ledger.chains import in_loop
from tests.runtime.callers import callers
from tests.runtime.kit import network


@pytest.mark.slow
@pytest.mark.timeout(180)
@in_loop
async def test_node_proves_in_a_process_of_its_own_that_ends_with_it(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    async with network(tmp_path, "node1", "node2") as net, aiohttp.ClientSession() as session:
        await net.start(*net.names)
        await net.connected()
        one, two = callers(session, net)
        contract = await token(one)
        of_token = {"type": "private", "to": contract, "abi": TOKEN_ABI}
        await one.succeed(**of_token, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 100)]})
        await until_balance(two, contract, "b@node2", 100)
        assert set(multiprocessing.active_children()) == before, "the issuer signs; nothing was proved yet"
        transfers = {"transfers": [pay("a@node1", 30)]}
        await asyncio.wait_for(two.succeed(**of_token, from_="b@node2", function="transfer", data=transfers), 150)
        await until_balance(one, contract, "a@node1", 30)
        (prover,) = set(multiprocessing.active_children()) - before
    assert not prover.is_alive()
