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
