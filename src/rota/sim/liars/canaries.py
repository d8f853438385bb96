"""Cores without one of the defences against liars: each must be caught by a dishonest seed.

A canary of this module says, beside its invariant, which strategy its liars follow: its settings have them.
"""

from __future__ import annotations

from rota.sim.canaries import CANARIES, MINUTES, Canary
from rota.sim.plan import Settings
from rota.types import Mode


def lying(
    *strategies: str, liars: int = 1, faults: tuple[str, ...] = (), mode: Mode | None = None, minutes: float = MINUTES
) -> Settings:
    """Seeds with so many liars that follow these strategies."""
    return Settings(minutes=minutes, faults=faults, mode=mode, liars=liars, strategies=strategies)


CANARIES_AMONG_LIARS: tuple[Canary, ...] = ()
EVERY_CANARY: tuple[Canary, ...] = (*CANARIES, *CANARIES_AMONG_LIARS)
