"""The cost of the live feed: the same network with and without a client at the feed of every node.

Three nodes in processes of their own on an embedded chain run transactions without a pause. Of each two consecutive
windows one is watched and one is not, in alternating order, so that other work of the machine affects both alike. The
figure to go by is the nodes' processor time for a transaction: other programs disturb it little, while throughput is
what they leave.

A cost is the median over the pairs of windows, with an interval: the order statistics between which the true median
lies with a confidence that depends on coin tosses alone, however the windows scatter. On a busy machine that interval
is wider than the cost. So the feed is also measured by itself (`bench.feed`), and reported as a share of a
transaction's unwatched cost.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp

from rota.bench.feed import FeedFigures, measure_feed
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import ContractAddress, NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
PARTY: Final = "alice"
THRESHOLD: Final = 2
PAIRS_DEFAULT: Final = 24
TRANSACTIONS_DEFAULT: Final = 1_500
CONFIDENCE: Final = 0.95
WARM_UP: Final = 200
BATCH: Final = 50
OPEN_MAX: Final = 200
INTERVAL_MS: Final = 500
LOOK_S: Final = 0.02
STALLED_S: Final = 120.0
UPDATE_BYTES_MAX: Final = 16 * 1024 * 1024
LIVE_PATH: Final = "/live"
# Indexes in /proc/PID/stat behind the name: user time, system time.
USER_TICKS, SYSTEM_TICKS = 11, 12

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Window:
    """A number of transactions, from the first one's submission to the last one's end."""

    is_watched: bool
    transactions_per_s: float
    processor_ms_per_transaction: float


@dataclass(frozen=True, slots=True)
class Cost:
    """A share of the unwatched cost: the median of the pairs, and its bounds at a level of confidence."""

    median: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class WatchingFigures:
    """Medians of both kinds of windows. Costs are computed pair by pair, so that drift over minutes cancels."""

    transactions: int
    windows: tuple[Window, ...]
    unwatched_processor_ms: float
    watched_processor_ms: float
    processor_cost: Cost
    unwatched_per_s: float
    watched_per_s: float
    throughput_cost: Cost
    updates: int
    size_bytes: int
    feed: FeedFigures
    feed_cost: float


@dataclass(slots=True)
class _Read:
    updates: int = 0
    size_bytes: int = 0


def measure_watching(
    pairs: int = PAIRS_DEFAULT, transactions: int = TRANSACTIONS_DEFAULT, progress: Progress = lambda _: None
) -> WatchingFigures:
    """Measure processor time and throughput, watched and not; then the feed by itself."""
    with TemporaryDirectory(prefix="rota-watching-") as folder:
        windows, read = asyncio.run(_measure(Path(folder) / "network", pairs, transactions, progress))
    progress("the feed by itself")
    return _figures(transactions, windows, read, measure_feed())


async def _measure(home: Path, pairs: int, transactions: int, progress: Progress) -> tuple[tuple[Window, ...], _Read]:
    read = _Read()
    windows: list[Window] = []
    async with LocalNetwork(Plan(home=home, names=NAMES)) as network:
        await network.start(*NAMES)
        members = [f"{PARTY}@{name}" for name in NAMES]
        made = await network.create_contract("synthetic", {"members": members, "threshold": THRESHOLD})
        await _drive(network, made.address, WARM_UP)
        for number in range(2 * pairs):
            # The order alternates, so that growth over time affects both kinds.
            is_watched = number % 4 in (1, 2)
            window = await _window(network, made.address, transactions, is_watched, read)
            windows.append(window)
            progress(
                f"{'watched' if is_watched else 'unwatched'}: {window.transactions_per_s:,.0f} transactions a second"
            )
    return tuple(windows), read


def _figures(transactions: int, windows: tuple[Window, ...], read: _Read, feed: FeedFigures) -> WatchingFigures:
    watched = [each for each in windows if each.is_watched]
    unwatched = [each for each in windows if not each.is_watched]
    pairs = list(zip(watched, unwatched, strict=True))
    unwatched_ms = median(each.processor_ms_per_transaction for each in unwatched)
    return WatchingFigures(
        transactions,
        windows,
        unwatched_ms,
        median(each.processor_ms_per_transaction for each in watched),
        cost_of([one.processor_ms_per_transaction / other.processor_ms_per_transaction - 1 for one, other in pairs]),
        median(each.transactions_per_s for each in unwatched),
        median(each.transactions_per_s for each in watched),
        cost_of([1 - one.transactions_per_s / other.transactions_per_s for one, other in pairs]),
        read.updates,
        read.size_bytes,
        feed,
        feed.us_per_transaction / 1_000 / unwatched_ms,
    )


def cost_of(pairs: Sequence[float]) -> Cost:
    """The median of the pairs, with the narrowest bounds among them that reach `CONFIDENCE`; the widest if none do.

    Each pair is above or below the true median like a coin toss: the chance that at most `place` of them are on one
    side is that of as many heads.
    """
    ordered, count = sorted(pairs), len(pairs)

    def confidence(place: int) -> float:
        rare = sum(comb(count, heads) for heads in range(place + 1))
        return 1 - float(2 * rare / 2**count)

    place = max((each for each in range((count + 1) // 2) if confidence(each) >= CONFIDENCE), default=0)
    return Cost(median(ordered), ordered[place], ordered[count - 1 - place], confidence(place))


async def _window(
    network: LocalNetwork, contract: ContractAddress, transactions: int, is_watched: bool, read: _Read
) -> Window:
    async with AsyncExitStack() as stack:
        if is_watched:
            for name in NAMES:
                await stack.enter_async_context(_watching(network.nodes[name].client.url, read))
        before_ms, began_s = _processor_ms(network), time.monotonic()
        await _drive(network, contract, transactions)
        took_s, spent_ms = time.monotonic() - began_s, _processor_ms(network) - before_ms
    return Window(is_watched, transactions / took_s, spent_ms / transactions)


@asynccontextmanager
async def _watching(url: str, read: _Read) -> AsyncIterator[None]:
    """Read the feed as the dashboard does; updates are counted and discarded."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url + LIVE_PATH, max_msg_size=UPDATE_BYTES_MAX) as socket,
    ):
        await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "seq_subscribe", "params": [INTERVAL_MS]})
        answer = await socket.receive_json()
        assert "result" in answer, f"the node lets itself be watched: {answer}"

        async def take() -> None:
            async for message in socket:
                read.updates += 1
                read.size_bytes += len(message.data)

        taking = asyncio.create_task(take())
        try:
            yield
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)


async def _drive(network: LocalNetwork, contract: ContractAddress, wanted: int) -> None:
    """Submit transactions to all nodes, each within its limit, until `wanted` were submitted and all have ended."""
    sent, changed_s, last_open = 0, time.monotonic(), -1
    while True:
        open_counts = []
        for name in NAMES:
            client = network.nodes[name].client
            status = await client.status(contract)
            assert status is not None, "the node has the contract"
            count, batch = sum(status.sending.values()), min(BATCH, wanted - sent)
            if batch and count + batch <= OPEN_MAX:
                await client.send_all(contract, [("spend", None)] * batch, sender=PARTY, is_keyed=False)
                sent, count = sent + batch, count + batch
            open_counts.append(count)
        if sent == wanted and not any(open_counts):
            return
        if sum(open_counts) != last_open:
            last_open, changed_s = sum(open_counts), time.monotonic()
        assert time.monotonic() - changed_s < STALLED_S, "nothing ends any more; figures mean nothing"
        await asyncio.sleep(LOOK_S)


def _processor_ms(network: LocalNetwork) -> float:
    """The processor time of the nodes so far, from the kernel."""
    ticks = 0
    for name in NAMES:
        line = Path(f"/proc/{network.nodes[name].child.pid}/stat").read_text()
        words = line.rpartition(")")[2].split()
        ticks += int(words[USER_TICKS]) + int(words[SYSTEM_TICKS])
    return ticks * 1_000 / os.sysconf("SC_CLK_TCK")
