"""The sequencer's work, and its reasons for waiting."""

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
    """The role in which this node knows a transaction."""

    SENDER = "sender"
    COORDINATOR = "coordinator"
    OBSERVER = "observer"


@dataclass(frozen=True, slots=True)
class MissingEndorser:
    """An endorser that has not signed since this time, its last answer, and the node that reported it."""

    node: NodeName
    since_ms: int
    said: str
    told_by: NodeName


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a transaction is and what that means, what it waits for since when, and which nodes block it.

    The time is not known for transactions that ended in an earlier run. A deployment has no contract before it ends.
    `operators` are the nodes whose operators have not answered to it, each with the time of the question. `missing` are
    the endorsers that have not signed it.
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
    """The number of transactions in one state."""

    state: str
    count: int


def counts_of(order: type[Enum], states: Iterable[Enum]) -> tuple[StateCount, ...]:
    """Return the number in each state, in the order in which states are passed."""
    counted = Counter(states)
    return tuple(StateCount(str(state.value), counted[state]) for state in order if counted[state])


@dataclass(frozen=True, slots=True)
class ContractSummary:
    """One contract in a list. `is_loaded`: whether its sequencer is in memory; one that is not has no states."""

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
    """The coordinator of a contract as this node sees it, and this node's work for it.

    `active_since_ms` is the time since which this node follows that coordinator. `sending` counts its users'
    transactions, `coordinating` those that it coordinates, by the states of the two machines, in the order in which
    they are passed.
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
    """The sequencer's work, and its reasons for waiting."""

    async def explain(self, intent: IntentId) -> Explanation | None:
        """Explain where a transaction is, also when it has ended; None when this node does not know it."""
        ...

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        """Return the status of a contract; None when this node does not have it."""
        ...

    async def contracts(self, after: ContractAddress | None, limit: int) -> tuple[ContractSummary, ...]:
        """Return this node's contracts by address, those after this one, at most `limit`."""
        ...

    async def ring(self, contract: ContractAddress) -> RingView | None:
        """Return the committee's ring and the leaders of the next ranges; None when this node does not have it."""
        ...

    async def leaders(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Return the changes of its coordinator in this run of the node, the oldest first, as far as remembered."""
        ...
