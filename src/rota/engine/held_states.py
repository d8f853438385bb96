"""The states that this node holds, of the contracts that it works on, as their domains see them.

The store has them all, and numbers each change of them. For a contract that is requested, memory has the store's last
answer, and each request applies the changes since then: a request costs as much as has changed, not as much as is held.
The store handles reorganisations, states that arrive late and writes in any order. The least recently requested
contracts are evicted. A payer chooses how much data is attached to a coin, so memory has the record of each state and
the bytes of short ones; the bytes of a long one are fetched when a domain needs them.

A domain with a memory of its own also gets every state that both the node and the chain have, spent or not, once in its
lifetime. It gets nothing that is not on the chain: a peer can make up any state and send it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from rota.domains.available import Shelf
from rota.host import Hosted, learn, shelved
from rota.host.proving import is_believed
from rota.model.types import ContractAddress, NodeName, State, StateId
from rota.ports import StatePage, Store

CONTRACTS_KEPT_MAX: Final = 256
CONTENT_KEPT_BYTES_MAX: Final = 4_096
# The transition that made a state may have up to a MiB of other states.
MAKERS_AT_ONCE: Final = 32


class Holder(Protocol):
    """Receives the states that a node holds of a contract, as they change."""

    @property
    def is_current(self) -> bool:
        """Whether the states that it received are still known."""
        ...

    def change(self, gone: tuple[StateId, ...], held: tuple[State, ...]) -> None:
        """Remove `gone`, then add `held`."""
        ...

    def learn(self, states: tuple[State, ...]) -> None:
        """Pass these states to the domain's memory, spent or not."""
        ...

    async def settle(self) -> None:
        """Called between two pages."""
        ...


H = TypeVar("H", bound=Holder)


@dataclass(slots=True)
class _Holdings(Generic[H]):
    """A contract's holder, and the numbers of the changes up to which it and the domain's memory are current."""

    hosted: Hosted
    holder: H
    as_of: int = 0
    learned_as_of: int = 0
    # The first read of the store has not finished.
    is_partial: bool = False
    # Concurrent requests would mix pages, and leave states held that the later one has reported as gone.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class StateFollower(Generic[H]):
    """Passes the store's states of a contract to its holder, and at each request the changes since the last one."""

    def __init__(self, node: NodeName, store: Store, make: Callable[[Hosted], H]) -> None:
        self._node: Final = node
        self._store: Final = store
        self._make: Final = make
        self._kept: Final[OrderedDict[ContractAddress, _Holdings[H]]] = OrderedDict()

    async def of(self, hosted: Hosted) -> H:
        """Return the contract's holder, up to date with the confirmed, unspent states, and teach the domain's memory.

        `Unavailable` when the store is not reachable.
        """
        contract = hosted.contract.address
        holdings = self._kept.get(contract)
        if holdings is None or holdings.hosted is not hosted or not holdings.holder.is_current:
            holdings = self._kept[contract] = _Holdings(hosted, self._make(hosted))
        self._kept.move_to_end(contract)
        if len(self._kept) > CONTRACTS_KEPT_MAX:
            self._kept.popitem(last=False)
        async with holdings.turn:
            if not holdings.as_of:
                await self._begin(contract, holdings)
            await self._bring_up_to_date(contract, holdings)
            if hosted.memory is not None:
                await self._teach(contract, holdings)
        return holdings.holder

    async def _begin(self, contract: ContractAddress, holdings: _Holdings[H]) -> None:
        """Read all unspent states, page by page; changes made meanwhile come with the changes since the first page.

        A read that was abandoned, because the store failed or the caller disconnected, leaves states that may be spent
        before the next one without a report. So the next read starts with a new holder.
        """
        if holdings.is_partial:
            holdings.holder = self._make(holdings.hosted)
        holdings.is_partial = True
        as_of: int | None = None
        async for page in unspent_pages(self._store, contract):
            as_of = page.as_of if as_of is None else as_of
            holdings.holder.change((), await self._believed(holdings.hosted, page.states))
            await holdings.holder.settle()
        holdings.as_of, holdings.is_partial = as_of or 0, False

    async def _bring_up_to_date(self, contract: ContractAddress, holdings: _Holdings[H]) -> None:
        is_complete = False
        while not is_complete:
            changes = await self._store.state_changes(contract, holdings.as_of)
            holdings.holder.change(tuple(changes.gone), await self._believed(holdings.hosted, changes.held))
            holdings.as_of, is_complete = changes.as_of, changes.is_complete
            await holdings.holder.settle()

    async def _believed(self, hosted: Hosted, states: Sequence[State]) -> tuple[State, ...]:
        """Return the states as this node sees them, without those that do not match the ledger's own commitment."""
        if not hosted.domain.ledgers:
            return tuple(state.as_seen_by(self._node) for state in states)
        believed: list[State] = []
        for at in range(0, len(states), MAKERS_AT_ONCE):
            some = states[at : at + MAKERS_AT_ONCE]
            leaves = tuple(dict.fromkeys(state.id.leaf for state in some))
            made = await self._store.transitions_of(hosted.contract.address, leaves)
            makers = {transition.leaf: transition for transition in made}
            for state in some:
                if is_believed(hosted, state, makers):
                    believed.append(state.as_seen_by(self._node))
                # Each takes a millisecond or more, and there may be a thousand.
                await asyncio.sleep(0)
        return tuple(believed)

    async def _teach(self, contract: ContractAddress, holdings: _Holdings[H]) -> None:
        async for as_of, states in state_pages(self._store, contract, holdings.learned_as_of, on_chain=True):
            holdings.holder.learn(states)
            holdings.learned_as_of = as_of
            await holdings.holder.settle()


class _OnShelf:
    """A holder in this process: a shelf, and the domain's memory in its contract."""

    is_current = True

    def __init__(self, hosted: Hosted, node: NodeName) -> None:
        self._hosted: Final = hosted
        self._node: Final = node
        self.shelf: Final = shelved(hosted, (), node)

    def change(self, gone: tuple[StateId, ...], held: tuple[State, ...]) -> None:
        for each in gone:
            self.shelf.remove(each)
        for state in held:
            self.shelf.put(state, CONTENT_KEPT_BYTES_MAX)

    def learn(self, states: tuple[State, ...]) -> None:
        learn(self._hosted, states, self._node)

    async def settle(self) -> None:
        # A long history must not block the event loop.
        await asyncio.sleep(0)


class HeldStates:
    """The held states of each contract, from memory and the store together."""

    def __init__(self, node: NodeName, store: Store) -> None:
        self._followed: Final = StateFollower(node, store, lambda hosted: _OnShelf(hosted, node))

    async def of(self, hosted: Hosted) -> Shelf:
        """Return the confirmed, unspent states held now, with the domain's memory up to date too.

        The next request changes the result. `Unavailable` when the store is not reachable.
        """
        return (await self._followed.of(hosted)).shelf


async def unspent_pages(store: Store, contract: ContractAddress) -> AsyncIterator[StatePage]:
    """Yield all unspent states that a node holds of a contract, in pages."""
    page = await store.unspent_states(contract)
    yield page
    while page.last is not None:
        page = await store.unspent_states(contract, page.last)
        yield page


async def state_pages(
    store: Store, contract: ContractAddress, since: int = 0, *, on_chain: bool = False
) -> AsyncIterator[tuple[int, tuple[State, ...]]]:
    """Yield all states of a contract that changed after `since`, spent or not, in pages."""
    while True:
        as_of, states = await store.states_since(contract, since, on_chain=on_chain)
        if as_of == since:
            return
        yield as_of, states
        since = as_of
