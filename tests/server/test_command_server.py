"""Who may submit commands in whose name, over gRPC and over JSON-RPC."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from rota.rpc.credentials import EVERY_ROLE, Role, token_credential
from rota.rpc.formats import read
from rota.server import commands_pb2
from rota.server.settings import Bind, Settings
from rota.service.commands.formats import DurationText
from tests.server.kit import LOCAL, Served, asynchronous, served
from tests.server.memory_node import CONTRACT

CREDENTIALS = (
    token_credential("shop", EVERY_ROLE, "shop's token"),
    token_credential("reader", frozenset({Role.READ}), "reader's token"),
)
SETTINGS = Settings(http=LOCAL, websocket=LOCAL, commands=LOCAL, credentials=CREDENTIALS)


async def submitted(to: Served, application_id: str, token: str | None) -> tuple[str, str]:
    """The status code and the error's id."""
    server = to.entrance.commands
    assert server is not None
    transaction = commands_pb2.Transaction(type="private", to=CONTRACT, function="transfer")
    command = commands_pb2.Command(
        application_id=application_id, command_id="1", act_as=["alice"], transaction=transaction
    )
    metadata = (("authorization", f"Bearer {token}"),) if token is not None else None
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = channel.unary_unary(
            "/rota.v1.CommandSubmissionService/Submit",
            commands_pb2.SubmitRequest.SerializeToString,
            commands_pb2.SubmitResponse.FromString,
        )
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub(commands_pb2.SubmitRequest(command=command), metadata=metadata)
    (detail,) = rpc_status.from_call(error.value).details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    return error.value.code().name, info.reason


@asynchronous
async def test_the_user_is_whoever_the_credentials_say() -> None:
    async with served(settings=SETTINGS) as to:
        assert await submitted(to, "shop", None) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
        assert await submitted(to, "shop", "another token") == ("UNAUTHENTICATED", "UNAUTHENTICATED")
        assert await submitted(to, "reader", "reader's token") == ("PERMISSION_DENIED", "PERMISSION_DENIED")
        assert await submitted(to, "bank", "shop's token") == ("PERMISSION_DENIED", "PERMISSION_DENIED")
        # Let in, it comes to an office that is closed.
        for application_id in ("shop", ""):
            assert await submitted(to, application_id, "shop's token") == ("UNAVAILABLE", "PARTICIPANT_UNAVAILABLE")


@asynchronous
async def test_the_user_is_whoever_the_credentials_say_over_json_rpc() -> None:
    async with served(settings=SETTINGS) as to:
        transaction = {"type": "private", "to": CONTRACT, "function": "transfer"}
        for application_id, expected in (("bank", "PERMISSION_DENIED"), ("shop", "UNAVAILABLE"), (None, "UNAVAILABLE")):
            command = {
                "applicationId": application_id,
                "commandId": "1",
                "actAs": ["alice"],
                "transaction": transaction,
            }
            answer: Any = await to.call("cmd_submit", command, Authorization="Bearer shop's token")
            assert answer["code"] == -32_002
            assert answer["data"]["statusCode"] == expected


def test_grpc_without_credentials_is_for_loopback_alone() -> None:
    with pytest.raises(ValueError, match=r"commands: 0\.0\.0\.0 is reached from other machines"):
        Settings(http=LOCAL, websocket=LOCAL, commands=Bind("0.0.0.0", 0))


@pytest.mark.parametrize(
    ("given", "expected_us"),
    [
        ("0s", 0),
        ("1.5s", 1_500_000),
        ("0.000001s", 1),
        ("0.0000001s", 1),
        ("-1s", -1_000_000),
        ("604800s", 604_800_000_000),
    ],
)
def test_durations_are_read_as_protobuf_writes_them_and_rounded_to_be_longer(given: str, expected_us: int) -> None:
    assert read(DurationText, given).microseconds == expected_us


@pytest.mark.parametrize("given", ["", "5", "s", "1h", "1.5", 30, None, "1.0000000001s"])
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="must be seconds with an s"):
        read(DurationText, given)
