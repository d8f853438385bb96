"""The states that this node holds, of the contracts that it works on, as their domains see them.

The store knows them all, and each change of them has a number there. Of a contract that is asked for, memory has what
the store said last, and every question brings it up to date with what changed since: a question costs what changed,
not what is held. Reorganisations, states that arrive late and writes of any order are the store's affair.
The contracts that were not asked for longest are forgotten.

A domain with a memory of its own is also told of every state that the node has and the chain too, spent or not, once
in its life. Of what is not on the chain it is told nothing: a peer can make up any state, and send it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.domains.available import Shelf
from rota.hosting import Hosted, learn, shelved
from rota.hosting.proving import is_committed
from rota.ports import StatePage, Store
from rota.types import ContractAddress, NodeName, State

CONTRACTS_KEPT_MAX: Final = 256


@dataclass(slots=True)
class _Holdings:
    """Of one contract: the domain's view, up to which change, and what its memory was told up to which change."""

    hosted: Hosted
    shelf: Shelf
    as_of: int = 0
    learned_as_of: int = 0
    # Pages of two questions that mix would leave what the later one has said to be gone.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


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
            holdings = self._kept[contract] = _Holdings(hosted, shelved(hosted, (), self._node))
        self._kept.move_to_end(contract)
        if len(self._kept) > CONTRACTS_KEPT_MAX:
            self._kept.popitem(last=False)
        async with holdings.turn:
            if not holdings.as_of:
                await self._begin(contract, holdings)
            await self._bring_up_to_date(contract, holdings)
            if hosted.memory is not None:
                await self._teach(contract, holdings)
        return holdings.shelf

    async def _begin(self, contract: ContractAddress, holdings: _Holdings) -> None:
        """All that is unspent, page by page; what changes meanwhile comes with the changes since the first page."""
        as_of: int | None = None
        async for page in unspent_pages(self._store, contract):
            as_of = page.as_of if as_of is None else as_of
            for state in await self._believed(holdings.hosted, page.states):
                holdings.shelf.put(state.as_seen_by(self._node))
        holdings.as_of = as_of or 0

    async def _bring_up_to_date(self, contract: ContractAddress, holdings: _Holdings) -> None:
        is_complete = False
        while not is_complete:
            changes = await self._store.state_changes(contract, holdings.as_of)
            for gone in changes.gone:
                holdings.shelf.remove(gone)
            for state in await self._believed(holdings.hosted, changes.held):
                holdings.shelf.put(state.as_seen_by(self._node))
            holdings.as_of, is_complete = changes.as_of, changes.is_complete

    async def _believed(self, hosted: Hosted, states: Sequence[State]) -> Sequence[State]:
        """Where the ledger has a commitment of its own to a state, that must be one to what the state says."""
        if not hosted.domain.ledgers:
            return states
        leaves = tuple(dict.fromkeys(state.id.leaf for state in states))
        made = await self._store.transitions_of(hosted.contract.address, leaves)
        makers = {transition.leaf: transition for transition in made}
        believed = []
        for state in states:
            if is_committed(hosted, state, makers):
                believed.append(state)
            # Each takes a millisecond or more, and there may be a thousand.
            await asyncio.sleep(0)
        return believed

    async def _teach(self, contract: ContractAddress, holdings: _Holdings) -> None:
        async for as_of, states in state_pages(self._store, contract, holdings.learned_as_of, on_chain=True):
            learn(holdings.hosted, states, self._node)
            holdings.learned_as_of = as_of
            # A long history must not keep the event loop from its sockets.
            await asyncio.sleep(0)


async def unspent_pages(store: Store, contract: ContractAddress) -> AsyncIterator[StatePage]:
    """All unspent states that a node holds of a contract, some at a time."""
    page = await store.unspent_states(contract)
    yield page
    while page.last is not None:
        page = await store.unspent_states(contract, page.last)
        yield page


async def state_pages(
    store: Store, contract: ContractAddress, since: int = 0, *, on_chain: bool = False
) -> AsyncIterator[tuple[int, tuple[State, ...]]]:
    """All states that a node holds of a contract and that changed since, spent or not, some at a time."""
    while True:
        as_of, states = await store.states_since(contract, since, on_chain=on_chain)
        if as_of == since:
            return
        yield as_of, states
        since = as_of
