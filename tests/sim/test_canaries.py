"""The checkers can fail: a core that is broken on purpose is caught, and is whole again afterwards."""

from __future__ import annotations

import pytest

from rota.chain.submitter import Submitter
from rota.node.node import Node
from rota.sequencer.coordinator import TABLE as COORDINATOR
from rota.sequencer.sender_transaction import TABLE as SENDER_TRANSACTION
from rota.sim.breaking import Canary, broken, try_canary
from rota.sim.canaries import CANARIES, unguarded
from rota.sim.plan import FAULTS, Settings
from rota.sim.shrinking import shrink
from rota.sim.swarm import Swarm

BY_NAME = {canary.name: canary for canary in CANARIES}
# Those that show within a few seeds; `rota simulate --canaries` tries them all.
QUICK = (
    "sends before persisting",
    "reuses a nonce",
    "forgets a permission on restart",
    "starts as the incarnation of before",
    "acknowledges states that it has not written",
    "permits twice under one number",
    "reports before it is final",
    "trusts the payload's sender",
    "reports a deployment before it is final",
    "forgets proposals on restart",
    "offers more for gas under another nonce",
    "sends no refused transaction again",
    "does not notice that another process used its nonce",
    "does not notice that a peer is connected again",
)


def test_every_invariant_has_a_canary_and_there_are_at_least_fifteen() -> None:
    assert unguarded() == ()
    assert len(BY_NAME) == len(CANARIES) >= 15


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_core_is_whole_again_after_a_canary(canary: Canary) -> None:
    before = _what_canaries_touch()
    with broken(canary):
        pass
    assert _what_canaries_touch() == before


def _what_canaries_touch() -> tuple[object, ...]:
    tables = tuple(dict(table.rows_by_pair) for table in (COORDINATOR, SENDER_TRANSACTION))
    return (*tables, Submitter.take_signed, Node.__init__, Node._take_block)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_canary_is_caught_by_the_invariant_that_it_names(name: str) -> None:
    outcome = try_canary(BY_NAME[name], seeds_max=10)
    assert outcome.caught
    assert outcome.is_clean_without


def test_canary_that_is_no_defect_is_not_caught() -> None:
    harmless = Canary("does nothing", "S7", lambda _: None, Settings(minutes=1 / 20, faults=()))
    outcome = try_canary(harmless, seeds_max=2)
    assert (outcome.caught, outcome.seeds) == (False, 2)


@pytest.mark.slow
def test_failing_seed_is_shrunk_to_what_it_needs() -> None:
    settings = Settings(minutes=1 / 4, faults=FAULTS)
    with broken(BY_NAME["reuses a nonce"]):
        smaller = shrink(3, settings, "S7", runs_max=40)
        (found,) = {violation.invariant for violation in Swarm(3, smaller).play().violations}
    assert found == "S7"
    assert smaller.only_faults == ()
    assert smaller.intents is not None
    assert smaller.intents < 20
    assert smaller.minutes < settings.minutes
    assert Swarm(3, smaller).play().violations == []
