"""Who coordinated each contract when, as this node saw it: the past, which the live feed does not tell.

Theory of operation. Every second the contracts in memory are looked at. Where another node coordinates than did before,
that is kept: as a fail-over if the former one cannot be reached at that moment, and else as a hand-over. A contract
that nobody coordinates for a while has not changed hands. What is older than the last `CHANGES_MAX` is forgotten, and
so is all of it when the process ends: nothing is decided by it. Of more than `CONTRACTS_MAX` in memory some are not
followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

from rota.api.ring import LeaderChange
from rota.types import ContractAddress, NodeName

CHANGES_MAX: Final = 2_000
CONTRACTS_MAX: Final = 10_000

Active = Callable[[], Iterable[tuple[ContractAddress, NodeName | None]]]


class Leaders:
    """One node's memory. `active` tells who coordinates what now, `connected` who can be reached."""

    def __init__(
        self, node: NodeName, active: Active, connected: Callable[[], Collection[NodeName]], now_ms: Callable[[], int]
    ) -> None:
        self._node: Final = node
        self._active: Final = active
        self._connected: Final = connected
        self._now_ms: Final = now_ms
        self._last: Final[dict[ContractAddress, NodeName]] = {}
        self._changes: Final[deque[LeaderChange]] = deque(maxlen=CHANGES_MAX)

    def look(self) -> None:
        """Note what has changed since the last time."""
        active = dict(self._active())
        if len(self._last) >= CONTRACTS_MAX:
            for contract in [each for each in self._last if each not in active]:
                del self._last[contract]
        for contract, leader in active.items():
            former = self._last.get(contract)
            if leader is None or leader == former or (former is None and len(self._last) >= CONTRACTS_MAX):
                continue
            self._last[contract] = leader
            is_gone = former is not None and former != self._node and former not in self._connected()
            self._changes.append(LeaderChange(contract, self._now_ms(), former, leader, is_gone))

    def of(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Those of a contract, the oldest first."""
        return tuple(each for each in self._changes if each.contract == contract)
