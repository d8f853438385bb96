"""A peer that sends anything: no node ends, no record is rejected, and honest work goes on (issue 21)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.types import Outcome
from tests.fuzz.world import BESIDE_THE_CORE, SETTINGS, play
from tests.wire.samples import MESSAGE_TYPES


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=1)
@given(seed=st.integers(0, 2**32))
def test_nodes_go_on_whatever_a_peer_sends(name: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played = play(name, seed, Path(folder))
    assert played.ended == {Outcome.CONFIRMED: len(played.honest)}


def test_peer_sends_messages_of_every_type() -> None:
    with tempfile.TemporaryDirectory() as folder:
        played = play("noto", 1, Path(folder))
    assert played.said.keys() >= set(MESSAGE_TYPES) - set(BESIDE_THE_CORE)
