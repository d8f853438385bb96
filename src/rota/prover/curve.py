"""BN254 as far as proofs need it: points, sums of multiples of them, pairings, and transforms over its scalars.

The arithmetic is that of arkworks, through `zksnake._algebra` (decision 130), which comes with the extra `zeto` and is
imported when it is first used. Callers that may run without it call `require_curve` first, whose error names the extra.

Points are written as the numbers of x and y, 32 bytes each, little-endian; all zeros is the point at infinity. A reader
checks that each is on its curve. That suffices for the first group; that a point of the second curve is in the second
group follows from the hash of the file it is read from (`key_files`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from rota import extras
from rota.domains.zeto.field import ORDER, inverse
from rota.prover.library_memory import COORDINATE_BYTES, FIELD_MODULUS, maker_of, numbers_of

G1_BYTES: Final = 2 * COORDINATE_BYTES
G2_BYTES: Final = 4 * COORDINATE_BYTES

# Points of the library, which has no types: of the first group and of the second.
G1: TypeAlias = Any
G2: TypeAlias = Any

# A generator of the field's units: its powers of two are all roots of unity.
_GENERATOR: Final = 5


class CurveMissing(RuntimeError):
    """The arithmetic of proofs is not installed."""


def require_curve() -> None:
    """Raise `CurveMissing` unless proofs can be made here; loads nothing."""
    if importlib.util.find_spec("zksnake") is None:
        raise CurveMissing(f"zero-knowledge proofs need the extra `zeto`: {extras.command('zeto')}")


def _curve() -> Any:  # noqa: ANN401 - the library has no types
    require_curve()
    from zksnake._algebra import ec_bn254

    return ec_bn254


def _transforms() -> Any:  # noqa: ANN401 - the library has no types
    require_curve()
    from zksnake._algebra import polynomial_bn254

    return polynomial_bn254


def multiples_of_first(factors: Sequence[int]) -> list[G1]:
    """Return the generator of the first group, times each of these."""
    curve = _curve()
    return list(curve.batch_multi_scalar_g1([curve.g1()] * len(factors), list(factors)))


def multiples_of_second(factors: Sequence[int]) -> list[G2]:
    curve = _curve()
    return list(curve.batch_multi_scalar_g2([curve.g2()] * len(factors), list(factors)))


def sum_in_first(points: Sequence[G1], factors: Sequence[int]) -> G1:
    """Return the sum of all points times their factors. Zero factors are left out, as passing them on costs more."""
    pairs = [pair for pair in zip(points, factors, strict=True) if pair[1]]
    return _curve().multiscalar_mul_g1([point for point, _ in pairs], [factor for _, factor in pairs])


def sum_in_second(points: Sequence[G2], factors: Sequence[int]) -> G2:
    pairs = [pair for pair in zip(points, factors, strict=True) if pair[1]]
    return _curve().multiscalar_mul_g2([point for point, _ in pairs], [factor for _, factor in pairs])


def are_pairings_equal(left: tuple[G1, G2], right: Sequence[tuple[G1, G2]]) -> bool:
    """Return whether one pairing is the product of others."""
    curve = _curve()
    product = curve.multi_pairing([first for first, _ in right], [second for _, second in right])
    return bool(curve.pairing(*left) == product)


def write_points(points: Sequence[G1] | Sequence[G2]) -> bytes:
    numbers = [number for point in points for number in numbers_of(point)]
    return b"".join(number.to_bytes(COORDINATE_BYTES, "little") for number in numbers)


def read_first(content: bytes) -> Iterator[G1]:
    """Yield the points of the first group in these bytes. `ValueError` when one is invalid."""
    make, infinity = _maker_of_first(), _curve().g1() * 0
    for start, (x, y) in _numbers(content, 2):
        if not x and not y:
            yield infinity
        elif (y * y - x * x * x - 3) % FIELD_MODULUS:
            raise ValueError(f"at byte {start} there is no point")
        else:
            yield make((x, y))


def read_second(content: bytes) -> Iterator[G2]:
    """Yield the points of the second curve, y^2 = x^3 + 3 / (9 + u), with u^2 = -1. `ValueError` as above."""
    make, infinity = _maker_of_second(), _curve().g2() * 0
    for start, numbers in _numbers(content, 4):
        x0, x1, y0, y1 = numbers
        if not any(numbers):
            yield infinity
            continue
        real = y0 * y0 - y1 * y1 - x0 * (x0 * x0 - 3 * x1 * x1) - _TWIST[0]
        imaginary = 2 * y0 * y1 - x1 * (3 * x0 * x0 - x1 * x1) - _TWIST[1]
        if real % FIELD_MODULUS or imaginary % FIELD_MODULUS:
            raise ValueError(f"at byte {start} there is no point")
        yield make(numbers)


# 3 / (9 + u) = 3 * (9 - u) / 82
_TWIST: Final = tuple(factor * pow(82, -1, FIELD_MODULUS) % FIELD_MODULUS for factor in (27, -3))


def _numbers(content: bytes, count: int) -> Iterator[tuple[int, list[int]]]:
    size = count * COORDINATE_BYTES
    for start in range(0, len(content), size):
        places = range(start, start + size, COORDINATE_BYTES)
        numbers = [int.from_bytes(content[place : place + COORDINATE_BYTES], "little") for place in places]
        if max(numbers) >= FIELD_MODULUS:
            raise ValueError(f"at byte {start} there is no point: a number is too large")
        yield start, numbers


@cache
def _maker_of_first() -> Callable[[Sequence[int]], G1]:
    """Return the fast maker, or else the library's constructor, which checks each point again and takes longer."""
    return maker_of(_curve().g1()) or (lambda numbers: _curve().PointG1(*numbers))


@cache
def _maker_of_second() -> Callable[[Sequence[int]], G2]:
    return maker_of(_curve().g2()) or (lambda numbers: _curve().PointG2(*numbers))


def transform(coefficients: Sequence[int], size: int) -> list[int]:
    """Return the values of a polynomial at all `size` roots of unity."""
    return list(_transforms().fft(list(coefficients), size))


def transform_back(values: Sequence[int], size: int) -> list[int]:
    """Return the coefficients of the polynomial that has these values at the roots of unity."""
    return list(_transforms().ifft(list(values), size))


def root_of_unity(size: int) -> int:
    """Return the first of the roots that `transform` goes through, after one."""
    return pow(_GENERATOR, (ORDER - 1) // size, ORDER)


def values_of_lagrange(size: int, point: int) -> list[int]:
    """Return the values at a point of the polynomials that are one at one root of unity and zero at the others."""
    root = root_of_unity(size)
    scale = (pow(point, size, ORDER) - 1) * inverse(size) % ORDER
    values, power = [], 1
    for _ in range(size):
        values.append(scale * power % ORDER * inverse(point - power) % ORDER)
        power = power * root % ORDER
    return values
