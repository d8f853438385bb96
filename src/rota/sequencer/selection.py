"""The ranking of nodes in a block range: a pure function that every node computes alike (protocol §2).

The members are on a ring of 2^64 places, each at many of them; a range of a contract is a point on
that ring; the member nearest to it, in either direction, coordinates, and the others follow by distance.
Removing a member therefore does not reorder the others, and contracts with one committee do not all have the
same leader. `sender` and `static` are rankings of length one: there is no second code path.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from rota.model.types import Contract, Mode, NodeName

RING_SIZE = 1 << 64
# Members whose places are in memory; at most 256 MiB, with as many places as a contract may have.
PLACES_KEPT_MAX: Final = 512

RingHash = Callable[[str], int]


def ring_place(text: str) -> int:
    """The place of a text on the ring: the first eight bytes, big-endian, of its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def ranking(contract: Contract, block_range: int, sender: NodeName) -> tuple[NodeName, ...]:
    """Return all nodes that may coordinate intents of `sender` in this range, most preferred first."""
    if contract.mode is Mode.SENDER:
        return (sender,)
    if contract.mode is Mode.STATIC:
        return contract.committee
    return _ranking_kept(contract.committee, contract.address, block_range, contract.virtual_nodes)


def rank_by_distance(
    committee: tuple[NodeName, ...],
    point: int,
    virtual_nodes: int,
    place: RingHash = ring_place,
    ring_size: int = RING_SIZE,
) -> tuple[NodeName, ...]:
    """Return the committee by the distance of each member's nearest place to the point; ties by name."""

    def distance(member: NodeName) -> tuple[int, NodeName]:
        places = places_of(member, virtual_nodes, place)
        return _distance_to_nearest(places, point, ring_size), member

    return tuple(sorted(committee, key=distance))


@lru_cache(maxsize=PLACES_KEPT_MAX)
def places_of(member: NodeName, virtual_nodes: int, place: RingHash) -> array[int]:
    """Return the places of a member; they depend on it alone, so they are cached per member, in eight bytes each."""
    return array("Q", sorted(place(f"{member}#{index}") for index in range(virtual_nodes)))


@lru_cache(maxsize=65536)
def _ranking_kept(
    committee: tuple[NodeName, ...], address: str, block_range: int, virtual_nodes: int
) -> tuple[NodeName, ...]:
    return rank_by_distance(committee, ring_place(f"{address.lower()}/{block_range}"), virtual_nodes)


def _distance_to_nearest(places: array[int], point: int, ring_size: int) -> int:
    """Binary search for the nearest place; the ring closes, so the first place is also the neighbour of the last."""
    after = bisect_left(places, point)
    neighbours = (places[after - 1], places[after % len(places)])
    return min(min((place - point) % ring_size, (point - place) % ring_size) for place in neighbours)
