"""Effects and records of the exchange of private states."""

from __future__ import annotations

from rota.machine.effects import Effect, Record
from rota.model.consistency import Consistent
from rota.model.frozen import dataclass
from rota.model.types import Digest, NodeName


@dataclass(frozen=True, slots=True)
class RecallDeliveries(Effect):
    """Read from the store the first deliveries that a peer has not acknowledged, as many as fit, at least one."""

    peer: NodeName
    number: int
    count_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class StatesReceived(Record):
    """State received: recorded before the acknowledgement leaves. Without a peer, our own endorser has seen it."""

    digest: Digest
    transitions: tuple[Consistent, ...]
    part: int = 0
    peer: NodeName | None = None


@dataclass(frozen=True, slots=True)
class StatesAcknowledged(Record):
    """Acknowledged: the receiver has these states, and they are not sent to it again."""

    digest: Digest
    peer: NodeName
    part: int = 0
