"""A node's view of the other members and of time: who is at work, who missed its slots, how long tasks take.

All of it comes from the ledger: who performed which task, and when that was seen. So nodes that follow the same ledger
reach the same view, and one that does not have it yet causes a duplicate and loses nothing.

A member *missed* its slot when a task was performed by one whose slot came later, and the ledger shows no task that it
performed since this one was ready: a busy member wins something, one that is down or always fails does not. It goes to
the back for a while, each time for twice as long; a win brings it forward again. The while is counted in the ledger's
time, from the time at which that task was ready, so that it ends for all members with the same task.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rota.automation.settings import (
    BACK_MAX_MS,
    BACK_MS,
    DURATIONS_KEPT,
    LEDGER_SAMPLES_KEPT,
    SLOT_DURATIONS_MAX,
    SLOT_MARGIN_PERCENT,
    SLOT_MIN_MS,
)
from rota.automation.strategies import Member


class Standing:
    """The members that won lately, and those at the back. There are no more entries than members."""

    def __init__(self) -> None:
        self._won_ms: Final[dict[Member, int]] = {}
        self._back_until_ms: Final[dict[Member, int]] = {}
        self._back_for_ms: Final[dict[Member, int]] = {}

    def won(self, member: Member, now_ms: int) -> None:
        """This member has performed a task."""
        self._won_ms[member] = now_ms
        self._back_until_ms.pop(member, None)
        self._back_for_ms.pop(member, None)

    def missed(self, member: Member, ledger_ms: int, ready_ms: int) -> None:
        """A later member performed a task that was ready at these times of the ledger's clock and of ours."""
        if self.has_won_since(member, ready_ms) or self._back_until_ms.get(member, 0) > ledger_ms:
            return
        for_ms = min(2 * self._back_for_ms.get(member, BACK_MS // 2), BACK_MAX_MS)
        self._back_for_ms[member] = for_ms
        self._back_until_ms[member] = ledger_ms + for_ms

    def has_won_since(self, member: Member, since_ms: int) -> bool:
        """Whether it performed a task after this time."""
        won_ms = self._won_ms.get(member)
        return won_ms is not None and won_ms >= since_ms

    def back(self, ledger_ms: int) -> tuple[Member, ...]:
        """The members at the back for a task that is ready at this time of the ledger."""
        return tuple(member for member, until_ms in self._back_until_ms.items() if until_ms > ledger_ms)

    def keep(self, members: tuple[Member, ...]) -> None:
        """Remove members that have left."""
        for book in (self._won_ms, self._back_until_ms, self._back_for_ms):
            for member in [each for each in book if each not in members]:
                del book[member]


class Durations:
    """The length of a slot: the longest of the latest durations from an attempt's start until its result is seen.

    At the start all of them are the expected one, so that a slot becomes shorter only after several measurements, and
    longer after one.
    """

    def __init__(self, expected_ms: int) -> None:
        self._most_ms: Final = SLOT_DURATIONS_MAX * expected_ms
        self._latest: Final = deque([expected_ms] * DURATIONS_KEPT, DURATIONS_KEPT)

    def measured(self, duration_ms: int) -> None:
        """Add a measurement."""
        self._latest.append(max(0, duration_ms))

    def was_too_short(self) -> None:
        """We began in our slot while a member before us was not done: slots must be longer."""
        self._latest.append(self.slot_ms * 3 // 2)

    @property
    def slot_ms(self) -> int:
        """The length of a slot now."""
        return min(max(max(self._latest) * (100 + SLOT_MARGIN_PERCENT) // 100, SLOT_MIN_MS), self._most_ms)


class LedgerClock:
    """The ledger's time by our clock.

    A block is seen some time after its own time. The least such difference of late is the offset of our clock to the
    ledger's: nodes whose clocks differ by seconds agree on the beginning of a slot.
    """

    def __init__(self) -> None:
        self._ahead_ms: Final[deque[int]] = deque(maxlen=LEDGER_SAMPLES_KEPT)

    def seen(self, ledger_ms: int, now_ms: int) -> None:
        """A block with this time is seen for the first time."""
        self._ahead_ms.append(now_ms - ledger_ms)

    @property
    def ahead_ms(self) -> int:
        """By how much our clock is ahead of the ledger's; 0 before the first block."""
        return min(self._ahead_ms, default=0)

    def own_ms(self, ledger_ms: int) -> int:
        """Our clock at this time of the ledger."""
        return ledger_ms + self.ahead_ms

    def ledger_ms(self, own_ms: int) -> int:
        """The ledger's clock at this time of ours."""
        return own_ms - self.ahead_ms
