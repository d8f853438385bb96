"""Whatever a peer sends, reading it is a value: never an exception, and never much memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.wire import DEFAULT_LIMITS, Frame, Limits, Malformed, decode_frame, encode_frame
from rota.wire.messages import PROTOCOL_VERSION, AssembleResponse, CoordinatorHeartbeat, DelegationCommand, Startup
from tests.wire.samples import MESSAGE_TYPES, full_envelope
from tests.wire.test_versions import envelope_bytes, frame, message, varint

EVERYTHING = encode_frame(full_envelope(kind) for kind in MESSAGE_TYPES)
# Small enough for every frame of these tests to be walked over first.
WALKED = Limits(frame_fields_max=2_000)


def read(data: bytes) -> Frame | Malformed:
    """What is read, with and without the walk; what is accepted can be written and is then read alike."""
    result = decode_frame(data)
    assert isinstance(decode_frame(data, WALKED), Frame | Malformed)
    if isinstance(result, Frame):
        envelopes = tuple(replace(envelope, protocol_version=PROTOCOL_VERSION) for envelope in result.envelopes)
        assert decode_frame(encode_frame(envelopes)) == Frame(PROTOCOL_VERSION, envelopes)
    return result


def test_all_messages_together_are_read_with_the_walk_too() -> None:
    assert len(EVERYTHING) > 2 * WALKED.frame_fields_max
    assert decode_frame(EVERYTHING, WALKED) == decode_frame(EVERYTHING)
    assert isinstance(decode_frame(EVERYTHING), Frame)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000))
@example(b"\xff" * 2000)
@example(b"\x0b" * 2000)
def test_arbitrary_bytes_are_no_exception(data: bytes) -> None:
    read(data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 60))
def test_garbage_within_an_envelope_is_no_exception(garbage: bytes, number: int) -> None:
    read(frame(garbage))
    read(frame(envelope_bytes(message(number, garbage))))
    read(frame(envelope_bytes(message(number, message(2, garbage) + message(3, message(1, garbage))))))


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_a_frame_cut_anywhere_is_no_exception(kind: type) -> None:
    data = encode_frame([full_envelope(kind)])
    for size in range(len(data)):
        result = read(data[:size])
        assert isinstance(result, Malformed) or not result.envelopes


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(EVERYTHING) * 8 - 1), min_size=1, max_size=4))
def test_flipped_bits_are_no_exception(bits: list[int]) -> None:
    data = bytearray(EVERYTHING)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    read(bytes(data))


@pytest.mark.parametrize("kind", [Startup, CoordinatorHeartbeat], ids=lambda kind: kind.__name__)
def test_any_one_flipped_bit_is_no_exception(kind: type) -> None:
    data = encode_frame([full_envelope(kind)])
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        read(bytes(flipped))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(EVERYTHING)), st.binary(max_size=20), st.integers(0, 20))
def test_spliced_bytes_are_no_exception(position: int, inserted: bytes, removed: int) -> None:
    read(EVERYTHING[:position] + inserted + EVERYTHING[position + removed :])


@pytest.mark.parametrize("length", [2**20, 2**31 - 1, 2**31, 2**32, 2**63, 2**64 - 1, 2**70])
@pytest.mark.parametrize("number", [1, 3, 999])
def test_a_huge_declared_length_takes_no_memory(length: int, number: int) -> None:
    liar = varint(number << 3 | 2) + varint(length)
    head = frame()
    for data in (
        head + liar,
        head + liar + b"x" * 1000,
        frame(liar),
        frame(envelope_bytes(message(16, liar)), b"x" * 1000),
    ):
        tracemalloc.start()
        assert isinstance(read(data), Malformed)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 1_000_000


# The most fields that fit in the most bytes: each is two bytes.

SMALL = Limits(frame_bytes_max=100_000, frame_fields_max=10_000)


def filled(bytes_max: int, *numbers: int) -> bytes:
    """A frame that is full of empty fields of the last number, in a message of each of the others."""
    content = (varint(numbers[-1] << 3 | 2) + b"\0") * (bytes_max // 2 - 32)
    for number in reversed(numbers[:-1]):
        content = message(number, content)
    return b"\x08\x02" + content


@pytest.mark.parametrize(
    "numbers",
    [(3,), (3, 16, 2), (3, 16, 2, 1, 4), (3, 20, 2, 4, 5), (3, 36, 2, 5), (3, 16, 3), (15,), (3, 15), (3, 16, 15)],
    ids=[
        "envelopes",
        "delegations",
        "dependencies",
        "outputs",
        "distributed",
        "tried",
        "unknown",
        "in envelope",
        "in body",
    ],
)
def test_a_frame_full_of_empty_fields_is_refused_before_it_is_parsed(numbers: tuple[int, ...]) -> None:
    tracemalloc.start()
    result = decode_frame(filled(SMALL.frame_bytes_max, *numbers), SMALL)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result == Malformed("the frame cannot be parsed: more than 10000 fields")
    assert peak_bytes < 1_000_000


def test_the_greatest_frame_that_is_not_walked_over_is_refused_by_its_envelopes() -> None:
    result = decode_frame(filled(2 * DEFAULT_LIMITS.frame_fields_max, 3))
    assert isinstance(result, Malformed)
    assert result.reason.startswith("a frame has at most 4096 envelopes")


def test_every_copy_of_a_field_that_is_there_once_counts() -> None:
    copies = message(2, b"\x08\x01") * 1_500
    assert isinstance(decode_frame(frame(envelope_bytes(copies + message(30, b"")))), Frame)
    assert isinstance(decode_frame(frame(envelope_bytes(copies + message(30, b""))), WALKED), Malformed)


@pytest.mark.parametrize("depth", [10, 99, 100, 101, 1000, 100_000])
def test_deep_nesting_is_no_exception(depth: int) -> None:
    read(frame(b"\xcb\x3e" * depth + b"\xcc\x3e" * depth))
    read(frame(b"\xcb\x3e" * depth))


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        (b"\x1a\x05\x12", "a field is longer than what it is in"),
        (b"\x1a\x02\x12\x05" + b"x" * 9, "a field is longer than what it is in"),
        (b"\x1a\x03\x09ab" + b"x" * 9, "a field is longer than what it is in"),
        (b"\x1a\x03\x0dab" + b"x" * 9, "a field is longer than what it is in"),
        (b"\x10\xff\xff\xff\xff", "its bytes end within a field"),
        (b"\x10" + b"\xff" * 10 + b"\xff", "its bytes end within a field"),
    ],
)
def test_the_walk_says_what_is_wrong_with_a_structure(data: bytes, flaw: str) -> None:
    padded = message(999, b"padding") + data
    assert len(padded) > 2 * 5
    assert decode_frame(padded, Limits(frame_fields_max=5)) == Malformed(f"the frame cannot be parsed: {flaw}")
    assert isinstance(decode_frame(padded), Malformed)


def test_the_last_of_two_bodies_counts() -> None:
    wire = message(28, b"\x10\x06") + message(30, b"\x0a\x04\x08\x01\x10\x02")
    result = decode_frame(frame(envelope_bytes(wire)))
    assert isinstance(result, Frame)
    assert isinstance(result.envelopes[0].body, Startup)


@pytest.mark.parametrize(
    ("number", "body", "reason"),
    [
        (36, b"", "state_distribution: a digest has 32 bytes, not 0"),
        (36, message(1, b"d" * 32) + message(2, b""), "state_distribution: an intent's id has 16 bytes, not 0"),
        (37, b"", "state_distribution_acknowledgement: a digest has 32 bytes, not 0"),
    ],
    ids=["nothing", "an empty transition", "an empty acknowledgement"],
)
def test_a_distribution_of_nothing_known_is_malformed(number: int, body: bytes, reason: str) -> None:
    assert read(frame(envelope_bytes(message(number, body)))) == Malformed(f"envelope 0, {reason}")


def test_text_that_is_not_utf8_is_malformed() -> None:
    data = encode_frame([full_envelope(DelegationCommand)])
    assert isinstance(read(data.replace(b"party@", b"part\xff@")), Malformed)


def test_a_reason_holds_nothing_of_what_was_sent() -> None:
    data = encode_frame([full_envelope(AssembleResponse)])
    refused = decode_frame(data, Limits(text_bytes_max=3))
    assert refused == Malformed("envelope 0, assemble_response: a text has more than 3 bytes")
