"""The ring of a contract for display: places as fractions of the ring."""

from __future__ import annotations

from typing import Final

from rota.model.types import Contract, Mode, NodeName
from rota.sequencer.selection import RING_SIZE, places_of, rank_by_distance, ring_place
from rota.service.explain.ring import RingMember, RingPlaces, RingRange, RingView

RANGES_SHOWN: Final = 6
PLACES_SHOWN_MAX: Final = 48


def ring_of(contract: Contract, height: int) -> RingView:
    """Return the present range and those that follow it, with the places that decide them (protocol §2)."""
    if contract.mode is not Mode.RING:
        return RingView(contract.address, contract.virtual_nodes)
    committee = tuple(sorted(contract.committee))
    first = contract.range_at(height)
    return RingView(
        contract.address,
        contract.virtual_nodes,
        tuple(RingPlaces(member, _some_places(member, contract.virtual_nodes)) for member in committee),
        tuple(_range_of(contract, committee, number) for number in range(first, first + RANGES_SHOWN)),
    )


def _range_of(contract: Contract, committee: tuple[NodeName, ...], number: int) -> RingRange:
    point = ring_place(f"{contract.address.lower()}/{number}")
    ranked = rank_by_distance(committee, point, contract.virtual_nodes)
    members = tuple(_member(member, point, contract.virtual_nodes) for member in ranked)
    return RingRange(number, number * contract.range_size, point / RING_SIZE, members)


def _member(member: NodeName, point: int, virtual_nodes: int) -> RingMember:
    places = places_of(member, virtual_nodes, ring_place)

    def distance(place: int) -> int:
        return min((place - point) % RING_SIZE, (point - place) % RING_SIZE)

    nearest = min(places, key=distance)
    return RingMember(member, nearest / RING_SIZE, distance(nearest) / RING_SIZE)


def _some_places(member: NodeName, virtual_nodes: int) -> tuple[float, ...]:
    """Return the member's first places by number: a fair sample, as places are pseudo-random."""
    shown = (ring_place(f"{member}#{index}") / RING_SIZE for index in range(min(virtual_nodes, PLACES_SHOWN_MAX)))
    return tuple(sorted(shown))
