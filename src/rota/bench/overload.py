"""A network that is asked for twice its capacity.

Three nodes in processes of their own on an embedded chain, 2 of 3 endorse, SQLite; independent transactions. Three
phases on one network, so that the machine is the same:

saturated    every node always has some transactions open: as many end as can (closed loop)
overloaded   transactions come at a multiple of that rate, whether or not others have ended (open loop); refused ones
             are not sent again
again        saturated, when the backlog of the overload has ended: how much the machine changed meanwhile

Each phase has a part that is not measured: until the rate is steady, and under overload until nodes push back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rota.bench.processes import processor_s
from rota.bench.workloads import NAMES, Asker, for_seconds, synthetic
from rota.localnet.local import LocalNetwork, Plan

SECONDS_DEFAULT: Final = 60.0
SETTLE_S: Final = 10.0
FACTOR_DEFAULT: Final = 2.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """Transactions a second that were requested, accepted, refused, not answered in time, and ended.

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

    `processor_ratio` is the same for transactions per second of the nodes' processor time, which other work on the
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
class OverloadDriver:
    """Measures a network under load."""

    network: LocalNetwork
    asker: Asker

    async def saturate(self, seconds: float) -> PhaseFigures:
        """Measure with a fixed number of open transactions at each node."""
        return await self._measured(seconds, self.asker.keep_open())

    async def overload(self, seconds: float, per_s: float) -> PhaseFigures:
        """Measure at a fixed total rate."""
        return await self._measured(seconds, self.asker.ask_steadily(per_s))

    async def _measured(self, seconds: float, ask: Coroutine[Any, Any, None]) -> PhaseFigures:
        asking, asker = asyncio.create_task(ask), self.asker
        try:
            await for_seconds(asking, seconds / 3 + min(seconds, SETTLE_S))
            began_s, before, ended_before = time.monotonic(), replace(asker.counts), await asker.ended_count()
            used_s = self._processor_s()
            await for_seconds(asking, seconds)
            passed_s, after, ended = time.monotonic() - began_s, replace(asker.counts), await asker.ended_count()
            used_s = self._processor_s() - used_s
            open_after = await asker.open_count()
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

    async def failovers(self) -> int:
        """The number of fail-overs, by the node that saw most of them."""
        counts = []
        for name in NAMES:
            client = self.network.nodes[name].client
            changes: Any = await client.ask("seq_leaders", self.asker.traffic.contract, is_repeatable=True)
            counts.append(len([each for each in changes if each["kind"] == "fail-over"]))
        return max(counts)

    def _processor_s(self) -> float:
        """The processor time of all nodes since they started."""
        return sum(processor_s(self.network.nodes[name].child.pid) for name in NAMES)


def measure_overload(
    seconds: float = SECONDS_DEFAULT, factor: float = FACTOR_DEFAULT, progress: Progress = lambda _: None
) -> OverloadFigures:
    """Measure throughput at a multiple of saturation and at saturation."""
    with TemporaryDirectory(prefix="rota-overload-") as folder:
        return asyncio.run(_overload(Path(folder) / "network", seconds, factor, progress))


async def _overload(home: Path, seconds: float, factor: float, progress: Progress) -> OverloadFigures:
    async with LocalNetwork(Plan(home=home, names=NAMES)) as network:
        await network.start(*NAMES)
        load = OverloadDriver(network, Asker(network, await synthetic(network)))
        saturated = await load.saturate(seconds)
        progress(f"saturated: {saturated.ended_per_s:,.0f} transactions a second")
        overloaded = await load.overload(seconds, factor * saturated.ended_per_s)
        progress(f"{overloaded.asked_per_s:,.0f} a second asked for: {overloaded.ended_per_s:,.0f} ended")
        drained_s = await load.asker.drain()
        again = await load.saturate(seconds)
        progress(f"saturated again: {again.ended_per_s:,.0f}")
        failovers = await load.failovers()
    ratio = overloaded.ended_per_s / max(saturated.ended_per_s, again.ended_per_s)
    processor_ratio = min(saturated.processor_ms, again.processor_ms) / overloaded.processor_ms
    return OverloadFigures(
        factor, saturated, overloaded, again, ratio, processor_ratio, failovers=failovers, drained_s=drained_s
    )
