"""Throughput and latency of a node's API: one node in its own process, called by this one on the same machine.

receipt   `ptx_getTransactionReceipt` of transactions that have ended, over several connections at once
submit    `ptx_sendTransaction`, answered when it is durable, over as many; the node works on them meanwhile
push      receipts to subscribers, each with a listener of its own: the rate of all of them together, with each batch
          acknowledged and the acknowledgement durable, while all receipts exist already

The client shares the processors with the node: with two processors, the figures are lower than the node's capacity. The
processor time of the node itself, from the kernel, is reported too; it hardly depends on other work of the machine.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
import msgspec

from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.types import ContractAddress, NodeName

NODE: Final = NodeName("node1")
PARTY: Final = "alice"
CONNECTIONS_DEFAULT: Final = 32
REQUESTS_DEFAULT: Final = 5_000
SUBSCRIBERS_DEFAULT: Final = 100
LOOK_S: Final = 0.05
STALLED_S: Final = 120.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """The requests over a number of connections; latencies by nearest rank; the node's processor time for one."""

    connections: int
    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float
    node_us: float


@dataclass(frozen=True, slots=True)
class PushFigures:
    """The receipts to each of several subscribers; `per_s` counts every receipt that one of them received.

    `node_us` is the node's processor time for one of those.
    """

    subscribers: int
    receipts: int
    batches: int
    per_s: float
    node_us: float


@dataclass(frozen=True, slots=True)
class ApiFigures:
    """The figures of this benchmark."""

    receipt: RequestFigures
    submit: RequestFigures
    push: PushFigures


class _Batch(msgspec.Struct):
    receipts: list[msgspec.Raw] = []


class _Params(msgspec.Struct):
    subscription: str = ""
    result: _Batch = msgspec.field(default_factory=_Batch)


class _Message(msgspec.Struct):
    method: str = ""
    params: _Params = msgspec.field(default_factory=_Params)
    result: object = None


_DECODER: Final = msgspec.json.Decoder(_Message)


def measure_api(
    requests: int = REQUESTS_DEFAULT,
    connections: int = CONNECTIONS_DEFAULT,
    subscribers: int = SUBSCRIBERS_DEFAULT,
    progress: Progress = lambda _: None,
) -> ApiFigures:
    """Measure requests of both kinds, then pushes of the receipts of their transactions."""
    with TemporaryDirectory(prefix="rota-api-") as folder:
        return asyncio.run(_measure(Path(folder) / "network", requests, connections, subscribers, progress))


async def _measure(home: Path, requests: int, connections: int, subscribers: int, progress: Progress) -> ApiFigures:
    async with LocalNetwork(Plan(home=home, names=(NODE,))) as network:
        await network.start(NODE)
        made = await network.create_contract("synthetic", {"members": [f"{PARTY}@{NODE}"], "threshold": 1})
        node = network.nodes[NODE]
        progress(f"{requests:,} transactions over {connections} connections")
        transaction = {"type": "private", "from": PARTY, "to": made.address, "function": "mint", "data": []}
        ids: list[object] = []
        submit = await _requests(node, connections, requests, lambda _: ("ptx_sendTransaction", transaction), ids)
        await _until_ended(node, made.address)
        progress(f"{requests:,} questions for receipts over {connections} connections")
        receipts: list[object] = []
        receipt = await _requests(
            node, connections, requests, lambda n: ("ptx_getTransactionReceipt", ids[n % len(ids)]), receipts
        )
        assert all(receipts), "every transaction has its receipt"
        progress(f"{requests:,} receipts to {subscribers} subscribers")
        push = await _pushes(node, subscribers, requests)
    return ApiFigures(receipt, submit, push)


async def _requests(
    node: LocalNode,
    connections: int,
    requests: int,
    request_of: Callable[[int], tuple[str, object]],
    results: list[object],
) -> RequestFigures:
    """Send requests over each connection, one at a time."""
    url = node.addresses["rpc"]
    took_s: list[float] = []
    numbers = iter(range(requests))

    async def ask_on(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            method, parameter = request_of(number)
            body = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": [parameter]})
            began_s = time.perf_counter()
            async with session.post(url, data=body) as answer:
                told = msgspec.json.decode(await answer.read())
            took_s.append(time.perf_counter() - began_s)
            assert "error" not in told, told
            results.append(told["result"])

    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(aiohttp.ClientSession()) for _ in range(connections)]
        began_s, spent_s = time.perf_counter(), _spent_s(node)
        await asyncio.gather(*(ask_on(session) for session in sessions))
        all_s, spent_s = time.perf_counter() - began_s, _spent_s(node) - spent_s
    return RequestFigures(
        connections,
        requests,
        requests / all_s,
        1_000 * _rank(took_s, 0.50),
        1_000 * _rank(took_s, 0.99),
        1_000_000 * spent_s / requests,
    )


async def _until_ended(node: LocalNode, contract: ContractAddress) -> None:
    began_s = time.monotonic()
    while (status := await node.client.status(contract)) is not None and status.sending:
        assert time.monotonic() - began_s < STALLED_S, "what was sent does not end; figures mean nothing"
        await asyncio.sleep(LOOK_S)


async def _pushes(node: LocalNode, subscribers: int, wanted: int) -> PushFigures:
    """Subscribe with all subscribers, then start their listeners."""
    batches = count()
    async with AsyncExitStack() as stack:
        # aiohttp opens a hundred connections by default.
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        sockets = [
            await stack.enter_async_context(session.ws_connect(node.addresses["websocket"], max_msg_size=0))
            for _ in range(subscribers)
        ]
        for number, socket in enumerate(sockets):
            listener = {"name": f"bench{number}", "started": False, "filters": {"domain": "synthetic"}}
            await _ask(socket, "ptx_createReceiptListener", listener)
        subscriptions = [
            str(await _ask(socket, "ptx_subscribe", "receipts", f"bench{number}"))
            for number, socket in enumerate(sockets)
        ]
        began_s, spent_s = time.perf_counter(), _spent_s(node)
        reading: list[Awaitable[None]] = [
            asyncio.create_task(_read(socket, subscription, wanted, batches))
            for socket, subscription in zip(sockets, subscriptions, strict=True)
        ]
        control = await stack.enter_async_context(session.ws_connect(node.addresses["websocket"]))
        for number in range(subscribers):
            await _ask(control, "ptx_startReceiptListener", f"bench{number}")
        await asyncio.gather(*reading)
        took_s, spent_s = time.perf_counter() - began_s, _spent_s(node) - spent_s
    pushed = subscribers * wanted
    return PushFigures(subscribers, wanted, next(batches), pushed / took_s, 1_000_000 * spent_s / pushed)


async def _ask(socket: aiohttp.ClientWebSocketResponse, method: str, *parameters: object) -> object:
    await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
    told = msgspec.json.decode(await socket.receive_str())
    assert "result" in told, told
    return told["result"]


async def _read(socket: aiohttp.ClientWebSocketResponse, subscription: str, wanted: int, batches: count[int]) -> None:
    acknowledgement = msgspec.json.encode({"jsonrpc": "2.0", "method": "ptx_ack", "params": [subscription]}).decode()
    seen = 0
    while seen < wanted:
        seen += len(_DECODER.decode(await socket.receive_str()).params.result.receipts)
        next(batches)
        await socket.send_str(acknowledgement)


def _spent_s(node: LocalNode) -> float:
    """The processor time of the node's process, all its threads together."""
    fields = Path(f"/proc/{node.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rank(values: list[float], share: float) -> float:
    """The value at a share of the order, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]
