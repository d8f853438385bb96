"""The interface of recorders of a run: the transcript for people, the fingerprint for comparing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.machine.effects import Effect, Persist, ReplyToUser
from rota.model.blocks import ChainBlock
from rota.model.types import NodeName
from rota.sim.sim_node import SimNode
from rota.wire.messages import Envelope

if TYPE_CHECKING:
    from rota.sim.world import World


class Recorder:
    """Receives everything that happens in a world; each method ignores it unless overridden."""

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A node sent a message; its fate is `delivered`, `lost`, `held`, `twice`, or the kind of its forgery."""

    def stepped(self, world: World, node: SimNode) -> None:
        """A node's core took a step."""

    def performed(self, world: World, node: SimNode, effect: Effect) -> None:
        """An effect of a node is executed, unless it is a write."""

    def wrote(self, world: World, node: SimNode, write: Persist) -> None:
        """A node's disk has completed or failed a write, by `node.disk.fate`."""

    def mined(self, world: World, block: ChainBlock) -> None:
        """The chain has a new block."""

    def removed(self, world: World, blocks: tuple[ChainBlock, ...]) -> None:
        """The chain removed these blocks."""

    def started(self, world: World, node: SimNode) -> None:
        """A run of a node began."""

    def stopped(self, world: World, node: SimNode) -> None:
        """A run of a node ended."""

    def noted(self, world: World, text: str) -> None:
        """Something happened that readers of a transcript should see, in words."""


def shown_reply(reply: ReplyToUser) -> str:
    """A reply of the core to a user, with the field that its error refers to."""
    named = f"{reply.field}: {reply.error}" if reply.field else reply.error
    return f"refused: {named}" if reply.error else "accepted"
