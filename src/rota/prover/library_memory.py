"""Makes points of the library from coordinates without its check, which multiplies each by the order of the group.

That check takes 0.1 and 0.3 ms a point, up to 20 s for a key, and the library has no constructor without it. A proving
key needs none: its content has the hash in the transcript, and each point is checked here to be on its curve.

A point of the library is a Python object that holds three coordinates, each a number times 2^256 (Montgomery's form) in
32 bytes. `maker_of` reads the generator's memory first. Only if it has this layout is the memory of points written,
each time of an object created for this; otherwise it returns None and the caller uses the library's constructor. Every
proof is verified after it was made (`workers`), by pairings that do not depend on this module.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

FIELD_MODULUS: Final = 21888242871839275222246405745257275088696311157297823662689037894645226208583
COORDINATE_BYTES: Final = 32
# The memory of a point besides its coordinates: Python's own header before them, and a flag for use after them.
_HEADER_BYTES: Final = object.__basicsize__
_IN_USE_BYTES: Final = 8
_MONTGOMERY: Final = (1 << 256) % FIELD_MODULUS

Maker: TypeAlias = Callable[[Sequence[int]], Any]


def maker_of(generator: Any) -> Maker | None:  # noqa: ANN401 - the library has no types
    """Return a function that makes points of the generator's group from x and y; None for an unknown memory layout."""
    numbers = numbers_of(generator)
    fresh = -generator
    one = [_MONTGOMERY, *[0] * (len(numbers) // 2 - 1)]
    size = COORDINATE_BYTES * (len(numbers) + len(one))
    end = _written(one)
    if sys.implementation.name != "cpython" or type(fresh).__basicsize__ != _HEADER_BYTES + size + _IN_USE_BYTES:
        return None
    expected = _montgomery(numbers_of(fresh)) + end
    if fresh is -generator or ctypes.string_at(id(fresh) + _HEADER_BYTES, size) != expected:
        return None

    def make(numbers: Sequence[int]) -> Any:  # noqa: ANN401 - the library has no types
        point = -generator
        ctypes.memmove(id(point) + _HEADER_BYTES, _montgomery(numbers) + end, size)
        return point

    return make


def numbers_of(point: Any) -> list[int]:  # noqa: ANN401 - the library has no types
    """Return the numbers of x and y: one each in the first group, two each in the second."""
    return [point.x, point.y] if isinstance(point.x, int) else [*point.x, *point.y]


def _montgomery(numbers: Sequence[int]) -> bytes:
    return _written([number * _MONTGOMERY % FIELD_MODULUS for number in numbers])


def _written(numbers: Sequence[int]) -> bytes:
    return b"".join([number.to_bytes(COORDINATE_BYTES, "little") for number in numbers])
