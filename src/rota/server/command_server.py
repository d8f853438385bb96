"""The gRPC services of commands, with reflection and health, on a port of their own (`proto/rota/v1/commands.proto`).

Theory of operation. A request is converted to the same values as over JSON-RPC, and answered by the same node. Errors
are `google.rpc.Status` with an `ErrorInfo`: the error's id as its reason, and the metadata. Callers send the same
credentials as over HTTP, in the metadatum `authorization`, and each method needs the same role. Reflection and health
need none: they return nothing about commands (`grpc_calls.py`).

Requests are read as streams of one message: so nothing of a request is received before its caller is admitted, and an
unreadable message is the caller's error.

A deadline ends the waiting of a call, which gRPC does by cancelling it; the command continues. A subscriber is sent no
more than it reads: unread completions stay in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol

import grpc
import grpc.aio
import msgspec
from google.protobuf import any_pb2, duration_pb2, timestamp_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from rota.logs import catalogue
from rota.model.types import IntentId
from rota.ports import FOR_CALLER, Unanswerable, Unavailable
from rota.rpc.credentials import CALLER, Caller, Doorkeeper, Refused, Role, shown_trouble
from rota.rpc.errors import Rejected
from rota.rpc.formats import uuid_of
from rota.rpc.structure import flaw_of
from rota.schema.commands import (
    MICROSECONDS_PER_MS,
    MICROSECONDS_PER_S,
    CommandRejected,
    Completion,
    DeduplicationDuration,
    Failure,
    StatusCode,
)
from rota.server import commands_pb2
from rota.server.doors import Room
from rota.server.grpc_calls import CALLER_CALLS_MAX, CALLS_MAX, Ended, OpenCalls, OpenServices, TooManyCalls
from rota.server.settings import Bind, Limits
from rota.server.tls import ServerTls
from rota.service.commands.formats import (
    COMPLETIONS_PAGE_MAX,
    PARTIES_GIVEN_MAX,
    CommandInput,
    application_of,
    command_of,
    duration_text_of,
    invalid,
    outcome_of,
    submission_of_command,
)
from rota.service.interface import CommandSubmission, HasCommands, Operations, Transactions
from rota.service.parties import parties_of_command, require_own_contents, require_parties, require_rule
from rota.service.submissions.formats import DEPENDENCIES_MAX

ERROR_DOMAIN: Final = "rota"
# The family of the same methods over JSON-RPC.
FAMILY: Final = "cmd"
STOP_GRACE_S: Final = 0.5
# How long a call that is ended waits for a write in progress.
WRITE_ENDS_S: Final = 5.0
METADATA_BYTES_MAX: Final = 8_192
NANOSECONDS_PER_US: Final = 1_000
MILLISECONDS_PER_S: Final = 1_000
NANOS_MAX: Final = 999_999_999

_SERVICES: Final = {
    name: f"{commands_pb2.DESCRIPTOR.package}.{name}" for name in commands_pb2.DESCRIPTOR.services_by_name
}


class ServedNode(HasCommands, Transactions, Operations, Protocol):
    """The interfaces of a node that this server needs."""


class CommandServer:
    """Serves the commands of one node at one address."""

    def __init__(
        self, node: ServedNode, doorkeeper: Doorkeeper, bind: Bind, limits: Limits, tls: ServerTls | None = None
    ) -> None:
        self._node: Final = node
        self._doorkeeper: Final = doorkeeper
        self._bind: Final = bind
        self._limits: Final = limits
        self._tls: Final = tls
        self._server: Any = None
        self._calls: Final = OpenCalls(CALLER_CALLS_MAX)
        self._room: Final = Room(limits.bodies_bytes_max, limits.body_bytes_max)
        self.port = 0

    async def start(self) -> None:
        """Start to listen. `OSError` when the address cannot be bound."""
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=CALLS_MAX,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", self._limits.body_bytes_max),
                ("grpc.max_metadata_size", METADATA_BYTES_MAX),
                ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
            ],
        )
        for service, methods in self._methods().items():
            handler = grpc.method_handlers_generic_handler(_SERVICES[service], methods)
            self._server.add_generic_rpc_handlers((handler,))
        open_services = OpenServices(tuple(_SERVICES.values()), lambda: not self._node.readiness())
        self._server.add_generic_rpc_handlers(open_services.handlers())
        host = f"[{self._bind.host}]" if ":" in self._bind.host else self._bind.host
        try:
            place = f"{host}:{self._bind.port}"
            if self._tls is None:
                self.port = self._server.add_insecure_port(place)
            else:
                self.port = self._server.add_secure_port(place, self._tls.grpc_credentials())
        except RuntimeError as error:
            raise OSError(f"commands: cannot listen at {host}:{self._bind.port}: {error}") from error
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening; calls in progress have `STOP_GRACE_S` to end."""
        if self._server is not None:
            await self._server.stop(STOP_GRACE_S)
            self._server = None

    @property
    def address(self) -> str:
        """The address at which it listens."""
        host = f"[{self._bind.host}]" if ":" in self._bind.host else self._bind.host
        return f"{host}:{self.port}"

    def part_from(self, names: frozenset[str]) -> None:
        """End the calls of callers whose credentials are gone. An accepted command continues."""
        self._calls.end(names)

    # Methods.

    def _methods(self) -> dict[str, dict[str, Any]]:
        """Return the handlers by service, each registered with the JSON-RPC method that does the same."""
        proto = commands_pb2
        return {
            "CommandService": {
                "SubmitAndWait": self._unary(
                    "cmd_submitAndWait", proto.SubmitAndWaitRequest, Role.SUBMIT, self._submit_and_wait
                )
            },
            "CommandSubmissionService": {
                "Submit": self._unary("cmd_submit", proto.SubmitRequest, Role.SUBMIT, self._submit)
            },
            "CommandCompletionService": {
                "CompletionStream": self._stream(
                    "cmd_completions", proto.CompletionStreamRequest, Role.READ, self._completions
                ),
                "CompletionEnd": self._unary("cmd_completionEnd", proto.CompletionEndRequest, Role.READ, self._end),
            },
            "ConfigurationService": {
                "GetConfiguration": self._stream(
                    "cmd_configuration", proto.GetConfigurationRequest, Role.READ, self._configurations
                )
            },
            "PruningService": {"Prune": self._unary("cmd_prune", proto.PruneRequest, Role.OPERATE, self._prune)},
        }

    async def _submit(self, request: commands_pb2.SubmitRequest) -> commands_pb2.SubmitResponse:
        taken = await self._node.commands.submit(await self._submission(request.command))
        return commands_pb2.SubmitResponse(
            submission_id=taken.submission_id, transaction_id=_shown_id(taken.transaction)
        )

    async def _submit_and_wait(self, request: commands_pb2.SubmitAndWaitRequest) -> commands_pb2.SubmitAndWaitResponse:
        submission = await self._submission(request.command)
        completion = outcome_of(await self._node.commands.submit_and_wait(submission))
        return commands_pb2.SubmitAndWaitResponse(
            submission_id=completion.submission_id,
            transaction_id=_shown_id(completion.transaction),
            completion_offset=completion.offset,
        )

    async def _completions(
        self, request: commands_pb2.CompletionStreamRequest
    ) -> AsyncIterator[commands_pb2.CompletionStreamResponse]:
        """Yield all pages, and at each end of them a checkpoint, unless its offset has been sent already."""
        node_commands = self._node.commands
        after = request.begin_exclusive
        application = application_of(request.application_id)
        parties = tuple(_list_of("parties", request.parties, PARTIES_GIVEN_MAX))
        with _permitted():
            require_parties(CALLER.get(), parties, self._node.name)
        wanted = node_commands.subscription(application, parties, after)
        sent = -1
        while True:
            page = await node_commands.completions(wanted, after, COMPLETIONS_PAGE_MAX)
            for completion in page.completions:
                yield commands_pb2.CompletionStreamResponse(completion=_shown_completion(completion))
                sent = completion.offset
            after = page.checkpoint.offset
            if after < (await node_commands.end()).offset:
                continue
            if sent != after:
                at = commands_pb2.Checkpoint(offset=after, published_at=_timestamp(page.checkpoint.published_at_us))
                yield commands_pb2.CompletionStreamResponse(checkpoint=at)
                sent = after
            await node_commands.published(after)

    async def _end(self, _: commands_pb2.CompletionEndRequest) -> commands_pb2.CompletionEndResponse:
        return commands_pb2.CompletionEndResponse(offset=(await self._node.commands.end()).offset)

    async def _configurations(
        self, _: commands_pb2.GetConfigurationRequest
    ) -> AsyncIterator[commands_pb2.GetConfigurationResponse]:
        async for each in self._node.commands.configurations():
            longest = _duration(each.maximum_duration_ms * MICROSECONDS_PER_MS)
            yield commands_pb2.GetConfigurationResponse(max_deduplication_duration=longest)

    async def _prune(self, request: commands_pb2.PruneRequest) -> commands_pb2.PruneResponse:
        return commands_pb2.PruneResponse(pruned_up_to=await self._node.commands.prune(request.prune_up_to))

    async def _submission(self, command: commands_pb2.Command) -> CommandSubmission:
        given, caller = _input_of(command, self._limits), CALLER.get()
        with _permitted():
            require_parties(caller, parties_of_command(given), self._node.name)
            await require_own_contents(caller, (given.transaction,), self._node)
        return submission_of_command(given, self._node.name)

    # Around each call.

    def _unary(
        self, method: str, request: type[Message], role: Role, answer: Callable[[Any], Awaitable[Message]]
    ) -> Any:  # noqa: ANN401
        async def handle(given: AsyncIterator[bytes], context: Any) -> Message:  # noqa: ANN401
            try:
                caller = await self._admit(context, role, method)
                with _told():
                    async with self._under_way(caller), self._received(request, given, caller) as message:
                        return await answer(message)
            except CommandRejected as rejected:
                await context.abort_with_status(rpc_status.to_status(status_of(rejected.failure)))
                raise AssertionError("an aborted call is over") from None

        return grpc.stream_unary_rpc_method_handler(handle, response_serializer=_serialized)

    def _stream(
        self, method: str, request: type[Message], role: Role, answer: Callable[[Any], AsyncIterator[Message]]
    ) -> Any:  # noqa: ANN401
        # It writes instead of yielding: if a call is ended during a write, its status is sent after that message.
        async def handle(given: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401
            try:
                caller = await self._admit(context, role, method)
                with _told():
                    async with self._under_way(caller), self._received(request, given, caller) as message:
                        async for each in answer(message):
                            await written(context.write(each))
            except CommandRejected as rejected:
                await context.abort_with_status(rpc_status.to_status(status_of(rejected.failure)))

        return grpc.stream_stream_rpc_method_handler(handle, response_serializer=_serialized)

    async def _admit(self, context: Any, role: Role, method: str) -> Caller:  # noqa: ANN401
        """Return the caller by the same credentials as over HTTP; `CommandRejected` if it may not call the method."""
        shown = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            caller = await self._doorkeeper.admit(shown.get("authorization"), _address(context.peer()))
        except Refused as refused:
            raise CommandRejected(Failure(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", str(refused))) from None
        if role not in caller.roles:
            message = f"the role {role.value!r} is needed, which you lack"
            raise CommandRejected(Failure(StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", message))
        if caller.families is not None and FAMILY not in caller.families:
            message = f"commands are of the family {FAMILY!r}, and your credentials are for {caller.families_text}"
            raise CommandRejected(Failure(StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", message))
        with _permitted():
            require_rule(method, caller)
        CALLER.set(caller)
        FOR_CALLER.set(True)
        return caller

    @asynccontextmanager
    async def _under_way(self, caller: Caller) -> AsyncIterator[None]:
        """Count the call against its caller. Without credentials, callers cannot be distinguished."""
        if not self._doorkeeper.asks_credentials:
            yield
            return
        try:
            async with self._calls.of(caller.name):
                yield
        except TooManyCalls:
            message = f"your credentials have {CALLER_CALLS_MAX} calls under way, which is the most"
            raise CommandRejected(Failure(StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", message)) from None
        except Ended:
            message = "your credentials were removed or changed"
            raise CommandRejected(Failure(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", message)) from None

    @asynccontextmanager
    async def _received(
        self, kind: type[Message], messages: AsyncIterator[bytes], caller: Caller
    ) -> AsyncIterator[Message]:
        """Receive the one message of a call and count its bytes until the call is answered."""
        content: bytes | None = None
        try:
            async with asyncio.timeout(self._limits.receive_timeout_ms / MILLISECONDS_PER_S):
                async for content in messages:  # noqa: B007  # it is used behind the loop
                    break
        except TimeoutError:
            raise invalid("request", f"was not received in {self._limits.receive_timeout_ms} ms") from None
        if content is None:
            raise invalid("request", "is missing")
        if not self._room.has(len(content), caller):
            message = "too much is being answered at this moment; try again"
            raise CommandRejected(Failure(StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", message))
        with self._room.taken(len(content), caller):
            try:
                request = kind.FromString(content)
            except DecodeError as error:
                raise invalid("request", f"must be a {kind.DESCRIPTOR.full_name}: {error}") from None
            yield request


async def written(write: Awaitable[None]) -> None:
    """Write a message whole. A call that is ended meanwhile ends when the write is done, or after `WRITE_ENDS_S`.

    No status can be sent during a write, and the caller would wait for one indefinitely.
    """
    under_way = asyncio.ensure_future(write)
    try:
        await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.wait((under_way,), timeout=WRITE_ENDS_S)
        if under_way.done() and not under_way.cancelled():
            # The caller may have disconnected; then there is nothing to send a status to.
            under_way.exception()
        raise


@contextmanager
def _permitted() -> Iterator[None]:
    """Turn a rejection by the rules for party-restricted callers into PERMISSION_DENIED."""
    try:
        yield
    except Rejected as refused:
        raise CommandRejected(Failure(StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", str(refused))) from None


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors into statuses: the caller's error unchanged, unavailability as retryable, ours logged in full."""
    try:
        yield
    except (CommandRejected, asyncio.CancelledError, GeneratorExit):
        raise
    except Unanswerable as flaw:
        raise CommandRejected(Failure(StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", str(flaw))) from None
    except Unavailable as trouble:
        raise CommandRejected(
            Failure(StatusCode.UNAVAILABLE, "PARTICIPANT_UNAVAILABLE", f"{shown_trouble(trouble)}; try again")
        ) from None
    except Exception as error:
        catalogue.RPC_COMMAND_FAILED.log(error=error)
        raise CommandRejected(
            Failure(StatusCode.INTERNAL, "INTERNAL", "internal error; the node's log has it")
        ) from None


def status_of(failure: Failure | None) -> status_pb2.Status:
    """Return the gRPC status for a failure; OK for None."""
    if failure is None:
        return status_pb2.Status(code=StatusCode.OK.value)
    info = error_details_pb2.ErrorInfo(reason=failure.error_id, domain=ERROR_DOMAIN, metadata=dict(failure.metadata))
    detail = any_pb2.Any()
    detail.Pack(info)
    return status_pb2.Status(code=failure.code.value, message=failure.message, details=[detail])


def _input_of(command: commands_pb2.Command, limits: Limits) -> CommandInput:
    """Return a command as the same value as from JSON-RPC, so that both have the same checks and error texts."""
    given = command.transaction
    wanted: dict[str, object] = {"type": given.type or "private", "from": getattr(given, "from")}
    for name in ("domain", "to", "function", "gas", "value", "payees"):
        if getattr(given, name):
            wanted[name] = getattr(given, name)
    for name, field in (("data", "data_json"), ("abi", "abi_json")):
        if getattr(given, field):
            wanted[name] = _json_of(f"transaction.{field}", getattr(given, field), limits)
    if given.bytecode:
        wanted["bytecode"] = f"0x{given.bytecode.hex()}"
    if given.abi_reference:
        wanted["abiReference"] = f"0x{given.abi_reference.hex()}"
    if given.depends_on:
        wanted["dependsOn"] = _list_of("transaction.depends_on", given.depends_on, DEPENDENCIES_MAX)
    period = command.WhichOneof("deduplication_period")
    duration_us = _microseconds(command.deduplication_duration) if period == "deduplication_duration" else None
    return command_of(
        {
            "commandId": command.command_id,
            "transaction": wanted,
            "applicationId": command.application_id,
            "party": command.party,
            "actAs": _list_of("act_as", command.act_as, PARTIES_GIVEN_MAX),
            "readAs": _list_of("read_as", command.read_as, PARTIES_GIVEN_MAX),
            "submissionId": command.submission_id,
            "deduplicationDuration": str(duration_text_of(duration_us)) if duration_us is not None else None,
            "deduplicationOffset": command.deduplication_offset if period == "deduplication_offset" else None,
        }
    )


def _json_of(field: str, text: str, limits: Limits) -> object:
    """Decode a value that is written as JSON, within the same bounds as a call's parameters over JSON-RPC."""
    written = text.encode()
    if flaw := flaw_of(written, limits.json_depth_max, limits.call_tokens_max):
        raise invalid(field, flaw)
    try:
        return msgspec.json.decode(written)
    except msgspec.DecodeError as error:
        raise invalid(field, f"must be JSON: {error}") from None


def _list_of(field: str, given: Sequence[str], most: int) -> list[str]:
    if len(given) > most:
        raise invalid(field, f"must have at most {most} entries")
    return list(given)


def _microseconds(duration: duration_pb2.Duration) -> int:
    """Return the microseconds, rounded up; `invalid` for a malformed or negative duration."""
    seconds, nanos = duration.seconds, duration.nanos
    if abs(nanos) > NANOS_MAX or seconds * nanos < 0:
        raise invalid("deduplication_duration", "must have nanos of less than a second, and of the sign of its seconds")
    microseconds = abs(seconds) * MICROSECONDS_PER_S + -(-abs(nanos) // NANOSECONDS_PER_US)
    if seconds < 0 or nanos < 0:
        raise invalid("deduplication_duration", "must be 0 s or more")
    return microseconds


def _shown_completion(completion: Completion) -> commands_pb2.Completion:
    shown = commands_pb2.Completion(
        command_id=completion.command_id,
        application_id=completion.application_id,
        act_as=completion.parties,
        submission_id=completion.submission_id,
        status=status_of(completion.failure),
        transaction_id=_shown_id(completion.transaction),
        offset=completion.offset,
        published_at=_timestamp(completion.published_at_us),
        corrects_offset=completion.corrects or 0,
    )
    if isinstance(completion.period, DeduplicationDuration):
        shown.deduplication_duration.CopyFrom(_duration(completion.period.duration_us))
    else:
        shown.deduplication_offset = completion.period.offset
    return shown


def _duration(duration_us: int) -> duration_pb2.Duration:
    seconds, rest_us = divmod(duration_us, MICROSECONDS_PER_S)
    return duration_pb2.Duration(seconds=seconds, nanos=rest_us * NANOSECONDS_PER_US)


def _timestamp(unix_us: int) -> timestamp_pb2.Timestamp:
    seconds, rest_us = divmod(unix_us, MICROSECONDS_PER_S)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest_us * NANOSECONDS_PER_US)


def _shown_id(transaction: IntentId | None) -> str:
    return str(uuid_of(transaction)) if transaction is not None else ""


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _address(peer: str) -> str:
    """Strip kind and port from `ipv4:127.0.0.1:40000`, since attempts are counted by machine."""
    return peer.partition(":")[2].rpartition(":")[0] or peer
