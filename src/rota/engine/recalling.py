"""Asking a domain with the states that it needs beside those that are held: spent ones, or such as are under way.

A domain is a pure function, and a store is not: what it looks for in vain is noted, fetched, and it is asked again. A
chain of states is walked back so, one store's answer a step. One that is longer than a few steps is needed only where a
domain's memory has forgotten it; then all states of the contract are fetched, as they are when a node begins.
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
    """The states that were fetched so far, and those that were looked for in vain."""

    def __init__(self) -> None:
        self.known: Final[dict[StateId, State]] = {}
        self.missed: Final[dict[StateId, None]] = {}

    def find(self, state: StateId) -> State | None:
        """`host.Background.recall`."""
        found = self.known.get(state)
        if found is None:
            self.missed[state] = None
        return found


async def ask_recalling(store: Store, contract: ContractAddress, ask: Callable[[Recalled], Answer]) -> Answer:
    """What the domain answers, once it has all that the store can give it. `Lacking` is raised when it still lacks."""

    async def at_once(recalled: Recalled) -> Answer:
        return ask(recalled)

    return await ask_elsewhere(store, contract, at_once)


async def ask_in_steps(
    store: Store, contract: ContractAddress, ask: Callable[[Recalled], Generator[None, None, Answer]]
) -> Answer:
    """The same of what may take long: the event loop goes on between the steps, once in a time slice."""
    return await ask_elsewhere(store, contract, lambda recalled: in_slices(ask(recalled)))


async def ask_elsewhere(
    store: Store, contract: ContractAddress, ask: Callable[[Recalled], Awaitable[Answer]]
) -> Answer:
    """The same of what is answered elsewhere, for example in another process; `missed` has what it looked for."""
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
    """Fetch what was missed, or all there is; whether anything came that was not known."""
    known = len(recalled.known)
    if everything:
        async for _, states in state_pages(store, contract):
            recalled.known.update({state.id: state for state in states})
    else:
        found = await store.states(contract, tuple(recalled.missed))
        recalled.known.update({state.id: state for state in found})
    return len(recalled.known) > known
