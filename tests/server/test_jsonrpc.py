"""The wire: ids, batches, notifications, errors, and everything that is no request."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from rota.ports.time_slice import SLICE_S
from rota.rpc.credentials import ANYBODY
from rota.rpc.methods import BEGUN_TOGETHER_MAX, UNDER_WAY_MAX, begun_in_order
from rota.server.jsonrpc import Dispatcher
from rota.server.metrics import EntranceMetrics
from rota.server.settings import Limits
from rota.server.table import TABLE
from tests.server.kit import TRANSFER, UNKNOWN_ID, asynchronous, served
from tests.server.memory_node import MemoryNode


def answered(body: bytes, node: MemoryNode | None = None, limits: Limits | None = None) -> object:
    """What a dispatcher answers to these bytes."""

    async def ask() -> bytes | None:
        metrics = EntranceMetrics(CollectorRegistry())
        dispatcher = Dispatcher(node or MemoryNode(), TABLE, limits or Limits(), metrics)
        return (await dispatcher.answer(body, ANYBODY)).body

    answer = asyncio.run(ask())
    return json.loads(answer) if answer is not None else None


def error_of(body: bytes, limits: Limits | None = None) -> tuple[int, str]:
    answer = answered(body, limits=limits)
    assert isinstance(answer, dict)
    assert answer["id"] is None
    return answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize(
    "written", ["1", "-7", "1.50", '"a"', "null", '{"b": [1, 2]}', "[]", "123456789012345678901234567890"]
)
def test_an_id_comes_back_as_it_was_written(written: str) -> None:
    body = f'{{"jsonrpc":"2.0","method":"transport_nodeName","id":{written}}}'.encode()

    async def ask() -> bytes | None:
        dispatcher = Dispatcher(MemoryNode(), TABLE, Limits(), EntranceMetrics(CollectorRegistry()))
        return (await dispatcher.answer(body, ANYBODY)).body

    assert asyncio.run(ask()) == f'{{"jsonrpc":"2.0","id":{written},"result":"node1"}}'.encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON: Input data was truncated"),
        (b'{"jsonrpc":"2.0","id":1,"meth', "not JSON: Input data was truncated"),
        (b'[{"id":1}', "not JSON: Input data was truncated"),
        (b"{} {}", "not JSON: JSON is malformed: trailing characters (byte 4)"),
        (b'{"id":"\xff"}', "not JSON: not UTF-8 at byte 7"),
    ],
)
def test_bad_json_is_a_parse_error(body: bytes, message: str) -> None:
    assert error_of(body) == (-32700, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"5", "a request is an object with method, params and id: Expected `object`, got `int`"),
        (b"[]", "a batch holds at least one request"),
        (b"{}", "method: must be the name of a method"),
        (b'{"method":5}', "method: must be the name of a method"),
        (b'{"jsonrpc":"1.0","method":"transport_nodeName"}', "jsonrpc: must be '2.0'"),
    ],
)
def test_json_that_is_no_request_is_refused_with_the_flaw(body: bytes, message: str) -> None:
    assert error_of(body) == (-32600, message)


def test_entry_of_a_batch_that_is_no_request_is_answered() -> None:
    answer = answered(b'[{},{"method":"transport_nodeName"}]')
    assert isinstance(answer, list)
    assert [each["error"]["code"] for each in answer] == [-32600]


def test_structure_of_a_body_and_of_a_call_are_bounded() -> None:
    limits = Limits(json_tokens_max=200, call_tokens_max=40)
    call = {"id": 1, "method": "transport_nodeName", "params": [list(range(60))]}
    answer = answered(json.dumps(call).encode(), limits=limits)
    assert isinstance(answer, dict)
    assert answer["error"]["message"] == "params: more than 40 texts, commas and brackets"
    body = json.dumps([{"id": n, "method": "transport_nodeName"} for n in range(60)]).encode()
    assert error_of(body, limits) == (-32600, "more than 200 texts, commas and brackets")


def test_answers_of_a_batch_are_bounded_together() -> None:
    batch = [{"id": n, "method": "rpc.discover"} for n in range(1_000)]
    limits = Limits(answer_bytes_max=1_000_000)
    answers = answered(json.dumps(batch).encode(), limits=limits)
    assert isinstance(answers, list)
    assert len(answers) == 1_000
    given = [each for each in answers if "result" in each]
    assert 1 < len(given) < 10
    assert len(json.dumps(given)) < 1.1 * limits.answer_bytes_max
    assert {each["error"]["code"] for each in answers if "error" in each} == {-32005}


def test_call_behind_answers_that_are_too_long_does_nothing() -> None:
    node = MemoryNode()
    batch = [{"id": n, "method": "rpc.discover"} for n in range(40)]
    batch += [{"id": 40, "method": "ptx_sendTransaction", "params": [TRANSFER]}]
    answers = answered(json.dumps(batch).encode(), node, Limits(answer_bytes_max=5_000))
    assert isinstance(answers, list)
    assert {each["error"]["code"] for each in answers} == {-32005}
    assert node.kept == {}


def test_short_answer_is_given_when_little_room_is_left() -> None:
    node = MemoryNode()
    call = {"id": 1, "method": "ptx_sendTransaction", "params": [TRANSFER]}
    answer = answered(json.dumps(call).encode(), node, Limits(answer_bytes_max=1))
    assert isinstance(answer, dict)
    assert len(node.kept) == 1
    assert "result" in answer


def test_loop_serves_others_between_entries_of_a_batch() -> None:
    async def count_turns(message: object) -> int:
        dispatcher = Dispatcher(MemoryNode(), TABLE, Limits(), EntranceMetrics(CollectorRegistry()))
        batch = json.dumps(message).encode()
        answering = asyncio.create_task(dispatcher.answer(batch, ANYBODY))
        turns = 0
        while not answering.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert (
        asyncio.run(count_turns([{"id": n, "method": "transport_nodeName"} for n in range(1_000)]))
        >= 1_000 // BEGUN_TOGETHER_MAX
    )

    many = {"id": 1, "method": "ptx_sendTransactions", "params": [[TRANSFER] * 1_000]}
    assert asyncio.run(count_turns(many)) >= 1_000 // BEGUN_TOGETHER_MAX


def test_parts_that_take_long_before_they_wait_begin_in_turns_of_their_own() -> None:
    begun_in_turn: list[int] = []

    async def part() -> None:
        begun_in_turn[-1] += 1
        ends_s = time.perf_counter() + SLICE_S
        while time.perf_counter() < ends_s:
            pass

    async def watch() -> None:
        while True:
            begun_in_turn.append(0)
            await asyncio.sleep(0)

    async def most_in_a_turn() -> int:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        assert len(await begun_in_order(part() for _ in range(20))) == 20
        watching.cancel()
        return max(begun_in_turn)

    assert asyncio.run(most_in_a_turn()) == 1


PARTS = UNDER_WAY_MAX + 44


def test_parts_of_one_message_that_are_under_way_are_bounded() -> None:
    under_way, most = 0, 0

    async def part(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        # One part begins in each turn: without a bound all of them would be under way.
        for _ in range(2 * PARTS):
            await asyncio.sleep(0)
        under_way -= 1
        return number

    async def all_parts() -> list[int]:
        return [task.result() for task in await begun_in_order(part(n) for n in range(PARTS))]

    assert asyncio.run(all_parts()) == list(range(PARTS))
    assert most == UNDER_WAY_MAX


def test_a_method_must_be_named_and_the_version_be_ours() -> None:
    assert answered(b'{"id":4}') == {
        "jsonrpc": "2.0",
        "id": 4,
        "error": {"code": -32600, "message": "method: must be the name of a method", "data": {"field": "method"}},
    }
    answer = answered(b'{"id":4,"jsonrpc":"1.0","method":"transport_nodeName"}')
    assert isinstance(answer, dict)
    assert answer["error"]["message"] == "jsonrpc: must be '2.0'"


def test_an_unknown_method_has_its_code_and_says_where_the_known_ones_are() -> None:
    answer = answered(b'{"id":4,"method":"eth_call"}')
    assert isinstance(answer, dict)
    assert answer["error"] == {
        "code": -32601,
        "message": "there is no method 'eth_call'; rpc.discover lists those that there are",
    }


def test_nesting_is_bounded_and_brackets_in_texts_do_not_count() -> None:
    deep = b'{"id":1,"method":"transport_nodeName","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert error_of(deep) == (-32600, "nested deeper than 64")
    unclosed = b"[" * 100_000
    assert error_of(unclosed) == (-32600, "nested deeper than 64")
    text = json.dumps("[" * 1_000 + '"\\')
    assert answered(f'{{"id":1,"method":"transport_nodeName","junk":{text}}}'.encode()) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": "node1",
    }


def test_just_the_allowed_depth_is_read() -> None:
    limits = Limits(json_depth_max=5)
    fits = b'{"id":1,"method":"transport_nodeName","junk":[[[[]]]],"more":[[[[]]]]}'
    assert answered(fits, limits=limits) == {"jsonrpc": "2.0", "id": 1, "result": "node1"}
    too_deep = fits.replace(b"[[[[]]]]}", b"[[[[[]]]]]}")
    assert error_of(too_deep, limits) == (-32600, "nested deeper than 5")


def test_a_batch_is_answered_in_its_order_without_its_notifications() -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 7, "method": "transport_nodeName"},
        {"jsonrpc": "2.0", "method": "ptx_sendTransaction", "params": [TRANSFER]},
        {"jsonrpc": "2.0", "id": 7, "method": "nothing"},
        5,
        {"jsonrpc": "2.0", "id": 7, "method": "ptx_getTransactionReceipt", "params": [UNKNOWN_ID]},
    ]
    node = MemoryNode()
    answers = answered(json.dumps(batch).encode(), node)
    assert isinstance(answers, list)
    assert [answer["id"] for answer in answers] == [7, 7, None, 7]
    assert answers[0]["result"] == "node1"
    assert [answer["error"]["code"] for answer in answers[1:3]] == [-32601, -32600]
    assert answers[3]["result"] is None
    assert len(node.kept) == 1


def test_a_batch_is_bounded() -> None:
    batch = b"[" + b",".join([b"{}"] * 4) + b"]"
    assert error_of(batch, Limits(batch_entries_max=3)) == (
        -32600,
        "a batch holds at most 3 requests, and this one has 4",
    )


def test_notifications_alone_have_no_answer() -> None:
    assert answered(b'[{"method":"transport_nodeName"},{"method":"nothing"}]') is None
    assert answered(b'{"method":"transport_nodeName"}') is None


@asynchronous
async def test_a_batch_of_notifications_is_answered_with_no_content() -> None:
    async with served() as to:
        assert await to.post(b'{"method":"transport_nodeName"}') == (204, None)


@asynchronous
async def test_requests_that_are_under_way_at_a_time_may_have_one_id() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node) as to:
        ids = [UNKNOWN_ID, UNKNOWN_ID.replace("1", "2"), UNKNOWN_ID.replace("1", "3")]
        waiting = [asyncio.create_task(to.call("ptx_getTransactionReceipt", each)) for each in ids]
        others = [asyncio.create_task(to.call("ptx_sendTransaction", TRANSFER)) for _ in range(3)]
        while node.waiting_count < 6:
            await asyncio.sleep(0)
        assert node.holding is not None
        node.holding.set()
        assert await asyncio.gather(*waiting) == [None, None, None]
        sent = await asyncio.gather(*others)
        assert len(set(sent)) == 3


@asynchronous
async def test_what_the_world_did_not_do_is_told_as_such() -> None:
    async with served(MemoryNode(is_away=True)) as to:
        assert await to.call("ptx_getTransactionReceipt", UNKNOWN_ID) == {
            "code": -32603,
            "message": "the node cannot do this now, try again: the store is away",
        }


@asynchronous
async def test_a_call_that_takes_too_long_is_given_up() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node, limits=Limits(call_timeout_ms=20)) as to:
        assert await to.call("ptx_getTransactionReceipt", UNKNOWN_ID) == {
            "code": -32603,
            "message": "the node cannot do this now, try again: "
            "ptx_getTransactionReceipt was not answered within 20 ms and may yet be done",
        }
        assert node.waiting_count == 0


@asynchronous
async def test_calls_beyond_the_bound_wait_for_their_turn() -> None:
    node = MemoryNode(holding=asyncio.Event())
    async with served(node, limits=Limits(calls_max=2)) as to:
        batch = [{"id": n, "method": "ptx_getTransactionReceipt", "params": [UNKNOWN_ID]} for n in range(20)]
        answers = asyncio.create_task(to.post(batch))
        while node.waiting_count < 2:
            await asyncio.sleep(0)
        assert node.holding is not None
        node.holding.set()
        status, given = await answers
        assert status == 200
        assert [each["id"] for each in given] == list(range(20))
        assert node.waiting_most == 2


class BrokenNode(MemoryNode):
    """One with a fault of our own, whose text is nobody's business."""

    async def receipt(self, intent: object) -> None:
        raise AssertionError("secret-of-the-house")


@asynchronous
async def test_our_own_fault_is_told_by_a_reference_only() -> None:
    async with served(BrokenNode()) as to:
        error = await to.call("ptx_getTransactionReceipt", UNKNOWN_ID)
        assert error["code"] == -32603
        assert error["message"].startswith("internal error; the node's log has it under ")
        assert "secret" not in json.dumps(error)
        _, figures = await to.get("/metrics")
        assert 'rota_rpc_calls_total{method="ptx_getTransactionReceipt",outcome="internal"} 1.0' in figures


class StoppingNode(MemoryNode):
    """One that answers nobody any more."""

    async def receipt(self, intent: object) -> None:
        given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        given_up.cancel()
        await given_up


@asynchronous
async def test_a_call_that_the_node_gives_up_has_an_answer() -> None:
    async with served(StoppingNode()) as to:
        batch = [
            {"id": 1, "method": "ptx_getTransactionReceipt", "params": [UNKNOWN_ID]},
            {"id": 2, "method": "transport_nodeName"},
        ]
        _, (given_up, answered_one) = await to.post(batch)
        assert given_up["error"]["code"] == -32603
        assert "will not be answered, as the node is stopping" in given_up["error"]["message"]
        assert answered_one["result"] == "node1"


@given(st.binary(max_size=200))
def test_any_bytes_get_an_error_and_never_a_failure_of_ours(body: bytes) -> None:
    assert_answer_is_theirs(body)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(TABLE)),
    JSON_VALUES
    | st.fixed_dictionaries({}, optional=dict.fromkeys(("transaction", "transactionId", "contract"), JSON_VALUES))
    | st.lists(st.fixed_dictionaries(dict.fromkeys(TRANSFER, JSON_VALUES)), max_size=2),
)
def test_any_parameters_of_any_method_get_an_answer_and_never_a_failure_of_ours(method: str, params: object) -> None:
    assert_answer_is_theirs(json.dumps({"id": 1, "method": method, "params": params}).encode())


def assert_answer_is_theirs(body: bytes) -> None:
    answer = answered(body)
    if answer is None:
        return
    entries: list[Any] = answer if isinstance(answer, list) else [answer]
    for each in entries:
        assert "result" in each or each["error"]["code"] != -32603, each
