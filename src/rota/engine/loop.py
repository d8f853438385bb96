"""The core in an event loop: events in, one step each, effects out; and the time.

Theory of operation. Everything that happens outside reaches the core as an event, from callbacks of this one event
loop. Events wait in an inbox (`inbox.py`) and are stepped in turns: a turn takes the node's own waiting events, up to
`EVENTS_A_TURN_MAX`, then as many of peers, for `PEERS_A_TURN_NS` at most, and then returns to the loop for its socket
work. So messages to one peer in one turn travel in one frame, and writes of one turn share one commit. After each turn
the timer is set to the core's next deadline.

While the store takes no writes (`outbox.py`) the engine takes no turn: events wait. When the store resumes, the events
that have arrived meanwhile are stepped before any timer, so that a peer whose messages waited does not seem silent.

The core's clock is the run time of this process (`clock.py`): it never jumps, and a node that is short of processor
time does not conclude that its ledger is lost or a peer silent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from rota.engine.clock import RunTime
from rota.engine.inbox import Inbox
from rota.engine.outbox import Outbox
from rota.machine.effects import Effect
from rota.machine.events import Tick
from rota.machine.tables import Event
from rota.model.types import NodeName
from rota.node.node import Node

EVENTS_A_TURN_MAX: Final = 256
# Of processor time.
PEERS_A_TURN_NS: Final = 5_000_000

NO_NAME: Final = NodeName("")

Died = Callable[[BaseException], None]


class Engine:
    """Runs one core. On an exception in the core or its effects it stops stepping and calls `died`: that is our bug."""

    def __init__(
        self,
        perform: Callable[[Effect], None],
        died: Died,
        clock: RunTime | None = None,
        name: NodeName = NO_NAME,
        used_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.outbox: Final = Outbox(perform)
        self.clock: Final = clock or RunTime()
        self.steps = 0
        self._died: Final = died
        self._used_ns: Final = used_ns
        self._inbox: Final = Inbox(name)
        self._loop: Final = asyncio.get_running_loop()
        # The core's effects are the node's own work, whichever caller's context an event came from.
        self._context: Final = copy_context()
        self._core: Node | None = None
        self._is_running = False
        self._is_held = False
        # How many events that arrived while the engine was held are stepped before the next timer.
        self._before_timers = 0
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def core(self) -> Node:
        """The core, once started, also when it is stopped; read-only."""
        assert self._core is not None, "an engine is started before it is looked into"
        return self._core

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._inbox)

    def is_behind(self, peer: NodeName) -> bool:
        """Whether many messages of a peer wait while the core steps.

        False while the store stalls and the core steps nothing, so that connections stay up: a peer whose frames were
        not read would get no pongs either, and close the connection. The inbox drops messages that find no room.
        """
        return not self.outbox.is_stalled and self._inbox.is_behind(peer)

    @property
    def dropped(self) -> int:
        """How many messages of peers found no room."""
        return self._inbox.dropped_count

    def start(self, core: Node) -> None:
        """Start the run of this core."""
        assert self._core is None, "an engine runs one life"
        self._core = core
        self._is_running = True
        self.clock.start()
        self.outbox.put(core.start())
        self._take_turn_soon()

    def stop(self) -> None:
        """Take no further step; the next run does the remaining work."""
        self._is_running = False
        self.clock.stop()
        self._inbox.clear()
        for handle in (self._turn, self._timer):
            if handle is not None:
                handle.cancel()

    def tell(self, event: Event) -> None:
        """Put an event into the inbox. Events after the end are ignored."""
        if self._core is not None and not self._is_running:
            return  # The next run learns of it when it starts.
        self._inbox.put(event, is_held=self.outbox.is_stalled)
        self._take_turn_soon()

    def take_written(self, count: int) -> None:
        """Report `count` more of the core's writes as durable; resume if the engine was held for them."""
        self._guarded(lambda: self.outbox.take_written(count))
        if self._is_held and not self.outbox.is_stalled:
            self._is_held = False
            self._inbox.forget_ticks()
            self._before_timers = len(self._inbox)
            self._take_turn_soon()

    def _take_turn_soon(self) -> None:
        if self._turn is None and self._is_running:
            self._turn = self._loop.call_soon(self._take_turn, context=self._context)

    def _take_turn(self) -> None:
        self._turn = None
        if self.outbox.is_stalled:
            self._is_held = True
            return
        self._guarded(self._step_some)
        if self._inbox:
            self._take_turn_soon()
        self._set_timer()

    def _step_some(self) -> None:
        own = self._inbox.own
        for _ in range(min(len(own), EVENTS_A_TURN_MAX)):
            if not self._is_running:
                return
            self._step(own.popleft())
        began_ns = now_ns = self._used_ns()
        for _ in range(min(self._inbox.of_peers, EVENTS_A_TURN_MAX)):
            if not self._is_running or now_ns - began_ns >= PEERS_A_TURN_NS:
                return
            peer, event = self._inbox.take_of_peer()
            self._step(event)
            before_ns, now_ns = now_ns, self._used_ns()
            self._inbox.charge(peer, now_ns - before_ns)

    def _step(self, event: Event) -> None:
        self.steps += 1
        self._before_timers -= self._before_timers > 0
        self.outbox.put(self.core.step(self.clock.now_ms(), event))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.core.next_deadline_ms() if self._is_running and not self._before_timers else None
        if due_ms is not None:
            delay_s = max(0, due_ms - self.clock.now_ms()) / 1_000
            self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._is_held:
            self.tell(Tick())

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do the work; on an exception stop and call `died`, since a partly working node is worse than none."""
        try:
            work()
        except Exception as error:
            self.stop()
            self._died(error)
