"""Random TOML documents, with the line on which each of their keys stands, for the scanner to be held against.

A document is built as text, and the lines are noted as it grows, so that they owe nothing to the scanner under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from hypothesis import strategies as st

from rota.server.configuring.lines import KeyPath

BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
ODD = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x7f"), max_size=4)
SPACE = st.sampled_from(("", " ", "\t", "  "))
COMMENT = st.sampled_from(("", "# a comment", '# [not] = "a key', "#'''"))
SCALARS = st.sampled_from(
    (
        "1", "-17", "1_000", "0xff", "1.5e3", "inf", "true", "1979-05-27 07:32:00Z", "07:32:00",
        '""', '"a # b"', r'"\" = [x] \\"', "''", "'a = \"b\" #'",
        '"""x"""', '""""""', '"""""""', '"""\n[a]\nb = 1\n"""',
        r'"""a \""" b ""\" """', '"""a\n\\\n   b"" """', '"""q"""""',
        "'''x'''", "''''''", "'''\n[[a]]\n# b\n'''", "'''it''s'''''",
    )
)  # fmt: skip


@dataclass
class Document:
    """Text as it grows, and where its keys began."""

    text: str = ""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    names: dict[KeyPath, set[str]] = field(default_factory=dict)

    def note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A document that tomllib accepts: pairs at the root, then tables and lists of tables with pairs of their own."""
    document = Document()
    _pairs(draw, document, ())
    lists: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 4))):
        name = draw(BARE)
        if draw(st.booleans()) and (name in lists or name not in document.names[()]):
            document.names[()].add(name)
            document.note((name,))
            place = lists[name] = lists.get(name, -1) + 1
            document.note((name, place))
            _line(draw, document, f"[[{draw(SPACE)}{_quoted(draw, name)}{draw(SPACE)}]]")
            _pairs(draw, document, (name, place))
            if draw(st.booleans()):
                _table(draw, document, (name, place), [name])
        elif name not in document.names[()]:
            _table(draw, document, (), [], name)
    if draw(st.booleans()):
        document.text = document.text.replace("\n", "\r\n")
    return document


def _table(draw: st.DrawFn, document: Document, above: KeyPath, header: list[str], name: str | None = None) -> None:
    """A table whose header may name one that is not there yet, on the way."""
    first = draw(BARE) if name is None else name
    if first in document.names[above]:
        return
    document.names[above].add(first)
    names = [first, *draw(st.lists(BARE | ODD, max_size=2))]
    path = above
    for each in names:
        path = (*path, each)
        document.note(path)
    inside = f"{draw(SPACE)}.{draw(SPACE)}".join(_quoted(draw, each) for each in (*header, *names))
    _line(draw, document, f"[{draw(SPACE)}{inside}{draw(SPACE)}]")
    _pairs(draw, document, path)


def _pairs(draw: st.DrawFn, document: Document, table: KeyPath) -> None:
    taken = document.names.setdefault(table, set())
    for _ in range(draw(st.integers(0, 3))):
        for _ in range(draw(st.integers(0, 2))):
            _line(draw, document, "")
        document.text += draw(SPACE)
        if _pair(draw, document, table, taken, depth=2):
            _line(draw, document, "")


def _pair(draw: st.DrawFn, document: Document, table: KeyPath, taken: set[str], depth: int) -> bool:
    names = draw(st.lists(BARE | ODD, min_size=1, max_size=3))
    if names[0] in taken:
        return False
    taken.add(names[0])
    path = table
    for name in names:
        path = (*path, name)
        document.note(path)
    dotted = f"{draw(SPACE)}.{draw(SPACE)}".join(_quoted(draw, name) for name in names)
    document.text += f"{dotted}{draw(SPACE)}={draw(SPACE)}"
    _value(draw, document, path, depth)
    return True


def _value(draw: st.DrawFn, document: Document, path: KeyPath, depth: int) -> None:
    shape = draw(st.sampled_from(("scalar", "list", "table"))) if depth else "scalar"
    if shape == "scalar":
        document.text += draw(SCALARS)
        return
    document.text += "[" if shape == "list" else "{"
    count = draw(st.integers(0, 2))
    taken: set[str] = set()
    is_first = True
    for place in range(count):
        if shape == "list":
            _blank(draw, document)
            document.note((*path, place))
            _value(draw, document, (*path, place), depth - 1)
            _blank(draw, document)
            if place < count - 1 or draw(st.booleans()):
                document.text += ","
        else:
            _inline_pair(draw, document, path, taken, is_first, depth)
            is_first = not taken
    if shape == "list":
        _blank(draw, document)
    document.text += "]" if shape == "list" else "}"


def _inline_pair(
    draw: st.DrawFn, document: Document, path: KeyPath, taken: set[str], is_first: bool, depth: int
) -> None:
    before = document.text
    document.text += draw(SPACE) if is_first else f"{draw(SPACE)},{draw(SPACE)}"
    if not _pair(draw, document, path, taken, depth - 1):
        document.text = before


def _blank(draw: st.DrawFn, document: Document) -> None:
    document.text += draw(SPACE)
    for _ in range(draw(st.integers(0, 2))):
        _line(draw, document, "")
        document.text += draw(SPACE)


def _line(draw: st.DrawFn, document: Document, text: str) -> None:
    document.text += f"{text}{draw(SPACE)}{draw(COMMENT)}\n"


def _quoted(draw: st.DrawFn, name: str) -> str:
    is_bare = bool(name) and all(character in "abcXYZ019_-" for character in name)
    if is_bare and draw(st.booleans()):
        return name
    if "'" not in name and draw(st.booleans()):
        return f"'{name}'"
    if draw(st.booleans()):
        return '"' + "".join(f"\\U{ord(character):08x}" for character in name) + '"'
    return json.dumps(name, ensure_ascii=False)
