"""Who hears of everything that happens in a world: the transcript is one, the fingerprint another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.messages import Envelope
from rota.sim.sim_node import SimNode
from rota.types import NodeName

if TYPE_CHECKING:
    from rota.sim.world import World


class Recorder:
    """Hears of everything that happens; the transcript is one."""

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A message left a node; its fate is `delivered`, `lost`, `held`, `twice`, or how it lies."""

    def stepped(self, world: World, node: SimNode) -> None:
        """A node was told something."""

    def noted(self, world: World, text: str) -> None:
        """Something else happened."""
