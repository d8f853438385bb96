"""The interface of what records a run: the transcript for people, the fingerprint for comparing runs."""

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
    """Gets everything that happens in a world, and ignores it unless a method is overridden."""

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A message left a node; its fate is `delivered`, `lost`, `held`, `twice`, or how it lies."""

    def stepped(self, world: World, node: SimNode) -> None:
        """A node was told something."""

    def performed(self, world: World, node: SimNode, effect: Effect) -> None:
        """An effect of a node is carried out, unless it is a write."""

    def wrote(self, world: World, node: SimNode, write: Persist) -> None:
        """A node's disk has done a write, or has failed to: `node.disk.fate` says which."""

    def mined(self, world: World, block: ChainBlock) -> None:
        """The chain has a new block."""

    def removed(self, world: World, blocks: tuple[ChainBlock, ...]) -> None:
        """The chain took back these blocks."""

    def started(self, world: World, node: SimNode) -> None:
        """A node began to run."""

    def stopped(self, world: World, node: SimNode) -> None:
        """A node's process ended."""

    def noted(self, world: World, text: str) -> None:
        """Something happened that a reader of a transcript wants to see, in words."""


def shown_reply(reply: ReplyToUser) -> str:
    """A reply of the core to a user, with the field that its error is about."""
    named = f"{reply.field}: {reply.error}" if reply.field else reply.error
    return f"refused: {named}" if reply.error else "accepted"
