"""Points as they are written in keys and read back, with and without the library's check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from zksnake._algebra import ec_bn254

from rota.domains.zeto.field import ORDER
from rota.prover import curve, library_memory
from rota.prover.curve import (
    G1_BYTES,
    G2_BYTES,
    are_pairings_equal,
    multiples_of_first,
    multiples_of_second,
    read_first,
    read_second,
    sum_in_first,
    write_points,
)

Read = Callable[[bytes], Iterator[Any]]
FACTORS = (1, 2, 7, ORDER - 1, 2**200 + 5, 0)
GROUPS = pytest.mark.parametrize(
    ("multiples", "read", "size"),
    [(multiples_of_first, read_first, G1_BYTES), (multiples_of_second, read_second, G2_BYTES)],
    ids=["first", "second"],
)


@pytest.fixture
def unknown_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another release of the library, whose objects are larger."""
    monkeypatch.setattr(library_memory, "_IN_USE_BYTES", 16)
    curve._maker_of_first.cache_clear()
    curve._maker_of_second.cache_clear()
    yield
    curve._maker_of_first.cache_clear()
    curve._maker_of_second.cache_clear()


def test_memory_of_the_installed_library_is_recognized() -> None:
    """Otherwise a key takes up to 20 s to read: `library_memory` has to learn how the library holds points."""
    assert library_memory.maker_of(ec_bn254.g1()) is not None
    assert library_memory.maker_of(ec_bn254.g2()) is not None


@GROUPS
def test_points_are_read_as_they_were_written(
    multiples: Callable[[Sequence[int]], list[Any]], read: Read, size: int
) -> None:
    points = multiples(FACTORS)
    written = write_points(points)
    assert len(written) == size * len(FACTORS)
    back = list(read(written))
    assert back == points
    assert [bytes(point.to_bytes()) for point in back] == [bytes(point.to_bytes()) for point in points]
    assert [point + points[1] for point in back] == [point + points[1] for point in points]


def test_points_that_were_read_compute_as_others_do() -> None:
    first, second = multiples_of_first((5, 6)), multiples_of_second((30,))
    read, (read_on_second,) = list(read_first(write_points(first))), read_second(write_points(second))
    assert sum_in_first(read, (3, 4)) == multiples_of_first((39,))[0]
    assert are_pairings_equal((read[0], read_on_second), [(read[1], multiples_of_second((25,))[0])])


@GROUPS
@pytest.mark.usefixtures("unknown_memory")
def test_library_whose_memory_is_unknown_constructs_the_points_itself(
    multiples: Callable[[Sequence[int]], list[Any]], read: Read, size: int
) -> None:
    assert library_memory.maker_of(ec_bn254.g1()) is None
    points = multiples(FACTORS)
    assert list(read(write_points(points))) == points
    assert size


@GROUPS
def test_numbers_that_are_not_on_the_curve_are_no_point(
    multiples: Callable[[Sequence[int]], list[Any]], read: Read, size: int
) -> None:
    good = write_points(multiples((5, 6)))
    for place in range(0, size, 32):
        changed = bytearray(good)
        changed[size + place] ^= 1
        with pytest.raises(ValueError, match=f"at byte {size} there is no point"):
            list(read(bytes(changed)))


@GROUPS
def test_number_of_a_point_has_one_form(multiples: Callable[[Sequence[int]], list[Any]], read: Read, size: int) -> None:
    good = write_points(multiples((5,)))
    larger = int.from_bytes(good[:32], "little") + library_memory.FIELD_MODULUS
    with pytest.raises(ValueError, match="a number is too large"):
        list(read(larger.to_bytes(32, "little") + good[32:]))
    assert size == len(good)
