"""Ids of states for clients: 32 bytes that lead back to a leaf and a number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.digests import STATES_MAX
from rota.model.state_ids import shown_state_id, states_shown_as
from rota.model.types import Leaf, StateId

leaves = st.binary(min_size=32, max_size=32).map(Leaf)


@given(leaves, st.integers(0, STATES_MAX - 1))
def test_shown_id_has_32_bytes_and_leads_back_to_its_state(leaf: Leaf, output: int) -> None:
    state = StateId(leaf, output)
    shown = shown_state_id(state)
    assert len(shown) == 32
    meant = states_shown_as(shown)
    assert state in meant
    assert len(set(meant)) == len(meant) == STATES_MAX


@given(leaves)
def test_outputs_of_one_transition_have_ids_of_their_own_and_the_first_has_the_leaf(leaf: Leaf) -> None:
    shown = [shown_state_id(StateId(leaf, number)) for number in range(STATES_MAX)]
    assert len(set(shown)) == STATES_MAX
    assert shown[0] == leaf


@given(leaves, st.integers(0, 255))
def test_id_of_earlier_releases_is_read(leaf: Leaf, output: int) -> None:
    assert states_shown_as(leaf + bytes((output,))) == (StateId(leaf, output),)


@pytest.mark.parametrize("output", [STATES_MAX, 255])
def test_number_beyond_the_outputs_keeps_a_byte_of_its_own(output: int) -> None:
    assert shown_state_id(StateId(Leaf(b"l" * 32), output)) == b"l" * 32 + bytes((output,))


@pytest.mark.parametrize("size", [0, 31, 34])
def test_bytes_of_another_size_are_no_id(size: int) -> None:
    assert states_shown_as(bytes(size)) == ()
