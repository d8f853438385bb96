"""Events of an intent at its sender (protocol §4.3); each names its source."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.awaited import REVERTED
from rota.model.blocks import LedgerOutcome
from rota.model.frozen import dataclass
from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    Dependency,
    HeartbeatNumber,
    Leaf,
    NodeName,
    Outcome,
    Party,
    RequestId,
    Transition,
)
from rota.wire.messages import DispatchItem, ErrorCode, PreparedTransaction


@dataclass(frozen=True, slots=True)
class Created(Event):
    """Raised by the sender when the intent is durable, or was loaded after a restart."""


@dataclass(frozen=True, slots=True)
class DependencyConfirmed(Event):
    """Raised by the node when a transaction that this one depends on is confirmed."""

    dependency: Dependency


@dataclass(frozen=True, slots=True)
class DependencyReverted(Event):
    """Raised by the node when a transaction that this one depends on is reverted, or no longer awaited."""

    dependency: Dependency
    reason: str = REVERTED


def dependency_event(
    dependency: Dependency, outcome: Outcome, reason: str = REVERTED
) -> DependencyConfirmed | DependencyReverted:
    """Return the event by which an outcome reaches the dependents of the transaction."""
    is_confirmed = outcome is Outcome.CONFIRMED
    return DependencyConfirmed(dependency) if is_confirmed else DependencyReverted(dependency, reason)


@dataclass(frozen=True, slots=True)
class PartyResolved(Event):
    """Raised by the sender when a party's verifier is known; empty when there is no such party."""

    party: Party
    verifier: str


@dataclass(frozen=True, slots=True)
class Delegated(Event):
    """Raised by the sender when the delegate has accepted or still holds the intent."""

    delegate: NodeName
    incarnation: int
    heartbeat: HeartbeatNumber


@dataclass(frozen=True, slots=True)
class CoordinatorChanged(Event):
    """Raised by the sender when the intent is to be delegated again: another delegate, or a lost lease."""

    reason: str


@dataclass(frozen=True, slots=True)
class AssembleRequestReceived(Event):
    """Raised by the sender when the current delegate asks to assemble the intent."""

    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Assembled(Event):
    """Raised by the domain: there is a transition to sign, with the attesters that its plan adds."""

    transition: Transition
    attesters: Attesters = NO_ATTESTERS


@dataclass(frozen=True, slots=True)
class AssembleAndSignSuccess(Event):
    """Raised by the signer: the transition bears our party's signature, and those of its cosigners."""

    signature: bytes
    cosignatures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class AssembleRevert(Event):
    """Raised by the domain: the intent is not valid."""

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class AssemblePark(Event):
    """Raised by the domain: the intent is not ready."""

    reason: str


@dataclass(frozen=True, slots=True)
class AssembleError(Event):
    """Raised by the domain or the signer after a failure that is no fault of the intent.

    Also raised by the sender when the intent can be assembled on its own states, but not on its coordinator's snapshot,
    and when it reads none of its dependencies (`awaits_dependencies`).
    """

    reason: str
    code: ErrorCode = ErrorCode.FAILED
    lacks_states: bool = False
    awaits_dependencies: bool = False


@dataclass(frozen=True, slots=True)
class DispatchConfirmationRequestReceived(Event):
    """Raised by the sender when a peer requests permission to dispatch a leaf of the intent."""

    peer: NodeName
    request_id: RequestId
    item: DispatchItem


@dataclass(frozen=True, slots=True)
class SignatureVerified(Event):
    """Raised by the signer: whether a leaf received from a peer bears our party's signature."""

    request_id: RequestId
    is_ours: bool


@dataclass(frozen=True, slots=True)
class PreparedTransactionReceived(Event):
    """Raised by the sender when a peer sends it an endorsed transition of the intent."""

    peer: NodeName
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class Dispatched(Event):
    """Raised by the sender when coordinator or submitter report that the permitted leaf is dispatched."""

    leaf: Leaf | None


@dataclass(frozen=True, slots=True)
class NonceAssigned(Event):
    """Raised by the sender when the submitter lists the permitted leaf with a signer and a nonce."""

    leaf: Leaf
    signer: str
    nonce: int


@dataclass(frozen=True, slots=True)
class Submitted(Event):
    """Raised by the sender when the submitter lists the permitted leaf as sent to the chain."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class SubmitterSilent(Event):
    """Raised by a timer when no node has listed the permitted leaf for `submitter_grace`.

    Raised by the sender, even if it is listed, when its validity has passed in a final block or its coordinator is
    left.
    """

    reason: str = "its submitter is silent"
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp(Event):
    """Raised by the sender when endorsers refused the leaf that it signed, or its domain finds a failure final."""

    reason: str


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """Raised by the sender when its delegate has given the intent up, and that does not end it.

    The delegate has no evidence; or endorsers refused a version assembled on its snapshot (`was_refused`).
    """

    peer: NodeName
    reason: str
    was_refused: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmedSuccess(Event):
    """Raised by our own chain index: a version of the intent is on the chain."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class ConfirmedReverted(Event):
    """Raised by our own chain index: a version of the intent was skipped or reverted."""

    outcome: LedgerOutcome


@dataclass(frozen=True, slots=True)
class ConfirmationUndone(Event):
    """Raised by our own chain index when a reorganisation takes the confirmation back."""


@dataclass(frozen=True, slots=True)
class ConfirmationFinal(Event):
    """Raised by our own chain index when the confirmation is as deep as it must be."""


@dataclass(frozen=True, slots=True)
class VersionsVoid(Event):
    """Raised by the sender when, in chain time, no version of an intent that ends is valid any more."""


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """Raised by the user."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """Raised by the user, for a parked intent."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class HoldExpired(Event):
    """Raised by a timer when a held permission request has waited for `request_timeout`."""


@dataclass(frozen=True, slots=True)
class RetryDue(Event):
    """Raised by a timer when a backoff has ended."""


@dataclass(frozen=True, slots=True)
class PreparedIssued(Event):
    """Raised by the external issue: the prepared transition is its user's."""


@dataclass(frozen=True, slots=True)
class BegunAnew(Event):
    """Raised by the voiding, or by the external issue when it was not carried out in time: the intent starts over."""


@dataclass(frozen=True, slots=True)
class LeafClaimed(Event):
    """Raised by the inquiry: our party signed the leaf on the chain."""


@dataclass(frozen=True, slots=True)
class LeafUnclaimed(Event):
    """Raised by the inquiry: no member has shown in time that our party signed the leaf on the chain."""
