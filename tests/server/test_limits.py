"""Clients that do not behave, and what they cannot do to the others."""

import asyncio
import gzip
import json
import socket
from collections.abc import Callable

import aiohttp
import pytest

from rota.localnet.ports import held_port
from rota.server.listener import RESERVED_MAX
from rota.server.settings import Bind, Limits, Settings
from tests.server.kit import TRANSFER, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_node import MemoryNode


async def refused_count(to: Served, reason: str) -> float:
    _, text = await to.get("/metrics")
    name = f'rota_rpc_refused_total{{reason="{reason}"}} '
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), 0)


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until it holds; the test's own time is the bound."""
    while not holds():
        await asyncio.sleep(0)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@asynchronous
async def test_a_huge_body_is_refused_by_its_announced_length_before_it_is_read() -> None:
    async with served(limits=Limits(body_bytes_max=1_000)) as to:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        head = await reader.readuntil(b"\r\n")
        assert head == b"HTTP/1.1 413 Request Entity Too Large\r\n"
        writer.close()
        assert await refused_count(to, "long") == 1


@asynchronous
async def test_a_huge_body_of_unknown_length_is_refused_when_it_is_too_long() -> None:
    async def pieces() -> object:
        for _ in range(100):
            yield b" " * 100

    async with served(limits=Limits(body_bytes_max=1_000)) as to:
        async with to.session.post(to.entrance.http_url, data=pieces()) as answer:
            assert answer.status == 413
            assert (await answer.json())["error"]["message"] == "the body must be at most 1000 bytes"
        fits = json.dumps({"id": 1, "method": "transport_nodeName"}).encode().ljust(1_000)
        assert (await to.post(fits))[1]["result"] == "node1"
        assert (await to.post(fits + b" "))[0] == 413


@asynchronous
async def test_an_encoded_body_is_refused_because_it_may_be_much_more_than_it_seems() -> None:
    async with served() as to:
        bomb = gzip.compress(b" " * 1_000_000)
        status, answer = await to.post(bomb, **{"Content-Encoding": "gzip"})
        assert (status, answer["error"]["message"]) == (415, "the body must not be encoded")


@asynchronous
async def test_a_client_that_sends_its_body_too_slowly_is_given_up() -> None:
    async with served(limits=Limits(receive_timeout_ms=50)) as to:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))
        writer.write(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"id":')
        head = await reader.readuntil(b"\r\n")
        assert head == b"HTTP/1.1 408 Request Timeout\r\n"
        assert b"not received in 50 ms" in await reader.read()
        writer.close()


@asynchronous
async def test_a_client_that_says_nothing_or_half_a_head_is_given_up() -> None:
    async with served(limits=Limits(idle_timeout_ms=50)) as to:
        for beginning in (b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))
            writer.write(beginning)
            assert await reader.read() == b""
            writer.close()


@asynchronous
async def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    async with served(limits=Limits(send_timeout_ms=50)) as to:
        body = json.dumps([{"id": n, "method": "rpc.discover"} for n in range(1_000)]).encode()
        client = slow_reader(to.entrance.http_url)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        while await refused_count(to, "slow") < 1:
            await asyncio.sleep(0)
        # Others do not notice.
        assert await to.call("transport_nodeName") == "node1"
        client.close()


@asynchronous
async def test_a_websocket_client_that_does_not_take_its_answers_is_cut_off() -> None:
    async with served(limits=Limits(send_timeout_ms=50, websocket_messages_max=4)) as to:
        body = json.dumps([{"id": n, "method": "rpc.discover"} for n in range(1_000)]).encode()
        client = slow_reader(to.entrance.websocket_url)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, UPGRADE)
        for _ in range(3):
            await loop.sock_sendall(client, text_frame(body))
        while await refused_count(to, "slow") < 1:
            await asyncio.sleep(0)
        await until(lambda: to.entrance.connection_count("websocket") == 0)
        assert await to.call("transport_nodeName") == "node1"
        client.close()


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def text_frame(content: bytes) -> bytes:
    """A whole text message, masked with zeros."""
    return b"\x81" + (0x80 | 126).to_bytes() + len(content).to_bytes(2, "big") + bytes(4) + content


@asynchronous
async def test_websocket_frame_that_is_not_masked_ends_the_connection() -> None:
    call = b'{"id":1,"method":"transport_nodeName"}'
    for unmasked in (bytes((0x81, len(call))) + call, b"\x81\x7e" + (200).to_bytes(2, "big") + call.ljust(200)):
        for cut in (0, 1):
            async with served() as to:
                reader, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.websocket_url))
                writer.write(UPGRADE)
                await reader.readuntil(b"\r\n\r\n")
                writer.write(text_frame(call.ljust(300)) + unmasked[:cut])
                first = await reader.readexactly(2)
                answer = await reader.readexactly(first[1])
                assert json.loads(answer)["result"] == "node1"
                writer.write(unmasked[cut:])
                # A close frame with the code of a protocol error, and nothing else.
                rest = await reader.read()
                assert (rest[0], rest[2:4]) == (0x88, (1002).to_bytes(2, "big"))
                writer.close()


def slow_reader(url: str) -> socket.socket:
    """A client with little room that never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", port_of(url)))
    client.setblocking(False)
    return client


async def connected(to: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))


HELD = json.dumps({"id": 1, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]}).encode()


@asynchronous
async def test_idle_connections_keep_nobody_out() -> None:
    async with served(limits=Limits(connections_max=8)) as to:
        idle = [await connected(to) for _ in range(80)]
        for path in ("/livez", "/readyz"):
            assert (await to.get(path))[0] == 200
        assert await to.call("transport_nodeName") == "node1"
        assert to.entrance.connection_count("http") == 8
        assert await refused_count(to, "connections") > 70
        for _, writer in idle:
            writer.close()


@asynchronous
async def test_connection_that_was_answered_stays_before_those_that_said_nothing() -> None:
    async with served(limits=Limits(connections_max=3)) as to:
        assert await to.call("transport_nodeName") == "node1"
        silent = [await connected(to) for _ in range(30)]
        await until(lambda: to.entrance.connection_count("http") == 3)
        before = to.entrance.connection_count("http")
        assert await to.call("transport_nodeName") == "node1"
        assert to.entrance.connection_count("http") == before
        for reader, writer in silent[:28]:
            assert await reader.read() == b""
            writer.close()
        for _, writer in silent[28:]:
            writer.close()


@asynchronous
async def test_busy_connections_are_bounded_and_health_is_answered_beside_them() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node, limits=Limits(connections_max=3)) as to:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(HELD)
        busy = [await connected(to) for _ in range(3)]
        for _, writer in busy:
            writer.write(head + HELD)
        await until(lambda: node.waiting_count == 3)
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await to.get(path))[0] == 200
        reader, writer = await connected(to)
        writer.write(head + HELD)
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 503 Service Unavailable\r\n"
        assert node.waiting_count == 3
        # Those that are let in beyond the bound have a bound too.
        more = [await connected(to) for _ in range(100)]
        await until(lambda: to.entrance.connection_count("http") <= 3 + RESERVED_MAX)
        for _, each in (*busy, *more, (reader, writer)):
            each.close()


@asynchronous
async def test_bytes_are_bounded_over_all_requests() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node, limits=Limits(body_bytes_max=1_000, bodies_bytes_max=1_500)) as to:
        body = json.dumps({"id": 1, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]}).encode().ljust(1_000)
        first = asyncio.create_task(to.post(body))
        await until(lambda: node.waiting_count == 1)
        status, answer = await to.post(body)
        assert status == 503
        assert answer["error"] == {"code": -32603, "message": "too much is being answered at this moment, try again"}
        async with to.session.ws_connect(to.entrance.websocket_url) as client:
            await client.send_str(body.decode())
            assert (await client.receive_json())["error"]["code"] == -32603
        # A small one still has room.
        small = asyncio.create_task(to.call("transport_nodeName"))
        assert await small == "node1"
        assert node.holding is not None
        node.holding.set()
        assert await first == (200, {"jsonrpc": "2.0", "id": 1, "result": None})
        assert (await to.post(body))[0] == 200


@pytest.mark.slow
@asynchronous
async def test_answers_in_flight_are_bounded_over_all_clients_and_short_ones_are_given() -> None:
    limits = Limits(answer_bytes_max=10_000_000, answers_bytes_max=10_000_000, send_timeout_ms=60_000)
    async with served(limits=limits) as to:
        body = json.dumps([{"id": n, "method": "rpc.discover"} for n in range(40)]).encode()
        client = slow_reader(to.entrance.http_url)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        while (await to.post(body))[0] != 503:
            await asyncio.sleep(0)
        assert await refused_count(to, "busy") == 1
        assert await to.call("transport_nodeName") == "node1"
        client.close()
        while (await to.post(body))[0] != 200:
            await asyncio.sleep(0)


@asynchronous
async def test_a_client_that_goes_away_ends_its_call_and_frees_its_room() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node) as to:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))
        body = json.dumps({"id": 1, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]}).encode()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await until(lambda: node.waiting_count == 1)
        writer.transport.abort()
        await until(lambda: node.waiting_count == 0)


@asynchronous
async def test_what_is_no_http_is_refused_and_others_do_not_notice() -> None:
    async with served() as to:
        for garbage in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"\x00" * 10_000,
            b"HELO there\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(to.entrance.http_url))
            writer.write(garbage)
            writer.write_eof()
            answer = await reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.0 400") or answer.startswith(b"HTTP/1.1 400")
            writer.close()
        assert await to.call("transport_nodeName") == "node1"


@asynchronous
async def test_a_get_where_calls_are_posted_is_refused() -> None:
    async with served() as to, to.session.get(to.entrance.http_url) as answer:
        assert answer.status == 405


# WebSockets.


@asynchronous
async def test_a_websocket_answers_as_http_does() -> None:
    async with served() as to, to.session.ws_connect(to.entrance.websocket_url) as client:
        await client.send_json({"jsonrpc": "2.0", "id": 1, "method": "ptx_sendTransaction", "params": [TRANSFER]})
        sent = (await client.receive_json())["result"]
        assert (await to.call("ptx_getTransaction", sent))["id"] == sent
        await client.send_bytes(b'{"id":"x","method":"nothing"}')
        assert (await client.receive_json())["error"]["code"] == -32601
        await client.send_str("{")
        assert (await client.receive_json())["error"]["code"] == -32700
        await client.ping(b"are you there")
        await client.send_str('{"id":2,"method":"transport_nodeName"}')
        assert (await client.receive_json())["result"] == "node1"


@asynchronous
async def test_a_ping_is_answered() -> None:
    async with served() as to, to.session.ws_connect(to.entrance.websocket_url, autoping=False) as client:
        await client.ping(b"are you there")
        pong = await client.receive()
        assert (pong.type, bytes(pong.data)) == (aiohttp.WSMsgType.PONG, b"are you there")


@asynchronous
async def test_a_slow_call_does_not_hold_up_the_next_on_one_websocket() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node) as to, to.session.ws_connect(to.entrance.websocket_url) as client:
        await client.send_json({"id": 1, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]})
        await client.send_json({"id": 1, "method": "transport_nodeName"})
        assert (await client.receive_json())["result"] == "node1"
        assert node.holding is not None
        node.holding.set()
        assert (await client.receive_json())["result"] is None


@asynchronous
async def test_a_websocket_with_too_many_unanswered_messages_is_not_read_from() -> None:
    node = MemoryNode(holding=asyncio.Event())
    limits = Limits(websocket_messages_max=3)
    async with served(node, limits=limits) as to, to.session.ws_connect(to.entrance.websocket_url) as client:
        for number in range(10):
            await client.send_json({"id": number, "method": "ptx_getTransaction", "params": [UNKNOWN_ID]})
        await until(lambda: node.waiting_count == 3)
        assert node.holding is not None
        node.holding.set()
        assert [(await client.receive_json())["id"] for _ in range(10)] == list(range(10))
        assert node.waiting_most == 3


@asynchronous
async def test_a_websocket_message_that_is_too_long_closes_the_connection_with_its_reason() -> None:
    limits = Limits(websocket_message_bytes_max=1_000)
    async with served(limits=limits) as to, to.session.ws_connect(to.entrance.websocket_url) as client:
        await client.send_str(" " * 1_001)
        closed = await client.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)


@asynchronous
async def test_a_stopping_entrance_says_goodbye_to_websockets() -> None:
    async with served() as to:
        client = await to.session.ws_connect(to.entrance.websocket_url)
        stopping = asyncio.create_task(to.entrance.stop())
        closed = await client.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)
        await stopping
        with pytest.raises(aiohttp.ClientConnectionError):
            await to.call("transport_nodeName")


# Settings.


@asynchronous
async def test_a_taken_port_is_told_and_nothing_is_left_listening() -> None:
    with held_port() as port:
        async with served() as to:
            taken = Bind(port=port_of(to.entrance.websocket_url))
            with pytest.raises(OSError, match="address already in use"):
                async with served(settings=Settings(http=Bind(port=port), websocket=taken)):
                    pass
        async with served(settings=Settings(http=Bind(port=port), websocket=None)) as other:
            assert await other.call("transport_nodeName") == "node1"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"body_bytes_max": 0}, "body_bytes_max: must be a whole number of at least 1, not 0"),
        ({"calls_max": True}, "calls_max: must be a whole number of at least 1, not True"),
        ({"bodies_bytes_max": 5}, "bodies_bytes_max: must be at least body_bytes_max"),
        ({"answers_bytes_max": 5}, "answers_bytes_max: must be at least answer_bytes_max"),
    ],
)
def test_a_wrong_limit_is_refused_by_name(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**wrong)


def test_a_wrong_place_to_listen_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="port: must be from 0 to 65535, not 70000"):
        Bind(port=70_000)
    with pytest.raises(ValueError, match="host: must be an address or a name"):
        Bind(host="")
