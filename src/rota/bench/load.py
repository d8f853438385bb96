"""A network of real nodes under different loads: throughput, cost, and the distribution of the work.

Three nodes in processes of their own on an embedded chain, mutual TLS, durable stores. Each domain has a network of its
own, on which these phases follow one another:

lone        one transaction at a time, each sent when the previous one has its receipt
paused      the same, with a pause before each in which the nodes are idle
moderate    transactions arrive at a fixed rate, one by one (open loop)
saturated   every sender always has some open, as many end as can (closed loop)
overloaded  twice as many arrive as ended under saturation (open loop); refused ones are not sent again

A latency is the time from the request to the receipt that the node pushes to a subscriber. Processor time is the
kernel's figure for each process and its children; the program that sends the requests is not part of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

from rota.bench.processes import processor_s
from rota.bench.workloads import NAMES, PARTY, WORKLOADS, Asker, for_seconds
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.types import NodeName

PHASES: Final = ("lone", "paused", "moderate", "saturated", "overloaded")
SECONDS_DEFAULT: Final = 20.0
PAUSE_S_DEFAULT: Final = 3.0
PER_S_DEFAULT: Final = 20.0
STORE_DEFAULT: Final = "sqlite:rota.db"
FACTOR: Final = 2.0
# The number of transactions in phases that send one at a time.
LONE_COUNT: Final = 40
PAUSED_COUNT: Final = 12
WAIT_S: Final = 120.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadConditions:
    """`seconds` is the length of each steady phase, `per_s` the moderate rate, `pause_s` the pause before a lone one.

    Blocks come every `block_ms`, or with each transaction if that is 0. `{node}` in the store's URL is a node's name.
    """

    seconds: float = SECONDS_DEFAULT
    per_s: float = PER_S_DEFAULT
    pause_s: float = PAUSE_S_DEFAULT
    block_ms: int = 0
    store: str = STORE_DEFAULT


USUAL: Final = LoadConditions()


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """One load. Phases that send many in one request have no latencies; `us` are microseconds of processor time.

    `busiest_us` is for the node that used most, usually the coordinator, `other_us` the mean of the others, `chain_us`
    for the embedded chain, each per transaction that ended. `per_round` and `gas` are per committed transaction.
    """

    ended: int
    per_s: float
    refused: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    busiest_us: float
    other_us: float
    chain_us: float
    nodes_us: float
    per_round: float | None
    gas: float | None


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """The phases of each domain."""

    conditions: LoadConditions
    domains: Mapping[str, Mapping[str, LoadPhase]]


@dataclass(slots=True)
class PhaseRecord:
    """The latencies of a running phase, and its figures when it is over."""

    latencies_s: list[float] = field(default_factory=list)
    found: LoadPhase | None = None

    @property
    def figures(self) -> LoadPhase:
        assert self.found is not None, "the phase is over"
        return self.found


@dataclass(slots=True)
class Arrivals:
    """The arrival times of receipts that nodes push."""

    arrived_s: dict[str, float] = field(default_factory=dict)
    awaited: dict[str, asyncio.Future[float]] = field(default_factory=dict)

    async def follow(self, node: LocalNode) -> None:
        """Record all receipts that this node pushes."""
        async with node.client.receipts(f"load-{time.monotonic_ns()}") as feed:
            async for receipt in feed:
                now_s = self.arrived_s[receipt.id] = time.monotonic()
                waiting = self.awaited.pop(receipt.id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(now_s)

    async def of(self, transaction: str) -> float:
        """Wait for the receipt of a transaction; returns its arrival time."""
        arrived_s = self.arrived_s.get(transaction)
        if arrived_s is not None:
            return arrived_s
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.awaited[transaction] = waiting
        async with asyncio.timeout(WAIT_S):
            return await waiting


@dataclass(slots=True)
class LoadedNetwork:
    """One network under a sequence of loads."""

    network: LocalNetwork
    asker: Asker
    conditions: LoadConditions

    async def play(self, phase: str, found: Mapping[str, LoadPhase]) -> LoadPhase:
        """Run one phase; `found` has the figures of the previous ones."""
        match phase:
            case "lone":
                return await self._lone(LONE_COUNT)
            case "paused":
                return await self._lone(PAUSED_COUNT, self.conditions.pause_s)
            case "moderate":
                return await self._moderate()
            case "saturated":
                return await self._steady(self.asker.keep_open())
            case _:
                peak = found.get("saturated") or await self._steady(self.asker.keep_open())
                return await self._steady(self.asker.ask_steadily(FACTOR * peak.per_s))

    async def _lone(self, amount: int, pause_s: float = 0.0) -> LoadPhase:
        """Send each transaction when the previous one has ended and a pause has passed; senders take turns."""
        senders = cycle(self.asker.traffic.senders)
        async with self._subscribed() as arrivals, self._measured(drains=True) as collected:
            for _ in range(amount):
                await asyncio.sleep(pause_s)
                collected.latencies_s.append(await self._timed(next(senders), arrivals))
        return collected.figures

    async def _moderate(self) -> LoadPhase:
        """Send transactions at a fixed rate, whether or not others have ended."""
        per_s, senders = self.conditions.per_s, cycle(self.asker.traffic.senders)
        sent: list[asyncio.Task[float]] = []
        async with self._subscribed() as arrivals, self._measured(drains=True) as collected:
            began_s = time.monotonic()
            for number in range(int(self.conditions.seconds * per_s)):
                await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
                sent.append(asyncio.create_task(self._timed(next(senders), arrivals)))
            collected.latencies_s += await asyncio.gather(*sent)
        return collected.figures

    async def _timed(self, name: NodeName, arrivals: Arrivals) -> float:
        began_s = time.monotonic()
        function, arguments = self.asker.next_call(name)
        client = self.network.nodes[name].client
        sent = await client.send(self.asker.traffic.contract, function, arguments, sender=PARTY)
        sent.detach()
        return await arrivals.of(sent.id) - began_s

    async def _steady(self, asking: Coroutine[Any, Any, None]) -> LoadPhase:
        """Measure after a warm-up of a third of the time."""
        task, seconds = asyncio.create_task(asking), self.conditions.seconds
        try:
            await for_seconds(task, seconds / 3)
            async with self._measured() as collected:
                await for_seconds(task, seconds)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.asker.drain()
        return collected.figures

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[Arrivals]:
        arrivals, senders = Arrivals(), self.asker.traffic.senders
        followers = [asyncio.create_task(arrivals.follow(self.network.nodes[name])) for name in senders]
        try:
            # The first transaction waits for the subscription, and is not measured.
            for name in senders:
                await self._timed(name, arrivals)
            yield arrivals
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    @asynccontextmanager
    async def _measured(self, drains: bool = False) -> AsyncIterator[PhaseRecord]:
        """Measure the time within the context; `drains` waits for transactions that are still open."""
        collected, asker = PhaseRecord(), self.asker
        book = ChainBook(self.network.ledger, self.network.chain_id, (asker.traffic.contract,))
        await book.read_on()
        earlier, refused, used_s = set(book.transactions), self._refused, self._used_s()
        ended, began_s = await asker.ended_count(), time.monotonic()
        yield collected
        if drains:
            await asker.drain()
        ended, seconds = await asker.ended_count() - ended, time.monotonic() - began_s
        used_us = {name: 1e6 * (now_s - used_s[name]) / max(1, ended) for name, now_s in self._used_s().items()}
        await book.read_on()
        await book.read_gas()
        rounds = {key: amount for key, amount in book.transactions.items() if key not in earlier}
        committed = sum(rounds.values())
        by_node = sorted((used_us[name] for name in NAMES), reverse=True)
        p50, p95, p99 = _percentiles_ms(collected.latencies_s)
        collected.found = LoadPhase(
            ended=ended,
            per_s=ended / seconds,
            refused=self._refused - refused,
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
            busiest_us=by_node[0],
            other_us=sum(by_node[1:]) / (len(NAMES) - 1),
            chain_us=sum(us for name, us in used_us.items() if name not in NAMES),
            nodes_us=sum(by_node),
            per_round=committed / len(rounds) if committed else None,
            gas=sum(book.gas[found] for found, _ in rounds) / committed if committed else None,
        )

    @property
    def _refused(self) -> int:
        return self.asker.counts.refused + self.asker.counts.unanswered

    def _used_s(self) -> dict[str, float]:
        return {name: processor_s(pid) for name, pid in self.network.pids.items()}


def measure_load(
    domains: Sequence[str] = tuple(WORKLOADS),
    phases: Sequence[str] = PHASES,
    conditions: LoadConditions = USUAL,
    progress: Progress = lambda _: None,
) -> NetworkFigures:
    """Run the phases of each domain, in the order of `PHASES`."""
    found: dict[str, Mapping[str, LoadPhase]] = {}
    for domain in domains:
        with TemporaryDirectory(prefix="rota-load-") as folder:
            home = Path(folder) / "network"
            plan = Plan(home=home, names=NAMES, store_of=lambda name: conditions.store.format(node=name))
            found[domain] = asyncio.run(_phases(plan, domain, phases, conditions, progress))
    return NetworkFigures(conditions, found)


async def _phases(
    plan: Plan, domain: str, phases: Sequence[str], conditions: LoadConditions, progress: Progress
) -> dict[str, LoadPhase]:
    found: dict[str, LoadPhase] = {}
    async with LocalNetwork(plan) as network:
        await network.start(*NAMES)
        load = LoadedNetwork(network, Asker(network, await WORKLOADS[domain](network)), conditions)
        if conditions.block_ms:
            await network.ledger.call("evm_setAutomine", False)
            await network.ledger.call("rota_setIntervalMining", conditions.block_ms)
        for phase in (each for each in PHASES if each in phases):
            found[phase] = await load.play(phase, found)
            progress(f"{domain}, {phase}: {found[phase].per_s:,.1f} transactions a second")
    return found


def _percentiles_ms(latencies_s: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if len(latencies_s) <= 1:
        return None, None, None
    cuts = quantiles(latencies_s, n=100, method="inclusive")
    return 1_000 * cuts[49], 1_000 * cuts[94], 1_000 * cuts[98]
