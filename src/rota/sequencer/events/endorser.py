"""What an endorser is told by the store, and by its timer (protocol §5)."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import NodeName, RequestId


@dataclass(frozen=True, slots=True)
class EndorsementDurable(Event):
    """What is kept for the prepared transitions of a round is durable: now its signature may leave."""

    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class EndorsementNotWritten(Event):
    """What is to be kept for the prepared transitions of a round was not written."""

    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class StatesOverdue(Event):
    """What it has signed is on the chain, and nobody has sent it the states."""
