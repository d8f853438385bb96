"""The contracts that a node has in memory, those with work, and their deadlines; one per node.

Theory of operation. A contract with work under way is *awake*: it gets every block and
every change of connection. The others sleep and cost nothing: they catch up when an event wakes
them. An event for a contract that is not in memory has it loaded from the store and waits meanwhile, in a
queue of at most `paging_queue_max` events for all. Half of it is for users alone, and each peer has a small part of the
rest, in events and in bytes (`paging_bytes_max`): a peer can name contracts that do not exist. A question that the
store did not answer is forgotten.

Of more than `sequencers_max` those that have slept longest are paged out; never a busy one, nor one that reported
to its peers that it has no ledger and has to report when it is back. When all are busy, users get a temporary refusal.
A peer's message is taken all the same, because its author may be busy with the same work: two nodes that refuse each
other would wait forever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.types import ContractAddress, NodeName
from rota.node.effects import LoadContract
from rota.sequencer.sequencer import Sequencer

# One peer may use this fraction of the queue of waiting events.
PEER_PART: Final = 16
# A load without answer after so many time-outs is lost.
LOST_TIMEOUTS: Final = 10
VALUE_BYTES: Final = 32


class Sequencers:
    """The sequencers of one node, by contract."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.loaded: dict[ContractAddress, Sequencer] = {}
        self.awake: dict[ContractAddress, None] = {}
        self._asleep: dict[ContractAddress, None] = {}
        self._deadlines: dict[ContractAddress, int] = {}
        self._heap: list[tuple[int, ContractAddress]] = []
        self._loading: dict[ContractAddress, list[Event]] = {}
        self._asked_at_ms: dict[ContractAddress, int] = {}
        self._waiting_count = 0
        self._waiting_of: Counter[NodeName] = Counter()
        self._bytes_of: Counter[NodeName] = Counter()

    def add(self, address: ContractAddress, sequencer: Sequencer) -> None:
        """Add a contract to memory. One with work may not get events for a while."""
        self.loaded[address] = sequencer
        if not sequencer.is_busy:
            self._asleep[address] = None

    def note_step(self, address: ContractAddress, sequencer: Sequencer) -> None:
        """Update after each step whether it is awake, and when it is due."""
        due_ms = sequencer.context.timers.next_due_ms
        if sequencer.is_awake:
            self.awake[address] = None
        else:
            self.awake.pop(address, None)
        self._asleep.pop(address, None)
        if due_ms is None:
            self._deadlines.pop(address, None)
            if not sequencer.is_busy and sequencer.context.has_ledger:
                self._asleep[address] = None
        elif self._deadlines.get(address) != due_ms:
            self._deadlines[address] = due_ms
            heappush(self._heap, (due_ms, address))

    # Time.

    def next_due_ms(self) -> int | None:
        """Return when the next of them is due."""
        heap = self._heap
        while heap and self._deadlines.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int) -> ContractAddress | None:
        """Return a contract that is due, else None; only those are stepped, so that an idle contract costs nothing."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        address = heappop(self._heap)[1]
        del self._deadlines[address]
        return address

    # Paging.

    def await_loading(self, now_ms: int, address: ContractAddress, event: Event) -> LoadContract | None:
        """Queue the event until its contract is loaded; return the question to the store, unless it is open."""
        assert not self.is_full, "what cannot wait is turned away"
        self._loading.setdefault(address, []).append(event)
        self._count(event, 1)
        return self.load(now_ms, address)

    def may_wait(self, now_ms: int, event: Event) -> bool:
        """Whether there is room for one more waiting event, of a user or of this peer."""
        if not isinstance(event, MessageReceived) or self._has_room_for(event):
            return not self.is_full
        self._forget_lost(now_ms)
        return self._has_room_for(event)

    def _has_room_for(self, event: MessageReceived) -> bool:
        """Whether a peer's message is within its part of the queue; a first one may have any size."""
        most, most_bytes = self.config.paging_queue_max, self.config.paging_bytes_max
        count, size = self._waiting_of[event.peer], size_of(event.envelope.body)
        is_within_part = count < max(1, most // PEER_PART) and self._waiting_of.total() < max(1, most // 2)
        has_bytes = not count or self._bytes_of[event.peer] + size <= most_bytes // PEER_PART
        is_first = not self._waiting_of
        return is_within_part and has_bytes and (is_first or self._bytes_of.total() + size <= most_bytes)

    def _forget_lost(self, now_ms: int) -> None:
        """Forget loads without an answer, if only messages wait for them; peers repeat those."""
        since_ms = now_ms - LOST_TIMEOUTS * self.config.request_timeout_ms
        for address in [address for address, asked_at_ms in self._asked_at_ms.items() if asked_at_ms < since_ms]:
            if all(isinstance(event, MessageReceived) for event in self._loading[address]):
                self.take_loaded(address)

    def _count(self, event: Event, change: int) -> None:
        self._waiting_count += change
        if isinstance(event, MessageReceived):
            self._waiting_of[event.peer] += change
            self._bytes_of[event.peer] += change * size_of(event.envelope.body)
            if not self._waiting_of[event.peer]:
                del self._waiting_of[event.peer], self._bytes_of[event.peer]

    def load(self, now_ms: int, address: ContractAddress) -> LoadContract | None:
        """Ask the store for a contract, once in `request_timeout`."""
        asked_at_ms = self._asked_at_ms.get(address)
        if asked_at_ms is not None and now_ms - asked_at_ms < self.config.request_timeout_ms:
            return None
        self._asked_at_ms[address] = now_ms
        self._loading.setdefault(address, [])
        return LoadContract(address)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more waiting event."""
        return self._waiting_count >= self.config.paging_queue_max

    def is_overloaded(self, address: ContractAddress) -> bool:
        """Whether there is no room for one more contract, even if all idle ones are paged out."""
        kept = len(self.loaded) + len(self._loading) - len(self._asleep)
        return address not in self._loading and kept >= self.config.sequencers_max

    @property
    def has_room(self) -> bool:
        """Whether a contract can be loaded without paging another out."""
        return len(self.loaded) + len(self._loading) < self.config.sequencers_max

    def take_loaded(self, address: ContractAddress) -> tuple[Event, ...]:
        """Return the events that waited for the contract that the store has answered about."""
        self._asked_at_ms.pop(address, None)
        waiting = self._loading.pop(address, [])
        for event in waiting:
            self._count(event, -1)
        return tuple(waiting)

    def make_room(self, count: int) -> None:
        """Page out the longest idle contracts to make room for so many more; the store has all their data."""
        while len(self.loaded) + count > self.config.sequencers_max and self._asleep:
            address = next(iter(self._asleep))
            del self._asleep[address], self.loaded[address]


def size_of(value: object) -> int:
    """Return roughly the memory of a message: its bytes and characters, and a few bytes for each value."""
    if isinstance(value, bytes | str):
        return VALUE_BYTES + len(value)
    if isinstance(value, tuple):
        return VALUE_BYTES + sum(map(size_of, value))
    slots: Iterable[str] = getattr(value, "__slots__", ())
    return VALUE_BYTES + sum(size_of(getattr(value, name)) for name in slots)
