"""How many transitions one transaction holds: whatever is taken fits, and light ones always do."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.calldata import (
    COMMIT_GAS_MAX,
    LIGHT_LEAVES_MAX,
    PAYLOAD_BYTES_MAX,
    AuthCost,
    encode_payload,
    fitting,
    gas_bound,
    is_light,
)
from rota.model.types import Call, ContractAddress, IntentId, Leaf, Preparation, State, StateId, Transition

COMMITTER = ContractAddress("0x" + "5e" * 20)
PREPARATION = Preparation(COMMITTER, b"\x01" * 32)
ONE_SIGNER = AuthCost.of_signatures(1, 1)
# Every byte of it is paid for in full.
LATEST_S = 2**64 - 1
STATES_MAX = 15


def transition(
    number: int, inputs: int = 0, reads: int = 0, outputs: int = 0, info: int = 0, calls: tuple[Call, ...] = ()
) -> Transition:
    """One on a page of its own that refers to states of as many other transitions."""
    leaf = Leaf(b"\x07" * 24 + number.to_bytes(8, "big"))
    others = tuple(StateId(Leaf(bytes((1 + each,)) * 24 + number.to_bytes(8, "big")), each) for each in range(30))
    made = tuple(State(StateId(leaf, each), bytes((1 + each,)) * 32, ()) for each in range(outputs))
    words = tuple(bytes((200 + each,)) * 32 for each in range(info))
    intent = IntentId(number.to_bytes(8, "big") + b"\x01" * 8)
    return Transition(intent, leaf, others[:inputs], others[15 : 15 + reads], made, words, calls=calls)


def call(gas: int, size: int) -> Call:
    return Call(COMMITTER, gas, b"\x01" * size)


class Shape(NamedTuple):
    """Transitions that are alike: how many, of how many inputs, reads, outputs and info, with which calls."""

    how_many: int
    words: tuple[int, int, int, int]
    calls: tuple[tuple[int, int], ...] = ()
    is_prepared: bool = False


def made_of(*shapes: Shape) -> tuple[Transition, ...]:
    made: list[Transition] = []
    for shape in shapes:
        calls = tuple(call(*each) for each in shape.calls)
        preparation = PREPARATION if shape.is_prepared else None
        for _ in range(shape.how_many):
            made.append(replace(transition(len(made), *shape.words, calls), preparation=preparation))
    return tuple(made)


counts = st.integers(0, STATES_MAX)
heavy_shapes = st.builds(
    Shape,
    st.integers(1, 12),
    st.tuples(counts, counts, counts, counts),
    st.lists(st.tuples(st.sampled_from([0, 10**5, 10**6, 7 * 10**6]), st.integers(0, 65_535)), max_size=3).map(tuple),
    st.booleans(),
)
light_shapes = st.builds(
    Shape,
    st.integers(1, 16),
    st.lists(st.integers(0, 3), max_size=6).map(lambda sorts: tuple(sorts.count(sort) for sort in range(4))),
    st.just(()),
    st.booleans(),
)
auths = st.integers(0, 32).flatmap(
    lambda count: st.integers(0, count).map(lambda threshold: AuthCost.of_signatures(count, threshold))
)


def fits(taken: tuple[Transition, ...], auth: AuthCost) -> bool:
    is_cheap = gas_bound(taken, LATEST_S, auth) <= COMMIT_GAS_MAX
    return is_cheap and len(encode_payload(taken, LATEST_S)) <= PAYLOAD_BYTES_MAX


# Each takes half of the gas and half of the bytes; together they need more memory than both apart.
TWO_THAT_JUST_FIT_ALONE = Shape(2, (0, 0, 0, 0), ((6_142_000, 59_000),))


@settings(max_examples=60, deadline=None)
@given(st.lists(light_shapes | heavy_shapes, min_size=1, max_size=4), auths)
@example([TWO_THAT_JUST_FIT_ALONE], ONE_SIGNER)
def test_whatever_is_taken_fits_into_one_transaction(shapes: list[Shape], auth: AuthCost) -> None:
    waiting = made_of(*shapes)
    count = fitting(waiting, auth)
    assert 1 <= count <= len(waiting)
    assert count == 1 or fits(waiting[:count], auth)


@settings(max_examples=30, deadline=None)
@given(st.lists(light_shapes, min_size=1, max_size=4), auths)
def test_as_many_light_ones_as_a_round_has_always_fit(shapes: list[Shape], auth: AuthCost) -> None:
    light = made_of(*shapes)
    assert len(light) <= LIGHT_LEAVES_MAX
    assert all(is_light(each) for each in light)
    assert fitting(light, auth) == len(light)
    assert fits(light, auth)


@pytest.mark.parametrize("words", [(6, 0, 0, 0), (0, 6, 0, 0), (0, 0, 6, 0), (0, 0, 0, 6)])
def test_the_heaviest_light_ones_fit_however_many_endorse_and_prepared_too(words: tuple[int, int, int, int]) -> None:
    auth = AuthCost.of_signatures(32, 32)
    prepared = made_of(Shape(LIGHT_LEAVES_MAX, words, is_prepared=True))
    assert fitting(prepared, auth) == LIGHT_LEAVES_MAX
    assert fits(prepared, auth)


def test_what_calls_or_has_many_words_is_not_light() -> None:
    assert is_light(transition(1, inputs=2, reads=1, outputs=2, info=1))
    assert not is_light(transition(1, inputs=2, reads=2, outputs=2, info=1))
    assert not is_light(transition(1, calls=(call(0, 0),)))


def test_more_light_ones_than_a_round_has_are_not_taken_without_counting() -> None:
    many = tuple(transition(number) for number in range(LIGHT_LEAVES_MAX + 1))
    assert fitting(many, ONE_SIGNER) == LIGHT_LEAVES_MAX


def test_one_is_taken_even_if_nothing_holds_it() -> None:
    huge = transition(1, calls=(call(COMMIT_GAS_MAX, 0),))
    assert fitting((huge, huge), ONE_SIGNER) == 1


def test_bytes_bound_a_round_too() -> None:
    long = tuple(transition(number, calls=(call(0, 50_000),)) for number in range(3))
    assert fitting(long, ONE_SIGNER) == 2
