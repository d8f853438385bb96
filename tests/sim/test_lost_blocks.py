"""Networks whose chain takes back more than `confirmations`: nothing is stuck, and no receipt is false unmarked."""

from __future__ import annotations

import pytest

from rota.chain.submitter import Submitter
from rota.sim.disk import Disk
from rota.sim.plan import ASKED_FOR, FAULTS, LOST_BLOCKS, Settings, draw_plan
from rota.sim.swarm import Swarm


def play(seed: int, *others: str) -> Swarm:
    swarm = Swarm(seed, Settings(nodes=3, contracts=2, minutes=0.3, faults=(LOST_BLOCKS, *others)))
    swarm.play()
    return swarm


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 7])
def test_network_recovers_from_lost_blocks(seed: int) -> None:
    swarm = play(seed)
    assert swarm.report.violations == []
    assert any(node.disk.undone for node in swarm.world.nodes.values())


@pytest.mark.slow
@pytest.mark.parametrize("others", [("crash", "loss", "lag"), ("torn", "lie", "drop", "reorganise")])
def test_network_recovers_from_lost_blocks_among_other_faults(others: tuple[str, ...]) -> None:
    assert play(3, *others).report.violations == []


@pytest.mark.slow
def test_submitter_that_recalls_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before: the chain waits for nonces that nobody sends again."""
    monkeypatch.setattr(Submitter, "to_recall", lambda _: None)
    assert play(1).report.violations != []


@pytest.mark.slow
def test_store_that_marks_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "_has_ended_by", lambda *_: False)
    found = [violation.invariant for seed in (1, 4) for violation in play(seed).report.violations]
    assert "F1" in found


def test_lost_blocks_are_played_only_when_asked_for() -> None:
    assert not set(ASKED_FOR) & set(FAULTS)
    assert not any(draw_plan(seed, Settings(minutes=0.2)).loses_blocks for seed in range(20))
