"""Startup: a node that was away says that it is here again (protocol §4.4).

After start, swap-in, or a reconnection with nothing in flight, the first activity of the contract that
this node notices makes it tell every other member, until each has acknowledged. It claims no rank; the
others may count on it again. A member whose connection is down is told when it is back.
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
    """Those that have not acknowledged are told again."""


class StartupNotices:
    """Who still has to hear that we are here."""

    def __init__(self, context: Context, observer: Observer, has_intents: Callable[[], bool] = lambda: False) -> None:
        self.context = context
        self.observer = observer
        self.has_intents = has_intents
        self.is_armed = True
        self.startup_id: RequestId | None = None
        self.unacknowledged: dict[NodeName, None] = {}

    def arm(self) -> None:
        """The next activity is to be answered with Startup."""
        self.is_armed = True

    def notice(self, body: Message | None) -> None:
        """Something of the contract was heard; `None` is its transaction on the chain."""
        if self.is_armed and (body is None or isinstance(body, ACTIVITY)):
            self.send()

    def send(self) -> None:
        """Tell every other member."""
        self.is_armed = False
        if not self.observer.has_observation or not self._has_part:
            return
        self.startup_id = self.context.next_id()
        members = self.context.contract.committee
        self.unacknowledged = {node: None for node in members if node != self.context.node}
        self.handle(StartupRepeatDue())

    def handle(self, event: Event) -> None:
        """Tell those that have not acknowledged; nobody is told over a connection that is down."""
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
        """Somebody may wait for us. Of a contract in which we have nothing to do we tell nobody.

        Who deploys a contract names its members, and one that does not exist would be told for ever.
        """
        return self.context.has_part or self.has_intents()

    def repeat_to(self, peer: NodeName) -> None:
        """Its connection is back: it may have missed the notice."""
        if peer in self.unacknowledged:
            self.handle(StartupRepeatDue())

    def acknowledge(self, peer: NodeName, notice: Startup) -> None:
        """Every copy is acknowledged."""
        self.context.send(peer, StartupAcknowledgement(notice.startup_id))

    def take_acknowledgement(self, peer: NodeName, acknowledgement: StartupAcknowledgement) -> None:
        """One less to tell; an acknowledgement of an earlier notice changes nothing."""
        if acknowledgement.startup_id == self.startup_id:
            self.unacknowledged.pop(peer, None)

    def _tell(self, node: NodeName) -> None:
        assert self.startup_id is not None, "a notice has an id"
        self.context.send(node, Startup(self.startup_id))
