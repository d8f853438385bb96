"""How long a contract is unavailable when its coordinator is killed, hangs or is cut off: real processes, real time.

Five nodes in processes of their own, three of whose endorsements are needed, default timers, and a chain that mines at
once. Each node is on a host of its own where the machine allows it (`localnet.namespaces`); else there is no cut. Users
of all nodes submit in turn, 10 times a second, and those of the other nodes continue after the fault. Measured is the
time from the fault to the first receipt of a transaction submitted after it. Faults happen at random moments; then the
node comes back and the network settles before the next one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rota.client import ContractStatus, Unreachable
from rota.ledger.bindings import outcomes_of
from rota.ledger.hexadecimal import quantity, read_quantity
from rota.ledger.reading import read_logs
from rota.localnet import namespaces
from rota.localnet.chains import CHAIN_ID
from rota.localnet.local import LocalNetwork, Plan
from rota.localnet.workload import Workload
from rota.model.types import ContractAddress, NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 6))
THRESHOLD: Final = 3
PARTY: Final = "alice"
ASKING_MS: Final = 100
RUNS_DEFAULT: Final = 20
LOOK_S: Final = 0.005
SETTLE_LOOK_S: Final = 0.1
SETTLE_LOOKS: Final = 5
SETTLE_TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 60.0
# A fault comes within this time after the network has settled, at varying moments of a heartbeat.
PHASE_S: Final = (0.5, 1.5)


class Fault(Enum):
    """The faults of the active coordinator: `kill -9`, SIGSTOP, or no connection to the other nodes."""

    KILL = "kill"
    HANG = "hang"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """The percentiles of a number of runs: half took no longer than p50, 95 % no longer than p95."""

    runs: int
    p50_ms: int
    p95_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why a fault is not available on this machine."""

    error: str


def measure_failover(
    runs: int = RUNS_DEFAULT,
    faults: tuple[Fault, ...] = tuple(Fault),
    progress: Callable[[str], None] = lambda _: None,
    seed: int = 0,
) -> dict[str, FaultFigures | NotMeasured]:
    """Measure each fault `runs` times. `progress` gets a line for every run."""
    with TemporaryDirectory(prefix="rota-failover-") as folder:
        return asyncio.run(_measure(Path(folder) / "network", runs, faults, progress, random.Random(seed)))


async def _measure(
    home: Path, runs: int, faults: tuple[Fault, ...], progress: Callable[[str], None], chance: random.Random
) -> dict[str, FaultFigures | NotMeasured]:
    missing = namespaces.missing()
    plan = Plan(home=home, names=NAMES, is_apart=not missing)
    figures: dict[str, FaultFigures | NotMeasured] = {}
    async with LocalNetwork(plan) as network:
        await network.start(*NAMES)
        progress(f"processes {network.pids}")
        members = [f"{PARTY}@{name}" for name in NAMES]
        made = await network.create_contract("synthetic", {"members": members, "threshold": THRESHOLD})
        async with Workload(network, made.address, PARTY, ASKING_MS) as workload:
            trial = _Trial(network, made.address, workload, chance)
            for fault in faults:
                if fault is Fault.CUT and missing:
                    figures[fault.value] = NotMeasured(missing)
                    continue
                times_ms = []
                for run in range(1, runs + 1):
                    times_ms.append(await trial.run(fault))
                    progress(f"{fault.value} {run} of {runs}: {times_ms[-1]} ms")
                figures[fault.value] = figures_of(times_ms)
    return figures


def figures_of(times_ms: list[int]) -> FaultFigures:
    """The percentiles of some times."""
    ordered = sorted(times_ms)
    count = len(ordered)
    return FaultFigures(count, ordered[-(-count * 50 // 100) - 1], ordered[-(-count * 95 // 100) - 1], ordered[-1])


@dataclass(frozen=True, slots=True)
class _Trial:
    """One network, to which faults happen repeatedly."""

    network: LocalNetwork
    contract: ContractAddress
    workload: Workload
    chance: random.Random

    async def run(self, fault: Fault) -> int:
        """Milliseconds from the fault to the first receipt of a transaction submitted after it."""
        victim = await self._settled()
        await asyncio.sleep(self.chance.uniform(*PHASE_S))
        height = read_quantity(await self.network.ledger.call("eth_blockNumber"))
        self.workload.absent.add(victim)
        fault_s = time.monotonic()
        await self._hurt(fault, victim)
        async with asyncio.timeout(PATIENCE_S):
            await self._confirmed(fault_s, height + 1)
        stood_ms = int((time.monotonic() - fault_s) * 1_000)
        await self._heal(fault, victim)
        self.workload.absent.discard(victim)
        return stood_ms

    async def _confirmed(self, fault_s: float, height: int) -> None:
        """Return at the first receipt. The chain shows which receipts to request, so requests cost the nodes little."""
        ledger, workload = self.network.ledger, self.workload
        found: set[bytes] = set()
        while True:
            head = read_quantity(await ledger.call("eth_blockNumber"))
            if head >= height:
                wanted = {"address": self.contract, "fromBlock": quantity(height), "toBlock": quantity(head)}
                told = outcomes_of(read_logs(await ledger.call("eth_getLogs", wanted)), CHAIN_ID)
                found |= {outcome.intent for _, outcome in told.outcomes}
                height = head + 1
            later = [each for each, promise in workload.promises.items() if promise.asked_s >= fault_s]
            mined = [intent for intent in later if intent in found]
            await workload.look(mined)
            if any(intent in workload.receipts and workload.receipts[intent].success for intent in mined):
                return
            await asyncio.sleep(LOOK_S)

    async def _hurt(self, fault: Fault, name: NodeName) -> None:
        match fault:
            case Fault.KILL:
                await self.network.nodes[name].kill()
            case Fault.HANG:
                self.network.nodes[name].hang()
            case Fault.CUT:
                for sender, receiver in _ways(name):
                    _hosts(self.network).cut_way(sender, receiver)

    async def _heal(self, fault: Fault, name: NodeName) -> None:
        match fault:
            case Fault.KILL:
                await self.network.start(name)
            case Fault.HANG:
                self.network.nodes[name].wake()
            case Fault.CUT:
                for sender, receiver in _ways(name):
                    _hosts(self.network).mend_way(sender, receiver)

    async def _settled(self) -> NodeName:
        """Wait until one node coordinates, all follow it, it misses no node, and nothing is open; returns that node."""
        async with asyncio.timeout(SETTLE_TIMEOUT_S):
            agreed, looks = "", 0
            while looks < SETTLE_LOOKS:
                await asyncio.sleep(SETTLE_LOOK_S)
                await self.workload.look()
                active = _agreed(await self._statuses())
                looks = looks + 1 if active and active == agreed else 0
                agreed = active
        return NodeName(agreed)

    async def _statuses(self) -> dict[NodeName, ContractStatus | None]:
        async def ask(name: NodeName) -> ContractStatus | None:
            try:
                return await self.network.nodes[name].client.status(self.contract)
            except Unreachable:
                return None

        return dict(zip(NAMES, await asyncio.gather(*map(ask, NAMES)), strict=True))


def _agreed(statuses: dict[NodeName, ContractStatus | None]) -> str:
    """The coordinator that all nodes follow, if it misses no node; else empty.

    Other nodes receive only the coordinator's messages, so they may still report members as silent that are long back.
    """
    followed = {status.active_coordinator if status is not None else None for status in statuses.values()}
    coordinator = followed.pop() if len(followed) == 1 else None
    own = statuses[NodeName(coordinator)] if coordinator is not None else None
    return own.active_coordinator or "" if own is not None and not own.silent else ""


def _ways(name: NodeName) -> list[tuple[NodeName, NodeName]]:
    return [way for other in NAMES if other != name for way in ((name, other), (other, name))]


def _hosts(network: LocalNetwork) -> namespaces.Namespaces:
    assert network.hosts is not None, "nodes are cut off where they have hosts of their own"
    return network.hosts
