"""A steady stream of private transactions from the nodes of a network, and the book of accepted ones.

Every transaction has an idempotency key. One whose answer was lost is sent again under the same key, to the same node,
once that node answers: so the book has every transaction that a node accepted, exactly once, also if the node
failed meanwhile. A transaction in the book was acknowledged and must end.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Final, Self

from rota.client import Refused, TransactionReceipt, Unreachable
from rota.localnet.local import LocalNetwork
from rota.model.types import ContractAddress, IntentId, NodeName, intent_text

UNANSWERED_MAX: Final = 256
REPEAT_S: Final = 0.25
LOOK_S: Final = 0.05
RECEIPTS_TOGETHER: Final = 16


@dataclass(frozen=True, slots=True)
class Request:
    """One transaction of the stream, of the stream's own contract and party where it names no others."""

    number: int
    function: str
    arguments: object = None
    contract: ContractAddress | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """A transaction that a node accepted. `asked_s` is when it was first sent, by this process's clock."""

    node: NodeName
    request: Request
    asked_s: float


Choose = Callable[[int, NodeName], Request]


def mint(number: int, _: NodeName) -> Request:
    """A transaction that depends on nothing."""
    return Request(number, "mint")


@dataclass(slots=True)
class Workload:
    """Sends while it is entered: every `interval_ms` one transaction, the nodes taking turns.

    `absent` are nodes that get no requests now, `resting` those that get no new transactions. `choose` returns the next
    request.
    """

    network: LocalNetwork
    contract: ContractAddress
    party: str
    interval_ms: int
    choose: Choose = mint
    absent: set[NodeName] = field(default_factory=set)
    resting: set[NodeName] = field(default_factory=set)
    promises: dict[IntentId, Promise] = field(default_factory=dict)
    receipts: dict[IntentId, TransactionReceipt] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    _calling: Counter[NodeName] = field(default_factory=Counter)
    _numbers: count[int] = field(default_factory=count)
    _sending: set[asyncio.Task[None]] = field(default_factory=set)
    _stream: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._stream = asyncio.create_task(self._keep_sending())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()
        for task in tuple(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def end(self) -> None:
        """Send no new requests; those under way continue."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
            self._stream = None

    @property
    def unanswered(self) -> int:
        """The number of transactions that are being sent, or sent again."""
        return len(self._sending)

    @property
    def open(self) -> dict[IntentId, Promise]:
        """The accepted transactions that are not known to have ended."""
        return {intent: promise for intent, promise in self.promises.items() if intent not in self.receipts}

    async def _keep_sending(self) -> None:
        names = self.network.plan.names
        for turn in count():
            name = names[turn % len(names)]
            if name not in self.absent | self.resting and len(self._sending) < UNANSWERED_MAX:
                self._begin(name)
            await asyncio.sleep(self.interval_ms / 1_000)

    def burst(self, amount: int) -> None:
        """Send this many at once, the nodes taking turns."""
        names = [name for name in self.network.plan.names if name not in self.absent | self.resting]
        for turn in range(amount if names else 0):
            self._begin(names[turn % len(names)])

    def _begin(self, name: NodeName) -> None:
        task = asyncio.create_task(self._send(name, self.choose(next(self._numbers), name)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, name: NodeName, request: Request) -> None:
        """Send until it is accepted; the node may stop and start meanwhile."""
        asked_s = time.monotonic()
        while True:
            node = self.network.nodes[name]
            with suppress(Unreachable):
                if node.is_running and name not in self.absent | self.resting:
                    key = f"{self.contract}/{request.number}"
                    self._calling[name] += 1
                    try:
                        accepted = await node.client.send(
                            request.contract or self.contract,
                            request.function,
                            request.arguments,
                            sender=request.sender or self.party,
                            key=key,
                        )
                    except Refused as refused:
                        self.refusals.append(f"{name}: {refused}")
                        return
                    finally:
                        self._calling[name] -= 1
                    self.promises[accepted.intent] = Promise(name, request, asked_s)
                    return
            await asyncio.sleep(REPEAT_S)

    async def rest(self, name: NodeName) -> None:
        """Send a node nothing new until it is removed from `resting`; returns when all that it accepted has ended."""
        self.resting.add(name)
        while self._calling[name] or any(promise.node == name for promise in self.open.values()):
            await self.look()
            await asyncio.sleep(LOOK_S)

    # Receipts.

    async def look(self, intents: Collection[IntentId] | None = None) -> None:
        """Request the receipts of these, or of all open transactions, where their nodes answer."""
        wanted = [intent for intent in (intents if intents is not None else self.open) if intent not in self.receipts]
        for at in range(0, len(wanted), RECEIPTS_TOGETHER):
            await asyncio.gather(*map(self._look_at, wanted[at : at + RECEIPTS_TOGETHER]))

    async def _look_at(self, intent: IntentId) -> None:
        node = self.network.nodes[self.promises[intent].node]
        if not node.is_running or node.name in self.absent:
            return
        with suppress(Unreachable):
            receipt = await node.client.receipt(intent_text(intent))
            if receipt is not None:
                self.receipts[intent] = receipt

    async def until_final(self, timeout_s: float) -> Mapping[IntentId, Promise]:
        """Wait until all accepted transactions have ended; return those that have not in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._sending or self.open:
                    await self.look()
                    if self._sending or self.open:
                        await asyncio.sleep(LOOK_S)
        return self.open
