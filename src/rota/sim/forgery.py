"""Forged messages: messages of a lying node that its machine never made.

A forgery applies once, to the next message of its kind on its way. It is consistent: all leaves and digests are
computed again; only signatures of other nodes' parties cannot be forged. `ALTERED` changes the request: a transition
makes a state that its sender never made, permission is requested for another leaf, an intent is delegated in the name
of another node's party. `INVENTED` invents the intent itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from rota.model.digests import domain_separator, leaf_of_transition, round_digest, state_commitment
from rota.model.types import Contract, IntentId, Leaf, Party, State, StateId, Transition
from rota.sim.domain import intent_id
from rota.sim.weather import MessageRule
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    DelegationCommand,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Envelope,
    Message,
)

INVENTED: Final = intent_id("invented")
FORGED_CONTENT: Final = b"shared/forged"


class Lie(Enum):
    """The false part of a message."""

    ALTERED = "altered"
    INVENTED = "invented"


@dataclass(slots=True)
class Forgery(MessageRule):
    """Changes the next message that it matches."""

    lie: Lie

    def apply(self, contract: Contract, envelope: Envelope) -> Envelope:
        """The message as the lying node sends it."""
        separator = domain_separator(contract.chain_id, contract.address)
        return replace(envelope, body=_LIES[(self.kind, self.lie)](separator, envelope.body))


def can_be_told(kind: str, lie: Lie) -> bool:
    """Whether messages of this kind can have this lie."""
    return (kind, lie) in _LIES


def tellable(lie: Lie) -> str:
    """The kinds of message that can have this lie."""
    return ", ".join(kind for kind, known in _LIES if known is lie)


def _alter_transition(separator: bytes, transition: Transition) -> Transition:
    """The transition with another output state and its new leaf, under the old signature."""
    commitment = state_commitment(FORGED_CONTENT)
    seen_by = transition.outputs[0].distribution
    unnamed = State(StateId(transition.leaf, 0), commitment, seen_by, FORGED_CONTENT)
    leaf = leaf_of_transition(separator, replace(transition, outputs=(unnamed,)))
    return replace(transition, leaf=leaf, outputs=(replace(unnamed, id=StateId(leaf, 0)),))


def _invent_transition(separator: bytes, transition: Transition) -> Transition:
    """The same transition for an intent that no user submitted."""
    invented = replace(transition, intent=INVENTED)
    leaf = leaf_of_transition(separator, invented)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(transition.outputs))
    return replace(invented, leaf=leaf, outputs=outputs)


def _alter_assembly(separator: bytes, body: Message) -> Message:
    assert isinstance(body, AssembleResponse), "a lie knows its kind"
    first, *others = body.results
    assert first.transition is not None, "only what was assembled can be altered"
    altered = replace(first, transition=_alter_transition(separator, first.transition))
    return replace(body, results=(altered, *others))


def _in_round(change: Callable[[bytes, Transition], Transition]) -> Callable[[bytes, Message], Message]:
    def lie(separator: bytes, body: Message) -> Message:
        assert isinstance(body, EndorsementRequest), "a lie knows its kind"
        first, *others = body.transitions
        transitions = (change(separator, first), *others)
        leaves = tuple(transition.leaf for transition in transitions)
        digest = round_digest(separator, leaves, body.valid_until_s)
        return replace(body, digest=digest, transitions=transitions)

    return lie


def _alter_permission(_: bytes, body: Message) -> Message:
    assert isinstance(body, DispatchConfirmationRequest), "a lie knows its kind"
    first, *others = body.items
    return replace(body, items=(replace(first, leaf=Leaf(state_commitment(FORGED_CONTENT))), *others))


def _invent_permission(_: bytes, body: Message) -> Message:
    assert isinstance(body, DispatchConfirmationRequest), "a lie knows its kind"
    first, *others = body.items
    return replace(body, items=(replace(first, intent=INVENTED), *others))


def _invent_assembly(_: bytes, body: Message) -> Message:
    assert isinstance(body, AssembleRequest), "a lie knows its kind"
    intents: tuple[IntentId, ...] = (INVENTED, *body.intents[1:])
    return replace(body, intents=intents)


def _alter_delegation(_: bytes, body: Message) -> Message:
    """Attribute the intent to a party of another node."""
    assert isinstance(body, DelegationCommand), "a lie knows its kind"
    first, *others = body.delegations
    altered = replace(first, intent=replace(first.intent, sender=Party("somebody@elsewhere")))
    return replace(body, delegations=(altered, *others))


_LIES: Final[dict[tuple[str, Lie], Callable[[bytes, Message], Message]]] = {
    ("DelegationCommand", Lie.ALTERED): _alter_delegation,
    ("AssembleResponse", Lie.ALTERED): _alter_assembly,
    ("EndorsementRequest", Lie.ALTERED): _in_round(_alter_transition),
    ("DispatchConfirmationRequest", Lie.ALTERED): _alter_permission,
    ("AssembleRequest", Lie.INVENTED): _invent_assembly,
    ("EndorsementRequest", Lie.INVENTED): _in_round(_invent_transition),
    ("DispatchConfirmationRequest", Lie.INVENTED): _invent_permission,
}
