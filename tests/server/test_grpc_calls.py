"""Calls over gRPC: what one caller or stranger can take from the others, and what ends a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rota.rpc.credentials import EVERY_ROLE
from rota.schema.commands import Completion
from rota.server import command_server
from rota.server.grpc_calls import STRANGERS_CALLS_MAX
from rota.server.settings import Limits
from rota.service.interface import CommandConfiguration, CommandSubmission
from tests.server.kit import asynchronous, served
from tests.server.memory_node import ClosedOffice, MemoryNode
from tests.server.test_command_inputs import SUBMIT, TAKEN, address_of, code_of, request_with
from tests.server.test_command_server import SETTINGS

CONFIGURATIONS = "/rota.v1.ConfigurationService/GetConfiguration"
CHECK = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
READER = (("authorization", "Bearer reader's token"),)
SHOP = "Bearer shop's token"


class StandingOffice(ClosedOffice):
    """Its configuration never changes, no command ends, and whoever follows them waits."""

    waiting = 0

    async def configurations(self) -> AsyncIterator[CommandConfiguration]:
        yield self.configuration()
        await asyncio.Event().wait()

    async def submit_and_wait(self, submission: CommandSubmission) -> Completion:
        self.waiting += 1
        await asyncio.Event().wait()
        raise self.closed


def standing_node() -> MemoryNode:
    node = MemoryNode()
    node.commands = StandingOffice()
    return node


async def ended(call: Any) -> str:  # noqa: ANN401  # gRPC has no types
    return str((await call.code()).name)


@pytest.mark.parametrize("path", [CHECK, REFLECTION])
def test_calls_of_strangers_are_bounded_and_health_is_answered_beside_them(path: str) -> None:
    @asynchronous
    async def run() -> None:
        async with served(settings=SETTINGS) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
            # They never send a message.
            held = [channel.stream_stream(path)() for _ in range(STRANGERS_CALLS_MAX - 1)]
            health = health_pb2_grpc.HealthStub(channel)
            watching = health.Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
            for _ in range(3):
                answer = await health.Check(health_pb2.HealthCheckRequest())
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            # The oldest made room for each of them.
            over = {asyncio.create_task(ended(call)) for call in held}
            done, waiting = await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result() for each in done} == {"RESOURCE_EXHAUSTED"}
            for each in waiting:
                each.cancel()

    run()


@asynchronous
async def test_health_tells_unknown_services_and_bad_requests() -> None:
    async with served(settings=SETTINGS) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        assert await code_of(to, b"\x0a\x01x", CHECK) == "NOT_FOUND"
        assert await code_of(to, b"\xff", CHECK) == "INVALID_ARGUMENT"
        call = channel.stream_unary(CHECK)()
        await call.done_writing()
        assert await ended(call) == "INVALID_ARGUMENT"
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="x"))
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


@asynchronous
async def test_calls_end_when_their_credentials_are_removed_or_changed() -> None:
    shop, reader = SETTINGS.credentials
    for credentials in ((shop,), (shop, replace(reader, families=frozenset({"ptx"})))):
        async with (
            served(standing_node(), settings=SETTINGS) as to,
            grpc.aio.insecure_channel(address_of(to)) as channel,
        ):
            stream = channel.unary_stream(CONFIGURATIONS)
            gone = stream(b"", metadata=READER)
            stays = stream(b"", metadata=(("authorization", SHOP),))
            await gone.read()
            await stays.read()
            to.entrance.use_credentials(credentials)
            assert await ended(gone) == "UNAUTHENTICATED"
            assert not stays.done()


@asynchronous
async def test_call_that_is_ended_in_the_middle_of_a_write_ends_when_the_write_is_done() -> None:
    """Else its status cannot be sent, and the caller waits for it for ever."""
    may_end, events = asyncio.Event(), list[str]()

    async def write() -> None:
        await may_end.wait()
        events.append("written")

    async def call() -> None:
        try:
            await command_server.written(write())
        except asyncio.CancelledError:
            events.append("ended")
            raise

    ended_call = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    ended_call.cancel()
    await asyncio.sleep(0)
    assert events == []
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await ended_call
    assert events == ["written", "ended"]


@asynchronous
async def test_one_caller_does_not_take_the_places_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_server, "CALLER_CALLS_MAX", 2)
    async with served(standing_node(), settings=SETTINGS) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        stream = channel.unary_stream(CONFIGURATIONS)
        held = [stream(b"", metadata=READER) for _ in range(2)]
        for each in held:
            await each.read()
        assert await ended(stream(b"", metadata=READER)) == "RESOURCE_EXHAUSTED"
        assert await code_of(to, request_with(), authorization=SHOP) == TAKEN


@asynchronous
async def test_call_whose_message_does_not_come_ends() -> None:
    settings = replace(SETTINGS, limits=Limits(receive_timeout_ms=50))
    async with served(settings=settings) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        call = channel.stream_unary(SUBMIT)(metadata=(("authorization", SHOP),))
        assert await ended(call) == "INVALID_ARGUMENT"


@asynchronous
async def test_messages_of_calls_under_way_are_bounded_by_caller() -> None:
    shop, reader = SETTINGS.credentials
    limits = Limits(body_bytes_max=1_000, bodies_bytes_max=2_000)
    settings = replace(SETTINGS, credentials=(shop, replace(reader, roles=EVERY_ROLE)), limits=limits)
    node = standing_node()
    async with served(node, settings=settings) as to, grpc.aio.insecure_channel(address_of(to)) as channel:
        wait = channel.unary_unary("/rota.v1.CommandService/SubmitAndWait")
        request = request_with({"data_json": '"' + "x" * 700 + '"'})
        held = wait(request, metadata=READER)
        while not node.commands.waiting:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
        assert await ended(wait(request, metadata=READER)) == "RESOURCE_EXHAUSTED"
        assert await code_of(to, request, authorization=SHOP) == TAKEN
        held.cancel()
