"""The client against a server that answers as it is told to: what is repeated, what is not, and what errors mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from aiohttp import web

from rota.client import ClientLimits, NodeClient, Refused, Unreachable
from rota.client.node import bearer
from rota.types import ContractAddress, IntentId
from tests.ledger.chains import in_loop

CONTRACT = ContractAddress("0x" + "c0" * 20)
ID = "00112233-4455-6677-8899-aabbccddeeff"
INTENT = IntentId(UUID(ID).bytes)
LIMITS = ClientLimits(timeout_ms=5_000, attempts_max=3, backoff_ms=1, backoff_max_ms=2, answer_bytes_max=1_000)

Answer = dict[str, object] | str | int


class Server:
    """Gives its answers in their order, and keeps what it was asked. A number is a status, a text a whole body."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, object]] = []
        self.headers: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.headers.append(request.headers.get("Authorization", ""))
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            return web.Response(status=answer, text="not now")
        body = answer if isinstance(answer, str) else json.dumps({"jsonrpc": "2.0", "id": 1, **answer})
        return web.Response(text=body, content_type="application/json")

    async def readiness(self, _: web.Request) -> web.Response:
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            return web.Response(status=answer)
        return web.json_response(answer, status=503 if answer else 200)


@asynccontextmanager
async def client_of(server: Server, **headers: str) -> AsyncIterator[NodeClient]:
    application = web.Application()
    application.router.add_post("/", server.answer)
    application.router.add_get("/readyz", server.readiness)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with NodeClient(f"http://127.0.0.1:{port}/", LIMITS, headers) as client:
        yield client
    await runner.cleanup()


def error(code: int, message: str = "no", **details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "data": details}}


@in_loop
async def test_question_is_repeated_until_there_is_an_answer() -> None:
    server = Server(500, error(-32603, "the node cannot do this now"), {"result": None})
    async with client_of(server) as client:
        assert await client.receipt(INTENT) is None
    assert [asked["method"] for asked in server.asked] == ["ptx_getTransactionReceipt"] * 3
    assert len({str(asked["id"]) for asked in server.asked}) == 1


@in_loop
async def test_question_is_given_up_after_its_last_attempt() -> None:
    server = Server(500, 500, 500, {"result": None})
    async with client_of(server) as client:
        with pytest.raises(Unreachable, match="answers 500 and no JSON-RPC: 'not now'"):
            await client.receipt(INTENT)
    assert len(server.asked) == LIMITS.attempts_max


@in_loop
async def test_transaction_without_a_key_is_sent_once() -> None:
    server = Server(500, {"result": ID})
    async with client_of(server) as client:
        with pytest.raises(Unreachable):
            await client.send("alice", CONTRACT, "mint")
    assert len(server.asked) == 1


@in_loop
async def test_transaction_with_a_key_is_sent_again_and_one_that_is_known_is_as_good_as_accepted() -> None:
    server = Server(500, error(-32001, "PD012220", transactionId=ID))
    async with client_of(server) as client:
        assert await client.send("alice", CONTRACT, "mint", {"data": "0x"}, key="k", depends_on=(INTENT,)) == INTENT
    assert server.asked[1]["params"] == [
        {
            "type": "private",
            "from": "alice",
            "to": CONTRACT,
            "function": "mint",
            "data": {"data": "0x"},
            "dependsOn": [ID],
            "idempotencyKey": "k",
        }
    ]


@in_loop
async def test_refusal_names_the_field_and_is_not_repeated() -> None:
    server = Server(error(-32602, "to: must be a contract", field="to"))
    async with client_of(server) as client:
        with pytest.raises(Refused, match="to: must be a contract") as caught:
            await client.send("alice", CONTRACT, "mint", key="k")
    assert (caught.value.code, caught.value.field) == (-32602, "to")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "not one of JSON-RPC 2.0"),
        ({"error": "no"}, "not one of JSON-RPC 2.0"),
        ("[]", "not one of JSON-RPC 2.0"),
        ("x" * 2_000, "longer than 1000 bytes"),
        ({"result": {"id": 7}}, "not what it should be"),
    ],
)
def test_answer_that_is_none_is_told_as_such(answer: Answer, message: str) -> None:
    @in_loop
    async def story() -> None:
        async with client_of(Server(answer, answer, answer)) as client:
            with pytest.raises(Unreachable, match=message):
                await client.receipt(INTENT)

    story()


@in_loop
async def test_readiness_is_told_in_the_nodes_own_words() -> None:
    server = Server({"missing": ["the ledger: away"]}, {"missing": []}, 404)
    async with client_of(server) as client:
        assert await client.missing() == ("the ledger: away",)
        assert await client.missing() == ()
        with pytest.raises(Unreachable, match="answers 404"):
            await client.missing()


@in_loop
async def test_node_that_is_away_is_unreachable_and_the_token_goes_with_every_request() -> None:
    server = Server({"result": "node1"})
    async with client_of(server, **bearer("secret")) as client:
        assert await client.name() == "node1"
        url = client.url
    assert server.headers == ["Bearer secret"]
    async with NodeClient(url, LIMITS) as client:
        with pytest.raises(Unreachable):
            await client.name()
        with pytest.raises(Unreachable):
            await client.missing()


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="attempts_max: must be at least 1"):
        ClientLimits(attempts_max=0)


@in_loop
async def test_client_that_was_closed_opens_nothing_again() -> None:
    """Whoever waited between two attempts when it was closed would leave a connection behind that nobody closes."""
    client = NodeClient("http://127.0.0.1:1")
    await client.close()
    with pytest.raises(Unreachable, match="was closed"):
        await client.call("transport_nodeName", is_repeatable=True)
