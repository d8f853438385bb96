"""Nodes that lie: who they are, what they say, and how the others are judged."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rota.chain.effects import SignDispatch
from rota.exchange.effects import StatesReceived
from rota.machine.effects import Effect, Persist, ReportReceipt
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.types import Contract, ContractAddress, Digest, Mode, NodeName, Rotation
from rota.node.claims import Harmless
from rota.sequencer.effects import SignTransition
from rota.sim.breaking import Canary, broken, try_canary
from rota.sim.frames import acceptable
from rota.sim.invariants import TRUST
from rota.sim.liars.canaries import CANARIES_AMONG_LIARS, EVERY_CANARY
from rota.sim.liars.drawing import is_bearable
from rota.sim.liars.mutator import CHANGEABLE, CLAIM_OF, PAIRS, Mutator, Pair
from rota.sim.liars.notebook import Notebook
from rota.sim.liars.strategies import DRAWN, MUTATES, STRATEGIES
from rota.sim.plan import Settings, draw_plan
from rota.sim.sim_node import SimNode
from rota.sim.swarm import Swarm
from rota.sim.world import World
from rota.wire.messages import Message
from tests.wire.samples import MESSAGE_TYPES, full_envelope, lean_envelope

ROOT = Path(__file__).parents[2]
NODES = (NodeName("A"), NodeName("B"), NodeName("C"))
# Those that show within a seed or two; `rota simulate --canaries` tries them all.
QUICK = (
    "endorses any id",
    "is confirmed by any leaf",
    "stores contents that do not have their commitment",
    "believes refusals that nobody signed",
    "takes one refusal for all",
)
LYING_FOR_MS = 20_000
HARMLESS_MS = 8_000
HARMLESS_JUDGED = 0.3
NO_CONTRACTS: Mapping[ContractAddress, Contract] = {}


# Plans.


@pytest.mark.slow
def test_seeds_without_liars_have_the_plan_that_they_had_before_there_were_any() -> None:
    for seed in range(60):
        drawn = draw_plan(seed, Settings(liars=None))
        if not drawn.liars:
            assert drawn == draw_plan(seed, Settings())


@pytest.mark.slow
def test_half_of_the_seeds_draw_no_liars() -> None:
    without = sum(not draw_plan(seed, Settings(liars=None)).liars for seed in range(400))
    assert 160 < without < 240


def test_liars_are_as_few_as_safety_and_liveness_can_bear() -> None:
    for seed in range(200):
        plan = draw_plan(seed, Settings(minutes=1, liars=3))
        liars = tuple(liar.name for liar in plan.liars)
        assert liars
        assert is_bearable(liars, plan.contracts)
        for contract in plan.contracts:
            lying = sum(name in contract.endorsers for name in liars)
            assert lying <= max(0, min(contract.threshold - 1, len(contract.endorsers) - contract.threshold))
            assert contract.mode is not Mode.STATIC or contract.committee[0] not in liars


def test_strategies_that_are_asked_for_overrule_the_seed() -> None:
    (liar,) = draw_plan(3, Settings(liars=1, strategies=("revives",))).liars
    assert liar.strategies == ("revives",)


@pytest.mark.slow
def test_every_strategy_is_drawn() -> None:
    plans = [draw_plan(seed, Settings(liars=2)) for seed in range(300)]
    assert {name for plan in plans for liar in plan.liars for name in liar.strategies} == {*DRAWN, MUTATES}


# Runs.


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_lies(name: str) -> None:
    """Some lies need an occasion, which not every seed has."""
    settings = Settings(minutes=0.4, faults=(), liars=1, strategies=(name,), mode=Mode.RING, rotation=Rotation.STRICT)
    for seed in range(20):
        swarm = Swarm(seed, settings)
        swarm.open()
        swarm.world.run_until(LYING_FOR_MS)
        if swarm.lie_count:
            return
    pytest.fail(f"{name} has not lied in any seed")


@pytest.mark.slow
def test_liars_play_the_same_run_for_the_same_seed() -> None:
    settings = Settings(minutes=0.2, liars=2)
    first, second = Swarm(12, settings).play(), Swarm(12, settings).play()
    assert first == second
    assert first.liars


# Seeds that failed once, with the strategies that they had.
FAILED = {
    2312: ("plants-states",),
    2434: ("distributes-falsely", "repeats-items", "misdirects"),
    2531: ("revives",),
    2846: ("spends-others", "beats-backwards"),
    2986: ("spends-others", MUTATES),
    6257: ("withholds-permission", "revives", "submits-late", MUTATES),
    80278: ("replays", MUTATES),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", FAILED)
def test_seed_that_failed_is_clean(seed: int) -> None:
    assert not Swarm(seed, Settings(minutes=0.5, liars=1, strategies=FAILED[seed])).play().violations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "minutes", "intents", "faults"),
    [
        (203171, 0.125, 11, (4,)),
        (203839, 0.5, 51, (3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 19, 21, 23, 24, 25, 27, 29, 30, 32, 33)),
    ],
)
def test_seed_in_which_an_endorser_was_accused_of_two_coordinators_is_clean(
    seed: int, minutes: float, intents: int, faults: tuple[int, ...]
) -> None:
    """S6 took whom the endorser may follow from a connection that had come back, or from a request that it rejected."""
    settings = Settings(minutes=minutes, domain="synthetic", only_faults=faults, intents=intents)
    settings = replace(settings, liars=None, has_newest_faults=True, has_plans=True)
    assert not Swarm(seed, settings).play().violations


@pytest.mark.slow
def test_liar_that_names_approvers_that_no_plan_asks_for_takes_no_more_rounds_than_it_may() -> None:
    settings = Settings(minutes=0.125, domain="synthetic", only_faults=(1, 3, 7, 8), intents=55)
    settings = replace(settings, liars=None, has_newest_faults=True, has_plans=True)
    assert not Swarm(110276, settings).play().violations


# The mutator.


def mutator(seed: int) -> Mutator:
    return Mutator(Random(seed), 1.0, NODES, Notebook(NO_CONTRACTS, frozenset()))


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_mutated_messages_can_be_written_and_read(kind: type[Message]) -> None:
    for envelope in (full_envelope(kind), lean_envelope(kind)):
        changes = mutator(7)
        changed = [changes.changed(envelope) for _ in range(60)]
        assert all(acceptable(each) == each for each in changed)
        assert sum(each != envelope for each in changed) > 50
        assert any(each.body != envelope.body for each in changed)


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_same_seed_mutates_alike(kind: type[Message]) -> None:
    envelope = full_envelope(kind)
    one, other = mutator(3), mutator(3)
    assert [one.changed(envelope) for _ in range(20)] == [other.changed(envelope) for _ in range(20)]


@pytest.mark.slow
def test_every_field_of_the_table_of_claims_is_changed() -> None:
    changes, changed = mutator(11), set[Pair]()
    envelopes = [full_envelope(kind) for kind in MESSAGE_TYPES]
    for _ in range(1_500):
        for envelope in envelopes:
            changes.changed(envelope)
            changed |= changes.latest
        if changed >= CHANGEABLE:
            break
    assert CHANGEABLE - changed == set()


@pytest.mark.slow
def test_a_few_seeds_change_most_fields_in_messages_that_honest_nodes_receive() -> None:
    settings = Settings(minutes=0.3, liars=1, strategies=(MUTATES,))
    reports = [Swarm(seed, settings).play() for seed in (0, 5, 8, 10, 11)]
    reached = frozenset(pair for report in reports for pair in report.mutated)
    assert reached <= PAIRS
    assert len(reached) > 0.8 * len(PAIRS)
    assert not any(report.violations for report in reports)


def test_message_that_is_lost_reaches_nobody() -> None:
    changes, envelope = mutator(5), full_envelope(MESSAGE_TYPES[0])
    made = changes.mutate(NODES[0], envelope)
    assert made != envelope
    changes.arrived(NODES[1], made)
    assert not changes.reached
    changes.arrived(NODES[0], made)
    assert changes.reached == changes.latest


# What the table calls harmless.


def decided(effects: list[Effect]) -> list[Effect]:
    """Of what a step does, what it writes, reports, and has signed.

    A peer names each copy of a state that it sends, and the store keeps a few copies by their names: any name will do.
    """
    kinds = (Persist, ReportReceipt, SignTransition, SignDispatch)
    return [_unnamed(effect) for effect in effects if isinstance(effect, kinds)]


def _unnamed(effect: Effect) -> Effect:
    if not isinstance(effect, Persist):
        return effect
    records = [
        replace(each, digest=Digest(b""), part=0) if isinstance(each, StatesReceived) else each
        for each in effect.records
    ]
    return replace(effect, records=tuple(records))


def test_fields_that_are_said_to_be_harmless_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they say, a step writes, reports and signs as without the message, or as with the true one."""
    swarm = Swarm(5, Settings(minutes=0.2, liars=1, strategies=("names-others",)))
    random, changes = Random(5), mutator(5)
    changes.pairs = frozenset(pair for pair in PAIRS if isinstance(CLAIM_OF[pair], Harmless))
    judged: set[Pair] = set()
    tell = World.tell

    def judge(world: World, node: SimNode, event: Event) -> None:
        if isinstance(event, MessageReceived) and event.peer in world.liars and node.name not in world.liars:
            made = changes.changed(event.envelope)
            if node.core is not None and made is not event.envelope and random.random() < HARMLESS_JUDGED:
                now_ms = node.clock.read(world.now_ms)
                true, false = deepcopy(node.core), deepcopy(node.core)
                as_true = decided(true.step(now_ms, event))
                as_false = decided(false.step(now_ms, MessageReceived(event.peer, made)))
                assert as_false in ([], as_true), f"{changes.latest}: {as_false}"
                judged.update(changes.latest)
        tell(world, node, event)

    monkeypatch.setattr(World, "tell", judge)
    swarm.open()
    swarm.world.run_until(HARMLESS_MS)
    assert len(judged) > 30


def test_mutator_that_is_not_due_changes_nothing() -> None:
    envelope = full_envelope(MESSAGE_TYPES[0])
    assert Mutator(Random(1), 0.0, NODES, Notebook(NO_CONTRACTS, frozenset())).mutate(NODES[0], envelope) is envelope


@pytest.mark.slow
def test_liar_that_mutates_is_one_by_name() -> None:
    assert Swarm(1, Settings(minutes=0.05, faults=(), liars=1, strategies=(MUTATES,))).play().liars


# What is written about them.


def test_every_strategy_is_in_the_documentation_as_it_describes_itself() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    for name, strategy in STRATEGIES.items():
        assert f"| `{name}` | {(strategy.__doc__ or '').splitlines()[0].rstrip('.')} |" in text


# Canaries.


def test_every_invariant_of_trust_has_a_canary_and_there_are_at_least_twelve() -> None:
    assert {invariant.name for invariant in TRUST} <= {canary.invariant for canary in CANARIES_AMONG_LIARS}
    assert len({canary.name for canary in EVERY_CANARY}) == len(EVERY_CANARY)
    assert len(CANARIES_AMONG_LIARS) >= 12
    assert all(canary.settings.liars and canary.settings.strategies for canary in CANARIES_AMONG_LIARS)


@pytest.mark.parametrize("canary", CANARIES_AMONG_LIARS, ids=lambda canary: canary.name)
def test_canary_finds_what_it_breaks(canary: Canary) -> None:
    """A defence that was renamed leaves a canary that breaks nothing, or cannot be tried."""
    with broken(canary):
        assert Swarm(0, replace(canary.settings, minutes=0.05)).plan.liars


@pytest.mark.slow
@pytest.mark.parametrize("name", ["endorses whatever plan it is shown", "signs rounds that lack an approval"])
def test_core_that_does_not_enforce_plans_is_caught(name: str) -> None:
    """Seed 10 is the first in which a liar coordinates a planned transaction."""
    (canary,) = [each for each in CANARIES_AMONG_LIARS if each.name == name]
    with broken(canary):
        found = {violation.invariant for violation in Swarm(10, canary.settings).play().violations}
    assert "R3" in found
    assert Swarm(10, canary.settings).play().violations == []


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_core_without_a_defence_is_caught_among_liars(name: str) -> None:
    (canary,) = [each for each in CANARIES_AMONG_LIARS if each.name == name]
    outcome = try_canary(canary, seeds_max=3)
    assert outcome.is_clean_without
    assert outcome.caught
