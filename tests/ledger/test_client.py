"""The JSON-RPC client: batches, patience, and nodes that refuse what others take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from rota.ledger.client import Call, ClientLimits, RpcClient, RpcRefused, TimedOut, place_of
from rota.ledger.follower import is_range_too_large
from rota.ledger.transports import RpcFailure
from rota.ports import Unavailable
from tests.ledger.chains import in_loop
from tests.ledger.fault_proxy import Answer, Ask, FaultProxy, Request, drop, proxied, times, with_status

LIMITS = ClientLimits(timeout_ms=5_000, backoff_ms=1, backoff_max_ms=5)


async def echo(request: Request, _: Ask) -> Answer:
    """A node whose every method answers with its parameters."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}


@asynccontextmanager
async def asking(limits: ClientLimits = LIMITS) -> AsyncIterator[tuple[FaultProxy, RpcClient]]:
    """A client of a node that echoes, and what stands between them."""
    async with proxied("") as (node, url):
        node.view = echo
        client = RpcClient(url, limits, jitter=lambda: 0.0)
        try:
            yield node, client
        finally:
            await client.close()


async def ask_many(client: RpcClient, count: int) -> list[object]:
    return list(await asyncio.gather(*(client.call("eth_echo", number) for number in range(count))))


# Batches.


@in_loop
async def test_calls_of_one_turn_leave_in_one_batch() -> None:
    async with asking() as (node, client):
        assert await ask_many(client, 10) == [[number] for number in range(10)]
        assert node.batches == [10]


@in_loop
async def test_single_call_is_no_batch() -> None:
    async with asking() as (node, client):
        bodies: list[object] = []

        async def look(request: web.Request, _: list[Request]) -> None:
            bodies.append(await request.json())

        node.fault = look
        await client.call("eth_echo")
        assert [type(body) for body in bodies] == [dict]


@in_loop
async def test_batch_has_at_most_as_many_calls_as_allowed() -> None:
    async with asking(replace(LIMITS, batch_max=4)) as (node, client):
        await ask_many(client, 10)
        assert sorted(node.batches) == [2, 4, 4]


@in_loop
async def test_batch_has_at_most_as_many_bytes_as_allowed() -> None:
    async with asking(replace(LIMITS, batch_bytes_max=2_000)) as (node, client):
        await asyncio.gather(*(client.call("eth_echo", "0x" + "00" * 400) for _ in range(4)))
        assert sorted(node.batches) == [2, 2]


@in_loop
async def test_answers_are_matched_by_id_in_any_order() -> None:
    async with asking() as (node, client):

        async def reversed_answers(_: web.Request, requests: list[Request]) -> web.StreamResponse | None:
            answers = [{"jsonrpc": "2.0", "id": each["id"], "result": each["params"]} for each in reversed(requests)]
            return web.json_response([{"jsonrpc": "2.0", "id": 10_000, "result": "of nobody"}, *answers])

        node.fault = reversed_answers
        assert await ask_many(client, 5) == [[number] for number in range(5)]


@in_loop
async def test_what_a_batch_leaves_unanswered_is_asked_again() -> None:
    async with asking() as (node, client):

        async def half(_: web.Request, requests: list[Request]) -> web.StreamResponse | None:
            some = requests[: max(1, len(requests) // 2)]
            return web.json_response([{"jsonrpc": "2.0", "id": each["id"], "result": each["params"]} for each in some])

        node.fault = half
        assert await ask_many(client, 6) == [[number] for number in range(6)]


@pytest.mark.parametrize(
    "refusal",
    [
        web.json_response({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch not supported"}}),
        web.Response(status=413, text="too large"),
        web.Response(status=400, text="bad request"),
    ],
)
@in_loop
async def test_node_that_refuses_batches_gets_single_requests(refusal: web.Response) -> None:
    async with asking() as (node, client):
        body, status = refusal.body, refusal.status

        async def refuse(_: web.Request, requests: list[Request]) -> web.StreamResponse | None:
            is_single = len(requests) == 1
            return None if is_single else web.Response(body=body, status=status, content_type="application/json")

        node.fault = refuse
        assert await ask_many(client, 9) == [[number] for number in range(9)]
        assert node.batches == [1] * 9


@in_loop
async def test_batches_grow_again_when_things_go_well() -> None:
    async with asking(replace(LIMITS, exchanges_max=1)) as (node, client):
        node.fault = times(1, with_status(413))
        await ask_many(client, 20)
        assert max(node.batches) == 10
        for _ in range(40):
            await ask_many(client, 20)
        assert max(node.batches) == 20


@in_loop
async def test_calls_that_belong_together_travel_together() -> None:
    async with asking(replace(LIMITS, batch_max=4)) as (node, client):
        calls = [Call("eth_echo", (number,)) for number in range(3)]
        one, other = await asyncio.gather(client.call_together(*calls), client.call_together(*calls))
        assert (one.answers, one.is_one_exchange) == (([0], [1], [2]), True)
        assert other.is_one_exchange
        assert node.batches == [3, 3]


@in_loop
async def test_calls_that_could_not_travel_together_say_so() -> None:
    async with asking(replace(LIMITS, batch_max=1)) as (_, client):
        together = await client.call_together(Call("eth_echo", (1,)), Call("eth_echo", (2,)))
        assert (together.answers, together.is_one_exchange) == (([1], [2]), False)


# Errors of the node.


@in_loop
async def test_error_of_the_node_is_a_value_with_code_message_and_data() -> None:
    async with asking() as (node, client):

        async def fail(request: Request, _: Ask) -> Answer:
            error = {"code": 3, "message": "execution reverted", "data": "0x1234"}
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}

        node.view = fail
        with pytest.raises(RpcRefused) as refused:
            await client.call("eth_call")
        assert refused.value.failure == RpcFailure(3, "execution reverted", "0x1234")
        together = await client.call_together(Call("eth_call"), Call("eth_call"))
        assert together.answers == (refused.value.failure,) * 2


@in_loop
async def test_single_request_that_is_too_large_is_refused() -> None:
    async with asking() as (node, client):
        node.fault = with_status(413)
        with pytest.raises(RpcRefused, match="too large"):
            await client.call("eth_echo")


@in_loop
async def test_answer_that_is_too_long_is_a_failure_among_the_answers() -> None:
    async with asking(replace(LIMITS, answer_bytes_max=1_000)) as (_, client):
        asked = Call("eth_echo", (1,)), Call("eth_echo", ("x" * 2_000,)), Call("eth_echo", (3,))
        first, second, third = (await client.call_together(*asked, attempts_max=2)).answers
        assert (first, third) == ([1], [3])
        assert isinstance(second, RpcFailure)
        assert is_range_too_large(second)


# Patience.


@pytest.mark.parametrize(
    "fault",
    [
        drop,
        with_status(429),
        with_status(429, Retry_After="0"),
        with_status(500),
        with_status(503, "busy"),
        with_status(502),
        with_status(200, "<html>a gateway's page</html>"),
    ],
)
@in_loop
async def test_passing_failure_is_not_noticed_by_the_caller(fault: Any) -> None:  # noqa: ANN401
    async with asking() as (node, client):
        node.fault = times(3, fault)
        assert await ask_many(client, 3) == [[0], [1], [2]]
        assert client.trouble == ""


@in_loop
async def test_plea_to_slow_down_that_comes_as_an_answer_is_heeded() -> None:
    async with asking() as (node, client):
        left = 3

        async def limit(request: Request, ask: Ask) -> Answer:
            nonlocal left
            if not left:
                return await echo(request, ask)
            left -= 1
            error = {"code": -32005, "message": "daily request count exceeded, request rate limited"}
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}

        node.view = limit
        assert await client.call("eth_echo", 1) == [1]


@in_loop
async def test_wish_of_retry_after_is_bounded() -> None:
    async with asking(replace(LIMITS, retry_after_max_ms=1)) as (node, client):
        node.fault = times(2, with_status(429, Retry_After="86400"))
        assert await client.call("eth_echo", 1) == [1]


@pytest.mark.slow
@in_loop
async def test_wish_of_retry_after_is_heeded() -> None:
    async with asking() as (node, client):
        asked_s: list[float] = []

        async def note(_: web.Request, __: list[Request]) -> web.StreamResponse | None:
            asked_s.append(asyncio.get_running_loop().time())
            return web.Response(status=429, headers={"Retry-After": "1"}) if len(asked_s) == 1 else None

        node.fault = note
        await client.call("eth_echo")
        assert asked_s[1] - asked_s[0] >= 0.99


@in_loop
async def test_node_that_does_not_answer_in_time_is_asked_again() -> None:
    async with asking(replace(LIMITS, timeout_ms=50)) as (node, client):
        never = asyncio.Event()

        async def hang(_: web.Request, __: list[Request]) -> web.StreamResponse | None:
            await never.wait()
            return None

        node.fault = times(2, hang)
        assert await client.call("eth_echo", 1) == [1]
        node.fault = hang
        with pytest.raises(TimedOut, match="did not answer in time"):
            await client.call("eth_echo", attempts_max=2)
        never.set()


@in_loop
async def test_trouble_tells_where_the_node_is_and_no_secret_of_its_address() -> None:
    client = RpcClient("http://alice:swordfish@127.0.0.1:1/v3/a-key?token=another", ClientLimits(timeout_ms=1_000))
    with pytest.raises(Unavailable):
        await client.call("eth_chainId", attempts_max=1)
    assert client.trouble.startswith("the Ethereum node at http://127.0.0.1:1 ")
    assert not any(secret in client.trouble for secret in ("alice", "swordfish", "a-key", "another"))
    await client.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://user:secret@rpc.example/v3/key", "https://rpc.example"),
        ("ws://[::1]:8546/", "ws://[::1]:8546"),
        ("http://localhost:8545", "http://localhost:8545"),
    ],
)
def test_place_of_an_address_is_scheme_host_and_port(url: str, place: str) -> None:
    assert place_of(url) == place


@in_loop
async def test_caller_that_names_a_bound_is_told_what_failed() -> None:
    async with asking() as (node, client):
        node.fault = with_status(503)
        with pytest.raises(Unavailable, match="is overloaded: HTTP 503 Service Unavailable"):
            await client.call("eth_echo", attempts_max=2)
        assert client.trouble == f"the Ethereum node at {client.url} is overloaded: HTTP 503 Service Unavailable"


@in_loop
async def test_while_the_node_fails_it_is_asked_one_thing_at_a_time() -> None:
    async with asking(replace(LIMITS, batch_max=1)) as (node, client):
        under_way, most = 0, 0

        async def count(_: web.Request, __: list[Request]) -> web.StreamResponse | None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return web.Response(status=503)

        node.fault = times(4, count)
        await client.call("eth_echo")
        most = 0
        node.fault = count
        with pytest.raises(Unavailable):
            await client.call("eth_echo", attempts_max=1)
        most = 0
        waiting = [asyncio.create_task(client.call("eth_echo", attempts_max=3)) for _ in range(10)]
        await asyncio.gather(*waiting, return_exceptions=True)
        assert most == 1


@in_loop
async def test_queue_is_bounded() -> None:
    async with asking(replace(LIMITS, queue_max=3)) as (_, client):
        waiting = [asyncio.create_task(client.call("eth_echo")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="3 requests wait for"):
            await client.call("eth_echo")
        await asyncio.gather(*waiting)
        assert await client.call("eth_echo", 1) == [1]


@in_loop
async def test_call_that_is_given_up_is_not_asked_any_more() -> None:
    async with asking() as (node, client):
        task = asyncio.create_task(client.call("eth_echo", 1))
        await asyncio.sleep(0)
        task.cancel()
        await client.call("eth_echo", 2)
        assert node.methods["eth_echo"] == 1


@in_loop
async def test_client_that_is_closed_leaves_nobody_waiting() -> None:
    async with asking() as (node, client):
        node.fault = with_status(503)
        waiting = asyncio.create_task(client.call("eth_echo"))
        while client.failure is None:
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Unavailable, match="the client was closed"):
            await waiting
        with pytest.raises(Unavailable, match="the client was closed"):
            await client.call("eth_echo")


# Settings.


@pytest.mark.parametrize("url", ["localhost:8545", "ftp://localhost", "", "file:///chain.ipc"])
def test_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url: must begin with http://, https://, ws:// or wss://, not"):
        RpcClient(url)


def test_limit_that_could_not_work_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="batch_max: must be at least 1, not 0"):
        ClientLimits(batch_max=0)


# WebSocket.

Handle = Callable[[web.WebSocketResponse, Any], Awaitable[None]]


@asynccontextmanager
async def socket_node(handle: Handle) -> AsyncIterator[str]:
    """A node that does this with every message on every WebSocket."""

    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await handle(socket, json.loads(message.data))
        return socket

    application = web.Application()
    application.router.add_get("/", serve)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking_socket(handle: Handle, limits: ClientLimits = LIMITS) -> AsyncIterator[RpcClient]:
    async with socket_node(handle) as url:
        client = RpcClient(url, limits)
        try:
            yield client
        finally:
            await client.close()


def answer_to(request: Request) -> Answer:
    return {"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}


@in_loop
async def test_exchanges_on_a_websocket_are_answered_in_any_order() -> None:
    held: list[Any] = []

    async def last_first(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        held.append(message)
        if len(held) == 3:
            for each in reversed(held):
                await socket.send_json(answer_to(each))

    async with asking_socket(last_first, replace(LIMITS, batch_max=1)) as client:
        assert await ask_many(client, 3) == [[0], [1], [2]]


@in_loop
async def test_websocket_that_refuses_a_batch_gets_single_requests() -> None:
    async def refuse(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no batches"}}
        await socket.send_json(error if isinstance(message, list) else answer_to(message))

    async with asking_socket(refuse) as client:
        assert await ask_many(client, 4) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("batch_max", [1, 100])
@in_loop
async def test_answer_on_a_websocket_that_is_too_long_is_a_failure_among_the_answers(batch_max: int) -> None:
    async def answer(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        is_batch = isinstance(message, list)
        await socket.send_json([answer_to(each) for each in message] if is_batch else answer_to(message))

    async with asking_socket(answer, replace(LIMITS, batch_max=batch_max, answer_bytes_max=1_000)) as client:
        for _ in range(2):
            asked = Call("eth_echo", (1,)), Call("eth_echo", ("x" * 2_000,)), Call("eth_echo", (3,))
            together, others = await asyncio.gather(client.call_together(*asked, attempts_max=2), ask_many(client, 5))
            first, second, third = together.answers
            assert (first, third) == ([1], [3])
            assert isinstance(second, RpcFailure)
            assert is_range_too_large(second)
            assert others == [[number] for number in range(5)]


@in_loop
async def test_websocket_that_ends_in_the_middle_is_made_anew() -> None:
    count = 0

    async def end_twice(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        if count <= 2:
            await socket.close()
        else:
            await socket.send_json(answer_to(message))

    async with asking_socket(end_twice) as client:
        assert await client.call("eth_echo", 1) == [1]


@in_loop
async def test_websocket_on_which_an_answer_does_not_come_in_time_is_given_up() -> None:
    count = 0

    async def silent_once(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        if count > 1:
            await socket.send_json(answer_to(message))

    async with asking_socket(silent_once, replace(LIMITS, timeout_ms=50)) as client:
        assert await client.call("eth_echo", 1) == [1]


@pytest.mark.parametrize("noise", ["{", '"word"', "[]", '{"jsonrpc": "2.0"}', '{"id": 99, "result": 1}'])
@in_loop
async def test_noise_on_a_websocket_is_lived_with(noise: str) -> None:
    count = 0

    async def noisy(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        if count == 1:
            await socket.send_str(noise)
        if not socket.closed:
            await socket.send_json(answer_to(message))

    async with asking_socket(noisy) as client:
        assert await client.call("eth_echo", 1) == [1]


@in_loop
async def test_subscription_is_made_anew_on_every_connection() -> None:
    heads: list[object] = []
    subscriptions = 0

    async def node(socket: web.WebSocketResponse, message: Any) -> None:  # noqa: ANN401
        nonlocal subscriptions
        if message["method"] == "eth_subscribe":
            subscriptions += 1
            await socket.send_json({"jsonrpc": "2.0", "id": message["id"], "result": "0x1"})
            told = {"subscription": "0x1", "result": {"number": hex(subscriptions)}}
            await socket.send_json({"jsonrpc": "2.0", "method": "eth_subscription", "params": told})
        elif message["params"] == ["end"]:
            await socket.close()
        else:
            await socket.send_json(answer_to(message))

    async with asking_socket(node, replace(LIMITS, batch_max=1)) as client:
        client.watch_heads(heads.append)
        await client.call("eth_echo")
        with pytest.raises(Unavailable):
            await client.call("eth_echo", "end", attempts_max=1)
        while subscriptions < 2:
            await client.call("eth_echo")
        while len(heads) < 2:
            await client.call("eth_echo")
        assert heads == [{"number": "0x1"}, {"number": "0x2"}]


@in_loop
async def test_web_server_without_websocket_is_told_apart() -> None:
    async with proxied("") as (_, url):
        client = RpcClient(url.replace("http", "ws"), LIMITS)
        with pytest.raises(Unavailable, match="does not speak JSON-RPC: HTTP 405 where a WebSocket was expected"):
            await client.call("eth_echo", attempts_max=1)
        await client.close()
