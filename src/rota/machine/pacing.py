"""Pacing: what a peer's messages have us do is done for each thing so many times in a while (trust rule 10).

A message may be repeated as often as its author likes. What it costs us to answer one, such as to verify signatures or
to assemble, is spent a few times in an interval for each key; what comes sooner is dropped, because whoever needs an
answer repeats its request.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Protocol

from rota.machine.bounded import forget_oldest

KEYS_MAX: Final = 4_096
VERIFIED_TIMES_MAX: Final = 4
# More than a coordinator has on its way for one sender that was restarted.
VERIFIED_OF_PEER_MAX: Final = 2_048
ASSEMBLED_TIMES_MAX: Final = 16
VOIDED_TIMES_MAX: Final = 4
# Of what is answered from memory, and may be long: hand-overs, and the results of a slot once more.
ANSWERED_TIMES_MAX: Final = 16
# A coordinator beats once in an interval, and besides at each change of its state.
HEARTBEATS_TIMES_MAX: Final = 32
WRITTEN_AGAIN_TIMES_MAX: Final = 64
# Each names 64 leaves: who makes up for a day asks for thousands of them at once.
STATES_ASKED_TIMES_MAX: Final = 256
# What is read from the store for one peer in an interval; a question counts as so much before it is answered.
QUESTION_BYTES: Final = 65_536
FOUND_BYTES_MAX: Final = STATES_ASKED_TIMES_MAX * QUESTION_BYTES


class Timed(Protocol):
    """Whoever knows what time it is."""

    now_ms: int


@dataclass(slots=True)
class _Window:
    since_ms: int
    count: int = 0


class Pacing:
    """How often each thing was done lately."""

    def __init__(self, timed: Timed) -> None:
        self.timed = timed
        self._windows: dict[Hashable, _Window] = {}

    def is_due(self, key: Hashable, interval_ms: int, times_max: int = 1) -> bool:
        """It was not done so many times in this interval; then it is done now."""
        window = self._windows.get(key)
        if window is None or self.timed.now_ms - window.since_ms >= interval_ms:
            self._windows.pop(key, None)
            window = self._windows[key] = _Window(self.timed.now_ms)
            forget_oldest(self._windows, KEYS_MAX)
        window.count += 1
        return window.count <= times_max


@dataclass(slots=True)
class _Debt:
    since_ms: int
    amount: int = 0


class Debts:
    """How much was done for each peer, where that is known only afterwards: it is worked off at a steady rate.

    Whoever owes more than `most` has nothing more done. So the average is bounded, and a burst is paid for later.
    """

    def __init__(self, timed: Timed, most: int, interval_ms: int) -> None:
        self.timed = timed
        self.most = most
        self.interval_ms = interval_ms
        self._debts: dict[Hashable, _Debt] = {}

    def is_clear(self, key: Hashable) -> bool:
        """It owes little enough for something more to be done."""
        return self.room(key) > 0

    def room(self, key: Hashable) -> int:
        """How much more may be done for it now; nothing if this is not positive."""
        return self.most - self._owed(key)

    def charge(self, key: Hashable, amount: int) -> None:
        """So much was done for it; the one that was charged the longest ago is forgotten first."""
        owed = self._owed(key)
        self._debts.pop(key, None)
        self._debts[key] = _Debt(self.timed.now_ms, owed + amount)
        forget_oldest(self._debts, KEYS_MAX)

    def _owed(self, key: Hashable) -> int:
        debt = self._debts.get(key)
        if debt is None:
            return 0
        passed_ms = self.timed.now_ms - debt.since_ms
        return max(0, debt.amount - passed_ms * self.most // self.interval_ms)
