"""A real network of three on this machine: its coordinator is killed, and the others carry on.

Every node is a process of its own, as `rota node` runs it, on an embedded chain that is another. All three ask for
transactions that stand on one another. Whoever watches sees who coordinates, what is under way and what was confirmed;
then the coordinator is killed with `kill -9`, another takes over, and the one that was killed comes back. At the end
every receipt is held against the chain.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rota.client import ContractStatus, Unreachable
from rota.dashboard import PATH as DASHBOARD_PATH
from rota.demo.serving import ports_from
from rota.network.audit import Audit, audit
from rota.network.local import LocalNetwork, Plan
from rota.network.workload import Request, Workload
from rota.types import ContractAddress, NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
THRESHOLD: Final = 2
PARTY: Final = "alice"
ASKING_MS: Final = 100
LOOK_S: Final = 0.1
STEADY_S: Final = 4.0
RATE_OVER_S: Final = 3.0
TAKE_OVER_TIMEOUT_S: Final = 60.0
END_TIMEOUT_S: Final = 60.0
AUDITS_MAX: Final = 50
HAPPENINGS_KEPT: Final = 12
FUNCTIONS: Final = ("spend", "pay", "spend", "mint", "look")


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth telling, and when, in seconds since the beginning."""

    at_s: float
    text: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Who was killed, who coordinated next, and how long nothing of what was asked for since was confirmed."""

    killed: NodeName
    successor: NodeName | None
    stood_ms: int


@dataclass(slots=True)
class Show:
    """What a view shows, as of now. `tell` is called with every happening."""

    tell: Callable[[Happening], None]
    began_s: float = field(default_factory=time.monotonic)
    phase: str = "starting"
    happenings: deque[Happening] = field(default_factory=lambda: deque(maxlen=HAPPENINGS_KEPT))
    pids: dict[str, int] = field(default_factory=dict)
    statuses: dict[NodeName, ContractStatus | None] = field(default_factory=dict)
    sent: Counter[NodeName] = field(default_factory=Counter)
    confirmed: Counter[NodeName] = field(default_factory=Counter)
    coordinators: list[NodeName] = field(default_factory=list)
    take_overs: list[TakeOver] = field(default_factory=list)
    rates: deque[tuple[float, int]] = field(default_factory=deque)
    audited: Audit | None = None

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began_s

    @property
    def confirmed_per_s(self) -> float:
        """Over the last few seconds."""
        if len(self.rates) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self.rates[0], self.rates[-1]
        return (last - first) / max(last_s - first_s, LOOK_S)

    def count(self, workload: Workload) -> None:
        """What was asked for and confirmed up to now."""
        self.sent = Counter(promise.node for promise in workload.promises.values())
        ended = [intent for intent, receipt in workload.receipts.items() if receipt.success]
        self.confirmed = Counter(workload.promises[intent].node for intent in ended)

    def happen(self, text: str, *, is_fault: bool = False) -> None:
        """Tell of something."""
        happening = Happening(self.now_s, text, is_fault)
        self.happenings.append(happening)
        self.tell(happening)

    def summary(self) -> dict[str, object]:
        """For programs."""
        audited = self.audited
        return {
            "intents": sum(self.sent.values()),
            "confirmed": audited.confirmed if audited is not None else 0,
            "rounds": audited.rounds if audited is not None else 0,
            "coordinators": list(self.coordinators),
            "take_overs_ms": [each.stood_ms for each in self.take_overs],
            "problems": list(audited.problems) if audited is not None else ["it did not come to its end"],
        }


async def perform(home: Path, show: Show, refresh: Callable[[], None], kills: int | None, first_port: int = 0) -> None:
    """Start, kill so often (without end when nothing is said), and audit. `CannotStartProcess` when it cannot begin."""
    show.happen("a chain and three nodes are started")
    async with LocalNetwork(Plan(home=home, names=NAMES, rpc_ports=ports_from(first_port))) as network:
        await network.start(*NAMES)
        show.pids = network.pids
        for name, pid in show.pids.items():
            show.happen(f"{name} runs as process {pid}{_dashboard_of(network, name)}")
        members = [f"{PARTY}@{name}" for name in NAMES]
        made = await network.create_contract("synthetic", {"members": members, "threshold": THRESHOLD})
        show.happen(f"contract {made.address} is deployed, {THRESHOLD} of {len(NAMES)} endorse")
        async with Workload(network, made.address, PARTY, ASKING_MS, _choose) as workload:
            tasks = (
                asyncio.create_task(_play(show, network, workload, kills)),
                asyncio.create_task(_watch(show, network, made.address, workload, refresh)),
            )
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        refresh()


def _dashboard_of(network: LocalNetwork, name: str) -> str:
    """Where a node can be watched; the chain has no such place."""
    node = network.nodes.get(NodeName(name))
    return f", dashboard {node.client.url}{DASHBOARD_PATH}" if node is not None else ""


def _choose(number: int, name: NodeName) -> Request:
    function = FUNCTIONS[(number + number // len(NAMES)) % len(FUNCTIONS)]
    payee = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
    return Request(number, function, {"to": f"{PARTY}@{payee}"} if function == "pay" else None)


async def _play(show: Show, network: LocalNetwork, workload: Workload, kills: int | None) -> None:
    done = 0
    while kills is None or done < kills:
        show.phase = "all three at work"
        await _until_confirmed(workload, NAMES)
        await asyncio.sleep(STEADY_S)
        await _kill(show, network, workload)
        done += 1
    show.phase = "all three at work again"
    await asyncio.sleep(STEADY_S / 2)
    show.phase = "the last transactions end"
    await workload.end()
    left = await workload.until_final(END_TIMEOUT_S)
    show.count(workload)
    show.happen(f"{len(workload.promises) - len(left)} of {len(workload.promises)} transactions have their receipts")
    show.phase = "receipts are held against the chain"
    for _ in range(AUDITS_MAX):
        show.audited = await audit(workload)
        if not show.audited.problems:
            break
        # A node may be a block behind for a moment.
        await asyncio.sleep(LOOK_S)


async def _kill(show: Show, network: LocalNetwork, workload: Workload) -> None:
    victim = show.coordinators[-1]
    node = network.nodes[victim]
    show.phase = f"{victim} is gone"
    show.happen(f"kill -9 of {victim}, which coordinates (process {node.child.pid})", is_fault=True)
    killed_s = time.monotonic()
    await node.kill()
    async with asyncio.timeout(TAKE_OVER_TIMEOUT_S):
        await _until_confirmed(workload, tuple(name for name in NAMES if name != victim), killed_s)
    stood_ms = int((time.monotonic() - killed_s) * 1_000)
    show.happen(f"confirmed again, {stood_ms} ms after the kill")
    await asyncio.sleep(STEADY_S / 2)
    followed = show.coordinators[-1]
    show.take_overs.append(TakeOver(victim, followed if followed != victim else None, stood_ms))
    show.phase = f"{victim} comes back"
    await network.start(victim)
    show.pids = network.pids
    show.happen(f"{victim} is back as process {node.child.pid}")


async def _until_confirmed(workload: Workload, names: tuple[NodeName, ...], since_s: float | None = None) -> None:
    """Until a transaction of one of these nodes that was asked for since then is confirmed."""
    since_s = time.monotonic() if since_s is None else since_s
    while True:
        later = [
            intent
            for intent, promise in workload.promises.items()
            if promise.asked_s >= since_s and promise.node in names
        ]
        await workload.look(later)
        if any(intent in workload.receipts and workload.receipts[intent].success for intent in later):
            return
        await asyncio.sleep(LOOK_S / 5)


async def _watch(
    show: Show, network: LocalNetwork, contract: ContractAddress, workload: Workload, refresh: Callable[[], None]
) -> None:
    """Keep the view up to date until cancelled."""
    while True:
        for name in NAMES:
            show.statuses[name] = await _status(network, name, contract)
        await workload.look()
        show.count(workload)
        show.rates.append((time.monotonic(), sum(show.confirmed.values())))
        while show.rates[-1][0] - show.rates[0][0] > RATE_OVER_S:
            show.rates.popleft()
        active = [name for name, status in show.statuses.items() if status and status.coordinator_state == "Active"]
        if len(active) == 1 and active[0] not in show.coordinators[-1:]:
            show.coordinators.append(active[0])
            show.happen(f"{active[0]} coordinates")
        refresh()
        await asyncio.sleep(LOOK_S)


async def _status(network: LocalNetwork, name: NodeName, contract: ContractAddress) -> ContractStatus | None:
    node = network.nodes[name]
    if not node.is_running:
        return None
    try:
        return await node.client.status(contract)
    except Unreachable:
        return None
