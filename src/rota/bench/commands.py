"""The cost of commands: compared with plain transactions, with many known changes, and for a late subscriber.

rates       three nodes in processes of their own on an embedded chain; one of them gets transactions, in turns as
            plain ones (`ptx_sendTransaction`) and as commands (`cmd_submit`), in batches of the same size and with the
            same number under way, until all of a turn have ended; each replaces one shared state, so that the size of
            the state stays the same
look-up     the latest acceptance of one change at a time, on SQLite, with few and with many known changes
subscriber  one node whose database has many completions; a gRPC stream reads them from the beginning, and then some
            that are published while it reads
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import grpc
import grpc.aio

from rota.commands.changes import change_of
from rota.commands.effects import Closing, InFlight
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.config import Config
from rota.model.types import ContractAddress, IntentId, NodeName, Party
from rota.schema.commands import ChangeId, Command, Completion, DeduplicationDuration
from rota.server import commands_pb2
from rota.store import DatabaseCommands, DatabaseStore, SqliteDatabase

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
THRESHOLD: Final = 2
PARTY: Final = "alice"
APPLICATION: Final = "bench"
TURN_DEFAULT: Final = 1_000
TURNS_DEFAULT: Final = 3
BATCH: Final = 50
OPEN_MAX: Final = 400
POSTS_MAX: Final = 4
LOOK_S: Final = 0.02
STALLED_S: Final = 120.0
FEW_CHANGES: Final = 1_000
MANY_CHANGES: Final = 1_000_000
LOOK_UPS: Final = 2_000
WARM_UPS: Final = 500
FILL_BATCH: Final = 10_000
COMPLETIONS_DEFAULT: Final = 50_000
LATER: Final = 20
WEEK_MS: Final = 604_800_000
PERCENT: Final = 100
MILLISECONDS_PER_S: Final = 1_000
# Index in /proc/PID/stat behind the parenthesised name: user time; system time is the next field.
USER_FIELD: Final = 11
MICROSECONDS_PER_S: Final = 1_000_000

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RateFigures:
    """Submissions a second until all have ended, by turn, and the medians; commands are `apart_percent` slower.

    `_processor_ms` is the processor time of all processes for a submission, on average: it depends less than the rates
    on other work of the machine.
    """

    turn: int
    plain_per_s: list[float]
    commands_per_s: list[float]
    plain_median_per_s: float
    commands_median_per_s: float
    apart_percent: float
    plain_processor_ms: float
    commands_processor_ms: float


@dataclass(frozen=True, slots=True)
class LookUpFigures:
    """Microseconds of one look-up; `ratio` is that of the medians."""

    few: int
    many: int
    few_median_us: float
    many_median_us: float
    few_p99_us: float
    many_p99_us: float
    ratio: float


@dataclass(frozen=True, slots=True)
class SubscriberFigures:
    """The completions that a late subscriber received, and how many were missing or repeated."""

    completions: int
    later: int
    gaps: int
    repeats: int
    first_ms: float
    took_s: float
    completions_per_s: float


def measure_rates(
    turn: int = TURN_DEFAULT, turns: int = TURNS_DEFAULT, progress: Progress = lambda _: None
) -> RateFigures:
    """Measure the rates of commands and of plain transactions."""
    with TemporaryDirectory(prefix="rota-commands-") as folder:
        return asyncio.run(_rates(Path(folder) / "network", turn, turns, progress))


def measure_look_up(
    few: int = FEW_CHANGES, many: int = MANY_CHANGES, progress: Progress = lambda _: None
) -> LookUpFigures:
    """Measure look-ups with few and with many known changes."""
    with TemporaryDirectory(prefix="rota-changes-") as folder:
        return asyncio.run(_look_up(Path(folder), few, many, progress))


def measure_subscriber(
    completions: int = COMPLETIONS_DEFAULT, progress: Progress = lambda _: None
) -> SubscriberFigures:
    """Measure a subscriber that subscribes late."""
    with TemporaryDirectory(prefix="rota-completions-") as folder:
        return asyncio.run(_subscriber(Path(folder) / "network", completions, progress))


# Rates.


async def _rates(home: Path, turn: int, turns: int, progress: Progress) -> RateFigures:
    async with LocalNetwork(Plan(home=home, names=NAMES)) as network:
        await network.start(*NAMES)
        members = [f"{PARTY}@{name}" for name in NAMES]
        made = await network.create_contract("synthetic", {"members": members, "threshold": THRESHOLD})
        node, numbers = network.nodes[NAMES[0]], count()
        plain: list[float] = []
        commands: list[float] = []
        used_s = {False: 0.0, True: 0.0}
        # A first turn of each kind is not counted: it loads sequencers and makes connections.
        for wanted in (False, True):
            await _turn(node, made.address, wanted, BATCH, numbers)
        for number in range(turns):
            # The kind that goes first alternates from turn to turn.
            for are_commands in (number % 2 == 0, number % 2 == 1):
                before_s = _processor_s(network)
                rate = await _turn(node, made.address, are_commands, turn, numbers)
                used_s[are_commands] += _processor_s(network) - before_s
                (commands if are_commands else plain).append(rate)
                progress(f"{'commands' if are_commands else 'plain'}: {rate:.0f} a second")
    plain_median, commands_median = statistics.median(plain), statistics.median(commands)
    apart = PERCENT * (1 - commands_median / plain_median)
    plain_ms, commands_ms = (used_s[each] * MILLISECONDS_PER_S / (turn * turns) for each in (False, True))
    return RateFigures(turn, plain, commands, plain_median, commands_median, apart, plain_ms, commands_ms)


def _processor_s(network: LocalNetwork) -> float:
    """The processor time of the chain and the nodes so far, from the kernel."""
    ticks = 0
    for pid in network.pids.values():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[USER_FIELD]) + int(fields[USER_FIELD + 1])
    return ticks / os.sysconf("SC_CLK_TCK")


async def _turn(
    node: LocalNode, contract: ContractAddress, are_commands: bool, wanted: int, numbers: Iterator[int]
) -> float:
    """Submit `wanted` of one kind; returns submissions a second until the last has ended."""
    began_s = changed_s = time.monotonic()
    end = await _end(node) + (wanted if are_commands else 0)
    load = _Load(wanted)
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as posters:
        for _ in range(POSTS_MAX):
            posters.create_task(_post_on(load, session, node, contract, are_commands, numbers))
        while True:
            open_count = await _open_count(node, contract)
            if open_count != load.open:
                load.open, changed_s = open_count, time.monotonic()
            if load.is_sent and not open_count and await _end(node) >= end:
                return wanted / (time.monotonic() - began_s)
            assert time.monotonic() - changed_s < STALLED_S, "nothing ends any more; figures mean nothing"
            await asyncio.sleep(LOOK_S)


@dataclass(slots=True)
class _Load:
    """The numbers of transactions to send, being sent, and last seen open at the node."""

    unsent: int
    posting: int = 0
    open: int = 0

    @property
    def is_sent(self) -> bool:
        return not self.unsent and not self.posting


async def _post_on(
    load: _Load,
    session: aiohttp.ClientSession,
    node: LocalNode,
    contract: ContractAddress,
    are_commands: bool,
    numbers: Iterator[int],
) -> None:
    """Send one batch after another while there is room."""
    while load.unsent:
        size = min(BATCH, load.unsent)
        if load.open + load.posting + size > OPEN_MAX:
            await asyncio.sleep(LOOK_S)
            continue
        load.unsent -= size
        load.posting += size
        await _post(session, node, contract, are_commands, size, numbers)
        load.posting -= size
        load.open += size


async def _post(
    session: aiohttp.ClientSession,
    node: LocalNode,
    contract: ContractAddress,
    are_commands: bool,
    size: int,
    numbers: Iterator[int],
) -> None:
    requests = [_request(contract, are_commands, next(numbers)) for _ in range(size)]
    async with session.post(node.client.url, json=requests) as answer:
        answers = await answer.json()
    assert all("result" in each for each in answers), answers


async def _end(node: LocalNode) -> int:
    """The end of the completion stream: a command ends with its completion, not when its transaction is final."""
    return int(str(await node.client.ask("cmd_completionEnd")))


def _request(contract: ContractAddress, is_command: bool, number: int) -> dict[str, object]:
    transaction: dict[str, object] = {"type": "private", "from": PARTY, "to": contract, "function": "spend"}
    wanted = transaction
    if is_command:
        wanted = {
            "applicationId": APPLICATION,
            "commandId": f"change {number}",
            "actAs": [PARTY],
            "transaction": transaction,
        }
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "cmd_submit" if is_command else "ptx_sendTransaction",
        "params": [wanted],
    }


async def _open_count(node: LocalNode, contract: ContractAddress) -> int:
    status = await node.client.status(contract)
    assert status is not None, "the node has the contract"
    return sum(status.sending.values())


# Look-up.


async def _look_up(folder: Path, few: int, many: int, progress: Progress) -> LookUpFigures:
    measured = {}
    for size in (few, many):
        progress(f"a database with {size:,} changes")
        async with _opened(folder / f"{size}.db", NAMES[0]) as commands:
            changes = await _fill(commands, size, NAMES[0])
            measured[size] = await _timed(commands, changes)
    few_us, many_us = measured[few], measured[many]
    return LookUpFigures(
        few,
        many,
        statistics.median(few_us),
        statistics.median(many_us),
        _p99(few_us),
        _p99(many_us),
        statistics.median(many_us) / statistics.median(few_us),
    )


async def _timed(commands: DatabaseCommands, changes: Sequence[ChangeId]) -> list[float]:
    random = Random("look-ups")
    took_us = []
    for number in range(WARM_UPS + LOOK_UPS):
        change = changes[random.randrange(len(changes))]
        began_s = time.perf_counter()
        found = await commands.latest_acceptances((change,))
        if number >= WARM_UPS:
            took_us.append((time.perf_counter() - began_s) * MICROSECONDS_PER_S)
        assert change in found, "it was accepted"
    return took_us


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // PERCENT]


# A late subscriber.


async def _subscriber(home: Path, completions: int, progress: Progress) -> SubscriberFigures:
    name = NAMES[0]
    plan = Plan(home=home, names=(name,), settings={"commands.port": 0})
    async with LocalNetwork(plan) as network:
        await network.start(name)
        made = await network.create_contract("synthetic", {"members": [f"{PARTY}@{name}"]})
        await network.stop()
        progress(f"a database with {completions:,} completions")
        node = network.nodes[name]
        async with _opened(node.folder / "rota.db", name) as commands:
            await _fill(commands, completions, name)
        child, told = await network.launch(node)
        address = str(told["commands"])
        url = str(told["rpc"])
        try:
            return await _read_all(address, url, made.address, completions)
        finally:
            await child.kill()


async def _read_all(address: str, url: str, contract: ContractAddress, completions: int) -> SubscriberFigures:
    wanted = completions + LATER
    seen: dict[int, int] = {}
    first_s = 0.0
    async with grpc.aio.insecure_channel(address) as channel, aiohttp.ClientSession() as session:
        stub = channel.unary_stream(
            "/rota.v1.CommandCompletionService/CompletionStream",
            commands_pb2.CompletionStreamRequest.SerializeToString,
            commands_pb2.CompletionStreamResponse.FromString,
        )
        later = asyncio.create_task(_submit_later(session, url, contract))
        await asyncio.sleep(0)
        began_s = time.monotonic()
        request = commands_pb2.CompletionStreamRequest(application_id=APPLICATION, parties=[PARTY])
        async with asyncio.timeout(STALLED_S):
            async for told in _patiently(stub, request):
                if told.HasField("completion"):
                    first_s = first_s or time.monotonic() - began_s
                    seen[told.completion.offset] = seen.get(told.completion.offset, 0) + 1
                if len(seen) >= wanted:
                    break
        took_s = time.monotonic() - began_s
        await later
    gaps = max(seen) - len(seen)
    repeats = sum(times - 1 for times in seen.values())
    return SubscriberFigures(completions, LATER, gaps, repeats, first_s * 1_000, took_s, len(seen) / took_s)


async def _patiently(stub: Any, request: Any) -> AsyncIterator[Any]:  # noqa: ANN401
    """Subscribe, again and again while a node that has just started is unavailable."""
    while True:
        try:
            async for told in stub(request):
                yield told
            return
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(LOOK_S)


async def _submit_later(session: aiohttp.ClientSession, url: str, contract: ContractAddress) -> None:
    """Submit commands while the subscriber reads, each again until the node accepts it."""
    for number in range(LATER):
        while True:
            async with session.post(url, json=_request(contract, True, number)) as answer:
                if "result" in await answer.json():
                    break
            await asyncio.sleep(LOOK_S)


# Filling databases.


@asynccontextmanager
async def _opened(path: Path, node: NodeName) -> AsyncIterator[DatabaseCommands]:
    """The commands of a database, through a node's own store."""
    store = DatabaseStore(SqliteDatabase(path, node), node, Config(), lambda _: None)
    await store.start()
    try:
        yield DatabaseCommands(store)
    finally:
        await store.close()


async def _fill(commands: DatabaseCommands, size: int, node: NodeName) -> list[ChangeId]:
    """Write this many accepted changes of a moment ago; returns their ids."""
    published_at_us = time.time_ns() // 1_000 - size
    changes: list[ChangeId] = []
    for first in range(0, size, FILL_BATCH):
        closings = [
            _accepted(node, number, published_at_us + number) for number in range(first, min(first + FILL_BATCH, size))
        ]
        await commands.write_completions(closings)
        changes += [each.submission.change for each in closings]
    return changes


def _accepted(node: NodeName, number: int, published_at_us: int) -> Closing:
    command = Command(APPLICATION, f"past {number}", (Party(f"{PARTY}@{node}"),), f"submission {number}")
    period = DeduplicationDuration(WEEK_MS * 1_000)
    submission = InFlight(change_of(command), f"past {number}", command, period, published_at_us, b"")
    completion = Completion(
        number + 1,
        published_at_us,
        command.application_id,
        command.command_id,
        command.parties,
        command.submission_id,
        period,
        IntentId(number.to_bytes(16, "big")),
    )
    return Closing(submission, completion)
