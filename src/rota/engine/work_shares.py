"""Fair shares of computation: a queue with turns, and budgets.

The queue runs one request at a time: requesters take turns by the processor time they have used, so that a requester
with many or long requests does not block others. Budgets: each peer may use so much in a burst, and so much a second in
the long run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from rota.ports import Unavailable

WAITING_MAX: Final = 1_024
WAITING_OF_ONE_MAX: Final = 256
PEERS_KEPT_MAX: Final = 4_096


@dataclass(slots=True)
class Turn:
    """One turn; its holder sets the processor time used before it ends."""

    cpu_s: float = 0.0


@dataclass(slots=True)
class _Line:
    """The waiting requests of one requester, and its position in processor time used."""

    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    served_until: float = 0.0


class FairQueue:
    """Gives one turn at a time, next to the requester that has used least since it began to wait."""

    def __init__(self, waiting_max: int = WAITING_MAX, waiting_of_one_max: int = WAITING_OF_ONE_MAX) -> None:
        self._waiting_max: Final = waiting_max
        self._waiting_of_one_max: Final = waiting_of_one_max
        self._lines: Final[dict[Hashable, _Line]] = {}
        self._waiting = 0
        self._is_taken = False
        # The highest position of a requester that had a turn: no requester saves up turns by not asking.
        self._served = 0.0

    @asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[Turn]:
        """Wait, then hold the turn. `Unavailable` when too many wait."""
        line = await self._enter(who)
        turn = Turn()
        try:
            yield turn
        finally:
            # The line may have been removed, since no other request of the same requester waited.
            line = self._lines.setdefault(who, line)
            line.served_until = max(line.served_until, self._served) + turn.cpu_s
            self._is_taken = False
            self._call_next()

    async def _enter(self, who: Hashable) -> _Line:
        line = self._lines.setdefault(who, _Line())
        if self._waiting >= self._waiting_max or len(line.waiting) >= self._waiting_of_one_max:
            raise Unavailable(f"{self._waiting} requests wait for private code to be run, {len(line.waiting)} of {who}")
        line.served_until = max(line.served_until, self._served)
        called = asyncio.get_running_loop().create_future()
        line.waiting.append(called)
        self._waiting += 1
        if not self._is_taken:
            self._call_next()
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._is_taken = False
                self._call_next()
            raise
        return line

    def _call_next(self) -> None:
        while not self._is_taken and self._waiting:
            who = min((each for each in self._lines if self._lines[each].waiting), key=self._served_until)
            line = self._lines[who]
            called = line.waiting.popleft()
            self._waiting -= 1
            self._served = max(self._served, line.served_until)
            if not called.done():
                self._is_taken = True
                called.set_result(None)
        if not self._is_taken:
            self._lines.clear()  # None waits, so that none has a claim.
        # A requester that returns later starts at the position of the others, so that idle lines can be removed.
        idle = [each for each, line in self._lines.items() if not line.waiting and line.served_until <= self._served]
        for each in idle:
            del self._lines[each]

    def _served_until(self, who: Hashable) -> float:
        return self._lines[who].served_until


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much processor time and gas may be used in a burst, and how much is restored in a second."""

    cpu_s: float
    gas: int
    cpu_s_each_s: float
    gas_each_s: int


# A peer that asks for rounds to be judged has half of a core. A sender has half of that with each such peer, so that it
# does not use up the budget of its coordinator. 30 million gas take about a second.
ASKERS: Final = Allowance(60.0, 1_500_000_000, 0.5, 12_500_000)
SENDERS: Final = Allowance(30.0, 750_000_000, 0.25, 6_250_000)
# The signatures of a round are verified in the event loop: 3,000 a second for one peer, and 25,000 in a burst.
VERIFYING: Final = Allowance(2.0, 1, 0.25, 1)


@dataclass(slots=True)
class _Account:
    cpu_s: float
    gas: float
    as_of_s: float


class Budgets:
    """The remaining budget of each peer, or pair of peers. A single request may overdraw it."""

    def __init__(self, allowance: Allowance, clock_s: Callable[[], float]) -> None:
        self._allowance: Final = allowance
        self._clock_s: Final = clock_s
        self._accounts: Final[dict[Hashable, _Account]] = {}

    def is_over(self, peer: Hashable) -> bool:
        """Whether it has used up its budget for now."""
        account = self._brought_up_to_date(peer)
        return account is not None and (account.cpu_s <= 0 or account.gas <= 0)

    def charge(self, peer: Hashable, cpu_s: float, gas: int) -> None:
        """Deduct processor time and gas that were used for it."""
        account = self._brought_up_to_date(peer)
        if account is None:
            account = _Account(self._allowance.cpu_s, self._allowance.gas, self._clock_s())
            self._accounts[peer] = account
            if len(self._accounts) > PEERS_KEPT_MAX:
                fullest = max(self._accounts, key=lambda each: self._accounts[each].cpu_s)
                del self._accounts[fullest]
        account.cpu_s -= cpu_s
        account.gas -= gas

    def _brought_up_to_date(self, peer: Hashable) -> _Account | None:
        account, allowance = self._accounts.get(peer), self._allowance
        if account is None:
            return None
        now_s = self._clock_s()
        passed_s, account.as_of_s = now_s - account.as_of_s, now_s
        account.cpu_s = min(allowance.cpu_s, account.cpu_s + passed_s * allowance.cpu_s_each_s)
        account.gas = min(allowance.gas, account.gas + passed_s * allowance.gas_each_s)
        if account.cpu_s == allowance.cpu_s and account.gas == allowance.gas:
            del self._accounts[peer]
            return None
        return account
