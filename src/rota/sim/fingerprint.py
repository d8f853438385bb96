"""A digest of everything that happened in a run, by which two runs are known to be the same."""

from __future__ import annotations

import hashlib

from rota.messages import Envelope
from rota.sim.world import Recorder, SimNode, World
from rota.types import NodeName


class Fingerprint(Recorder):
    """Hashes every message with its fate, every step, and everything else that is noted."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._hash.hexdigest()

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A message, whole."""
        self._take(world, f"{source}>{target} {fate} {envelope}")

    def stepped(self, world: World, node: SimNode) -> None:
        """Who was told something."""
        self._take(world, node.name)

    def noted(self, world: World, text: str) -> None:
        """Anything else."""
        self._take(world, text)

    def _take(self, world: World, text: str) -> None:
        self._hash.update(f"{world.now_ms} {text}\n".encode())
