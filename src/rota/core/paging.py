"""Which contracts a node has in memory, who of them is awake, and when each is due; one per node.

Theory of operation. A contract of which something is under way is *awake*: it hears of every block and
every connection. The others sleep and cost nothing: what they missed is made up for when something wakes
them. At most `sequencers_max` are in memory. An event for a contract that is not there has it loaded from
the store and waits meanwhile, in a queue of at most `paging_queue_max` events for all; to make room the one
that has slept longest is paged out, a busy one never. When all are busy, the event is turned away: a
message is repeated by its author, a user is told to come back.
"""

from __future__ import annotations

from heapq import heappop, heappush

from rota.config import Config
from rota.core.effects import LoadContract
from rota.core.machine import Event
from rota.core.sequencer import Sequencer
from rota.types import ContractAddress


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

    def add(self, address: ContractAddress, sequencer: Sequencer) -> None:
        """A contract is in memory from now on."""
        self.loaded[address] = sequencer
        self._asleep[address] = None

    def note_step(self, address: ContractAddress, sequencer: Sequencer) -> None:
        """After each step: is it awake, and when is it due?"""
        due_ms = sequencer.next_deadline_ms()
        if sequencer.is_awake:
            self.awake[address] = None
        else:
            self.awake.pop(address, None)
        self._asleep.pop(address, None)
        if due_ms is None:
            self._deadlines.pop(address, None)
            if not sequencer.is_busy:
                self._asleep[address] = None
        elif self._deadlines.get(address) != due_ms:
            self._deadlines[address] = due_ms
            heappush(self._heap, (due_ms, address))

    # Time.

    def next_due_ms(self) -> int | None:
        """When the next of them is due."""
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> ContractAddress | None:
        """One whose time has come; only those are told, so an idle contract costs nothing."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        address = heappop(self._heap)[1]
        del self._deadlines[address]
        return address

    # Paging.

    def await_loading(self, now_ms: int, address: ContractAddress, event: Event) -> LoadContract | None:
        """Keep the event until its contract is there. What to ask of the store, if it is not asked already."""
        assert not self.is_full(address), "what cannot wait is turned away"
        self._loading.setdefault(address, []).append(event)
        self._waiting_count += 1
        return self.load(now_ms, address)

    def load(self, now_ms: int, address: ContractAddress) -> LoadContract | None:
        """Ask the store for a contract, once in `request_timeout`."""
        asked_at_ms = self._asked_at_ms.get(address)
        if asked_at_ms is not None and now_ms - asked_at_ms < self.config.request_timeout_ms:
            return None
        self._asked_at_ms[address] = now_ms
        self._loading.setdefault(address, [])
        return LoadContract(address)

    def is_full(self, address: ContractAddress) -> bool:
        """There is no room for one more waiting event, or none for one more contract."""
        if self._waiting_count >= self.config.paging_queue_max:
            return True
        return address not in self._loading and not self.has_room and not self._asleep

    @property
    def has_room(self) -> bool:
        """A contract can be loaded without paging another out."""
        return len(self.loaded) + len(self._loading) < self.config.sequencers_max

    def take_loaded(self, address: ContractAddress) -> tuple[Event, ...] | None:
        """The store has answered: what waited for the contract, or nothing when nobody asked."""
        self._asked_at_ms.pop(address, None)
        waiting = self._loading.pop(address, None)
        if waiting is None:
            return None
        self._waiting_count -= len(waiting)
        return tuple(waiting)

    def page_out(self) -> tuple[ContractAddress, ...]:
        """Make room: those that have slept longest go; all that they know is in the store."""
        gone: list[ContractAddress] = []
        while len(self.loaded) > self.config.sequencers_max and self._asleep:
            address = next(iter(self._asleep))
            del self._asleep[address], self.loaded[address]
            gone.append(address)
        return tuple(gone)
