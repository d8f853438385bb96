"""Watching a node live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rota.model.types import ContractAddress, IntentId, NodeName
from rota.service.explain.interface import ContractSummary
from rota.service.operations.interface import PeerMeasurements


class Step(NamedTuple):
    """A milestone of a transaction; `by` is the other node that caused it, if any."""

    milestone: str
    at_ms: int
    by: NodeName | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """The number of heartbeats of a contract's coordinator that came from a node."""

    contract: ContractAddress
    node: NodeName
    count: int


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """A transaction reached a milestone; `state` is its present state at this node, empty if it is no longer there.

    `by` is the other node that caused it, if any. `steps` are all milestones since the last update. A transaction that
    is given up gets no more updates: there are too many to follow.
    """

    id: IntentId
    at_ms: int
    contract: ContractAddress | None = None
    milestone: str = ""
    state: str = ""
    by: NodeName | None = None
    detail: str = ""
    has_failed: bool = False
    steps: tuple[Step, ...] = ()
    is_given_up: bool = False


@dataclass(frozen=True, slots=True)
class RoundChange:
    """A round that this node submits: dispatched, or the result of its transaction on the chain.

    `account` is the contract whose own account pays for it; None for the shared account.
    """

    nonce: int
    state: str
    contract: ContractAddress | None = None
    digest: bytes = b""
    transaction_count: int = 0
    height: int | None = None
    gas_used: int | None = None
    at_ms: int = 0
    account: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class MilestoneCount:
    """The number of times that a milestone was seen."""

    milestone: str
    count: int


@dataclass(frozen=True, slots=True)
class FeedUpdate:
    """The changes since the last update; a snapshot has everything. With `has_gap`, some were left out before it.

    All milestones are counted. Transactions are listed one by one as far as there is room; `transactions_omitted`
    counts those that ended without having been listed.
    """

    number: int
    at_ms: int
    height: int
    is_snapshot: bool = False
    has_gap: bool = False
    contracts: tuple[ContractSummary, ...] = ()
    contracts_omitted: int = 0
    transactions: tuple[TransactionChange, ...] = ()
    transactions_omitted: int = 0
    rounds: tuple[RoundChange, ...] = ()
    peers: tuple[PeerMeasurements, ...] = ()
    counts: tuple[MilestoneCount, ...] = ()
    heartbeats: tuple[Heartbeats, ...] = ()


class Watching(Protocol):
    """Watching a node live."""

    def watch(self, interval_ms: int, opened: Container[IntentId] = ()) -> AsyncIterator[FeedUpdate]:
        """Yield a snapshot, then changes, at most once per interval. `Rejected` when too many callers follow.

        Changes of transactions that are `opened` are always included; the caller may change this set meanwhile.
        """
        ...
