"""The events of an intent at its coordinator (`coordinator_transaction.py`).

The parts of the coordinator raise most of them: slots, rounds, permissions, dispatching, issuing.
"""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome
from rota.model.frozen import dataclass
from rota.model.types import NO_ATTESTERS, Attesters, DelegationNumber, IntentId, Leaf, RequestId, Transition
from rota.wire.messages import Delegation, EndorserSignature, ErrorCode


@dataclass(frozen=True, slots=True)
class Received(Event):
    """Raised by the coordinator when a delegation that it accepts names the intent."""

    delegation: Delegation


@dataclass(frozen=True, slots=True)
class Selected(Event):
    """Raised by the slots when the intent gets a place in the next assembly slot."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class AssembleRequestSent(Event):
    """Raised by the slots when that slot's request leaves."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class AssembleSuccess(Event):
    """Raised by the slots when their answer has a signed transition for the intent, of this size in a message."""

    number: DelegationNumber
    transition: Transition
    size_bytes: int
    attesters: Attesters = NO_ATTESTERS


@dataclass(frozen=True, slots=True)
class AssembleRevertResponse(Event):
    """Raised by the slots when the sender's domain found the intent invalid; the sender finalises it."""

    reason: str


@dataclass(frozen=True, slots=True)
class AssembleParkResponse(Event):
    """Raised by the slots when the sender's domain parked the intent; it leaves at once."""

    reason: str


@dataclass(frozen=True, slots=True)
class AssembleErrorResponse(Event):
    """Raised by the slots when the sender does not assemble the intent for us."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class AssembleTimeout(Event):
    """Raised by the slots when `assemble_timeout` has passed since the slot's first request."""


@dataclass(frozen=True, slots=True)
class Endorsed(Event):
    """Raised by the rounds when as many endorsers as the contract asks for have signed the round."""


@dataclass(frozen=True, slots=True)
class EndorsedRejected(Event):
    """Raised by the rounds when so many endorsers refuse the transition that it cannot be endorsed.

    It is not counted where states are kept for prepared transitions of others, or where endorsers lack states: the
    intent itself was not refused. `refusals` are signed judgements of the leaf, by so many that it cannot be endorsed.
    """

    reason: str
    is_counted: bool = True
    refusals: tuple[EndorserSignature, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyReady(Event):
    """Raised by the coordinator when a dependency of this transition is ready for dispatch, or dispatched."""


@dataclass(frozen=True, slots=True)
class DependencyAssembled(Event):
    """Raised by the coordinator when an intent that this one waits for has been assembled."""

    dependency: IntentId


@dataclass(frozen=True, slots=True)
class DependencyReverted(Event):
    """Raised by the coordinator when an intent that this one depends on or waits for is dropped.

    Those in `coming_back` will be assembled again; this one then waits for them.
    """

    dependency: IntentId
    coming_back: frozenset[IntentId] = frozenset()


@dataclass(frozen=True, slots=True)
class DispatchConfirmed(Event):
    """Raised by the permissions when the sender permits this very leaf."""


@dataclass(frozen=True, slots=True)
class DispatchConfirmationRejected(Event):
    """Raised by the permissions when the sender refuses permission."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class PermissionWithheld(Event):
    """Raised by the coordinator when the sender leaves requests for permission unanswered: it is no longer awaited."""


@dataclass(frozen=True, slots=True)
class Issued(Event):
    """Raised by the issuing when the sender's acknowledgement is durable, or the prepared transition has expired."""


@dataclass(frozen=True, slots=True)
class Collected(Event):
    """Raised by the dispatching when the dispatch of the round is durable."""


@dataclass(frozen=True, slots=True)
class NonceAllocated(Event):
    """Raised by the dispatching with the signer and nonce of the round's base-ledger transaction."""

    signer: str
    nonce: int


@dataclass(frozen=True, slots=True)
class Submitted(Event):
    """Raised by the submitter on every submission of the round to the chain."""

    submission_count: int


@dataclass(frozen=True, slots=True)
class Confirmed(Event):
    """Raised by our own chain index with the intent's outcome, success or not, in any state."""

    outcome: LedgerOutcome


@dataclass(frozen=True, slots=True)
class ConfirmationUndone(Event):
    """Raised by our own chain index when a reorganisation takes an outcome back."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class RequestTimeoutInterval(Event):
    """Raised by the coordinator when a request that the intent waits on has been sent again."""


@dataclass(frozen=True, slots=True)
class StateTimeout(Event):
    """Raised by a timer when the intent has waited in one state for `state_timeout`."""


@dataclass(frozen=True, slots=True)
class StateTransition(Event):
    """Raised by the transaction itself on every change of state: the new state's timer starts."""


@dataclass(frozen=True, slots=True)
class HeartbeatInterval(Event):
    """Raised by the coordinator with each heartbeat, which reports intents that have ended."""


@dataclass(frozen=True, slots=True)
class ValidityEnded(Event):
    """Raised by the rounds when, in chain time, the current version is no longer valid."""


@dataclass(frozen=True, slots=True)
class Abandoned(Event):
    """Raised by the coordinator when it no longer coordinates the intent: hand-over, or its sender is gone."""
