"""Draws the liars of a seed and their strategies.

Liars are drawn so that the invariants can be judged: at most min(k - 1, n - k) endorsers of a contract lie, and never
the only coordinator of a contract. Mostly the network is changed to admit liars: committees grow and thresholds are
lowered. Where it admits none, a stranger joins.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rota.model.frozen import dataclass
from rota.model.types import Contract, Mode, NodeName
from rota.sim.liars.strategies import DRAWN, MUTATES

LIAR_FREE = 0.5
LIARS_DRAWN_MAX = 2
STRATEGIES_DRAWN_MAX = 3
LOWERED = 0.75
ENDORSERS_MIN = 3
MUTATES_TOO = 0.25
STRANGER = NodeName("Z")


@dataclass(frozen=True, slots=True)
class LiarPlan:
    """A node that lies, and its strategies."""

    name: NodeName
    strategies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """The liars of a plan, and the network after it was changed to admit them."""

    liars: tuple[LiarPlan, ...]
    names: tuple[NodeName, ...]
    contracts: tuple[Contract, ...]


def draw_liars(
    seed: int,
    count: int | None,
    strategies: tuple[str, ...] | None,
    names: tuple[NodeName, ...],
    contracts: tuple[Contract, ...],
) -> Cast:
    """The liars of a seed; with `count` None the seed draws how many."""
    random = Random(f"{seed}/liars")
    drawn = 0 if random.random() < LIAR_FREE else random.randint(1, LIARS_DRAWN_MAX)
    wanted = drawn if count is None else count
    if wanted == 0:
        return Cast((), names, contracts)
    contracts = tuple(_with_room(random, names, contract) for contract in contracts)
    chosen: list[NodeName] = []
    for name in random.sample(names, len(names)):
        if len(chosen) < wanted and is_bearable((*chosen, name), contracts):
            chosen.append(name)
    if not chosen:
        chosen, names = [STRANGER], (*names, STRANGER)
    ordered = sorted(chosen, key=names.index)
    return Cast(tuple(LiarPlan(name, _draw_strategies(random, strategies)) for name in ordered), names, contracts)


def is_bearable(liars: tuple[NodeName, ...], contracts: tuple[Contract, ...]) -> bool:
    """Whether safety and liveness of every contract can be promised with these liars."""
    for contract in contracts:
        if contract.mode is Mode.STATIC and contract.committee[0] in liars:
            return False
        lying = sum(name in contract.endorsers for name in liars)
        if lying > max(0, min(contract.threshold - 1, len(contract.endorsers) - contract.threshold)):
            return False
    return True


def _with_room(random: Random, names: tuple[NodeName, ...], contract: Contract) -> Contract:
    """The contract, mostly with more endorsers and a lower threshold, so that some signatures may be missing."""
    if random.random() >= LOWERED:
        return contract
    if len(contract.endorsers) < ENDORSERS_MIN and contract.mode is Mode.RING:
        contract = replace(contract, committee=names, endorsers=names, threshold=len(names))
    size = len(contract.endorsers)
    return replace(contract, threshold=size // 2 + 1) if size >= ENDORSERS_MIN else contract


def _draw_strategies(random: Random, only: tuple[str, ...] | None) -> tuple[str, ...]:
    if only is not None:
        return only
    drawn = random.sample([*DRAWN], random.randint(1, STRATEGIES_DRAWN_MAX))
    return (*drawn, MUTATES) if random.random() < MUTATES_TOO else tuple(drawn)
