"""The parts of a sender that an intent uses (`sender_base.py`)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rota.machine.pacing import Pacing
from rota.model.types import Dependency, HeartbeatNumber, IntentId, NodeName, RequestId
from rota.sequencer.assembly import Assembly
from rota.sequencer.context import Context
from rota.sequencer.coordinator_base import CoordinatorBase
from rota.sequencer.observer import Observer
from rota.sequencer.parties import Parties
from rota.sequencer.sent_intent import SentIntent
from rota.wire.messages import ErrorCode

Sent_contra = TypeVar("Sent_contra", bound=SentIntent, contravariant=True)


class OwningSender(Protocol[Sent_contra]):
    """The sender that an intent belongs to."""

    context: Context
    observer: Observer
    coordinator: CoordinatorBase
    pacing: Pacing
    assembly: Assembly
    parties: Parties
    final_time_s: int
    latest_chain_time_s: int
    rests_until_ms: int

    def look_for_work(self) -> None:
        """Check for intents to delegate."""
        ...

    def shows_states_of(self, dependency: Dependency) -> bool:
        """Whether the coordinator shows its states to a dependent of it."""
        ...

    def may_have_verified(self, peer: NodeName, intent: IntentId, what: str) -> bool:
        """Whether this peer may have us verify signatures about an intent now."""
        ...

    def permit_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId) -> None:
        """Permit one intent of a request."""
        ...

    def refuse_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId, code: ErrorCode) -> None:
        """Refuse one intent of a request."""
        ...

    def latest_number_of(self, node: NodeName | None) -> HeartbeatNumber:
        """Return the number of a node's latest heartbeat."""
        ...

    def note_unused(self) -> None:
        """Note that states may have been reserved for an external intent in vain."""
        ...

    def ledger_reverted(self) -> None:
        """An intent continues after a failure on the ledger."""
        ...

    def transaction_changed(self, transaction: Sent_contra) -> None:
        """Note its new state."""
        ...

    def transaction_came_further(self, transaction: Sent_contra, stage: int) -> None:
        """Its delegate requests assembly or permission."""
        ...

    def transaction_ended(self, transaction: Sent_contra) -> None:
        """Note that an intent has ended."""
        ...

    def forget(self, transaction: Sent_contra) -> None:
        """Remove a reported intent from memory."""
        ...
