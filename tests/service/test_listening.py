"""Listeners of real nodes: no receipt is lost or told twice in its order, whatever connects, stops or falls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from rota.ledger.hexadecimal import data
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import keccak
from rota.model.types import ContractAddress, IntentId, NodeName
from rota.service.receipts.order import Relation
from rota.store import DatabaseStore
from rota.store.database import Statement
from rota.store.encoding import encode
from rota.store.listening import transition_due
from tests.domains.test_noto_network import deployed
from tests.ledger.chains import in_loop
from tests.service.kit import Network, network, send
from tests.store.kit import a_transition, digest

INDEXED = (
    "INSERT INTO outcomes (height, place, contract, intent, leaf, digest, status, outcome) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))

TOPIC = keccak(b"Changed(uint256)").hex()
CHANGED = {"type": "event", "name": "Changed", "inputs": [{"name": "x", "type": "uint256", "indexed": False}]}


class Client:
    """An application over a WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.pushes: list[dict[str, Any]] = []

    async def call(self, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        await self.socket.send_json({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        while (message := await self.socket.receive_json()).get("id") != method:
            self.pushes.append(message["params"])
        assert "error" not in message, message
        return message["result"]

    async def error(self, method: str, *params: object) -> str:
        await self.socket.send_json({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        message: str = (await self.socket.receive_json())["error"]["message"]
        return message

    async def batch(self) -> dict[str, Any]:
        params = self.pushes.pop(0) if self.pushes else (await self.socket.receive_json())["params"]
        result: dict[str, Any] = params["result"]
        return result

    async def acknowledge(self, subscription: str) -> None:
        await self.socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "ptx_ack", "params": [subscription]})

    async def receipts(self, subscription: str, count: int) -> list[dict[str, Any]]:
        """As many as are expected, each batch acknowledged."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += (await self.batch())["receipts"]
            await self.acknowledge(subscription)
        return found


@asynccontextmanager
async def connected(nodes: Network, node: NodeName) -> AsyncIterator[Client]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(nodes.processes[node].entrance.websocket_url) as socket,
    ):
        yield Client(socket)


def uuid(intent: IntentId) -> str:
    return str(UUID(bytes=intent))


async def mint(nodes: Network, contract: ContractAddress, to: str) -> IntentId:
    return await nodes.submit(NODE1, contract, "mint", [to, 10, "0x"], sender="notary")


@pytest.mark.slow
@in_loop
async def test_a_listener_has_no_gap_over_reconnects_and_restarts(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        sent = [await mint(nodes, contract, "alice@node2")]
        async with connected(nodes, NODE1) as client:
            await client.call("ptx_createReceiptListener", {"name": "l1", "filters": {"domain": "noto"}})
            subscription = await client.call("ptx_subscribe", "receipts", "l1")
            (first,) = await client.receipts(subscription, 1)
            assert (first["id"], first["success"], first["domain"]) == (uuid(sent[0]), True, "noto")
            assert first == await client.call("ptx_getTransactionReceipt", first["id"])
            # Left without an acknowledgement: it comes again.
            sent.append(await mint(nodes, contract, "alice@node2"))
            unacknowledged = (await client.batch())["receipts"]
        assert [each["id"] for each in unacknowledged] == [uuid(sent[1])]
        # While nobody listens, and over a restart of the node.
        sent += [await mint(nodes, contract, "bob@node3") for _ in range(3)]
        await nodes.final(NODE1, sent[-1])
        await nodes.stop(NODE1)
        await nodes.start(NODE1)
        async with connected(nodes, NODE1) as client:
            subscription = await client.call("ptx_subscribe", "receipts", "l1")
            sent += [await mint(nodes, contract, "bob@node3") for _ in range(2)]
            rest = await client.receipts(subscription, len(sent) - 1)
        assert sorted(each["id"] for each in rest) == sorted(uuid(intent) for intent in sent[1:])
        assert rest[0] == unacknowledged[0]
        sequences = [first["sequence"], *(each["sequence"] for each in rest)]
        assert sequences == list(range(sequences[0], sequences[0] + len(sent)))


@pytest.mark.slow
@in_loop
async def test_a_receipt_reaches_the_receiver_of_a_state_when_it_has_that_state(tmp_path: Path) -> None:
    """No application has to sleep between a receipt and the question that it allows."""
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        async with connected(nodes, NODE2) as client:
            await client.call("ptx_createReceiptListener", {"name": "theirs"})
            subscription = await client.call("ptx_subscribe", "receipts", "theirs")
            sent = [await mint(nodes, contract, "alice@node2") for _ in range(3)]
            held = 0
            for _ in sent:
                if not held:
                    receipts = (await client.batch())["receipts"]
                    held = len(receipts)
                    for receipt in receipts:
                        assert receipt["id"] in map(uuid, sent)
                        assert receipt["success"] is True
                        assert receipt["source"] == contract
                        assert receipt["transactionHash"].startswith("0x")
                        assert receipt["blockNumber"] > 0
                    store = nodes.processes[NODE2].running.adapters.store
                    assert len((await store.unspent_states(contract)).states) >= held
                    await client.acknowledge(subscription)
                held -= 1
        # To whom these receipts belong, for listeners that are held to parties.
        for each in sent:
            await nodes.final(NODE1, each)
            assert await nodes.processes[NODE1].facade.receipt(each) is not None
        assert await relations(nodes, NODE2, "alice", sent) == [Relation.RECEIVED] * 3
        assert await relations(nodes, NODE2, "mallory", sent) == [None] * 3
        assert await relations(nodes, NODE1, "notary", sent) == [Relation.SENT] * 3
        assert await relations(nodes, NODE1, "alice", sent) == [None] * 3
        query = {"limit": 9, "eq": [{"field": "from", "value": "notary@node1"}]}
        async with connected(nodes, NODE1) as client:
            found = await client.call("ptx_queryTransactionReceipts", query)
            assert {each["id"] for each in found} >= {uuid(each) for each in sent}
        async with connected(nodes, NODE2) as client:
            assert await client.call("ptx_queryTransactionReceipts", query) == []


async def relations(nodes: Network, node: NodeName, party: str, intents: Sequence[IntentId]) -> list[Relation | None]:
    """What the receipts of these transactions are to a party of a node."""
    process = nodes.processes[node]
    places = await process.running.adapters.store.listening.receipts_after(0, 100)
    return [await process.facade._receipts.relation(place, (party,)) for place in places if place.intent in intents]


@pytest.mark.slow
@in_loop
async def test_payee_gets_its_receipt_beside_a_commit_of_the_same_id_in_a_liars_token(tmp_path: Path) -> None:
    """The notary of another token commits the id of a payment there too; the payee's node indexes both."""
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        liars = (await nodes.final(NODE3, await nodes.deploy(NODE3, "noto", {"notary": "eve@node3"}))).contract
        assert liars is not None
        running = nodes.processes[NODE2].running
        payment = await mint(nodes, contract, "alice@node2")
        async with connected(nodes, NODE2) as client:
            await client.call("ptx_createReceiptListener", {"name": "theirs"})
            subscription = await client.call("ptx_subscribe", "receipts", "theirs")
            (paid,) = await client.receipts(subscription, 1)
            lie = a_transition(9, 1)
            lie = replace(lie, intent=payment)
            outcome = LedgerOutcome(payment, lie.leaf, digest(9), LedgerStatus.COMMITTED)
            row = (paid["blockNumber"], 999, liars, payment, lie.leaf, digest(9), "committed", encode(outcome))
            store = running.adapters.store
            assert isinstance(store, DatabaseStore)
            # The block is indexed before the contents come, so that the due receipt finds its commit.
            await store.write([Statement(INDEXED, row), transition_due(liars, lie)])
            running.receipts.look_soon()
            (lied,) = await client.receipts(subscription, 1)
            assert [(each["id"], each["source"]) for each in (paid, lied)] == [
                (uuid(payment), contract),
                (uuid(payment), liars),
            ]
            query = {
                "limit": 9,
                "eq": [{"field": "id", "value": uuid(payment)}, {"field": "source", "value": contract}],
            }
            assert await client.call("ptx_queryTransactionReceipts", query) == [paid]
            error = await client.error("ptx_getTransactionReceipt", uuid(payment))
            assert contract in error
            assert liars in error


@pytest.mark.slow
@in_loop
async def test_what_reverts_and_what_is_deployed_has_its_receipt_in_the_order(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        async with connected(nodes, NODE2) as client:
            await client.call("ptx_createReceiptListener", {"name": "all", "filters": {"type": "private"}})
            subscription = await client.call("ptx_subscribe", "receipts", "all")
            overspent = await nodes.submit(NODE2, contract, "transfer", ["bob@node3", 60, "0x"])
            (reverted,) = await client.receipts(subscription, 1)
            assert reverted["id"] == uuid(overspent)
            assert "success" not in reverted
            assert "Insufficient funds" in reverted["failureMessage"]
            made = await nodes.deploy(NODE2, "noto", {"notary": "alice@node2", "name": "Silver"})
            (receipt,) = await client.receipts(subscription, 1)
            assert (receipt["id"], receipt["success"]) == (uuid(made), True)
            assert receipt["contractAddress"] == (await nodes.final(NODE2, made)).contract
            assert receipt["domain"] == "noto"


@pytest.mark.slow
@in_loop
async def test_events_of_the_chain_come_once_and_in_order_over_a_restart(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        # Whenever it is called: the word 7 to memory, and a log of it.
        code = bytes.fromhex(f"6007600052 7f{TOPIC} 60206000a1 00".replace(" ", ""))
        creation = bytes.fromhex(f"60{len(code):02x}600c60003960{len(code):02x}6000f3") + code
        emitter = (await send(nodes.client, {"data": data(creation)})).contract
        assert emitter is not None
        for _ in range(5):
            await send(nodes.client, {"to": emitter})
        source = {"abi": [CHANGED], "address": emitter}
        listener = {"name": "e1", "sources": [source], "options": {"batchSize": 2, "fromBlock": 0}}
        events: list[dict[str, Any]] = []
        async with connected(nodes, NODE1) as client:
            await client.call("ptx_createBlockchainEventListener", listener)
            subscription = await client.call("ptx_subscribe", "blockchainevents", "e1")
            batch = (await client.batch())["events"]
            assert len(batch) == 2
            events += batch
            await client.acknowledge(subscription)
            assert len((await client.batch())["events"]) == 2
        await nodes.stop(NODE1)
        await nodes.start(NODE1)
        async with connected(nodes, NODE1) as client:
            subscription = await client.call("ptx_subscribe", "blockchainevents", "e1")
            while len(events) < 5:
                events += (await client.batch())["events"]
                await client.acknowledge(subscription)
            await send(nodes.client, {"to": emitter})
            events += (await client.batch())["events"]
            await client.acknowledge(subscription)
            status = await client.call("ptx_getBlockchainEventListenerStatus", "e1")
            assert status["checkpoint"]["blockNumber"] > 0
        places = [(each["blockNumber"], each["logIndex"]) for each in events]
        assert len(set(places)) == 6
        assert places == sorted(places)
        assert {each["soliditySignature"] for each in events} == {"event Changed(uint256 x)"}
        assert {json.dumps(each["data"]) for each in events} == {'{"x": "7"}'}
        assert {each["address"] for each in events} == {emitter}


@pytest.mark.slow
@in_loop
async def test_a_crash_loses_no_receipt_and_public_ones_are_among_them(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        async with connected(nodes, NODE1) as client:
            whole = {"name": "whole", "options": {"domainReceipts": True}}
            await client.call("ptx_createReceiptListener", whole)
            await client.call("ptx_createReceiptListener", {"name": "public", "filters": {"type": "public"}})
            await send(nodes.client, {"to": await address_of(client, "payer"), "value": hex(10**18)})
            carol = await address_of(client, "carol")
            paid = await client.call(
                "ptx_sendTransaction", {"type": "public", "from": "payer", "to": carol, "data": "0x"}
            )
            minted = await mint(nodes, contract, "alice@node2")
            await nodes.final(NODE1, minted)
            while await client.call("ptx_getTransactionReceipt", paid) is None:
                pass
        # Whatever is numbered or not at this moment.
        later = [await mint(nodes, contract, "bob@node3") for _ in range(2)]
        await nodes.kill(NODE1)
        await nodes.start(NODE1)
        async with connected(nodes, NODE1) as client:
            subscription = await client.call("ptx_subscribe", "receipts", "whole")
            receipts = await client.receipts(subscription, 4)
            assert {each["id"] for each in receipts} == {paid, uuid(minted), *map(uuid, later)}
            assert [each["sequence"] for each in receipts] == list(range(1, 5))
            told = next(each for each in receipts if each["id"] == uuid(minted))
            assert told["domainReceipt"]["transfers"][0]["to"]
            assert told["states"]["confirmed"]
            await client.call("ptx_unsubscribe", subscription)
            subscription = await client.call("ptx_subscribe", "receipts", "public")
            (public,) = await client.receipts(subscription, 1)
            assert (public["id"], public["success"]) == (paid, True)
            listed = await client.call("ptx_queryTransactionReceipts", {"sort": ["sequence"], "limit": 10})
            assert [each["id"] for each in listed] == [each["id"] for each in receipts]


async def address_of(client: Client, party: str) -> str:
    address: str = await client.call("ptx_resolveVerifier", f"{party}@node1", "ecdsa:secp256k1", "eth_address")
    return address


@pytest.mark.slow
@in_loop
async def test_a_node_is_watched_while_it_works(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        async with connected(nodes, NODE1) as client:
            await client.call("seq_subscribe", 100)
            snapshot = await client.batch()
            assert snapshot["snapshot"] is True
            assert contract in [each["contract"] for each in snapshot["contracts"]]
            assert {each["node"] for each in snapshot["peers"]} == {NODE2, NODE3}
            sent = uuid(await mint(nodes, contract, "alice@node2"))
            milestones: list[str] = []
            states: set[str] = set()
            rounds: set[str] = set()
            while "reported" not in milestones:
                update = await client.batch()
                milestones += [each["milestone"] for each in update["transactions"] if each["id"] == sent]
                states |= {each["coordinatorState"] for each in update["contracts"]}
                rounds |= {each["state"] for each in update["rounds"]}
            # The first update may come before the transaction has woken the coordinator.
            assert "Active" in states
            assert states <= {"Idle", "Active"}
            assert "dispatched" in rounds
            explained = await client.call("seq_explain", sent)
            assert (explained["state"], explained["meaning"]) == (
                "confirmed",
                "it has ended: the base ledger has it for good",
            )
            assert explained["history"][0]["text"] == "accepted"
