"""The parts that circuits are made of: the hash, a multiple of the base point, and one of four.

Each computes in constraints what a module beside it computes in numbers, in the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from rota.domains.zeto.babyjubjub import BASE, ZERO, A, D, Point, add
from rota.domains.zeto.constraints import System, W
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.poseidon import Matrix, Vector, parameters


def poseidon(system: System[W], elements: Sequence[W], capacity: int = 0) -> W:
    """The hash of these elements: three constraints for each fifth power, and none for all the rest."""
    numbers = parameters(len(elements) + 1)
    opening, *rest = numbers.before
    # What becomes of the capacity in the first round is known beforehand.
    powers = [system.constant(pow(capacity + opening[0], 5, ORDER))]
    powers += [_fifth_power(system, a + system.constant(b)) for a, b in zip(elements, opening[1:], strict=True)]
    state = [_sum(system, row, powers) for row in numbers.matrix]
    for constants in rest:
        state = _full_round(system, state, constants, numbers.matrix)
    first, others = state[0], [_sum(system, row, state[1:]) for row in numbers.entering]
    for constant in numbers.partial:
        power = _fifth_power(system, first + system.constant(constant))
        first = power * numbers.corner + _sum(system, numbers.output, others)
        others = [power + _sum(system, numbers.feedback, others), *others[:-1]]
    state = [first, *(_sum(system, row, others) for row in numbers.leaving)]
    for constants in numbers.after:
        state = _full_round(system, state, constants, numbers.matrix)
    return state[0]


def multiple_of_base(system: System[W], bits: Sequence[W]) -> tuple[W, W]:
    """The point whose scalar has these bits: two bits at a time choose what is added."""
    assert len(bits) % 2 == 0, "bits come in pairs"
    pairs = zip(bits[::2], bits[1::2], strict=True)
    addends = [_one_of_four(system, pair, _multiples(number)) for number, pair in enumerate(pairs)]
    total = addends[0]
    for addend in addends[1:]:
        total = _add(system, total, addend)
    return total


def require_one_of(system: System[W], element: W, candidates: Sequence[W]) -> None:
    """The element is one of these: a product of all differences is zero."""
    *firsts, last = candidates
    product = system.constant(1)
    for candidate in firsts:
        product = system.product(product, candidate - element)
    system.require(product, last - element, system.constant(0))


def chosen(system: System[W], switch: W, when_on: W, when_off: W) -> W:
    """One of two, by a switch."""
    return when_off + system.product(switch, when_on - when_off)


def _full_round(system: System[W], state: Sequence[W], constants: Vector, matrix: Matrix) -> list[W]:
    powers = [_fifth_power(system, a + system.constant(b)) for a, b in zip(state, constants, strict=True)]
    return [_sum(system, row, powers) for row in matrix]


def _fifth_power(system: System[W], element: W) -> W:
    square = system.product(element, element)
    return system.product(system.product(square, square), element)


def _sum(system: System[W], factors: Sequence[int], elements: Sequence[W]) -> W:
    total = system.constant(0)
    for factor, element in zip(factors, elements, strict=True):
        total = total + element * factor
    return system.reduced(total)


def _add(system: System[W], left: tuple[W, W], right: tuple[W, W]) -> tuple[W, W]:
    """The sum of two points, as in `babyjubjub.add`: six constraints, and no exceptions."""
    (left_x, left_y), (right_x, right_y) = left, right
    cross, other = system.product(left_x, right_y), system.product(left_y, right_x)
    both = system.product(left_y - left_x * A, right_x + right_y)
    mixed = system.product(cross, other) * D
    one = system.constant(1)
    return system.quotient(cross + other, one + mixed), system.quotient(both + cross * A - other, one - mixed)


def _one_of_four(system: System[W], bits: tuple[W, W], points: tuple[Point, ...]) -> tuple[W, W]:
    """One of four constant points, by two bits."""
    both = system.product(bits[0], bits[1])
    columns = zip(*((point.x, point.y) for point in points), strict=True)
    x, y = (
        system.constant(a) + bits[0] * (b - a) + bits[1] * (c - a) + both * (d - c - b + a) for a, b, c, d in columns
    )
    return x, y


@cache
def _multiples(number: int) -> tuple[Point, ...]:
    """0, 1, 2 and 3 times the base point times 4^number."""
    unit = add(_multiples(number - 1)[-1], _multiples(number - 1)[1]) if number else BASE
    double = add(unit, unit)
    return ZERO, unit, double, add(double, unit)
