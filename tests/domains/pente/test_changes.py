"""Changes are written in one way, and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.base import Rejected
from rota.domains.pente.changes import pack_predecessor, pack_slots, unpack_predecessor, unpack_slots
from rota.model.types import Leaf, StateId

WORDS = st.integers(0, 2**256 - 1)


@given(st.dictionaries(WORDS, WORDS, max_size=20))
def test_slots_are_read_back(slots: dict[int, int]) -> None:
    packed = pack_slots(slots)
    assert unpack_slots(packed) == slots
    assert pack_slots(dict(reversed(slots.items()))) == packed


@given(st.binary(max_size=200))
def test_what_reads_as_slots_is_written_just_so(packed: bytes) -> None:
    try:
        slots = unpack_slots(packed)
    except Rejected:
        return
    assert pack_slots(slots) == packed


@given(st.dictionaries(WORDS, WORDS, min_size=1, max_size=3), st.integers(1, 33))
def test_slots_that_are_cut_doubled_or_go_on_are_refused(slots: dict[int, int], cut_bytes: int) -> None:
    packed = pack_slots(slots)
    last_bytes = len(pack_slots({max(slots): slots[max(slots)]}))
    for false in (packed[: -min(cut_bytes, last_bytes - 1)], packed + packed, packed + b"\0"):
        with pytest.raises(Rejected):
            unpack_slots(false)


def test_small_values_take_few_bytes() -> None:
    assert len(pack_slots({7: 0})) == 33
    assert len(pack_slots({7: 255})) == 34
    assert len(pack_slots({7: 2**256 - 1})) == 65


def test_predecessor_is_read_back() -> None:
    state = StateId(Leaf(b"l" * 32), 7)
    assert unpack_predecessor(pack_predecessor(state)) == state
    assert unpack_predecessor(pack_predecessor(None)) is None
    with pytest.raises(Rejected, match="must be 33 bytes"):
        unpack_predecessor(bytes(32))
