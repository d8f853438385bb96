"""What the machines of one contract share: the context of a step, who ranks where, and which senders are proven."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.core.selection import ranking
from rota.core.shares import Proven
from rota.core.step_context import StepContext
from rota.types import NodeName


@dataclass(slots=True)
class Context(StepContext):
    """The context of a sequencer's step."""

    proven: Proven = field(init=False)

    def __post_init__(self) -> None:
        StepContext.__post_init__(self)
        self.proven = Proven(self.node)

    def ranking(self, block_range: int) -> tuple[NodeName, ...]:
        """Who may coordinate for this node in that range, most preferred first."""
        return ranking(self.contract, block_range, self.node)
