"""Events of a sender (protocol §4.3); each names its source."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import NodeName, Party
from rota.wire.messages import CoordinatorHeartbeat, DelegationAccepted, DelegationRejected


@dataclass(frozen=True, slots=True)
class DispatchAnswersDue(Event):
    """Raised by the sender itself: all intents of a permission request have answered."""


@dataclass(frozen=True, slots=True)
class HeartbeatInterval(Event):
    """Raised by our timer when a heartbeat of the delegate, or a lease, is due."""


@dataclass(frozen=True, slots=True)
class HeartbeatReceived(Event):
    """Raised by the sequencer when a coordinator's heartbeat arrives, our own node's included."""

    peer: NodeName
    heartbeat: CoordinatorHeartbeat


@dataclass(frozen=True, slots=True)
class TransactionCreated(Event):
    """Raised by the sender's transactions when one of them is to be delegated."""


@dataclass(frozen=True, slots=True)
class TransactionConfirmed(Event):
    """Raised by the sender's transactions when one of them has ended."""


@dataclass(frozen=True, slots=True)
class BaseLedgerTransactionReverted(Event):
    """Raised by a transaction of ours that the ledger skipped or reverted and that is to be delegated again."""


@dataclass(frozen=True, slots=True)
class NewBlock(Event):
    """Raised by our own chain index when its height has changed."""

    range_changed: bool


@dataclass(frozen=True, slots=True)
class DelegationAnswered(Event):
    """Raised by the sequencer when a delegate accepts a command."""

    peer: NodeName
    incarnation: int
    accepted: DelegationAccepted


@dataclass(frozen=True, slots=True)
class DelegationRefused(Event):
    """Raised by the sequencer when a delegate rejects a command."""

    peer: NodeName
    rejected: DelegationRejected


@dataclass(frozen=True, slots=True)
class DelegationRepeatDue(Event):
    """Raised by our timer when unanswered commands are to be sent again."""


@dataclass(frozen=True, slots=True)
class DelegationTimedOut(Event):
    """Raised by our timer when the delegate has not answered for `delegation_timeout`."""


@dataclass(frozen=True, slots=True)
class RetryDue(Event):
    """Raised by our timer when a rejected delegation, or the whole walk, is to be retried."""


@dataclass(frozen=True, slots=True)
class RangeOverdue(Event):
    """Raised by our timer when our index has not reached a height that a delegate claims within `ledger_grace`."""


@dataclass(frozen=True, slots=True)
class ProgressDue(Event):
    """Raised by our timer when the delegate may have done nothing for us for too long."""


@dataclass(frozen=True, slots=True)
class PeerLost(Event):
    """Raised by the sequencer when the connection to a node is lost."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class PeerHeard(Event):
    """Raised by the sequencer when a node is available again: Startup, a new connection, its ledger is back."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class VerifierRepeatDue(Event):
    """Raised by our timer when a party's node has not answered."""

    party: Party
