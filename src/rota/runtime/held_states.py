"""The states that this node holds, of the contracts that it works on, as their domains see them.

The store knows them all, and each change of them has a number there. Of a contract that is asked for, memory has what
the store said last, and every question brings it up to date with what changed since: a question costs what changed,
not what is held. Reorganisations, states that arrive late and writes of any order are the store's affair.
The contracts that were not asked for longest are forgotten.

A domain with a memory of its own is also told of every state that the node has, spent or not, once in its life.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from rota.domains.available import Shelf
from rota.hosting import Hosted, learn
from rota.ports import Store
from rota.types import ContractAddress, NodeName

CONTRACTS_KEPT_MAX: Final = 256
LEARNED_AT_ONCE: Final = 256


@dataclass(slots=True)
class _Holdings:
    """Of one contract: the domain's view, up to which change, and what its memory was told up to which change."""

    hosted: Hosted
    shelf: Shelf
    as_of: int = 0
    learned_as_of: int = 0


class HeldStates:
    """Answers from memory and the store together."""

    def __init__(self, node: NodeName, store: Store) -> None:
        self._node: Final = node
        self._store: Final = store
        self._kept: Final[OrderedDict[ContractAddress, _Holdings]] = OrderedDict()

    async def of(self, hosted: Hosted) -> Shelf:
        """What is held now, confirmed and unspent; the domain's memory is up to date, too. `Unavailable` without store.

        The answer changes with the next question.
        """
        contract = hosted.contract.address
        holdings = self._kept.get(contract)
        if holdings is None or holdings.hosted is not hosted:
            holdings = self._kept[contract] = _Holdings(hosted, Shelf(hosted.known))
        self._kept.move_to_end(contract)
        if len(self._kept) > CONTRACTS_KEPT_MAX:
            self._kept.popitem(last=False)
        await self._bring_up_to_date(contract, holdings)
        if hosted.memory is not None:
            await self._teach(contract, holdings)
        return holdings.shelf

    async def _bring_up_to_date(self, contract: ContractAddress, holdings: _Holdings) -> None:
        changes = await self._store.state_changes(contract, holdings.as_of)
        # Of two answers that come in the wrong order, the later one has said everything.
        if changes.as_of > holdings.as_of:
            for gone in changes.gone:
                holdings.shelf.remove(gone)
            for state in changes.held:
                holdings.shelf.put(state.as_seen_by(self._node))
            holdings.as_of = changes.as_of

    async def _teach(self, contract: ContractAddress, holdings: _Holdings) -> None:
        as_of, states = await self._store.states_since(contract, holdings.learned_as_of)
        if as_of > holdings.learned_as_of:
            for start in range(0, len(states), LEARNED_AT_ONCE):
                learn(holdings.hosted, states[start : start + LEARNED_AT_ONCE], self._node)
                # A long history must not keep the event loop from its sockets.
                await asyncio.sleep(0)
            holdings.learned_as_of = as_of
