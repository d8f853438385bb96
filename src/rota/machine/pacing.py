"""Pacing: limits on the work that a peer's messages cause, per kind of work and interval (trust rule 10).

A message may be repeated as often as its author likes. Work to answer one, such as verifying signatures or
assembling, is done a few times in an interval for each key; earlier repeats are dropped, because a node that needs an
answer repeats its request.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Protocol

from rota.machine.bounded import forget_oldest

KEYS_MAX: Final = 4_096
VERIFIED_TIMES_MAX: Final = 4
# More than a coordinator has under way for one sender that was restarted.
VERIFIED_OF_PEER_MAX: Final = 2_048
ASSEMBLED_TIMES_MAX: Final = 16
VOIDED_TIMES_MAX: Final = 4
# For answers from memory, which may be long: hand-overs, and repeated results of a slot.
ANSWERED_TIMES_MAX: Final = 16
# A coordinator sends one heartbeat in an interval, and one at each change of its state.
HEARTBEATS_TIMES_MAX: Final = 32
WRITTEN_AGAIN_TIMES_MAX: Final = 64
# Each names 64 leaves: a node that catches up on a day asks for thousands of them at once.
STATES_ASKED_TIMES_MAX: Final = 256
# Bytes read from the store for one peer in an interval; a question counts as this much until it is answered.
QUESTION_BYTES: Final = 65_536
FOUND_BYTES_MAX: Final = STATES_ASKED_TIMES_MAX * QUESTION_BYTES


class Timed(Protocol):
    """An object that has the time."""

    now_ms: int


@dataclass(slots=True)
class _Window:
    since_ms: int
    count: int = 0


class Pacing:
    """How often each kind of work was done lately."""

    def __init__(self, timed: Timed) -> None:
        self.timed = timed
        self._windows: dict[Hashable, _Window] = {}

    def is_due(self, key: Hashable, interval_ms: int, times_max: int = 1) -> bool:
        """Whether it was done fewer times in this interval; if so, count it as done."""
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
    """The work done for each peer, where its amount is known only afterwards; it is paid off at a steady rate.

    No more is done for a peer that owes more than `most`. So the average is bounded, and a burst is paid for later.
    """

    def __init__(self, timed: Timed, most: int, interval_ms: int) -> None:
        self.timed = timed
        self.most = most
        self.interval_ms = interval_ms
        self._debts: dict[Hashable, _Debt] = {}

    def is_clear(self, key: Hashable) -> bool:
        """Whether the key owes at most the limit."""
        return self.room(key) > 0

    def room(self, key: Hashable) -> int:
        """Return how much more may be done for it now; none if this is not positive."""
        return self.most - self._owed(key)

    def charge(self, key: Hashable, amount: int) -> None:
        """Charge an amount; the key that was charged the longest ago is forgotten first."""
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
