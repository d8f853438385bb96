"""Bytes that almost are what a reader expects: a value of real ones is changed, and what binds them is made to agree.

A reader of JSON that is given noise refuses at the first byte. So a place in the tree is drawn, and a value that trips
over something is put there: numbers beyond every bound, half a surrogate pair, NUL, text that is no UTF-8, lists within
lists. Everything else is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
Path: TypeAlias = tuple[int | str, ...]

DEEP: Final = 400
# Written in the place of a value.
TOKENS: Final[tuple[bytes, ...]] = (
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1.5",
    b"1e308",
    b"1e400",
    b"18446744073709551616",
    b"9" * 78,
    b"9" * 4_000,
    b"9" * 5_000,
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\\u0661\\u0662"',
    b'"' + b"9" * 78 + b'"',
    b'"' + b"9" * 5_000 + b'"',
    b'"0x"',
    b'"0x0"',
    b'"0x' + b"f" * 64 + b'"',
    b'"0x' + b"0" * 40 + b'"',
    b'"@"',
    b'"nobody"',
    b'"a@b@c@"',
    b'"' + b"x" * 70_000 + b'"',
    b'"[[[["',
    b'"{}"',
    b'"null"',
    b'"' + b"[" * 5_000 + b'"',
    b"[]",
    b"{}",
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"[" + b",".join([b"0"] * 300) + b"]",
)
NUMBERS: Final = (0, 1, 2, 255, 256, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**256 - 1)
_HOLE: Final = "@@here@@"


def corrupted(random: Random, content: bytes) -> bytes:
    """The bytes with one thing changed, by their structure if they are JSON."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return noisy(random, content)
    if random.random() < 0.1:
        return noisy(random, content)
    return corrupted_json(random, tree)


def corrupted_json(random: Random, tree: Json) -> bytes:
    """The tree as canonical JSON, with another value at one place; also within text that is JSON itself."""
    path, value = random.choice(list(_places((), tree)))
    if isinstance(value, str) and value[:1] in "[{" and random.random() < 0.7:
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            inner = None
        if inner is not None:
            return _written(_with(tree, path, corrupted_json(random, inner).decode(errors="replace")))
    if isinstance(value, list) and value and random.random() < 0.3:
        at = random.randrange(len(value))
        changed = random.choice((value[:at] + value[at + 1 :], [*value, value[at]], value[::-1], value * 20))
        return _written(_with(tree, path, changed))
    return _written(_with(tree, path, _HOLE)).replace(b'"' + _HOLE.encode() + b'"', random.choice(TOKENS))


def noisy(random: Random, content: bytes) -> bytes:
    """The bytes with some of them changed, left out or doubled."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(made) + 1)
        match random.randrange(5):
            case 0:
                del made[at:]
            case 1:
                made[at : at + 1] = random.randbytes(1)
            case 2:
                del made[at : at + random.randrange(1, 40)]
            case 3:
                made[at:at] = made[at : at + random.randrange(1, 64)]
            case _:
                size = random.choice((1, 2, 4, 8, 20, 32))
                made[at : at + size] = (random.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "big")
    return bytes(made)


def _places(path: Path, value: Json) -> Iterator[tuple[Path, Json]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in items:
        yield from _places((*path, step), each)


def _with(value: Json, path: Path, changed: Json) -> Json:
    if not path:
        return changed
    step, *rest = path
    inner = _with(value[step], tuple(rest), changed)
    if isinstance(value, dict):
        return {**value, step: inner}
    assert isinstance(step, int), "of a list"
    return [*value[:step], inner, *value[step + 1 :]]


def _written(tree: Json) -> bytes:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")
