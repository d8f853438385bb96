"""A node keeps the contents of transitions that its own parties signed, whichever node commits them (R1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.model.types import IntentId, Leaf, NodeName, StateId, Transition
from rota.sim.facts import Committed, Recorded, Signed, Undone
from rota.sim.invariants.judge import Handler, Invariant
from rota.sim.invariants.privacy import transitions_in


class SignersHoldContents(Invariant):
    """R1: a node holds all contents meant for it of the transitions that its parties signed and that are on the chain.

    A coordinator may commit an endorsed transition without asking its sender, and distribute nothing.
    """

    name = "R1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for signatures of honest parties, states on disks, and ledger outcomes."""
        self.signed: dict[tuple[IntentId, Leaf], NodeName] = {}
        self.held: set[tuple[NodeName, StateId]] = set()
        self.committed: dict[Leaf, Transition] = {}
        return {Signed: self._signed, Recorded: self._recorded, Committed: self._committed, Undone: self._undone}

    def _signed(self, fact: Signed) -> None:
        self.signed[fact.intent, fact.leaf] = fact.node

    def _recorded(self, fact: Recorded) -> None:
        for transition in transitions_in(fact.record):
            self.held.update((fact.node, state.id) for state in transition.outputs if state.content is not None)

    def _committed(self, fact: Committed) -> None:
        self.committed[fact.transition.leaf] = fact.transition

    def _undone(self, fact: Undone) -> None:
        self.committed.pop(fact.transition.leaf, None)

    def conclude(self) -> None:
        """Judge at the end: contents on a disk stay there until their leaf cannot be committed any more."""
        for made in self.committed.values():
            node = self.signed.get((made.intent, made.leaf))
            for state in made.outputs if node is not None else ():
                self.judged += 1
                self.chances += node in state.distribution
                if node in state.distribution and (node, state.id) not in self.held:
                    self.accuse(f"{node} has lost a state of {self.show(made.intent)}, which its party signed")
