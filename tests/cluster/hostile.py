"""`make chaos ONLY=hostile`: a network at work beside a registered stranger and hostile callers (`stranger.py`).

Three nodes in processes of their own have a steady stream of transactions, first alone and then while the stranger
floods them with all that anybody may send. It holds when the honest throughput under attack is at least 80 % of that
without, memory and disk of every node stay flat, nobody's coordinator changes, and every transaction that a node
accepted ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from rota.client import Unreachable
from rota.network.children import Child
from rota.network.local import LocalNetwork, LocalNode, Plan
from rota.network.workload import Workload
from rota.types import ContractAddress, NodeName
from tests.cluster.stranger import COUNTS, ROLES, Target, Targets

HONEST: Final = tuple(NodeName(f"node{number}") for number in (1, 2, 3))
STRANGER: Final = NodeName("stranger")
MINUTES: Final = 10.0
INTERVAL_MS: Final = 20
WARM_S: Final = 10.0
LOOK_S: Final = 1.0
END_TIMEOUT_S: Final = 120.0
RATIO_MIN: Final = 0.8
MIB: Final = 1024 * 1024
# Memory may grow by this much between the first and the last third of the attack.
MEMORY_GROWTH_MAX: Final = 1.15
MEMORY_SLACK_MIB: Final = 16.0
# A transaction takes about as much of the disk as without the stranger; a log of the database that was not merged is no
# growth, and neither is a line of the node's own log.
DISK_GROWTH_MAX: Final = 1.5
DISK_SLACK_MIB: Final = 12.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one node at one moment."""

    memory_mib: float
    disk_mib: float
    coordinator: str | None


@dataclass(slots=True)
class Phase:
    """What was seen in a part of the run."""

    name: str
    seconds: float = 0.0
    confirmed: int = 0
    latencies_s: list[float] = field(default_factory=list)
    samples: dict[NodeName, list[Sample]] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.confirmed / self.seconds

    def coordinators(self) -> list[str]:
        """Those that were followed, one after the other, by any node."""
        told = [sample.coordinator for each in zip(*self.samples.values(), strict=False) for sample in each]
        known = [each for each in told if each is not None]
        return [each for number, each in enumerate(known) if not number or each != known[number - 1]]


class Soak:
    """One run."""

    def __init__(self, network: LocalNetwork, workload: Workload, contract: ContractAddress) -> None:
        self.network: Final = network
        self.workload: Final = workload
        self.contract: Final = contract

    async def watch(self, name: str, seconds: float) -> Phase:
        """Count what is confirmed, and sample every node once a second."""
        await self.workload.look()
        phase, began_s = Phase(name), time.monotonic()
        seen = set(self.workload.receipts)
        while (passed_s := time.monotonic() - began_s) < seconds:
            await self.workload.look()
            now_s = time.monotonic()
            new = self.workload.receipts.keys() - seen
            seen |= new
            ended = [self.workload.promises[each] for each in new if self.workload.receipts[each].success]
            phase.confirmed += len(ended)
            phase.latencies_s += [now_s - promise.asked_s for promise in ended]
            for node in HONEST:
                phase.samples.setdefault(node, []).append(await self._sample(self.network.nodes[node]))
            await asyncio.sleep(max(0.0, LOOK_S - (time.monotonic() - began_s - passed_s)))
        phase.seconds = time.monotonic() - began_s
        print(
            f"{name}: {phase.confirmed} confirmed in {phase.seconds:.0f} s, {phase.per_s:.1f} a second, median "
            f"{statistics.median(phase.latencies_s or [0]):.2f} s, coordinators {phase.coordinators()}",
            flush=True,
        )
        return phase

    async def _sample(self, node: LocalNode) -> Sample:
        coordinator: str | None = None
        with suppress(Unreachable):
            status = await node.client.status(self.contract)
            coordinator = status.active_coordinator if status is not None else None
        files = [path for path in node.folder.iterdir() if path.name.startswith("rota.db")]
        disk = sum(path.stat().st_size for path in files)
        return Sample(memory_of(node.child.pid), disk / MIB, coordinator)

    async def metrics(self) -> dict[NodeName, dict[str, float]]:
        """What nodes say of their event loops."""
        told: dict[NodeName, dict[str, float]] = {}
        async with aiohttp.ClientSession() as session:
            for name in HONEST:
                async with session.get(f"{self.network.nodes[name].addresses['rpc']}/metrics") as answer:
                    lines = (await answer.text()).splitlines()
                told[name] = {
                    line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("rota_loop_hold")
                }
        return told


def memory_of(pid: int) -> float:
    """Of a process and its children, in MiB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / MIB + sum(memory_of(int(child)) for child in children)


# The judgement.


def flaws(quiet: Phase, hostile: Phase, open_count: int) -> Iterator[str]:
    """What did not hold."""
    ratio = hostile.per_s / quiet.per_s if quiet.per_s else 0.0
    if ratio < RATIO_MIN:
        yield f"honest throughput fell to {ratio:.2f} of what it was, and {RATIO_MIN} is asked"
    changes = hostile.coordinators()
    if len(changes) > 1:
        yield f"the coordinator changed: {changes}"
    if open_count:
        yield f"{open_count} transactions that nodes accepted have not ended"
    for name, samples in hostile.samples.items():
        third = max(1, len(samples) // 3)
        first, last = (
            statistics.median(each.memory_mib for each in some) for some in (samples[:third], samples[-third:])
        )
        if last > first * MEMORY_GROWTH_MAX + MEMORY_SLACK_MIB:
            yield f"{name}: memory grew from {first:.0f} to {last:.0f} MiB"
        usual = (quiet.samples[name][-1].disk_mib - quiet.samples[name][0].disk_mib) / max(1, quiet.confirmed)
        grown = samples[-1].disk_mib - samples[0].disk_mib
        if grown > usual * hostile.confirmed * DISK_GROWTH_MAX + DISK_SLACK_MIB:
            words = f"for {hostile.confirmed} transactions, and by {usual:.4f} for each before"
            yield f"{name}: its disk grew by {grown:.1f} MiB {words}"


def report(quiet: Phase, hostile: Phase) -> str:
    """What was measured, for `docs/reliability.md`."""
    lines = [
        f"throughput: {quiet.per_s:.1f} a second alone, {hostile.per_s:.1f} beside the stranger, ratio "
        f"{hostile.per_s / quiet.per_s if quiet.per_s else 0:.2f}",
        f"median latency: {statistics.median(quiet.latencies_s or [0]):.2f} s and "
        f"{statistics.median(hostile.latencies_s or [0]):.2f} s",
    ]
    for name, samples in hostile.samples.items():
        before = [round(each.memory_mib) for each in (quiet.samples[name][0], quiet.samples[name][-1])]
        lines.append(f"{name}: memory {before} MiB at the begin and end of the time alone")
        memory = [round(each.memory_mib) for each in (samples[0], samples[len(samples) // 2], samples[-1])]
        disk = [round(each.disk_mib, 1) for each in (quiet.samples[name][0], samples[0], samples[-1])]
        lines.append(f"{name}: memory {memory} MiB at the begin, middle and end of the attack; disk {disk} MiB")
    return "\n".join(lines)


# The run.


async def play(home: Path, minutes: float, interval_ms: int) -> int:
    """0 when everything held."""
    plan = Plan(home=home / "network", names=(*HONEST, STRANGER))
    async with LocalNetwork(plan) as network:
        await network.start(*HONEST)
        members = [f"alice@{name}" for name in HONEST]
        made = await network.create_contract("synthetic", {"members": members, "threshold": 2})
        workload = Workload(network, made.address, "alice", interval_ms, absent={STRANGER})
        async with workload:
            soak = Soak(network, workload, made.address)
            await soak.watch("warming up", WARM_S)
            quiet = await soak.watch("alone", max(20.0, minutes * 60 / 4))
            file = write_targets(network, made.address, home)
            strangers = [await start_stranger(network, file, role) for role in ROLES]
            hostile = await soak.watch("beside the stranger", minutes * 60)
            metrics = await soak.metrics()
            for child in strangers:
                assert child.is_running, f"{child.name} ended: {child.last_words()}"
                await child.stop(30.0)
            await workload.end()
            left = await workload.until_final(END_TIMEOUT_S)
        counts = [json.loads((home / f"{COUNTS}-{role}").read_text()) for role in ROLES]
        print(f"\nthe strangers: {counts}\nevent loops: {metrics}\n{report(quiet, hostile)}")
        found = [*flaws(quiet, hostile, len(left))]
        for flaw in found:
            print(f"FAILED: {flaw}")
        return 1 if found else 0


async def start_stranger(network: LocalNetwork, file: Path, role: str) -> Child:
    """One of the two that attack, once it does."""
    command = (sys.executable, "-m", "tests.cluster.stranger", str(file), role)
    child = await network.children.start(role, command, file.parent / f"{role}.log")
    await child.line_with("attacking")
    return child


def write_targets(network: LocalNetwork, contract: ContractAddress, home: Path) -> Path:
    """What the stranger has to know."""
    nodes = [network.nodes[name] for name in HONEST]
    stranger = network.nodes[STRANGER]
    targets = Targets(
        STRANGER,
        str(stranger.folder),
        network.endpoint_of(stranger),
        network.endpoint_of(stranger),
        [
            Target(
                node.name,
                network.endpoint_of(node),
                node.keys.certificate.fingerprint.hex(),
                _port(node.addresses["rpc"]),
                _port(node.addresses["websocket"]),
            )
            for node in nodes
        ],
        contract,
        network.ledger.url,
        network.chain_id,
        network.registry,
        network.factory,
    )
    file = home / "targets.json"
    file.write_bytes(msgspec.json.encode(targets))
    return file


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything held."""
    parser = argparse.ArgumentParser(description="A network at work beside a hostile stranger.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for how long the stranger attacks")
    parser.add_argument("--interval-ms", type=int, default=INTERVAL_MS, help="between two honest transactions")
    chosen = parser.parse_args(arguments)
    home, code = Path(tempfile.mkdtemp(prefix="rota-hostile-")), 1
    try:
        code = asyncio.run(play(home, chosen.minutes, chosen.interval_ms))
    finally:
        if code:
            print(f"its folder, with the logs of all nodes, is {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
