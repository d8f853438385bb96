"""A running node's view of itself: its process, its database, its settings without secrets."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rota.server.configuration import SECTIONS, NodeConfiguration, PostgresServer, SqliteFile
from rota.server.configuring.keys import Key
from rota.server.configuring.kinds import WebAddress
from rota.service.operations.self_view import DatabaseView, SettingView
from rota.service.run import RunningNode

SQLITE_ENDINGS: Final = ("", "-wal", "-shm")
# The memory of this process, in pages: its size, then how much of it is resident.
PROCESS_FIGURES: Final = Path("/proc/self/statm")


class Itself:
    """`service.operations.self_view.Itself`."""

    def __init__(self, running: RunningNode, configuration: NodeConfiguration, started_at_ms: int) -> None:
        self._running: Final = running
        self._configuration: Final = configuration
        self.started_at_ms: Final = started_at_ms
        self.version: Final = version("rota")

    def memory_bytes(self) -> int:
        """Return the resident memory; where the system does not report it, the peak."""
        try:
            return int(PROCESS_FIGURES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return most if sys.platform == "darwin" else most * 1_024

    def database(self) -> DatabaseView:
        """Return the kind, place, size and trouble of the database; the size for SQLite only."""
        url, trouble = self._configuration.store.url, self._running.adapters.store.trouble
        if isinstance(url, SqliteFile):
            return DatabaseView("SQLite", str(url.path), _size_of(url.path), trouble)
        return DatabaseView("PostgreSQL", _shown_server(url), None, trouble)

    def settings(self) -> tuple[SettingView, ...]:
        """Return the settings in the file's order; for tables of domains and triggers only names: keys are unknown."""
        found = [
            _setting(key, _value(self._configuration, key))
            for section in SECTIONS
            for key in section.keys
            if not key.is_environment_only
        ]
        found += [SettingView(f"domains.{name}", "…") for name in sorted(self._configuration.domains)]
        found += [SettingView(f"triggers.{name}", "…") for name in sorted(self._configuration.triggers)]
        return tuple(found)


def _size_of(path: Path) -> int:
    sizes = 0
    for ending in SQLITE_ENDINGS:
        try:
            sizes += path.with_name(path.name + ending).stat().st_size
        except OSError:
            continue
    return sizes


def _shown_server(server: PostgresServer) -> str:
    """Return host, port and database, without user and options."""
    parts = urlsplit(server.url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def _value(configuration: NodeConfiguration, key: Key) -> object:
    """Return the value of a key: a field of its section, or of another package's value in the section."""
    for holder in _holders(configuration, key.section):
        if any(field.name == key.name for field in fields(holder)):  # type: ignore[arg-type]  # it is a dataclass
            return getattr(holder, key.name)
    raise AssertionError(f"{key.path} is in no section")


def _holders(configuration: NodeConfiguration, section: str) -> Iterator[object]:
    own = getattr(configuration, section)
    yield own
    yield from (value for field in fields(own) if is_dataclass(value := getattr(own, field.name)))
    # The core's settings about the chain are in the ledger's section.
    yield configuration.sequencer


def _setting(key: Key, value: object) -> SettingView:
    return SettingView(key.path, _shown(key, value), key.unit, _shown(key, value) == _shown(key, _default(key)))


def _default(key: Key) -> object:
    return None if isinstance(key.default, Enum) else key.kind.read(key.default, Path())


def _shown(key: Key, value: object) -> str:
    match value:
        case None:
            return ""
        case str() if isinstance(key.kind, WebAddress):
            # A provider's key follows the host name, a password precedes it.
            parts = urlsplit(value)
            place = parts.netloc.rpartition("@")[2]
            return f"{parts.scheme}://{place}{'/…' if parts.path.strip('/') or parts.query else ''}"
        case SqliteFile(path):
            return f"sqlite:{path}"
        case PostgresServer():
            return f"postgresql://{_shown_server(value)}"
        case Enum():
            return str(value.value)
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
