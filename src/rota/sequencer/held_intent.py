"""An intent at its coordinator, in every state, and the round that it is endorsed in.

`coordinator_transaction.py` has its rules. The parts of a coordinator use this class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rota.machine.tables import Machine, superstate
from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    Contract,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    RequestId,
    Transition,
    node_of,
)
from rota.sequencer.context import Context
from rota.sequencer.makers import Showing
from rota.sequencer.quotas import Quotas
from rota.wire.messages import Delegation, EndorserSignature, HandedRound, Refusal, TransactionReverted


class State(Enum):
    """State of an intent at its coordinator (seed 2, and Prepared)."""

    INITIAL = "Initial"
    POOLED = "Pooled"
    PREASSEMBLY_BLOCKED = "PreAssembly_Blocked"
    ASSEMBLING = "Assembling"
    ENDORSEMENT_GATHERING = "Endorsement_Gathering"
    BLOCKED = "Blocked"
    CONFIRMING_DISPATCH = "Confirming_Dispatch"
    PREPARED = "Prepared"
    READY_FOR_DISPATCH = "Ready_For_Dispatch"
    DISPATCHED = "Dispatched"
    SUBMITTED = "Submitted"
    CONFIRMED = "Confirmed"
    REVERTED = "Reverted"
    FINAL = "Final"

    # Each state exists once, so its address identifies it; Enum would hash the name at every table look-up.
    __hash__ = object.__hash__


UNASSEMBLED = superstate("Unassembled", State.POOLED, State.PREASSEMBLY_BLOCKED)
AWAITING_ASSEMBLY = superstate("AwaitingAssembly", UNASSEMBLED, State.ASSEMBLING)
ASSEMBLED = superstate("Assembled", State.ENDORSEMENT_GATHERING, State.BLOCKED, State.CONFIRMING_DISPATCH)
# Until its dispatch is being written.
RECALLABLE = superstate("Recallable", ASSEMBLED, State.READY_FOR_DISPATCH)
SENT = superstate("Sent", State.DISPATCHED, State.SUBMITTED)
# Prepared is not under way: it has left its round and the graph, and is only to be delivered to its sender.
UNDER_WAY = superstate("UnderWay", AWAITING_ASSEMBLY, RECALLABLE, SENT)
HELD = superstate("Held", UNDER_WAY, State.PREPARED)
ENDED = superstate("Ended", State.CONFIRMED, State.REVERTED)
GONE = superstate("Gone", ENDED, State.FINAL)
KNOWN = superstate("Known", HELD, GONE)
UNDISPATCHED = (*AWAITING_ASSEMBLY.states, *ASSEMBLED.states)
ON_THE_WAY = (State.READY_FOR_DISPATCH, *SENT.states)
# A coordinator that leaves drops these; a prepared transition is delivered to its sender all the same.
DROPPABLE = (*UNDISPATCHED, State.PREPARED)
# Its dependents check again whether they can get permission, or be prepared.
READY = (State.READY_FOR_DISPATCH, State.DISPATCHED)


class HeldIntent(Machine):
    """The known facts about one delegated intent."""

    def __init__(
        self, context: Context, quotas: Quotas, delegation: Delegation, order: int, refused_before: int
    ) -> None:
        super().__init__()
        self.context = context
        self.quotas = quotas
        self.order = order
        self.awaits_assembly = False
        self.was_assembled = False
        self.intent = delegation.intent.as_delegated()
        self.sender: NodeName = node_of(delegation.intent.sender)
        self.number = delegation.number
        self.is_voiding = delegation.is_voiding
        self.revert_count = delegation.revert_count
        self.refused_count = 0 if delegation.is_voiding else refused_before
        self.request_count = 0
        self.submission_count = 0
        self.signer_and_nonce: tuple[str, int] | None = None
        self.request_id: RequestId | None = None
        self.transition: Transition | None = None
        self.attesters = NO_ATTESTERS
        self.size_bytes = 0
        self.seen_by: dict[NodeName, None] = {}
        self.round: Round | None = None
        self.digest: Digest | None = None
        # The round of that digest, to hand over to a successor.
        self.endorsed: HandedRound | None = None
        self.waits_for: tuple[IntentId, ...] = ()
        self.not_before_ms = 0
        self.unusable_count = 0
        # The report to its sender if it is given up for the refusals of its last version.
        self.refused: TransactionReverted | None = None
        self.kept_away_count = 0
        self.contended_count = 0
        self.whole_revert_count = 0
        # The count of outcomes in the index when the current version was placed, and the makers of its states.
        self.placed_at = 0
        self.makers: tuple[tuple[IntentId, Leaf], ...] = ()
        self.told_count = 0
        # How often each endorser failed to judge the current version, because of a failure there or of the transition.
        self.unjudged_by: dict[NodeName, int] = {}
        self.reverted: TransactionReverted | None = None
        self.goes_alone = False
        self.is_apart = False
        self.sends_states = False
        self.is_counted = False
        self.reason = ""
        self.since_ms = context.now_ms
        self.history: list[tuple[int, Enum]] = []

    def hold(self, transition: Transition, size_bytes: int, attesters: Attesters = NO_ATTESTERS) -> None:
        """Set the current version; it counts against its sender's shares of memory and of assembled transitions."""
        self.let_go()
        self.transition, self.size_bytes, self.attesters = transition, size_bytes, attesters
        self.quotas.held_bytes.take(self.sender, size_bytes)
        self.count_as_assembled(True)

    def let_go(self) -> None:
        """Clear the current version."""
        if self.transition is not None:
            self.quotas.held_bytes.give_back(self.sender, self.size_bytes)
        self.transition, self.size_bytes, self.attesters = None, 0, NO_ATTESTERS
        self.count_as_assembled(False)

    def count_as_assembled(self, is_counted: bool) -> None:
        """Count its locks and states, or no longer, among those in snapshots, of which its sender has a share."""
        if is_counted and not self.is_counted:
            self.quotas.assembled.take(self.sender, 1)
        elif self.is_counted and not is_counted:
            self.quotas.assembled.give_back(self.sender, 1)
        self.is_counted = is_counted

    @property
    def made(self) -> Transition:
        """The current version."""
        assert self.transition is not None, "only an assembled transaction has a transition"
        return self.transition

    @property
    def leaf(self) -> Leaf:
        """The leaf of the current version."""
        assert self.transition is not None, "only an assembled transaction has a leaf"
        return self.transition.leaf

    @property
    def is_external(self) -> bool:
        """Whether the current version is for its user to commit; an empty one is dispatched like any other."""
        version = self.transition
        return self.intent.is_external and version is not None and not version.is_empty

    @property
    def is_unapproved(self) -> bool:
        """Whether endorsers that its plan names have not approved the current version."""
        return bool(self.attesters.endorsers) and (self.round is None or self.round.is_approving)

    @property
    def is_assembled(self) -> bool:
        """Whether it has a version that is neither permitted nor prepared."""
        return self.state in ASSEMBLED.states

    @property
    def is_at_its_last_refusal(self) -> bool:
        """Whether another refusal ends it here."""
        return self.refused_count + 1 >= self.context.config.endorse_retry_max

    @property
    def is_gone(self) -> bool:
        """Whether it has ended here and only waits to be forgotten."""
        return self.state in GONE.states

    @property
    def is_flush_point(self) -> bool:
        """Whether it is past the point of no return and without an outcome (protocol §4.1)."""
        return self.state in ON_THE_WAY


class Phase(Enum):
    """The phase of a round."""

    ENDORSING = "endorsing"
    ENDORSED = "endorsed"
    DISPATCHING = "dispatching"
    DISPATCHED = "dispatched"


class Lack(NamedTuple):
    """Leaves that an endorser lacks and this node cannot show, and how often in a row it has reported a lack."""

    leaves: tuple[Leaf, ...]
    times: int


class Doubted(NamedTuple):
    """The refusals of an endorser whose signatures are being verified, under an id drawn here."""

    id: RequestId
    refused: dict[IntentId, Refusal]


@dataclass(slots=True)
class Round:
    """Transitions that are endorsed together, and their makers; each endorser is shown those that it has not seen.

    If `apart` is set, all are of that sender, and the round counts against no other. The `required` endorsers
    are those that the plan of its transactions names. `wanted` is the digest that endorsers are asked to sign: first
    that of the approval where there are such endorsers.
    """

    number: int
    digest: Digest
    leaves: tuple[Leaf, ...]
    valid_until_s: int
    members: dict[IntentId, HeldIntent]
    opened_at_ms: int
    showing: Showing
    apart: NodeName | None = None
    phase: Phase = Phase.ENDORSING
    requests: dict[NodeName, RequestId] = field(default_factory=dict)
    signatures: dict[NodeName, bytes] = field(default_factory=dict)
    refusals: dict[NodeName, dict[IntentId, Refusal]] = field(default_factory=dict)
    doubted: dict[NodeName, Doubted] = field(default_factory=dict)
    # Since when an answer of these endorsers is being verified.
    verifying: dict[NodeName, int] = field(default_factory=dict)
    rejections: dict[NodeName, str] = field(default_factory=dict)
    lacking: dict[NodeName, Lack] = field(default_factory=dict)
    ask_count: int = 0
    dispatch_attempts: int = 0
    required: tuple[NodeName, ...] = ()
    approvals: tuple[EndorserSignature, ...] = ()
    wanted: Digest = Digest(b"")

    @property
    def size_bytes(self) -> int:
        """The size of its members in a message."""
        return sum(member.size_bytes for member in self.members.values())

    @property
    def is_approving(self) -> bool:
        """Whether it lacks approvals of endorsers that its plan names, so that none is asked to sign it."""
        return bool(self.required) and not self.approvals

    def needed(self, contract: Contract) -> int:
        """Return the number of signatures of the wanted digest that it needs."""
        return len(self.required) if self.is_approving else contract.threshold

    def spare(self, contract: Contract) -> int:
        """Return how many of the endorsers asked may refuse it: of those that its plan names, none."""
        return 0 if self.is_approving else contract.spare

    def approve(self, now_ms: int) -> None:
        """Note that all endorsers named by the plan have approved it: now it is to be signed."""
        self.approvals = tuple(EndorserSignature(*each) for each in self.signatures.items())
        self.wanted, self.opened_at_ms, self.ask_count = self.digest, now_ms, 0
        for answers in (self.signatures, self.doubted, self.verifying, self.rejections, self.lacking):
            answers.clear()

    def missing(self) -> tuple[NodeName, ...]:
        """Return the endorsers that have neither signed nor refused."""
        return tuple([node for node in self.requests if self.lacks(node)])

    def lacks(self, node: NodeName) -> bool:
        """Whether this endorser was asked and has neither signed nor refused."""
        return node in self.requests and node not in self.signatures and node not in self.refusals
