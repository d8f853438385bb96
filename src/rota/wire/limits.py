"""Limits on the size of a frame. What exceeds a limit is refused before memory is allocated for it."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from rota.model.frozen import dataclass

MEBIBYTE: Final = 1024 * 1024
# The least that a writer counts for an item (`sizes.py`): a frame within its bytes is within its items.
ITEM_BYTES: Final = 96


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one frame and of all its parts; sizes of ids and hashes are not configurable.

    Texts and names are measured in bytes of UTF-8. A field (each value of a repeated one counts) may take two bytes
    on the wire and two hundred in memory, which is why a frame has a limit for all of them besides that for its
    bytes. An item is a message in a repeated field; four names, ids or hashes in one count as an item, and so do the
    unknown fields of a value. The cost to read a frame follows its items, not its bytes.
    """

    frame_bytes_max: int = 4 * MEBIBYTE
    frame_envelopes_max: int = 4_096
    frame_fields_max: int = 131_072
    frame_items_max: int = 4 * MEBIBYTE // ITEM_BYTES
    field_items_max: int = 8_192
    payload_bytes_max: int = MEBIBYTE
    content_bytes_max: int = MEBIBYTE
    text_bytes_max: int = 4_096
    name_bytes_max: int = 255
    signature_bytes_max: int = 384
    unknown_bytes_max: int = 65_536

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name}: must be at least 1")


DEFAULT_LIMITS: Final = Limits()
