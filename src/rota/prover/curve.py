"""BN254 as far as proofs need it: points, their sums with factors, pairings, and transforms over its scalars.

The arithmetic is that of arkworks, by way of `zksnake._algebra` (decision 130), which comes with the extra `zeto` and
is imported when it is first used. Whoever may be without it asks `require_curve` first: that error names the extra.

Points are written compressed, 32 and 64 bytes, as arkworks does. The library checks each point that it reads, which
takes 0.1 and 0.3 ms: most of the time in which a proving key is loaded.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from rota import extras
from rota.domains.zeto.field import ORDER, inverse

G1_BYTES: Final = 32
G2_BYTES: Final = 64

# Points of the library, which has no types of its own: of the first group, of the second, and of what pairings give.
G1: TypeAlias = Any
G2: TypeAlias = Any

# A generator of the field's units: its powers of two are all roots of unity.
_GENERATOR: Final = 5


class CurveMissing(RuntimeError):
    """The arithmetic of proofs is not installed."""


def require_curve() -> None:
    """`CurveMissing` unless proofs can be made here. Nothing is loaded yet."""
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
    """The generator of the first group, times each of these."""
    curve = _curve()
    return list(curve.batch_multi_scalar_g1([curve.g1()] * len(factors), list(factors)))


def multiples_of_second(factors: Sequence[int]) -> list[G2]:
    curve = _curve()
    return list(curve.batch_multi_scalar_g2([curve.g2()] * len(factors), list(factors)))


def sum_in_first(points: Sequence[G1], factors: Sequence[int]) -> G1:
    """The sum of all points times their factors. What is multiplied by zero is left out: passing it on costs more."""
    pairs = [pair for pair in zip(points, factors, strict=True) if pair[1]]
    return _curve().multiscalar_mul_g1([point for point, _ in pairs], [factor for _, factor in pairs])


def sum_in_second(points: Sequence[G2], factors: Sequence[int]) -> G2:
    pairs = [pair for pair in zip(points, factors, strict=True) if pair[1]]
    return _curve().multiscalar_mul_g2([point for point, _ in pairs], [factor for _, factor in pairs])


def are_pairings_equal(left: tuple[G1, G2], right: Sequence[tuple[G1, G2]]) -> bool:
    """Whether one pairing is the product of others."""
    curve = _curve()
    product = curve.multi_pairing([first for first, _ in right], [second for _, second in right])
    return bool(curve.pairing(*left) == product)


def write_points(points: Sequence[G1] | Sequence[G2]) -> bytes:
    return b"".join(bytes(point.to_bytes()) for point in points)


def read_first(content: bytes) -> Iterator[G1]:
    """The points of the first group that are written here. A `ValueError` when one of them is none."""
    return _read(_curve().PointG1.from_bytes, content, G1_BYTES)


def read_second(content: bytes) -> Iterator[G2]:
    return _read(_curve().PointG2.from_bytes, content, G2_BYTES)


def _read(read: Any, content: bytes, size: int) -> Iterator[Any]:  # noqa: ANN401 - the library has no types
    for start in range(0, len(content), size):
        try:
            yield read(content[start : start + size])
        except Exception as error:
            raise ValueError(f"what stands at byte {start} is not a point: {error}") from error


def transform(coefficients: Sequence[int], size: int) -> list[int]:
    """The values of a polynomial at all `size` roots of unity."""
    return list(_transforms().fft(list(coefficients), size))


def transform_back(values: Sequence[int], size: int) -> list[int]:
    """The coefficients of the polynomial that has these values at the roots of unity."""
    return list(_transforms().ifft(list(values), size))


def root_of_unity(size: int) -> int:
    """The first of the roots that `transform` goes through, after one."""
    return pow(_GENERATOR, (ORDER - 1) // size, ORDER)


def values_of_lagrange(size: int, point: int) -> list[int]:
    """The values at a point of the polynomials that are one at one root of unity and zero at the others."""
    root = root_of_unity(size)
    scale = (pow(point, size, ORDER) - 1) * inverse(size) % ORDER
    values, power = [], 1
    for _ in range(size):
        values.append(scale * power % ORDER * inverse(point - power) % ORDER)
        power = power * root % ORDER
    return values
