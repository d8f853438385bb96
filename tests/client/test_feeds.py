"""Receipts and messages as iterators, at real nodes whose connections are cut and that are restarted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from rota.client import Client, ClientLimits, Closed, Refused, Token, TransactionReceipt, Unreachable, bearer
from rota.rpc.credentials import EVERY_ROLE, make_token
from rota.server.settings import Settings
from tests.ledger.chains import in_loop
from tests.server.kit import LOCAL, served
from tests.server.three_nodes import ThreeNodes, three_nodes
from tests.service.test_listeners import receipt
from tests.transport.kit import Relay

LIMITS = ClientLimits(backoff_ms=1, backoff_max_ms=20, attempts_max=20, reconnects_max=1_000)


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    home: Path = tmp_path_factory.mktemp("feeds")
    with three_nodes(home) as running:
        yield running


@asynccontextmanager
async def relayed(to: ThreeNodes) -> AsyncIterator[tuple[Client, Relay]]:
    """A client of node1 that reaches it through a relay, wherever it listens at the time."""
    relay = Relay(port_of(to))
    await relay.start()
    try:
        async with Client(f"http://127.0.0.1:{relay.port}", LIMITS, sender="bank", payees="any") as client:
            yield client, relay
    finally:
        await relay.stop()


def port_of(to: ThreeNodes) -> int:
    port = urlsplit(to.node1.url).port
    assert port is not None
    return port


async def minted(token: Token, client: Client, count: int) -> set[str]:
    """The ids of so many transactions, which end in their own time."""
    mint = {"to": "bank@node1", "amount": 1, "data": "0x"}
    return {each.id for each in await client.send_all(token.address, [("mint", mint)] * count)}


@pytest.mark.slow
@in_loop
async def test_receipts_come_once_and_without_a_gap_while_connections_are_cut_and_the_node_is_restarted(
    to: ThreeNodes,
) -> None:
    async with relayed(to) as (client, relay):
        token = await client.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
        wanted = await minted(token, client, 40)
        taken: list[TransactionReceipt] = []
        async with client.receipts("cut", type="private") as feed:
            async for receipt in feed:
                taken.append(receipt)
                # In the middle of a batch, at its end, and before its acknowledgement has got anywhere.
                if len(taken) in {1, 2, 5, 20, 33}:
                    relay.cut()
                if len(taken) == 12:
                    await asyncio.to_thread(to.restart, "node1")
                    relay.target_port = port_of(to)
                    wanted |= await minted(token, client, 25)
                if wanted <= {each.id for each in taken}:
                    break
        told = await client.ask("ptx_queryTransactionReceipts", {"sort": ["sequence"]}, is_repeatable=True)
        assert isinstance(told, list)
        assert [each.id for each in taken] == [each["id"] for each in told][: len(taken)]
        assert all(each.success for each in taken)


@pytest.mark.slow
@in_loop
async def test_another_life_of_the_application_goes_on_where_the_one_before_was(to: ThreeNodes) -> None:
    async with relayed(to) as (client, _):
        token = await client.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
        wanted = await minted(token, client, 20)
        for each in wanted:
            await client.transaction(each)
        taken: list[str] = []
        last = 0
        for life in range(200):
            # A life that takes few and is gone in the middle of a batch.
            async with client.receipts("lives", after=last) as feed:
                async for receipt in feed:
                    taken.append(receipt.id)
                    last = receipt.sequence
                    if len(taken) % 3 == life % 3 or wanted <= set(taken):
                        break
            if wanted <= set(taken):
                break
        assert len(taken) == len(set(taken))
        # Whoever does not say how far it was gets again what was not acknowledged, and misses nothing.
        async with client.receipts("lives") as feed:
            again = await anext(feed)
        assert again.id in taken


@pytest.mark.slow
@in_loop
async def test_receipts_come_with_their_states_and_a_listener_is_made_for_one_thing(to: ThreeNodes) -> None:
    async with relayed(to) as (client, _):
        token = await client.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
        sent = await token.mint("bank@node1", 7)
        feed = client.full_receipts("whole", domain="noto")
        async for receipt in feed:
            if receipt.id == sent.id:
                break
        assert receipt.domain_receipt is not None
        bank = await client.address_of("bank@node1")
        assert receipt.domain_receipt["transfers"] == [{"to": bank, "toParty": "bank@node1", "amount": "7"}]
        with pytest.raises(
            Refused, match=r"the listener 'whole' was made with {'domain': 'noto'}, not with {}"
        ) as caught:
            await anext(client.full_receipts("whole"))
        assert caught.value.field == "filters"
        await feed.delete()
        assert (await anext(client.full_receipts("whole", type="private"))).sequence > 0
        with pytest.raises(Refused, match=r"listener\.name"):
            await anext(client.receipts("no name"))
        ended = [each async for each in feed]
        assert ended == []


@pytest.mark.slow
@in_loop
async def test_messages_of_a_group_are_followed_as_receipts_are(to: ThreeNodes) -> None:
    async with relayed(to) as (client, relay):
        group = await client.groups.create(members=["bank@node1", "bob@node2"])
        feed = client.messages("mail", group=group.id, topic="news")
        for number in range(3):
            await group.send_message("news", number)
            assert (await anext(feed)).data == number
            relay.cut()
        await feed.aclose()


@asynccontextmanager
async def refusing(status: int) -> AsyncIterator[str]:
    """A node that has the listener, and lets nobody in over a WebSocket."""

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with staged(refuse) as url:
        yield url


@asynccontextmanager
async def staged(live: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A node that has the listener, and whose WebSockets are played."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"filters": {}, "options": {}}})

    application = web.Application()
    application.router.add_post("/", answer)
    application.router.add_get("/live", live)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@in_loop
async def test_who_is_not_let_in_is_told_so_at_once() -> None:
    async with refusing(401) as url, Client(url, LIMITS) as client:
        with pytest.raises(Refused, match="does not let this caller in"):
            await anext(client.receipts("mine"))


class Stage:
    """A node that pushes one receipt for each acknowledgement, and keeps what it heard on each connection."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.heard: list[list[str]] = []
        self.pushed = 0

    async def live(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        heard: list[str] = []
        self.heard.append(heard)
        async for message in socket:
            asked = message.json()
            heard.append(asked["method"])
            if asked["method"] == "ptx_subscribe" and self.refusal:
                await socket.send_json({"id": asked["id"], "error": {"code": -32602, "message": self.refusal}})
                continue
            if asked["method"] == "ptx_subscribe":
                await socket.send_json({"id": asked["id"], "result": "s"})
            if asked["method"] == "ptx_ack":
                self.pushed += 1
            receipts = [{"id": str(self.pushed), "sequence": self.pushed, "success": True}]
            await socket.send_json({"params": {"subscription": "other", "result": {}}})
            await socket.send_json({"params": {"subscription": "s", "result": {"receipts": receipts}}})
        return socket


@in_loop
async def test_a_batch_is_acknowledged_when_more_is_asked_for_and_not_before() -> None:
    stage = Stage()
    async with staged(stage.live) as url, Client(url, LIMITS) as client, client.receipts("mine") as feed:
        assert (await anext(feed)).sequence == 0
        assert stage.heard == [["ptx_subscribe"]]
        assert (await anext(feed)).sequence == 1
        assert stage.heard == [["ptx_subscribe", "ptx_ack"]]


@in_loop
async def test_a_feed_that_was_refused_asks_again_when_it_is_asked_again() -> None:
    stage = Stage("there is no listener 'mine'")
    async with staged(stage.live) as url, Client(url, LIMITS) as client, client.receipts("mine") as feed:
        for _ in range(2):
            with pytest.raises(Refused, match="there is no listener"):
                await anext(feed)
        stage.refusal = ""
        assert (await anext(feed)).sequence == 0
    assert stage.heard == [["ptx_subscribe"]] * 3


@in_loop
async def test_who_stops_waiting_for_the_next_one_can_wait_for_it_again() -> None:
    subscribed, release = asyncio.Event(), asyncio.Event()

    async def live(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        asked = await socket.receive_json()
        await socket.send_json({"id": asked["id"], "result": "s"})
        subscribed.set()
        await release.wait()
        receipts = [{"id": "a", "sequence": 1}]
        await socket.send_json({"params": {"subscription": "s", "result": {"receipts": receipts}}})
        await socket.receive()
        return socket

    async with staged(live) as url, Client(url, LIMITS) as client, client.receipts("mine") as feed:
        waiting = asyncio.ensure_future(anext(feed))
        await subscribed.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        release.set()
        assert (await anext(feed)).id == "a"


@in_loop
async def test_a_feed_shows_its_credentials_and_is_told_when_they_are_gone() -> None:
    token, credential = make_token("accounting", EVERY_ROLE)
    _, other = make_token("other", EVERY_ROLE)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(credential,))
    async with served(settings=settings) as to, Client(to.entrance.http_url, LIMITS, bearer(token)) as client:
        to.node.ended.put(*(receipt(number) for number in range(1, 6)))
        feed = client.receipts("mine")
        assert [(await anext(feed)).sequence for _ in range(5)] == [1, 2, 3, 4, 5]
        to.entrance.use_credentials((other,))
        with pytest.raises(Refused, match="does not let this caller in"):
            await anext(feed)


@in_loop
async def test_a_feed_gives_up_after_its_last_attempt_to_connect() -> None:
    limits = ClientLimits(backoff_ms=1, backoff_max_ms=2, reconnects_max=3)
    async with refusing(503) as url, Client(url, limits) as client:
        with pytest.raises(Unreachable, match="answers 503"):
            await anext(client.receipts("mine"))


@in_loop
async def test_a_feed_of_a_client_that_was_closed_tries_nothing_more() -> None:
    client = Client("http://127.0.0.1:1", LIMITS)
    feed = client.receipts("mine")
    await client.close()
    with pytest.raises(Closed):
        await anext(feed)
