"""Watching a node live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rota.model.types import ContractAddress, IntentId, NodeName
from rota.service.explain.interface import ContractSummary
from rota.service.operations.interface import PeerMeasurements


class Step(NamedTuple):
    """A milestone on a transaction's way; `by` is whose doing it was, where it was another node's."""

    milestone: str
    at_ms: int
    by: NodeName | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """How many heartbeats of a contract's coordinator came from a node."""

    contract: ContractAddress
    node: NodeName
    count: int


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """A transaction has come to a milestone; `state` is where it is at this node now, empty where it is no more.

    `by` is whose doing it was, where it was another node's. `steps` are all milestones since the last update. One that
    is given up is told of no more: there are too many to follow.
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
    """A round that this node submits: dispatched, or what the chain made of its transaction.

    `account` is the contract whose own account pays for it; without one it is the shared account.
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
    """How often a milestone was seen."""

    milestone: str
    count: int


@dataclass(frozen=True, slots=True)
class FeedUpdate:
    """What changed since the last one; a snapshot has all. With a gap something was left out before it.

    All milestones are counted. Transactions are told one by one as far as there is room; `transactions_omitted` are
    those that ended without having been told.
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
        """A snapshot, then what changes, at most once in an interval. `Rejected` when too many follow.

        What of transactions that are `opened` happens is always told; who watches may change it meanwhile.
        """
        ...
