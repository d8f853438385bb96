"""What a value is said to take of a frame is never less than what it takes, in bytes, in fields and in items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.config import Config
from rota.model.types import Digest, RequestId, Transition
from rota.wire import DEFAULT_LIMITS, Frame, Limits, decode_frame, encode_frame
from rota.wire.limits import ITEM_BYTES
from rota.wire.messages import (
    AssembleResponse,
    AssemblyResult,
    Delegation,
    DelegationCommand,
    HandedOver,
    HandedRound,
    Handover,
    Message,
    Startup,
    StateDistribution,
)
from rota.wire.sizes import (
    FIELD_BYTES,
    delegation_bytes,
    fitting,
    handed_over_bytes,
    handed_round_bytes,
    in_parts,
    result_bytes,
    transition_bytes,
)
from tests.wire.samples import full_envelope, random_values

FIRST = RequestId(1, 1)
# What an empty frame with one empty message takes: the envelope, the ids of both, the digest of a distribution.
ENVELOPE_FIELDS = 24

MEASURED: dict[str, tuple[Any, Callable[[Any], int], Callable[[tuple[Any, ...]], Message]]] = {
    "transition": (Transition, transition_bytes, lambda some: StateDistribution(Digest(bytes(32)), some)),
    "result": (AssemblyResult, result_bytes, lambda some: AssembleResponse(FIRST, some)),
    "delegation": (
        Delegation,
        lambda delegation: delegation_bytes(delegation.intent),
        lambda some: DelegationCommand(FIRST, some),
    ),
    "hand-over": (HandedOver, handed_over_bytes, lambda some: Handover(FIRST, some)),
    "round": (HandedRound, handed_round_bytes, lambda some: Handover(FIRST, (), some)),
}


def frame_of(body: Message) -> bytes:
    return encode_frame([replace(full_envelope(Startup), body=body)])


@pytest.mark.parametrize("kind", MEASURED)
@settings(max_examples=50, deadline=None)
@given(drawn=st.data())
def test_no_value_takes_more_than_its_size(kind: str, drawn: st.DataObject) -> None:
    annotation, size_of, message_of = MEASURED[kind]
    values = drawn.draw(st.lists(random_values(annotation), max_size=3).map(tuple))
    data = frame_of(message_of(values))
    size = sum(size_of(value) for value in values) + ENVELOPE_FIELDS * FIELD_BYTES
    limits = Limits(frame_bytes_max=size, frame_fields_max=size // FIELD_BYTES, frame_items_max=size // ITEM_BYTES)
    assert isinstance(decode_frame(data, limits), Frame), (len(data), size)


def test_a_field_counts_as_what_a_frame_has_for_each_of_its_fields() -> None:
    assert FIELD_BYTES * DEFAULT_LIMITS.frame_fields_max == DEFAULT_LIMITS.frame_bytes_max


def test_a_frame_that_keeps_to_its_bytes_keeps_to_its_items() -> None:
    assert ITEM_BYTES * DEFAULT_LIMITS.frame_items_max <= DEFAULT_LIMITS.frame_bytes_max
    assert ITEM_BYTES * (DEFAULT_LIMITS.frame_items_max + 1) > DEFAULT_LIMITS.frame_bytes_max


def test_the_rest_of_a_frame_has_room_for_ids_and_locks() -> None:
    locks, intents, tried = 2 * 4_096 * (2 * FIELD_BYTES + 34), 255 * FIELD_BYTES, 256 * (5 * FIELD_BYTES + 255)
    room = DEFAULT_LIMITS.frame_bytes_max - Config().message_bytes_max
    assert locks + intents + tried <= room


def test_as_many_are_taken_as_fit_but_at_least_one() -> None:
    assert fitting([3, 4, 5], lambda size: size, 7) == [3, 4]
    assert fitting([8, 1], lambda size: size, 7) == [8]
    assert fitting([], lambda size: size, 7) == []


def test_all_goes_in_parts_and_what_is_too_large_goes_alone() -> None:
    assert in_parts([3, 4, 8, 1, 7], lambda size: size, 7) == ((3, 4), (8,), (1,), (7,))
    assert in_parts([], lambda size: size, 7) == ()
