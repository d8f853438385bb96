"""No queue grows beyond its configured bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.sim.facts import Measured
from rota.sim.invariants.judge import Handler, Invariant


class QueuesAreBounded(Invariant):
    """S10: every queue is bounded."""

    name = "S10"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handler for queue lengths, measured now and then."""
        return {Measured: self._measured}

    def _measured(self, fact: Measured) -> None:
        self.judged += len(fact.queues)
        for queue, size, bound in fact.queues:
            # Only a full queue can show that its bound is missing.
            if size >= bound:
                self.chances += 1
            if size > bound:
                self.accuse(f"{queue} at {fact.node} holds {size}, and {bound} is the bound")
