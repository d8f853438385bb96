"""Frozen records."""

from __future__ import annotations

import pickle
from dataclasses import field, fields, is_dataclass, replace

import msgspec
import pytest

from rota.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sized:
    size: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Place:
    x: int


@dataclass(frozen=True, slots=True)
class Named(Sized):
    name: str = ""


def test_records_are_compared_and_hashed_by_their_fields() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert len({Point(1, 2), Point(1, 2), Point(1, 3)}) == 2
    assert replace(Point(1), y=4) == Point(1, 4)
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_an_assignment_is_refused() -> None:
    """By type checkers too: an `ignore` that ignores nothing is an error of mypy's."""
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]


def test_records_are_known_to_the_standard_library() -> None:
    assert is_dataclass(Point)
    assert [each.name for each in fields(Point)] == ["x", "y"]
    assert repr(Point(1)) == "Point(x=1, y=0)"


@pytest.mark.parametrize("kind", [Sized, Place, Named])
def test_records_that_the_compiled_kind_cannot_be_are_those_of_the_standard_library(kind: type) -> None:
    assert not issubclass(kind, msgspec.Struct)
    assert is_dataclass(kind)


def test_each_record_has_a_default_of_its_own() -> None:
    assert issubclass(Listed, msgspec.Struct)
    assert Listed().names == []
    assert Listed().names is not Listed().names
