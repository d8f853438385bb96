"""Bounds the structure of JSON text before anything decodes or walks it.

Theory of operation. A token is a text, a comma or a bracket. Counting certain bytes takes a millisecond a megabyte and
gives an upper bound of the tokens and of the nesting, which is enough for nearly every request. Where that bound is too
high, because brackets and commas may also be inside texts, the tokens themselves are examined: by iterators that run in
C, and never more of them than are allowed. Other bytes are removed before: a search would go over them byte by byte. So
the cost follows the limit and not the length of a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final, NamedTuple

_TOKENS: Final = re.compile(rb'"[^"]*+"?|,|([\[{])|([\]}])')
_NO_TOKENS: Final = bytes(set(range(256)) - set(b'"[]{},'))
# The group of a token that matched: an opening bracket goes a level down, a closing one up.
_LEVELS: Final = {None: 0, 1: 1, 2: -1}
_group_of: Final = attrgetter("lastindex")


class Walked(NamedTuple):
    """The number of tokens that were examined, and their deepest nesting."""

    tokens: int
    depth: int


def flaw_of(text: bytes, depth_max: int, tokens_max: int) -> str:
    """Why this text is too large to be decoded; empty when it is not."""
    opening = text.count(b"[") + text.count(b"{")
    # Each closing bracket needs an opening one, and each text two quotation marks: else it is no JSON.
    most = text.count(b'"') // 2 + text.count(b",") + 2 * opening
    if opening <= depth_max and most <= tokens_max:
        return ""
    walked = walk(text, tokens_max)
    if walked.depth > depth_max:
        return f"nested deeper than {depth_max}"
    if walked.tokens > tokens_max:
        return f"more than {tokens_max} texts, commas and brackets"
    return ""


def walk(text: bytes, tokens_max: int) -> Walked:
    """Count tokens and nesting; stops at the first token beyond `tokens_max`."""
    # In a row of backslashes each second one is escaped: a quotation mark behind what is left of it is escaped as well.
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text
    bare = bare.translate(None, _NO_TOKENS)
    groups: Iterable[int | None] = map(_group_of, islice(_TOKENS.finditer(bare), tokens_max + 1))
    levels = list(accumulate(map(_LEVELS.__getitem__, groups)))
    return Walked(len(levels), max(levels, default=0))
