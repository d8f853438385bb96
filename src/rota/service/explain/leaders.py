"""The history of each contract's coordinators as this node observed it, which the live feed does not show.

Theory of operation. A contract is checked soon after a coordinator's heartbeat came or went, and all contracts in
memory every second, for those whose only member is this node. A change of coordinator is recorded: as a fail-over if
the core expects nothing of the former one at that moment, and else as a hand-over. The core's judgement counts: a node
that hangs keeps its connections for a while, and only its heartbeats are missing. A contract without a coordinator for
a while has not changed hands. Changes before the last `CHANGES_MAX` are dropped, and all when the process ends: nothing
is decided by them. If more than `CONTRACTS_MAX` are in memory, some are not followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rota.model.types import ContractAddress, NodeName
from rota.service.explain.ring import LeaderChange, Loss
from rota.wire.messages import CoordinatorHeartbeat, Envelope

CHANGES_MAX: Final = 2_000
CONTRACTS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Sights:
    """Reads of the node: contracts in memory, a contract's coordinator, why a node is lost for it, the time."""

    loaded: Callable[[], Iterable[ContractAddress]]
    leader_of: Callable[[ContractAddress], NodeName | None]
    loss_of: Callable[[ContractAddress, NodeName], Loss | None]
    now_ms: Callable[[], int]
    later: Callable[[Callable[[], None]], object]


class Leaders:
    """The history of one node. `later` calls a function once, after the core has handled the present message."""

    def __init__(self, sights: Sights) -> None:
        self._loaded: Final = sights.loaded
        self._leader_of: Final = sights.leader_of
        self._loss_of: Final = sights.loss_of
        self._now_ms: Final = sights.now_ms
        self._later: Final = sights.later
        self._heard: Final[dict[ContractAddress, None]] = {}
        self._last: Final[dict[ContractAddress, NodeName]] = {}
        self._changes: Final[deque[LeaderChange]] = deque(maxlen=CHANGES_MAX)

    def heard(self, envelope: Envelope) -> None:
        """Note a heartbeat that came or went; its contract is checked soon."""
        if type(envelope.body) is CoordinatorHeartbeat and len(self._heard) < CONTRACTS_MAX:
            if not self._heard:
                self._later(self._look_at_heard)
            self._heard[envelope.contract] = None

    def look(self) -> None:
        """Record the changes since the last look."""
        active = {contract: self._leader_of(contract) for contract in self._loaded()}
        if len(self._last) >= CONTRACTS_MAX:
            for contract in [each for each in self._last if each not in active]:
                del self._last[contract]
        self._note(active)

    def _look_at_heard(self) -> None:
        heard = tuple(self._heard)
        self._heard.clear()
        self._note({contract: self._leader_of(contract) for contract in heard})

    def _note(self, active: Mapping[ContractAddress, NodeName | None]) -> None:
        for contract, leader in active.items():
            former = self._last.get(contract)
            if leader is None or leader == former or (former is None and len(self._last) >= CONTRACTS_MAX):
                continue
            self._last[contract] = leader
            loss = self._loss_of(contract, former) if former is not None else None
            self._changes.append(LeaderChange(contract, self._now_ms(), former, leader, loss))

    def of(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Return the changes of a contract, the oldest first."""
        return tuple(each for each in self._changes if each.contract == contract)
