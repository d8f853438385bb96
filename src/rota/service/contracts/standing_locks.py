"""The locks with a record on the ledger that this node knows, for the trigger that cancels expired ones.

The node knows a lock by the state of its record, which the end of the lock spends. A look covers some contracts, and
some locks of each. The next one continues behind them: there may be many locks that never expire.

The account that cancels a lock pays for it. Any registered node can deploy a token and make locks there whose owner is
a party of this node, at its own discretion. So this node offers the locks that its users made, and as a notary a
bounded number of others per hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.calldata import permitted_payload
from rota.domains.available import known_in
from rota.engine.contracts import KnownContracts
from rota.model.types import ContractAddress, Leaf, NodeName
from rota.ports import Store

CONTRACTS_A_LOOK_MAX: Final = 64
LOCKS_OF_CONTRACT_MAX: Final = 1_024
LOCKS_A_LOOK_MAX: Final = 64
# In all tokens of which this node is the notary together.
ENDORSED_AN_HOUR_MAX: Final = 64
HOUR_S: Final = 3_600

ExpiredLock = tuple[ContractAddress, bytes, int]


class StandingLocks:
    """The locks of one node."""

    def __init__(self, node: NodeName, store: Callable[[], Store], contracts: KnownContracts) -> None:
        self._node: Final = node
        self._store: Final = store
        self._contracts: Final = contracts
        self._next = 0
        # For contracts with more locks than a look covers: where the next look begins.
        self._skip: Final[dict[ContractAddress, int]] = {}
        # The times at which locks that count against the hourly bound were offered.
        self._offered_s: Final[dict[tuple[ContractAddress, bytes], int]] = {}

    async def expired(self, now_s: int) -> tuple[ExpiredLock, ...]:
        """Return expired locks of the next contracts, which no delegate can spend any more: contract, id, expiry."""
        for lock in [lock for lock, offered_s in self._offered_s.items() if offered_s <= now_s - HOUR_S]:
            del self._offered_s[lock]
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
        is_endorsed = self._node in hosted.contract.endorsers
        states = await self._store().standing_states(address, LOCKS_OF_CONTRACT_MAX, skip, is_own=not is_endorsed)
        if len(states) == LOCKS_OF_CONTRACT_MAX:
            self._skip[address] = skip + LOCKS_OF_CONTRACT_MAX
        known = (known_in(hosted.known, state) for state in states)
        records = (hosted.stands_for(each) for each in known if each is not None)
        expired = [(address, each.lock, each.expires_at_s) for each in records if each and each.expires_at_s < now_s]
        return [lock for lock in expired if not is_endorsed or self._may_offer(lock, now_s)]

    def _may_offer(self, lock: ExpiredLock, now_s: int) -> bool:
        key = lock[:2]
        if key not in self._offered_s and len(self._offered_s) < ENDORSED_AN_HOUR_MAX:
            self._offered_s[key] = now_s
        return key in self._offered_s

    async def cancel_arguments(self, address: ContractAddress, leaf: bytes) -> bytes:
        """Return the arguments of `cancelLock` that commit this leaf; empty when the node does not know the leaf."""
        made = await self._store().transitions_of(address, (Leaf(leaf),))
        return permitted_payload(made[0]) if made else b""
