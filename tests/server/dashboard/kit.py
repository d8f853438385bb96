"""A node that tells what a script says, for what a real network does not do on demand; and the way to its page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry

from rota.model.types import ContractAddress, IntentId, Mode, NodeName
from rota.rpc.credentials import Credential
from rota.server.dashboard import add_pages
from rota.server.entrance import Entrance
from rota.server.settings import Bind, Settings
from rota.service.interface import (
    ContractSummary,
    FeedUpdate,
    Heartbeats,
    MilestoneCount,
    PeerMeasurements,
    RoundChange,
    Spread,
    Step,
    TransactionChange,
    TriggerRun,
    TriggerView,
)
from rota.service.operations.self_view import DatabaseView, SettingView
from tests.server.memory_node import BEGAN_MS, CONTRACT, MemoryNode

PEERS: Final = tuple(NodeName(f"node{number}") for number in range(2, 5))
MILESTONES: Final = ("accepted", "delegated", "assembled", "endorsed", "permitted", "dispatched", "confirmed")


class ScriptedItself:
    """`service.operations.self_view.Itself`."""

    version = "1.2.3"
    started_at_ms = BEGAN_MS

    def memory_bytes(self) -> int:
        return 123 * 1024 * 1024

    def database(self) -> DatabaseView:
        return DatabaseView("SQLite", "rota.db", 5 * 1024 * 1024)

    def settings(self) -> tuple[SettingView, ...]:
        return (
            SettingView("rpc.port", "31548", is_default=True),
            SettingView("ledger.url", "https://ledger.example/…"),
        )


@dataclass
class ScriptedTriggers:
    """`service.interface.Triggers` with one that can be paused."""

    paused: bool = False
    runs: int = 0

    def list(self) -> tuple[TriggerView, ...]:
        spread = Spread((1.0,), (0, 0), 0.0)
        return (
            TriggerView(
                "advance-epochs", "random", "rank", self.paused, True, 3, 2, 1, 7, 5, 3, 1, "closed", 0, 5_000, 30_000,
                4, 100, spread, spread,
            ),
        )  # fmt: skip

    async def pause(self, name: str) -> None:
        self.paused = True

    async def resume(self, name: str) -> None:
        self.paused = False

    async def run_once(self, name: str) -> TriggerRun:
        self.runs += 1
        return TriggerRun(1, 0, 0, 0)


@dataclass(slots=True)
class ScriptedNode(MemoryNode):
    """Pushes the updates that it is given to every subscriber; a page that connects again gets the earlier ones too."""

    followers: list[asyncio.Queue[FeedUpdate]] = field(default_factory=list)
    pushed: list[FeedUpdate] = field(default_factory=list)
    summaries: tuple[ContractSummary, ...] = ()

    def __post_init__(self) -> None:
        MemoryNode.__post_init__(self)
        self.itself, self.triggers = ScriptedItself(), ScriptedTriggers()
        self.known = tuple(each.contract for each in self.summaries) or (CONTRACT,)

    async def watch(self, interval_ms: int, opened: Container[IntentId] = ()) -> AsyncIterator[FeedUpdate]:
        queue: asyncio.Queue[FeedUpdate] = asyncio.Queue()
        for update in self.pushed:
            queue.put_nowait(update)
        self.followers.append(queue)
        self.opened = opened
        try:
            peers = tuple(PeerMeasurements(peer, True, 0, 0) for peer in PEERS)
            yield FeedUpdate(1, BEGAN_MS, 250, is_snapshot=True, contracts=self.summaries, peers=peers)
            while True:
                yield await queue.get()
        finally:
            self.followers.remove(queue)

    def tell(self, update: FeedUpdate) -> None:
        """To every subscriber."""
        self.pushed.append(update)
        for queue in self.followers:
            queue.put_nowait(update)


def summaries(count: int) -> tuple[ContractSummary, ...]:
    """So many contracts, led by turns."""
    return tuple(
        ContractSummary(
            address(number), "noto", Mode.RING, True, "Observing", "Sending", PEERS[number % len(PEERS)], 1, 0
        )
        for number in range(count)
    )


def address(number: int) -> ContractAddress:
    """The address of a contract by its number."""
    return ContractAddress(f"0x{number + 1:040x}")


def updates(transactions: int, contracts: int, an_update: int) -> Iterable[FeedUpdate]:
    """All milestones of so many transactions, as fast as a node would tell of them, on so many contracts."""
    number = 1
    for first in range(0, transactions, an_update):
        for place, milestone in enumerate(MILESTONES):
            number += 1
            at_ms = BEGAN_MS + number * 100
            changes = tuple(
                TransactionChange(
                    IntentId(each.to_bytes(16, "big")),
                    at_ms,
                    address(each % contracts),
                    milestone,
                    "Dispatched" if place < len(MILESTONES) - 1 else "Confirmed",
                    PEERS[each % len(PEERS)],
                    steps=(Step(milestone, at_ms, PEERS[each % len(PEERS)]), Step(milestone, at_ms)),
                )
                for each in range(first, min(first + an_update, transactions))
            )
            moved = tuple(
                ContractSummary(
                    address((first + each) % contracts), "noto", Mode.RING, True, "Observing", "Sending",
                    PEERS[(number + each) % len(PEERS)], number, each,
                )
                for each in range(min(an_update, contracts))
            )  # fmt: skip
            rounds = tuple(
                RoundChange(number * 8 + each, "dispatched", address(each), transaction_count=64, at_ms=at_ms)
                for each in range(8)
            )
            yield FeedUpdate(
                number,
                at_ms,
                250 + number,
                contracts=moved,
                transactions=changes,
                rounds=rounds,
                counts=(MilestoneCount(milestone, len(changes)),),
                heartbeats=tuple(Heartbeats(each.contract, PEERS[0], 1) for each in moved),
            )


@asynccontextmanager
async def served_dashboard(
    node: MemoryNode, credentials: tuple[Credential, ...] = (), port: int = 0
) -> AsyncIterator[Entrance]:
    """The node with its dashboard, at a port that the kernel chose or at one of before."""
    settings = Settings(http=Bind(port=port), websocket=None, credentials=credentials)
    entrance = Entrance(node, settings, CollectorRegistry(), add_pages=add_pages)
    await entrance.start()
    try:
        yield entrance
    finally:
        await entrance.stop()
