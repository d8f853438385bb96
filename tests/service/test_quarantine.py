"""A contract whose records the database rejects: the run ends once, and the next ones go on without that contract."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rota.model.types import ContractAddress, NodeName, Outcome
from rota.rpc.errors import Rejected
from rota.store.write_queue import RecordRejected
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, network

pytestmark = pytest.mark.slow

NODE = NodeName("node1")
MEMBERS = (f"{ALICE}@{NODE}",)
ALL = NODE1, NODE2, _ = tuple(map(NodeName, ("node1", "node2", "node3")))


def run_sql(home: Path, sql: str) -> None:
    """In the database of a node that does not run."""
    with closing(sqlite3.connect(home / NODE / "rota.db")) as connection, connection:
        connection.execute(sql)


def rejecting(contract: ContractAddress) -> str:
    """The database takes no permission for a transaction of this contract."""
    return (
        "CREATE TRIGGER rejects BEFORE UPDATE OF permission ON intents "
        f"WHEN NEW.contract = '{contract}' BEGIN SELECT RAISE(ABORT, 'this value does not fit'); END"
    )


@in_loop
async def test_contract_whose_records_are_rejected_is_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        bad, good = [await nodes.create(MEMBERS, threshold=1) for _ in range(2)]
        await nodes.stop(NODE)
        run_sql(tmp_path, rejecting(bad))

        await nodes.start(NODE)
        waiting = await nodes.submit(NODE, bad, "spend")
        with pytest.raises(RecordRejected, match=rf"records of contract {bad}: .*this value does not fit.*quarantined"):
            await nodes.lives.pop(NODE)

        # A supervisor starts it again.
        await nodes.start(NODE)
        facade = nodes.processes[NODE].facade
        assert [
            (each.contract, "this value does not fit" in each.reason) for each in await facade.quarantine.list()
        ] == [(bad, True)]
        with pytest.raises(Rejected, match=rf"{bad} is quarantined.*rota contract release {bad}"):
            await nodes.submit(NODE, bad, "spend")
        assert await facade.receipt(waiting) is None
        other = await nodes.submit(NODE, good, "spend")
        assert (await nodes.final(NODE, other)).outcome is Outcome.CONFIRMED

        # An operator has removed the cause, and releases it: the transaction that was accepted goes on.
        await facade.quarantine.release(bad)
        await nodes.stop(NODE)
        run_sql(tmp_path, "DROP TRIGGER rejects")
        await nodes.start(NODE)
        assert (await nodes.final(NODE, waiting)).outcome is Outcome.CONFIRMED


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
