"""How values are written in JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.types import IntentId
from rota.rpc.formats import (
    Address,
    Format,
    HexText,
    Quantity,
    Timestamp,
    Uuid,
    Word,
    hex_of,
    precise_timestamp_of,
    quantity_of,
    read,
    timestamp_of,
    uuid_of,
    word_of,
)


@given(st.binary(min_size=16, max_size=16))
def test_an_intent_id_and_its_uuid_are_one(content: bytes) -> None:
    intent = IntentId(content)
    assert read(Uuid, uuid_of(intent).upper()).intent == intent


@given(st.binary(max_size=64))
def test_bytes_are_read_with_and_without_prefix_in_any_case(content: bytes) -> None:
    assert hex_of(content).content == content
    for text in (content.hex(), "0x" + content.hex(), "0x" + content.hex().upper()):
        assert read(HexText, text) == hex_of(content)


@given(st.integers(0, 2**256 - 1))
def test_a_number_is_read_in_every_writing(number: int) -> None:
    assert quantity_of(number).number == number
    for given_as in (number, str(number), hex(number)):
        assert read(Quantity, given_as) == quantity_of(number)


def test_a_fraction_that_is_whole_is_a_number() -> None:
    assert read(Quantity, 1e18).number == 10**18


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Quantity, float("inf")),
        (Quantity, float("nan")),
        (Quantity, 2**256),
        (Quantity, "0x" + "f" * 65),
        (Quantity, "9" * 1_000),
        (Quantity, "-1"),
        (Quantity, "1 000"),
        (Quantity, "٣"),
        (Address, "0x" + "11" * 19),
        (Address, "0X" + "11" * 20),
        (Word, "0x" + "11" * 31),
        (HexText, "0x1"),
        (HexText, None),
        (Uuid, "0" * 32),
        (Uuid, "00000000-0000-4000-8000-000000000001\n"),
        (Timestamp, "2026-01-31"),
        (Timestamp, 5),
    ],
)
def test_what_is_not_of_a_format_is_refused_with_what_would_be_right(kind: type[Format], wrong: object) -> None:
    with pytest.raises(ValueError, match=r"^must be .*, not "):
        read(kind, wrong)


def test_a_time_has_milliseconds_and_is_in_utc() -> None:
    assert timestamp_of(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp_of(1_760_000_000_007) == "2025-10-09T08:53:20.007Z"
    assert precise_timestamp_of(1_760_000_000_007_000) == "2025-10-09T08:53:20.007Z"
    assert precise_timestamp_of(1_760_000_000_007_009) == "2025-10-09T08:53:20.007009Z"
    assert precise_timestamp_of(10**20) == "9999-12-31T23:59:59.999Z"
    for beyond_ms in (253_402_300_800_000, 2**63 - 1, 2**64):
        assert timestamp_of(beyond_ms) == "9999-12-31T23:59:59.999Z"
    assert read(Timestamp, timestamp_of(7)) == timestamp_of(7)


def test_a_word_is_told_in_small_letters() -> None:
    assert word_of(b"\xab" * 32) == "0x" + "ab" * 32
    assert read(Address, "AB" * 20).contract == "0x" + "ab" * 20
