"""What the slots and rounds of a coordinator are told by their timers (protocol §7)."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import Digest, IntentId, RequestId


@dataclass(frozen=True, slots=True)
class SlotRepeatDue(Event):
    """The slot's request is to be sent again."""


@dataclass(frozen=True, slots=True)
class SlotTimedOut(Event):
    """The slot's sender has not answered within `assemble_timeout`."""


@dataclass(frozen=True, slots=True)
class RoundRepeatDue(Event):
    """The endorsers that a round misses are to be asked again."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class GatheringEnded(Event):
    """What awaits a round has waited for company long enough."""


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
    """A dispatch whose write failed is to be tried again."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class LookAgain(Event):
    """A backoff has ended: somebody may be selected now."""


@dataclass(frozen=True, slots=True)
class VerificationOverdue(Event):
    """The signatures of these transitions were not verified in time."""

    request_id: RequestId
