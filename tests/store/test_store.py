"""What holds for every store: groups, order, questions, records of every kind, what is refused at the start."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rota.chain.effects import BlocksIndexed, DispatchRepriced, RecallDispatches
from rota.chain.events import DispatchesRecalled
from rota.chain.submitters import StoredAccount
from rota.exchange.distribution import DeliveriesRecalled
from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import FindStates, IntentAccepted, IntentFinalised, Persist, Record
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.config import Config
from rota.model.types import SHARED_ACCOUNT, BlockHash, NodeName, Outcome, Receipt, StateId
from rota.node.effects import LoadContract, LookUpIntents, NodeStarted
from rota.node.events import ContractLoaded, IntentsLookedUp
from rota.node.node import OWN
from rota.ports import DueReceipt, StatePlace, Store, Unanswerable, Unavailable
from rota.sequencer.effects import IntentParked, TransitionIssued
from rota.sim.disk import Fate
from rota.store import DatabaseStore, Refused, findings, group_commit, schema
from rota.store.database import Answer, Reading, Statement
from rota.store.encoding import encode
from rota.store.records import Writing
from rota.store.schema import VERSION_TABLE, migrations
from rota.store.write_queue import GROUP_WRITES_MAX, RecordRejected
from tests.store.kit import (
    CONTRACTS,
    FIRST,
    NODE,
    NOW_MS,
    PEER,
    SECOND,
    FaultyDatabase,
    Make,
    Opened,
    a_dispatch,
    a_prepared,
    a_transition,
    again,
    an_intent,
    dearer,
    digest,
    in_loop,
    intent_id,
    leaf,
    new_sqlite,
    one_of_each,
    opened_on,
    signed,
)
from tests.store.kit import known as known_of

TOO_LARGE = 2**63
# Tables that keep what has been, and the names that statements give them.
GROWING = {
    *(
        "intents",
        "dispatches",
        "dispatched_intents",
        "carried_transitions",
        "transitions",
        "deliveries",
        "prepared",
        "endorsed",
        "outcomes",
    ),
    *("mined", "states", "kept_for", "copies", "own", "after"),
}


@dataclass(frozen=True, slots=True)
class Unheard(Record):
    """A record of a kind that no store knows."""


def test_the_store_is_what_the_port_asks_for() -> None:
    store: Callable[..., Store] = DatabaseStore
    assert store is DatabaseStore


def test_every_record_of_the_core_is_known_to_the_store() -> None:
    kinds = {kind.__qualname__ for kind in Record.__subclasses__() if kind.__module__.startswith("rota.")}
    assert len(kinds) > 15
    written = [record for _, record in one_of_each()]
    assert {type(record).__qualname__ for record in written} == kinds
    writing = Writing(NODE, {FIRST: b""}, Config(index_window_max=4), lambda: 0)
    for record in written:
        assert tuple(writing.statements(FIRST, record, 1)), f"{type(record).__name__} changes nothing"


def test_block_on_top_of_the_latest_one_undoes_nothing() -> None:
    """Only the first block of a run, and a reorganisation, have something to remove from the database."""
    writing = Writing(NODE, {FIRST: b""}, Config(index_window_max=4), lambda: 0)

    def undone(parted_at: int, *heights: int) -> bool:
        blocks = tuple(ChainBlock(height, BlockHash(b"b"), BlockHash(b"a"), 10, (), ()) for height in heights)
        written = [*writing.statements(OWN, BlocksIndexed(parted_at, blocks), 1)]
        return any(each.sql.startswith("DELETE FROM outcomes") for each in written)

    assert undone(3, 4, 5), "another run may have indexed blocks above"
    assert not undone(5, 6)
    assert undone(4, 5), "block 6, and what block 5 was, are gone"
    assert not undone(5, 6)
    assert undone(2), "without another block in their place"
    assert not undone(2, 3)


@in_loop
async def test_what_is_written_twice_changes_nothing(make: Make) -> None:
    async with opened_on(await make()) as opened:
        for contract, record in one_of_each():
            await opened.write(contract, record)
            once = await opened.store.restore((FIRST, SECOND))
            await opened.write(contract, record)
            assert await opened.store.restore((FIRST, SECOND)) == once


@in_loop
async def test_a_record_of_another_kind_is_our_own_error(tmp_path: Path) -> None:
    async with opened_on(new_sqlite(tmp_path)) as opened:
        with pytest.raises(AssertionError, match="does not know Unheard"):
            opened.store.perform(Persist(FIRST, (Unheard(),)))


@in_loop
async def test_all_that_one_turn_orders_is_one_transaction(make: Make) -> None:
    faulty = FaultyDatabase(await make())
    async with opened_on(faulty) as opened:
        before = faulty.transaction_count
        for number in range(1, 101):
            opened.order(FIRST, IntentAccepted(an_intent(number)))
        await opened.durable_after(100)
        assert faulty.transaction_count - before == 1


@in_loop
async def test_rejected_records_end_the_run_and_quarantine_their_contract(make: Make) -> None:
    """Earlier orders are durable; later ones are not, because they may rest on the rejected one."""
    database = await make()
    opened = await Opened(database).start()
    ended: list[BaseException] = []
    opened.store.failed = ended.append
    opened.order(FIRST, IntentAccepted(an_intent(1)))
    issued = TransitionIssued(a_prepared(a_transition(2), 2), TOO_LARGE)
    opened.order(SECOND, IntentAccepted(an_intent(2, SECOND)), issued)
    opened.order(FIRST, IntentAccepted(an_intent(3)))
    await opened.durable_after(1)
    while not ended:
        await asyncio.sleep(0)
    assert [type(each) for each in ended] == [RecordRejected]
    assert f"records of contract {SECOND}" in str(ended[0])
    with pytest.raises(RecordRejected):
        opened.order(FIRST, IntentAccepted(an_intent(4)))
    await opened.store.close()
    async with opened_on(again(database)) as opened:
        answer = await opened.ask(LookUpIntents(1, "", (intent_id(1), intent_id(2), intent_id(3))))
        assert answer == IntentsLookedUp(1, None, (), (intent_id(1),))
        (quarantined,) = await opened.store.quarantine.list()
        assert (quarantined.contract, quarantined.quarantined_at_ms) == (SECOND, NOW_MS)
        assert quarantined.reason
        await opened.store.quarantine.release(SECOND)
        assert await opened.store.quarantine.list() == ()


@in_loop
async def test_store_that_closes_in_a_disturbance_leaves_no_gap(make: Make) -> None:
    """The database takes the second transaction and not the first: the durable records are a prefix of all."""
    database = await make()
    faulty = FaultyDatabase(database)
    opened = await Opened(faulty).start()
    faulty.fate, faulty.strikes = Fate.FAILS, 1
    count = GROUP_WRITES_MAX + 1
    for number in range(1, count + 1):
        opened.order(FIRST, IntentAccepted(an_intent(number)))
    await opened.store.close()
    async with opened_on(again(database)) as opened:
        answer = await opened.ask(LookUpIntents(1, "", (intent_id(1), intent_id(count))))
        assert answer == IntentsLookedUp(1, None, (), ())


@in_loop
async def test_rejected_records_of_the_node_itself_quarantine_nothing(make: Make) -> None:
    database = await make()
    opened = await Opened(database).start()
    ended: list[BaseException] = []
    opened.store.failed = ended.append
    opened.order(OWN, NodeStarted(TOO_LARGE))
    while not ended:
        await asyncio.sleep(0)
    assert [type(each) for each in ended] == [RecordRejected]
    await opened.store.close()
    async with opened_on(again(database)) as opened:
        assert await opened.store.quarantine.list() == ()


@in_loop
async def test_rejected_write_of_a_feature_is_that_features_error(make: Make) -> None:
    async with opened_on(await make()) as opened:
        opened.order(FIRST, IntentAccepted(an_intent(1)))
        with pytest.raises(Unanswerable):
            await opened.store.write([Statement("UPDATE node SET incarnation = ?", (TOO_LARGE,))])
        await opened.durable_after(1)
        await opened.write(FIRST, IntentAccepted(an_intent(2)))
        assert opened.store.trouble == ""


@in_loop
async def test_a_text_that_no_database_takes_does_not_stop_its_contract(make: Make) -> None:
    async with opened_on(await make()) as opened:
        await opened.write(FIRST, IntentAccepted(an_intent(1, key="nul \0")))
        await opened.write(FIRST, IntentParked(intent_id(1), "half a pair \ud800 and \0"))
        (restored,) = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
        assert restored.parked_reason == "half a pair ? and \0"


@in_loop
async def test_what_is_ordered_before_the_end_is_written(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        opened.order(FIRST, IntentAccepted(an_intent(1)))
    async with opened_on(again(database)) as opened:
        assert await opened.ask(LookUpIntents(1, "", (intent_id(1),))) == IntentsLookedUp(1, None, (), (intent_id(1),))


@in_loop
async def test_commit_without_an_answer_is_found_by_its_number_and_happens_once(make: Make) -> None:
    faulty = FaultyDatabase(await make())
    async with opened_on(faulty) as opened:
        faulty.fate = Fate.LIES
        opened.order(FIRST, IntentAccepted(an_intent(1)))
        while not opened.store.trouble:
            await asyncio.sleep(0)
        assert opened.store.trouble == "the answer was lost"
        assert opened.durable == 0
        faulty.fate = Fate.WORKS
        await opened.durable_after(1)
        assert opened.store.trouble == ""
        assert await opened.ask(LookUpIntents(1, "", (intent_id(1),))) == IntentsLookedUp(1, None, (), (intent_id(1),))


@in_loop
async def test_write_that_the_database_does_not_take_is_repeated_and_those_behind_it_wait(make: Make) -> None:
    faulty = FaultyDatabase(await make())
    async with opened_on(faulty) as opened:
        faulty.fate = Fate.FAILS
        opened.order(FIRST, IntentAccepted(an_intent(1)))
        with pytest.raises(Unavailable, match="the disk is failing"):
            await opened.store.write([Statement("DELETE FROM mined")])
        opened.order(FIRST, IntentAccepted(an_intent(2)))
        assert opened.store.writes_failed > 0
        assert opened.events.empty()
        faulty.fate = Fate.WORKS
        await opened.durable_after(2)
        asked = LookUpIntents(1, "", (intent_id(1), intent_id(2)))
        assert await opened.ask(asked) == IntentsLookedUp(1, None, (), (intent_id(1), intent_id(2)))


@in_loop
async def test_a_newer_schema_is_refused(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        await make_newer(opened.store)
    known = migrations()[-1].version
    with pytest.raises(Refused, match=f"the database has version 99, and this programme knows versions up to {known}"):
        await again(database).open()
    with pytest.raises(Refused, match="version 99"):
        await again(database).open()


async def make_newer(store: DatabaseStore) -> None:
    await store._database.write((Statement("INSERT INTO schema_version (version) VALUES (99)"),), 1_000)


@in_loop
async def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    first = migrations()[0]
    with closing(sqlite3.connect(tmp_path / "node.db")) as connection:
        for sql in (VERSION_TABLE.sql, *(statement.sql for statement in first.statements)):
            connection.execute(sql)
        connection.execute("INSERT INTO schema_version (version) VALUES (1)")
        intent = an_intent(1)
        connection.execute(
            "INSERT INTO intents (id, contract, position, intent) VALUES (?, ?, 1, ?)",
            (intent.id, intent.contract, encode(intent)),
        )
        connection.commit()
    async with opened_on(new_sqlite(tmp_path)) as opened:
        (restored,) = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
        assert restored.intent == intent
        for contract, record in one_of_each():
            await opened.write(contract, record)


@in_loop
async def test_what_was_confirmed_before_leaves_were_recorded_stays_confirmed(tmp_path: Path) -> None:
    """A database of schema 13: an intent that its chain has, and one whose id only another contract used."""
    made = a_transition(1)
    with closing(sqlite3.connect(tmp_path / "node.db")) as connection:
        connection.execute(VERSION_TABLE.sql)
        for migration in migrations()[:13]:
            for statement in migration.statements:
                connection.execute(statement.sql)
        connection.execute("INSERT INTO schema_version (version) VALUES (13)")
        for number, settled_at in ((1, 1), (2, None)):
            intent = an_intent(number)
            connection.execute(
                "INSERT INTO intents (id, contract, position, intent, settled_at) VALUES (?, ?, ?, ?, ?)",
                (intent.id, intent.contract, number, encode(intent), settled_at),
            )
        for place, (contract, committed) in enumerate(((FIRST, made), (SECOND, a_transition(2)))):
            outcome = LedgerOutcome(committed.intent, committed.leaf, digest(1), LedgerStatus.COMMITTED)
            connection.execute(
                "INSERT INTO outcomes (height, place, contract, intent, leaf, digest, status, outcome)"
                " VALUES (1, ?, ?, ?, ?, ?, 'committed', ?)",
                (place, contract, committed.intent, committed.leaf, digest(1), encode(outcome)),
            )
        connection.commit()
    async with opened_on(new_sqlite(tmp_path), Config(confirmations=0)) as opened:
        later = ChainBlock(2, BlockHash(b"2"), BlockHash(b"1"), 20)
        await opened.write(OWN, BlocksIndexed(1, (later,)))
        confirmed = Receipt(intent_id(1), Outcome.CONFIRMED, leaf=made.leaf)
        assert await opened.store.receipt_of(intent_id(1)) == confirmed
        assert await opened.store.receipt_of(intent_id(2)) is None


@in_loop
async def test_receipts_keep_their_numbers_when_they_become_unique_by_contract(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of schema 17 has receipts that are unique by id alone."""
    database = await make()
    known = migrations()
    monkeypatch.setattr(schema, "migrations", lambda: known[:17])
    await database.open()
    number = (
        "INSERT INTO receipts (sequence, intent, contract, leaf, type, domain, numbered_at_ms)"
        " VALUES (?, ?, ?, ?, 'private', 'noto', 5)"
    )
    undone = (
        "INSERT INTO receipts_undone (intent, contract, leaf, height, undone_at_ms, is_told, is_acknowledged)"
        " VALUES (?, ?, ?, 1, 5, 0, 0)"
    )
    old = [Statement(number, (place, intent_id(place), FIRST, leaf(place))) for place in (1, 2)]
    await database.write([*old, Statement(undone, (intent_id(1), FIRST, leaf(1)))], 1)
    await database.close()
    monkeypatch.undo()
    async with opened_on(again(database)) as opened:
        listening = opened.store.listening
        found = await listening.receipts_after(0, 10)
        assert [(each.sequence, each.intent) for each in found] == [(1, intent_id(1)), (2, intent_id(2))]
        assert await listening.undone_count() == 1
        await listening.number([(DueReceipt(intent_id(2), SECOND, leaf(9)), "noto")])
        assert [each.contract for each in await listening.receipts_of(intent_id(2))] == [FIRST, SECOND]


@in_loop
async def test_receipts_that_were_due_before_the_upgrade_are_found_by_their_block(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of schema 27 does not note which of the transitions that are due a block has."""
    database = await make()
    known = migrations()
    monkeypatch.setattr(schema, "migrations", lambda: known[:27])
    await database.open()
    due = (
        "INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s)"
        " VALUES (?, ?, ?, 0, 1, 9000)"
    )
    old = [Statement(due, (FIRST, leaf(place), intent_id(place))) for place in (1, 2)]
    outcome = (
        "INSERT INTO outcomes (height, place, contract, intent, leaf, digest, status, outcome)"
        " VALUES (3, 0, ?, ?, ?, ?, 'committed', ?)"
    )
    old.append(Statement(outcome, (FIRST, intent_id(1), leaf(1), digest(1), b"")))
    await database.write(old, 1)
    await database.close()
    monkeypatch.undo()
    async with opened_on(again(database)) as opened:
        sql = "SELECT leaf, committed_at FROM receipts_due ORDER BY leaf"
        rows = await opened.store._database.read(_rows_of(sql))
        assert sorted(rows, key=str) == sorted([(leaf(1), 3), (leaf(2), None)], key=str)


@in_loop
async def test_dispatches_from_before_there_were_several_accounts_belong_to_the_shared_one(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of schema 29 knows a dispatch by its nonce alone."""
    database = await make()
    known = migrations()
    monkeypatch.setattr(schema, "migrations", lambda: known[:29])
    await database.open()
    old = [a_dispatch(number, number + 4, (a_transition(number),)) for number in (0, 1)]
    rows = [Statement("UPDATE node SET next_nonce = 6")]
    for each in old:
        sql = "INSERT INTO dispatches (nonce, contract, digest, dispatch) VALUES (?, ?, ?, ?)"
        rows.append(Statement(sql, (each.nonce, FIRST, each.round.digest, encode(each))))
        intent = each.round.transitions[0].intent
        rows.append(Statement("INSERT INTO dispatched_intents (nonce, intent) VALUES (?, ?)", (each.nonce, intent)))
    rows.append(Statement("INSERT INTO mined (nonce, height, status) VALUES (4, 1, 'failed')"))
    await database.write(rows, 1)
    await database.close()
    monkeypatch.undo()
    async with opened_on(again(database)) as opened:
        stored = await opened.store.restore(())
        assert stored.accounts == {SHARED_ACCOUNT: StoredAccount(6)}
        assert stored.dispatches == tuple(old)
        assert await opened.store.traces.mined(old[0]) == (False, None)
        assert await opened.store.traces.dispatches(intent_id(1)) == ((5, old[1]),)
        new = replace(a_dispatch(2, 4, (a_transition(2),)), account=FIRST)
        await opened.write(OWN, new)
        assert await opened.store.traces.dispatch(6) == new
        assert await opened.store.traces.mined(new) is None


@in_loop
async def test_dispatches_with_the_same_nonce_of_two_accounts_are_kept_apart(make: Make) -> None:
    async with opened_on(await make()) as opened:
        one, two = (
            replace(a_dispatch(number, 0, (a_transition(number),), of), account=of)
            for number, of in ((1, FIRST), (2, SECOND))
        )
        for each in (one, two):
            await opened.write(OWN, each)
        await opened.write(OWN, DispatchRepriced(dearer(two)))
        used = MinedTransaction(0, MinedStatus.FAILED, account=FIRST)
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, (), (used,))
        later = ChainBlock(90, BlockHash(b"9"), BlockHash(b"8"), 20)
        await opened.write(OWN, BlocksIndexed(0, (block, later)))
        stored = await opened.store.restore(())
        assert stored.dispatches == (dearer(two),)
        assert stored.accounts == {SHARED_ACCOUNT: StoredAccount(), FIRST: StoredAccount(1), SECOND: StoredAccount(1)}
        recalled = await opened.ask(RecallDispatches((0,), FIRST))
        assert recalled == DispatchesRecalled((0,), (one,), FIRST)
        owed = await opened.ask(RecallDeliveries(PEER, 1, 10, 1_000_000))
        assert isinstance(owed, DeliveriesRecalled)
        assert {each.digest for each in owed.deliveries} == {one.round.digest, two.round.digest}
        assert [each.account for each in await opened.store.traces.latest_rounds(5)] == [FIRST, SECOND]


def _rows_of(sql: str) -> Reading[list[tuple[object, ...]]]:
    return (yield Statement(sql))


@in_loop
async def test_a_second_process_does_not_get_the_database(make: Make) -> None:
    database = await make()
    async with opened_on(database):
        with pytest.raises(Refused, match="another process has this database open"):
            await again(database).open()


@in_loop
async def test_another_nodes_database_is_refused(make: Make) -> None:
    database = await make()
    async with opened_on(database):
        pass
    with pytest.raises(Refused, match="the database belongs to node1, not to node9"):
        await again(database, NodeName("node9")).open()


@in_loop
async def test_stored_contract_with_a_longer_range_than_is_taken_in_is_read(make: Make) -> None:
    """Older releases took it in; it once kept the node from starting."""
    database, long = await make(), known_of(replace(CONTRACTS[0], range_size=2**40))
    async with opened_on(database, contracts=()) as opened:
        await opened.store.add_contract(long)
    async with opened_on(again(database), contracts=()) as opened:
        assert await opened.store.contracts() == (long,)


@in_loop
async def test_a_contract_is_there_after_a_restart(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        known = await opened.store.contracts()
        assert [each.contract.address for each in known] == [FIRST, SECOND]
        assert await opened.store.contracts_with_work() == ()
        await opened.write(SECOND, IntentAccepted(an_intent(1, SECOND)))
    async with opened_on(again(database)) as opened:
        assert await opened.store.contracts() == known
        assert await opened.store.contracts_with_work() == (SECOND,)


@in_loop
async def test_a_receipt_is_what_the_chain_says_and_else_what_was_decided(make: Make) -> None:
    async with opened_on(await make(), Config(confirmations=0)) as opened:
        committed = a_transition(1)
        outcome = LedgerOutcome(intent_id(1), committed.leaf, digest(1), LedgerStatus.COMMITTED)
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((FIRST, outcome),))
        reverted = Receipt(intent_id(2), Outcome.REVERTED, "it was cancelled")
        accepted = IntentAccepted(an_intent(1)), IntentAccepted(an_intent(2))
        await opened.write(FIRST, *accepted, signed(committed))
        await opened.write(OWN, BlocksIndexed(0, (block,)))
        await opened.write(FIRST, IntentFinalised(reverted))
        receipt = Receipt(intent_id(1), Outcome.CONFIRMED, leaf=committed.leaf)
        assert await opened.store.receipt_of(intent_id(1)) == receipt
        assert await opened.store.receipt_of(intent_id(2)) == reverted
        assert await opened.store.receipt_of(intent_id(3)) is None


@in_loop
async def test_blocks_are_kept_for_a_window_and_what_they_did_for_ever(make: Make) -> None:
    async with opened_on(await make()) as opened:
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(a_transition(1)))
        for height in range(1, 11):
            outcome = LedgerOutcome(intent_id(height), a_transition(height).leaf, digest(1), LedgerStatus.COMMITTED)
            block = ChainBlock(height, BlockHash(b"%d" % height), BlockHash(b""), height, ((FIRST, outcome),))
            await opened.write(OWN, BlocksIndexed(height - 1, (block,)))
        stored = await opened.store.restore((FIRST,))
        assert [block.height for block in stored.blocks] == [7, 8, 9, 10]
        assert len(stored.contracts[FIRST].indexed) == 9
        assert await opened.store.receipt_of(intent_id(1)) is not None


@in_loop
async def test_a_start_does_not_read_what_is_final(tmp_path: Path) -> None:
    """What is read of a thousand final intents is what is read of ten: nothing."""
    async with opened_on(new_sqlite(tmp_path)) as opened:
        for number in range(1, 1_001):
            receipt = Receipt(intent_id(number), Outcome.REVERTED, "it was cancelled")
            opened.order(FIRST, IntentAccepted(an_intent(number)), IntentFinalised(receipt))
        opened.order(FIRST, IntentAccepted(an_intent(1_001)))
        await opened.durable_after(1_001)
        counted = counting(opened.store._asking.node_of((FIRST,)))
        stored, row_count = await opened.store._database.read(counted)
        assert [restored.intent.id for restored in stored.contracts[FIRST].intents] == [intent_id(1_001)]
        assert row_count < 10


@in_loop
async def test_no_statement_goes_through_a_table_that_grows(tmp_path: Path) -> None:
    """Each finds its rows by an index; those of what is open are small, whatever has been."""
    statements = [
        statement
        for contract, record in one_of_each()
        for statement in Writing(NODE, {FIRST: b""}, Config(index_window_max=4), lambda: 0).statements(
            contract, record, 1
        )
    ]
    async with opened_on(new_sqlite(tmp_path)) as opened:
        for contract, record in one_of_each():
            await opened.write(contract, record)
        asking = opened.store._asking
        readings: list[Reading[Any]] = [
            asking.node_of((FIRST,)),
            asking.contract_of(FIRST),
            asking.contracts_with_work(),
            asking.look_up(LookUpIntents(1, "key", (intent_id(1),))),
            asking.receipt_of(intent_id(1)),
            asking.states_of(FIRST, (a_transition(1).leaf,)),
            asking.unspent_states(FIRST, None, 10),
            asking.unspent_states(FIRST, StatePlace(1, 0, 0), 10),
            asking.states_since(FIRST, 1, 10),
            asking.states_since(FIRST, 1, 10, on_chain=True),
            asking.states(FIRST, (StateId(a_transition(1).leaf, 0),)),
            asking.state_changes(FIRST, 0, 10),
            asking.state_changes(FIRST, 1, 10),
            asking.transaction(intent_id(1)),
            asking.transactions(None, 10),
            asking.transactions(intent_id(1), 10),
            asking.unfinished_count(),
        ]
        for reading in readings:
            await opened.store._database.read(noting_queries(reading, statements))
        plans = {statement.sql: await opened.store._database.read(plan_of(statement)) for statement in statements}
    assert len(plans) > 50
    scans = {(*step.split(), sql) for sql, steps in plans.items() for step in steps if step.startswith("SCAN ")}
    assert {(name, sql) for _, name, *using, sql in scans if not using and name in GROWING} == set()
    # All outcomes of a contract are as good as the whole table.
    assert [sql for sql, steps in plans.items() if any("_by_contract (contract=?)" in step for step in steps)] == []


def noting_queries(reading: Reading[Answer], queries: list[Statement]) -> Reading[Answer]:
    """The same reading; its queries are noted."""
    query = next(reading)
    while True:
        queries.append(query)
        rows = yield query
        try:
            query = reading.send(rows)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def plan_of(statement: Statement) -> Reading[list[str]]:
    rows = yield Statement(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
    return [str(row[3]) for row in rows]


def counting(reading: Reading[Answer]) -> Reading[tuple[Answer, int]]:
    """The same reading, with the number of rows that it was given."""
    row_count = 0
    query = next(reading)
    while True:
        rows = yield query
        row_count += len(rows)
        try:
            query = reading.send(rows)
        except StopIteration as end:
            return end.value, row_count


@in_loop
async def test_store_that_is_away_is_noticed_by_who_only_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_on(new_sqlite(tmp_path)) as opened:
        read = opened.store._database.read

        async def away(_: object) -> None:
            raise Unavailable("it is away")

        monkeypatch.setattr(group_commit, "LOOK_S", 0)
        monkeypatch.setattr(opened.store._database, "read", away)
        with pytest.raises(Unavailable):
            await opened.store.transaction(intent_id(1))
        assert opened.store.trouble == "it is away"
        # Nobody asks any more, and it is noticed all the same.
        monkeypatch.setattr(opened.store._database, "read", read)
        while opened.store.trouble:
            await asyncio.sleep(0)


@in_loop
async def test_what_peers_ask_for_is_answered_in_turns_and_after_what_the_node_itself_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "WAITING_OF_PEER_MAX", 3)
    async with opened_on(new_sqlite(tmp_path)) as opened:
        answered: list[object] = []
        answer = opened.store._answer

        async def noted(question: group_commit.Question) -> Sequence[Event]:
            answered.append(question.peer if isinstance(question, FindStates) else type(question))
            return await answer(question)

        monkeypatch.setattr(opened.store, "_answer", noted)
        for number, peer in enumerate(("flood", "flood", "flood", "flood", "flood", "other")):
            opened.store.perform(FindStates(FIRST, NodeName(peer), (a_transition(number).leaf,)))
        assert isinstance(await opened.ask(LoadContract(FIRST)), ContractLoaded)
        while len(answered) < 5:
            await asyncio.sleep(0)
        assert answered == [LoadContract, "flood", "other", "flood", "flood"]
        assert not opened.store._findings


@in_loop
async def test_what_peers_ask_for_is_bounded_in_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "WAITING_MAX", 2)
    async with opened_on(new_sqlite(tmp_path)) as opened:
        for number in range(5):
            opened.store.perform(FindStates(FIRST, NodeName(f"stranger{number}"), (a_transition(1).leaf,)))
        assert len(opened.store._findings) == 2
        assert isinstance(await opened.ask(LoadContract(FIRST)), ContractLoaded)
