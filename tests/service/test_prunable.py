"""Completions that may be pruned are those that are older than asked for and than every supported period."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rota.commands.periods import Stream
from rota.ports import Unavailable
from rota.service.commands.commands import wall_clock_us
from rota.service.commands.prunable import PrunableCompletions
from rota.service.interface import CommandConfiguration

DAY_MS = 86_400_000


@dataclass
class Office:
    """As much of a command office as pruning asks for."""

    stream: Stream
    maximum_ms: int = 7 * DAY_MS
    has_begun: bool = True
    pruned: list[int] = field(default_factory=list)

    @property
    def desk(self) -> Any:  # noqa: ANN401  # a desk that has a stream
        return SimpleNamespace(stream=self.stream)

    def configuration(self) -> CommandConfiguration:
        return CommandConfiguration(self.maximum_ms)

    async def prune(self, offset: int) -> None:
        self.pruned.append(offset)


@dataclass
class Completions:
    """Days ago at which each was published, the first one first."""

    days_ago: tuple[float, ...]

    async def pruning_point(self, offset: int, horizon_us: int) -> tuple[int, int]:
        published = [wall_clock_us() - int(days * DAY_MS * 1_000) for days in self.days_ago]
        return published[offset - 1], sum(at_us < horizon_us for at_us in published)


def offset_of(office: Office, *days_ago: float, keep_days: int) -> int:
    store: Any = Completions(days_ago)
    given: Any = office
    return asyncio.run(PrunableCompletions(lambda: given, store).offset(keep_days * DAY_MS))


def test_the_longer_of_both_times_counts() -> None:
    days_ago = (40, 20, 10, 5, 1)
    assert offset_of(Office(Stream(end=5)), *days_ago, keep_days=30) == 1
    assert offset_of(Office(Stream(end=5)), *days_ago, keep_days=15) == 2
    assert offset_of(Office(Stream(end=5)), *days_ago, keep_days=1) == 3, "seven days are supported"


def test_what_is_pruned_is_not_pruned_again() -> None:
    assert offset_of(Office(Stream(end=2, pruned=1)), 40, 20, keep_days=30) == 0
    assert offset_of(Office(Stream(end=2, pruned=2)), 40, 20, keep_days=1) == 0
    assert offset_of(Office(Stream()), keep_days=1) == 0


def test_before_commands_are_taken_nothing_is_known() -> None:
    with pytest.raises(Unavailable, match="not taken yet"):
        offset_of(Office(Stream(), has_begun=False), keep_days=1)


def test_pruning_is_the_offices() -> None:
    office = Office(Stream(end=3))
    given: Any = office
    store: Any = Completions(())
    asyncio.run(PrunableCompletions(lambda: given, store).prune(2))
    assert office.pruned == [2]
