"""Transitions and signatures that a liar makes: consistent in themselves; only other nodes' signatures are missing."""

from __future__ import annotations

from dataclasses import replace

from rota.model.digests import core_of, leaf_of, leaf_of_transition, state_commitment
from rota.model.types import IntentId, Leaf, NodeName, Party, State, StateId, Transition
from rota.sim.services import sign_leaf


def made_transition(
    separator: bytes,
    intent: IntentId,
    contents: tuple[bytes, ...],
    seen_by: tuple[NodeName, ...],
    valid_until_s: int,
    inputs: tuple[StateId, ...] = (),
) -> Transition:
    """A transition that creates states with these contents; without contents and inputs, the empty transition."""
    commitments = tuple(state_commitment(content) for content in contents)
    leaf: Leaf = leaf_of(core_of(separator, intent, inputs=inputs, outputs=commitments))
    outputs = tuple(
        State(StateId(leaf, number), commitment, seen_by, content)
        for number, (commitment, content) in enumerate(zip(commitments, contents, strict=True))
    )
    return Transition(intent, leaf, inputs, outputs=outputs, valid_until_s=valid_until_s)


def renamed(separator: bytes, transition: Transition) -> Transition:
    """A changed transition with the leaf and the state ids recomputed."""
    leaf = leaf_of_transition(separator, transition)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(transition.outputs))
    return replace(transition, leaf=leaf, outputs=outputs)


def signed_by(party: Party, transition: Transition) -> Transition:
    """A transition signed by a liar's own party."""
    return replace(transition, signature=sign_leaf(party, transition.leaf, transition.valid_until_s))


def with_false_contents(transition: Transition, content: bytes) -> Transition:
    """The same leaf, ids and commitments, with `content` in every output state."""
    outputs = tuple(replace(state, content=content) for state in transition.outputs)
    return replace(transition, outputs=outputs)
