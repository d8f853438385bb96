"""The cost of the live feed by itself: collecting, reporting and encoding the milestones of a steady load.

The difference of a watched and an unwatched network contains all other work of the machine, which is more than the
feed's. So the events and effects of the cores of three nodes in a steady load are recorded first, and then passed to a
feed with a subscriber, at the pace of a busy network: a number of transactions between two updates. Only the feed's
processor time counts, and that of the cheapest run.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import thread_time_ns
from typing import Final

from rota.bench.network import Network, numbered_intent
from rota.machine.effects import Effect
from rota.machine.events import Tick
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Mode, NodeName, Party
from rota.node.events import ForContract
from rota.rpc.formats import encode
from rota.service.explain.methods import shown_update
from rota.service.interface import ContractSummary
from rota.service.watch.feed import NO_PAST, LiveFeed, Looks, Past

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
ADDRESS: Final = ContractAddress("0x" + "b0" * 20)
IN_FLIGHT_MAX: Final = 300
TRANSACTIONS_DEFAULT: Final = 1_500
AN_UPDATE_DEFAULT: Final = 250
INTERVAL_MS: Final = 500
REPEATS: Final = 2


@dataclass(frozen=True, slots=True)
class FeedFigures:
    """The feeds of all three nodes together: their cost of a transaction, and the mean size of an update."""

    transactions: int
    transactions_an_update: int
    us_per_transaction: float
    update_bytes: float


@dataclass(slots=True)
class _Recorded:
    """The events and effects of a core between two updates."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)


class _RecordingNetwork(Network):
    """Records events and effects by node, in parts of a number of receipts."""

    def __init__(self, contract: Contract, a_part: int) -> None:
        self.parts: dict[NodeName, list[_Recorded]] = {name: [_Recorded()] for name in contract.committee}
        self._a_part: Final = a_part
        super().__init__(contract, Config())

    def _tell(self, name: NodeName, event: Event) -> None:
        self.parts[name][-1].events.append(event)
        super()._tell(name, event)

    def _perform(self, name: NodeName, effects: list[Effect]) -> None:
        self.parts[name][-1].effects.extend(effects)
        super()._perform(name, effects)
        if len(self.receipts) >= self._a_part * len(self.parts[name]):
            self.parts[name].append(_Recorded())


def measure_feed(
    transactions: int = TRANSACTIONS_DEFAULT, an_update: int = AN_UPDATE_DEFAULT, interval_ms: int = INTERVAL_MS
) -> FeedFigures:
    """Record a steady load, and pass it to the feeds of all nodes."""
    parts = _recorded(transactions, an_update)
    found = [[asyncio.run(_told(name, parts[name], interval_ms)) for _ in range(REPEATS)] for name in NAMES]
    spent_ns = sum(min(spent_ns for spent_ns, _ in runs) for runs in found)
    sizes = [size for runs in found for size in runs[0][1]]
    return FeedFigures(transactions, an_update, spent_ns / 1_000 / transactions, sum(sizes) / len(sizes))


def _recorded(transactions: int, an_update: int) -> dict[NodeName, list[_Recorded]]:
    network = _RecordingNetwork(Contract(ADDRESS, NAMES, NAMES, threshold=2), an_update)
    submitted = 0
    while len(network.receipts) < transactions:
        while submitted < transactions and submitted - len(network.receipts) < IN_FLIGHT_MAX:
            name = NAMES[submitted % len(NAMES)]
            network.submit(name, numbered_intent(Party(f"alice@{name}"), ADDRESS, b"mint", submitted))
            submitted += 1
        network.run_until_receipts(len(network.receipts) + 1)
    return network.parts


async def _told(name: NodeName, parts: Sequence[_Recorded], interval_ms: int) -> tuple[int, list[int]]:
    """Nanoseconds of processor time, and the sizes of the updates."""
    feed = LiveFeed(name, _looks(name))
    updates = feed.watch(interval_ms)
    sizes: list[int] = []
    await anext(updates)
    gc.collect()
    began_ns = thread_time_ns()
    for part in parts:
        for event in part.events:
            feed.saw_event(event)
        for effect in part.effects:
            feed.saw_effect(effect)
        # Ensures an update even if a part is short.
        feed.saw_event(ForContract(ADDRESS, Tick()))
        sizes.append(len(encode(shown_update(await anext(updates)))))
    return thread_time_ns() - began_ns, sizes


def _looks(name: NodeName) -> Looks:
    summary = ContractSummary(ADDRESS, "synthetic", Mode.RING, is_loaded=True, active_coordinator=name)

    async def past(*_: int) -> Past:
        return NO_PAST

    return Looks(lambda: 1, lambda: 1, lambda: (ADDRESS,), lambda _: summary, lambda *_: "", lambda _: (), tuple, past)
