"""Whole networks under random faults: safe throughout, and finished when the faults stop."""

from __future__ import annotations

import pytest

from rota.sim.swarm import FAULTS, Settings, Swarm
from rota.types import Mode, Rotation

SHORT = Settings(minutes=1 / 3)


@pytest.mark.parametrize("seed", range(12))
def test_seed_is_clean(seed: int) -> None:
    report = Swarm(seed, SHORT).play()
    assert report.violations == []
    assert report.intents > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_longer_seed_is_clean(seed: int) -> None:
    report = Swarm(seed).play()
    assert report.violations == []


def test_same_seed_plays_the_same_run() -> None:
    first, second = Swarm(7, SHORT).play(), Swarm(7, SHORT).play()
    assert first == second


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("rotation", list(Rotation))
def test_settings_overrule_the_seed(mode: Mode, rotation: Rotation) -> None:
    swarm = Swarm(3, Settings(nodes=4, minutes=1 / 6, rotation=rotation, mode=mode, faults=("crash",)))
    assert (len(swarm.world.nodes), swarm.contract.mode, swarm.contract.rotation) == (4, mode, rotation)
    report = swarm.play()
    assert report.violations == []


def test_no_faults_means_none() -> None:
    assert Swarm(3, Settings(minutes=1 / 6, faults=())).play().faults == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_survived(fault: str) -> None:
    report = Swarm(11, Settings(minutes=1 / 3, faults=(fault,))).play()
    assert report.violations == []
    assert report.faults > 0
