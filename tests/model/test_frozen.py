"""Records that only type checkers keep from being changed."""

from __future__ import annotations

import pickle
from dataclasses import replace

from rota.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


def test_records_are_compared_and_hashed_by_their_fields() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert len({Point(1, 2), Point(1, 2), Point(1, 3)}) == 2
    assert replace(Point(1), y=4) == Point(1, 4)
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_type_checkers_refuse_an_assignment() -> None:
    """An `ignore` that ignores nothing is an error of mypy's: this one would be, were the field not frozen."""
    point = Point(1)
    point.x = 2  # type: ignore[misc]
    assert point == Point(2)
