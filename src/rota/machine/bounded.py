"""Memory with a bound: the entry that was noted first is forgotten first."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def forget_oldest(noted: dict[Key, Value], most: int) -> None:
    """To be called after each new entry."""
    if len(noted) > most:
        del noted[next(iter(noted))]
