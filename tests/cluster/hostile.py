"""`make chaos ONLY=hostile`: a network at work beside a registered stranger and hostile callers (`stranger.py`).

Three nodes in processes of their own have a steady stream of transactions, first alone and then while the stranger
floods them with all that anybody may send. Each transaction replaces one of 64 shared states, so that the unspent
states, which nodes hold in memory, do not grow in number. Before that, 12,000 transactions fill the bounded
structures of the nodes, so that growing memory is a leak. It holds when the honest throughput under attack is at
least 80 % of that without, memory and disk of every node stay flat, there is no fail-over, and every transaction that
a node accepted ends. A hand-over is none: a busy contract looks at another coordinator from time to time (protocol
§4.3), with or without a stranger. The last lines are a table for `docs/reliability.md`.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from rota.localnet.children import Child
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.localnet.workload import Request, Workload
from rota.model.types import ContractAddress, NodeName
from tests.cluster.stranger import COUNTS, ROLES, Target, Targets

HONEST: Final = tuple(NodeName(f"node{number}") for number in (1, 2, 3))
STRANGER: Final = NodeName("stranger")
MINUTES: Final = 10.0
INTERVAL_MS: Final = 20
SHARED_STATES: Final = 64
# After so many transactions the bounded structures of a node are full: the latest receipts (4,096), the outcomes of a
# contract (8,192) and the intents of its users (10,000).
WARM_TRANSACTIONS: Final = 12_000
WARM_OPEN_MAX: Final = 600
WARM_BURST: Final = 100
WARM_LOOK_S: Final = 0.1
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


@dataclass(slots=True)
class Phase:
    """What was seen in a part of the run."""

    name: str
    began_s: float = 0.0
    ended_s: float = 0.0
    seconds: float = 0.0
    confirmed: int = 0
    latencies_s: list[float] = field(default_factory=list)
    samples: dict[NodeName, list[Sample]] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.confirmed / self.seconds

    def memory_mib(self, node: NodeName) -> tuple[float, float]:
        """The medians of the first and of the last third."""
        samples = self.samples[node]
        third = max(1, len(samples) // 3)
        first, last = (
            statistics.median(each.memory_mib for each in some) for some in (samples[:third], samples[-third:])
        )
        return first, last

    def disk_growth_mib(self, node: NodeName) -> float:
        return self.samples[node][-1].disk_mib - self.samples[node][0].disk_mib


class Soak:
    """One run."""

    def __init__(self, network: LocalNetwork, workload: Workload, contract: ContractAddress) -> None:
        self.network: Final = network
        self.workload: Final = workload
        self.contract: Final = contract

    async def watch(self, name: str, seconds: float) -> Phase:
        """Count what is confirmed, and sample every node once a second."""
        await self.workload.look()
        phase, began_s = Phase(name, time.time()), time.monotonic()
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
                phase.samples.setdefault(node, []).append(sample_of(self.network.nodes[node]))
            await asyncio.sleep(max(0.0, LOOK_S - (time.monotonic() - began_s - passed_s)))
        phase.seconds, phase.ended_s = time.monotonic() - began_s, time.time()
        print(
            f"{name}: {phase.confirmed} confirmed in {phase.seconds:.0f} s, {phase.per_s:.1f} a second, median "
            f"{statistics.median(phase.latencies_s or [0]):.2f} s",
            flush=True,
        )
        return phase

    async def warm_up(self, transactions: int) -> None:
        """As fast as the nodes go, until their bounded structures are full."""
        began_s = time.monotonic()
        while len(self.workload.receipts) < transactions:
            if self.workload.unanswered + len(self.workload.open) < WARM_OPEN_MAX:
                self.workload.burst(WARM_BURST)
            await self.workload.look()
            await asyncio.sleep(WARM_LOOK_S)
        memory = ", ".join(f"{sample_of(self.network.nodes[name]).memory_mib:.0f} MiB" for name in HONEST)
        print(f"warmed up by {transactions} transactions in {time.monotonic() - began_s:.0f} s: {memory}", flush=True)

    async def leaders(self) -> dict[NodeName, list[dict[str, Any]]]:
        """Who followed whom as coordinator since the nodes started, and why, as each node saw it."""
        told: dict[NodeName, list[dict[str, Any]]] = {}
        for name in HONEST:
            changes: Any = await self.network.nodes[name].client.ask("seq_leaders", self.contract, is_repeatable=True)
            told[name] = changes
        return told

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


def sample_of(node: LocalNode) -> Sample:
    files = [path for path in node.folder.iterdir() if path.name.startswith("rota.db")]
    return Sample(memory_of(node.child.pid), sum(path.stat().st_size for path in files) / MIB)


def memory_of(pid: int) -> float:
    """Of a process and its children, in MiB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / MIB + sum(memory_of(int(child)) for child in children)


# The judgement.


@dataclass(frozen=True, slots=True)
class Criterion:
    """What is asked, what was measured without and beside the stranger, and whether it holds."""

    name: str
    alone: str
    beside: str
    asked: str
    holds: bool


def criteria(
    quiet: Phase, hostile: Phase, open_count: int, failovers: Mapping[str, int], handovers: Mapping[str, int]
) -> Iterator[Criterion]:
    """All that is judged."""
    ratio = hostile.per_s / quiet.per_s if quiet.per_s else 0.0
    yield Criterion(
        "transactions confirmed a second",
        f"{quiet.per_s:.1f}",
        f"{hostile.per_s:.1f} ({ratio:.0%})",
        f"at least {RATIO_MIN:.0%}",
        ratio >= RATIO_MIN,
    )
    before, after = (f"{statistics.median(each.latencies_s or [0]):.2f} s" for each in (quiet, hostile))
    yield Criterion("median latency", before, after, "no bound", True)
    yield Criterion(
        "fail-overs", str(failovers[quiet.name]), str(failovers[hostile.name]), "none", not failovers[hostile.name]
    )
    yield Criterion("hand-overs by pace", str(handovers[quiet.name]), str(handovers[hostile.name]), "no bound", True)
    yield Criterion("accepted transactions that did not end", "", str(open_count), "none", not open_count)
    for name in hostile.samples:
        first, last = hostile.memory_mib(name)
        most = first * MEMORY_GROWTH_MAX + MEMORY_SLACK_MIB
        yield Criterion(
            f"memory of {name}, first and last third",
            "{:.0f} and {:.0f} MiB".format(*quiet.memory_mib(name)),
            f"{first:.0f} and {last:.0f} MiB",
            f"at most {most:.0f} MiB",
            last <= most,
        )
    # A coordinator writes twice as much as another member, and its role may go to another node.
    usual = sum(map(quiet.disk_growth_mib, quiet.samples)) / max(1, quiet.confirmed)
    grown = sum(map(hostile.disk_growth_mib, hostile.samples))
    most = usual * hostile.confirmed * DISK_GROWTH_MAX + DISK_SLACK_MIB * len(hostile.samples)
    yield Criterion(
        "disk of all nodes, growth for a transaction",
        f"{usual * 1024:.1f} KiB",
        f"{grown * 1024 / max(1, hostile.confirmed):.1f} KiB",
        f"at most {most * 1024 / max(1, hostile.confirmed):.1f} KiB",
        grown <= most,
    )


def table(judged: Sequence[Criterion]) -> str:
    """As Markdown, for `docs/reliability.md`."""
    lines = ["| | alone | beside the stranger | asked | |", "|---|---|---|---|---|"]
    for each in judged:
        result = "holds" if each.holds else "**fails**"
        lines.append(f"| {each.name} | {each.alone} | {each.beside} | {each.asked} | {result} |")
    return "\n".join(lines)


def changes_of(kind: str, leaders: Mapping[NodeName, Sequence[Mapping[str, Any]]], since: float, until: float) -> int:
    """How many such changes of the coordinator were seen meanwhile, by the node that saw most of them."""
    counts = [
        len([each for each in seen if each["kind"] == kind and since <= _unix_s(each["at"]) < until])
        for seen in leaders.values()
    ]
    return max(counts)


def _unix_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# The run.


def replace_shared_state(number: int, _: NodeName) -> Request:
    """Spends as much as it makes."""
    return Request(number, "spend", {"names": [f"state{number % SHARED_STATES}"]})


async def play(home: Path, minutes: float, interval_ms: int, warm: int) -> int:
    """0 when everything held."""
    plan = Plan(home=home / "network", names=(*HONEST, STRANGER))
    async with LocalNetwork(plan) as network:
        await network.start(*HONEST)
        members = [f"alice@{name}" for name in HONEST]
        made = await network.create_contract("synthetic", {"members": members, "threshold": 2})
        workload = Workload(network, made.address, "alice", interval_ms, choose=replace_shared_state, absent={STRANGER})
        async with workload:
            soak = Soak(network, workload, made.address)
            await soak.warm_up(warm)
            quiet = await soak.watch("alone", max(20.0, minutes * 60 / 4))
            file = write_targets(network, made.address, home)
            strangers = [await start_stranger(network, file, role) for role in ROLES]
            hostile = await soak.watch("beside the stranger", minutes * 60)
            metrics, leaders = await soak.metrics(), await soak.leaders()
            for child in strangers:
                assert child.is_running, f"{child.name} ended: {child.last_words()}"
                await child.stop(30.0)
            await workload.end()
            left = await workload.until_final(END_TIMEOUT_S)
        counts = [json.loads((home / f"{COUNTS}-{role}").read_text()) for role in ROLES]
        print(f"\nthe strangers: {counts}\nevent loops: {metrics}\ncoordinators: {leaders}\n")
        seen = {
            kind: {each.name: changes_of(kind, leaders, each.began_s, each.ended_s) for each in (quiet, hostile)}
            for kind in ("fail-over", "hand-over")
        }
        judged = [*criteria(quiet, hostile, len(left), seen["fail-over"], seen["hand-over"])]
        print(table(judged))
        return 0 if all(each.holds for each in judged) else 1


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
    parser.add_argument("--warm", type=int, default=WARM_TRANSACTIONS, help="transactions before anything is measured")
    chosen = parser.parse_args(arguments)
    home, code = Path(tempfile.mkdtemp(prefix="rota-hostile-")), 1
    try:
        code = asyncio.run(play(home, chosen.minutes, chosen.interval_ms, chosen.warm))
    finally:
        if code:
            print(f"its folder, with the logs of all nodes, is {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
