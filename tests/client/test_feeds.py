"""Receipts and messages as iterators, at real nodes whose connections are cut and that are restarted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from rota.client import Client, ClientLimits, Closed, Refused, Token, TransactionReceipt, Unreachable
from tests.api.three_nodes import ThreeNodes, three_nodes
from tests.ledger.chains import in_loop
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
        async with Client(f"http://127.0.0.1:{relay.port}", LIMITS, sender="bank") as client:
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
        async with aclosing(client.receipts("cut", type="private")) as feed:
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
            async with aclosing(client.receipts("lives", after=last)) as feed:
                async for receipt in feed:
                    taken.append(receipt.id)
                    last = receipt.sequence
                    if len(taken) % 3 == life % 3 or wanted <= set(taken):
                        break
            if wanted <= set(taken):
                break
        assert len(taken) == len(set(taken))
        # Whoever does not say how far it was gets again what was not acknowledged, and misses nothing.
        async with aclosing(client.receipts("lives")) as feed:
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
        assert receipt.domain_receipt["transfers"] == [{"to": "bank@node1", "amount": "7"}]
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

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"filters": {}, "options": {}}})

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status)

    application = web.Application()
    application.router.add_post("/", answer)
    application.router.add_get("/live", refuse)
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
