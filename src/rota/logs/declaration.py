"""A log event: a stable code, a level, fields, and what they mean to an operator.

A module logs through an event of `rota.logs.catalogue` and never through a logger of its own. The code of an event, its
level and the names of its fields are stable. Its text may change; programs must not match it. The logger's name is
`rota.` with the first part of the code, so that an operator can filter by area.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

import structlog


class Level(Enum):
    """How much an event matters to an operator."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"

    @property
    def number(self) -> int:
        """The level's number in `logging`."""
        return logging.getLevelNamesMapping()[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One kind of log line. `text` is the line for people; `action` is what an operator does, empty if nothing."""

    code: str
    level: Level
    text: str
    fields: tuple[str, ...]
    meaning: str
    action: str

    @property
    def logger_name(self) -> str:
        """The name of its logger in `logging`."""
        return f"rota.{self.code.partition('.')[0]}"

    @property
    def is_enabled(self) -> bool:
        """Whether the configured level lets it through."""
        return logging.getLogger(self.logger_name).isEnabledFor(self.level.number)

    def log(self, *, error: BaseException | None = None, **fields: object) -> None:
        """Write one line with these fields, which must be the declared ones, and the traceback of `error`."""
        assert set(fields) == set(self.fields), f"{self.code}: the fields are {self.fields}, not {tuple(fields)}"
        if not structlog.is_configured():
            # A program that has not configured logs, such as a benchmark, needs its standard output for itself.
            values = " ".join(f"{name}={value}" for name, value in fields.items())
            line = f"{self.text} [{self.code}] {values}".rstrip()
            logging.getLogger(self.logger_name).log(self.level.number, "%s", line, exc_info=error)
            return
        if error is not None:
            fields["exc_info"] = error
        write = getattr(structlog.get_logger(self.logger_name), self.level.value)
        write(self.code, message=self.text, **fields)
