"""Networks whose databases fail over to copies without the last commits: nothing is paid twice, no receipt is false."""

from __future__ import annotations

import pytest

from rota.chain.submitter import Submitter
from rota.node.effects import NodeStarted
from rota.sim.plan import FAILOVER, Settings
from rota.sim.swarm import Swarm


def play(seed: int, *others: str) -> Swarm:
    swarm = Swarm(seed, Settings(nodes=3, contracts=2, minutes=0.3, faults=(FAILOVER, *others)))
    swarm.play()
    return swarm


@pytest.mark.slow
@pytest.mark.parametrize("seed", [9, 11, 13, 33])
def test_failover_that_loses_commits_pays_nothing_twice_and_leaves_no_false_receipt(seed: int) -> None:
    swarm = play(seed)
    assert swarm.report.violations == []
    assert any(node.disk.incarnation_kept for node in swarm.world.nodes.values())


@pytest.mark.parametrize("others", [("crash", "loss", "reorganise", "drop")])
def test_failover_among_other_faults_pays_nothing_twice(others: tuple[str, ...]) -> None:
    assert play(23, *others).report.violations == []


@pytest.mark.slow
def test_submitter_that_believes_its_book_more_than_the_chain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy lacks dispatches that the chain has: their nonces are used, and rounds with them wait for ever."""
    monkeypatch.setattr(Submitter, "take_account", lambda *_: None)
    assert any(play(seed).report.violations for seed in (9, 11))


@pytest.mark.slow
def test_disk_without_the_last_commits_has_all_before_and_a_later_life() -> None:
    swarm = play(8)
    disk = next(node.disk for node in swarm.world.nodes.values() if node.disk.commits)
    older = disk.without_last(3, swarm.world.transitions)
    assert older.commits == disk.commits[:-3]
    assert older.records == disk.records[: len(older.records)]
    started = [record.incarnation for _, record in disk.records if isinstance(record, NodeStarted)]
    assert older.incarnation_kept >= max(started)
