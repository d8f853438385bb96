"""Counts that may only fall.

A ratchet counts defects of every file, such as functions that are too long, and compares them with the recorded counts
in a file of the repository. A higher count fails: change the new code. A lower count also fails until it is recorded,
so that later changes cannot use up the gain. A file without a record counts 0: new files start clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple


class Item(NamedTuple):
    """The key of a count: a file, or another name, and the measure."""

    where: str
    measure: str


Counts = Mapping[Item, int]


class Ratchet(NamedTuple):
    """Recorded counts, and how to speak of them."""

    path: Path
    command: str
    advice: Callable[[Item], str]

    def read(self) -> dict[Item, int]:
        """The recorded counts."""
        if not self.path.exists():
            return {}
        lines = [line.split() for line in self.path.read_text(encoding="utf-8").splitlines() if line[:1] not in "#"]
        return {Item(where, measure): int(count) for where, measure, count in lines}

    def check(self, counts: Counts) -> list[str]:
        """Errors: one for each count that has risen, and one for all that have fallen."""
        recorded = self.read()
        told = [self._rise(item, recorded.get(item, 0), count) for item, count in _risen(recorded, counts)]
        fallen = [item for item, count in recorded.items() if counts.get(item, 0) < count]
        if fallen:
            some = ", ".join(f"{item.where} ({item.measure})" for item in fallen[:5])
            more = f" and {len(fallen) - 5} more" if len(fallen) > 5 else ""
            told.append(f"fewer than recorded: {some}{more}. Record the lower counts: {self.command} record")
        return told

    def record(self, counts: Counts, accepts_rises: bool = False) -> list[str]:
        """Write the counts, and return an error for each that has risen; those keep their recorded value.

        With `accepts_rises` all are written as they are.
        """
        recorded = self.read()
        risen = [] if accepts_rises else _risen(recorded, counts)
        kept = {item: recorded.get(item, 0) for item, _ in risen}
        lines = [
            f"{item.where} {item.measure} {count}\n" for item, count in sorted({**counts, **kept}.items()) if count
        ]
        head = f"# Counts that may only fall; {self.command} record writes them.\n"
        self.path.write_text(head + "".join(lines), encoding="utf-8")
        return [self._rise(item, recorded.get(item, 0), count) for item, count in risen]

    def _rise(self, item: Item, recorded: int, count: int) -> str:
        return (
            f"{item.where}: {item.measure} {count}, at most {recorded} recorded. {self.advice(item)} "
            f"(If this came with a merge: {self.command} record --accept-rises)"
        )

    def main(self, counts: Counts, arguments: list[str]) -> int:
        """`check`, or `record` with or without `--accept-rises`; what a command of a ratchet does."""
        match arguments:
            case ["record"]:
                told = self.record(counts)
            case ["record", "--accept-rises"]:
                told = self.record(counts, accepts_rises=True)
            case _:
                told = self.check(counts)
        for line in told:
            print(line)
        return 1 if told else 0


def _risen(recorded: Counts, counts: Counts) -> list[tuple[Item, int]]:
    return sorted((item, count) for item, count in counts.items() if count > recorded.get(item, 0))
