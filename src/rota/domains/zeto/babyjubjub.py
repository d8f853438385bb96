"""BabyJubJub, the curve whose points a circuit can count with (EIP-2494): a x² + y² = 1 + d x² y².

A coin belongs to a point. Whoever knows the scalar of that point owns the coin: point = scalar * BASE. The addition
below has no exceptions, as d is no square: it adds any two points, equal, opposite or none at all, and so does its
circuit.

A scalar is below 2^250, which is less than the order of BASE. So a point has at most one scalar. With two of them a
coin would have two nullifiers, and its owner would spend it twice.

Multiples are counted with points that have a denominator of their own, x = X / Z and y = Y / Z, beside T = X Y / Z:
so a multiple needs one inversion and not one a step. It takes four bits of the scalar a step, and as many steps for
every secret: owners' scalars meet points that strangers choose (`encryption`). docs/zeto.md says what time still tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from rota.domains.zeto.field import ORDER, inverse, is_element

A: Final = 168700
D: Final = 168696
# The order of BASE: a prime, more than 2^250.
BASE_ORDER: Final = 2736030358979909402780800718157159386076813972158567259200215660948447373041
SCALAR_BITS: Final = 250

POINT_BYTES: Final = 32

_WINDOW_BITS: Final = 4
_WINDOW_MASK: Final = (1 << _WINDOW_BITS) - 1
# Enough for eight times the order of BASE, which has 251 bits.
_WINDOWS: Final = 64
_SIGN: Final = 1 << 255


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the curve, or two numbers that say so: `is_key` tells."""

    x: int
    y: int

    @property
    def is_on_curve(self) -> bool:
        squares = self.x * self.x, self.y * self.y
        in_field = is_element(self.x) and is_element(self.y)
        return in_field and (A * squares[0] + squares[1] - 1 - D * squares[0] * squares[1]) % ORDER == 0

    @property
    def is_key(self) -> bool:
        """Whether it can be the key of an owner: of the group of BASE, and not its zero."""
        return self.is_on_curve and self != ZERO and times(BASE_ORDER, self) == ZERO


ZERO: Final = Point(0, 1)
BASE: Final = Point(
    5299619240641551281634865583518297030282874472190772894086521144482721001553,
    16950150798460657717958625567821834550301663161624707787222815936182638968203,
)


def add(left: Point, right: Point) -> Point:
    """The sum of two points."""
    cross, other = left.x * right.y % ORDER, left.y * right.x % ORDER
    mixed = D * cross * other % ORDER
    # One inversion for both fractions, because it costs more than all the rest.
    both = inverse((1 + mixed) * (1 - mixed))
    x = (cross + other) * (1 - mixed) * both
    y = (left.y * right.y - A * left.x * right.x) * (1 + mixed) * both
    return Point(x % ORDER, y % ORDER)


def times(scalar: int, point: Point) -> Point:
    """A multiple of a point. The number of its steps does not depend on the scalar, up to 256 bits."""
    multiples = _multiples(_Fraction(point.x, point.y, 1, point.x * point.y % ORDER))
    result = _NOTHING
    for window in reversed(range(max(_WINDOWS, -(-scalar.bit_length() // _WINDOW_BITS)))):
        for _ in range(_WINDOW_BITS):
            result = _doubled(result)
        result = _added(result, multiples[scalar >> _WINDOW_BITS * window & _WINDOW_MASK])
    return _point(result)


def key_of(scalar: int) -> Point:
    """The key of the owner that knows this scalar."""
    assert 0 < scalar < 1 << SCALAR_BITS, f"an owner's scalar is from 1 to 2^{SCALAR_BITS} - 1"
    result = _NOTHING
    for window, multiples in enumerate(_multiples_of_base()):
        result = _added(result, multiples[scalar >> _WINDOW_BITS * window & _WINDOW_MASK])
    return _point(result)


def compress(point: Point) -> bytes:
    """A point in 32 bytes, little-endian: y, and in the highest bit whether x is in the upper half of the field."""
    is_upper = point.x > ORDER // 2
    return (point.y | (_SIGN if is_upper else 0)).to_bytes(POINT_BYTES, "little")


def decompress(compressed: bytes) -> Point:
    """The point in 32 bytes. A `ValueError` when there is none."""
    if len(compressed) != POINT_BYTES:
        raise ValueError(f"a point has {POINT_BYTES} bytes, not {len(compressed)}")
    number = int.from_bytes(compressed, "little")
    is_upper, y = bool(number & _SIGN), number & (_SIGN - 1)
    if not is_element(y):
        raise ValueError("the y of a point must be in the field")
    # x² = (1 - y²) / (a - d y²); the denominator is never zero, as a / d is no square.
    x = _square_root((1 - y * y) * inverse(A - D * y * y) % ORDER)
    if x is None or (x == 0 and is_upper):
        raise ValueError("no point has this y")
    return Point(ORDER - x if (x > ORDER // 2) is not is_upper else x, y)


def _square_root(square: int) -> int | None:
    """By Tonelli and Shanks: ORDER - 1 is an odd number times 2^28."""
    if square == 0:
        return 0
    if pow(square, (ORDER - 1) // 2, ORDER) != 1:
        return None
    odd, twos = (ORDER - 1) >> 28, 28
    # 5 is no square in this field.
    root_of_unity = pow(5, odd, ORDER)
    root, rest = pow(square, (odd + 1) // 2, ORDER), pow(square, odd, ORDER)
    while rest != 1:
        power, steps = rest, 0
        while power != 1:
            power, steps = power * power % ORDER, steps + 1
        factor = pow(root_of_unity, 1 << (twos - steps - 1), ORDER)
        root_of_unity, twos = factor * factor % ORDER, steps
        root, rest = root * factor % ORDER, rest * root_of_unity % ORDER
    return root


# Points with a denominator.


class _Fraction(NamedTuple):
    """The point (x / z, y / z); t is x y / z."""

    x: int
    y: int
    z: int
    t: int


_NOTHING: Final = _Fraction(0, 1, 1, 0)


def _added(left: _Fraction, right: _Fraction) -> _Fraction:
    """The sum, as `add` has it, over one denominator."""
    x1, y1, z1, t1 = left
    x2, y2, z2, t2 = right
    xs, ys = x1 * x2 % ORDER, y1 * y2 % ORDER
    mixed, both = D * t1 * t2 % ORDER, z1 * z2 % ORDER
    above = ((x1 + y1) * (x2 + y2) - xs - ys) % ORDER
    less, more, upright = both - mixed, both + mixed, ys - A * xs
    return _Fraction(above * less % ORDER, more * upright % ORDER, less * more % ORDER, above * upright % ORDER)


def _doubled(point: _Fraction) -> _Fraction:
    """The same point twice: by the equation of the curve 1 + d x² y² is a x² + y², so that T is not needed."""
    x, y, z, _ = point
    xs, ys = x * x % ORDER, y * y % ORDER
    above = (x + y) * (x + y) - xs - ys
    more, upright = A * xs + ys, ys - A * xs
    less = 2 * z * z - more
    return _Fraction(above * less % ORDER, more * upright % ORDER, less * more % ORDER, above * upright % ORDER)


def _multiples(point: _Fraction) -> list[_Fraction]:
    """Of a point none, one, two, and so on, as many as the bits of a step can say."""
    multiples = [_NOTHING]
    for _ in range(_WINDOW_MASK):
        multiples.append(_added(multiples[-1], point))
    return multiples


@cache
def _multiples_of_base() -> tuple[list[_Fraction], ...]:
    """For each step those of BASE at its place, so that nothing has to be doubled."""
    place, steps = _Fraction(BASE.x, BASE.y, 1, BASE.x * BASE.y % ORDER), []
    for _ in range(_WINDOWS):
        steps.append(_multiples(place))
        place = _added(steps[-1][-1], place)
    return tuple(steps)


def _point(fraction: _Fraction) -> Point:
    shrink = inverse(fraction.z)
    return Point(fraction.x * shrink % ORDER, fraction.y * shrink % ORDER)
