"""Data shared by the machines of one contract: the context of a step, the ranking, and the proven senders."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.machine.context import StepContext
from rota.model.types import NodeName
from rota.sequencer.selection import ranking
from rota.sequencer.shares import Proven


@dataclass(slots=True)
class Context(StepContext):
    """The context of a sequencer's step."""

    proven: Proven = field(init=False)

    def __post_init__(self) -> None:
        StepContext.__post_init__(self)
        self.proven = Proven(self.node)

    def ranking(self, block_range: int) -> tuple[NodeName, ...]:
        """Return the nodes that may coordinate for this node in that range, most preferred first."""
        return ranking(self.contract, block_range, self.node)
