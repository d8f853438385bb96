"""Drafts: the effect of an external intent, computed before any node is asked to endorse it.

Theory of operation. Transitions of several contracts settle together when each has a condition that names the
cores of all of them (ledger). So every core has to be known before the first of them is bound. That takes two steps:

    draft   the intent is assembled on the states that its sender's node holds now; its id is set aside, nothing is
            submitted
    bind    with the cores of all legs that are to be committed together, the drafted intent is submitted, under the
            condition that follows from them (`host.bound`)

An external intent has the same salts whenever it is assembled. So it has the same core when it is bound, unless a state
that it uses was spent meanwhile: then it is reverted with that reason, and drafted again. A draft reserves no states.

A party that is to receive something by another party's draft must not trust its core. An *opening* of the draft is the
transition with those states that the reader's node may see: from it, the node computes the core itself, and reports the
effect. An opening of a private contract's execution is true if it is ever committed, because its endorsers sign nothing
else. Where transitions are proved there are no endorsers: from such an opening a node reports only the states whose
commitments the ledger would get, and which their owners can spend (`host.proving`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rota.calldata import settlement_condition
from rota.domains.base import Rejected
from rota.host import NO_BACKGROUND, Background, Held, Hosted, assemble, receipt
from rota.model.digests import Core, leaf_of_transition, state_commitment
from rota.model.types import ContractAddress, Digest, Intent, NodeName, RequestId, StateId, SubmitMode, Transition
from rota.ports import Unavailable
from rota.sequencer.effects import AssembleIntents
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire.codec import Malformed, decode_frame, encode_frame
from rota.wire.messages import Envelope, Snapshot, StateDistribution

# The settlement contract's limit, and the number of leaves of a round.
LEGS_MAX: Final = 32
CORES_MAX: Final = 255

NamedLeg = tuple[ContractAddress, tuple[Core, ...]]

_NO_REQUEST: Final = RequestId(0, 0)


@dataclass(frozen=True, slots=True)
class Draft:
    """An external intent, its core, and the transition that it would be without a condition."""

    intent: Intent
    core: Core
    transition: Transition

    def opening_for(self, reader: NodeName) -> bytes:
        """Return the frame that shows a reader's node the draft, without states that it may not see."""
        body = StateDistribution(Digest(self.core), (self.transition.as_seen_by(reader),))
        return encode_frame((Envelope(self.intent.contract, _NO_REQUEST, 0, 0, body),))


@dataclass(frozen=True, slots=True)
class Opening:
    """Another party's draft, as it was shown to this node."""

    contract: ContractAddress
    transition: Transition

    @property
    def references(self) -> tuple[StateId, ...]:
        """The states that it spends or reads."""
        return (*self.transition.inputs, *self.transition.reads)


@dataclass(frozen=True, slots=True)
class Examined:
    """Another party's draft: its core as this node computed it, and its effect as far as the node may see it."""

    core: Core
    told: dict[str, object]


def draft(hosted: Hosted, intent: Intent, held: Held, node: NodeName, background: Background = NO_BACKGROUND) -> Draft:
    """Return the draft of an external intent on the states held now. `Rejected` when it cannot be assembled."""
    return drafted(hosted, intent, assemble(hosted, order_of(intent), held, node, background))


def order_of(intent: Intent) -> AssembleIntents:
    """Return the order to the domain that assembles a draft."""
    assert intent.submit_mode is SubmitMode.EXTERNAL, "only what its user commits can be conditional"
    return AssembleIntents(intent.contract, _NO_REQUEST, (intent,), Snapshot(), 0, 0, 0)


def drafted(hosted: Hosted, intent: Intent, results: list[AssemblyFinished | AssemblyFailed]) -> Draft:
    """Return the draft from an assembly's result. `Rejected` if it failed, `Unavailable` if states are missing."""
    (result,) = results
    if isinstance(result, AssemblyFailed) and result.lacks_states:
        raise Unavailable(result.reason)
    transition = result.transition if isinstance(result, AssemblyFinished) else None
    if transition is None:
        raise Rejected("", result.reason)
    free = _unconditional(hosted, transition)
    return Draft(intent, Core(free.leaf), free)


def read_opening(content: bytes) -> Opening:
    """Decode an opening. `Rejected` when it cannot be read."""
    frame = decode_frame(content)
    if isinstance(frame, Malformed):
        raise Rejected("opening", f"must be one that a node made of a draft: {frame.reason}")
    match [(envelope.contract, envelope.body) for envelope in frame.envelopes]:
        case [(contract, StateDistribution(transitions=(transition,)))]:
            return Opening(contract, transition)
        case _:
            raise Rejected("opening", "must be one that a node made of a draft")


def examine(hosted: Hosted, opening: Opening, known: Held, node: NodeName) -> Examined:
    """Compute the core and effect of another party's draft. `known` are the states that it refers to, spent or not.

    `Rejected` when the states it shows are not the ones that its core binds.
    """
    for number, state in enumerate(opening.transition.outputs):
        if state.content is not None and state_commitment(state.content) != state.commitment:
            raise Rejected("opening", f"must show state {number} as it is bound, and shows another")
    free = _unconditional(hosted, opening.transition)
    return Examined(Core(free.leaf), receipt(hosted, free, known, node))


def condition_of(legs: tuple[NamedLeg, ...], own: ContractAddress, core: Core) -> bytes:
    """Return the condition that binds these legs. `Rejected` when the leg to be bound is not among them."""
    if not 1 <= len(legs) <= LEGS_MAX:
        raise Rejected("legs", f"must be 1 to {LEGS_MAX}, not {len(legs)}")
    for number, (_, cores) in enumerate(legs):
        if not 1 <= len(cores) <= CORES_MAX:
            raise Rejected(f"legs[{number}].cores", f"must be 1 to {CORES_MAX}, not {len(cores)}")
    if not any(contract == own and core in cores for contract, cores in legs):
        raise Rejected("legs", f"must have 0x{core.hex()} of {own}, which is what is to be bound")
    return settlement_condition(legs)


def _unconditional(hosted: Hosted, transition: Transition) -> Transition:
    """Return the transition without its condition, so that its leaf is the core."""
    free = replace(transition, preparation=None)
    leaf = leaf_of_transition(hosted.separator, free)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(free.outputs))
    return replace(free, leaf=leaf, outputs=outputs)
