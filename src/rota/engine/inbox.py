"""The events that wait for the core: the node's own events, and the messages of each peer.

Theory of operation. A peer may send more than the core can step, and all peers share one processor. So each peer has a
queue of its own. The next peer is the one that has used least processor time since it began to wait, not the one that
sent first: a flood delays its author and no other peer. The cost of an event is charged after its step.

The node's own events (users, chain, store, timers) wait in a separate queue, not behind those of peers.

A queue is bounded, in messages and in bytes, and so are all queues together. A message that finds no room is dropped: a
peer that needs an answer repeats its request. The connection events of a peer are in its queue too, behind its earlier
messages, and are never dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.types import NodeName
from rota.node.paging import size_of

# Two of the longest frames.
WAITING_OF_PEER_MAX: Final = 8_192
WAITING_MAX: Final = 65_536
BYTES_OF_PEER_MAX: Final = 16_777_216
BYTES_MAX: Final = 134_217_728
# A peer with this many waiting sends more than the core steps. At most one of its frames is read in half a second.
BEHIND_MIN: Final = 64
# Measuring a message takes half as long as stepping it, so only long queues are measured, and every queue while the
# core steps nothing: then peers are read however much waits.
UNMEASURED_MAX: Final = 1_024
# The size up to which a peer with few waiting messages has room, whatever the others do.
SHORT_BYTES_MAX: Final = 524_288


@dataclass(slots=True)
class _Line:
    """The messages of one peer, each with its size if measured, and its position in processor time used.

    It is `called` when it is in `_next`, or one of its events is being stepped.
    """

    waiting: deque[tuple[Event, int]] = field(default_factory=deque)
    size_bytes: int = 0
    served_until_ns: int = 0
    is_called: bool = False


class Inbox:
    """The inbox of one node. Messages that the node sends to itself, under its own name, are its own events."""

    def __init__(self, name: NodeName) -> None:
        self._name: Final = name
        self.own: Final[deque[Event]] = deque()
        self.dropped_count = 0
        self._lines: Final[dict[NodeName, _Line]] = {}
        # The peers with events waiting, each once, apart from the one whose event is being stepped.
        self._next: Final[list[tuple[int, NodeName]]] = []
        self._count = 0
        self._bytes = 0
        # The highest position of a peer that had a turn: no peer saves up turns by silence.
        self._served_ns = 0

    def __len__(self) -> int:
        return len(self.own) + self._count

    @property
    def of_peers(self) -> int:
        """How many events of peers wait."""
        return self._count

    def is_behind(self, peer: NodeName) -> bool:
        """Whether so many messages of a peer wait that no more of them should be read."""
        line = self._lines.get(peer)
        return line is not None and len(line.waiting) >= BEHIND_MIN

    def put(self, event: Event, *, is_held: bool = False) -> None:
        """Append to the event's queue if there is room. `is_held` means that the core steps nothing now."""
        match event:
            case MessageReceived(peer) if peer != self._name:
                line = self._line_of(peer)
                is_measured = is_held or len(line.waiting) >= UNMEASURED_MAX
                size_bytes = size_of(event.envelope.body) if is_measured else 0
                if self._has_room(line, size_bytes):
                    self._append(peer, line, event, size_bytes)
                else:
                    self.dropped_count += 1
            case ConnectionMade(peer) | ConnectionLost(peer):
                self._append(peer, self._line_of(peer), event, 0)
            case _:
                self.own.append(event)

    def take_of_peer(self) -> tuple[NodeName, Event]:
        """Remove and return the next event of a peer, which the caller charges once it is stepped."""
        served_ns, peer = heappop(self._next)
        line = self._lines[peer]
        event, size_bytes = line.waiting.popleft()
        line.size_bytes -= size_bytes
        self._bytes -= size_bytes
        self._count -= 1
        self._served_ns = max(self._served_ns, served_ns)
        return peer, event

    def charge(self, peer: NodeName, used_ns: int) -> None:
        """Charge the peer for the processor time that its event used."""
        line = self._line_of(peer)
        line.served_until_ns = max(line.served_until_ns, self._served_ns) + used_ns
        line.is_called = bool(line.waiting)
        if line.waiting:
            heappush(self._next, (line.served_until_ns, peer))
        if not self._count:
            self._lines.clear()  # No peer waits, so that no peer has a claim.

    def forget_ticks(self) -> None:
        """Remove the ticks: expired timers are checked when the other events are stepped."""
        others = [event for event in self.own if not isinstance(event, Tick)]
        self.own.clear()
        self.own.extend(others)

    def clear(self) -> None:
        """Remove all events."""
        self.own.clear()
        self._lines.clear()
        self._next.clear()
        self._count = self._bytes = 0

    def _line_of(self, peer: NodeName) -> _Line:
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = _Line()
        return line

    def _has_room(self, line: _Line, size_bytes: int) -> bool:
        if len(line.waiting) >= WAITING_OF_PEER_MAX or line.size_bytes + size_bytes > BYTES_OF_PEER_MAX:
            return False
        # A peer that has few messages waiting has room whatever the others do.
        is_short = len(line.waiting) < BEHIND_MIN and line.size_bytes + size_bytes <= SHORT_BYTES_MAX
        return is_short or (self._count < WAITING_MAX and self._bytes + size_bytes <= BYTES_MAX)

    def _append(self, peer: NodeName, line: _Line, event: Event, size_bytes: int) -> None:
        if not line.is_called:
            line.is_called = True
            line.served_until_ns = max(line.served_until_ns, self._served_ns)
            heappush(self._next, (line.served_until_ns, peer))
        line.waiting.append((event, size_bytes))
        line.size_bytes += size_bytes
        self._bytes += size_bytes
        self._count += 1
