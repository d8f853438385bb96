"""The states that this node holds, of the contracts that it works on: confirmed, unspent, with their bytes.

The store knows them all, and each change of them has a number there. Of a contract that is asked for, memory has what
the store said last, and every question brings it up to date with what changed since: a question costs what changed,
not what is held. Reorganisations, states that arrive late and writes of any order are the store's affair.
The contracts that were not asked for longest are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rota.ports import Store
from rota.types import ContractAddress, State, StateId

CONTRACTS_KEPT_MAX: Final = 256


@dataclass(slots=True)
class _Holdings:
    """Of one contract: what the store said, up to which change."""

    as_of: int = 0
    states: dict[StateId, State] = field(default_factory=dict)


class HeldStates:
    """Answers from memory and the store together."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._kept: Final[OrderedDict[ContractAddress, _Holdings]] = OrderedDict()

    async def of(self, contract: ContractAddress) -> Mapping[StateId, State]:
        """What is held now. `Unavailable` when the store is away. The answer changes with the next question."""
        holdings = self._kept.setdefault(contract, _Holdings())
        self._kept.move_to_end(contract)
        changes = await self._store.state_changes(contract, holdings.as_of)
        # Of two answers that come in the wrong order, the later one has said everything.
        if changes.as_of > holdings.as_of:
            for gone in changes.gone:
                holdings.states.pop(gone, None)
            holdings.states.update({state.id: state for state in changes.held})
            holdings.as_of = changes.as_of
        if len(self._kept) > CONTRACTS_KEPT_MAX:
            self._kept.popitem(last=False)
        return holdings.states
