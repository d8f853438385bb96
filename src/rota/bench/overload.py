"""What a network does when it is asked for twice as much as it can do.

Three nodes in processes of their own on an embedded chain, 2 of 3 endorse, SQLite; transactions that stand on nothing.
Three phases on one network, so that the machine is the same:

saturated    every node always has some transactions open: as many end as can (closed loop)
overloaded   transactions come at a multiple of that rate, whether or not others have ended (open loop); what a node
             refuses is not sent again
again        saturated, when the backlog of the overload has ended: how much the machine changed meanwhile

Each phase has a part that is not measured: until the rate is steady, and under overload until nodes push back.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from rota.client import Overloaded, Unreachable
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import ContractAddress, NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
PARTY: Final = "alice"
SECONDS_DEFAULT: Final = 60.0
SETTLE_S: Final = 10.0
FACTOR_DEFAULT: Final = 2.0
BATCH: Final = 25
# Open transactions of each node while the network is saturated.
OPEN: Final = 400
# Requests that wait for an answer at a time; further ones are not sent.
CALLS_MAX: Final = 64
ENDED: Final = "rota_receipts_confirmed_total"
LOOK_S: Final = 0.1
DRAIN_TIMEOUT_S: Final = 300.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """Transactions a second that were asked for, accepted, refused, not answered in time, and ended.

    `processor_ms` is the processor time of all nodes for each that ended; `open_at_end` had not ended then.
    """

    asked_per_s: float
    accepted_per_s: float
    refused_per_s: float
    unanswered_per_s: float
    ended_per_s: float
    processor_ms: float
    open_at_end: int


@dataclass(frozen=True, slots=True)
class OverloadFigures:
    """`ratio` is the rate under overload to the better one of the two saturated phases.

    `processor_ratio` is the same for transactions in a second of the nodes' processor time, which other work on the
    machine does not change.
    """

    factor: float
    saturated: PhaseFigures
    overloaded: PhaseFigures
    again: PhaseFigures
    ratio: float
    processor_ratio: float
    failovers: int
    drained_s: float


@dataclass(slots=True)
class AskedCounts:
    """Since the beginning."""

    asked: int = 0
    accepted: int = 0
    refused: int = 0
    unanswered: int = 0


@dataclass(slots=True)
class OverloadDriver:
    """Asks the nodes of a network for transactions."""

    network: LocalNetwork
    contract: ContractAddress
    counts: AskedCounts = field(default_factory=AskedCounts)
    calls: set[asyncio.Task[None]] = field(default_factory=set)

    async def saturate(self, seconds: float) -> PhaseFigures:
        """Keep so many open at each node."""
        return await self._measured(seconds, self._keep_open)

    async def overload(self, seconds: float, per_s: float) -> PhaseFigures:
        """Ask for so many a second in all."""
        return await self._measured(seconds, lambda: self._ask_steadily(per_s))

    async def _measured(self, seconds: float, ask: Callable[[], Any]) -> PhaseFigures:
        asking = asyncio.create_task(ask())
        try:
            await _sleep_unless_failed(asking, seconds / 3 + min(seconds, SETTLE_S))
            began_s, before, ended_before = time.monotonic(), replace(self.counts), await self.ended_count()
            used_s = self._processor_s()
            await _sleep_unless_failed(asking, seconds)
            passed_s, after, ended = time.monotonic() - began_s, replace(self.counts), await self.ended_count()
            used_s = self._processor_s() - used_s
            open_after = await self.open_count()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        return PhaseFigures(
            asked_per_s=(after.asked - before.asked) / passed_s,
            accepted_per_s=(after.accepted - before.accepted) / passed_s,
            refused_per_s=(after.refused - before.refused) / passed_s,
            unanswered_per_s=(after.unanswered - before.unanswered) / passed_s,
            ended_per_s=(ended - ended_before) / passed_s,
            processor_ms=1_000 * used_s / max(1, ended - ended_before),
            open_at_end=open_after,
        )

    async def drain(self) -> float:
        """How long it takes until nothing is open."""
        began_s = time.monotonic()
        while self.calls or await self.open_count():
            assert time.monotonic() - began_s < DRAIN_TIMEOUT_S, "transactions do not end; figures mean nothing"
            await asyncio.sleep(LOOK_S)
        return time.monotonic() - began_s

    async def open_count(self) -> int:
        """Transactions that nodes accepted and that have not ended."""
        return sum([await self._open_at(name) for name in NAMES])

    async def failovers(self) -> int:
        """Those that the node saw that saw most of them."""
        counts = []
        for name in NAMES:
            changes: Any = await self.network.nodes[name].client.ask("seq_leaders", self.contract, is_repeatable=True)
            counts.append(len([each for each in changes if each["kind"] == "fail-over"]))
        return max(counts)

    async def ended_count(self) -> int:
        """Transactions that have ended confirmed, by the nodes' own metrics."""
        ended = 0
        async with aiohttp.ClientSession() as session:
            for name in NAMES:
                async with session.get(f"{self.network.nodes[name].addresses['rpc']}/metrics") as answer:
                    lines = (await answer.text()).splitlines()
                ended += sum(int(float(line.split()[1])) for line in lines if line.startswith(f"{ENDED} "))
        return ended

    def _processor_s(self) -> float:
        """Of all nodes since they started."""
        used = 0
        for name in NAMES:
            # The name of the process, which may hold anything, ends with the last bracket.
            fields = Path(f"/proc/{self.network.nodes[name].child.pid}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        return used / os.sysconf("SC_CLK_TCK")

    async def _open_at(self, name: NodeName) -> int:
        while True:
            try:
                status = await self.network.nodes[name].client.status(self.contract)
            except Unreachable:
                await asyncio.sleep(LOOK_S)
                continue
            assert status is not None, "the node has the contract"
            return sum(status.sending.values())

    async def _keep_open(self) -> None:
        while True:
            for name in NAMES:
                for _ in range(max(0, OPEN - await self._open_at(name)) // BATCH):
                    await self._ask(name)
            await asyncio.sleep(LOOK_S)

    async def _ask_steadily(self, per_s: float) -> None:
        began_s, batches = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began_s) * per_s / BATCH)
            for _ in range(due - batches):
                batches += 1
                if len(self.calls) < CALLS_MAX:
                    call = asyncio.create_task(self._ask(NAMES[batches % len(NAMES)]))
                    self.calls.add(call)
                    call.add_done_callback(self.calls.discard)
                else:
                    self.counts.asked += BATCH
                    self.counts.unanswered += BATCH
            await asyncio.sleep(BATCH / per_s)

    async def _ask(self, name: NodeName) -> None:
        self.counts.asked += BATCH
        wanted = [("mint", None)] * BATCH
        try:
            await self.network.nodes[name].client.send_all(self.contract, wanted, sender=PARTY, is_keyed=False)
        except Overloaded:
            self.counts.refused += BATCH
        except Unreachable:
            # Whether they were accepted is not known.
            self.counts.unanswered += BATCH
        else:
            self.counts.accepted += BATCH


def measure_overload(
    seconds: float = SECONDS_DEFAULT, factor: float = FACTOR_DEFAULT, progress: Progress = lambda _: None
) -> OverloadFigures:
    """Throughput at a multiple of saturation against that at saturation."""
    with TemporaryDirectory(prefix="rota-overload-") as folder:
        return asyncio.run(_overload(Path(folder) / "network", seconds, factor, progress))


async def _overload(home: Path, seconds: float, factor: float, progress: Progress) -> OverloadFigures:
    async with LocalNetwork(Plan(home=home, names=NAMES)) as network:
        await network.start(*NAMES)
        members = [f"{PARTY}@{name}" for name in NAMES]
        made = await network.create_contract("synthetic", {"members": members, "threshold": 2})
        load = OverloadDriver(network, made.address)
        saturated = await load.saturate(seconds)
        progress(f"saturated: {saturated.ended_per_s:,.0f} transactions a second")
        overloaded = await load.overload(seconds, factor * saturated.ended_per_s)
        progress(f"{overloaded.asked_per_s:,.0f} a second asked for: {overloaded.ended_per_s:,.0f} ended")
        drained_s = await load.drain()
        again = await load.saturate(seconds)
        progress(f"saturated again: {again.ended_per_s:,.0f}")
        failovers = await load.failovers()
    ratio = overloaded.ended_per_s / max(saturated.ended_per_s, again.ended_per_s)
    processor_ratio = min(saturated.processor_ms, again.processor_ms) / overloaded.processor_ms
    return OverloadFigures(
        factor, saturated, overloaded, again, ratio, processor_ratio, failovers=failovers, drained_s=drained_s
    )


async def _sleep_unless_failed(asking: asyncio.Task[Any], seconds: float) -> None:
    done, _ = await asyncio.wait([asking], timeout=seconds)
    for task in done:
        await task
