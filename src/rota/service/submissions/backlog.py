"""Load shedding by predicted wait: how long a transaction that is accepted now would take to end.

Theory of operation. The wait is the number of this node's transactions that move towards their end, over the rate at
which they ended lately. Transactions that are parked, or prepared for another committer, do not move, nor do those that
depend on them. A contract of which no transaction ended lately does not count for other contracts, so that a contract
whose members are away does not block the others; it is itself refused further transactions when it has `LEAST` moving
ones and none ended for as long as a transaction may wait. Fewer than `LEAST` are never too many, and nothing is
predicted before `MEASURED_S` under load: a burst into a quiet node is accepted.

One caller's load does not shut the others out: while the node is overloaded it still accepts a transaction from a
caller that has less than an equal part of those that end within `wait_max_s` (`CallerShares.is_below_equal_part`). All
callers together then wait for less than twice `wait_max_s`.

A refused transaction was not begun: its client retries after the time given in the error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from rota.engine.clock import monotonic_ms
from rota.model.types import ContractAddress, IntentId
from rota.rpc.errors import Overloaded
from rota.sequencer.sender_transaction import WAITING
from rota.service.run import RunningNode

LEAST: Final = 1_000
SAMPLE_S: Final = 1.0
MEASURED_S: Final = 10.0
WINDOW_S: Final = 30.0
RETRY_AFTER_MAX_S: Final = 30


class Backlog:
    """The backlog of one node. `moving` and `ended` are called at most once a second."""

    def __init__(
        self,
        now_s: Callable[[], float],
        moving: Callable[[], int],
        ended: Callable[[], int],
        wait_max_s: float,
        is_stuck: Callable[[ContractAddress], bool] = lambda _: False,
    ) -> None:
        self._now_s: Final = now_s
        self._moving: Final = moving
        self._ended: Final = ended
        self._wait_max_s: Final = wait_max_s
        self._is_stuck: Final = is_stuck
        self._window_s: Final = max(WINDOW_S, wait_max_s)
        self._samples: Final[deque[tuple[float, int]]] = deque()
        self._sampled_s = -math.inf
        self._rate = 0.0
        self.wait_s = 0.0

    def require_room(
        self, contract: ContractAddress | None = None, is_below_equal_part: Callable[[float], bool] = lambda _: False
    ) -> None:
        """Raise `Overloaded` when a transaction of this contract, or a deployment, would wait for too long.

        `is_below_equal_part` receives the number of transactions that end within `wait_max_s`.
        """
        now_s = self._now_s()
        if now_s >= self._sampled_s + SAMPLE_S:
            self._sampled_s = now_s
            self.wait_s = self._predicted_s(now_s)
        is_stuck = contract is not None and self._is_stuck(contract)
        wait_s = math.inf if is_stuck else self.wait_s
        if wait_s > self._wait_max_s:
            if not is_stuck and is_below_equal_part(self._rate * self._wait_max_s):
                return
            beyond_s = min(wait_s - self._wait_max_s, RETRY_AFTER_MAX_S)
            raise Overloaded(wait_s, self._wait_max_s, max(1, math.ceil(beyond_s)))

    def _predicted_s(self, now_s: float) -> float:
        moving, ended = self._moving(), self._ended()
        if moving < LEAST:
            self._samples.clear()
            return 0.0
        self._samples.append((now_s, ended))
        while self._samples[0][0] < now_s - self._window_s:
            self._samples.popleft()
        began_s, ended_before = self._samples[0]
        span_s = now_s - began_s
        if span_s < MEASURED_S:
            return 0.0
        if ended == ended_before:
            self._rate = 0.0
            return math.inf if span_s >= self._wait_max_s else 0.0
        self._rate = (ended - ended_before) / span_s
        return moving / self._rate


class Moving:
    """Moving transactions by contract, and the time since when no transaction of a contract ended."""

    def __init__(self, now_s: Callable[[], float], wait_max_s: float) -> None:
        self._now_s: Final = now_s
        self._wait_max_s: Final = wait_max_s
        self._window_s: Final = max(WINDOW_S, wait_max_s)
        self._seen: dict[ContractAddress, frozenset[IntentId]] = {}
        self._silent_since_s: dict[ContractAddress, float] = {}
        self._ended_s: dict[ContractAddress, float] = {}

    def count(self, found: Mapping[ContractAddress, frozenset[IntentId]]) -> int:
        """Return how many move now in contracts of which some ended lately; `found` are all candidates."""
        now_s = self._now_s()
        for contract, intents in found.items():
            if not self._seen.get(contract, intents) <= intents:
                self._ended_s[contract] = self._silent_since_s[contract] = now_s
            self._silent_since_s.setdefault(contract, now_s)
        self._seen = dict(found)
        self._silent_since_s = {each: self._silent_since_s[each] for each in found}
        self._ended_s = {each: at_s for each, at_s in self._ended_s.items() if at_s >= now_s - self._window_s}
        return sum(len(intents) for contract, intents in found.items() if contract in self._ended_s)

    def is_stuck(self, contract: ContractAddress) -> bool:
        """Whether many of this contract move, and none ended for as long as a transaction may wait."""
        silent_s = self._now_s() - self._silent_since_s.get(contract, math.inf)
        return len(self._seen.get(contract, ())) >= LEAST and silent_s >= self._wait_max_s


def moving_of(running: RunningNode) -> dict[ContractAddress, frozenset[IntentId]]:
    """Return the moving transactions of a running node, by contract."""
    loaded = running.engine.core.sequencers.loaded.items()
    senders = {contract: sequencer.sender.transactions for contract, sequencer in loaded}
    waiting = {
        intent for transactions in senders.values() for intent, each in transactions.items() if each.state in WAITING
    }
    found: dict[ContractAddress, frozenset[IntentId]] = {}
    for contract, transactions in senders.items():
        # In the order of acceptance: dependencies come before their dependents.
        for intent, each in transactions.items():
            if each.unmet and not waiting.isdisjoint(each.unmet):
                waiting.add(intent)
        if moving := transactions.keys() - waiting:
            found[contract] = frozenset(moving)
    return found


def backlog_of(running: RunningNode, wait_max_s: float) -> Backlog:
    """Return the backlog of a running node."""

    def now_s() -> float:
        return monotonic_ms() / 1_000

    known = Moving(now_s, wait_max_s)

    def moving() -> int:
        return known.count(moving_of(running) if len(running.engine.core.intake.open) >= LEAST else {})

    users = running.users
    return Backlog(now_s, moving, lambda: users.confirmed + users.reverted, wait_max_s, known.is_stuck)
