"""Transactions that benchmarks send to networks of real nodes, by domain: a number open at a time, or a fixed rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, Final

import aiohttp

from rota.client import Overloaded, Unreachable
from rota.ledger.artifacts import load_artifact
from rota.localnet.local import LocalNetwork
from rota.model.types import ContractAddress, NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
PARTY: Final = "alice"
# Transactions in one request.
BATCH: Final = 25
# Open transactions of each sender while a network is saturated.
OPEN: Final = 400
# The same for transactions that depend on others: more would only wait.
OPEN_CHAINED: Final = 200
# The most requests that wait for an answer at a time; further ones are not sent.
CALLS_MAX: Final = 64
COINS: Final = 16
COIN: Final = 10**8
ACCOUNTS: Final = 1_000
ENDED: Final = "rota_receipts_confirmed_total"
LOOK_S: Final = 0.1
DRAIN_TIMEOUT_S: Final = 300.0

Call = tuple[str, object]


@dataclass(frozen=True, slots=True)
class DomainTraffic:
    """The transactions of one domain: sent by these nodes, to this contract."""

    contract: ContractAddress
    senders: tuple[NodeName, ...]
    calls_of: Callable[[NodeName], Iterator[Call]]
    open_max: int = OPEN


async def synthetic(network: LocalNetwork) -> DomainTraffic:
    """Independent transactions by all members; 2 of 3 endorse."""
    made = await network.create_contract(
        "synthetic", {"members": [f"{PARTY}@{name}" for name in NAMES], "threshold": 2}
    )
    return DomainTraffic(made.address, NAMES, lambda _: cycle([("mint", None)]))


async def _noto(network: LocalNetwork) -> DomainTraffic:
    """Transfers of a notary token by holders at two nodes to each other; the notary's node is the third."""
    notary, *holders = NAMES
    client = network.nodes[notary].client
    token = await client.tokens.deploy(name="Coin", symbol="C", notary=f"bank@{notary}", sender="bank")
    for holder in holders:
        minted = [("mint", {"to": f"{PARTY}@{holder}", "amount": str(COIN), "data": "0x"})] * COINS
        for each in await client.send_all(token.address, minted, sender="bank"):
            await each.confirmed()
    other = dict(zip(holders, reversed(holders), strict=True))
    arguments = {name: {"to": f"{PARTY}@{other[name]}", "amount": "1", "data": "0x"} for name in holders}

    def transfers(name: NodeName) -> Iterator[Call]:
        return cycle([("transfer", arguments[name])])

    return DomainTraffic(ContractAddress(token.address), tuple(holders), transfers, OPEN_CHAINED)


async def _pente(network: LocalNetwork) -> DomainTraffic:
    """Transfers of a private ERC-20 by the three members of a group, each to accounts of its own choice."""
    artifact = load_artifact("PrivateToken")
    client = network.nodes[NAMES[0]].client
    group = await client.groups.create(members=[f"{PARTY}@{name}" for name in NAMES], name="desk")
    token = await group.deploy(artifact.abi, "0x" + artifact.bytecode.hex(), ["Shares", "S"], sender=PARTY)
    assert group.address is not None, "a created group has an address"
    for name in NAMES:
        address = await network.nodes[name].client.address_of(f"{PARTY}@{name}")
        await (await token.send("mint", [address, 10**12], sender=PARTY))

    def transfers(name: NodeName) -> Iterator[Call]:
        first = (NAMES.index(name) + 1) << 64
        return (("invoke", token.invocation("transfer", [_account(first + number), 1])) for number in count())

    return DomainTraffic(ContractAddress(group.address), NAMES, transfers, OPEN_CHAINED)


def _account(number: int) -> str:
    """One of the accounts of a sender, in turn."""
    return f"0x{number % ACCOUNTS + (number >> 64 << 64):040x}"


WORKLOADS: Final[Mapping[str, Callable[[LocalNetwork], Coroutine[Any, Any, DomainTraffic]]]] = {
    "synthetic": synthetic,
    "noto": _noto,
    "pente": _pente,
}


@dataclass(slots=True)
class AskedCounts:
    """Totals since the start. An unanswered transaction may have been accepted or not."""

    asked: int = 0
    accepted: int = 0
    refused: int = 0
    unanswered: int = 0


@dataclass(slots=True)
class Asker:
    """Sends transactions to the nodes of a network, many in one request."""

    network: LocalNetwork
    traffic: DomainTraffic
    counts: AskedCounts = field(default_factory=AskedCounts)
    requests: set[asyncio.Task[None]] = field(default_factory=set)
    _calls: dict[NodeName, Iterator[Call]] = field(default_factory=dict)

    def next_call(self, name: NodeName) -> Call:
        """The next call of a node."""
        if name not in self._calls:
            self._calls[name] = self.traffic.calls_of(name)
        return next(self._calls[name])

    async def keep_open(self) -> None:
        """Keep a number of transactions open at each sender, without end (closed loop)."""
        while True:
            for name in self.traffic.senders:
                for _ in range(max(0, self.traffic.open_max - await self._open_at(name)) // BATCH):
                    await self._ask(name)
            await asyncio.sleep(LOOK_S)

    async def ask_steadily(self, per_s: float) -> None:
        """Send at a fixed total rate, whether or not others have ended, without end (open loop)."""
        began_s, batches, senders = time.monotonic(), 0, cycle(self.traffic.senders)
        while True:
            due = int((time.monotonic() - began_s) * per_s / BATCH)
            for _ in range(due - batches):
                batches += 1
                if len(self.requests) < CALLS_MAX:
                    request = asyncio.create_task(self._ask(next(senders)))
                    self.requests.add(request)
                    request.add_done_callback(self.requests.discard)
                else:
                    self.counts.asked += BATCH
                    self.counts.unanswered += BATCH
            await asyncio.sleep(BATCH / per_s)

    async def open_count(self) -> int:
        """The number of accepted transactions that have not ended."""
        return sum([await self._open_at(name) for name in self.traffic.senders])

    async def drain(self) -> float:
        """Wait until nothing is open; returns how long that took."""
        began_s = time.monotonic()
        while self.requests or await self.open_count():
            assert time.monotonic() - began_s < DRAIN_TIMEOUT_S, "transactions do not end; figures mean nothing"
            await asyncio.sleep(LOOK_S)
        return time.monotonic() - began_s

    async def ended_count(self) -> int:
        """The number of confirmed transactions, from the nodes' own metrics."""
        ended = 0
        async with aiohttp.ClientSession() as session:
            for name in NAMES:
                async with session.get(f"{self.network.nodes[name].addresses['rpc']}/metrics") as answer:
                    lines = (await answer.text()).splitlines()
                ended += sum(int(float(line.split()[1])) for line in lines if line.startswith(f"{ENDED} "))
        return ended

    async def _open_at(self, name: NodeName) -> int:
        while True:
            try:
                status = await self.network.nodes[name].client.status(self.traffic.contract)
            except Unreachable:
                await asyncio.sleep(LOOK_S)
                continue
            assert status is not None, "the node has the contract"
            return sum(status.sending.values())

    async def _ask(self, name: NodeName) -> None:
        self.counts.asked += BATCH
        wanted = [self.next_call(name) for _ in range(BATCH)]
        client = self.network.nodes[name].client
        try:
            sent = await client.send_all(self.traffic.contract, wanted, sender=PARTY, is_keyed=False)
        except Overloaded:
            self.counts.refused += BATCH
        except Unreachable:
            self.counts.unanswered += BATCH
        else:
            self.counts.accepted += BATCH
            for each in sent:
                each.detach()


async def for_seconds(asking: asyncio.Task[Any], seconds: float) -> None:
    """Wait this long; raises the task's error if it fails."""
    done, _ = await asyncio.wait([asking], timeout=seconds)
    for task in done:
        await task
