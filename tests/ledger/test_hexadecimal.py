"""Quantities and data as JSON-RPC writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.ledger.hexadecimal import data, quantity, read_data, read_quantity


@given(st.integers(0, 2**256 - 1))
def test_a_quantity_is_read_as_it_was_written(number: int) -> None:
    assert read_quantity(quantity(number)) == number


@given(st.binary(max_size=100))
def test_data_is_read_as_it_was_written(content: bytes) -> None:
    assert read_data(data(content)) == content
    assert read_data(data(content).upper().replace("X", "x"), len(content)) == content


@pytest.mark.parametrize("written", [1, None, True, [], "", "1f", "0x", "0x01", "0xg", "0x-1", " 0x1", "0x1\n"])
def test_what_is_no_quantity_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"^expected"):
        read_quantity(written)


def test_a_quantity_of_too_many_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 64 digits, not 65"):
        read_quantity("0x1" + "0" * 64)


@pytest.mark.parametrize("written", [1, None, "", "ab", "0xa", "0xzz", "0xab\n", "0X00", "0x ab", "0xa b", "0xab cd"])
def test_what_is_no_data_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"^expected"):
        read_data(written)


def test_data_of_another_size_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match="expected 20 bytes, not 19"):
        read_data("0x" + "00" * 19, 20)


def test_a_long_wrong_value_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match=r"\.\.\.$"):
        read_data("0x" + "zz" * 1000)
