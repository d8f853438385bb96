"""Whole networks under random faults: safe throughout, and finished when the faults stop."""

from __future__ import annotations

import pytest

from rota.sim.swarm import Swarm


@pytest.mark.parametrize("seed", range(12))
def test_seed_is_clean(seed: int) -> None:
    report = Swarm(seed, trouble_ms=20_000).play()
    assert report.violations == []
    assert report.intents > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_longer_seed_is_clean(seed: int) -> None:
    report = Swarm(seed).play()
    assert report.violations == []


def test_same_seed_plays_the_same_run() -> None:
    first, second = Swarm(7, trouble_ms=20_000).play(), Swarm(7, trouble_ms=20_000).play()
    assert first == second
