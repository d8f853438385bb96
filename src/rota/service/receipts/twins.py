"""Coins that share a nullifier: a payer repeated an amount and a salt that it had used before.

The ledger has a commitment to each of them, and their owner spends all of them at once, so that together they are worth
as much as one. The first coin that this node knew on the chain counts: users have seen it before the others. The others
are treated as states whose contents are not believed (`host/proving.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rota.host import Hosted
from rota.host.proving import is_believed
from rota.model.types import Leaf, State, StateId, Transition
from rota.ports import TWINS_MAX, Store


async def without_twins(store: Store, hosted: Hosted, transition: Transition) -> Transition:
    """Return a committed transition without the contents of coins that an earlier one makes worthless."""
    twins = await twins_in(store, hosted, (transition.leaf,))
    if not twins:
        return transition
    outputs = tuple(replace(each, content=None) if each.id in twins else each for each in transition.outputs)
    return replace(transition, outputs=outputs)


async def twins_in(store: Store, hosted: Hosted, leaves: Iterable[Leaf]) -> frozenset[StateId]:
    """Return the coins of these committed transitions that an earlier one makes worthless."""
    found: set[StateId] = set()
    if hosted.domain.ledgers:
        for leaf in leaves:
            for state, earlier in (await store.traces.twins(hosted.contract.address, leaf)).items():
                if len(earlier) == TWINS_MAX or await _is_any_believed(store, hosted, earlier):
                    found.add(state)
    return frozenset(found)


async def _is_any_believed(store: Store, hosted: Hosted, states: tuple[State, ...]) -> bool:
    """Whether any of these states is believed: one without a commitment on the ledger does not devalue a later one."""
    leaves = tuple(dict.fromkeys(state.id.leaf for state in states))
    makers = {made.leaf: made for made in await store.transitions_of(hosted.contract.address, leaves)}
    return any(is_believed(hosted, state, makers) for state in states)
