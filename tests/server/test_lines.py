"""Where the keys of a TOML text stand, held against tomllib and against texts whose lines are known."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings

from rota.server.configuring.lines import KeyPath, lines_of
from tests.server.toml_documents import Document, documents


def paths_of(value: object, path: KeyPath = ()) -> set[KeyPath]:
    """Every key and list element that tomllib finds."""
    children: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return {(*path, name) for name, _ in children}.union(*(paths_of(child, (*path, name)) for name, child in children))


@pytest.mark.slow
@settings(max_examples=300)
@given(documents())
def test_keys_are_those_of_tomllib_and_stand_where_they_were_written(document: Document) -> None:
    lines = lines_of(document.text)
    assert lines.keys() == paths_of(tomllib.loads(document.text))
    assert lines == document.lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("a = 1", {("a",): 1}),
        ("\n\n  a.b = 1 # c\n", {("a",): 3, ("a", "b"): 3}),
        ('a = """\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 4}),
        ("a = [\n  1, # one\n\n  2,\n]\nb = 1", {("a",): 1, ("a", 0): 2, ("a", 1): 4, ("b",): 6}),
        ("[a.b]\nc = 1\n[a]\nd = 1", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 2, ("a", "d"): 4}),
        (
            "[[a]]\nb = 1\n[a.c]\nd = 1\n[[a]]\nb = 2",
            {
                ("a",): 1,
                ("a", 0): 1,
                ("a", 0, "b"): 2,
                ("a", 0, "c"): 3,
                ("a", 0, "c", "d"): 4,
                ("a", 1): 5,
                ("a", 1, "b"): 6,
            },
        ),
        (
            "[[a]]\n[[a.b]]\nc=1\n[[a.b]]\nc=2",
            {
                ("a",): 1,
                ("a", 0): 1,
                ("a", 0, "b"): 2,
                ("a", 0, "b", 0): 2,
                ("a", 0, "b", 0, "c"): 3,
                ("a", 0, "b", 1): 4,
                ("a", 0, "b", 1, "c"): 5,
            },
        ),
        ("a = 1\r\n[b]\r\nc = 'x'", {("a",): 1, ("b",): 2, ("b", "c"): 3}),
        (r'"a\u0062.c" = { d = [ "]" ], "e f" = 1 }', None),
    ],
)
def test_line_is_where_a_key_begins(text: str, lines: dict[KeyPath, int] | None) -> None:
    found = lines_of(text)
    assert found.keys() == paths_of(tomllib.loads(text))
    if lines is not None:
        assert found == lines
