"""Commands at real nodes: over JSON-RPC and over gRPC, one exact answer each; crashes at every point of the office."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from rota.client import Client, Refused
from rota.ledger.embedded import Settings
from rota.model.types import (
    AwaitedLeaf,
    ContractAddress,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Party,
    Rotation,
    SequencingChoice,
    SubmitMode,
)
from rota.schema.commands import (
    CommandRejected,
    Completion,
    DeduplicationDuration,
    DeduplicationOffset,
    Failure,
    Period,
    StatusCode,
)
from rota.server import commands_pb2
from rota.server.command_server import _shown_completion
from rota.server.configuration import CommandsSection
from rota.server.watched_files import FileWatch, WatchedMaximum
from rota.service.commands.commands import CommandOffice
from rota.service.commands.kept_submissions import decode_submission, encode_submission
from rota.service.interface import CommandSubmission, GasOptions, Submission, TransactionType, WhichPayees
from tests.service.kit import CHAIN_ID, Network, network
from tests.store.kit import in_loop

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
WEEK_MS = 604_800_000
END = 2**63 - 1


@asynccontextmanager
async def one_node(home: Path) -> AsyncIterator[tuple[Network, ContractAddress]]:
    """A node that runs, with a contract of its own."""
    async with network(home, NODE1) as made:
        made.settings = {"commands": CommandsSection(port=0)}
        await made.start(NODE1)
        yield made, await made.create(["alice@node1"])


def office(made: Network, name: NodeName = NODE1) -> CommandOffice:
    return made.processes[name].facade.commands


def command(
    contract: ContractAddress,
    command_id: str = "pay 1",
    *,
    function: str = "mint",
    data: Any = None,  # noqa: ANN401
    application_id: str = "shop",
    party: str = "",
    act_as: tuple[str, ...] = ("alice",),
    sender: str = "alice",
    period: Period | None = None,
    submission_id: str = "",
) -> CommandSubmission:
    transaction = Submission(TransactionType.PRIVATE, sender, to=contract, function=function, data=data)
    return CommandSubmission(application_id, command_id, party, act_as, transaction, submission_id, period)


async def failure_of(made: Network, submission: CommandSubmission) -> Failure:
    """Why it is refused."""
    with pytest.raises(CommandRejected) as rejected:
        await office(made).submit_and_wait(submission)
    return rejected.value.failure


async def all_completions(
    made: Network, *parties: str, application_id: str = "shop", after: int = 0
) -> list[Completion]:
    own = office(made)
    wanted = own.subscription(application_id, parties or ("alice",), after)
    return list((await own.completions(wanted, after, 500)).completions)


# The list, at a real node.


@in_loop
async def test_a_command_happens_once_and_is_told_so(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        first = await office(made).submit_and_wait(command(contract, submission_id="first"))
        assert first.failure is None
        assert (first.offset, first.period, first.submission_id) == (1, DeduplicationDuration(WEEK_MS * 1_000), "first")
        failure = await failure_of(made, command(contract, submission_id="second"))
        assert (failure.code, failure.error_id) == (StatusCode.ALREADY_EXISTS, "DUPLICATE_COMMAND")
        assert dict(failure.metadata)["completion_offset"] == "1"
        assert dict(failure.metadata)["existing_submission_id"] == "first"
        # Another payload under the same change id is the same change.
        failure = await failure_of(made, command(contract, function="spend"))
        assert failure.error_id == "DUPLICATE_COMMAND"
        # What was found at once is the answer, and no completion.
        assert [each.submission_id for each in await all_completions(made)] == ["first"]
        assert len(office(made).desk.entries) == 0


@in_loop
async def test_the_same_change_is_told_apart_by_user_and_parties_alone(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        both = ("alice", "bob")
        await own.submit_and_wait(command(contract, act_as=both))
        for act_as, party in ((("bob", "alice"), ""), (("alice@node1", "bob", "alice"), ""), (("bob",), "alice")):
            failure = await failure_of(made, command(contract, act_as=act_as, party=party))
            assert failure.error_id == "DUPLICATE_COMMAND"
        for other in (
            command(contract, application_id="bank", act_as=both),
            command(contract),
            command(contract, act_as=("alice", "bob", "carol")),
            command(contract, "pay 2", act_as=both),
        ):
            assert (await own.submit_and_wait(other)).failure is None
        assert own.desk.stream.end == 5


@in_loop
async def test_parallel_equal_submissions_through_both_services_have_one_acceptance(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        several = [own.submit_and_wait(command(contract, submission_id=f"wait {number}")) for number in range(5)]
        several += [own.submit(command(contract, submission_id=f"submit {number}")) for number in range(5)]  # type: ignore[misc]
        ended = await asyncio.gather(*several, return_exceptions=True)
        refused = [each.failure for each in ended if isinstance(each, CommandRejected)]
        assert len(refused) == 9
        assert {(each.code, each.error_id) for each in refused} == {
            (StatusCode.ABORTED, "SUBMISSION_ALREADY_IN_FLIGHT")
        }
        assert {dict(each.metadata)["existing_submission_id"] for each in refused} == {"wait 0"}
        assert [each.submission_id for each in await all_completions(made)] == ["wait 0"]


@in_loop
async def test_who_is_told_of_another_submission_is_told_of_one_that_will_have_a_completion(tmp_path: Path) -> None:
    """One that is refused at once has none: whoever came behind it is judged by itself."""
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        calls = [
            own.submit_and_wait(command(contract, function="nonsense", submission_id="refused")),
            own.submit_and_wait(command(contract, submission_id="good")),
            own.submit_and_wait(command(contract, submission_id="behind")),
        ]
        first, second, third = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, CommandRejected)
        assert first.failure.error_id == "TRANSACTION_REFUSED"
        assert isinstance(second, Completion)
        assert isinstance(third, CommandRejected)
        assert third.failure.error_id == "SUBMISSION_ALREADY_IN_FLIGHT"
        assert dict(third.failure.metadata)["existing_submission_id"] == "good"


@in_loop
async def test_periods_of_zero_by_offset_and_beyond_the_end(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        first = await own.submit_and_wait(command(contract))
        # The offset is inclusive, and the end is always one.
        failure = await failure_of(made, command(contract, period=DeduplicationOffset(first.offset)))
        assert (failure.error_id, dict(failure.metadata)["completion_offset"]) == ("DUPLICATE_COMMAND", "1")
        await own.submit_and_wait(command(contract, "another"))
        end = await own.end()
        assert end.offset == 2
        again = await own.submit_and_wait(command(contract, period=DeduplicationOffset(end.offset)))
        assert (again.failure, again.period) == (None, DeduplicationOffset(2))
        failure = await failure_of(made, command(contract, period=DeduplicationOffset(3)))
        assert (failure.error_id, dict(failure.metadata)["completion_offset"]) == ("DUPLICATE_COMMAND", "3")
        failure = await failure_of(made, command(contract, period=DeduplicationOffset(4)))
        assert (failure.code, failure.error_id) == (StatusCode.FAILED_PRECONDITION, "INVALID_DEDUPLICATION_PERIOD")
        assert dict(failure.metadata) == {"earliest_offset": "0"}
        while own._clock_us() <= again.published_at_us:
            await asyncio.sleep(0.001)
        zero = await own.submit_and_wait(command(contract, period=DeduplicationDuration(0)))
        assert (zero.failure, zero.period) == (None, DeduplicationDuration(0))
        failure = await failure_of(made, command(contract, period=DeduplicationDuration(315_576_000_000_000_000)))
        assert failure.error_id == "DUPLICATE_COMMAND"
        for period in (DeduplicationDuration(-1), DeduplicationOffset(-1), DeduplicationDuration(END)):
            failure = await failure_of(made, command(contract, period=period))
            assert failure.code is StatusCode.INVALID_ARGUMENT
        assert own.desk.stream.end == 4
        assert not own.desk.entries


@in_loop
async def test_a_rejection_between_acceptances_resets_nothing(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        await own.submit_and_wait(command(contract))
        another = await own.submit_and_wait(command(contract, "another"))
        rejected = await own.submit_and_wait(
            command(contract, function="revert", period=DeduplicationOffset(another.offset))
        )
        assert rejected.failure is not None
        assert (rejected.failure.code, rejected.failure.error_id) == (
            StatusCode.FAILED_PRECONDITION,
            "TRANSACTION_REVERTED",
        )
        assert rejected.transaction is not None
        failure = await failure_of(made, command(contract))
        assert (failure.error_id, dict(failure.metadata)["completion_offset"]) == ("DUPLICATE_COMMAND", "1")
        # A change that was only ever rejected may be tried again.
        assert (await own.submit_and_wait(command(contract, "pay 2", function="revert"))).failure is not None
        assert (await own.submit_and_wait(command(contract, "pay 2"))).failure is None


@in_loop
async def test_what_the_node_does_not_take_is_the_answer_and_leaves_nothing(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        cases = {
            "transaction.function": command(contract, function="nonsense"),
            "transaction.to": command(ContractAddress("0x" + "99" * 20)),
            "transaction.from": command(contract, sender="bob"),
        }
        for field, submission in cases.items():
            failure = await failure_of(made, submission)
            assert failure.code is StatusCode.INVALID_ARGUMENT
            assert dict(failure.metadata)["field"] == field
        assert not office(made).desk.entries
        assert (await office(made).store.restore())[1] == ()
        # The change id was not used up by it.
        assert (await office(made).submit_and_wait(command(contract))).failure is None


@in_loop
async def test_pruning_is_refused_within_the_maximum_and_then_forgets(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        for number in range(1, 4):
            await own.submit_and_wait(command(contract, f"pay {number}"))
        with pytest.raises(CommandRejected) as rejected:
            await own.prune(2)
        failure = rejected.value.failure
        assert (failure.code, failure.error_id) == (StatusCode.FAILED_PRECONDITION, "UNSAFE_TO_PRUNE")
        assert dict(failure.metadata) == {"safe_offset": "0"}
        with pytest.raises(CommandRejected) as rejected:
            await own.prune(4)
        assert rejected.value.failure.error_id == "OFFSET_AFTER_LEDGER_END"
        own.change_maximum(1)
        await _until_later(own)
        assert await own.prune(2) == 2
        assert await own.prune(1) == 2
        # A period that now reaches into pruned data is never shortened in silence.
        own.change_maximum(WEEK_MS)
        failure = await failure_of(made, command(contract, "pay 4", period=DeduplicationDuration(WEEK_MS * 1_000)))
        assert (failure.code, failure.error_id) == (StatusCode.FAILED_PRECONDITION, "INVALID_DEDUPLICATION_PERIOD")
        assert "longest_duration" in dict(failure.metadata)
        failure = await failure_of(made, command(contract, "pay 4", period=DeduplicationOffset(1)))
        metadata = dict(failure.metadata)
        assert (failure.error_id, metadata["earliest_offset"]) == ("PARTICIPANT_PRUNED_DATA_ACCESSED", "2")
        assert int(metadata["earliest_at_ms"]) == own.desk.stream.pruned_at_us // 1_000
        # The offset that the error names is judged whole: what was accepted there or later is a duplicate.
        for number in (2, 3):
            failure = await failure_of(made, command(contract, f"pay {number}", period=DeduplicationOffset(2)))
            assert (failure.error_id, dict(failure.metadata)["completion_offset"]) == ("DUPLICATE_COMMAND", str(number))
        # A duplicate that is still known is answered before a period that reaches too far back.
        failure = await failure_of(made, command(contract, "pay 3", period=DeduplicationOffset(1)))
        assert failure.error_id == "DUPLICATE_COMMAND"
        # Without a period everything that is left counts, and the completion says so.
        taken = await own.submit_and_wait(command(contract, "pay 1"))
        assert (taken.failure, taken.period) == (None, DeduplicationOffset(2))
        for begin, error_id in ((1, "PARTICIPANT_PRUNED_DATA_ACCESSED"), (5, "OFFSET_AFTER_LEDGER_END")):
            with pytest.raises(CommandRejected) as rejected:
                own.subscription("shop", ("alice",), begin)
            assert rejected.value.failure.error_id == error_id
        assert [each.offset for each in await all_completions(made, after=2)] == [3, 4]


async def _until_later(own: CommandOffice) -> None:
    """Time passes: the last completion is more than the maximum ago."""
    latest_us = (await own.end()).published_at_us
    while own._clock_us() <= latest_us + 2_000:
        await asyncio.sleep(0.001)


@in_loop
async def test_subscribers_see_their_own_user_and_parties_alone(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        own = office(made)
        await own.submit_and_wait(command(contract))
        await own.submit_and_wait(command(contract, act_as=("alice", "bob")))
        assert [each.offset for each in await all_completions(made, "alice")] == [1, 2]
        assert [each.offset for each in await all_completions(made, "bob", "carol")] == [2]
        assert [each.parties for each in await all_completions(made, "bob", "carol")] == [("bob@node1",)]
        assert [each.parties for each in await all_completions(made, "alice", "bob")][1:] == [
            ("alice@node1", "bob@node1")
        ]
        assert await all_completions(made, "carol") == []
        assert await all_completions(made, application_id="bank") == []
        with pytest.raises(CommandRejected, match="must be a party of this node"):
            own.subscription("shop", ("alice@node2",), 0)


@in_loop
async def test_another_node_does_not_know_of_it(tmp_path: Path) -> None:
    """Documented: deduplication is a node's own."""
    async with network(tmp_path, NODE1, NODE2) as made:
        await made.start(NODE1, NODE2)
        await made.connected()
        contract = await made.create(["alice@node1", "alice@node2"])
        for name in (NODE1, NODE2):
            assert (await office(made, name).submit_and_wait(command(contract))).failure is None
            assert (await office(made, name).end()).offset == 1


@pytest.mark.slow
@in_loop
async def test_a_command_survives_a_change_of_coordinator_in_the_middle(tmp_path: Path) -> None:
    names = (NODE1, NODE2, NodeName("node3"))
    async with network(tmp_path, *names) as made:
        await made.start(*names)
        await made.connected()
        contract = await made.create([f"alice@{name}" for name in names], threshold=2)
        first = await office(made).submit_and_wait(command(contract, "pay 0"))
        assert first.failure is None
        status = await made.processes[NODE1].facade.status(contract)
        assert status is not None
        coordinator = status.active_coordinator
        survivor = next(name for name in names if name != coordinator)
        taken = [await office(made, survivor).submit(command(contract, f"later {number}")) for number in range(3)]
        assert coordinator is not None
        await made.kill(coordinator)
        own = office(made, survivor)
        wanted = own.subscription("shop", ("alice",), 0)
        while len(found := (await own.completions(wanted, 0, 500)).completions) < len(taken) + (survivor == NODE1):
            await own.published(found[-1].offset if found else 0)
        assert all(each.failure is None for each in found)
        failure = None
        with pytest.raises(CommandRejected) as rejected:
            await own.submit(command(contract, "later 0"))
        failure = rejected.value.failure
        assert failure.error_id == "DUPLICATE_COMMAND"


@in_loop
async def test_a_call_on_the_base_ledger_is_a_command_too(tmp_path: Path) -> None:
    free = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
    playground = json.loads((Path(__file__).parents[1] / "contracts/artifacts/Playground.json").read_text())
    async with network(tmp_path, NODE1, chain_settings=free) as made:
        await made.start(NODE1)

        def public(command_id: str, **more: Any) -> CommandSubmission:  # noqa: ANN401
            transaction = Submission(TransactionType.PUBLIC, "alice", abi=tuple(playground["abi"]), **more)
            return CommandSubmission("shop", command_id, "", ("alice",), transaction)

        code = bytes.fromhex(playground["bytecode"].removeprefix("0x"))
        deployed = await office(made).submit_and_wait(public("deploy", bytecode=code, data=[7]))
        assert deployed.failure is None
        assert deployed.transaction is not None
        receipt = await made.processes[NODE1].facade.receipt(deployed.transaction)
        assert receipt is not None
        contract = receipt.contract
        stored = public("store", to=contract, function="store", data=[42])
        assert (await office(made).submit_and_wait(stored)).failure is None
        assert (await failure_of(made, stored)).error_id == "DUPLICATE_COMMAND"
        failing = await office(made).submit_and_wait(public("fail", to=contract, function="failWithText"))
        assert failing.failure is not None
        assert failing.failure.error_id == "TRANSACTION_REVERTED"
        taken = await office(made).submit(public("later", to=contract, function="store", data=[43]))
        await made.kill(NODE1)
        await made.start(NODE1)
        await office(made).published(3)
        (completion,) = await all_completions(made, after=3)
        assert (completion.submission_id, completion.transaction) == (taken.submission_id, taken.transaction)
        assert completion.failure is None


# Restarts.


@in_loop
async def test_what_was_acknowledged_is_completed_once_by_the_next_life(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract):
        taken = [await office(made).submit(command(contract, f"pay {number}")) for number in range(10)]
        await made.kill(NODE1)
        await made.start(NODE1)
        own = office(made)
        await own.published(len(taken) - 1)
        completions = await all_completions(made)
        assert sorted(each.submission_id for each in completions) == sorted(each.submission_id for each in taken)
        assert all(each.failure is None for each in completions)
        assert (await own.store.restore())[1] == ()
        for number in range(10):
            assert (await failure_of(made, command(contract, f"pay {number}"))).error_id == "DUPLICATE_COMMAND"


def test_a_transaction_outlives_the_process_with_every_field() -> None:
    """Whoever adds a field to a submission finds out here that commands must keep it."""
    submission = Submission(
        TransactionType.PUBLIC,
        "alice@node1",
        "noto",
        ContractAddress("0x" + "11" * 20),
        "f(uint256)",
        {"amount": 2**200, "list": [1, "x", None, {"deep": True}]},
        ({"type": "function", "name": "f"},),
        b"\x01" * 32,
        b"\x02\x03",
        "key",
        (IntentId(b"\x04" * 16),),
        SubmitMode.EXTERNAL,
        GasOptions(1, 2**200, 3, 4),
        WhichPayees.KNOWN,
        SequencingChoice(Mode.RING, Rotation.STRICT, 20),
        (AwaitedLeaf(ContractAddress("0x" + "22" * 20), IntentId(b"\x05" * 16), Leaf(b"\x06" * 32), 900),),
    )
    default = Submission(TransactionType.PRIVATE, "")
    for each in fields(Submission):
        assert getattr(submission, each.name) != getattr(default, each.name), f"{each.name} is not tried here"
    assert decode_submission(encode_submission(submission), "key") == submission
    some = replace(submission, sequencing=SequencingChoice(rotation=Rotation.STRICT))
    assert decode_submission(encode_submission(some), "key") == some


# gRPC.


def _error(error: grpc.aio.AioRpcError) -> tuple[str, str, dict[str, str]]:
    status = rpc_status.from_call(error)
    (detail,) = status.details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    assert info.domain == "rota"
    return error.code().name, info.reason, dict(info.metadata)


class Services:
    """A client of the gRPC services, without generated stubs."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    async def call(self, service: str, method: str, request: Any, answer: Any, **more: Any) -> Any:  # noqa: ANN401
        path = f"/rota.v1.{service}/{method}"
        stub = self.channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
        return await stub(request, **more)

    def stream(self, service: str, method: str, request: Any, answer: Any) -> Any:  # noqa: ANN401
        path = f"/rota.v1.{service}/{method}"
        return self.channel.unary_stream(path, type(request).SerializeToString, answer.FromString)(request)

    async def submit_and_wait(self, command: Any, **more: Any) -> Any:  # noqa: ANN401
        request = commands_pb2.SubmitAndWaitRequest(command=command)
        answer = commands_pb2.SubmitAndWaitResponse
        return await self.call("CommandService", "SubmitAndWait", request, answer, **more)

    async def submit(self, command: Any) -> Any:  # noqa: ANN401
        request = commands_pb2.SubmitRequest(command=command)
        return await self.call("CommandSubmissionService", "Submit", request, commands_pb2.SubmitResponse)


@asynccontextmanager
async def services(made: Network) -> AsyncIterator[Services]:
    server = made.processes[NODE1].entrance.commands
    assert server is not None
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Services(channel)


def grpc_command(contract: ContractAddress, command_id: str = "pay 1", **more: Any) -> Any:  # noqa: ANN401
    transaction = commands_pb2.Transaction(type="private", to=contract, function="mint", data_json="{}")
    fields_given = {"application_id": "shop", "command_id": command_id, "act_as": ["alice"], **more}
    return commands_pb2.Command(transaction=transaction, **fields_given)


@in_loop
async def test_grpc_services_answer_with_standard_errors(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract), services(made) as to:
        first = await to.submit_and_wait(grpc_command(contract, submission_id="first"))
        assert (first.submission_id, first.completion_offset) == ("first", 1)
        assert first.transaction_id
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await to.submit(grpc_command(contract))
        code, error_id, metadata = _error(error.value)
        assert (code, error_id) == ("ALREADY_EXISTS", "DUPLICATE_COMMAND")
        assert (metadata["completion_offset"], metadata["existing_submission_id"]) == ("1", "first")
        for given, expected in (
            ({"deduplication_offset": 9}, ("FAILED_PRECONDITION", "INVALID_DEDUPLICATION_PERIOD")),
            ({"deduplication_offset": -1}, ("INVALID_ARGUMENT", "INVALID_FIELD")),
            ({"deduplication_duration": duration_pb2.Duration(seconds=-1)}, ("INVALID_ARGUMENT", "INVALID_FIELD")),
            ({"command_id": ""}, ("INVALID_ARGUMENT", "MISSING_FIELD")),
            ({"application_id": ""}, ("INVALID_ARGUMENT", "MISSING_FIELD")),
            ({"act_as": []}, ("INVALID_ARGUMENT", "MISSING_FIELD")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await to.submit(grpc_command(contract, **given))
            assert _error(error.value)[:2] == expected
        taken = await to.submit(grpc_command(contract, "pay 2"))
        assert taken.submission_id
        request = commands_pb2.CompletionStreamRequest(application_id="shop", parties=["alice"])
        stream = to.stream(
            "CommandCompletionService", "CompletionStream", request, commands_pb2.CompletionStreamResponse
        )
        found = [await stream.read() for _ in range(2)]
        told = [each.completion for each in found if each.HasField("completion")]
        while len(told) < 2:
            told.append((await stream.read()).completion)
        stream.cancel()
        # A subscriber that nothing is for is told how far there is nothing.
        request = commands_pb2.CompletionStreamRequest(application_id="shop", parties=["carol"], begin_exclusive=1)
        stream = to.stream(
            "CommandCompletionService", "CompletionStream", request, commands_pb2.CompletionStreamResponse
        )
        assert (await stream.read()).checkpoint.offset == 2
        stream.cancel()
        for begin, error_id in ((3, "OFFSET_AFTER_LEDGER_END"), (-1, "INVALID_FIELD")):
            request.begin_exclusive = begin
            stream = to.stream(
                "CommandCompletionService", "CompletionStream", request, commands_pb2.CompletionStreamResponse
            )
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stream.read()
            assert _error(error.value)[1] == error_id
        assert [each.submission_id for each in told] == ["first", taken.submission_id]
        assert [each.status.code for each in told] == [0, 0]
        assert told[0].deduplication_duration.seconds == WEEK_MS // 1_000
        published = await all_completions(made)
        assert [each.published_at.ToMicroseconds() for each in told] == [each.published_at_us for each in published]
        end = await to.call(
            "CommandCompletionService",
            "CompletionEnd",
            commands_pb2.CompletionEndRequest(),
            commands_pb2.CompletionEndResponse,
        )
        assert end.offset == 2
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await to.call(
                "PruningService", "Prune", commands_pb2.PruneRequest(prune_up_to=1), commands_pb2.PruneResponse
            )
        assert _error(error.value) == ("FAILED_PRECONDITION", "UNSAFE_TO_PRUNE", {"safe_offset": "0"})


def test_correction_names_the_completion_that_it_corrects() -> None:
    completion = Completion(9, 5, "shop", "pay", (Party("alice@node1"),), "one", DeduplicationOffset(0))
    assert _shown_completion(completion).corrects_offset == 0
    assert _shown_completion(replace(completion, corrects=8)).corrects_offset == 8


@in_loop
async def test_a_deadline_ends_the_waiting_and_not_the_command(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, contract), services(made) as to:
        parked = grpc_command(contract, "wait for me")
        parked.transaction.function = "park"
        # A busy machine may let a short deadline pass before the node has the command.
        for deadline_s in (0.5, 2, 8, 32):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await to.submit_and_wait(parked, timeout=deadline_s)
            assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if office(made).desk.entries:
                break
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await to.submit_and_wait(parked)
        assert _error(error.value)[:2] == ("ABORTED", "SUBMISSION_ALREADY_IN_FLIGHT")
        (entry,) = office(made).desk.entries.values()
        assert entry.transaction is not None
        await made.processes[NODE1].facade.cancel(entry.transaction)
        await office(made).published(0)
        (completion,) = await all_completions(made)
        assert completion.failure is not None
        assert (completion.failure.code, completion.failure.error_id) == (StatusCode.CANCELLED, "TRANSACTION_CANCELLED")


@in_loop
async def test_configuration_is_streamed_and_health_and_reflection_are_there(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, _), services(made) as to:
        stream = to.stream(
            "ConfigurationService",
            "GetConfiguration",
            commands_pb2.GetConfigurationRequest(),
            commands_pb2.GetConfigurationResponse,
        )
        assert (await stream.read()).max_deduplication_duration.seconds == WEEK_MS // 1_000
        office(made).change_maximum(60_000)
        assert (await stream.read()).max_deduplication_duration.seconds == 60
        stream.cancel()
        health = health_pb2_grpc.HealthStub(to.channel)
        for service in ("", "rota.v1.CommandService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status in (health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING)
        reflected = reflection_pb2_grpc.ServerReflectionStub(to.channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        listed = {each.name async for answer in reflected for each in answer.list_services_response.service}
        assert {
            f"rota.v1.{name}"
            for name in (
                "CommandService",
                "CommandSubmissionService",
                "CommandCompletionService",
                "ConfigurationService",
                "PruningService",
            )
        } <= listed


@in_loop
async def test_a_maximum_that_changes_in_the_file_holds_without_a_restart(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (made, _):
        file = tmp_path / "config.toml"
        least = '[node]\nname = "node1"\n[ledger]\nurl = "http://127.0.0.1:1"\nchain_id = 1\nregistry = "0x{}"\n'
        files = FileWatch(WatchedMaximum(file, office(made)))
        for content, expected_ms in (
            ("[commands]\nmaximum_duration_ms = 60000\n", 60_000),
            ("[commands]\nmaximum_duration_ms = -5\n", 60_000),
            ("", WEEK_MS),
        ):
            file.write_text(least.format("11" * 20) + content)
            files.look()
            assert office(made).configuration().maximum_duration_ms == expected_ms


# JSON-RPC.


@in_loop
async def test_json_rpc_answers_the_same(tmp_path: Path) -> None:
    async with (
        one_node(tmp_path) as (made, contract),
        Client(made.processes[NODE1].entrance.http_url, payees="any") as client,
    ):
        transaction = {"type": "private", "to": contract, "function": "mint"}
        wanted = {"applicationId": "shop", "commandId": "pay 1", "actAs": ["alice"], "transaction": transaction}
        outcome = await client.ask("cmd_submitAndWait", {**wanted, "submissionId": "first"})
        assert isinstance(outcome, dict)
        assert (outcome["submissionId"], outcome["completionOffset"]) == ("first", 1)
        with pytest.raises(Refused) as refused:
            await client.ask("cmd_submit", wanted)
        assert refused.value.code == -32_002
        assert refused.value.details["statusCode"] == "ALREADY_EXISTS"
        assert refused.value.details["errorId"] == "DUPLICATE_COMMAND"
        metadata = refused.value.details["metadata"]
        assert isinstance(metadata, dict)
        assert metadata["existing_submission_id"] == "first"
        await client.ask("cmd_submit", {**wanted, "commandId": "pay 2", "deduplicationDuration": "1.5s"})
        found: list[Any] = []
        after = 0
        while len(found) < 2:
            page: Any = await client.ask("cmd_completions", ["alice"], after, "shop")
            found += page["completions"]
            after = page["checkpoint"]
        assert [each["offset"] for each in found] == [1, 2]
        assert [each["deduplicationDuration"] for each in found] == ["604800s", "1.500s"]
        assert await client.ask("cmd_completionEnd") == 2
        assert await client.ask("cmd_configuration") == {"maxDeduplicationDuration": "604800s"}
        with pytest.raises(Refused) as refused:
            await client.ask("cmd_prune", 1)
        assert refused.value.details["errorId"] == "UNSAFE_TO_PRUNE"
        with pytest.raises(Refused) as refused:
            await client.ask("cmd_submit", {**wanted, "deduplicationOffset": -1})
        assert refused.value.details["statusCode"] == "INVALID_ARGUMENT"
        # Nothing new: the answer comes when the time is over, with how far it was read.
        page = await client.ask("cmd_completions", ["alice"], 2, "shop", None, 1)
        assert page == {"completions": [], "checkpoint": 2}
        # A time that passes is a deadline: the command goes on.
        parked = {**wanted, "commandId": "pay 3", "transaction": {**transaction, "function": "park"}}
        with pytest.raises(Refused) as refused:
            await client.ask("cmd_submitAndWait", parked, 100)
        assert refused.value.details["statusCode"] == "DEADLINE_EXCEEDED"
