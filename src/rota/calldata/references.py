"""References of transitions: to states by their ids or, where a spent state must stay hidden, by nullifiers.

A nullifier takes the place of a leaf, with an output number that no state has: FF, FF, nullifier 32. For ordering
transitions both are the same: a reference that one transition spends no other can spend.
"""

from __future__ import annotations

from typing import Final

from rota.model.digests import WORD_BYTES, ending_word
from rota.model.types import IntentId, Leaf, StateId, Transition

NULLIFIER_OUTPUT: Final = 0xFF


def nullifier_reference(nullifier: bytes) -> StateId:
    """The input of a transition that spends by this nullifier."""
    assert len(nullifier) == WORD_BYTES, f"a nullifier is {WORD_BYTES} bytes, not {len(nullifier)}"
    return StateId(Leaf(nullifier), NULLIFIER_OUTPUT)


def ended_reference(permitted: IntentId) -> StateId:
    """The reference by which an index marks the states that stand for a lock's record as spent when the record ends."""
    return nullifier_reference(ending_word(permitted))


def is_nullifier(reference: StateId) -> bool:
    """Whether it is a nullifier, which names no state."""
    return reference.output == NULLIFIER_OUTPUT


def shown_states(transition: Transition) -> tuple[StateId, ...]:
    """The states that a proof shows by name: the spent ones, or with nullifiers those that are read."""
    return transition.reads if any(is_nullifier(each) for each in transition.inputs) else transition.inputs
