"""Errors of a configuration, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, a whole file, or an environment variable."""

    name: str
    line: int = 0
    is_variable: bool = False

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


@dataclass(frozen=True, slots=True)
class Flaw:
    """One error. `key` is `section.key`, a section, or empty for the whole file."""

    place: Place
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.key}: {self.text}" if self.key else f"{self.place}: {self.text}"


class ConfigurationRejected(Exception):
    """The configuration has errors. The text has a line for each, in the order of the file; variables come last."""

    def __init__(self, flaws: Iterable[Flaw]) -> None:
        self.flaws: Final = tuple(sorted(flaws, key=_order))
        super().__init__("\n".join(map(str, self.flaws)))


def _order(flaw: Flaw) -> tuple[bool, int, str, str]:
    return flaw.place.is_variable, flaw.place.line, flaw.place.name, flaw.key
