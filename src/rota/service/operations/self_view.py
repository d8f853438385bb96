"""What a node tells of itself: what it runs on and how it is set, without a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """Where a node remembers. How large it is is not known of a server. `trouble` is what it suffers from."""

    kind: str
    place: str
    size_bytes: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SettingView:
    """A setting as it holds. Of what may hold a secret only that is shown which cannot."""

    path: str
    value: str
    unit: str = ""
    is_default: bool = False


class Itself(Protocol):
    """A node's view of itself; answered from memory."""

    @property
    def version(self) -> str:
        """Of Rota."""
        ...

    @property
    def started_at_ms(self) -> int:
        """When this life of it began."""
        ...

    def memory_bytes(self) -> int:
        """What its process holds."""
        ...

    def database(self) -> DatabaseView:
        """Where it remembers."""
        ...

    def settings(self) -> tuple[SettingView, ...]:
        """How it is set."""
        ...


class HasItself(Protocol):
    """A node that tells of itself."""

    @property
    def itself(self) -> Itself:
        """Its view."""
        ...
