"""What a transition refers to: states by their ids, and where nobody shall see which state is spent, nullifiers.

A nullifier stands in the place of a leaf, with an output number that no state has: FF, FF, nullifier 32. To whatever
orders transitions both are the same: what one transition takes no other can.
"""

from __future__ import annotations

from typing import Final

from rota.model.digests import WORD_BYTES, ending_word
from rota.model.types import IntentId, Leaf, StateId, Transition

NULLIFIER_OUTPUT: Final = 0xFF


def nullifier_reference(nullifier: bytes) -> StateId:
    """What a transition has as its input that spends by this nullifier."""
    assert len(nullifier) == WORD_BYTES, f"a nullifier is {WORD_BYTES} bytes, not {len(nullifier)}"
    return StateId(Leaf(nullifier), NULLIFIER_OUTPUT)


def ended_reference(permitted: IntentId) -> StateId:
    """What the end of a lock's record spends besides its inputs, in an index: the states that stand for the record."""
    return nullifier_reference(ending_word(permitted))


def is_nullifier(reference: StateId) -> bool:
    """Whether it names no state."""
    return reference.output == NULLIFIER_OUTPUT


def shown_states(transition: Transition) -> tuple[StateId, ...]:
    """The states that a proof is about by name: those that are spent, or beside nullifiers those that are read."""
    return transition.reads if any(is_nullifier(each) for each in transition.inputs) else transition.inputs
