"""Bad values over gRPC are the caller's errors, and never failures of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import duration_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.rpc.credentials import EVERY_ROLE, Role, token_credential
from rota.server import commands_pb2
from rota.server.settings import Limits, Settings
from tests.server.kit import LOCAL, Served, asynchronous, served
from tests.server.memory_node import CONTRACT

SUBMIT = "/rota.v1.CommandSubmissionService/Submit"
OPEN = Settings(http=LOCAL, websocket=LOCAL, commands=LOCAL)
DEEP = "[" * 100_000 + "]" * 100_000
# What a command comes to that has no flaw: the memory node takes none.
TAKEN = "UNAVAILABLE"


def address_of(to: Served) -> str:
    assert to.entrance.commands is not None
    return to.entrance.commands.address


async def code_of(to: Served, request: bytes, path: str = SUBMIT, **metadata: str) -> str:
    """How the server answers these bytes."""
    async with grpc.aio.insecure_channel(address_of(to)) as channel:
        try:
            await channel.unary_unary(path)(request, metadata=tuple(metadata.items()))
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
    return "OK"


def request_with(transaction: dict[str, Any] | None = None, **command: Any) -> bytes:  # noqa: ANN401
    given = {"type": "private", "to": CONTRACT, "function": "transfer", **(transaction or {})}
    whole = {"command_id": "1", "act_as": ["alice"], **command}
    made = commands_pb2.Command(transaction=commands_pb2.Transaction(**given), **whole)
    return commands_pb2.SubmitRequest(command=made).SerializeToString()


BAD: dict[str, bytes] = {
    "NaN": request_with({"data_json": "NaN"}),
    "infinite": request_with({"data_json": "[Infinity]"}),
    "out of range": request_with({"data_json": "1e999"}),
    "out of range within": request_with({"data_json": '{"a":[1e999]}'}),
    "lone surrogate": request_with({"data_json": r'"\ud800"'}),
    "lone surrogate as a key": request_with({"data_json": r'{"\udfff":1}'}),
    "deep": request_with({"data_json": DEEP}),
    "unclosed": request_with({"data_json": "[" * 100_000}),
    "deep abi": request_with({"abi_json": DEEP}),
    "no JSON": request_with({"data_json": "{"}),
    "abi of numbers": request_with({"abi_json": "[1]"}),
    "too many values": request_with({"data_json": "[" + "1," * 300_000 + "1]"}),
    "no address": request_with({"to": "0x12"}),
    "no kind": request_with({"type": "both"}),
    "no gas": request_with({"gas": "much"}),
    "no UUID": request_with({"depends_on": ["x"]}),
    "word that is short": request_with({"abi_reference": b"x"}),
    "long name": request_with(command_id="x" * 100_000),
    "many parties": request_with(act_as=["a"] * 5_000),
    "many readers": request_with(read_as=["a"] * 5_000),
    "many dependencies": request_with({"depends_on": ["a"] * 5_000}),
    "negative duration": request_with(deduplication_duration=duration_pb2.Duration(seconds=-1)),
    "mixed duration": request_with(deduplication_duration=duration_pb2.Duration(seconds=1, nanos=-5)),
    "no message": b"\xff\xff\xff",
}


@pytest.mark.parametrize("name", BAD)
@asynchronous
async def test_bad_value_is_an_invalid_argument(name: str) -> None:
    async with served(settings=OPEN) as to:
        assert await code_of(to, BAD[name]) == "INVALID_ARGUMENT"
        assert await code_of(to, request_with({"data_json": '{"amount":1}'})) == TAKEN


@asynchronous
async def test_call_without_a_message_is_an_invalid_argument() -> None:
    async with served(settings=OPEN) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await channel.stream_unary(SUBMIT)(iter(()))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


class Loop:
    """A server in an event loop that examples share."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.serving = served(settings=OPEN)
        self.to = self.runner.run(self.serving.__aenter__())

    def code_of(self, request: bytes) -> str:
        return self.runner.run(code_of(self.to, request))

    def close(self) -> None:
        self.runner.run(self.serving.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


TEXTS = st.text(max_size=12) | st.sampled_from(["NaN", "1e999", r'"\ud800"', "[[", "{}", "null", "0", "-0.0", '"\0"'])
TRANSACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": TEXTS,
        "from": TEXTS,
        "domain": TEXTS,
        "to": TEXTS,
        "function": TEXTS,
        "data_json": TEXTS,
        "abi_json": TEXTS,
        "gas": TEXTS,
        "value": TEXTS,
        "bytecode": st.binary(max_size=4),
        "abi_reference": st.binary(max_size=33),
        "depends_on": st.lists(TEXTS, max_size=2),
    },
)
COMMANDS = st.fixed_dictionaries(
    {},
    optional={
        "command_id": TEXTS,
        "application_id": TEXTS,
        "party": TEXTS,
        "act_as": st.lists(TEXTS, max_size=2),
        "submission_id": TEXTS,
        "deduplication_offset": st.integers(-(2**63), 2**63 - 1),
    },
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TRANSACTIONS, COMMANDS)
def test_any_command_is_taken_or_an_invalid_argument(
    loop: Loop, transaction: dict[str, Any], command: dict[str, Any]
) -> None:
    assert loop.code_of(request_with(transaction, **command)) in ("INVALID_ARGUMENT", TAKEN)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_invalid_argument(loop: Loop, request: bytes) -> None:
    assert loop.code_of(request) in ("INVALID_ARGUMENT", TAKEN)


@asynchronous
async def test_families_of_a_credential_hold_over_grpc() -> None:
    credentials = (
        token_credential("other", EVERY_ROLE, "other", frozenset({"ptx"})),
        token_credential("commands", EVERY_ROLE, "commands", frozenset({"cmd", "ptx"})),
    )
    async with served(settings=Settings(http=LOCAL, websocket=LOCAL, commands=LOCAL, credentials=credentials)) as to:
        request = request_with({"data_json": "{}"})
        assert await code_of(to, request, authorization="Bearer other") == "PERMISSION_DENIED"
        assert await code_of(to, request, authorization="Bearer commands") == TAKEN
        stream = "/rota.v1.ConfigurationService/GetConfiguration"
        assert await code_of(to, b"", stream, authorization="Bearer other") == "PERMISSION_DENIED"


@asynchronous
async def test_message_of_a_stranger_is_not_received_over_grpc() -> None:
    """A stranger that announces a message is refused before it has sent it."""
    credentials = (token_credential("reader", frozenset({Role.READ}), "reader"),)
    limits = Limits(body_bytes_max=1_000_000)
    made = Settings(http=LOCAL, websocket=LOCAL, commands=LOCAL, credentials=credentials, limits=limits)
    async with served(settings=made) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        call = channel.stream_unary(SUBMIT)()
        # Nothing is ever sent.
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
