"""Functions and events by their signatures."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode

from rota.ledger.reading import Log
from rota.ledger.signatures import decode_log, decode_values, encode_signed_call, read_signature
from rota.model.digests import keccak
from rota.model.types import BlockHash, ContractAddress

ALICE = ContractAddress("0x" + "a1" * 20)


def log_of(*topics: bytes, data: bytes = b"") -> Log:
    return Log(ALICE, topics, data, 1, BlockHash(bytes(32)), bytes(32), 0)


def test_a_call_is_the_selector_and_the_arguments() -> None:
    call = encode_signed_call("execute(uint256, address)", (7, ALICE))
    assert call == keccak(b"execute(uint256,address)")[:4] + encode(["uint256", "address"], [7, ALICE])
    assert encode_signed_call("epoch()", ()) == keccak(b"epoch()")[:4]


def test_tuples_are_one_type() -> None:
    found = read_signature("settle((address,bytes)[], uint256)")
    assert found.types == ("(address,bytes)[]", "uint256")


@pytest.mark.parametrize("text", ["advance", "advance(addres)", "(uint256)", "advance(address"])
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="signature"):
        read_signature(text)


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be called with"):
        encode_signed_call("execute(uint256)", ("seven",))
    with pytest.raises(ValueError, match="cannot be called with"):
        encode_signed_call("execute(uint256)", ())


def test_an_event_is_read_in_the_order_of_its_arguments() -> None:
    text = "Changed(string indexed, uint256, address indexed)"
    topics = keccak(b"Changed(string,uint256,address)"), keccak(b"name"), bytes(12) + bytes.fromhex(ALICE[2:])
    assert decode_log(text, log_of(*topics, data=encode(["uint256"], [5]))) == (keccak(b"name"), 5, ALICE)


def test_a_log_of_another_event_is_nothing() -> None:
    text = "Advanced(uint256 indexed)"
    assert decode_log(text, log_of()) is None
    assert decode_log(text, log_of(keccak(b"Other(uint256)"), bytes(32))) is None
    assert decode_log(text, log_of(keccak(b"Advanced(uint256)"))) is None
    assert decode_log("Advanced(uint256)", log_of(keccak(b"Advanced(uint256)"), data=b"short")) is None


def test_log_with_text_that_is_no_utf_8_is_of_another_event() -> None:
    signature = "Told(string)"
    assert decode_log(signature, log_of(keccak(b"Told(string)"), data=encode(["bytes"], [b"\xff"]))) is None


def test_an_answer_that_is_not_what_was_asked_for_is_refused() -> None:
    assert decode_values(("uint256", "bool"), encode(["uint256", "bool"], [3, True])) == (3, True)
    with pytest.raises(ValueError, match="is not uint256"):
        decode_values(("uint256",), b"")
