"""What commands need remembered, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.command_types import (
    BEGIN_OFFSET,
    ChangeId,
    Checkpoint,
    Command,
    Completion,
    CompletionFilter,
    DeduplicationDuration,
    DeduplicationOffset,
    Failure,
    StatusCode,
)
from rota.commands.changes import change_of
from rota.commands.effects import Closing, InFlight
from rota.commands.periods import Acceptance, Stream
from rota.ports import Unavailable
from rota.sim.disk import Fate
from rota.store import DatabaseCommands
from rota.store.database import Statement
from rota.types import IntentId, Party
from tests.store.kit import FaultyDatabase, Make, Opened, in_loop, new_sqlite

ALICE, BOB = Party("alice@node1"), Party("bob@node1")
SHOP = CompletionFilter("shop", (ALICE,))
FAILED = Failure(StatusCode.NOT_FOUND, "CONTRACT_NOT_ACTIVE", "gone", (("field", "x"),))


def submission(number: int, application: str = "shop", party: Party = ALICE, key: str = "") -> InFlight:
    command = Command(application, f"pay {number}", (party,), f"submission {number}", DeduplicationOffset(number))
    period = DeduplicationDuration(number)
    return InFlight(change_of(command), key or f"key {number}", command, period, 7, b"{}")


def closing(of: InFlight, offset: int, failure: Failure | None = None) -> Closing:
    command = of.command
    completion = Completion(
        offset,
        1_000 + offset,
        command.application_id,
        command.command_id,
        command.parties,
        command.submission_id,
        of.period,
        IntentId(bytes(16)) if failure is None else None,
        failure,
    )
    return Closing(of, completion)


async def opened(make: Make) -> tuple[Opened, DatabaseCommands]:
    store = await Opened(await make()).start(())
    return store, DatabaseCommands(store.store)


@in_loop
async def test_what_is_in_flight_is_found_by_the_next_life(make: Make) -> None:
    store, commands = await opened(make)
    assert await commands.restore() == (Stream(), ())
    first, second = submission(1), submission(2)
    await commands.write_in_flight(first)
    await commands.write_in_flight(second)
    await commands.write_in_flight(submission(1, key="another"))
    stream, found = await commands.restore()
    assert stream == Stream()
    assert sorted(found, key=lambda each: each.key) == [first, second]
    await commands.remove_in_flight(submission(2, key="another"))
    await commands.remove_in_flight(first)
    assert (await commands.restore())[1] == (second,)
    await store.store.close()


@in_loop
async def test_a_completion_its_acceptance_and_the_end_of_being_in_flight_are_one(make: Make) -> None:
    store, commands = await opened(make)
    accepted, rejected = submission(1), submission(2)
    for each in (accepted, rejected):
        await commands.write_in_flight(each)
    batch = (closing(accepted, 1), closing(rejected, 2, FAILED))
    await commands.write_completions(batch)
    # Written again after an answer that was lost, it changes nothing.
    await commands.write_completions(batch)
    assert await commands.restore() == (Stream(end=2, published_at_ms=1_002), ())
    found = await commands.latest_acceptances((accepted.change, rejected.change, ChangeId(bytes(32))))
    assert found == {accepted.change: Acceptance(1, 1_001, "submission 1")}
    page = await commands.completions(SHOP, BEGIN_OFFSET, 2, 10)
    assert page.completions == tuple(each.completion for each in batch)
    assert page.checkpoint == Checkpoint(2, 1_002)
    await store.store.close()


@in_loop
async def test_the_latest_acceptance_counts_and_a_rejection_does_not_touch_it(make: Make) -> None:
    store, commands = await opened(make)
    own = submission(1)
    await commands.write_completions((closing(own, 1),))
    await commands.write_completions((closing(own, 2),))
    await commands.write_completions((closing(own, 3, FAILED),))
    await commands.write_completions((closing(own, 1),))
    assert (await commands.latest_acceptances((own.change,)))[own.change].offset == 2
    await store.store.close()


@in_loop
async def test_completions_are_those_of_the_application_and_of_a_party(make: Make) -> None:
    store, commands = await opened(make)
    several = (
        closing(submission(1), 1),
        closing(submission(2, application="bank"), 2),
        closing(submission(3, party=BOB), 3),
        closing(submission(4), 4),
        closing(submission(5, application="bank"), 5),
    )
    await commands.write_completions(several)
    page = await commands.completions(SHOP, BEGIN_OFFSET, 5, 10)
    assert [each.offset for each in page.completions] == [1, 4]
    assert page.checkpoint.offset == 5
    page = await commands.completions(SHOP, 1, 5, 1)
    assert (page.completions, page.checkpoint.offset) == ((), 3)
    page = await commands.completions(SHOP, 3, 3, 10)
    assert (page.completions, page.checkpoint.offset) == ((), 3)
    both = CompletionFilter("shop", (ALICE, BOB))
    assert [each.offset for each in (await commands.completions(both, 0, 5, 10)).completions] == [1, 3, 4]
    await store.store.close()


@in_loop
async def test_pruning_forgets_completions_and_acceptances_and_notes_how_far(make: Make) -> None:
    store, commands = await opened(make)
    several = [submission(number) for number in range(1, 6)]
    await commands.write_completions([closing(each, offset) for offset, each in enumerate(several, 1)])
    assert await commands.pruning_point(4, 1_004) == (1_004, 3)
    assert await commands.pruning_point(4, 0) == (1_004, 0)
    await commands.prune(3, 1_003)
    await commands.prune(2, 1_002)
    assert (await commands.restore())[0] == Stream(5, 1_005, 3, 1_003)
    assert [each.offset for each in (await commands.completions(SHOP, 3, 5, 10)).completions] == [4, 5]
    found = await commands.latest_acceptances([each.change for each in several])
    assert sorted(each.offset for each in found.values()) == [4, 5]
    await store.store.close()


@in_loop
async def test_more_changes_than_one_statement_takes_are_looked_up(make: Make) -> None:
    store, commands = await opened(make)
    several = [submission(number) for number in range(1, 1_203)]
    await commands.write_completions([closing(each, offset) for offset, each in enumerate(several, 1)])
    found = await commands.latest_acceptances([each.change for each in several])
    assert len(found) == len(several)
    await store.store.close()


@in_loop
async def test_a_write_that_fails_is_told_to_whoever_waits_and_to_nobody_else(tmp_path: Path) -> None:
    database = FaultyDatabase(new_sqlite(tmp_path))
    store = await Opened(database).start(())
    commands = DatabaseCommands(store.store)
    database.fate = Fate.FAILS
    with pytest.raises(Unavailable):
        await commands.write_in_flight(submission(1))
    database.fate = Fate.WORKS
    assert (await commands.restore())[1] == ()
    await commands.write_in_flight(submission(1))
    with pytest.raises(Unavailable, match="no such table"):
        await store.store.write((Statement("INSERT INTO nowhere VALUES (1)"),))
    assert len((await commands.restore())[1]) == 1
    await store.store.close()
