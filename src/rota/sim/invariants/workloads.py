"""The promises of shipped domains to their users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.sim.facts import WorkloadEnded
from rota.sim.invariants.judge import Handler, Invariant


class WorkloadHolds(Invariant):
    """W1: the final conditions of a domain's workload hold.

    For tokens: all coins minted and not burned exist, and every node that may see a coin has it. For privacy groups:
    all members compute the same balances from their own disks, equal to the amounts minted.
    """

    name = "W1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handler for the flaws that a workload finds at the end of its run."""
        return {WorkloadEnded: self._ended}

    def _ended(self, fact: WorkloadEnded) -> None:
        self.judged += 1
        # Without committed transactions every condition holds.
        is_chance = bool(fact.committed_count)
        self.chances += is_chance
        self.by[fact.domain] = self.by.get(fact.domain, 0) + is_chance
        for flaw in fact.flaws:
            self.accuse(flaw)
