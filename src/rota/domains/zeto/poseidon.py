"""Poseidon, the hash that is cheap in a circuit, with circomlib's parameters.

A permutation of t elements: full rounds, in which each element is raised to the fifth power, around partial rounds, in
which only the first is; a round adds constants before and multiplies by a matrix behind. The hash of t - 1 elements
puts them behind a capacity, which is 0 in circomlib, permutes, and is the first element of what comes out.

Constants and matrix come from the generator of the Poseidon paper (Grain, an LFSR of 80 bits whose start is made of the
parameters and whose output is thinned out by itself). They are worked out here when they are first wanted and checked
by published hashes in the tests; nothing has to be taken on trust.

Partial rounds are done in other coordinates. Only the first element passes the power, so constants of the others can
wait: they go through the matrix into the next round's, and one constant a round remains. What happens to the others is
linear, with the power as all that comes in and the next first element as all that goes out. Such a system has a form in
which the state is shifted by one place, and what comes in at the front is the power plus a fixed sum of the state; what
goes out is another fixed sum. So a partial round has 2t - 1 multiplications instead of t * t, by numbers that are the
same in each of them. Before and behind the partial rounds a matrix changes between the two coordinates. Circuit and
contract use the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import Final, TypeAlias

from rota.domains.zeto.field import ORDER, inverse

Vector: TypeAlias = tuple[int, ...]
Matrix: TypeAlias = tuple[Vector, ...]

FULL_ROUNDS: Final = 8
# By the number of elements that are permuted; the numbers that the paper's script gives for 128 bits of security.
PARTIAL_ROUNDS: Final = {2: 56, 3: 57, 4: 56, 5: 60, 6: 60}

_FIELD_BITS: Final = 254
_GRAIN_BITS: Final = 80
_GRAIN_TAPS: Final = (62, 51, 38, 23, 13, 0)
# The nearest tap is 18 bits away from the bit that is made, so that 18 can be made at once.
_GRAIN_STRIDE: Final = 18
_GRAIN_WARM_UP: Final = 160
_GRAIN_PIECE: Final = _GRAIN_STRIDE * 512


@dataclass(frozen=True, slots=True)
class Parameters:
    """All numbers of the permutation of `width` elements, in the form in which it is computed.

    `partial` has one constant a round. `corner` and `output` make the next first element of the power and of the
    others, `feedback` is what is added to the power at the front. `entering` and `leaving` change the coordinates.
    """

    width: int
    before: tuple[Vector, ...]
    partial: Vector
    after: tuple[Vector, ...]
    matrix: Matrix
    corner: int
    output: Vector
    feedback: Vector
    entering: Matrix
    leaving: Matrix


def poseidon(*elements: int, capacity: int = 0) -> int:
    """The hash of one to five elements."""
    return permute((capacity, *elements))[0]


def permute(state: Sequence[int]) -> Vector:
    """All elements that come out of the permutation."""
    numbers = parameters(len(state))
    current = list(state)
    for constants in numbers.before:
        current = _full_round(current, constants, numbers.matrix)
    first, others = current[0], list(_times(numbers.entering, current[1:]))
    for constant in numbers.partial:
        power = _fifth_power(first + constant)
        first = (numbers.corner * power + sum(map(mul, numbers.output, others))) % ORDER
        others = [(power + sum(map(mul, numbers.feedback, others))) % ORDER, *others[:-1]]
    current = [first, *_times(numbers.leaving, others)]
    for constants in numbers.after:
        current = _full_round(current, constants, numbers.matrix)
    return tuple(current)


def _full_round(state: Sequence[int], constants: Vector, matrix: Matrix) -> list[int]:
    return list(_times(matrix, [_fifth_power(a + b) for a, b in zip(state, constants, strict=True)]))


def _fifth_power(element: int) -> int:
    """Three multiplications, which take half the time of `pow`."""
    square = element * element % ORDER
    return square * square % ORDER * element % ORDER


@cache
def parameters(width: int) -> Parameters:
    """The numbers of the permutation of so many elements."""
    partial_count = PARTIAL_ROUNDS[width]
    words = _grain_words(width, partial_count)
    rounds = [tuple(_constant(words) for _ in range(width)) for _ in range(FULL_ROUNDS + partial_count)]
    matrix = _cauchy(words, width)
    half = FULL_ROUNDS // 2
    partial, last = _postpone_constants(rounds[half : half + partial_count], rounds[half + partial_count], matrix)
    inner = tuple(row[1:] for row in matrix[1:])
    feedback, leaving = _shifting(inner, tuple(row[0] for row in matrix[1:]))
    return Parameters(
        width,
        tuple(rounds[:half]),
        partial,
        (last, *rounds[half + partial_count + 1 :]),
        matrix,
        matrix[0][0],
        _times(_transposed(leaving), matrix[0][1:]),
        feedback,
        _inverted(leaving),
        leaving,
    )


def _postpone_constants(rounds: Sequence[Vector], last: Vector, matrix: Matrix) -> tuple[Vector, Vector]:
    """The one constant of each partial round, and those of the full round behind them with all that waited."""
    kept = []
    waiting = (0,) * len(last)
    for constants in rounds:
        total = _plus(constants, waiting)
        kept.append(total[0])
        waiting = _times(matrix, (0, *total[1:]))
    return tuple(kept), _plus(last, waiting)


def _shifting(inner: Matrix, entrance: Vector) -> tuple[Vector, Matrix]:
    """The coordinates in which z' = inner z + entrance p is a shift: the sum at the front, and the way back.

    The sum's factors are those of the characteristic polynomial of `inner`, by the method of Faddeev and LeVerrier.
    Each column of the way back follows from the one before.
    """
    size = len(inner)
    feedback, work = [], _identity(size)
    for number in range(1, size + 1):
        work = _product(inner, work)
        factor = sum(work[place][place] for place in range(size)) * inverse(number) % ORDER
        feedback.append(factor)
        work = tuple(
            tuple((entry - factor * (row == column)) % ORDER for column, entry in enumerate(entries))
            for row, entries in enumerate(work)
        )
    columns = [entrance]
    for factor in feedback[:-1]:
        columns.append(_plus(_times(inner, columns[-1]), [-factor * entry for entry in entrance]))
    return tuple(feedback), _transposed(tuple(columns))


def _grain_words(width: int, partial_rounds: int) -> Iterator[int]:
    """Numbers of the field's length, the highest bit first."""
    # The register starts with the parameters: a prime field (1), and from the next line on the power x^5 (0), bits of
    # the field, width and rounds; then ones to the end.
    start = 1
    for number, bits in ((0, 4), (_FIELD_BITS, 12), (width, 12), (FULL_ROUNDS, 10), (partial_rounds, 10)):
        start = start << bits | number
    ones = 30
    kept = ""
    for piece in _thinned(start << ones | (1 << ones) - 1):
        kept += piece
        while len(kept) >= _FIELD_BITS:
            yield int(kept[:_FIELD_BITS], 2)
            kept = kept[_FIELD_BITS:]


def _thinned(state: int) -> Iterator[str]:
    """The register's bits in pairs: of those that begin with a one, the second bit."""
    made = ""
    is_warm = False
    while True:
        while len(made) < _GRAIN_PIECE:
            state, fresh = _grain_step(state)
            made += fresh
        usable = made if is_warm else made[_GRAIN_WARM_UP:]
        is_warm = True
        usable, made = usable[: len(usable) & ~1], usable[len(usable) & ~1 :]
        yield "".join(second for first, second in zip(usable[::2], usable[1::2], strict=True) if first == "1")


def _grain_step(state: int) -> tuple[int, str]:
    """Several bits at once; the oldest bit of the register is its highest."""
    fresh = 0
    for tap in _GRAIN_TAPS:
        fresh ^= state >> (_GRAIN_BITS - tap - _GRAIN_STRIDE)
    fresh &= (1 << _GRAIN_STRIDE) - 1
    return (state << _GRAIN_STRIDE | fresh) & (1 << _GRAIN_BITS) - 1, format(fresh, f"0{_GRAIN_STRIDE}b")


def _constant(words: Iterator[int]) -> int:
    """A round's constant is drawn until it is in the field."""
    return next(word for word in words if word < ORDER)


def _cauchy(words: Iterator[int], width: int) -> Matrix:
    """A matrix of 1 / (x + y), from numbers that are all different."""
    while True:
        drawn = [next(words) % ORDER for _ in range(2 * width)]
        columns = drawn[width:]
        sums = [(a + b) % ORDER for a in drawn[:width] for b in columns]
        if len(set(drawn)) == len(drawn) and all(sums):
            return tuple(tuple(inverse(a + b) for b in columns) for a in drawn[:width])


def _plus(left: Sequence[int], right: Sequence[int]) -> Vector:
    return tuple((a + b) % ORDER for a, b in zip(left, right, strict=True))


def _times(matrix: Matrix, vector: Sequence[int]) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) % ORDER for row in matrix)


def _product(left: Matrix, right: Matrix) -> Matrix:
    return _transposed(tuple(_times(left, column) for column in _transposed(right)))


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def _identity(size: int) -> Matrix:
    return tuple(tuple(int(row == column) for column in range(size)) for row in range(size))


def _inverted(matrix: Matrix) -> Matrix:
    """By elimination. A square part of a Cauchy matrix always has an inverse."""
    size = len(matrix)
    rows = [[*row, *unit] for row, unit in zip(matrix, _identity(size), strict=True)]
    for column in range(size):
        pivot = next(index for index in range(column, size) if rows[index][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = inverse(rows[column][column])
        rows[column] = [a * scale % ORDER for a in rows[column]]
        for index in range(size):
            if index != column:
                factor = rows[index][column]
                rows[index] = [(a - factor * b) % ORDER for a, b in zip(rows[index], rows[column], strict=True)]
    return tuple(tuple(row[size:]) for row in rows)
