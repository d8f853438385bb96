"""Checks of a transition from elsewhere before anything is written or done by it (trust rule 4).

Theory of operation. A transition names its leaf, its states and their contents, and its sender may lie about
each. Two types show how much of that was checked, so that the type checker finds code that does not check:

- `Consistent`: the leaf is the hash of all that it binds, each content has its commitment, each state is named by the
  leaf and its place. A transition that a node stores, shows to others or judges on top of is of this type.
- `Authorised`: besides, the party of its intent signed leaf and bound. A sender permits or issues only this type. The
  signature is verified by an effect, because it needs the party's verifier.
"""

from __future__ import annotations

from typing import NewType

from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.types import NodeName, Transition

Consistent = NewType("Consistent", Transition)
Authorised = NewType("Authorised", Consistent)


def flaw_of(separator: bytes, transition: Transition) -> str:
    """Return why the transition does not agree with itself, or ""."""
    if transition.leaf != leaf_of_transition(separator, transition):
        return "the leaf is not that of the transition"
    for number, state in enumerate(transition.outputs):
        if state.content is not None and state_commitment(state.content) != state.commitment:
            return "a state's content is not what its commitment says"
        if state.id != (transition.leaf, number):
            return "a state is not called after its leaf"
    return ""


def consistent(separator: bytes, transition: Transition) -> Consistent | None:
    """Return the transition if it agrees with itself, else None."""
    return None if flaw_of(separator, transition) else Consistent(transition)


def consistent_for(separator: bytes, node: NodeName, transition: Transition) -> Consistent | None:
    """Return the transition if it agrees with itself and has no content that this node may not see (S8), else None."""
    return None if shows_too_much(node, transition) else consistent(separator, transition)


def shows_too_much(node: NodeName, transition: Transition) -> bool:
    """Whether a content is in it that this node may not see."""
    return any(state.content is not None and node not in state.distribution for state in transition.outputs)


def is_whole(transition: Transition) -> bool:
    """Whether all contents are there: a sender sees all that it makes, and no leaf binds the distribution lists."""
    return all(state.content is not None for state in transition.outputs)
