"""The strategies by name."""

from __future__ import annotations

from rota.sim.liars.liar import Strategy
from rota.sim.liars.strategies.coordinators import ASKED_FOR, COORDINATORS
from rota.sim.liars.strategies.endorsers import ENDORSERS
from rota.sim.liars.strategies.members import MEMBERS
from rota.sim.liars.strategies.senders import SENDERS

DRAWN: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (*COORDINATORS, *SENDERS, *ENDORSERS, *MEMBERS)
}
STRATEGIES: dict[str, type[Strategy]] = DRAWN | {strategy.name: strategy for strategy in ASKED_FOR}
# Drawn like a strategy; the mutator changes messages after all strategies.
MUTATES = "mutates"
NAMES: tuple[str, ...] = (*STRATEGIES, MUTATES)
