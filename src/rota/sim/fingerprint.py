"""A digest of everything that happened in a run. Two runs with the same digest behaved alike.

It is computed from wire bytes and stable codes (`codes.py`), so that renaming a class, a member of an enumeration or a
field, moving a module, or rewording a text for people does not change it. Inputs, effects, writes and messages of nodes
count, with their virtual times; the internal state of machines does not.
"""

from __future__ import annotations

import hashlib

import msgspec

from rota.machine.effects import Effect, Persist, SendMessage
from rota.model.blocks import ChainBlock
from rota.model.types import NodeName
from rota.sim.codes import DISK_FATES, MESSAGE_FATES, Plain, block_values, effect_values, message_bytes, record_values
from rota.sim.recorder import OwningWorld, Recorder
from rota.sim.sim_node import SimNode
from rota.wire.messages import Envelope

# The number of each kind of happening.
SENT, STEPPED, PERFORMED, WROTE, MINED, REMOVED, STARTED, STOPPED = range(1, 9)

_encode = msgspec.msgpack.Encoder().encode


class Fingerprint(Recorder):
    """Hashes every message with its fate, every step, effect and write, every block, and every start and stop."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._hash.hexdigest()

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """Add a message with its content and fate."""
        version = tuple(envelope.protocol_version)
        self._take(world, SENT, (source, target, MESSAGE_FATES[fate], version, message_bytes(envelope)))

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        """Add a step of a node's core."""
        self._take(world, STEPPED, node.name)

    def performed(self, world: OwningWorld, node: SimNode, effect: Effect) -> None:
        """Add an effect; with the content of a message that a node sends to itself, which passes no wire."""
        values = effect_values(effect)
        if isinstance(effect, SendMessage) and effect.peer == node.name:
            values = (values, message_bytes(effect.envelope))
        self._take(world, PERFORMED, (node.name, values))

    def wrote(self, world: OwningWorld, node: SimNode, write: Persist) -> None:
        """Add a write with its records and the disk's fate."""
        records = tuple(record_values(record) for record in write.records)
        self._take(world, WROTE, (node.name, DISK_FATES[node.disk.fate], write.contract, records))

    def mined(self, world: OwningWorld, block: ChainBlock) -> None:
        """Add a block."""
        self._take(world, MINED, block_values(block))

    def removed(self, world: OwningWorld, blocks: tuple[ChainBlock, ...]) -> None:
        """Add the blocks that the chain removed."""
        self._take(world, REMOVED, tuple(block.hash for block in blocks))

    def started(self, world: OwningWorld, node: SimNode) -> None:
        """Add the start of a node."""
        self._take(world, STARTED, node.name)

    def stopped(self, world: OwningWorld, node: SimNode) -> None:
        """Add the end of a node's run."""
        self._take(world, STOPPED, node.name)

    def _take(self, world: OwningWorld, kind: int, values: Plain) -> None:
        self._hash.update(_encode((world.now_ms, kind, values)))
