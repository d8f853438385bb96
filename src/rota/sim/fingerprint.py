"""A digest of everything that happened in a run. Two runs with the same digest behaved alike.

It rests on the wire's bytes and on stable codes (`codes.py`), so that renaming a class, a member of an enumeration or a
field, moving a module, or rewording a text for people leaves it as it is. What nodes are asked, order, write and send
counts, at which virtual time; what their machines look like inside does not.
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

# What happened, each with its own number.
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
        """A message, whole."""
        version = tuple(envelope.protocol_version)
        self._take(world, SENT, (source, target, MESSAGE_FATES[fate], version, message_bytes(envelope)))

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        """A node's core took an event."""
        self._take(world, STEPPED, node.name)

    def performed(self, world: OwningWorld, node: SimNode, effect: Effect) -> None:
        """An effect; a message of a node to itself with its content, as it passes no wire."""
        values = effect_values(effect)
        if isinstance(effect, SendMessage) and effect.peer == node.name:
            values = (values, message_bytes(effect.envelope))
        self._take(world, PERFORMED, (node.name, values))

    def wrote(self, world: OwningWorld, node: SimNode, write: Persist) -> None:
        """A write with its records and what the disk made of it."""
        records = tuple(record_values(record) for record in write.records)
        self._take(world, WROTE, (node.name, DISK_FATES[node.disk.fate], write.contract, records))

    def mined(self, world: OwningWorld, block: ChainBlock) -> None:
        """A block."""
        self._take(world, MINED, block_values(block))

    def removed(self, world: OwningWorld, blocks: tuple[ChainBlock, ...]) -> None:
        """Blocks that the chain took back."""
        self._take(world, REMOVED, tuple(block.hash for block in blocks))

    def started(self, world: OwningWorld, node: SimNode) -> None:
        """A node began to run."""
        self._take(world, STARTED, node.name)

    def stopped(self, world: OwningWorld, node: SimNode) -> None:
        """A node's process ended."""
        self._take(world, STOPPED, node.name)

    def _take(self, world: OwningWorld, kind: int, values: Plain) -> None:
        self._hash.update(_encode((world.now_ms, kind, values)))
