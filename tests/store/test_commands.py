"""What commands need remembered, on both databases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.chain.effects import BlocksIndexed, FinalityBroken, UndoneCommit
from rota.chain.public_transaction import Ending, Mined, PublicTransaction
from rota.commands.acceptance import Acceptance
from rota.commands.changes import change_of
from rota.commands.effects import Closing, InFlight
from rota.commands.periods import Stream
from rota.exchange.effects import StatesReceived
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import ContractAddress, IntentId, Party, SubmitMode
from rota.node.node import OWN
from rota.ports import StoredSubmission, Unavailable
from rota.schema.commands import (
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
from rota.sim.disk import Fate
from rota.store import DatabaseCommands, schema
from rota.store.database import Statement
from rota.store.encoding import encode
from rota.store.schema import migrations
from tests.store.kit import (
    FIRST,
    SECOND,
    FaultyDatabase,
    Make,
    Opened,
    a_transition,
    again,
    digest,
    in_loop,
    new_sqlite,
    opened_on,
)
from tests.store.test_finality import lost
from tests.store.test_listening import accept_and_permit, block, commit, number_all

ACCOUNT = ContractAddress("0x" + "0a" * 20)
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
async def test_times_of_an_earlier_version_are_read_in_microseconds(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases of schema 25 have milliseconds, in columns and in encoded values."""
    database = await make()
    known = migrations()
    before = next(place for place, each in enumerate(known) if "published_at_us" in str(each.statements))
    monkeypatch.setattr(schema, "migrations", lambda: known[:before])
    await database.open()
    change, named = submission(1).change, ("shop", "pay 1", (ALICE,), "submission 1")
    waits = {
        **dict(zip(("application_id", "command_id", "parties", "submission_id"), named, strict=True)),
        "asked": {"offset": 1},
        "effective": {"duration_ms": 5},
        "submitted_at_ms": 7,
        "transaction": b"{}",
    }
    done = {
        "command_id": "pay 1",
        "parties": (ALICE,),
        "submission_id": "submission 1",
        "effective": {"duration_ms": 5},
    }
    rows = [
        Statement("UPDATE command_stream SET end_offset = 2, published_at_ms = 9, pruned_offset = 1, pruned_at_ms = 8"),
        Statement("INSERT INTO command_acceptances VALUES (?, 2, 9, ?)", (change, b"submission 1")),
        Statement("INSERT INTO commands_in_flight VALUES (?, 'key 1', ?)", (change, encode(waits))),
        Statement(
            "INSERT INTO completions (completion_offset, published_at_ms, application_id, completion, submitted_at_ms)"
            " VALUES (2, 9, ?, ?, 7)",
            (b"shop", encode(done)),
        ),
    ]
    await database.write(rows, 1)
    await database.close()
    monkeypatch.undo()
    async with opened_on(again(database)) as store:
        commands = DatabaseCommands(store.store)
        stream, (waiting,) = await commands.restore()
        assert stream == Stream(end=2, published_at_us=9_000, pruned=1, pruned_at_us=8_000)
        assert (waiting.submitted_at_us, waiting.period) == (7_000, DeduplicationDuration(5_000))
        assert (await commands.latest_acceptances((change,)))[change].published_at_us == 9_000
        (completion,) = (await commands.completions(SHOP, BEGIN_OFFSET, 2, 10)).completions
        assert (completion.published_at_us, completion.period) == (9_000, DeduplicationDuration(5_000))


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
    assert await commands.restore() == (Stream(end=2, published_at_us=1_002), ())
    found = await commands.latest_acceptances((accepted.change, rejected.change, ChangeId(bytes(32))))
    assert found == {accepted.change: Acceptance(1, 1_001, "submission 1", batch[0].completion.transaction)}
    page = await commands.completions(SHOP, BEGIN_OFFSET, 2, 10)
    assert page.completions == tuple(each.completion for each in batch)
    assert page.checkpoint == Checkpoint(2, 1_002)
    await store.store.close()


@in_loop
async def test_success_whose_receipt_no_longer_holds_is_contradicted_until_it_is_withdrawn(make: Make) -> None:
    async with opened_on(await make()) as store:
        commands = DatabaseCommands(store.store)
        made, lie = (await accept_and_permit(store, 1))[0], a_transition(1, 1)
        paid = closing(submission(1), 1)
        paid = replace(paid, completion=replace(paid.completion, transaction=made.intent))
        await commands.write_completions((paid,))
        # A liar's contract loses a commit of the same id: that contradicts nothing of ours.
        await store.write(SECOND, StatesReceived(digest(2), (lie,)))
        used = LedgerOutcome(lie.intent, lie.leaf, digest(2), LedgerStatus.COMMITTED)
        both = block(1, made)
        both = replace(both, outcomes=((SECOND, used), *both.outcomes))
        await store.write(FIRST, BlocksIndexed(0, (both, block(2))))
        await number_all(store)
        of_the_liar = FinalityBroken(0, 1, (UndoneCommit(1, SECOND, lie.intent, lie.leaf),))
        await store.write(OWN, of_the_liar, BlocksIndexed(0, (block(1, made), block(2))))
        assert await commands.contradicted(10) == ()
        await store.write(OWN, lost(1, made), BlocksIndexed(0, (block(1), block(2))))
        (found,) = await commands.contradicted(10)
        assert found.completion == paid.completion
        assert (found.submission.change, found.submission.key) == (paid.submission.change, paid.submission.key)
        withdrawn = replace(found.completion, offset=2, failure=FAILED, corrects=1)
        for _ in range(2):
            await commands.write_completions((Closing(found.submission, withdrawn, reopens=True),))
        assert await commands.contradicted(10) == ()
        assert await commands.latest_acceptances((paid.submission.change,)) == {}
        stream, in_flight = await commands.restore()
        assert (stream.end, [each.key for each in in_flight]) == (2, ["key 1"])
        assert (await commands.completions(SHOP, 1, 2, 10)).completions == (withdrawn,)
        assert await store.store.listening.may_return(made.intent)
        late = (block(3, time_s=made.valid_until_s + 1), block(4, time_s=made.valid_until_s + 2))
        await store.write(OWN, BlocksIndexed(2, late))
        assert not await store.store.listening.may_return(made.intent)


@in_loop
async def test_success_whose_public_transaction_has_failed_since_is_contradicted_until_it_is_withdrawn(
    make: Make,
) -> None:
    """The chain takes back its block, and it ends again, without success, before anybody has compared the two."""
    async with opened_on(await make()) as store:
        commands, public = DatabaseCommands(store.store), store.store.public
        intent = IntentId(b"\x07" * 16)
        wanted = PublicTransaction(0, intent, ALICE, ACCOUNT, ACCOUNT, b"", 5, 0)
        await public.accept(StoredSubmission(intent, 0, True, SubmitMode.AUTO, ALICE), wanted, ())
        (accepted,) = await public.open()
        mined = Mined(b"\x01" * 32, 1, b"\x02" * 32, 0, True)
        await public.save([replace(accepted, nonce=0, ending=Ending(True, 5, mined=mined))])
        paid = closing(submission(1), 1)
        paid = replace(paid, completion=replace(paid.completion, transaction=intent))
        await commands.write_completions((paid,))
        assert await commands.contradicted(10) == ()
        await store.write(OWN, FinalityBroken(0, 1, ()))
        (reopened,) = await public.open()
        await public.save([replace(reopened, ending=Ending(False, 9, "reverted"))])
        (found,) = await commands.contradicted(10)
        assert found.completion == paid.completion
        withdrawn = replace(found.completion, offset=2, failure=FAILED, corrects=1)
        await commands.write_completions((Closing(found.submission, withdrawn, reopens=True),))
        assert await commands.contradicted(10) == ()


@in_loop
async def test_failure_whose_transaction_the_chain_confirms_is_contradicted(make: Make) -> None:
    async with opened_on(await make()) as store:
        commands = DatabaseCommands(store.store)
        (made,) = await accept_and_permit(store, 1)
        reverted = closing(submission(1), 1, FAILED)
        reverted = replace(reverted, completion=replace(reverted.completion, transaction=made.intent))
        await commands.write_completions((reverted,))
        assert await commands.contradicted(10) == ()
        await commit(store, 1, made)
        (found,) = await commands.contradicted(10)
        assert found.completion == reverted.completion
        corrected = replace(found.completion, offset=2, failure=None, corrects=1)
        await commands.write_completions((Closing(found.submission, corrected),))
        assert await commands.contradicted(10) == ()
        assert (await commands.latest_acceptances((found.submission.change,)))[found.submission.change].offset == 2


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
    # The acceptance at the last pruned offset stays, so that a period can begin there. A duplicate is compared with it.
    assert [each.transaction for each in found.values() if each.offset == 3] == [IntentId(bytes(16))]
    assert sorted(each.offset for each in found.values()) == [3, 4, 5]
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
