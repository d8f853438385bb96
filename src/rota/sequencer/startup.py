"""Startup: a node that was away announces that it is available again (protocol §4.4).

After start, swap-in, or a reconnection with nothing in flight, the first activity of the contract that
this node notices makes it notify every other member, until each has acknowledged. It claims no rank; the
others may count on it again. A member whose connection is down is notified when it is back.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import NodeName, RequestId
from rota.sequencer.context import Context
from rota.sequencer.observer import Observer
from rota.wire.messages import (
    CoordinatorHeartbeat,
    DelegationCommand,
    EndorsementRequest,
    Message,
    Startup,
    StartupAcknowledgement,
)

ACTIVITY = (DelegationCommand, EndorsementRequest, CoordinatorHeartbeat)


@dataclass(frozen=True, slots=True)
class StartupRepeatDue(Event):
    """The notice is to be repeated to members that have not acknowledged it."""


class StartupNotices:
    """The members to notify that this node is available."""

    def __init__(self, context: Context, observer: Observer, has_intents: Callable[[], bool] = lambda: False) -> None:
        self.context = context
        self.observer = observer
        self.has_intents = has_intents
        self.is_armed = True
        self.startup_id: RequestId | None = None
        self.unacknowledged: dict[NodeName, None] = {}

    def arm(self) -> None:
        """Answer the next activity with Startup."""
        self.is_armed = True

    def notice(self, body: Message | None) -> None:
        """Take activity of the contract: a message, or its transaction on the chain (`None`)."""
        if self.is_armed and (body is None or isinstance(body, ACTIVITY)):
            self.send()

    def send(self) -> None:
        """Notify every other member."""
        self.is_armed = False
        if not self.observer.has_observation or not self._has_part:
            return
        self.startup_id = self.context.next_id()
        members = self.context.contract.committee
        self.unacknowledged = {node: None for node in members if node != self.context.node}
        self.handle(StartupRepeatDue())

    def handle(self, event: Event) -> None:
        """Notify connected members that have not acknowledged."""
        if not self._has_part:
            self.unacknowledged.clear()
        reachable = [node for node in self.unacknowledged if self.observer.peer(node).connected]
        for node in reachable:
            self._tell(node)
        if reachable:
            due_ms = self.context.after(self.context.config.request_timeout_ms)
            self.context.timers.set(self, "startup", due_ms, StartupRepeatDue())

    @property
    def _has_part(self) -> bool:
        """Whether another node may wait for this one. If this node has no part in the contract, it notifies none.

        The node that deploys a contract names its members; for a contract that does not exist the notices would never
        end.
        """
        return self.context.has_part or self.has_intents()

    def repeat_to(self, peer: NodeName) -> None:
        """Repeat the notice to a reconnected peer, which may have missed it."""
        if peer in self.unacknowledged:
            self.handle(StartupRepeatDue())

    def acknowledge(self, peer: NodeName, notice: Startup) -> None:
        """Acknowledge every copy."""
        self.context.send(peer, StartupAcknowledgement(notice.startup_id))

    def take_acknowledgement(self, peer: NodeName, acknowledgement: StartupAcknowledgement) -> None:
        """Remove the peer from those to notify; an acknowledgement of an earlier notice has no effect."""
        if acknowledgement.startup_id == self.startup_id:
            self.unacknowledged.pop(peer, None)

    def _tell(self, node: NodeName) -> None:
        assert self.startup_id is not None, "a notice has an id"
        self.context.send(node, Startup(self.startup_id))
