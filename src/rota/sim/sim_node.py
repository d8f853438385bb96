"""One node of the simulated world: its core while it runs, its disk and clock, and what hurts it at present."""

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
    """Why a node's Ethereum node refuses its transactions, and whether it passes them on all the same."""

    objection: Objection
    is_passed_on: bool


class Fork(NamedTuple):
    """Blocks that the chain took back, and that a node's Ethereum nodes show in turn with the chain."""

    blocks: tuple[ChainBlock, ...]
    random: Random


@dataclass(slots=True)
class SimNode:
    """One node of the world: its core while it runs, its disk, and what it is waiting to be told."""

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
    # How much longer than usual a write takes; `None` while the disk is stuck and none ends.
    disk_delay_ms: int | None = 0
    unanswered: list[Effect] = field(default_factory=list)
    inbox: deque[Event] = field(default_factory=deque)
    outbox: deque[Effect] = field(default_factory=deque)
    # Of the writes in the outbox: those that are durable, then those that are being committed, then those that wait.
    durable_count: int = 0
    writing_count: int = 0
    ordered_count: int = 0
    writing_since_ms: int = 0
    # The write under way is on the disk, and the disk has not answered.
    is_committed: bool = False
    # Writes that are on the disk, and of which the judge was not told.
    untold: deque[Persist] = field(default_factory=deque)
    # A write has taken so long that the node takes no step.
    is_stalled: bool = False
    is_flushing: bool = False
    life: int = 0
    effects_to_live: int | None = None
    step_count: int = 0
    tick_at_ms: int | None = None
    heartbeats_seen: dict[ContractAddress, HeartbeatNumber] = field(default_factory=dict)

    @property
    def takes_steps(self) -> bool:
        """It neither hangs nor waits for its disk."""
        return not self.is_hung and not self.is_stalled
