"""Decoding costs what the bytes are worth: offsets that point at the same place again and again are refused."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode

from rota.abi import codec
from rota.abi.decoding import Undecodable, decode
from rota.domains.records import Rejected


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def bomb(depth: int, width: int = 64) -> bytes:
    """Arrays of arrays, in each of which all offsets point at the one array that follows."""
    arrays = (word(width) + width * word(32 * width)) * depth
    return word(32) + arrays + word(0)


@pytest.mark.parametrize("depth", [2, 3, 6, 12])
def test_nested_arrays_with_shared_offsets_are_refused_at_once(depth: int) -> None:
    kind = "uint256" + "[]" * (depth + 1)
    with pytest.raises(Undecodable, match="again and again"):
        decode([kind], bomb(depth))
    entry = codec.entry_of({"type": "function", "name": "f", "outputs": [{"name": "x", "type": kind}]}, "function")
    with pytest.raises(Rejected, match="again and again"):
        codec.decode_values(entry.outputs, bomb(depth), "output", codec.Style.parse("", "dataFormat"))


def test_long_text_with_many_offsets_to_it_is_refused() -> None:
    text = b"x" * 65_536
    shared = word(32) + word(1_024) + 1_024 * word(32 * 1_024) + word(len(text)) + text
    with pytest.raises(Undecodable, match="again and again"):
        decode(["bytes[]"], shared)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("uint256[][][]", tuple(((1, 2), (3,)) for _ in range(40))),
        ("string[]", tuple("a" * length for length in range(100))),
        ("bytes[][]", ((b"",) * 50,) * 50),
        ("(uint256,bytes,(string,uint8[])[])[]", ((1, b"x", (("q", (1, 2)),) * 5),) * 30),
        ("uint256[][][][]", ((((1,),) * 5,) * 5,) * 5),
    ],
)
def test_what_an_encoder_writes_is_decoded(kind: str, value: object) -> None:
    assert decode([kind], encode([kind], [value])) == (value,)


@pytest.mark.parametrize(
    ("kinds", "content"),
    [
        (["string"], encode(["bytes"], [b"\xff"])),
        (["string"], word(2**255)),
        (["bytes"], word(32) + word(2**64)),
        (["uint256[]"], word(32) + word(2**64)),
        (["bool"], word(2)),
        (["address"], word(2**200)),
        (["uint256"], b""),
    ],
)
def test_bytes_that_no_encoder_writes_have_one_error(kinds: list[str], content: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(kinds, content)
