"""A contract whose records the database rejected is left alone until it is released; the node serves others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rota.model.types import NodeName, Outcome
from rota.rpc.errors import Rejected
from tests.ledger.chains import in_loop
from tests.service.kit import network

ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
NODE1, NODE2, _ = ALL


@in_loop
async def test_node_serves_beside_a_quarantined_contract_and_goes_on_when_it_is_released(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as net:
        await net.start(*ALL)
        await net.connected()
        members = [f"a@{name}" for name in ALL]
        held = await net.create(members, threshold=2)
        other = await net.create(members, threshold=2)
        await net.kill(NODE2)
        with closing(sqlite3.connect(tmp_path / NODE2 / "rota.db")) as database, database:
            database.execute("INSERT INTO contracts_quarantined VALUES (?, ?, ?)", (held, "a reason", 1))
        await net.start(NODE2)
        await net.connected()
        for contract in (held, other):
            for _ in range(3):
                intent = await net.submit(NODE1, contract, "spend")
                assert (await net.final(NODE1, intent)).outcome is Outcome.CONFIRMED
        with pytest.raises(Rejected, match="is quarantined: a reason"):
            await net.submit(NODE2, held, "spend")
        node = net.processes[NODE2].facade
        await node.quarantine.release(held)
        await net.stop(NODE2)
        await net.start(NODE2)
        await net.connected()
        intent = await net.submit(NODE2, held, "spend")
        assert (await net.final(NODE2, intent)).outcome is Outcome.CONFIRMED
