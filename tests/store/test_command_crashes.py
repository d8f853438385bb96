"""The office of commands on both databases: a crash before everything that it does and everything that it is told.

Crash points are counted by a wrapper around the two doors of the office, so that there are as many as the code has. The
sequencer is a model that forgets nothing; with a real one, and with `kill -9`, it is tested in tests/commands.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota.commands.desk import DeskLimits
from rota.commands.effects import DeskEffect
from rota.commands.events import DeskEvent
from rota.engine import accepting
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Receipt
from rota.ports import Unavailable
from rota.rpc.errors import OutcomeUnknown, Rejected, invalid, key_used
from rota.schema.commands import CommandRejected, Completion, StatusCode
from rota.service.commands.commands import CommandOffice
from rota.service.interface import CommandSubmission, ReceiptView, Submission, TransactionType
from rota.service.submissions.repeating import Comparison
from rota.sim.disk import Fate
from rota.store import DatabaseCommands, PostgresDatabase
from rota.store.database import Database
from tests.store.kit import FaultyDatabase, Opened, in_loop, new_postgres, new_sqlite
from tests.store.servers import PostgresServer

NODE = NodeName("node1")
CONTRACT = ContractAddress("0x" + "c1" * 20)
LIMITS = DeskLimits(batch_max=2, retry_ms=1)
TURNS_MAX = 20_000
KINDS = ("goes well", "goes well", "reverts", "is refused")


class Crash(Exception):
    """The process is gone."""


class ModelSequencer:
    """Accepts under keys, and ends what it has accepted after a few turns of the loop; across lives of the office.

    Of so many it says that it does not know whether they were accepted: every other one was.
    """

    def __init__(self) -> None:
        self.accepted: dict[str, tuple[IntentId, str]] = {}
        self.doubts = 0
        self.is_away = False

    async def submit(self, submission: Submission) -> IntentId:
        await asyncio.sleep(0)
        if self.doubts:
            self.doubts -= 1
            if self.doubts % 2:
                with suppress(Rejected):
                    await self._accept(submission)
            raise OutcomeUnknown({})
        return await self._accept(submission)

    async def _accept(self, submission: Submission) -> IntentId:
        if submission.function == "is refused":
            raise invalid("function", "must be one of the contract's")
        existing = self.accepted.get(submission.idempotency_key)
        if existing is not None:
            raise key_used(submission.idempotency_key, existing[0])
        intent = IntentId(len(self.accepted).to_bytes(16, "big"))
        self.accepted[submission.idempotency_key] = intent, submission.function
        await asyncio.sleep(0)
        return intent

    async def transaction_with_key(self, key: str) -> IntentId | None:
        await asyncio.sleep(0)
        found = self.accepted.get(key)
        return found[0] if found is not None else None

    async def compared(self, submission: Submission, intent: IntentId) -> Comparison:
        if self.is_away:
            raise Unavailable("the store is away")
        function = next(function for each, function in self.accepted.values() if each == intent)
        return Comparison(function.encode(), function == submission.function)

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        function = next(function for each, function in self.accepted.values() if each == intent)
        has_failed = function == "reverts"
        return ReceiptView(intent, not has_failed, 0, 1, failure_message="no" if has_failed else "")

    async def may_return(self, intent: IntentId) -> bool:
        return True

    def expect_receipt(self, intent: IntentId) -> asyncio.Future[Receipt]:
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[Receipt] = loop.create_future()
        function = next(function for each, function in self.accepted.values() if each == intent)
        outcome = Outcome.REVERTED if function == "reverts" else Outcome.CONFIRMED

        def end() -> None:
            if not receipt.done():
                receipt.set_result(Receipt(intent, outcome, "no" if outcome is Outcome.REVERTED else ""))

        loop.call_soon(lambda: loop.call_soon(end))
        return receipt


class CrashingOffice(CommandOffice):
    """Counts what it does and what it is told; at one of them it is gone."""

    moments = 0
    crash_at = 0
    is_gone = False
    fault: Callable[[], None] | None = None

    def perform(self, effect: DeskEffect) -> None:
        self._moment()
        super().perform(effect)

    def tell(self, event: DeskEvent) -> None:
        self._moment()
        super().tell(event)

    def _moment(self) -> None:
        if self.is_gone:
            raise Crash
        self.moments += 1
        if self.moments == self.crash_at and self.fault is not None:
            self.fault()
        elif self.moments == self.crash_at:
            self.is_gone = True
            raise Crash


class Life:
    """One life of the office, on a database that outlives it."""

    def __init__(self, database: Database, sequencer: ModelSequencer, crash_at: int = 0) -> None:
        self.database = FaultyDatabase(database)
        self.sequencer = sequencer
        self.callers: list[asyncio.Task[Any]] = []
        self.opened = Opened(self.database)
        self.office = CrashingOffice(NODE, DatabaseCommands(self.opened.store), sequencer, 60_000, limits=LIMITS)
        self.office.crash_at = crash_at
        self.office.failed = self._failed

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, Crash):
            raise error

    async def begin(self) -> None:
        await self.opened.start(())
        await self.office.begin()

    async def end(self) -> None:
        await self.office.close()
        await self.opened.store.close()

    async def until_quiet(self) -> None:
        """Nothing is in flight, or it is gone."""
        for _ in range(TURNS_MAX):
            if self.office.is_gone or not self.office.desk.entries:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"still in flight: {self.office.desk.entries}")


def command(number: int, submission_id: str) -> CommandSubmission:
    transaction = Submission(TransactionType.PRIVATE, "alice", to=CONTRACT, function=KINDS[number])
    return CommandSubmission("shop", f"pay {number}", "", ("alice",), transaction, submission_id)


async def submit_all(life: Life, attempt: str) -> dict[str, Any]:
    """Two to be acknowledged and two to be waited for, all at once; who crashes is told nothing."""
    office = life.office
    calls = [
        office.submit(command(0, f"{attempt} 0")),
        office.submit_and_wait(command(1, f"{attempt} 1")),
        office.submit(command(2, f"{attempt} 2")),
        office.submit_and_wait(command(3, f"{attempt} 3")),
    ]
    tasks = [asyncio.create_task(each) for each in calls]
    life.callers = tasks
    while not office.is_gone and not all(task.done() for task in tasks):
        await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    return {
        f"{attempt} {number}": end
        for number, end in enumerate(ended)
        if not isinstance(end, asyncio.CancelledError | Crash)
    }


async def run(
    databases: tuple[Database, Database], crash_at: int, fault: Callable[[Life], None] | None = None
) -> tuple[int, bool]:
    """One life that crashes, or meets a fault, and one that does not; how many moments the first had, and whether it
    crashed.

    `databases` are one and the same, for each of the lives.
    """
    sequencer = ModelSequencer()
    first = Life(databases[0], sequencer, crash_at)
    first.office.fault = partial(fault, first) if fault is not None else None
    await first.begin()
    answers = await submit_all(first, "first")
    await first.until_quiet()
    crashed = first.office.is_gone
    moments = first.office.moments
    await first.end()

    second = Life(databases[1], sequencer)
    await second.begin()
    await second.until_quiet()
    answers |= await submit_all(second, "second")
    await second.until_quiet()
    await _check(second, sequencer, answers)
    await second.end()
    return moments, crashed


async def _check(life: Life, sequencer: ModelSequencer, answers: dict[str, Any]) -> None:
    assert (await life.office.store.restore())[1] == ()
    end = (await life.office.end()).offset
    wanted = life.office.subscription("shop", ("alice",), 0)
    completions = (await life.office.completions(wanted, 0, 500)).completions
    assert [each.offset for each in completions] == list(range(1, end + 1))
    # Each change that can happen has happened once, and every transaction has one completion.
    happened = Counter(each.command_id for each in completions if each.failure is None)
    assert happened == {"pay 0": 1, "pay 1": 1}
    done = Counter(function for _, function in sequencer.accepted.values())
    assert done["goes well"] == 2
    transactions = [each.transaction for each in completions if each.transaction is not None]
    assert sorted(transactions) == sorted(intent for intent, _ in sequencer.accepted.values())
    told = Counter(each.submission_id for each in completions)
    assert max(told.values()) == 1
    for submission_id, answer in answers.items():
        if isinstance(answer, CommandRejected):
            assert told[submission_id] == 0
        else:
            assert told[submission_id] == 1
        if isinstance(answer, Completion):
            assert answer in completions


Again = Callable[[int], Awaitable[tuple[Database, Database]]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Again:
    """A new database by its number, for two lives."""
    if request.param == "sqlite":

        async def made(number: int) -> tuple[Database, Database]:
            folder = tmp_path / str(number)
            folder.mkdir()
            return new_sqlite(folder), new_sqlite(folder)
    else:
        server: PostgresServer = request.getfixturevalue("server")

        async def made(number: int) -> tuple[Database, Database]:  # noqa: ARG001
            first = await new_postgres(server)
            return first, PostgresDatabase(first._url, NODE)

    return made


@pytest.mark.slow
def test_a_crash_before_anything_that_is_done_or_told_changes_nothing_for_users(
    again: Again, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    crashes, moments = asyncio.run(crashed_everywhere(again))
    assert crashes >= moments - 5
    with capsys.disabled():
        print(f"\ncommands, {request.node.callspec.id}: crashed at {crashes} of {moments} points")


async def crashed_everywhere(again: Again) -> tuple[int, int]:
    """At how many points it crashed, of how many."""
    moments, crashed = await run(await again(0), 0)
    assert not crashed
    crashes = 0
    for crash_at in range(1, moments + 1):
        crashes += (await run(await again(crash_at), crash_at))[1]
    return crashes, moments


# What goes wrong while the process lives on.


def hang_up(life: Life) -> None:
    for caller in life.callers:
        caller.cancel()


def lose_answers(life: Life) -> None:
    """For a moment commits happen and are not answered."""
    life.database.fate = Fate.LIES
    asyncio.get_running_loop().call_later(0.01, setattr, life.database, "fate", Fate.WORKS)


def fail_reads(life: Life) -> None:
    life.database.is_unreadable = True
    asyncio.get_running_loop().call_later(0.01, setattr, life.database, "is_unreadable", False)


def doubt(life: Life) -> None:
    life.sequencer.doubts = 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", [hang_up, lose_answers, fail_reads, doubt], ids=lambda each: each.__name__)
def test_a_fault_at_any_moment_changes_nothing_for_users(
    again: Again, fault: Callable[[Life], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "RETRY_S", 0.001)

    async def everywhere() -> None:
        moments, _ = await run(await again(0), 0)
        for at in range(1, moments + 1):
            await run(await again(at), at, fault)

    asyncio.run(everywhere())


@in_loop
async def test_duplicate_that_cannot_be_compared_now_is_unavailable_and_no_success(tmp_path: Path) -> None:
    """Otherwise the client reports success for a command id that was used for another transaction."""
    life = Life(new_sqlite(tmp_path), ModelSequencer())
    await life.begin()
    assert (await life.office.submit_and_wait(command(0, "first"))).failure is None
    other = command(0, "second")
    other = replace(other, transaction=replace(other.transaction, function="another"))
    life.sequencer.is_away = True
    with pytest.raises(CommandRejected) as caught:
        await life.office.submit_and_wait(other)
    failure = caught.value.failure
    assert (failure.code, dict(failure.metadata)["definite_answer"]) == (StatusCode.UNAVAILABLE, "true")
    life.sequencer.is_away = False
    with pytest.raises(CommandRejected) as caught:
        await life.office.submit_and_wait(other)
    assert dict(caught.value.failure.metadata)["same"] == "false"
    await life.end()
