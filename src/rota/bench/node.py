"""The resources of a node: memory after many transactions and after a tenth of them, and start time with a long past.

memory     three nodes in processes of their own on an embedded chain; all three submit transactions that replace one
           shared state, so that the size of the state stays the same. Each node's resident memory is read when no
           transaction is open.
start      one node whose SQLite database has many contracts, many final and some pending intents, from the start of its
           process until it is ready; then all pending ones are confirmed
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rota import host
from rota.bench.network import numbered_intent
from rota.localnet.creating import CreatedContract
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.machine.effects import IntentAccepted, IntentFinalised, Persist, Record
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.types import ContractAddress, NodeName, Outcome, Party, Receipt
from rota.ports import Written
from rota.store import DatabaseStore, SqliteDatabase

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
THRESHOLD: Final = 2
PARTY: Final = "alice"
TRANSACTIONS_DEFAULT: Final = 100_000
FINAL_DEFAULT: Final = 100_000
PENDING_DEFAULT: Final = 1_000
CONTRACTS_DEFAULT: Final = 1
# How many contracts of one node are created at a time.
CREATED_AT_A_TIME: Final = 16
EARLY_SHARE: Final = 10
BATCH: Final = 100
OPEN_MAX: Final = 400
LOOK_S: Final = 0.05
TOLD_EVERY: Final = 5_000
STALLED_S: Final = 120.0
OPEN_WRITES_MAX: Final = 256
KIBIBYTES_PER_MEBIBYTE: Final = 1_024


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """MiB of each node after a tenth and after all; `growth` is the largest ratio of the two among the nodes."""

    transactions: int
    early_transactions: int
    early_mib: dict[str, float]
    late_mib: dict[str, float]
    growth: float
    transactions_per_s: float


@dataclass(frozen=True, slots=True)
class StartFigures:
    """The times until the node is ready, and until the last pending intent has its receipt."""

    contract_count: int
    final_count: int
    pending_count: int
    ready_ms: int
    settled_ms: int


Progress = Callable[[str], None]


def measure_memory(transactions: int = TRANSACTIONS_DEFAULT, progress: Progress = lambda _: None) -> MemoryFigures:
    """Measure the resident memory of three nodes."""
    with TemporaryDirectory(prefix="rota-memory-") as folder:
        return asyncio.run(_memory(Path(folder) / "network", transactions, progress))


def measure_start(
    contract_count: int = CONTRACTS_DEFAULT,
    final_count: int = FINAL_DEFAULT,
    pending_count: int = PENDING_DEFAULT,
    progress: Progress = lambda _: None,
) -> StartFigures:
    """Measure the start of one node, whose intents are spread over its contracts."""
    with TemporaryDirectory(prefix="rota-start-") as folder:
        return asyncio.run(_start(Path(folder) / "network", contract_count, final_count, pending_count, progress))


# Memory.


async def _memory(home: Path, transactions: int, progress: Progress) -> MemoryFigures:
    early = max(1, transactions // EARLY_SHARE)
    async with LocalNetwork(Plan(home=home, names=NAMES)) as network:
        await network.start(*NAMES)
        made = await _created(network, NAMES)
        began_s = time.monotonic()
        await _drive(network, made.address, 0, early, progress)
        early_mib = _resident(network)
        await _drive(network, made.address, early, transactions, progress)
        took_s = time.monotonic() - began_s
        late_mib = _resident(network)
    growth = max(late_mib[name] / early_mib[name] for name in late_mib)
    return MemoryFigures(transactions, early, early_mib, late_mib, growth, transactions / took_s)


async def _drive(network: LocalNetwork, contract: ContractAddress, done: int, wanted: int, progress: Progress) -> None:
    """Submit to all nodes, each within its limit, until `wanted` were submitted and all have ended."""
    changed_s = time.monotonic()
    sent, last_open = done, -1
    while True:
        open_counts = [await _open_count(network.nodes[name], contract) for name in NAMES]
        for name, count in zip(NAMES, open_counts, strict=True):
            batch = min(BATCH, wanted - sent)
            if batch and count + batch <= OPEN_MAX:
                await network.nodes[name].client.send_all(
                    contract, [("spend", None)] * batch, sender=PARTY, is_keyed=False
                )
                sent += batch
                if sent // TOLD_EVERY > (sent - batch) // TOLD_EVERY:
                    shown = ", ".join(f"{mib:.1f}" for mib in _resident(network).values())
                    progress(f"{sent:,} transactions; MiB of the nodes: {shown}")
        if sent == wanted and not any(open_counts):
            return
        if sum(open_counts) != last_open:
            last_open, changed_s = sum(open_counts), time.monotonic()
        assert time.monotonic() - changed_s < STALLED_S, "nothing ends any more; figures mean nothing"
        await asyncio.sleep(LOOK_S)


async def _open_count(node: LocalNode, contract: ContractAddress) -> int:
    status = await node.client.status(contract)
    assert status is not None, "the node has the contract"
    return sum(status.sending.values())


def _resident(network: LocalNetwork) -> dict[str, float]:
    """The resident memory of each node in MiB, from the kernel."""
    found = {}
    for name in NAMES:
        lines = Path(f"/proc/{network.nodes[name].child.pid}/status").read_text().splitlines()
        resident = next(line for line in lines if line.startswith("VmRSS:"))
        found[str(name)] = int(resident.split()[1]) / KIBIBYTES_PER_MEBIBYTE
    return found


# Starting.


async def _start(
    home: Path, contract_count: int, final_count: int, pending_count: int, progress: Progress
) -> StartFigures:
    name = NAMES[0]
    async with LocalNetwork(Plan(home=home, names=(name,))) as network:
        await network.start(name)
        made: list[CreatedContract] = []
        while len(made) < contract_count:
            batch = min(CREATED_AT_A_TIME, contract_count - len(made))
            made += await asyncio.gather(*(_created(network, (name,)) for _ in range(batch)))
        await network.stop()
        progress(
            f"a database with {contract_count:,} contracts, {final_count:,} final and {pending_count:,} pending intents"
        )
        await _fill(network.nodes[name], made, final_count, pending_count)
        began_s = time.monotonic()
        await network.start(name)
        ready_s = time.monotonic() - began_s
        for each in made[: pending_count or 1]:
            while await _open_count(network.nodes[name], each.address):
                assert time.monotonic() - began_s < STALLED_S, "what was pending does not end; figures mean nothing"
                await asyncio.sleep(LOOK_S)
        settled_s = time.monotonic() - began_s
    return StartFigures(contract_count, final_count, pending_count, int(ready_s * 1_000), int(settled_s * 1_000))


async def _created(network: LocalNetwork, names: tuple[NodeName, ...]) -> CreatedContract:
    members = [f"{PARTY}@{name}" for name in names]
    return await network.create_contract("synthetic", {"members": members, "threshold": min(THRESHOLD, len(names))})


async def _fill(node: LocalNode, made: list[CreatedContract], final_count: int, pending_count: int) -> None:
    """Write final and pending intents through the node's own store."""
    told: asyncio.Queue[Event] = asyncio.Queue()
    store = DatabaseStore(SqliteDatabase(node.folder / "rota.db", node.name), node.name, Config(), told.put_nowait)
    await store.start()
    open_count = 0
    for contract, records in _past(made, node.name, final_count, pending_count):
        if open_count == OPEN_WRITES_MAX:
            open_count -= await _next_written(told)
        store.perform(Persist(contract, records))
        open_count += 1
    while open_count:
        open_count -= await _next_written(told)
    await store.close()


async def _next_written(told: asyncio.Queue[Event]) -> int:
    event = await told.get()
    assert isinstance(event, Written), "it was written"
    return event.count


def _past(
    made: list[CreatedContract], node: NodeName, final_count: int, pending_count: int
) -> Iterator[tuple[ContractAddress, tuple[Record, ...]]]:
    """The records of each intent, with its contract."""
    first = made[0]
    hosted = host.open_genesis(host.load_domains(), first.genesis, first.address, bytes(host.SALT_KEY_BYTES))
    sender = Party(f"{PARTY}@{node}")
    payload = host.init(hosted, host.UserCall(sender, "mint")).payload
    for number in range(final_count + pending_count):
        contract = made[number % len(made)].address
        intent = replace(numbered_intent(sender, contract, payload, number), idempotency_key=f"past {number}")
        if number < final_count:
            yield (
                contract,
                (IntentAccepted(intent), IntentFinalised(Receipt(intent.id, Outcome.REVERTED, "ended long ago"))),
            )
        else:
            yield contract, (IntentAccepted(intent),)
