"""Any account can deploy a contract under an id that a node awaits, and commit rounds in it."""

from __future__ import annotations

from dataclasses import replace

from rota.machine.effects import Persist
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import Digest, Leaf
from rota.store.database import Reading, Statement
from tests.directory.deployment_bench import MADE, STRANGERS, DeploymentBench, deployed
from tests.sequencer.kit import GENESIS_S, B, intent_id
from tests.store.kit import Make, in_loop, opened_on

COMMITTED = LedgerOutcome(intent_id("theirs"), Leaf(b"l" * 32), Digest(b"d" * 32), LedgerStatus.COMMITTED)


def _contracts_with_outcomes() -> Reading[list[str]]:
    rows = yield Statement("SELECT DISTINCT contract FROM outcomes ORDER BY contract")
    return [str(row[0]) for row in rows]


@in_loop
async def test_rounds_of_a_foreign_contract_under_an_awaited_id_do_not_end_the_run(make: Make) -> None:
    """The liar proposes a contract, and deploys another one under its id, with a round in the same block."""
    bench = DeploymentBench()
    bench.connect(B)
    bench.propose(B)
    bench.propose(B, is_agreed=True, number=2)
    bench.mine(time_s=GENESIS_S)
    theirs = deployed(genesis=bytes(32), contract=STRANGERS)
    bench.chain[-1] = replace(bench.chain[-1], deployments=(theirs,), outcomes=((STRANGERS, COMMITTED),))
    bench.show_head()
    bench.mine(time_s=GENESIS_S)
    outcomes = ((STRANGERS, COMMITTED), (MADE, COMMITTED))
    bench.chain[-1] = replace(bench.chain[-1], deployments=(deployed(),), outcomes=outcomes)
    bench.show_head()
    assert bench.taken_in() == [MADE]
    orders = bench.all(Persist)
    async with opened_on(await make()) as opened:
        for order in orders:
            opened.order(order.contract, *order.records)
        await opened.durable_after(len(orders))
        assert await opened.store.read(_contracts_with_outcomes()) == [MADE]
