"""RLP, against Ethereum's published examples and hostile bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.ledger import rlp

LOREM = b"Lorem ipsum dolor sit amet, consectetur adipisicing elit"
EXAMPLES: list[tuple[rlp.Decoded, str]] = [
    (b"dog", "83646f67"),
    ((b"cat", b"dog"), "c88363617483646f67"),
    (b"", "80"),
    ((), "c0"),
    (b"\x00", "00"),
    (b"\x0f", "0f"),
    (b"\x80", "8180"),
    (b"\x04\x00", "820400"),
    (((), ((),), ((), ((),))), "c7c0c1c0c3c0c1c0"),
    (LOREM, "b838" + LOREM.hex()),
    ((LOREM,), "f83ab838" + LOREM.hex()),
    (b"a" * 1024, "b90400" + "61" * 1024),
]

items: st.SearchStrategy[rlp.Decoded] = st.recursive(
    st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6).map(tuple), max_leaves=20
)


@pytest.mark.parametrize(("item", "encoded"), EXAMPLES)
def test_published_examples_hold_both_ways(item: rlp.Decoded, encoded: str) -> None:
    assert rlp.encode(item).hex() == encoded
    assert rlp.decode(bytes.fromhex(encoded)) == item


@given(items)
def test_what_is_encoded_decodes_to_itself(item: rlp.Decoded) -> None:
    assert rlp.decode(rlp.encode(item), depth_max=30) == item


@given(st.one_of(st.binary(max_size=40), items.map(rlp.encode)), st.binary(max_size=3), st.integers(0, 60))
def test_hostile_bytes_are_refused_or_are_the_one_encoding(encoded: bytes, patch: bytes, at: int) -> None:
    hostile = encoded[:at] + patch + encoded[at + len(patch) :]
    try:
        item = rlp.decode(hostile)
    except ValueError as error:
        assert str(error).startswith("RLP: ")  # noqa: PT017 - either outcome is right, each in its way
    else:
        assert rlp.encode(item) == hostile


@pytest.mark.parametrize(
    ("encoded", "flaw"),
    [
        ("", "no bytes at all"),
        ("8100", "stands for itself"),
        ("817f", "stands for itself"),
        ("b801ff", "has a shorter form"),
        ("b837" + "00" * 55, "has a shorter form"),
        ("b90038" + "00" * 56, "leading zero"),
        ("f800", "leading zero"),
        ("f801c0", "has a shorter form"),
        ("83646f", "needs 3 bytes and has 2"),
        ("c883636174836465", "needs 8 bytes and has 7"),
        ("c18363", "needs 3 bytes and has 0"),
        ("c3846465", "needs 4 bytes and has 2"),
        ("bf", "is cut off"),
        ("bfffffffffffffffff", "needs 18446744073709551615 bytes and has 0"),
        ("646f", "1 bytes follow"),
        ("c000", "1 bytes follow"),
    ],
)
def test_what_is_not_canonical_is_refused_with_its_flaw(encoded: str, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        rlp.decode(bytes.fromhex(encoded))


def test_depth_and_size_are_bounded() -> None:
    nested = b"\xc0"
    for _ in range(rlp.DEPTH_MAX - 1):
        nested = rlp.encode([]) if not nested else bytes([0xC0 + len(nested)]) + nested
    rlp.decode(nested)
    with pytest.raises(ValueError, match="nested too deeply"):
        rlp.decode(bytes([0xC0 + len(nested)]) + nested)
    with pytest.raises(ValueError, match="11 bytes, at most 10 are read"):
        rlp.decode(rlp.encode(b"a" * 10), size_bytes_max=10)


@given(st.integers(0, 2**256 - 1))
def test_a_number_is_read_as_it_was_written(number: int) -> None:
    assert rlp.decode_unsigned(rlp.encode_unsigned(number), "value") == number


@pytest.mark.parametrize(
    ("item", "flaw"),
    [((), "nonce is a list"), (b"\0", "nonce has a leading zero"), (b"\x01" * 9, "nonce has 9 bytes, at most 8")],
)
def test_a_number_that_is_none_is_refused_by_name(item: rlp.Decoded, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        rlp.decode_unsigned(item, "nonce", 64)
