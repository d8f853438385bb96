"""Requests, notifications and batches: what is wrong with one is told with the specification's codes."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.ledger.embedded.control import CONTROL
from rota.ledger.embedded.errors import RpcError
from rota.ledger.embedded.jsonrpc import BATCH_MAX, Rpc
from rota.ledger.embedded.methods import METHODS
from rota.ledger.embedded.server import BODY_BYTES_MAX
from tests.ledger.embedded.client import Client, new_chain


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"", -32_700, "parse error"),
        (b"{", -32_700, "parse error"),
        (b"[" * 100_000, -32_700, "parse error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"a"} ,', -32_700, "parse error"),
        (b"\xff", -32_700, "parse error"),
        (b"1", -32_600, "invalid request"),
        (b"{}", -32_600, "invalid request"),
        (b'{"id":1,"method":"eth_chainId"}', -32_600, "invalid request"),
        (b'{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}', -32_600, "invalid request"),
        (b'{"jsonrpc":"2.0","id":1}', -32_600, "invalid request"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32_600, "invalid request"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"eth_chainId"}', -32_600, "invalid request"),
        (b'{"jsonrpc":"2.0","id":true,"method":"eth_chainId"}', -32_600, "invalid request"),
        (b"[]", -32_600, "empty batch"),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}', -32_601, "the method eth_nothing does not exist"),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}', -32_601, "notifications not"),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":{}}', -32_602, "params is a list"),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":"x"}', -32_602, "params is a list"),
    ],
)
def test_what_is_no_request_is_answered_with_its_code(client: Client, body: bytes, code: int, message: str) -> None:
    status, text = client.post_bytes(body)
    answer = json.loads(text)
    assert status == 200
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] == code
    assert answer["error"]["message"].startswith(message)


@pytest.mark.parametrize("request_id", [0, -5, "a", "", 1.5, None])
def test_an_answer_has_the_id_of_its_request(client: Client, request_id: object) -> None:
    answer = client.post({"jsonrpc": "2.0", "id": request_id, "method": "eth_chainId"})
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": "0x7a69"}


def test_a_notification_is_carried_out_and_not_answered(client: Client) -> None:
    assert client.post_bytes(b'{"jsonrpc":"2.0","method":"evm_mine"}') == (204, "")
    assert client.post_bytes(b'[{"jsonrpc":"2.0","method":"evm_mine"}]') == (204, "")
    assert client("eth_blockNumber") == "0x2"


def test_a_batch_answers_each_of_its_requests_by_itself(client: Client) -> None:
    answers = client.post(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "eth_chainId"},
            1,
            {"jsonrpc": "2.0", "id": "b", "method": "eth_nothing"},
            {"jsonrpc": "2.0", "method": "eth_chainId"},
        ]
    )
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        ("a", None),
        (None, -32_600),
        ("b", -32_601),
    ]


def test_batches_and_bodies_are_bounded(client: Client) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
    assert len(client.post([request] * BATCH_MAX)) == BATCH_MAX
    answer = client.post([request] * (BATCH_MAX + 1))
    assert answer["error"] == {"code": -32_600, "message": f"batch too large: at most {BATCH_MAX} requests"}
    status, text = client.post_bytes(b" " * (BODY_BYTES_MAX + 1))
    assert (status, text) == (413, f"a request has at most {BODY_BYTES_MAX} bytes\n")


def test_a_batch_with_a_large_answer_is_answered_in_part() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": ["latest", False]}
    answer = Rpc(new_chain(), response_bytes_max=3_000).answer(msgspec.json.encode([request] * 4))
    assert answer is not None
    codes = [each.get("error", {}).get("code") for each in msgspec.json.decode(answer)]
    assert codes == [None, None, -32_003, -32_003]


def test_those_in_the_same_process_ask_without_a_connection() -> None:
    rpc = Rpc(new_chain())
    assert asyncio.run(rpc.request("eth_getBlockTransactionCountByNumber", "latest")) == "0x0"
    with pytest.raises(RpcError, match="required argument 0: block"):
        asyncio.run(rpc.request("eth_getBlockTransactionCountByNumber"))


def test_a_browser_may_ask_and_a_visitor_is_told_what_this_is(client: Client) -> None:
    async def ask(method: str) -> tuple[int, str | None, str]:
        async with client.session.request(method, client.server.url) as response:
            return response.status, response.headers.get("Access-Control-Allow-Origin"), await response.text()

    assert client.run(ask("OPTIONS")) == (204, "*", "")
    status, _, text = client.run(ask("GET"))
    assert status == 405
    assert "JSON-RPC" in text


values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.sampled_from(["latest", "earliest", "pending", "0x0", "0x1", "0x" + "00" * 20, "0x" + "00" * 32, "0x02c0"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["to", "from", "data", "gas", "value", "topics", "address", "fromBlock", "blockHash", "x"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
# These take their time by design when they are asked for much.
CALM = sorted({*METHODS, *CONTROL} - {"evm_mine", "anvil_mine"})


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CALM), st.lists(values, max_size=3))
def test_whatever_is_asked_the_answer_is_json_rpc_and_the_chain_goes_on(method: str, parameters: list[Any]) -> None:
    chain = new_chain()
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
    answer = Rpc(chain).answer(body)
    assert answer is not None
    decoded = msgspec.json.decode(answer)
    assert ("result" in decoded) != ("error" in decoded)
    chain.mine()
