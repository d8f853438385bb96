"""What honest members get done beside a member that lies, in simulated time: the promise, and that it can be broken."""

from __future__ import annotations

import pytest

from rota.model.types import Rotation
from rota.sequencer.demotion import Demotions
from rota.sequencer.pace import Pace
from rota.sim.liars.throughput import measure

# Those that cost most, over fewer bounds than ten; `rota simulate --throughput` measures them all.
BOUNDS = 3
COSTLY = ("never-assembles", "never-submits")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", COSTLY)
def test_liar_leaves_honest_members_their_share(strategy: str) -> None:
    found = measure(strategy, rotation=Rotation.STRICT, bounds=BOUNDS)
    assert found.confirmed_without > 500
    assert found.is_enough, f"{found.ratio:.2f} of what they get done without lies"


@pytest.mark.nightly
@pytest.mark.slow
def test_core_that_demotes_nobody_gets_too_little_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Demotions, "demote", lambda *_: None)
    assert not measure("never-assembles", rotation=Rotation.STICKY, bounds=BOUNDS).is_enough


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["claims-ranges", pytest.param("plants-states", marks=pytest.mark.nightly)])
def test_slow_coordinator_under_sticky_rotation_leaves_honest_members_their_share(strategy: str) -> None:
    found = measure(strategy, rotation=Rotation.STICKY, bounds=1, under_way=2)
    assert found.is_enough, f"{found.ratio:.2f} of what they get done without lies"


@pytest.mark.slow
def test_core_that_measures_no_pace_gets_too_little_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "is_to_be_left", lambda *_: False)
    assert not measure("plants-states", rotation=Rotation.STICKY, bounds=1, under_way=2).is_enough
