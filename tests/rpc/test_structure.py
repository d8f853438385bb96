"""Bounds of a body's structure, and what looking at it costs."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.rpc.structure import flaw_of, walk

MEBIBYTE = 1024 * 1024
TOKENS_MAX = 1_000


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b'{"a":"b"}'] * 300_000) + b"]",
        b"[" + b"1," * MEBIBYTE + b"1]",
        b"[" * 3 * MEBIBYTE,
        b'"' * 3 * MEBIBYTE,
        b"[]" * MEBIBYTE,
        b'{"a":' * 500_000,
    ],
    ids=["objects", "numbers", "opening", "quotes", "empty lists", "unclosed objects"],
)
def test_no_more_tokens_are_walked_than_are_allowed(body: bytes) -> None:
    assert walk(body, TOKENS_MAX).tokens == TOKENS_MAX + 1
    assert flaw_of(body, 64, TOKENS_MAX)


def test_brackets_and_commas_within_texts_do_not_count() -> None:
    text = json.dumps({"data": ',[{"\\' * 200_000}).encode()
    assert walk(text, TOKENS_MAX) == (4, 1)
    assert flaw_of(text, 64, TOKENS_MAX) == ""


def test_just_the_allowed_tokens_and_depth_pass() -> None:
    listed = json.dumps(list(range(TOKENS_MAX - 1))).encode()
    assert walk(listed, 10 * TOKENS_MAX).tokens == TOKENS_MAX
    assert flaw_of(listed, 1, TOKENS_MAX) == ""
    assert flaw_of(listed, 1, TOKENS_MAX - 1) == "more than 999 texts, commas and brackets"
    assert flaw_of(b"[[[]]]", 3, 10) == ""
    assert flaw_of(b"[[[]]]", 2, 10) == "nested deeper than 2"


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    match value:
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case _:
            return 0


@given(VALUES, st.booleans())
def test_walked_depth_is_that_of_the_value(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert walk(text, 10_000).depth == depth_of(value)
    for depth_max in range(1, 6):
        assert bool(flaw_of(text, depth_max, 10_000)) is (depth_of(value) > depth_max)


@pytest.mark.parametrize("text", ["\\", '"', '\\"', '\\\\"', '"\\', "\n[", '\\n"[', '\\\\\\",', '],"\\\\', "é\\u0022["])
def test_escaped_characters_of_a_text_do_not_end_it(text: str) -> None:
    assert walk(json.dumps([text, {text: 1}, text]).encode(), TOKENS_MAX) == (9, 2)


@pytest.mark.parametrize("filling", [b" ", b"1 ", b"\\", b"\\n", b"[ "])
def test_bytes_that_are_no_tokens_are_not_searched_one_by_one(filling: bytes) -> None:
    """Three megabytes of them took 100 ms of processor time, and no request may hold the event loop for 50."""
    text = b"[" * 65 + filling * (3 * 1024 * 1024 // len(filling))
    took_s = []
    for _ in range(3):
        began_s = time.process_time()
        assert flaw_of(text, 64, 100_000) == "nested deeper than 64"
        took_s.append(time.process_time() - began_s)
    assert min(took_s) < 0.05
