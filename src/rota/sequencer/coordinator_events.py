"""Events of a coordinator (protocol §4.1); each names its source."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import NodeName
from rota.wire.messages import CoordinatorHeartbeat, DelegationCommand, Handover, HandoverRequest


@dataclass(frozen=True, slots=True)
class TransactionsDelegated(Event):
    """Raised by the sequencer when a peer, or our own sender, delegates intents to us."""

    peer: NodeName
    height: int
    command: DelegationCommand


@dataclass(frozen=True, slots=True)
class TransactionConfirmed(Event):
    """Raised by our own chain index when an intent of this contract, from any sender, has an outcome."""


@dataclass(frozen=True, slots=True)
class TransactionDispatchConfirmed(Event):
    """Raised by a transaction of ours when its sender's permission has arrived."""


@dataclass(frozen=True, slots=True)
class TransactionStateTransition(Event):
    """Raised by a transaction or the rounds when something changed: more may be possible now."""


@dataclass(frozen=True, slots=True)
class HeartbeatReceived(Event):
    """Raised by the sequencer when another node's coordinator heartbeat arrives."""

    peer: NodeName
    heartbeat: CoordinatorHeartbeat


@dataclass(frozen=True, slots=True)
class NewBlock(Event):
    """Raised by our own chain index when its height has changed."""

    range_changed: bool


@dataclass(frozen=True, slots=True)
class HandoverRequestReceived(Event):
    """Raised by the sequencer when another node asks us to yield."""

    peer: NodeName
    request: HandoverRequest


@dataclass(frozen=True, slots=True)
class HandoverReceived(Event):
    """Raised by the sequencer when a node answers our request with its open flush points."""

    peer: NodeName
    handover: Handover


@dataclass(frozen=True, slots=True)
class HeartbeatInterval(Event):
    """Raised by our timer every heartbeat while we are not Idle."""


@dataclass(frozen=True, slots=True)
class RequestTimeoutInterval(Event):
    """Raised by our timer when the hand-over request is to be repeated."""


@dataclass(frozen=True, slots=True)
class HandoverTimeout(Event):
    """Raised by our timer when the node asked for a hand-over has not answered for `handover_timeout`."""


@dataclass(frozen=True, slots=True)
class FlushTimeout(Event):
    """Raised by our timer when the flush points have had no outcome for `flush_timeout`."""


@dataclass(frozen=True, slots=True)
class PeerLost(Event):
    """Raised by the sequencer when the connection to a node is lost."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class EndorserFollowsAnother(Event):
    """Raised by the rounds when an endorser does not accept us and names the node that it accepts."""

    peer: NodeName
    accepted: NodeName
