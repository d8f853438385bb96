"""The journal: a small file with the commands of an application, which survives its crash.

Theory of operation. Each line is one JSON object, appended and flushed to disk before its action begins. A
line that could not be written, as on a full disk, is cut off again, and `remember` raises: its action does not begin. A
line that a crash has torn is skipped for the same reason. When the file is opened, completed changes are left out and
the rest is written to a second file, which replaces the first atomically; without room for it, the first stays in use.

A journal is for one process at a time. Within it several runs of one change may be under way: each changes the entry as
it is then (`update`), so that none overwrites what another has noted.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Final, Self

ENTRIES_MAX: Final = 100_000
_BEGINNING: Final = b'{"change":'


class JournalTaken(Exception):
    """Another process has this journal open."""


class JournalDamaged(Exception):
    """A line of this journal cannot be read and was not torn by a failed write. Restore the file from a copy."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A change that the application wants: its command id, its start, and its attempts.

    `open_attempts` are submissions with an unknown outcome; `attempts` counts all of them.
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
        self._changing: Final = RLock()
        # The file is whole up to here, and has nothing behind it unless it is torn.
        self._length = 0
        self._is_torn = False
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
        """The entry of a change, completed or not."""
        return self._entries.get(change)

    @property
    def unended(self) -> tuple[JournalEntry, ...]:
        """What the application began and has no outcome of, in the order in which it began."""
        return tuple(entry for entry in self._entries.values() if not entry.outcome)

    def begin(self, entry: JournalEntry) -> JournalEntry:
        """The entry of its change; this one, if there is none."""
        with self._changing:
            return self._entries.get(entry.change) or self.remember(entry)

    def update(self, change: str, how: Callable[[JournalEntry], JournalEntry]) -> JournalEntry:
        """Update the latest entry of a change."""
        with self._changing:
            entry = self._entries[change]
            changed = how(entry)
            return entry if changed == entry else self.remember(changed)

    def remember(self, entry: JournalEntry) -> JournalEntry:
        """From now on this is known of its change, also after a crash. `OSError` when it cannot be written."""
        with self._changing:
            if entry.change not in self._entries and len(self._entries) >= ENTRIES_MAX:
                raise ValueError(f"the journal has {ENTRIES_MAX} changes in it; begin another one")
            if self._is_torn:
                self._cut_off()
            line = _line_of(entry)
            self._is_torn = True
            try:
                _write(self._file, line)
                os.fsync(self._file)
            except OSError:
                with suppress(OSError):
                    self._cut_off()
                raise
            self._is_torn = False
            self._length += len(line)
            self._entries[entry.change] = entry
            return entry

    def _cut_off(self) -> None:
        """The next line must not begin in the middle of one that could not be written."""
        os.ftruncate(self._file, self._length)
        self._is_torn = False

    def _opened(self) -> int:
        self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = self._path.read_bytes() if self._path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            for number, line in enumerate(whole.splitlines(), 1):
                entry = _entry_in(line)
                if entry is None:
                    raise JournalDamaged(f"{self._path}: line {number} cannot be read")
                self._entries.pop(entry.change, None)
                if self._keep_ended or not entry.outcome:
                    self._entries[entry.change] = entry
            try:
                return self._rewritten()
            except OSError:
                return self._used_on(len(whole))
        except BlockingIOError:
            os.close(self._lock)
            raise JournalTaken(f"{self._path}: another process has this journal open") from None
        except BaseException:
            os.close(self._lock)
            raise

    def _rewritten(self) -> int:
        """Replace the file by one with the open changes."""
        lines = b"".join(map(_line_of, self._entries.values()))
        fresh = self._path.with_name(self._path.name + ".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write(file, lines)
            os.fsync(file)
            fresh.replace(self._path)
        except BaseException:
            os.close(file)
            with suppress(OSError):
                fresh.unlink()
            raise
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self._length = len(lines)
        return file

    def _used_on(self, length: int) -> int:
        """The old file, up to where it is whole."""
        self._length, self._is_torn = length, True
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _line_of(entry: JournalEntry) -> bytes:
    fields = {name: getattr(entry, name) for name in JournalEntry.__slots__}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _entry_in(line: bytes) -> JournalEntry | None:
    """The entry in a line, which may stand behind the beginning of one that could not be written and not cut off."""
    start = 0
    while start != -1:
        with suppress(ValueError, TypeError, KeyError):
            kept: dict[str, Any] = json.loads(line[start:])
            return JournalEntry(**{**kept, "open_attempts": tuple(kept["open_attempts"])})
        start = line.find(_BEGINNING, start + 1)
    return None


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def with_attempt(entry: JournalEntry, submission_id: str) -> JournalEntry:
    """A submission is about to leave."""
    return replace(entry, attempts=entry.attempts + 1, open_attempts=(*entry.open_attempts, submission_id))


def without_attempt(entry: JournalEntry, submission_id: str) -> JournalEntry:
    """It is known what became of it."""
    return replace(entry, open_attempts=tuple(each for each in entry.open_attempts if each != submission_id))
