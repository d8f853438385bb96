"""The order of receipts and the listeners that follow it, on every store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.chain.effects import BlocksIndexed
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import Authorised
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import (
    INTENT_ID_USED,
    NO_CONTRACT,
    BlockHash,
    Call,
    ContractAddress,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    Transition,
)
from rota.ports import DueReceipt, ListenerPosition, StoredListener, Unavailable
from rota.sim.disk import Fate
from rota.store.database import Reading, Statement
from rota.store.listening import _COMMITTED_AND_DUE, _ENDED_AND_DUE, _EXPIRED, public_due
from tests.store.kit import (
    CONTRACTS,
    FIRST,
    NOW_MS,
    SECOND,
    FaultyDatabase,
    Make,
    Opened,
    a_dispatch,
    a_transition,
    again,
    an_intent,
    digest,
    in_loop,
    intent_id,
    new_sqlite,
    opened_on,
    permitted,
    signed,
)


def block(height: int, *committed: Transition, time_s: int | None = None) -> ChainBlock:
    outcomes = tuple(
        (FIRST, LedgerOutcome(each.intent, each.leaf, digest(1), LedgerStatus.COMMITTED, transaction=b"hash"))
        for each in committed
    )
    parent = BlockHash(b"%d" % (height - 1))
    return ChainBlock(height, BlockHash(b"%d" % height), parent, time_s or height * 10, outcomes)


async def commit(opened: Opened, height: int, *transitions: Transition) -> None:
    """In a block that is final, as one more stands on it."""
    await opened.write(FIRST, BlocksIndexed(height - 1, (block(height, *transitions), block(height + 1))))


async def number_all(opened: Opened) -> list[tuple[int, IntentId]]:
    """Number what is due; the whole order."""
    listening = opened.store.listening
    await listening.number([(each, "noto") for each in await listening.due(500)])
    return [(each.sequence, each.intent) for each in await listening.receipts_after(0, 100)]


async def accept_and_permit(opened: Opened, *numbers: int) -> list[Authorised]:
    made = [a_transition(number) for number in numbers]
    for number, transition in zip(numbers, made, strict=True):
        accepted = IntentAccepted(an_intent(number))
        await opened.write(FIRST, accepted, signed(transition), permitted(transition))
    return made


@in_loop
@pytest.mark.parametrize("other", [FIRST, SECOND])
async def test_leaf_that_its_party_did_not_sign_has_no_receipt_of_our_intent(
    make: Make, other: ContractAddress
) -> None:
    """A member sends us states under the id of an intent of ours, and commits them there or in another contract."""
    async with opened_on(await make()) as opened:
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        foreign = a_transition(1, 1)
        await opened.write(other, StatesReceived(digest(1), (foreign,)))
        outcome = LedgerOutcome(foreign.intent, foreign.leaf, digest(1), LedgerStatus.COMMITTED)
        used = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((other, outcome),))
        await opened.write(FIRST, BlocksIndexed(0, (used, block(2))))
        assert await number_all(opened) == []
        ended = Receipt(intent_id(1), Outcome.REVERTED, "used", foreign.leaf, code=INTENT_ID_USED)
        await opened.write(FIRST, IntentFinalised(ended))
        assert [intent for _, intent in await number_all(opened)] == [intent_id(1)]
        assert await opened.store.receipt_of(intent_id(1)) == ended


@in_loop
async def test_leaf_that_is_recognised_later_has_its_receipt(make: Make) -> None:
    async with opened_on(await make()) as opened:
        made = a_transition(1)
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        await commit(opened, 1, made)
        assert await number_all(opened) == []
        await opened.write(FIRST, signed(made))
        assert [intent for _, intent in await number_all(opened)] == [intent_id(1)]


@in_loop
async def test_receipts_are_numbered_in_the_order_in_which_the_chain_has_them(make: Make) -> None:
    async with opened_on(await make()) as opened:
        one, two, three = await accept_and_permit(opened, 1, 2, 3)
        await commit(opened, 1, three, one)
        assert await number_all(opened) == [(1, three.intent), (2, one.intent)]
        await opened.write(FIRST, BlocksIndexed(2, (block(3, two), block(4))))
        assert await number_all(opened) == [(1, three.intent), (2, one.intent), (3, two.intent)]
        assert await opened.store.listening.due(500) == ()


@in_loop
async def test_what_is_not_final_has_no_number(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (one,) = await accept_and_permit(opened, 1)
        await opened.write(FIRST, BlocksIndexed(0, (block(1, one),)))
        assert await number_all(opened) == []
        await opened.write(FIRST, BlocksIndexed(1, (block(2),)))
        assert await number_all(opened) == [(1, one.intent)]


@in_loop
async def test_what_ended_off_the_chain_is_due_at_once_and_a_deployment_comes_with_its_intent(make: Make) -> None:
    async with opened_on(await make()) as opened:
        deployment = an_intent(7, NO_CONTRACT)
        reverted = IntentFinalised(Receipt(intent_id(6), Outcome.REVERTED, "no funds"))
        made = IntentFinalised(Receipt(intent_id(7), Outcome.CONFIRMED, contract=FIRST))
        await opened.write(FIRST, IntentAccepted(an_intent(6)), reverted)
        await opened.write(NO_CONTRACT, IntentAccepted(deployment), made)
        assert await opened.store.listening.due(500) == (
            DueReceipt(intent_id(6), FIRST, Leaf(intent_id(6))),
            DueReceipt(intent_id(7), NO_CONTRACT, Leaf(intent_id(7)), deployment),
        )
        assert await number_all(opened) == [(1, intent_id(6)), (2, intent_id(7))]


@in_loop
async def test_anothers_transaction_is_numbered_when_its_states_are_here(make: Make) -> None:
    async with opened_on(await make()) as opened:
        theirs = a_transition(9)
        await commit(opened, 1, theirs)
        assert await number_all(opened) == []
        await opened.write(FIRST, StatesReceived(digest(1), (theirs,)))
        assert await number_all(opened) == [(1, theirs.intent)]
        numbered = await opened.store.listening.receipt_number(FIRST, theirs.intent)
        assert numbered is not None
        assert (numbered.type, numbered.domain, numbered.numbered_at_ms) == ("private", "noto", NOW_MS)
        found = await opened.store.listening.commit_of(numbered)
        assert found is not None
        assert (found[0], found[1].transaction) == (1, b"hash")


@in_loop
async def test_what_this_node_dispatched_for_others_has_a_receipt_here(make: Make) -> None:
    async with opened_on(await make()) as opened:
        theirs = a_transition(9)
        await opened.write(FIRST, a_dispatch(1, 0, (theirs,)))
        await commit(opened, 1, theirs)
        assert await number_all(opened) == [(1, theirs.intent)]


@in_loop
async def test_an_empty_transition_has_no_receipt_of_its_own(make: Make) -> None:
    """It only uses its intent up; the sender says how that ended."""
    async with opened_on(await make()) as opened:
        leaf = void_leaf(domain_separator(CONTRACTS[0].chain_id, FIRST), intent_id(1))
        empty = Transition(intent_id(1), leaf, valid_until_s=5)
        await opened.write(FIRST, a_dispatch(1, 0, (empty,)))
        await commit(opened, 1, empty)
        await opened.write(FIRST, BlocksIndexed(2, (block(3, time_s=1_001), block(4, time_s=1_002))))
        assert await number_all(opened) == []


@pytest.mark.parametrize("fate", [Fate.FAILS, Fate.LIES])
def test_latest_number_is_read_again_after_a_write_that_failed_or_is_in_doubt(fate: Fate, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        database = FaultyDatabase(new_sqlite(tmp_path))
        async with opened_on(database) as opened:
            one, two, three = await accept_and_permit(opened, 1, 2, 3)
            await commit(opened, 1, one)
            assert await number_all(opened) == [(1, one.intent)]
            await opened.write(FIRST, BlocksIndexed(2, (block(3, two), block(4))))
            database.fate, database.strikes = fate, 1
            with pytest.raises(Unavailable):
                await number_all(opened)
            await opened.write(FIRST, BlocksIndexed(4, (block(5, three), block(6))))
            assert await number_all(opened) == [(1, one.intent), (2, two.intent), (3, three.intent)]

    run()


@in_loop
async def test_nothing_has_two_numbers_and_numbers_survive_a_restart(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        one, two = await accept_and_permit(opened, 1, 2)
        await commit(opened, 1, one)
        due = await opened.store.listening.due(500)
        await opened.store.listening.number([(each, "noto") for each in due])
        await opened.store.listening.number([(each, "noto") for each in due])
        assert await number_all(opened) == [(1, one.intent)]
        await opened.write(FIRST, BlocksIndexed(2, (block(3, two), block(4))))
    async with opened_on(again(database)) as opened:
        assert await number_all(opened) == [(1, one.intent), (2, two.intent)]


@in_loop
async def test_a_public_transaction_that_has_ended_is_numbered_among_the_others(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (one,) = await accept_and_permit(opened, 1)
        await opened.store.write([public_due(intent_id(50))])
        await number_all(opened)
        await commit(opened, 1, one)
        assert await number_all(opened) == [(1, intent_id(50)), (2, one.intent)]
        found = await opened.store.listening.receipts_after(0, 1)
        assert [each.type for each in found] == ["public"]
        assert [each.sequence for each in await opened.store.listening.latest_receipts(5)] == [1, 2]
        assert [each.intent for each in await opened.store.listening.latest_receipts(1)] == [one.intent]


@in_loop
async def test_what_was_sent_and_not_committed_in_time_is_forgotten(make: Make) -> None:
    async with opened_on(await make()) as opened:
        lost, kept = a_transition(1), replace(a_transition(2), valid_until_s=9_000)
        await opened.write(FIRST, StatesReceived(digest(1), (lost, kept)))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, time_s=2_001), block(2, time_s=2_002))))
        await opened.store.listening.forget_expired()
        rows = await opened.store._database.read(_rows("SELECT intent FROM receipts_due"))
        assert [row[0] for row in rows] == [kept.intent]


@in_loop
async def test_peer_that_understates_a_bound_takes_no_receipt_from_a_listener(make: Make) -> None:
    """No leaf binds it. What is received once is not written again, when an honest node sends it."""
    async with opened_on(await make()) as opened:
        theirs = a_transition(9)
        await opened.write(FIRST, BlocksIndexed(0, (block(1), block(2))))
        await opened.write(FIRST, StatesReceived(digest(1), (replace(theirs, valid_until_s=1),)))
        await opened.store.listening.forget_expired()
        await commit(opened, 3, theirs)
        assert await number_all(opened) == [(1, theirs.intent)]


@in_loop
async def test_commit_of_the_same_id_in_another_contract_takes_no_receipt_from_the_payee(make: Make) -> None:
    """The notary of another token commits the id of a foreign payment first, and sends the payee a state of it."""
    async with opened_on(await make()) as opened:
        payment, lie = a_transition(9), a_transition(9, 1)
        await opened.write(SECOND, StatesReceived(digest(2), (lie,)))
        await opened.write(FIRST, StatesReceived(digest(1), (payment,)))
        used = LedgerOutcome(lie.intent, lie.leaf, digest(2), LedgerStatus.COMMITTED)
        first = replace(block(1), outcomes=((SECOND, used),))
        await opened.write(FIRST, BlocksIndexed(0, (first, block(2, payment), block(3))))
        await number_all(opened)
        found = await opened.store.listening.receipts_after(0, 10)
        assert [(each.contract, each.intent, each.leaf) for each in found] == [
            (SECOND, lie.intent, lie.leaf),
            (FIRST, payment.intent, payment.leaf),
        ]
        assert await opened.store.listening.receipts_of(payment.intent) == found
        place = await opened.store.listening.receipt_number(FIRST, payment.intent)
        assert place == found[1]


@in_loop
async def test_foreign_commit_before_an_intent_is_accepted_takes_no_number_from_the_intent(make: Make) -> None:
    """The id of a draft is known to others before its user submits it."""
    async with opened_on(await make()) as opened:
        lie = a_transition(1, 1)
        await opened.write(SECOND, StatesReceived(digest(2), (lie,)))
        used = LedgerOutcome(lie.intent, lie.leaf, digest(2), LedgerStatus.COMMITTED)
        await opened.write(FIRST, BlocksIndexed(0, (replace(block(1), outcomes=((SECOND, used),)), block(2))))
        await number_all(opened)
        (made,) = await accept_and_permit(opened, 1)
        await opened.write(FIRST, BlocksIndexed(2, (block(3, made), block(4))))
        assert await number_all(opened) == [(1, made.intent), (2, made.intent)]
        stored = await opened.store.transaction(made.intent)
        assert stored is not None
        assert stored.place is not None
        assert (stored.place.contract, stored.place.sequence) == (FIRST, 2)


@in_loop
async def test_a_listener_is_kept_with_its_position(make: Make) -> None:
    database = await make()
    listener = StoredListener("receipts", "mine", NOW_MS, True, b'{"filters":{}}', ListenerPosition(0))
    async with opened_on(database) as opened:
        listening = opened.store.listening
        await listening.add_listener(listener)
        await listening.add_listener(replace(listener, definition=b"{}"))
        await listening.add_listener(replace(listener, kind="events", acknowledged=ListenerPosition(7, 3)))
        await listening.note_acknowledged("receipts", "mine", ListenerPosition(12, 1))
        await listening.start_listener("receipts", "mine", is_started=False)
    async with opened_on(again(database)) as opened:
        listening = opened.store.listening
        changed = replace(listener, is_started=False, acknowledged=ListenerPosition(12, 1))
        assert await listening.listeners("receipts") == (changed,)
        assert await listening.listener("events", "mine") == replace(
            listener, kind="events", acknowledged=ListenerPosition(7, 3)
        )
        await listening.remove_listener("receipts", "mine")
        assert await listening.listener("receipts", "mine") is None
        assert len(await listening.listeners("events")) == 1


@in_loop
async def test_looking_for_what_is_due_goes_through_what_is_due_alone(tmp_path: Path) -> None:
    async with opened_on(new_sqlite(tmp_path)) as opened:
        for sql, parameters in ((_COMMITTED_AND_DUE, (1, 1, 1, 1)), (_ENDED_AND_DUE, (1,)), (_EXPIRED, (1, 1, 1))):
            plan = await opened.store._database.read(_rows(f"EXPLAIN QUERY PLAN {sql}", *parameters))
            steps = [str(row[3]) for row in plan]
            assert not any(step.startswith(("SCAN outcomes", "SCAN intents")) for step in steps), steps
            assert not any("_by_contract (contract=?)" in step for step in steps), steps
            # Peers send states that are never committed: those are not gone through.
            assert any(step.startswith(_DUE_BY_INDEX) for step in steps), steps


_DUE_BY_INDEX = (
    "SEARCH receipts_due USING INDEX receipts_due_committed (committed_at<?)",
    "SCAN receipts_due USING INDEX receipts_due_final",
    "SEARCH receipts_due USING INDEX receipts_due_bound (valid_until_s>? AND valid_until_s<?)",
)


def _rows(sql: str, *parameters: int) -> Reading[list[tuple[object, ...]]]:
    return (yield Statement(sql, parameters))


@in_loop
async def test_contents_that_only_a_peer_sent_are_deleted_when_their_bound_has_passed_in_final_time(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        lost, late, made = a_transition(1), replace(a_transition(2), valid_until_s=9_000), a_transition(3)
        for number, each in enumerate((lost, late, made), 1):
            await opened.write(FIRST, StatesReceived(digest(number), (each,), peer=NodeName("peer")))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, made, time_s=1_500), block(2, time_s=2_001))))
        await opened.store.listening.forget_expired()
        found = await opened.store.transitions_of(FIRST, (lost.leaf, late.leaf, made.leaf))
        assert [each.leaf for each in found] == [lost.leaf, late.leaf, made.leaf], "not final yet"
        await opened.write(FIRST, BlocksIndexed(2, (block(3, time_s=2_002),)))
        await opened.store.listening.forget_expired()
        found = await opened.store.transitions_of(FIRST, (lost.leaf, late.leaf, made.leaf))
        assert [each.leaf for each in found] == [late.leaf, made.leaf]
        rows = await opened.store._database.read(_rows("SELECT DISTINCT leaf FROM states"))
        assert {row[0] for row in rows} == {late.leaf, made.leaf}
    async with opened_on(again(database)) as opened:
        stored = await opened.store.restore([])
        assert [(each.leaf, each.peer, each.until_s) for each in stored.sent] == [(late.leaf, "peer", 9_000)]
        assert stored.sent[0].size_bytes > 0


@in_loop
async def test_later_bound_of_a_peer_counts_for_that_peer_after_a_restart(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        for number, (peer, until_s) in enumerate((("first", 5_000), ("second", 9_000), ("third", 7_000)), 1):
            made = replace(a_transition(1), valid_until_s=until_s)
            await opened.write(FIRST, StatesReceived(digest(number), (made,), peer=NodeName(peer)))
    async with opened_on(again(database)) as opened:
        stored = await opened.store.restore([])
        assert [(each.peer, each.until_s) for each in stored.sent] == [("second", 9_000)]


@in_loop
async def test_larger_copy_of_a_peer_counts_for_that_peer_after_a_restart(make: Make) -> None:
    database = await make()
    async with opened_on(database) as opened:
        for number, (peer, size) in enumerate((("first", 10), ("second", 5_000), ("third", 100)), 1):
            made = replace(a_transition(1), calls=(Call(FIRST, 0, bytes(size)),))
            await opened.write(FIRST, StatesReceived(digest(number), (made,), peer=NodeName(peer)))
    async with opened_on(again(database)) as opened:
        [sent] = (await opened.store.restore([])).sent
        assert sent.peer == "second"
        assert 5_000 < sent.size_bytes < 10_000


@in_loop
async def test_contents_that_a_peer_sent_and_this_node_dispatched_are_not_deleted(make: Make) -> None:
    async with opened_on(await make()) as opened:
        ours = a_transition(1)
        await opened.write(FIRST, StatesReceived(digest(1), (ours,), peer=NodeName("peer")))
        await opened.write(FIRST, a_dispatch(1, 0, (ours,)))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, time_s=9_000), block(2, time_s=9_000))))
        await opened.store.listening.forget_expired()
        assert len(await opened.store.transitions_of(FIRST, (ours.leaf,))) == 1
