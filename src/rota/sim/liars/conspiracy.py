"""All liars of a world: created from their plans, and called when one of them sends, receives or may act."""

from __future__ import annotations

from functools import partial
from random import Random

from rota.chain.effects import RoundDispatch
from rota.model.types import IntentId, NodeName
from rota.sim.liars.account import WorldOfLiars
from rota.sim.liars.drawing import LiarPlan
from rota.sim.liars.liar import Liar
from rota.sim.liars.mutator import PAIRS, Mutator, Pair
from rota.sim.liars.notebook import Notebook
from rota.sim.liars.strategies import MUTATES, STRATEGIES
from rota.wire.messages import Envelope

ACTS_EVERY_MS = (300, 700, 1_500)
MUTATION_RATES = (0.02, 0.1, 0.4)


class Conspiracy:
    """The liars of a world, from its start to its end."""

    def __init__(
        self, world: WorldOfLiars, seed: int, plans: tuple[LiarPlan, ...], foreknown: tuple[IntentId, ...]
    ) -> None:
        self.world = world
        self.names = frozenset(plan.name for plan in plans)
        self.book = Notebook(world.by_address, self.names)
        self.liars: dict[NodeName, Liar] = {}
        for plan in plans:
            self.liars[plan.name] = self._liar(seed, plan, foreknown)

    def _liar(self, seed: int, plan: LiarPlan, foreknown: tuple[IntentId, ...]) -> Liar:
        liar = Liar(self.world, plan.name, self.book, foreknown)
        random = Random(f"{seed}/liars/{plan.name}")
        liar.strategies = tuple(
            STRATEGIES[name](liar, Random(f"{seed}/liars/{plan.name}/{name}"))
            for name in plan.strategies
            if name != MUTATES
        )
        if MUTATES in plan.strategies:
            liar.mutator = Mutator(random, random.choice(MUTATION_RATES), tuple(self.world.nodes), self.book)
        self.world.at(0, partial(self._act, liar, random))
        return liar

    def _act(self, liar: Liar, random: Random) -> None:
        liar.acts()
        delay_ms = random.choice(ACTS_EVERY_MS)
        self.world.at(self.world.now_ms + delay_ms, partial(self._act, liar, random))

    def says(self, name: NodeName, peer: NodeName, envelope: Envelope) -> None:
        """Pass a message of a liar's core through its strategies."""
        self.liars[name].says(peer, envelope)

    def hears(self, source: NodeName, name: NodeName, envelope: Envelope) -> bool:
        """Whether the core of node `name` receives a message; always so for an honest node."""
        liar, author = self.liars.get(name), self.liars.get(source)
        if liar is None and author is not None and author.mutator is not None:
            author.mutator.arrived(name, envelope)
        return liar is None or liar.hears(source, envelope)

    def submits(self, name: NodeName, dispatch: RoundDispatch) -> bool:
        """Whether the transaction of a node's core goes to the chain; always so for an honest node."""
        liar = self.liars.get(name)
        return liar is None or liar.submits(dispatch)

    @property
    def mutated(self) -> frozenset[Pair]:
        """The fields that mutators have changed in messages that honest nodes received."""
        mutators = [liar.mutator for liar in self.liars.values() if liar.mutator is not None]
        return frozenset(pair for mutator in mutators for pair in mutator.reached) & PAIRS

    def drain(self) -> int:
        """Commit every round for which liars hold enough signatures; returns how many were sent."""
        first = next(iter(self.liars.values()))
        return sum(first.account.commit(known, signatures) for known, signatures in self.book.complete())
