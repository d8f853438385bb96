"""Listeners over a WebSocket: batches, acknowledgements, reconnecting, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from rota.model.types import ContractAddress, IntentId
from rota.rpc.formats import Uuid
from rota.server.settings import Limits
from rota.service.interface import EventView, ReceiptView
from rota.service.listeners import listeners
from tests.server.kit import TRANSFER, Served, asynchronous, served
from tests.server.memory_node import MemoryNode
from tests.server.test_limits import UPGRADE, refused_count, slow_reader, text_frame

ADDRESS = ContractAddress("0x" + "22" * 20)
CHANGED = {"type": "event", "name": "Changed", "inputs": [{"name": "x", "type": "uint256", "indexed": False}]}


def receipt(sequence: int, domain: str = "noto") -> ReceiptView:
    return ReceiptView(IntentId(sequence.to_bytes(16, "big")), True, 1_760_000_000_000, sequence, domain)


def event(number: int) -> EventView:
    solidity = "event Changed(uint256 x)"
    return EventView(number, 0, 1, b"\1" * 32, b"\2" * 32, solidity, ADDRESS, {"x": str(number)})


class Client:
    """A WebSocket that keeps answers and pushes apart."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._pushed: list[dict[str, Any]] = []
        self._id = 0

    async def call(self, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        self._id += 1
        await self.send(method, *params, request_id=self._id)
        while True:
            message = json.loads(await self.socket.receive_str())
            if message.get("id") == self._id:
                return message["result"] if "result" in message else message["error"]
            self._pushed.append(message)

    async def send(self, method: str, *params: object, request_id: int) -> None:
        await self.socket.send_str(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}))

    async def pushed(self) -> dict[str, Any]:
        """The next push: subscription and result."""
        message = self._pushed.pop(0) if self._pushed else json.loads(await self.socket.receive_str())
        assert (message["jsonrpc"], message["method"]) == ("2.0", "ptx_subscription"), message
        params: dict[str, Any] = message["params"]
        return params

    async def sequences(self) -> list[int]:
        return [each["sequence"] for each in (await self.pushed())["result"]["receipts"]]

    async def acknowledge(self, subscription: str) -> None:
        """As the SDK does it: with an id, and without waiting."""
        await self.send("ptx_ack", subscription, request_id=1_000)

    async def is_silent(self) -> bool:
        """Nothing but the answer to a question comes."""
        await self.call("transport_nodeName")
        return not self._pushed


@asynccontextmanager
async def connected(to: Served) -> AsyncIterator[Client]:
    async with to.session.ws_connect(to.entrance.websocket_url) as socket:
        yield Client(socket)


async def listening(to: Served, name: str = "l1", **more: object) -> None:
    assert await to.call("ptx_createReceiptListener", {"name": name, **more}) is True


@asynchronous
async def test_batches_come_one_at_a_time_and_in_order() -> None:
    async with served() as to, connected(to) as client:
        await listening(to)
        to.node.ended.put(*(receipt(number) for number in range(1, 6)))
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        first = await client.pushed()
        assert first["subscription"] == subscription
        assert [each["sequence"] for each in first["result"]["receipts"]] == [1, 2, 3]
        assert first["result"]["receipts"][0] == {
            "id": "00000000-0000-0000-0000-000000000001",
            "indexed": "2025-10-09T08:53:20.000Z",
            "sequence": 1,
            "domain": "noto",
            "success": True,
        }
        assert await client.is_silent()
        await client.acknowledge(subscription)
        second = await client.pushed()
        assert [each["sequence"] for each in second["result"]["receipts"]] == [4, 5]
        assert second["result"]["batchId"] > first["result"]["batchId"]
        await client.acknowledge(subscription)
        to.node.ended.put(receipt(6))
        assert await client.sequences() == [6]


@asynchronous
async def test_an_acknowledgement_has_no_reply_and_a_wrong_one_an_error() -> None:
    async with served() as to, connected(to) as client:
        await listening(to)
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        await client.acknowledge(subscription)
        assert await client.call("transport_nodeName") == "node1"
        for method in ("ptx_ack", "ptx_nack", "ptx_unsubscribe"):
            error = await client.call(method, "no such id")
            assert error["data"] == {"field": "subscription"}


@asynchronous
async def test_who_reconnects_goes_on_after_the_last_acknowledgement() -> None:
    async with served() as to:
        await listening(to)
        to.node.ended.put(*(receipt(number) for number in range(1, 8)))
        async with connected(to) as client:
            subscription = await client.call("ptx_subscribe", "receipts", "l1")
            assert await client.sequences() == [1, 2, 3]
            await client.acknowledge(subscription)
            assert await client.sequences() == [4, 5, 6]
        async with connected(to) as client:
            subscription = await client.call("ptx_subscribe", "receipts", "l1")
            assert await client.sequences() == [4, 5, 6]
            # The last word of a client that leaves at once counts.
            await client.acknowledge(subscription)
        async with connected(to) as client:
            await client.call("ptx_subscribe", "receipts", "l1")
            assert await client.sequences() == [7]


@asynchronous
async def test_what_is_not_acknowledged_comes_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "PAUSE_MS", 1)
    async with served() as to, connected(to) as client:
        await listening(to)
        to.node.ended.put(receipt(1))
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        first = await client.pushed()
        await client.send("ptx_nack", subscription, request_id=7)
        again = await client.pushed()
        assert again["result"]["receipts"] == first["result"]["receipts"]
        assert again["result"]["batchId"] != first["result"]["batchId"]


@asynchronous
async def test_two_subscriptions_of_a_listener_share_its_batches() -> None:
    async with served() as to, connected(to) as one, connected(to) as other:
        await listening(to)
        subscriptions = [await client.call("ptx_subscribe", "receipts", "l1") for client in (one, other)]
        to.node.ended.put(*(receipt(number) for number in range(1, 7)))
        waiting = {asyncio.create_task(client.sequences()): number for number, client in enumerate((one, other))}
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (first,) = done
        assert await first == [1, 2, 3]
        taker = waiting[first]
        await (one, other)[taker].acknowledge(subscriptions[taker])
        (second,) = rest
        assert await second == [4, 5, 6]


@asynchronous
async def test_a_batch_of_a_subscription_that_ends_goes_to_the_other() -> None:
    async with served() as to, connected(to) as one, connected(to) as other:
        await listening(to)
        to.node.ended.put(receipt(1))
        subscription = await one.call("ptx_subscribe", "receipts", "l1")
        assert await one.sequences() == [1]
        await other.call("ptx_subscribe", "receipts", "l1")
        assert await one.call("ptx_unsubscribe", subscription) is True
        assert await other.sequences() == [1]


@asynchronous
async def test_a_stopped_listener_pushes_nothing_new_and_goes_on_when_started() -> None:
    async with served() as to, connected(to) as client:
        await listening(to)
        to.node.ended.put(receipt(1))
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        assert await client.sequences() == [1]
        assert await to.call("ptx_stopReceiptListener", "l1") is True
        await client.acknowledge(subscription)
        to.node.ended.put(receipt(2))
        assert await client.is_silent()
        assert (await to.call("ptx_getReceiptListener", "l1"))["started"] is False
        assert await to.call("ptx_startReceiptListener", "l1") is True
        assert await client.sequences() == [2]


@asynchronous
async def test_a_listener_that_was_not_started_waits() -> None:
    async with served() as to, connected(to) as client:
        await listening(to, started=False)
        to.node.ended.put(receipt(1))
        await client.call("ptx_subscribe", "receipts", "l1")
        assert await client.is_silent()


@asynchronous
async def test_a_deleted_listener_is_gone_and_can_be_made_anew() -> None:
    async with served() as to, connected(to) as client:
        await listening(to)
        await client.call("ptx_subscribe", "receipts", "l1")
        assert await to.call("ptx_deleteReceiptListener", "l1") is True
        assert await to.call("ptx_getReceiptListener", "l1") is None
        for method in ("ptx_deleteReceiptListener", "ptx_startReceiptListener", "ptx_stopReceiptListener"):
            error = await to.call(method, "l1")
            assert error["data"] == {"field": "listenerName"}
        assert "there is no listener 'l1'" in (await client.call("ptx_subscribe", "receipts", "l1"))["message"]
        await listening(to)
        to.node.ended.put(receipt(1))
        assert await client.is_silent()


@asynchronous
async def test_a_listener_is_shown_as_it_was_made() -> None:
    async with served() as to:
        await listening(to, filters={"sequenceAbove": 2, "type": "private", "domain": "pente"})
        await listening(to, "l2", started=False, options={"domainReceipts": True}, junk=1)
        found = await to.call("ptx_getReceiptListener", "l1")
        assert found.pop("created").startswith("20")
        assert found == {
            "name": "l1",
            "started": True,
            "filters": {"sequenceAbove": 2, "type": "private", "domain": "pente"},
            "options": {"incompleteStateReceiptBehavior": "block_contract"},
        }
        stopped = await to.call("ptx_queryReceiptListeners", {"eq": [{"field": "started", "value": False}]})
        assert [each["name"] for each in stopped] == ["l2"]
        by_name = await to.call("ptx_queryReceiptListeners", {"sort": ["name DESC"], "limit": 5})
        assert [each["name"] for each in by_name] == ["l2", "l1"]


@asynchronous
async def test_what_is_wrong_with_a_listener_is_named() -> None:
    async with served() as to:
        await listening(to)
        create = "ptx_createReceiptListener"
        wrong: list[tuple[str, dict[str, Any], str]] = [
            (create, {"name": "l1"}, "listener.name"),
            (create, {"name": ""}, "listener.name"),
            (create, {"name": "a b"}, "listener.name"),
            (create, {"name": "l3", "filters": {"sequenceAbove": -1}}, "listener.filters.sequenceAbove"),
            (create, {"name": "l3", "filters": {"sequenceAbove": 2**63}}, "listener.filters.sequenceAbove"),
            (create, {"name": "l3", "filters": {"type": "other"}}, "listener.filters.type"),
            (
                create,
                {"name": "l3", "options": {"incompleteStateReceiptBehavior": "drop"}},
                "listener.options.incompleteStateReceiptBehavior",
            ),
            ("ptx_createBlockchainEventListener", {"name": "e", "sources": []}, "listener.sources"),
            ("ptx_createBlockchainEventListener", {"name": "e", "sources": [{"abi": []}]}, "listener.sources[0].abi"),
            (
                "ptx_createBlockchainEventListener",
                {"name": "e", "sources": [{"abi": [CHANGED]}], "options": {"batchSize": 0}},
                "listener.options.batchSize",
            ),
            (
                "ptx_createBlockchainEventListener",
                {"name": "e", "sources": [{"abi": [CHANGED]}], "options": {"batchTimeout": "soon"}},
                "listener.options.batchTimeout",
            ),
            (
                "ptx_createBlockchainEventListener",
                {"name": "e", "sources": [{"abi": [CHANGED]}], "options": {"fromBlock": "first"}},
                "listener.options.fromBlock",
            ),
        ]
        for method, listener, field in wrong:
            error = await to.call(method, listener)
            assert error["data"]["field"] == field, error
        error = await to.call("ptx_queryReceiptListeners", {"eq": [{"field": "colour", "value": 1}]})
        assert error["code"] == -32602


@asynchronous
async def test_a_filter_lets_only_its_receipts_pass() -> None:
    async with served() as to, connected(to) as client:
        await listening(to, filters={"domain": "pente", "sequenceAbove": 1})
        to.node.ended.put(*(receipt(number, "pente" if number % 4 == 1 else "noto") for number in range(1, 11)))
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        seen = await client.sequences()
        await client.acknowledge(subscription)
        assert seen + await client.sequences() == [5, 9]


@asynchronous
async def test_events_come_with_their_arguments() -> None:
    async with served() as to, connected(to) as client:
        source = {"abi": [CHANGED], "address": ADDRESS}
        options = {"batchSize": 10, "batchTimeout": "1.5s", "fromBlock": "0x2"}
        made = {"name": "e1", "sources": [source], "options": options}
        assert await to.call("ptx_createBlockchainEventListener", made) is True
        found = await to.call("ptx_getBlockchainEventListener", "e1")
        assert found["sources"] == [source]
        assert found["options"] == {"batchSize": 10, "batchTimeout": "1500ms", "fromBlock": 2}
        subscription = await client.call("ptx_subscribe", "blockchainevents", "e1")
        to.node.happened.put(event(7))
        pushed = await client.pushed()
        assert pushed["result"]["events"] == [
            {
                "blockNumber": 7,
                "transactionIndex": 0,
                "logIndex": 1,
                "transactionHash": "0x" + "01" * 32,
                "signature": "0x" + "02" * 32,
                "soliditySignature": "event Changed(uint256 x)",
                "address": ADDRESS,
                "data": {"x": "7"},
            }
        ]
        await client.acknowledge(subscription)
        assert await to.call("ptx_getBlockchainEventListenerStatus", "nobody") is None
        status = await to.call("ptx_getBlockchainEventListenerStatus", "e1")
        assert set(status) == {"catchup", "checkpoint"}
        assert [each["name"] for each in await to.call("ptx_queryBlockchainEventListeners", {})] == ["e1"]
        assert await to.call("ptx_stopBlockchainEventListener", "e1") is True
        assert await to.call("ptx_startBlockchainEventListener", "e1") is True
        assert await to.call("ptx_deleteBlockchainEventListener", "e1") is True


@asynchronous
async def test_a_subscription_over_http_is_refused_with_what_would_be_right() -> None:
    async with served() as to:
        await listening(to)
        error = await to.call("ptx_subscribe", "receipts", "l1")
        assert error == {"code": -32600, "message": "ptx_subscribe works over a WebSocket alone, not over HTTP"}


@asynchronous
async def test_a_connection_has_a_bounded_number_of_subscriptions() -> None:
    async with served(limits=Limits(websocket_subscriptions_max=2)) as to, connected(to) as client:
        await listening(to)
        kept = [await client.call("ptx_subscribe", "receipts", "l1") for _ in range(2)]
        assert "at most 2 subscriptions" in (await client.call("ptx_subscribe", "receipts", "l1"))["message"]
        assert await client.call("ptx_unsubscribe", kept[0]) is True
        assert isinstance(await client.call("ptx_subscribe", "receipts", "l1"), str)


@asynchronous
async def test_a_node_has_a_bounded_number_of_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "LISTENERS_MAX", 2)
    async with served() as to:
        await listening(to, "l1")
        await listening(to, "l2")
        assert "at most 2 listeners" in (await to.call("ptx_createReceiptListener", {"name": "l3"}))["message"]


@asynchronous
async def test_a_backlog_stays_in_the_store() -> None:
    """A subscriber that never acknowledges is given one batch, and no more than that is read."""
    async with served() as to, connected(to) as client:
        await listening(to)
        to.node.ended.put(*(receipt(number) for number in range(1, 10_001)))
        await client.call("ptx_subscribe", "receipts", "l1")
        assert await client.sequences() == [1, 2, 3]
        assert await client.is_silent()
        assert to.node.ended.read_most == 3


@asynchronous
async def test_a_subscriber_that_does_not_read_is_cut_off_and_its_batch_goes_to_another() -> None:
    async with served(limits=Limits(send_timeout_ms=50)) as to:
        await listening(to)
        long = "x" * 4_000_000
        to.node.ended.put(ReceiptView(IntentId(bytes(16)), False, 1, 1, failure_message=long))
        slow = slow_reader(to.entrance.websocket_url)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(slow, UPGRADE)
        body = json.dumps({"id": 1, "method": "ptx_subscribe", "params": ["receipts", "l1"]}).encode()
        await loop.sock_sendall(slow, text_frame(body.ljust(200)))
        while await refused_count(to, "slow") < 1:
            await asyncio.sleep(0)
        async with to.session.ws_connect(to.entrance.websocket_url, max_msg_size=0) as socket:
            client = Client(socket)
            await client.call("ptx_subscribe", "receipts", "l1")
            assert await client.sequences() == [1]
        slow.close()


@asynchronous
async def test_a_store_that_is_away_loses_no_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "RETRY_S", 0.001)
    async with served() as to, connected(to) as client:
        await listening(to)
        to.node.ended.put(*(receipt(number) for number in range(1, 5)))
        subscription = await client.call("ptx_subscribe", "receipts", "l1")
        assert await client.sequences() == [1, 2, 3]
        to.node.listening.is_away = True
        await client.acknowledge(subscription)
        assert await client.is_silent()
        to.node.listening.is_away = False
        assert await client.sequences() == [4]


@asynchronous
async def test_a_node_can_be_watched_live() -> None:
    async with served() as to, connected(to) as client:
        subscription = await client.call("seq_subscribe")
        first = json.loads(await client.socket.receive_str())
        assert (first["method"], first["params"]["subscription"]) == ("seq_subscription", subscription)
        snapshot = first["params"]["result"]
        assert (snapshot["number"], snapshot["snapshot"], snapshot["gap"]) == (1, True, False)
        assert [each["domain"] for each in snapshot["contracts"]] == ["noto"]
        sent = await to.call("ptx_sendTransaction", TRANSFER)
        to.node.moved.set()
        update = json.loads(await client.socket.receive_str())["params"]["result"]
        assert update["transactions"][0]["id"] == sent
        assert update["transactions"][0]["milestone"] == "accepted"
        assert await client.call("seq_follow", subscription, [sent]) is True
        assert Uuid(sent).intent in to.node.opened
        assert await client.call("seq_follow", subscription, []) is True
        assert Uuid(sent).intent not in to.node.opened
        error = await client.call("seq_follow", subscription, [sent] * 17)
        assert error["data"] == {"field": "transactionIds"}
        error = await client.call("seq_follow", "another", [])
        assert error["data"] == {"field": "subscription"}
        assert await client.call("seq_unsubscribe", subscription) is True
        to.node.moved.set()
        assert await client.is_silent()
        error = await client.call("seq_subscribe", 1)
        assert error["data"] == {"field": "intervalMs"}


@asynchronous
async def test_watching_that_is_refused_takes_no_place_on_the_connection() -> None:
    """A node that too many watch already refuses it; each try used to cost the connection a subscription for good."""
    limits = Limits(websocket_subscriptions_max=2)
    async with served(MemoryNode(watchers_max=0), limits=limits) as to, connected(to) as client:
        for _ in range(3):
            assert "watch" in (await client.call("seq_subscribe"))["message"]
        to.node.watchers_max = 1
        assert isinstance(await client.call("seq_subscribe"), str)
