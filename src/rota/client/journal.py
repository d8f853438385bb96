"""What an application remembers of its commands across its own crash: a small file of its own.

Theory of operation. Each line is one JSON object, appended and brought to the disk before the thing that it tells of is
done. A line that a crash has torn is the last one and is passed over: what it told of had not begun. When the file is
opened, what has ended is left out and the rest written anew, into a second file that takes the place of the first at
once. A journal is for one process at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ENTRIES_MAX: Final = 100_000


class JournalTaken(Exception):
    """Another process has this journal open."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A change that the application wants: under which command id, since when, and what was tried so far.

    `open_attempts` are submissions of which nobody knows what became; `attempts` counts all of them.
    """

    change: str
    command_id: str
    transaction: Mapping[str, object]
    began_at_ms: int
    bound_ms: int | None = None
    offset: int | None = None
    attempts: int = 0
    open_attempts: tuple[str, ...] = ()
    outcome: Mapping[str, object] = field(default_factory=dict)


class Journal:
    """One file. `remember` is durable on return."""

    def __init__(self, path: Path, *, keep_ended: bool = True) -> None:
        self._path: Final = path
        self._keep_ended: Final = keep_ended
        self._entries: Final[dict[str, JournalEntry]] = {}
        self._file = self._opened()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        os.close(self._file)
        os.close(self._lock)

    def entry(self, change: str) -> JournalEntry | None:
        """What is known of a change, ended or not."""
        return self._entries.get(change)

    @property
    def unended(self) -> tuple[JournalEntry, ...]:
        """What the application began and has no outcome of, in the order in which it began."""
        return tuple(entry for entry in self._entries.values() if not entry.outcome)

    def remember(self, entry: JournalEntry) -> JournalEntry:
        """From now on this is known of its change, also after a crash."""
        if entry.change not in self._entries and len(self._entries) >= ENTRIES_MAX:
            raise ValueError(f"the journal has {ENTRIES_MAX} changes in it; begin another one")
        self._append(self._file, entry)
        os.fsync(self._file)
        self._entries[entry.change] = entry
        return entry

    def _opened(self) -> int:
        self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise JournalTaken(f"{self._path}: another process has this journal open") from None
        for entry in self._read():
            self._entries.pop(entry.change, None)
            if self._keep_ended or not entry.outcome:
                self._entries[entry.change] = entry
        fresh = self._path.with_name(self._path.name + ".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for entry in self._entries.values():
            self._append(file, entry)
        os.fsync(file)
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        return file

    def _read(self) -> list[JournalEntry]:
        if not self._path.exists():
            return []
        found = []
        *whole, _ = self._path.read_bytes().split(b"\n")
        for line in whole:
            kept: dict[str, Any] = json.loads(line)
            kept["open_attempts"] = tuple(kept["open_attempts"])
            found.append(JournalEntry(**kept))
        return found

    @staticmethod
    def _append(file: int, entry: JournalEntry) -> None:
        names = JournalEntry.__slots__
        line = json.dumps({name: getattr(entry, name) for name in names}, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(file, line) :]


def with_attempt(entry: JournalEntry, submission_id: str) -> JournalEntry:
    """A submission is about to leave."""
    return replace(entry, attempts=entry.attempts + 1, open_attempts=(*entry.open_attempts, submission_id))


def without_attempt(entry: JournalEntry, submission_id: str) -> JournalEntry:
    """It is known what became of it."""
    return replace(entry, open_attempts=tuple(each for each in entry.open_attempts if each != submission_id))
