"""RLP, Ethereum's serialisation: an item is a byte string or a list of items.

There is exactly one encoding of an item, and the decoder takes no other: a signature or a hash covers the encoding, so
two readings or two spellings of one transaction would be a vulnerability. Input that is not canonical, too deep, too
large or followed by more is a `ValueError` that names the flaw and its position.

    byte below 80             itself
    string of n < 56 bytes    80+n, string
    longer string             b7+m, n in m bytes, string
    list of n < 56 bytes      c0+n, items
    longer list               f7+m, n in m bytes, items
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Item: TypeAlias = "bytes | Sequence[Item]"
Decoded: TypeAlias = "bytes | tuple[Decoded, ...]"

DEPTH_MAX: Final = 16
SIZE_BYTES_MAX: Final = 16 * 1024 * 1024

_SHORT_MAX: Final = 55
_STRING: Final = 0x80
_LONG_STRING: Final = 0xB7
_LIST: Final = 0xC0
_LONG_LIST: Final = 0xF7


def encode(item: Item) -> bytes:
    """Return the one encoding of an item."""
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < _STRING:
            return item
        return _head(len(item), _STRING) + item
    body = b"".join([encode(inner) for inner in item])
    return _head(len(body), _LIST) + body


def encode_unsigned(number: int) -> bytes:
    """Return a number as a string: big-endian, no leading zero, empty for 0."""
    assert number >= 0, f"RLP has no negative numbers such as {number}"
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def decode(encoded: bytes, *, depth_max: int = DEPTH_MAX, size_bytes_max: int = SIZE_BYTES_MAX) -> Decoded:
    """Decode an item; a `ValueError` names the flaw unless `encoded` is exactly one canonical item."""
    if len(encoded) > size_bytes_max:
        raise ValueError(f"RLP: {len(encoded)} bytes, at most {size_bytes_max} are read")
    if not encoded:
        raise ValueError("RLP: no bytes at all; the empty string is 80")
    item, end = _decode_at(encoded, 0, len(encoded), depth_max)
    if end != len(encoded):
        raise ValueError(f"RLP: {len(encoded) - end} bytes follow the item, which ends at byte {end}")
    return item


def decode_unsigned(item: Decoded, name: str, bits_max: int = 256) -> int:
    """Return the number that a decoded item encodes; `name` is used in errors."""
    if not isinstance(item, bytes):
        raise ValueError(f"{name} is a list where a number is expected")
    if item[:1] == b"\0":
        raise ValueError(f"{name} has a leading zero")
    if len(item) * 8 > bits_max:
        raise ValueError(f"{name} has {len(item)} bytes, at most {bits_max // 8} are allowed")
    return int.from_bytes(item, "big")


def _head(length: int, base: int) -> bytes:
    if length <= _SHORT_MAX:
        return bytes([base + length])
    size = encode_unsigned(length)
    return bytes([base + _SHORT_MAX + len(size)]) + size


def _decode_at(encoded: bytes, at: int, limit: int, depth_left: int) -> tuple[Decoded, int]:
    """Return the item that begins at `at` and the position after it; nothing from `limit` on is read."""
    first = encoded[at]
    if first < _STRING:
        return encoded[at : at + 1], at + 1
    if first < _LIST:
        start, end = _extent(encoded, at, limit, first, _STRING, _LONG_STRING)
        if end - start == 1 and encoded[start] < _STRING:
            raise ValueError(f"RLP: the byte at {start} stands for itself and has a length before it")
        return encoded[start:end], end
    if depth_left == 0:
        raise ValueError(f"RLP: the list at byte {at} is nested too deeply")
    start, end = _extent(encoded, at, limit, first, _LIST, _LONG_LIST)
    items: list[Decoded] = []
    while start < end:
        item, start = _decode_at(encoded, start, end, depth_left - 1)
        items.append(item)
    return tuple(items), end


def _extent(encoded: bytes, at: int, limit: int, first: int, short: int, long: int) -> tuple[int, int]:
    """Return where the content of the string or list with its head at `at` begins and ends."""
    if first <= long:
        start, length = at + 1, first - short
    else:
        start = at + 1 + first - long
        if start > limit:
            raise ValueError(f"RLP: the length at byte {at + 1} is cut off")
        if encoded[at + 1] == 0:
            raise ValueError(f"RLP: the length at byte {at + 1} has a leading zero")
        length = int.from_bytes(encoded[at + 1 : start], "big")
        if length <= _SHORT_MAX:
            raise ValueError(f"RLP: the length at byte {at + 1} is {length}, which has a shorter form")
    if start + length > limit:
        raise ValueError(f"RLP: the item at byte {at} needs {length} bytes and has {limit - start}")
    return start, start + length
