"""Events that reach a sequencer from outside: blocks, results, dispatches; and timers of parts that are no machines.

`rota.machine.events` has those that packages share. Events that several modules raise for a machine are in the module
with its name.
"""

from __future__ import annotations

from dataclasses import field

from rota.machine.events import Result
from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome
from rota.model.consistency import Consistent
from rota.model.frozen import dataclass
from rota.model.types import NO_ATTESTERS, Attesters, Digest, IntentId, Leaf, NodeName, RequestId, StateId, Transition
from rota.wire.messages import AssemblyOutcome, Envelope, Refusal


@dataclass(frozen=True, slots=True)
class PeerSpoke(Event):
    """A peer sent a message about a contract that the node itself takes; the contract counts it against silence."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class BlockIndexed(Event):
    """This node's index has reached a height, with these outcomes of this contract."""

    height: int
    chain_time_s: int
    outcomes: tuple[LedgerOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class BlocksRemoved(Event):
    """A reorganisation took these outcomes of this contract back; the index is at `height` again."""

    height: int
    outcomes: tuple[LedgerOutcome, ...]


@dataclass(frozen=True, slots=True)
class OutcomesFinal(Event):
    """The chain is final up to this chain time, with these outcomes: receipts may be reported."""

    chain_time_s: int
    outcomes: tuple[LedgerOutcome, ...]


@dataclass(frozen=True, slots=True)
class LedgerLost(Event):
    """Raised by the node: its index has not reached the ledger, or its store has taken no write, for `ledger_grace`."""


@dataclass(frozen=True, slots=True)
class LedgerBack(Event):
    """This node's index has reached the ledger, and its store takes writes, again."""


@dataclass(frozen=True, slots=True)
class AssemblyFinished(Result):
    """The domain has assembled one intent of an order, or reports why not; `request_id` is the order's."""

    request_id: RequestId
    intent: IntentId
    outcome: AssemblyOutcome
    transition: Transition | None = None
    reason: str = ""
    code: str = ""
    attesters: Attesters = NO_ATTESTERS


@dataclass(frozen=True, slots=True)
class AssemblyFailed(Result):
    """The domain or the signer failed on one intent of a slot; this is no fault of the intent.

    `error` is the domain's exception, for the operator's log; nothing is decided by it. `lacks_states`: the domain
    needs a state that is not here yet.
    """

    request_id: RequestId
    intent: IntentId
    reason: str
    error: Exception | None = field(default=None, compare=False, repr=False)
    lacks_states: bool = False


@dataclass(frozen=True, slots=True)
class FailureJudged(Result):
    """The sender's own domain judges whether an intent whose version failed on the ledger is worth another attempt."""

    intent: IntentId
    leaf: Leaf
    is_worth_retrying: bool


@dataclass(frozen=True, slots=True)
class TransitionSigned(Result):
    """The `from` party has signed the leaf of a transition, by this order; and the cosigners, in their order."""

    request_id: RequestId
    intent: IntentId
    signature: bytes
    cosignatures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class SignatureVerified(Result):
    """Whether a leaf that is to be permitted bears the signature of our own party."""

    request_id: RequestId
    intent: IntentId
    is_ours: bool


@dataclass(frozen=True, slots=True)
class RoundChecked(Result):
    """The domain has checked a round for this endorser: a signature, or the refusals.

    Or it cannot judge: it lacks these states, which it may see and which our index does not know as spent; or it failed
    on these leaves. The peer chose the request's id: `digest` identifies the round that was checked.
    """

    peer: NodeName
    request_id: RequestId
    signature: bytes = b""
    refusals: tuple[Refusal, ...] = ()
    missing: tuple[StateId, ...] = ()
    unjudged: tuple[Leaf, ...] = ()
    digest: Digest = Digest(b"")


@dataclass(frozen=True, slots=True)
class EndorsementVerified(Result):
    """Whether an endorser's signature over a round is its own."""

    peer: NodeName
    digest: Digest
    signature: bytes
    is_valid: bool


@dataclass(frozen=True, slots=True)
class PartiesVerified(Result):
    """The leaves without their party's signature, and those whose party's verifier is not known; the others have it."""

    request_id: RequestId
    false: tuple[Leaf, ...] = ()
    unknown: tuple[Leaf, ...] = ()


@dataclass(frozen=True, slots=True)
class EndorsersVerified(Result):
    """Whether each of the signatures in question is its endorser's own, in their order."""

    request_id: RequestId
    are_valid: tuple[bool, ...]
    intent: IntentId | None = None


# From the submitter.


@dataclass(frozen=True, slots=True)
class RoundDispatched(Event):
    """The dispatch syncpoint is durable: the round has a signer and a nonce."""

    digest: Digest
    signer: str
    nonce: int


@dataclass(frozen=True, slots=True)
class RoundDispatchFailed(Event):
    """The dispatch write failed and is to be retried."""

    digest: Digest
    reason: str


@dataclass(frozen=True, slots=True)
class RoundSubmitted(Event):
    """The round's base-ledger transaction was sent to the chain."""

    digest: Digest
    submission_count: int


@dataclass(frozen=True, slots=True)
class TransitionsShown(Event):
    """Transitions from a member or the own store, for a sender that has an unknown leaf under an intent's id."""

    peer: NodeName
    transitions: tuple[Consistent, ...]


# Timers of the rounds.


@dataclass(frozen=True, slots=True)
class SlotRepeatDue(Event):
    """The slot's request is to be sent again."""


@dataclass(frozen=True, slots=True)
class SlotTimedOut(Event):
    """The slot's sender has not answered within `assemble_timeout`."""


@dataclass(frozen=True, slots=True)
class RoundRepeatDue(Event):
    """The endorsers that have not answered for a round are to be asked again."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class GatheringEnded(Event):
    """Transitions have waited for a shared round until the bound."""


@dataclass(frozen=True, slots=True)
class VoidRepeatDue(Event):
    """The endorsers that have not signed the void of a prepared intent are to be asked again."""

    intent: IntentId


@dataclass(frozen=True, slots=True)
class PermissionRepeatDue(Event):
    """A permission request is to be sent again."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class DispatchRetryDue(Event):
    """A dispatch whose write failed is to be retried."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class LookAgain(Event):
    """A backoff has ended: a sender may be selected now."""


@dataclass(frozen=True, slots=True)
class VerificationOverdue(Event):
    """The signatures of these transitions were not verified in time."""

    request_id: RequestId


# Timers of the issuing.


@dataclass(frozen=True, slots=True)
class IssueRepeatDue(Event):
    """A prepared transition is to be sent again."""

    leaf: Leaf


# Timers of the endorser.


@dataclass(frozen=True, slots=True)
class StatesOverdue(Event):
    """A signed transition is on the chain, and no node has sent the endorser its states."""
