"""One node of the simulated world: its core while it runs, its disk and clock, and its current faults."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rota.chain.events import Objection
from rota.machine.effects import Effect, Persist
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.types import ContractAddress, HeartbeatNumber, NodeName
from rota.node.node import Node
from rota.sim.clock import LocalClock
from rota.sim.disk import Disk
from rota.wire.messages import PROTOCOL_VERSION


class Refusing(NamedTuple):
    """The error with which a node's Ethereum node rejects transactions, and whether it forwards them all the same."""

    objection: Objection
    is_passed_on: bool


class Fork(NamedTuple):
    """Blocks that the chain removed, and that a node's Ethereum nodes show in turn with the chain."""

    blocks: tuple[ChainBlock, ...]
    random: Random


@dataclass(slots=True)
class SimNode:
    """One node of the world: its core while it runs, its disk, and its pending events and effects."""

    name: NodeName
    config: Config
    disk: Disk = field(default_factory=Disk)
    clock: LocalClock = field(default_factory=LocalClock)
    protocol_version: tuple[int, int] = PROTOCOL_VERSION
    core: Node | None = None
    is_hung: bool = False
    is_stopping: bool = False
    lags_at: int | None = None
    blocks_behind: int = 0
    index_delay_ms: int | None = None
    has_ledger: bool = True
    refusing: Refusing | None = None
    fork: Fork | None = None
    is_domain_hung: bool = False
    is_signer_hung: bool = False
    # The additional duration of a write; `None` while the disk is stuck and no write completes.
    disk_delay_ms: int | None = 0
    unanswered: list[Effect] = field(default_factory=list)
    inbox: deque[Event] = field(default_factory=deque)
    outbox: deque[Effect] = field(default_factory=deque)
    # Of the writes in the outbox: first the durable ones, then those being committed, then the pending ones.
    durable_count: int = 0
    writing_count: int = 0
    ordered_count: int = 0
    writing_since_ms: int = 0
    # The current write is on the disk, and its answer is outstanding.
    is_committed: bool = False
    # Writes that are on the disk and not reported to the judge yet.
    untold: deque[Persist] = field(default_factory=deque)
    # A write has taken so long that the node takes no steps.
    is_stalled: bool = False
    is_flushing: bool = False
    life: int = 0
    effects_to_live: int | None = None
    step_count: int = 0
    tick_at_ms: int | None = None
    heartbeats_seen: dict[ContractAddress, HeartbeatNumber] = field(default_factory=dict)

    @property
    def takes_steps(self) -> bool:
        """Whether the node neither hangs nor waits for its disk."""
        return not self.is_hung and not self.is_stalled
