"""What the issuing of prepared transitions is told by the store and by its timers (protocol §4.2)."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import Leaf


@dataclass(frozen=True, slots=True)
class PreparedDurable(Event):
    """A prepared transition is durable: now its sender may be told."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class PreparedNotWritten(Event):
    """A prepared transition was not written."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class PreparedRetryDue(Event):
    """A prepared transition that was not written is to be written again."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class IssueRepeatDue(Event):
    """A prepared transition is to be sent again."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class AcknowledgementDurable(Event):
    """That its sender has a prepared transition is durable: it is no longer sent."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class AcknowledgementNotWritten(Event):
    """An acknowledgement was not written; the sender will be asked for another."""

    leaf: Leaf
