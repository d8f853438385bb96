"""What the users of a shipped domain rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.sim.facts import WorkloadEnded
from rota.sim.invariants.judge import Handler, Invariant


class WorkloadHolds(Invariant):
    """W1: what the workload of a domain says must hold in the end does hold.

    Of tokens: what was minted and not burned is there, and who may see a coin has it. Of privacy groups: all members
    come to the same balances from their own disks, and these are what was minted.
    """

    name = "W1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """What a workload finds wrong when its run is over."""
        return {WorkloadEnded: self._ended}

    def _ended(self, fact: WorkloadEnded) -> None:
        self.judged += 1
        # Where nothing was committed everything holds.
        is_chance = bool(fact.committed_count)
        self.chances += is_chance
        self.by[fact.domain] = self.by.get(fact.domain, 0) + is_chance
        for flaw in fact.flaws:
            self.accuse(flaw)
