"""Decodes values of the ABI at a cost bounded by the number of bytes, and bounds the values to be encoded.

In the ABI an array has an offset for each of its items, and two offsets may be the same. A few kilobytes in
which all offsets of nested arrays point at the same place decode to billions of items. Encoders write each item once,
so a decoder that reads the same bytes repeatedly is not reading an encoder's output: it stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from eth_abi.codec import ABIDecoder
from eth_abi.decoding import ContextFramesBytesIO
from eth_abi.registry import registry

from rota.model.types import Rejected

# The library reads the offsets of an array once to check them and once to follow them.
READ_TIMES_MAX: Final = 4
READ_BYTES_LEAST: Final = 4_096
# Values that are encoded for a user at once: each takes about 4 microseconds, and the event loop waits.
VALUES_MAX: Final = 8_192


class Undecodable(ValueError):
    """The bytes are not an encoder's output for values of these types."""


class _Stream(ContextFramesBytesIO):
    """Counts the bytes that are read from it, repeated ones each time."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)  # type: ignore[no-untyped-call]
        self._left = max(READ_BYTES_LEAST, READ_TIMES_MAX * len(content))

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes. `Undecodable` when more was read than an encoder could have written."""
        content = super().read(size)
        self._left -= len(content)
        if self._left < 0:
            raise Undecodable("its offsets point at the same bytes again and again")
        return content


class _Decoder(ABIDecoder):
    stream_class = _Stream


_DECODER: Final = _Decoder(registry)


def decode(types: Iterable[str], content: bytes) -> tuple[Any, ...]:
    """The values of these types; `Undecodable`, and nothing else, when the bytes are not an encoder's output.

    Any account chooses what its contracts log, return and revert with. The library has errors of several families
    for such bytes, and lets others through: for offsets beyond any length, and for text that is no UTF-8.
    """
    try:
        return _DECODER.decode(tuple(types), content)
    except Exception as error:
        raise Undecodable(str(error)) from error


def require_few(given: object, field: str) -> None:
    """`Rejected` when lists and objects hold more values than are encoded at once; empty lists count too."""
    left, waiting = VALUES_MAX, [given]
    while waiting and left >= 0:
        value = waiting.pop()
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        left -= len(inner) - VALUES_MAX if len(inner) > VALUES_MAX else not inner
        waiting.extend(inner)
    if left < 0:
        raise Rejected(field, f"must have at most {VALUES_MAX} values; more can be given as hex")
