"""Subscriptions over WebSocket, and clients that do not behave."""

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from rota.ledger.embedded import Settings
from rota.ledger.embedded.server import BODY_BYTES_MAX
from rota.ledger.embedded.subscriptions import SUBSCRIPTIONS_MAX
from tests.ledger.embedded.client import Client, Refused, WallClock, payment, served, signed
from tests.ledger.embedded.contracts import KEEPER, keep, word

NOBODY = "0x" + "ee" * 20


def hexed(content: bytes) -> str:
    return "0x" + content.hex()


def test_a_websocket_answers_as_http_does(client: Client) -> None:
    socket = client.websocket()
    assert socket("eth_chainId") == client("eth_chainId")
    with pytest.raises(Refused, match="-32601 the method eth_nothing does not exist"):
        socket("eth_nothing")
    socket.close()


def test_new_heads_are_told_as_they_come(client: Client) -> None:
    socket = client.websocket()
    heads = socket("eth_subscribe", "newHeads")
    client("evm_mine")
    client.send(to=NOBODY)
    told = socket.notifications(heads)
    assert [head["number"] for head in told] == ["0x1", "0x2"]
    block = client("eth_getBlockByNumber", "0x2", False)
    assert all(block[name] == value for name, value in told[1].items())
    assert socket("eth_unsubscribe", heads) is True
    client("evm_mine")
    assert socket.notifications(heads) == []
    with pytest.raises(Refused, match="subscription not found"):
        socket("eth_unsubscribe", heads)
    socket.close()


def test_waiting_transactions_are_told_by_hash_or_whole(client: Client) -> None:
    socket = client.websocket()
    hashes, whole = (
        socket("eth_subscribe", "newPendingTransactions"),
        socket("eth_subscribe", "newPendingTransactions", True),
    )
    sent = client("eth_sendRawTransaction", hexed(signed(payment(0))))
    assert socket.notifications(hashes) == [sent]
    (transaction,) = socket.notifications(whole)
    assert transaction["hash"] == sent
    assert transaction["blockHash"] is None
    socket.close()


def test_logs_that_a_reorganisation_takes_away_are_told_again_as_removed(client: Client) -> None:
    keeper = client.create(KEEPER)
    socket = client.websocket()
    every, some = socket("eth_subscribe", "logs"), socket("eth_subscribe", "logs", {"topics": [hexed(word(2))]})
    heads = socket("eth_subscribe", "newHeads")
    for slot in (1, 2, 2):
        client.send(to=keeper, data=hexed(keep(slot, slot * 10)))
    added = socket.notifications(every)
    assert [(int(log["data"], 16), log["removed"]) for log in added] == [(10, False), (20, False), (20, False)]
    assert socket.notifications(some) == added[1:]
    assert len(socket.notifications(heads)) == 3

    client("rota_reorg", 2, {"blocks": 1})
    told = socket.notifications(every)
    # What goes comes first, the latest before the earlier; then the same transactions in another block.
    assert [(log["removed"], log["blockHash"]) for log in told[:2]] == [
        (True, added[2]["blockHash"]),
        (True, added[1]["blockHash"]),
    ]
    assert [{**log, "removed": False} for log in told[:2]] == [added[2], added[1]]
    assert [(log["removed"], log["transactionHash"]) for log in told[2:]] == [
        (False, added[1]["transactionHash"]),
        (False, added[2]["transactionHash"]),
    ]
    assert socket.notifications(some) == told
    assert [head["number"] for head in socket.notifications(heads)] == ["0x3", "0x4"]
    socket.close()


def test_a_snapshot_that_is_gone_back_to_takes_logs_away_too(client: Client) -> None:
    keeper = client.create(KEEPER)
    socket = client.websocket()
    logs = socket("eth_subscribe", "logs", {"address": keeper})
    snapshot = client("evm_snapshot")
    client.send(to=keeper, data=hexed(keep(1, 5)))
    client("evm_revert", snapshot)
    assert [log["removed"] for log in socket.notifications(logs)] == [False, True]
    socket.close()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ([], "required argument 0: subscription"),
        ([1], "argument subscription: expected a string"),
        (["syncing"], "argument subscription: there is no 'syncing'; there are newHeads, logs and"),
        (["logs", 1], "argument filter: expected an object"),
        (["logs", {"topics": 1}], "argument filter: topics"),
        (["newPendingTransactions", "full"], "argument full: expected true or false"),
        (["newHeads", {}, 3], "too many arguments"),
    ],
)
def test_a_wrong_subscription_is_told_by_parameter(client: Client, parameters: list[object], text: str) -> None:
    socket = client.websocket()
    with pytest.raises(Refused) as refused:
        socket("eth_subscribe", *parameters)
    assert refused.value.code == -32_602
    assert text in refused.value.message
    socket.close()


def test_subscriptions_are_bounded_and_end_with_their_connection(client: Client) -> None:
    socket = client.websocket()
    for _ in range(SUBSCRIPTIONS_MAX):
        socket("eth_subscribe", "newHeads")
    with pytest.raises(Refused, match="too many subscriptions: a connection has at most 128"):
        socket("eth_subscribe", "newHeads")
    socket.close()

    async def until_forgotten() -> None:
        while client.chain._listeners:
            await asyncio.sleep(0)

    client.run(until_forgotten())


def test_a_client_that_does_not_read_is_dropped_and_the_chain_goes_on(clock: WallClock) -> None:
    with served(Settings(clock_s=clock), outgoing_bytes_max=200_000) as client:
        reader = client.websocket()
        slow = client.websocket()
        for socket in (reader, slow):
            socket("eth_subscribe", "newHeads")
        number = 0

        async def until_dropped() -> None:
            nonlocal number
            while not slow.socket.closed and len(client.chain._listeners) > 1:
                client.chain.mine(50)
                number += 50
                # One client reads all of it, the other nothing at all.
                for _ in range(50):
                    assert (await reader.socket.receive()).type is aiohttp.WSMsgType.TEXT

        client.run(until_dropped())
        assert reader("eth_blockNumber") == hex(number)
        reader.close()


def test_a_message_that_is_too_large_ends_its_connection_only(client: Client) -> None:
    socket, other = client.websocket(), client.websocket()
    with suppress(ConnectionError):  # It may be ended before all of it is sent.
        client.run(socket.socket.send_str("x" * (BODY_BYTES_MAX + 1)))
    message = client.run(socket.socket.receive())
    assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
    assert other("eth_chainId") == "0x7a69"
    other.close()


def test_connections_are_bounded(clock: WallClock) -> None:
    with served(Settings(clock_s=clock), websockets_max=1) as client:
        first = client.websocket()
        with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
            client.websocket()
        assert first("eth_chainId") == "0x7a69"
        first.close()


def test_stopping_closes_what_is_open(clock: WallClock) -> None:
    with served(Settings(clock_s=clock)) as client:
        socket = client.websocket()
        client.run(client.server.stop())
        assert client.run(socket.socket.receive()).type is aiohttp.WSMsgType.CLOSE
