"""What is wrong with a configuration, told so that it can be found and mended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a line of a file, a file as a whole, or a variable of the environment."""

    name: str
    line: int = 0
    is_variable: bool = False

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong. `key` is `section.key`, a section, or empty when it is about the whole file."""

    place: Place
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.key}: {self.text}" if self.key else f"{self.place}: {self.text}"


class ConfigurationRejected(Exception):
    """A configuration with flaws. Its text has one line for each, as they stand in the file; variables come last."""

    def __init__(self, flaws: Iterable[Flaw]) -> None:
        self.flaws: Final = tuple(sorted(flaws, key=_order))
        super().__init__("\n".join(map(str, self.flaws)))


def _order(flaw: Flaw) -> tuple[bool, int, str, str]:
    return flaw.place.is_variable, flaw.place.line, flaw.place.name, flaw.key
