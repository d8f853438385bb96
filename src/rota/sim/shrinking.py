"""Makes a failing seed smaller: fewer faults, then fewer intents, then less time.

A cut is kept when the same invariant is still violated. Faults are left out in chunks, half of them first and single
ones last; of the intents the later ones go first. The result is a seed with settings, so that one command replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rota.sim.plan import Fault, Settings
from rota.sim.swarm import MakeSwarm, Swarm

RUNS_MAX = 200
MINUTES_MIN = 0.05

Fails = Callable[[Settings], bool]


def shrink(
    seed: int, settings: Settings, invariant: str, runs_max: int = RUNS_MAX, make: MakeSwarm = Swarm
) -> Settings:
    """Settings under which the seed still violates the invariant, reduced as far as `runs_max` runs permit.

    `make` makes the swarm that plays a run.
    """
    runs_left = runs_max

    def fails(tried: Settings) -> bool:
        nonlocal runs_left
        if runs_left <= 0:
            return False
        runs_left -= 1
        violations = make(seed, tried).play().violations
        return bool(violations) and violations[0].invariant == invariant

    planned = make(seed, settings)
    settings = _with_fewer_faults(planned.plan.faults, settings, fails)
    settings = _with_fewer_intents(planned.planned_count, settings, fails)
    return _with_less_time(settings, fails)


def _with_fewer_faults(faults: tuple[Fault, ...], settings: Settings, fails: Fails) -> Settings:
    kept = tuple(fault.number for fault in faults)
    if fails(replace(settings, only_faults=())):
        return replace(settings, only_faults=())
    size = (len(kept) + 1) // 2
    while size >= 1:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if len(fewer) < len(kept) and fails(replace(settings, only_faults=fewer)):
                kept = fewer
            else:
                start += size
        size //= 2
    return replace(settings, only_faults=kept)


def _with_fewer_intents(enough: int, settings: Settings, fails: Fails) -> Settings:
    """Keep the fewest first intents that still fail, by bisection."""
    too_few = 0
    while too_few < enough:
        middle = (too_few + enough) // 2
        if fails(replace(settings, intents=middle)):
            enough = middle
        else:
            too_few = middle + 1
    return replace(settings, intents=enough)


def _with_less_time(settings: Settings, fails: Fails) -> Settings:
    """Halve the time as long as the seed still fails."""
    while settings.minutes / 2 >= MINUTES_MIN:
        shorter = replace(settings, minutes=settings.minutes / 2)
        if not fails(shorter):
            break
        settings = shorter
    return settings
