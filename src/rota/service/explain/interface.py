"""What the sequencer does, and why it waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rota.model.types import ContractAddress, IntentId, Mode, NodeName, Rotation
from rota.service.explain.ring import LeaderChange, RingView
from rota.service.receipts.interface import Moment


class SequencerRole(Enum):
    """In which role this node knows of a transaction."""

    SENDER = "sender"
    COORDINATOR = "coordinator"
    OBSERVER = "observer"


@dataclass(frozen=True, slots=True)
class MissingEndorser:
    """An endorser that has not signed since then, what it answered last, and the node whose words these are."""

    node: NodeName
    since_ms: int
    said: str
    told_by: NodeName


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a transaction is and what that means, what it waits for since when, and which nodes are in the way.

    Since when is not known of what ended in an earlier life of the node. A deployment has no contract before it ends.
    `operators` are the nodes whose operators have not answered to it, each with when it was asked. `missing` are the
    endorsers that have not signed it.
    """

    id: IntentId
    role: SequencerRole
    state: str
    contract: ContractAddress | None = None
    since_ms: int | None = None
    waits_for: str = ""
    blocked_by: tuple[NodeName, ...] = ()
    detail: str = ""
    history: tuple[Moment, ...] = ()
    meaning: str = ""
    operators: tuple[tuple[NodeName, int], ...] = ()
    missing: tuple[MissingEndorser, ...] = ()


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many transactions are in one state."""

    state: str
    count: int


def counts_of(order: type[Enum], states: Iterable[Enum]) -> tuple[StateCount, ...]:
    """How many are in each state, in the order in which states are passed."""
    counted = Counter(states)
    return tuple(StateCount(str(state.value), counted[state]) for state in order if counted[state])


@dataclass(frozen=True, slots=True)
class ContractSummary:
    """One contract in a list. `is_loaded` tells whether its sequencer is in memory; a sleeping one has no states."""

    contract: ContractAddress
    domain: str
    mode: Mode
    is_loaded: bool
    coordinator_state: str = ""
    sender_state: str = ""
    active_coordinator: NodeName | None = None
    sending_count: int = 0
    coordinating_count: int = 0


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """Who coordinates a contract as this node sees it, and what this node does for it.

    `active_since_ms` is since when this node follows that coordinator. `sending` counts our users' transactions,
    `coordinating` those that we coordinate, by the states of the two machines, in the order in which they are passed.
    """

    contract: ContractAddress
    domain: str
    mode: Mode
    rotation: Rotation
    committee: tuple[NodeName, ...]
    endorsers: tuple[NodeName, ...]
    threshold: int
    height: int
    block_range: int
    range_size: int
    ranking: tuple[NodeName, ...]
    active_coordinator: NodeName | None
    active_since_ms: int | None
    coordinator_state: str
    coordinator_since_ms: int
    sender_state: str
    sending: tuple[StateCount, ...] = ()
    coordinating: tuple[StateCount, ...] = ()
    silent: tuple[NodeName, ...] = ()


class Sequencing(Protocol):
    """What the sequencer does, and why it waits."""

    async def explain(self, intent: IntentId) -> Explanation | None:
        """Where a transaction is, also when it has ended; nothing when this node does not know it."""
        ...

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        """How a contract stands; nothing when this node does not have it."""
        ...

    async def contracts(self, after: ContractAddress | None, limit: int) -> tuple[ContractSummary, ...]:
        """This node's contracts by address, those after this one, at most so many."""
        ...

    async def ring(self, contract: ContractAddress) -> RingView | None:
        """Where its committee stands, and who leads when; nothing when this node does not have it."""
        ...

    async def leaders(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Who has coordinated it in this life of the node, the oldest first, as far as that is remembered."""
        ...
