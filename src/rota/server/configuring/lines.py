"""The line of each key in a TOML text, which `tomllib` does not report.

The scanner reads only texts that `tomllib` has accepted. It validates nothing; it finds where keys begin and values
end. A key is identified by its path from the root, in which numbers are the indexes of list elements. The line of a
table is that of its first mention.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\n]*")
_BASIC: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^']*'")
# If more than three quotes end the text, one or two of them belong to it.
_LONG_BASIC: Final = re.compile(r'"""(?:[^\\]|\\.)*?""""{0,2}', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''.*?''''{0,2}", re.DOTALL)
_STRINGS: Final = (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL))


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """The line of each key, table and list element of a text that `tomllib` accepts; the first line is 1."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.scan()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: Final[dict[KeyPath, int]] = {}
        self._text: Final = text
        self._at = 0
        self._ends: Final = list(accumulate(len(line) + 1 for line in text.split("\n")))
        self._list_lengths: Final[dict[KeyPath, int]] = {}  # of lists of tables, by the headers so far

    def scan(self) -> None:
        table: KeyPath = ()
        self._pass(_BLANK)
        while self._at < len(self._text):
            if self._next_is("["):
                table = self._header()
            else:
                self._pair(table)
            self._pass(_BLANK)

    def _header(self) -> KeyPath:
        """Read a header; return the path of its table."""
        is_list = self._text.startswith("[[", self._at)
        at = self._at
        self._at += 2 if is_list else 1
        *above, last = self._dotted_key()
        self._at += 2 if is_list else 1
        path: KeyPath = ()
        for name in above:
            path = self._entered((*path, name))
            self._note(path, at)
        path = (*path, last)
        if is_list:
            self._note(path, at)
            self._list_lengths[path] = self._list_lengths.get(path, 0) + 1
        path = self._entered(path)
        self._note(path, at)
        return path

    def _entered(self, path: KeyPath) -> KeyPath:
        """Return the path of a table; for a list of tables, of its latest element."""
        length = self._list_lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _pair(self, table: KeyPath) -> None:
        at = self._at
        path = table
        for name in self._dotted_key():
            path = (*path, name)
            self._note(path, at)
        self._at += 1  # the equals sign
        self._pass(_SPACE)
        self._value(path)

    def _dotted_key(self) -> list[str]:
        names = [self._simple_key()]
        while self._next_is("."):
            self._at += 1
            names.append(self._simple_key())
        return names

    def _simple_key(self) -> str:
        self._pass(_SPACE)
        is_quoted = self._next_is('"', "'")
        form = _BARE_KEY if not is_quoted else _BASIC if self._next_is('"') else _LITERAL
        name = self._pass(form)
        self._pass(_SPACE)
        if not is_quoted:
            return name
        read: str = tomllib.loads(f"key = {name}")["key"]
        return read

    def _value(self, path: KeyPath) -> None:
        for quotes, form in _STRINGS:
            if self._next_is(quotes):
                self._pass(form)
                return
        if self._next_is("["):
            self._list(path)
        elif self._next_is("{"):
            self._inline_table(path)
        else:
            self._pass(_BARE_VALUE)

    def _list(self, path: KeyPath) -> None:
        self._at += 1
        self._pass(_BLANK)
        place = 0
        while not self._next_is("]"):
            self._note((*path, place), self._at)
            self._value((*path, place))
            place += 1
            self._pass_comma()
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._pass(_BLANK)
        while not self._next_is("}"):
            self._pair(path)
            self._pass_comma()
        self._at += 1

    def _pass_comma(self) -> None:
        self._pass(_BLANK)
        if self._next_is(","):
            self._at += 1
            self._pass(_BLANK)

    def _pass(self, form: re.Pattern[str]) -> str:
        match = form.match(self._text, self._at)
        assert match, f"tomllib accepted what stands at character {self._at}"
        self._at = match.end()
        return match[0]

    def _next_is(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _note(self, path: KeyPath, at: int) -> None:
        self.lines.setdefault(path, bisect_right(self._ends, at) + 1)
