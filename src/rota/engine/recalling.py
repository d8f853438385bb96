"""Asks a domain again with states that it needs beside those that are held: spent ones, or unconfirmed ones.

A domain is a pure function, and a store is not: states that the domain looks up in vain are noted and fetched, and it
is asked again. So a chain of states is followed backwards, one store query a step. A chain of more than a few steps is
needed only where a domain's memory has evicted it; then all states of the contract are fetched, as at a node's start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar

from rota.domains.base import Lacking
from rota.engine.held_states import state_pages
from rota.model.types import ContractAddress, State, StateId
from rota.ports import Store
from rota.ports.time_slice import in_slices

RECALLS_MAX: Final = 32

Answer = TypeVar("Answer")


class Recalled:
    """The states fetched so far, and those that were looked up in vain."""

    def __init__(self) -> None:
        self.known: Final[dict[StateId, State]] = {}
        self.missed: Final[dict[StateId, None]] = {}

    def find(self, state: StateId) -> State | None:
        """`host.Background.recall`: return the state if it was fetched, else note that it is missed."""
        found = self.known.get(state)
        if found is None:
            self.missed[state] = None
        return found


async def ask_recalling(store: Store, contract: ContractAddress, ask: Callable[[Recalled], Answer]) -> Answer:
    """Return the domain's answer, with all states that the store has for it. Raises `Lacking` when one is missing."""

    async def at_once(recalled: Recalled) -> Answer:
        return ask(recalled)

    return await ask_elsewhere(store, contract, at_once)


async def ask_in_steps(
    store: Store, contract: ContractAddress, ask: Callable[[Recalled], Generator[None, None, Answer]]
) -> Answer:
    """Do the same for long work: the event loop runs between the steps, once in a time slice."""
    return await ask_elsewhere(store, contract, lambda recalled: in_slices(ask(recalled)))


async def ask_elsewhere(
    store: Store, contract: ContractAddress, ask: Callable[[Recalled], Awaitable[Answer]]
) -> Answer:
    """Do the same for an asynchronous answer, for example from another process; `missed` has what it looked up."""
    recalled = Recalled()
    for recall in range(RECALLS_MAX + 1):
        recalled.missed.clear()
        answer = await _asked(ask, recalled)
        if not recalled.missed or not await _fetch(store, contract, recalled, everything=recall == RECALLS_MAX):
            break
    else:
        answer = await _asked(ask, recalled)
    if isinstance(answer, Lacking):
        raise answer
    return answer


async def _asked(ask: Callable[[Recalled], Awaitable[Answer]], recalled: Recalled) -> Answer | Lacking:
    try:
        return await ask(recalled)
    except Lacking as lacking:
        recalled.missed[lacking.state] = None
        return lacking


async def _fetch(store: Store, contract: ContractAddress, recalled: Recalled, *, everything: bool) -> bool:
    """Fetch the missed states, or all; return whether any was new."""
    known = len(recalled.known)
    if everything:
        async for _, states in state_pages(store, contract):
            recalled.known.update({state.id: state for state in states})
    else:
        found = await store.states(contract, tuple(recalled.missed))
        recalled.known.update({state.id: state for state in found})
    return len(recalled.known) > known
