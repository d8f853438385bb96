"""The client against a server that answers as it is told to: what is repeated, what is not, and what errors mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from rota.client import (
    Behind,
    Client,
    ClientLimits,
    Closed,
    Failed,
    LeafDependency,
    Pending,
    Positions,
    Refused,
    Unreachable,
    Unsettled,
    bearer,
)
from rota.model.types import ContractAddress, IntentId
from tests.ledger.chains import in_loop

CONTRACT = ContractAddress("0x" + "c0" * 20)
ID = "00112233-4455-6677-8899-aabbccddeeff"
OTHER_ID = "ffeeddcc-bbaa-9988-7766-554433221100"
INTENT = IntentId(UUID(ID).bytes)
LIMITS = ClientLimits(
    timeout_ms=5_000,
    attempts_max=3,
    backoff_ms=1,
    backoff_max_ms=2,
    answer_bytes_max=1_000,
    look_ms=1,
    look_max_ms=2,
    look_apart_ms=10,
)

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
async def client_of(server: Server, positions: Positions | None = None, **headers: str) -> AsyncIterator[Client]:
    application = web.Application()
    application.router.add_post("/", server.answer)
    application.router.add_get("/readyz", server.readiness)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with Client(f"http://127.0.0.1:{port}/", LIMITS, headers, positions=positions or Positions()) as client:
        yield client
    await runner.cleanup()


POSITION = {
    "blockNumber": 7,
    "blockHash": "0x" + "07" * 32,
    "logIndex": 1,
    "contract": CONTRACT,
    "leaf": "0x" + "1e" * 32,
}
RECEIPT = {"id": ID, "sequence": 1, "success": True, "source": CONTRACT}


LEAVES = (LeafDependency(CONTRACT, ID, "0x11"), LeafDependency(CONTRACT, ID, "0x22", 5))


@in_loop
async def test_read_passes_positions_of_receipts_that_another_client_has_read() -> None:
    seen = Positions()
    there = {**POSITION, "nodes": ["node1", "node2"]}
    elsewhere = {**POSITION, "blockNumber": 8, "nodes": ["node1", "node3"]}
    writer = Server({"result": {**RECEIPT, "position": there}}, {"result": {**RECEIPT, "position": elsewhere}})
    async with client_of(writer, seen) as client:
        await client.receipt(ID)
        await client.receipt(OTHER_ID)
    reader = Server({"result": "node2"}, error(-32006, "node2 still lacks block 8"), {"result": "5"}, {"result": "6"})
    async with client_of(reader, seen) as client:
        assert await client.call(CONTRACT, "get", sender="bob") == "5"
        assert await client.call("0x" + "c1" * 20, "get", sender="bob") == "6"
    # It is told of no other node that holds states, and nothing but the block of what it holds nothing of.
    bare = {"blockNumber": 8, "blockHash": "0x" + "07" * 32, "logIndex": 1}
    assert parameters(reader.asked[1])[0]["atLeast"] == [{**POSITION, "nodes": ["node2"]}, bare]
    assert "atLeast" not in parameters(reader.asked[3])[0]


@in_loop
async def test_read_with_credentials_that_may_not_ask_for_the_nodes_name_waits_for_blocks_alone() -> None:
    seen = Positions()
    seen.note(CONTRACT, {**POSITION, "nodes": ["node2"]})
    server = Server(error(-32000, "the family 'transport'"), {"result": "5"}, {"result": "5"})
    async with client_of(server, seen) as client:
        assert await client.call(CONTRACT, "get", sender="bob") == "5"
        assert await client.call(CONTRACT, "get", sender="bob") == "5"
    assert "leaf" not in parameters(server.asked[1])[0]["atLeast"][0]


@in_loop
async def test_read_at_a_node_that_stays_behind_is_an_error() -> None:
    seen = Positions()
    seen.note(CONTRACT, POSITION)
    server = Server({"result": "node2"}, *[error(-32006, "node2 still lacks block 7")] * LIMITS.attempts_max)
    async with client_of(server, seen) as client:
        with pytest.raises(Behind, match="still lacks block 7"):
            await client.call(CONTRACT, "get", sender="bob")


@in_loop
async def test_position_of_another_chain_is_forgotten() -> None:
    seen = Positions()
    seen.note(CONTRACT, POSITION)
    server = Server(
        {"result": "node2"}, error(-32602, field="transaction.atLeast.chain"), {"result": "5"}, {"result": "5"}
    )
    async with client_of(server, seen) as client:
        assert await client.call(CONTRACT, "get", sender="bob") == "5"
        assert await client.call(CONTRACT, "get", sender="bob") == "5"
    assert [("atLeast" in parameters(asked)[0]) for asked in server.asked[1:]] == [True, False, False]


@in_loop
async def test_position_on_another_fork_is_refused_once() -> None:
    seen = Positions()
    seen.note(CONTRACT, POSITION)
    server = Server({"result": "node2"}, error(-32602, field="transaction.atLeast.blockHash"), {"result": "5"})
    async with client_of(server, seen) as client:
        with pytest.raises(Refused):
            await client.call(CONTRACT, "get", sender="bob")
        assert await client.call(CONTRACT, "get", sender="bob") == "5"


def test_positions_are_bounded() -> None:
    seen = Positions()
    for number in range(1_030):
        seen.note(f"0x{number:040x}", POSITION)
    for number in range(40):
        seen.note(CONTRACT, {**POSITION, "blockNumber": number})
        seen.note(CONTRACT, {**POSITION, "blockNumber": number})
    assert seen.of("0x" + "0" * 40) == ()
    assert [each["blockNumber"] for each in seen.of(CONTRACT)] == list(range(24, 40))


def parameters(asked: dict[str, object]) -> list[Any]:
    found = asked["params"]
    assert isinstance(found, list)
    return found


def error(code: int, message: str = "no", **details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "data": details}}


@in_loop
async def test_question_is_repeated_until_there_is_an_answer() -> None:
    server = Server(500, error(-32603, "the node cannot do this now"), {"result": None})
    async with client_of(server) as client:
        assert await client.receipt(ID) is None
    assert [asked["method"] for asked in server.asked] == ["ptx_getTransactionReceipt"] * 3
    assert len({str(asked["id"]) for asked in server.asked}) == 1


@in_loop
async def test_question_is_given_up_after_its_last_attempt() -> None:
    server = Server(500, 500, 500, {"result": None})
    async with client_of(server) as client:
        with pytest.raises(Unreachable, match="answers 500 and no JSON-RPC: 'not now'"):
            await client.receipt(ID)
    assert len(server.asked) == LIMITS.attempts_max


@in_loop
async def test_transaction_without_a_key_is_given_one_and_sent_again_under_it() -> None:
    server = Server(500, {"result": ID})
    async with client_of(server) as client:
        sent = await client.send(CONTRACT, "mint", sender="alice")
    first, again = (parameters(asked)[0] for asked in server.asked)
    assert (sent.id, sent.intent) == (ID, INTENT)
    assert UUID(first["idempotencyKey"]).version == 4
    assert first == again


@in_loop
async def test_transaction_with_a_key_is_sent_again_and_one_that_is_known_is_as_good_as_accepted() -> None:
    server = Server(500, error(-32001, "PD012220", transactionId=ID, same=True))
    async with client_of(server) as client:
        sent = await client.send(CONTRACT, "mint", {"data": "0x"}, sender="alice", key="k", depends_on=(ID, *LEAVES))
    assert sent.id == ID
    assert server.asked[1]["params"] == [
        {
            "type": "private",
            "from": "alice",
            "to": CONTRACT,
            "function": "mint",
            "data": {"data": "0x"},
            "dependsOn": [
                ID,
                {"contract": CONTRACT, "id": ID, "leaf": "0x11"},
                {"contract": CONTRACT, "id": ID, "leaf": "0x22", "validUntil": 5},
            ],
            "payees": "known",
            "idempotencyKey": "k",
        }
    ]


@in_loop
@pytest.mark.parametrize("same", [{"same": False}, {}])
async def test_key_that_the_client_made_is_its_own_whatever_the_node_compared(same: dict[str, object]) -> None:
    """The answer was lost, and the node cannot compare the requests now: nobody else knows the key."""
    server = Server(500, error(-32001, "PD012220", transactionId=ID, **same))
    async with client_of(server) as client:
        assert (await client.send(CONTRACT, "mint", {"data": "0x"}, sender="alice")).id == ID


@in_loop
async def test_key_that_was_used_for_something_else_is_an_error() -> None:
    server = Server(error(-32001, "PD012220", transactionId=ID, same=False))
    async with client_of(server) as client:
        with pytest.raises(Refused, match="PD012220"):
            _ = await client.send(CONTRACT, "mint", {"data": "0x"}, sender="alice", key="k")


@in_loop
async def test_key_whose_request_the_node_cannot_compare_is_neither_a_success_nor_a_conflict() -> None:
    answer = error(-32001, "PD012220", transactionId=ID, reason="its contract is gone")
    async with client_of(Server(answer, answer)) as client:
        with pytest.raises(Unsettled, match="PD012220") as unknown:
            _ = await client.send(CONTRACT, "mint", {"data": "0x"}, sender="alice", key="k")
        assert unknown.value.details == {"transactionId": ID, "reason": "its contract is gone"}
        with pytest.raises(Unsettled, match="PD012220"):
            await client.groups.create(members=["alice@node1"], key="k")


@in_loop
async def test_several_whose_answer_was_lost_are_found_by_their_keys() -> None:
    found: list[Answer] = [{"result": {"id": ID}}, {"result": {"id": OTHER_ID}}]
    server = Server(500, error(-32001, "PD012220", transactionIds=[None, None]), *found)
    async with client_of(server) as client:
        sent = await client.send_all(CONTRACT, [("mint", None), ("mint", None)], sender="alice")
    assert [each.id for each in sent] == [ID, OTHER_ID]
    keys = [each["idempotencyKey"] for each in parameters(server.asked[0])[0]]
    assert [parameters(asked)[0] for asked in server.asked[2:]] == keys


@in_loop
async def test_several_of_which_one_is_refused_are_no_success() -> None:
    server = Server(error(-32001, "PD012220", transactionIds=[None]), {"result": None})
    async with client_of(server) as client:
        with pytest.raises(Refused, match="PD012220"):
            await client.send_all(CONTRACT, [("mint", None)], sender="alice")


@in_loop
async def test_several_without_keys_are_asked_for_once() -> None:
    server = Server(500, {"result": [ID]})
    async with client_of(server) as client:
        with pytest.raises(Unreachable):
            await client.send_all(CONTRACT, [("mint", None)], sender="alice", is_keyed=False)
    assert len(server.asked) == 1


@in_loop
async def test_transaction_is_awaited_until_its_receipt_is_there_whoever_is_away_meanwhile() -> None:
    receipt = {"id": ID, "sequence": 4, "success": True, "contractAddress": CONTRACT}
    lost: list[Answer] = [500] * LIMITS.attempts_max
    async with client_of(Server({"result": None}, *lost, {"result": receipt})) as client:
        ended = await client.transaction(ID)
    assert (ended.success, ended.sequence, ended.contract_address) == (True, 4, CONTRACT)


@in_loop
async def test_transaction_that_failed_says_why_and_its_receipt_can_be_had_all_the_same() -> None:
    receipt: Answer = {"result": {"id": ID, "sequence": 4, "failureMessage": "PD200005: Insufficient funds"}}
    async with client_of(Server(receipt, receipt)) as client:
        with pytest.raises(Failed, match="PD200005: Insufficient funds") as caught:
            await client.transaction(ID)
        assert caught.value.receipt == await client.transaction(ID).ended()


class Undecided(Server):
    """A node at which nothing ends."""

    def __init__(self, explanation: object) -> None:
        super().__init__()
        self.explanation = explanation

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.asked.append(asked)
        return web.json_response({"result": self.explanation if asked["method"] == "seq_explain" else None})


@in_loop
async def test_transaction_that_takes_too_long_says_what_it_waits_for_and_goes_on() -> None:
    explanation = {
        "id": ID,
        "role": "sender",
        "state": "Delegated",
        "waitsFor": "the coordinator",
        "blockedBy": ["node2", "node3"],
        "history": [{"at": "2026-01-01T00:00:00Z", "text": "accepted"}],
    }
    async with client_of(Undecided(explanation)) as client:
        words = f"{ID} has not ended after 30 ms: Delegated: the coordinator; in the way: node2, node3"
        with pytest.raises(Pending, match=words) as caught:
            await client.transaction(ID).confirmed(timeout_ms=30)
    assert caught.value.explanation is not None
    assert caught.value.explanation.history[0].text == "accepted"


@in_loop
async def test_transaction_that_the_node_does_not_know_is_told_as_such() -> None:
    async with client_of(Undecided(None)) as client:
        with pytest.raises(Pending, match=f"does not know a transaction {ID}"):
            await client.transaction(ID).ended(timeout_ms=1)


@in_loop
async def test_many_that_are_waited_for_together_are_asked_about_more_rarely() -> None:
    server = Undecided(None)
    async with client_of(server) as client:
        waiting = [client.transaction(ID).ended(timeout_ms=500) for _ in range(100)]
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in ended} == {Pending}
    # The second look at each would be due after a hundred times `look_apart_ms`; a busy machine makes fewer first ones.
    looks = [asked for asked in server.asked if asked["method"] == "ptx_getTransactionReceipt"]
    assert 0 < len(looks) <= 100


@in_loop
async def test_a_node_that_stays_away_is_told_as_such_when_the_time_is_over() -> None:
    async with client_of(Server(*[500] * 1_000)) as client:
        with pytest.raises(Unreachable, match="answers 500"):
            await client.transaction(ID).ended(timeout_ms=100)


@in_loop
async def test_prepared_transaction_that_comes_to_nothing_is_not_waited_for() -> None:
    reverted: Answer = {"result": {"id": ID, "sequence": 1, "failureMessage": "too little"}}
    async with client_of(Server({"result": None}, {"result": None}, {"result": None}, reverted)) as client:
        with pytest.raises(Failed, match="too little"):
            await client.transaction(ID).leg()


@in_loop
async def test_refusal_names_the_field_and_is_not_repeated() -> None:
    server = Server(error(-32602, "to: must be a contract", field="to"))
    async with client_of(server) as client:
        with pytest.raises(Refused, match="to: must be a contract") as caught:
            _ = await client.send(CONTRACT, "mint", key="k")
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
                await client.receipt(ID)

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
    async with client_of(server, None, **bearer("secret")) as client:
        assert await client.name() == "node1"
        url = client.url
    assert server.headers == ["Bearer secret"]
    async with Client(url, LIMITS) as client:
        with pytest.raises(Unreachable):
            await client.name()
        with pytest.raises(Unreachable):
            await client.missing()


@pytest.mark.parametrize("url", ["nowhere", "127.0.0.1:31548", "ftp://127.0.0.1", "http://", ""])
def test_an_address_that_is_none_is_its_writer_s_fault(url: str) -> None:
    @in_loop
    async def story() -> None:
        async with Client(url, LIMITS) as client:
            for ask in (client.name(), client.missing(), anext(client.receipts("mine"))):
                with pytest.raises(Refused, match="url: must be such as") as caught:
                    await ask
                assert caught.value.field == "url"

    story()


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="attempts_max: must be at least 1"):
        ClientLimits(attempts_max=0)


@in_loop
async def test_client_that_was_closed_opens_nothing_again() -> None:
    """Whoever waited between two attempts when it was closed would leave a connection behind that nobody closes."""
    client = Client("http://127.0.0.1:1")
    await client.close()
    with pytest.raises(Closed, match="was closed"):
        await client.ask("transport_nodeName", is_repeatable=True)
    with pytest.raises(Closed):
        await client.transaction(ID).ended()
