"""Who ranks where: the worked example of seed 1, the promises of protocol §2, and fairness measured."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.types import VIRTUAL_NODES_MAX, Contract, ContractAddress, Mode, NodeName
from rota.sequencer.selection import RING_SIZE, RingHash, places_of, rank_by_distance, ranking, ring_place

A, B, C, D = (NodeName(name) for name in "ABCD")
NODE1, NODE2, NODE3, NODE4 = (NodeName(f"node{number}") for number in range(1, 5))
OUTSIDER = NodeName("outsider")

DEGREES = 360
CIRCLE = {"A#0": 315, "B#0": 45, "C#0": 225, "D#0": 135}

FAIRNESS_RANGES = 20_000
FAIRNESS_SIZES = [2, 3, 5, 8, 16]
FAIRNESS_TOLERANCE = 0.15

deterministic = settings(derandomize=True, deadline=None, max_examples=100)


def contract_of(*committee: NodeName, mode: Mode = Mode.RING, number: int = 1, virtual_nodes: int = 1024) -> Contract:
    address = ContractAddress(f"0x{number:040x}")
    return Contract(address, committee, (), 0, mode=mode, virtual_nodes=virtual_nodes)


def standing_at(places: Mapping[str, int]) -> RingHash:
    """A hash that puts each text where the table says; a new function, so that no test meets kept places."""

    def place(text: str) -> int:
        return places[text]

    return place


def rank_on_circle(point: int, *committee: NodeName) -> tuple[NodeName, ...]:
    return rank_by_distance(committee, point, 1, standing_at(CIRCLE), DEGREES)


# Seed 1's worked example: four nodes on a circle of 360 degrees.


@pytest.mark.parametrize(("point", "leader"), [(310, A), (55, B), (120, D)])
def test_worked_example_of_seed_1_selects_a_then_b_then_d(point: int, leader: NodeName) -> None:
    assert rank_on_circle(point, A, B, C, D)[0] == leader


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        # A is 5 degrees away, C 85, B 95 across zero, D 175.
        (310, (A, C, B, D)),
        # B is 10 degrees away, D 80, A 100 across zero, C 170.
        (55, (B, D, A, C)),
        # D is 15 degrees away, B 75, C 105, A 165 across zero.
        (120, (D, B, C, A)),
        # A is 44 degrees away, B 46 across zero, C 134, D 136 across zero.
        (359, (A, B, C, D)),
        # B is 44 degrees away, A 46 across zero, D 134, C 136 across zero.
        (1, (B, A, D, C)),
    ],
)
def test_worked_example_of_seed_1_ranks_all_by_distance(point: int, expected: tuple[NodeName, ...]) -> None:
    assert rank_on_circle(point, A, B, C, D) == expected


def test_nearest_in_either_direction_leads() -> None:
    places = standing_at({"A#0": 100, "B#0": 200})
    assert rank_by_distance((A, B), 140, 1, places, DEGREES) == (A, B)
    assert rank_by_distance((A, B), 160, 1, places, DEGREES) == (B, A)


def test_distance_is_measured_across_zero_from_both_sides() -> None:
    places = standing_at({"A#0": 358, "B#0": 8})
    assert rank_by_distance((A, B), 1, 1, places, DEGREES) == (A, B)
    assert rank_by_distance((A, B), 4, 1, places, DEGREES) == (B, A)
    assert rank_by_distance((A, B), 359, 1, places, DEGREES) == (A, B)


def test_member_at_the_point_itself_leads() -> None:
    assert rank_on_circle(225, A, B, C, D)[0] == C


def test_members_at_one_distance_rank_by_name() -> None:
    assert rank_on_circle(0, D, C, B, A) == (A, B, C, D)
    assert rank_on_circle(180, D, C, B, A) == (C, D, A, B)


def test_member_counts_with_the_nearest_of_its_places() -> None:
    places = standing_at({"A#0": 10, "A#1": 200, "B#0": 30, "B#1": 350})
    assert rank_by_distance((A, B), 12, 2, places, DEGREES) == (A, B)
    assert rank_by_distance((A, B), 25, 2, places, DEGREES) == (B, A)
    assert rank_by_distance((A, B), 205, 2, places, DEGREES) == (A, B)
    assert rank_by_distance((A, B), 340, 2, places, DEGREES) == (B, A)


# On any ring. Small ones, so that ties, shared places and the way across zero come up all the time.


@dataclass(frozen=True)
class Ring:
    """A committee on a ring, and a point to rank it by."""

    committee: tuple[NodeName, ...]
    size: int
    virtual_nodes: int
    place: RingHash
    point: int

    def rank(self, *committee: NodeName) -> tuple[NodeName, ...]:
        return rank_by_distance(committee, self.point, self.virtual_nodes, self.place, self.size)


@st.composite
def rings(draw: st.DrawFn) -> Ring:
    size = draw(st.sampled_from([1, 2, 7, 12, 360, RING_SIZE]))
    anywhere = st.integers(0, size - 1)
    names = st.text("abcNODE0123456789-.", min_size=1, max_size=8).map(NodeName)
    committee = tuple(draw(st.lists(names, min_size=1, max_size=8, unique=True)))
    virtual_nodes = draw(st.integers(1, 6))
    places = {f"{member}#{index}": draw(anywhere) for member in committee for index in range(virtual_nodes)}
    return Ring(committee, size, virtual_nodes, standing_at(places), draw(anywhere))


def distance_over_all_places(ring: Ring, member: NodeName) -> int:
    """The shorter way to every one of the places: no search, no sorting, no neighbours."""
    places = [ring.place(f"{member}#{index}") for index in range(ring.virtual_nodes)]
    apart = [abs(place - ring.point) for place in places]
    return min(min(way, ring.size - way) for way in apart)


@deterministic
@given(rings())
def test_ranking_agrees_with_the_distance_over_all_places(ring: Ring) -> None:
    expected = sorted((distance_over_all_places(ring, member), member) for member in ring.committee)
    assert ring.rank(*ring.committee) == tuple(member for _, member in expected)


@deterministic
@given(rings())
def test_ranking_holds_every_member_exactly_once(ring: Ring) -> None:
    assert Counter(ring.rank(*ring.committee)) == Counter(ring.committee)


@deterministic
@given(rings(), st.data())
def test_order_in_which_the_committee_is_given_does_not_matter(ring: Ring, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(ring.committee))
    assert ring.rank(*shuffled) == ring.rank(*ring.committee)


@deterministic
@given(rings(), st.data())
def test_removing_a_member_keeps_the_order_of_the_others(ring: Ring, data: st.DataObject) -> None:
    removed = data.draw(st.sampled_from(ring.committee))
    others = [member for member in ring.committee if member != removed]
    expected = tuple(member for member in ring.rank(*ring.committee) if member != removed)
    assert ring.rank(*others) == expected


# The product's own ring: SHA-256 and 2^64 places.


def place_by_protocol(text: str) -> int:
    return int(hashlib.sha256(text.encode("utf-8")).hexdigest()[:16], 16)


def test_place_is_the_first_eight_bytes_of_sha_256() -> None:
    # The published digests of "abc" and of the empty text begin so.
    assert ring_place("abc") == 0xBA7816BF8F01CFEA
    assert ring_place("") == 0xE3B0C44298FC1C14


def test_member_stands_at_as_many_places_as_the_contract_says() -> None:
    places = places_of(NODE1, 1024, ring_place)
    assert sorted(place_by_protocol(f"node1#{index}") for index in range(1024)) == list(places)


def test_places_of_members_that_are_made_up_take_bounded_memory() -> None:
    kept_max = places_of.cache_parameters()["maxsize"]
    assert kept_max is not None
    assert kept_max * VIRTUAL_NODES_MAX * places_of(NODE1, 1024, ring_place).itemsize <= 256 * 1024 * 1024


@pytest.mark.parametrize("virtual_nodes", [1, 3, 1024])
@pytest.mark.parametrize("block_range", [0, 1, 9, 10, 123_456_789])
def test_ranking_is_what_the_protocol_says_word_for_word(block_range: int, virtual_nodes: int) -> None:
    contract = contract_of(NODE1, NODE2, NODE3, NODE4, number=0xABCDEF, virtual_nodes=virtual_nodes)
    point = place_by_protocol(f"0x0000000000000000000000000000000000abcdef/{block_range}")

    def distance(member: NodeName) -> int:
        places = [place_by_protocol(f"{member}#{index}") for index in range(virtual_nodes)]
        return min(min((place - point) % 2**64, (point - place) % 2**64) for place in places)

    expected = tuple(sorted(contract.committee, key=lambda member: (distance(member), member)))
    assert ranking(contract, block_range, NODE1) == expected


def test_ranking_of_a_known_committee_never_changes() -> None:
    """Nodes of different versions must agree: a change here would be a change of the protocol."""
    contract = contract_of(NODE1, NODE2, NODE3, NODE4)
    assert [ranking(contract, block_range, NODE1) for block_range in range(4)] == [
        (NODE2, NODE3, NODE1, NODE4),
        (NODE2, NODE1, NODE4, NODE3),
        (NODE3, NODE4, NODE1, NODE2),
        (NODE1, NODE2, NODE4, NODE3),
    ]
    assert ranking(contract, 10**9, NODE1) == (NODE3, NODE2, NODE4, NODE1)


def test_case_of_the_address_does_not_matter() -> None:
    lower = contract_of(NODE1, NODE2, NODE3, NODE4, number=0xABCDEF)
    upper = replace(lower, address=ContractAddress("0x" + lower.address[2:].upper()))
    for block_range in range(20):
        assert ranking(upper, block_range, NODE1) == ranking(lower, block_range, NODE1)


@deterministic
@given(st.permutations([NODE1, NODE2, NODE3, NODE4]), st.integers(0, 10**9))
def test_contract_ranks_alike_in_whatever_order_its_committee_is_given(
    committee: list[NodeName], block_range: int
) -> None:
    expected = ranking(contract_of(NODE1, NODE2, NODE3, NODE4), block_range, NODE1)
    assert ranking(contract_of(*committee), block_range, NODE1) == expected


@deterministic
@given(st.sampled_from([NODE1, NODE2, NODE3, NODE4]), st.integers(0, 10**9))
def test_contract_without_a_member_keeps_the_order_of_the_others(removed: NodeName, block_range: int) -> None:
    everybody = (NODE1, NODE2, NODE3, NODE4)
    others = tuple(member for member in everybody if member != removed)
    before = ranking(contract_of(*everybody), block_range, NODE1)
    after = ranking(contract_of(*others), block_range, NODE1)
    assert after == tuple(member for member in before if member != removed)


@deterministic
@given(st.integers(1, 1000), st.integers(0, 10**7))
def test_ranking_is_the_same_for_every_height_of_a_range(range_size: int, block_range: int) -> None:
    contract = replace(contract_of(NODE1, NODE2, NODE3, NODE4), range_size=range_size)
    first, last = block_range * range_size, (block_range + 1) * range_size - 1
    expected = ranking(contract, block_range, NODE1)
    for height in (first, (first + last) // 2, last):
        assert ranking(contract, contract.range_at(height), NODE1) == expected
    assert contract.range_at(last + 1) == block_range + 1


def test_ranking_does_not_depend_on_who_sends() -> None:
    contract = contract_of(NODE1, NODE2, NODE3, NODE4)
    for block_range in range(20):
        expected = ranking(contract, block_range, NODE1)
        assert ranking(contract, block_range, NODE4) == ranking(contract, block_range, OUTSIDER) == expected


# Fairness.


def leads_of(contract: Contract, ranges: int) -> Counter[NodeName]:
    return Counter(ranking(contract, block_range, NODE1)[0] for block_range in range(ranges))


def bank_name(number: int) -> str:
    return f"bank-{number:02d}.example.org"


def node_name(number: int) -> str:
    return f"node{number}"


@pytest.mark.parametrize("name", [node_name, bank_name])
@pytest.mark.parametrize("members", FAIRNESS_SIZES)
def test_every_member_leads_its_share_of_ranges(members: int, name: Callable[[int], str]) -> None:
    committee = tuple(NodeName(name(number)) for number in range(1, members + 1))
    leads = leads_of(contract_of(*committee), FAIRNESS_RANGES)
    share = FAIRNESS_RANGES / members
    for member in committee:
        assert abs(leads[member] - share) <= FAIRNESS_TOLERANCE * share, (member, leads[member], share)


def test_contracts_with_one_committee_pick_different_leaders() -> None:
    leaders = Counter(
        ranking(contract_of(NODE1, NODE2, NODE3, NODE4, number=number), 0, NODE1)[0] for number in range(400)
    )
    assert sorted(leaders) == [NODE1, NODE2, NODE3, NODE4]
    assert min(leaders.values()) >= 60


def test_two_contracts_agree_on_a_leader_no_more_often_than_by_chance() -> None:
    first, second = (contract_of(NODE1, NODE2, NODE3, NODE4, number=number) for number in (1, 2))
    alike = sum(ranking(first, number, NODE1)[0] == ranking(second, number, NODE1)[0] for number in range(1000))
    assert 200 <= alike <= 300


# The modes: one function, and in two of them a ranking of length one.


def test_every_node_coordinates_its_own_in_sender_mode() -> None:
    contract = contract_of(NODE1, NODE2, NODE3, mode=Mode.SENDER)
    for block_range in range(5):
        assert ranking(contract, block_range, NODE2) == (NODE2,)
        assert ranking(contract, block_range, OUTSIDER) == (OUTSIDER,)


def test_one_fixed_node_coordinates_in_static_mode() -> None:
    contract = contract_of(NODE3, mode=Mode.STATIC)
    for block_range in range(5):
        assert ranking(contract, block_range, NODE2) == (NODE3,)
        assert ranking(contract, block_range, NODE3) == (NODE3,)


def test_committee_of_one_leads_always_in_ring_mode() -> None:
    contract = contract_of(NODE3)
    assert {ranking(contract, block_range, NODE1) for block_range in range(20)} == {(NODE3,)}


@deterministic
@given(st.sampled_from(list(Mode)), st.sampled_from([NODE1, NODE2, NODE3]), st.integers(0, 10**9))
def test_leader_is_the_first_of_a_ranking_that_is_never_empty(mode: Mode, sender: NodeName, block_range: int) -> None:
    committee = (NODE1,) if mode is Mode.STATIC else (NODE1, NODE2, NODE3)
    ranked = ranking(contract_of(*committee, mode=mode), block_range, sender)
    expected = {Mode.SENDER: [sender], Mode.STATIC: [NODE1], Mode.RING: [NODE1, NODE2, NODE3]}
    assert sorted(ranked) == expected[mode]
