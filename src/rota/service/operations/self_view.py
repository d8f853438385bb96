"""A node's description of itself: environment and settings, without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """The node's database. The size is unknown for a server. `trouble` is its present problem."""

    kind: str
    place: str
    size_bytes: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SettingView:
    """A setting in effect. For settings that may contain a secret, only the harmless part is shown."""

    path: str
    value: str
    unit: str = ""
    is_default: bool = False


class Itself(Protocol):
    """A node's description of itself; answered from memory."""

    @property
    def version(self) -> str:
        """The version of Rota."""
        ...

    @property
    def started_at_ms(self) -> int:
        """The time at which this run began."""
        ...

    def memory_bytes(self) -> int:
        """The memory of the process."""
        ...

    def database(self) -> DatabaseView:
        """The node's database."""
        ...

    def settings(self) -> tuple[SettingView, ...]:
        """The settings in effect."""
        ...


class HasItself(Protocol):
    """A node that describes itself."""

    @property
    def itself(self) -> Itself:
        """Its description."""
        ...
