"""Drafts: what an external intent would do, known before anybody is asked to endorse it.

Theory of operation. Transitions of several contracts settle together when each is held to a condition that names the
cores of all of them (ledger). So every core has to be known before the first of them is bound. That takes two steps:

    draft   the intent is assembled on what its sender's node holds now; its id is set aside, nothing is submitted
    bind    with the cores of all that are to be committed together, the drafted intent is submitted, under the
            condition that follows from them (`host.bound`)

An external intent has the same salts whenever it is assembled. So it has the same core when it is bound, unless what
it stands on was spent meanwhile: then it is reverted with that reason, and drafted anew. A draft keeps nothing from
anybody.

Whoever is to get something by somebody else's draft must not take its core on trust. An *opening* of it is the
transition with those states that the reader's node may see: from that, the node works out the core itself, and tells
what would be done. What an opening says of a private contract's execution is true if it is ever committed, because its
endorsers sign nothing else. Where transitions are proved nobody endorses: of such an opening a node tells only the
states that the ledger would be told of by their commitments, and that their owners can spend (`host.proving`).
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

# As many as the settlement contract takes, and as many as a round has leaves.
LEGS_MAX: Final = 32
CORES_MAX: Final = 255

NamedLeg = tuple[ContractAddress, tuple[Core, ...]]

_NO_REQUEST: Final = RequestId(0, 0)


@dataclass(frozen=True, slots=True)
class Draft:
    """An external intent, its core, and the transition that it would be if nothing held it to a condition."""

    intent: Intent
    core: Core
    transition: Transition

    def opening_for(self, reader: NodeName) -> bytes:
        """What a reader's node is shown of it, in a frame as nodes send it: no state that it may not see."""
        body = StateDistribution(Digest(self.core), (self.transition.as_seen_by(reader),))
        return encode_frame((Envelope(self.intent.contract, _NO_REQUEST, 0, 0, body),))


@dataclass(frozen=True, slots=True)
class Opening:
    """A draft of somebody else, as it was shown to us."""

    contract: ContractAddress
    transition: Transition

    @property
    def references(self) -> tuple[StateId, ...]:
        """The states that it spends or reads."""
        return (*self.transition.inputs, *self.transition.reads)


@dataclass(frozen=True, slots=True)
class Examined:
    """Somebody's draft: its core as we have worked it out, and what it would do as far as we may see it."""

    core: Core
    told: dict[str, object]


def draft(hosted: Hosted, intent: Intent, held: Held, node: NodeName, background: Background = NO_BACKGROUND) -> Draft:
    """The draft of an external intent on what is held now. `Rejected` when it cannot be assembled."""
    return drafted(hosted, intent, assemble(hosted, order_of(intent), held, node, background))


def order_of(intent: Intent) -> AssembleIntents:
    """What is asked of the domain for a draft."""
    assert intent.submit_mode is SubmitMode.EXTERNAL, "only what its user commits can be conditional"
    return AssembleIntents(intent.contract, _NO_REQUEST, (intent,), Snapshot(), 0, 0, 0)


def drafted(hosted: Hosted, intent: Intent, results: list[AssemblyFinished | AssemblyFailed]) -> Draft:
    """The draft that an assembly is. `Rejected` if it ended in another way, `Unavailable` if states are missing."""
    (result,) = results
    if isinstance(result, AssemblyFailed) and result.lacks_states:
        raise Unavailable(result.reason)
    transition = result.transition if isinstance(result, AssemblyFinished) else None
    if transition is None:
        raise Rejected("", result.reason)
    free = _unconditional(hosted, transition)
    return Draft(intent, Core(free.leaf), free)


def read_opening(content: bytes) -> Opening:
    """What a party was shown. `Rejected` when it cannot be read."""
    frame = decode_frame(content)
    if isinstance(frame, Malformed):
        raise Rejected("opening", f"must be one that a node made of a draft: {frame.reason}")
    match [(envelope.contract, envelope.body) for envelope in frame.envelopes]:
        case [(contract, StateDistribution(transitions=(transition,)))]:
            return Opening(contract, transition)
        case _:
            raise Rejected("opening", "must be one that a node made of a draft")


def examine(hosted: Hosted, opening: Opening, known: Held, node: NodeName) -> Examined:
    """What somebody's draft would do. `known` are the states that it refers to, spent or not.

    `Rejected` when what it shows is not what its core binds.
    """
    for number, state in enumerate(opening.transition.outputs):
        if state.content is not None and state_commitment(state.content) != state.commitment:
            raise Rejected("opening", f"must show state {number} as it is bound, and shows another")
    free = _unconditional(hosted, opening.transition)
    return Examined(Core(free.leaf), receipt(hosted, free, known, node))


def condition_of(legs: tuple[NamedLeg, ...], own: ContractAddress, core: Core) -> bytes:
    """The condition that legs are bound by. `Rejected` when the one that is to be bound is not among them."""
    if not 1 <= len(legs) <= LEGS_MAX:
        raise Rejected("legs", f"must be 1 to {LEGS_MAX}, not {len(legs)}")
    for number, (_, cores) in enumerate(legs):
        if not 1 <= len(cores) <= CORES_MAX:
            raise Rejected(f"legs[{number}].cores", f"must be 1 to {CORES_MAX}, not {len(cores)}")
    if not any(contract == own and core in cores for contract, cores in legs):
        raise Rejected("legs", f"must have 0x{core.hex()} of {own}, which is what is to be bound")
    return settlement_condition(legs)


def _unconditional(hosted: Hosted, transition: Transition) -> Transition:
    """The same with nothing that it is held to: its leaf is the core."""
    free = replace(transition, preparation=None)
    leaf = leaf_of_transition(hosted.separator, free)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(free.outputs))
    return replace(free, leaf=leaf, outputs=outputs)
