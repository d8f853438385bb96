"""The stable codes that digests of runs rest on: every kind has one, and no two kinds share one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from rota.machine.effects import Effect, Record
from rota.sim.codes import DATA_FIELDS, EFFECTS, ENUMERATIONS, MESSAGE_FATES, PROSE_FIELDS, RECORDS
from rota.sim.forgery import Lie
from rota.wire import peer_pb2 as pb

MISSING = "give each new kind a new number in src/rota/sim/codes.py, and take out those that are gone"


def kinds_of(base: type[Any]) -> Iterator[type[Any]]:
    kinds: list[type[Any]] = base.__subclasses__()
    for kind in kinds:
        yield kind
        yield from kinds_of(kind)


def test_every_effect_has_a_code() -> None:
    # A dataclass with slots leaves its first version behind among the subclasses: the module's own one counts.
    in_core = {kind for kind in kinds_of(Effect) if kind.__module__.startswith("rota.")}
    names = {kind.__qualname__ for kind in in_core}
    assert names == {kind.__qualname__ for kind in EFFECTS}, MISSING


def test_every_record_has_a_code() -> None:
    names = {kind.__qualname__ for kind in kinds_of(Record) if kind.__module__.startswith("rota.")}
    assert names == {kind.__qualname__ for kind in RECORDS}, MISSING


@pytest.mark.parametrize("table", [EFFECTS, RECORDS])
def test_codes_are_unique(table: dict[type, tuple[int, object]]) -> None:
    codes = [code for code, _ in table.values()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("numbers", ENUMERATIONS, ids=lambda numbers: type(next(iter(numbers))).__name__)
def test_every_member_of_an_enumeration_has_a_number(numbers: dict[Enum, int]) -> None:
    assert set(numbers) == set(type(next(iter(numbers))))
    assert len(set(numbers.values())) == len(numbers)


def test_every_fate_of_a_message_has_a_number() -> None:
    assert {lie.value for lie in Lie} < set(MESSAGE_FATES)
    assert len(set(MESSAGE_FATES.values())) == len(MESSAGE_FATES)


def string_fields(kind: Any, seen: set[str]) -> Iterator[tuple[str, int]]:  # noqa: ANN401 (protobuf has two kinds)
    if kind.name in seen:
        return
    seen.add(kind.name)
    for field in kind.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            yield kind.name, field.number
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            yield from string_fields(field.message_type, seen)


def test_every_string_of_a_message_is_either_data_or_text_for_people() -> None:
    assert not PROSE_FIELDS & DATA_FIELDS
    assert set(string_fields(pb.Envelope.DESCRIPTOR, set())) == PROSE_FIELDS | DATA_FIELDS
