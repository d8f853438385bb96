"""Counts the fields of a big frame before protobuf allocates memory for them.

Two bytes on the wire are enough for an empty message, which costs the parser up to a hundred bytes and this node as
many again: four mebibytes of them would become hundreds. This walks over the bytes as the parser would, stores
nothing, and stops at the limit. A frame that is too small to hold that many fields needs no check.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from google.protobuf.descriptor import Descriptor

import rota.wire.peer_pb2 as pb

# The fields of a message that are messages again, by number.
Shape: TypeAlias = "dict[int, Shape]"

FIELD_BYTES_MIN: Final = 2
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BITS_MAX: Final = 70


def structural_flaw(frame: bytes, fields_max: int) -> str | None:
    """Return why the frame's structure is refused, or None."""
    try:
        return _walk(frame, fields_max)
    except IndexError:
        return "its bytes end within a field"


def _walk(frame: bytes, fields_max: int) -> str | None:
    position, end, shape, fields = 0, len(frame), _FRAME, 0
    outer: list[tuple[int, Shape]] = []
    while True:
        if position > end:
            return "a field is longer than what it is in"
        if position == end:
            if not outer:
                return None
            end, shape = outer.pop()
            continue
        fields += 1
        if fields > fields_max:
            return f"more than {fields_max} fields"
        tag, position = _varint(frame, position)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, position = _varint(frame, position)
            inner = shape.get(tag >> 3)
            if inner is None or position + length > end:
                position += length
            else:
                outer.append((end, shape))
                end, shape = position + length, inner
        elif wire_type == _VARINT:
            _, position = _varint(frame, position)
        elif wire_type == _EIGHT_BYTES:
            position += 8
        elif wire_type == _FOUR_BYTES:
            position += 4
        # The rest are the marks of a group, which have no length: the bytes between them are walked over too.


def _varint(frame: bytes, position: int) -> tuple[int, int]:
    """Return a number of the wire, and the position behind it."""
    byte = frame[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while byte >= 0x80 and shift < _VARINT_BITS_MAX:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, position


def _shape_of(message: Descriptor) -> Shape:
    return {field.number: _shape_of(field.message_type) for field in message.fields if field.message_type is not None}


_FRAME: Final = _shape_of(pb.DESCRIPTOR.message_types_by_name["Frame"])
