"""The ring of a contract, to show why a member leads (protocol §2).

Places are fractions of the ring, from 0 to 1. A member has many places, of which some are shown; the one nearest to the
point of a range counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rota.model.types import ContractAddress, NodeName


@dataclass(frozen=True, slots=True)
class RingMember:
    """A member in one range: its nearest place, and the distance of that from the point."""

    node: NodeName
    place: float
    distance: float


@dataclass(frozen=True, slots=True)
class RingRange:
    """A range of blocks: its point, and the members by rank."""

    number: int
    first_height: int
    point: float
    members: tuple[RingMember, ...]


@dataclass(frozen=True, slots=True)
class RingPlaces:
    """Some of the places of a member."""

    node: NodeName
    places: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RingView:
    """The ring of a contract, and the present range with those that follow. Both are empty without a ring."""

    contract: ContractAddress
    virtual_nodes: int
    places: tuple[RingPlaces, ...] = ()
    ranges: tuple[RingRange, ...] = ()


class Loss(Enum):
    """Why nothing could be expected of a coordinator any more."""

    CONNECTION = "the connection to it was lost"
    HEARTBEATS = "its heartbeats had stopped"
    LEDGER = "it had lost the ledger"
    UNREACHED = "another node could not reach it"


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A change of coordinator. `former` is None for the first one seen; `loss` is set if the former one failed."""

    contract: ContractAddress
    at_ms: int
    former: NodeName | None
    leader: NodeName
    loss: Loss | None = None
