"""The shared values: what a contract refuses, how numbers order lives, and whose eyes see a state's bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.types import (
    NEVER_HEARD,
    Contract,
    ContractAddress,
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Party,
    RequestId,
    Rotation,
    State,
    StateId,
    Transition,
    node_of,
)

A, B, C = (NodeName(name) for name in "ABC")
ADDRESS = ContractAddress("0x" + "11" * 20)
RIGHT = Contract(ADDRESS, (A, B), (A, B), 2)
LEAF = Leaf(b"\x01" * 32)


def state(*distribution: NodeName, content: bytes | None = b"secret", output: int = 0) -> State:
    return State(StateId(LEAF, output), b"\x02" * 32, distribution, content)


# A contract's own configuration (protocol §2).


@pytest.mark.parametrize(
    ("field", "wrong", "message"),
    [
        ("committee", (), "committee: must be at least one node"),
        ("committee", (A, B, A), "committee: must be distinct nodes"),
        ("endorsers", (A, A), "endorsers: must be distinct nodes"),
        ("threshold", -1, "threshold: must be from 0 to 2"),
        ("threshold", 3, "threshold: must be from 0 to 2"),
        ("range_size", 0, "range_size: must be from 1 to 18446744073709551615 blocks"),
        ("range_size", 2**64, "range_size: must be from 1 to 18446744073709551615 blocks"),
        ("virtual_nodes", 0, "virtual_nodes: must be at least 1"),
    ],
)
def test_contract_refuses_a_wrong_value_by_name(field: str, wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        replace(RIGHT, **{field: wrong})  # type: ignore[arg-type]


def test_static_contract_has_exactly_one_coordinator() -> None:
    with pytest.raises(ValueError, match=r"^committee: must be one node in static mode$"):
        replace(RIGHT, mode=Mode.STATIC)
    assert replace(RIGHT, mode=Mode.STATIC, committee=(B,)).committee == (B,)


@pytest.mark.parametrize("mode", [Mode.RING, Mode.SENDER])
def test_other_modes_take_a_committee_of_any_size(mode: Mode) -> None:
    assert replace(RIGHT, mode=mode).committee == (A, B)
    assert replace(RIGHT, mode=mode, committee=(A,)).committee == (A,)


def test_contract_takes_the_least_that_makes_sense() -> None:
    least = Contract(ADDRESS, (A,), (), 0, range_size=1, virtual_nodes=1)
    assert (least.threshold, least.range_size, least.virtual_nodes) == (0, 1, 1)


def test_contract_is_taken_in_with_as_many_places_as_a_node_can_compute_at_once() -> None:
    assert RIGHT.virtual_nodes_max == 65_536
    many = tuple(NodeName(f"node{number}") for number in range(129))
    assert replace(RIGHT, committee=many).virtual_nodes_max == 1_016
    assert replace(RIGHT, committee=many, mode=Mode.SENDER).virtual_nodes_max == 65_536


def test_contract_takes_a_threshold_of_all_its_endorsers() -> None:
    assert replace(RIGHT, threshold=2).threshold == 2


def test_contract_is_sticky_ring_of_a_hundred_blocks_unless_told_otherwise() -> None:
    assert (RIGHT.mode, RIGHT.rotation) == (Mode.RING, Rotation.STICKY)
    assert (RIGHT.range_size, RIGHT.virtual_nodes) == (100, 1_024)


@pytest.mark.parametrize(("height", "expected"), [(0, 0), (99, 0), (100, 1), (199, 1), (200, 2)])
def test_range_is_the_height_divided_by_its_size(height: int, expected: int) -> None:
    assert RIGHT.range_at(height) == expected


def test_range_follows_the_contract_own_size() -> None:
    assert replace(RIGHT, range_size=7).range_at(100) == 14


# Names and numbers.


@pytest.mark.parametrize(
    ("party", "node"), [("alice@node1", "node1"), ("alice@home@node2", "node2"), ("node3", "node3")]
)
def test_node_of_a_party_stands_behind_its_last_at(party: str, node: str) -> None:
    assert node_of(Party(party)) == node


def test_a_later_life_is_the_greater_whatever_its_count() -> None:
    assert HeartbeatNumber(2, 1) > HeartbeatNumber(1, 1_000)
    assert DelegationNumber(2, 0) > DelegationNumber(1, 1_000)
    assert RequestId(2, 1) > RequestId(1, 1_000)


def test_every_heartbeat_is_later_than_none() -> None:
    assert HeartbeatNumber(1, 1) > NEVER_HEARD


# A private state's bytes reach no node outside its list (S8).


def test_node_on_the_list_sees_the_bytes() -> None:
    shown = state(A, B)
    assert shown.as_seen_by(B) is shown


def test_node_outside_the_list_sees_the_id_alone() -> None:
    hidden = state(A, B).as_seen_by(C)
    assert hidden.content is None
    assert (hidden.id, hidden.commitment, hidden.distribution) == (StateId(LEAF, 0), b"\x02" * 32, (A, B))


def test_state_without_bytes_has_nothing_to_hide() -> None:
    bare = state(A, content=None)
    assert bare.as_seen_by(C) is bare


def test_empty_content_is_content_too() -> None:
    assert state(A, content=b"").as_seen_by(C).content is None


def test_transition_hides_only_the_states_that_a_node_may_not_see() -> None:
    intent = IntentId(b"i" * 16)
    inputs, reads = (StateId(LEAF, 7),), (StateId(LEAF, 8),)
    ours, theirs = state(A, B), state(A, output=1)
    whole = Transition(intent, LEAF, inputs, reads, (ours, theirs), (b"info",), 1_600, b"signed")
    seen = whole.as_seen_by(B)
    assert seen == replace(whole, outputs=(ours, replace(theirs, content=None)))
    assert whole.outputs[1].content == b"secret"


def test_transition_that_a_node_may_see_whole_is_the_same_one() -> None:
    whole = Transition(IntentId(b"i" * 16), LEAF, outputs=(state(A, B), state(A)))
    assert whole.as_seen_by(A) is whole
