"""The encoding of an account's changes: as many bytes as there are changes, and in one form only.

slots        per slot, in ascending order: its number in 32 bytes, the length of its value, its value without
             leading zeros; a slot that becomes zero has no value
predecessor  the leaf of the state before in 32 bytes, and its output in one; nothing for the first state
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.domains.records import Rejected
from rota.model.types import Leaf, StateId

WORD_BYTES: Final = 32
PREDECESSOR_BYTES: Final = WORD_BYTES + 1


def pack_slots(slots: Mapping[int, int]) -> bytes:
    """Encode slots and their new values."""
    parts: list[bytes] = []
    for number in sorted(slots):
        value = slots[number]
        size = (value.bit_length() + 7) // 8
        parts += (number.to_bytes(WORD_BYTES, "big"), bytes([size]), value.to_bytes(size, "big"))
    return b"".join(parts)


def unpack_slots(packed: bytes) -> dict[int, int]:
    """The inverse. `Rejected` when it is not exactly what `pack_slots` writes."""
    slots: dict[int, int] = {}
    at, last = 0, -1
    while at < len(packed):
        value_at = at + WORD_BYTES + 1
        number = int.from_bytes(packed[at : at + WORD_BYTES], "big")
        size = packed[value_at - 1] if value_at <= len(packed) else WORD_BYTES + 1
        value = packed[value_at : value_at + size]
        if size > WORD_BYTES or len(value) != size or value[:1] == b"\0" or number <= last:
            raise Rejected("slots", "must be slots in ascending order with values without leading zeros")
        slots[number] = int.from_bytes(value, "big")
        at, last = value_at + size, number
    return slots


def pack_predecessor(state: StateId | None) -> bytes:
    """Encode the id of the preceding state."""
    return b"" if state is None else state.leaf + bytes([state.output])


def unpack_predecessor(packed: bytes) -> StateId | None:
    """The inverse. `Rejected` when it is no state's id."""
    if not packed:
        return None
    if len(packed) != PREDECESSOR_BYTES:
        raise Rejected("predecessor", f"must be {PREDECESSOR_BYTES} bytes, or none")
    return StateId(Leaf(packed[:WORD_BYTES]), packed[WORD_BYTES])
