"""Asking a domain with the states that it needs beside those that are held: spent ones, or such as are under way.

A domain is a pure function, and a store is not: what it looks for in vain is noted, fetched, and it is asked again. A
chain of states is walked back so, one store's answer a step. One that is longer than a few steps is needed only where a
domain's memory has forgotten it; then all states of the contract are fetched, as they are when a node begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rota.domains.base import Lacking
from rota.ports import Store
from rota.runtime.held_states import state_pages
from rota.types import ContractAddress, State, StateId

RECALLS_MAX: Final = 32

Answer = TypeVar("Answer")


class Recalled:
    """The states that were fetched so far, and those that were looked for in vain."""

    def __init__(self) -> None:
        self.known: Final[dict[StateId, State]] = {}
        self.missed: Final[dict[StateId, None]] = {}

    def find(self, state: StateId) -> State | None:
        """`hosting.Background.recall`."""
        found = self.known.get(state)
        if found is None:
            self.missed[state] = None
        return found


async def ask_recalling(store: Store, contract: ContractAddress, ask: Callable[[Recalled], Answer]) -> Answer:
    """What the domain answers, once it has all that the store can give it. `Lacking` is raised when it still lacks."""
    recalled = Recalled()
    for recall in range(RECALLS_MAX + 1):
        recalled.missed.clear()
        answer = _asked(ask, recalled)
        if not recalled.missed or not await _fetch(store, contract, recalled, everything=recall == RECALLS_MAX):
            break
    else:
        answer = _asked(ask, recalled)
    if isinstance(answer, Lacking):
        raise answer
    return answer


def _asked(ask: Callable[[Recalled], Answer], recalled: Recalled) -> Answer | Lacking:
    try:
        return ask(recalled)
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
