"""Poseidon: the hashes that circomlib publishes, and the short form of the permutation against the long one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.zeto import poseidon as module
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.poseidon import FULL_ROUNDS, PARTIAL_ROUNDS, permute, poseidon

PUBLISHED = {
    1: 18586133768512220936620570745912940619677854269274689475585506675881198879027,
    2: 7853200120776062878684798364095072458815029376092732009249414926327459813530,
    3: 6542985608222806190361240322586112750744169038454362455181422643027100751666,
    4: 18821383157269793795438455681495246036402687001665670618754263018637548127333,
    5: 6183221330272524995739186171720101788151706631170188140075976616310159254464,
}
elements = st.integers(0, ORDER - 1)


@pytest.mark.parametrize("count", PUBLISHED)
def test_hashes_of_the_first_numbers_are_those_that_are_published(count: int) -> None:
    assert poseidon(*range(1, count + 1)) == PUBLISHED[count]


@pytest.mark.slow
@given(st.lists(elements, min_size=2, max_size=6))
def test_partial_rounds_in_other_coordinates_come_to_the_same(state: list[int]) -> None:
    assert permute(state) == _permuted_at_length(state)


def test_the_capacity_tells_hashes_of_the_same_elements_apart() -> None:
    assert poseidon(1, 2, 3, 4) != poseidon(1, 2, 3, 4, capacity=1)


def _permuted_at_length(state: list[int]) -> tuple[int, ...]:
    """The permutation as its paper has it: all constants, and the whole matrix, in every round."""
    width = len(state)
    words = module._grain_words(width, PARTIAL_ROUNDS[width])
    count = FULL_ROUNDS + PARTIAL_ROUNDS[width]
    rounds = [[module._constant(words) for _ in range(width)] for _ in range(count)]
    matrix = module._cauchy(words, width)
    half = FULL_ROUNDS // 2
    for number, constants in enumerate(rounds):
        state = [a + b for a, b in zip(state, constants, strict=True)]
        is_full = number < half or number >= count - half
        state = [pow(a, 5, ORDER) if is_full or place == 0 else a for place, a in enumerate(state)]
        state = [sum(a * b for a, b in zip(row, state, strict=True)) % ORDER for row in matrix]
    return tuple(state)
