"""Seeds in which prepared transitions stand in one another's way and are voided."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from rota.model.config import Config
from rota.model.types import IntentId, NodeName, Outcome
from rota.sequencer.voids import Void, Voids
from rota.sim import plan
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm

# Four intents of this seed are voided.
SEED, HOLD_S = 7, 15


@pytest.mark.slow
def test_prepared_transitions_that_are_never_committed_are_voided_and_no_promise_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_config = plan._draw_config

    def draw_short_hold(random: Random) -> Config:
        return replace(draw_config(random), prepared_hold_s=HOLD_S)

    monkeypatch.setattr(plan, "_draw_config", draw_short_hold)
    voided: list[IntentId] = []
    take_signature = Voids._take_signature

    def note_dispatched(voids: Voids, void: Void, peer: NodeName, signature: bytes) -> None:
        take_signature(voids, void, peer, signature)
        if void.is_dispatched:
            voided.append(void.transition.intent)

    monkeypatch.setattr(Voids, "_take_signature", note_dispatched)
    swarm = Swarm(SEED, Settings(minutes=1))
    swarm.play()
    assert swarm.found == []
    reasons = {
        receipt.reason
        for intent in voided
        for receipt in swarm.world.receipts.get(intent, ())
        if receipt.outcome is Outcome.REVERTED
    }
    assert "voided on the chain" in reasons
