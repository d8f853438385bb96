"""The id of a state as clients see it: 32 bytes, where ours are a leaf and a number.

    id = leaf, with the number of the output xored into its last byte

Ours follow from it: there are as many candidates as a transition has outputs, and a node has at most one of them, as
two leaves with 31 bytes in common are a collision of the hash. So nothing has to be stored, and no id is ambiguous.
Earlier releases showed the leaf and one more byte; that form is accepted too.
"""

from __future__ import annotations

from typing import Final

from rota.model.digests import STATES_MAX, WORD_BYTES
from rota.model.types import Leaf, StateId

SHOWN_BYTES: Final = WORD_BYTES
LONG_BYTES: Final = WORD_BYTES + 1
# By their number, so that only a nullifier, which is no state, has a long form.
_NUMBERS: Final = range(STATES_MAX)


def shown_state_id(state: StateId) -> bytes:
    """Return the id of a state for clients; for a nullifier, which no client can name, the leaf and one more byte."""
    if state.output not in _NUMBERS:
        return state.leaf + bytes((state.output,))
    return state.leaf[:-1] + bytes((state.leaf[-1] ^ state.output,))


def states_shown_as(shown: bytes) -> tuple[StateId, ...]:
    """Return the states that a client may mean by an id; empty for bytes that are no id."""
    if len(shown) == LONG_BYTES:
        return (StateId(Leaf(shown[:-1]), shown[-1]),)
    if len(shown) != SHOWN_BYTES:
        return ()
    return tuple(StateId(Leaf(shown[:-1] + bytes((shown[-1] ^ number,))), number) for number in _NUMBERS)
