"""The locks with a record on the ledger that this node knows, for the trigger that cancels expired ones.

The node knows a lock by the state that stands for its record, which the record's end spends. A look goes through some
contracts, and through some locks of each. The next one goes on behind them: locks that never expire may be many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.calldata import permitted_payload
from rota.domains.available import known_in
from rota.engine.contracts import KnownContracts
from rota.model.types import ContractAddress, Leaf
from rota.ports import Store

CONTRACTS_A_LOOK_MAX: Final = 64
LOCKS_OF_CONTRACT_MAX: Final = 1_024
LOCKS_A_LOOK_MAX: Final = 64

ExpiredLock = tuple[ContractAddress, bytes, int]


class StandingLocks:
    """Of one node."""

    def __init__(self, store: Callable[[], Store], contracts: KnownContracts) -> None:
        self._store: Final = store
        self._contracts: Final = contracts
        self._next = 0
        # Of contracts with more locks than a look goes through: where the next look begins.
        self._skip: Final[dict[ContractAddress, int]] = {}

    async def expired(self, now_s: int) -> tuple[ExpiredLock, ...]:
        """Locks of the next contracts that no delegate can spend any more: contract, id, and when they expired."""
        every = self._contracts.addresses()
        begin = self._next if self._next < len(every) else 0
        self._next = begin + CONTRACTS_A_LOOK_MAX
        found: list[ExpiredLock] = []
        for address in every[begin : self._next]:
            found += await self._expired_in(address, now_s)
        return tuple(found[:LOCKS_A_LOOK_MAX])

    async def _expired_in(self, address: ContractAddress, now_s: int) -> list[ExpiredLock]:
        hosted = self._contracts.hosted(address)
        if hosted is None or not hosted.domain.changes_locks:
            return []
        skip = self._skip.pop(address, 0)
        states = await self._store().standing_states(address, LOCKS_OF_CONTRACT_MAX, skip)
        if len(states) == LOCKS_OF_CONTRACT_MAX:
            self._skip[address] = skip + LOCKS_OF_CONTRACT_MAX
        known = (known_in(hosted.known, state) for state in states)
        records = (hosted.domain.stands_for(each.record) for each in known if each is not None)
        return [(address, each.lock, each.expires_at_s) for each in records if each and each.expires_at_s < now_s]

    async def cancel_arguments(self, address: ContractAddress, leaf: bytes) -> bytes:
        """What `cancelLock` takes to commit this leaf; nothing when the node does not know the leaf."""
        made = await self._store().transitions_of(address, (Leaf(leaf),))
        return permitted_payload(made[0]) if made else b""
