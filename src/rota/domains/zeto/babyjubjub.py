"""BabyJubJub, the curve whose points a circuit can count with (EIP-2494): a x² + y² = 1 + d x² y².

A coin belongs to a point. Whoever knows the scalar of that point owns the coin: point = scalar * BASE. The addition
below has no exceptions, as d is no square: it adds any two points, equal, opposite or none at all, and so does its
circuit.

A scalar is below 2^250, which is less than the order of BASE. So a point has at most one scalar. With two of them a
coin would have two nullifiers, and its owner would spend it twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.zeto.field import ORDER, inverse, is_element

A: Final = 168700
D: Final = 168696
# The order of BASE: a prime, more than 2^250.
BASE_ORDER: Final = 2736030358979909402780800718157159386076813972158567259200215660948447373041
SCALAR_BITS: Final = 250

_POINT_BYTES: Final = 32
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
    """A multiple of a point. The time that it takes tells of the scalar: see docs/zeto.md."""
    result, double = ZERO, point
    while scalar:
        if scalar & 1:
            result = add(result, double)
        double = add(double, double)
        scalar >>= 1
    return result


def key_of(scalar: int) -> Point:
    """The key of the owner that knows this scalar."""
    assert 0 < scalar < 1 << SCALAR_BITS, f"an owner's scalar is from 1 to 2^{SCALAR_BITS} - 1"
    return times(scalar, BASE)


def compress(point: Point) -> bytes:
    """A point in 32 bytes, little-endian: y, and in the highest bit whether x is in the upper half of the field."""
    is_upper = point.x > ORDER // 2
    return (point.y | (_SIGN if is_upper else 0)).to_bytes(_POINT_BYTES, "little")


def decompress(compressed: bytes) -> Point:
    """The point in 32 bytes. A `ValueError` when there is none."""
    if len(compressed) != _POINT_BYTES:
        raise ValueError(f"a point has {_POINT_BYTES} bytes, not {len(compressed)}")
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
