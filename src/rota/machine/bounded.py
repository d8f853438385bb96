"""Bounded memory: the oldest entry is forgotten first."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def forget_oldest(noted: dict[Key, Value], most: int) -> None:
    """Forget the oldest entries beyond `most`; call it after each new entry."""
    if len(noted) > most:
        del noted[next(iter(noted))]
