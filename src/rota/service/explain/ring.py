"""The ring of a contract, for those who want to see why somebody leads (protocol §2).

Places are parts of the whole ring, from 0 to 1. A member stands at many places, of which some are shown; what counts is
the one that is nearest to the point of a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rota.model.types import ContractAddress, NodeName


@dataclass(frozen=True, slots=True)
class RingMember:
    """A member in one range: its nearest place, and how far that is from the point."""

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
    """The ring of a contract, and the present range with those that follow. Without a ring there is neither."""

    contract: ContractAddress
    virtual_nodes: int
    places: tuple[RingPlaces, ...] = ()
    ranges: tuple[RingRange, ...] = ()


class Loss(Enum):
    """Why nothing could be expected any more of one who coordinated."""

    CONNECTION = "the connection to it was lost"
    HEARTBEATS = "its heartbeats had stopped"
    LEDGER = "it had lost the ledger"
    UNREACHED = "another node could not reach it"


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Another node coordinates. Without a former one it was seen for the first time; one that was lost has failed."""

    contract: ContractAddress
    at_ms: int
    former: NodeName | None
    leader: NodeName
    loss: Loss | None = None
