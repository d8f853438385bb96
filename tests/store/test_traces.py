"""What the sequencer left of private transactions is found again; the same on both databases."""

from __future__ import annotations

from dataclasses import replace

from rota.chain.effects import BlocksIndexed
from rota.domains.queries import Query
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted, TransitionPrepared
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.consistency import Consistent
from rota.model.types import BlockHash, NodeName, Party, SubmitMode
from rota.node.node import OWN
from rota.ports import LatestRound, StoredSubmission
from rota.sequencer.effects import TransitionIssued
from rota.store.transitions import COPIES_MAX
from tests.store.kit import (
    FIRST,
    SECOND,
    Make,
    Opened,
    a_dispatch,
    a_prepared,
    a_transition,
    an_intent,
    digest,
    in_loop,
    intent_id,
    signed,
)


@in_loop
async def test_copies_of_a_transition_are_put_together(make: Make) -> None:
    opened = await Opened(await make()).start()
    try:
        whole = a_transition(1)
        first, *rest = whole.outputs
        half = replace(whole, outputs=(replace(first, content=None), *rest))
        other = replace(whole, outputs=(first, *(replace(each, content=None) for each in rest)))
        assert await opened.store.traces.transition(FIRST, whole.leaf) is None
        await opened.write(FIRST, StatesReceived(digest(1), (half,)))
        assert await opened.store.traces.transition(FIRST, whole.leaf) == half
        await opened.write(FIRST, StatesReceived(digest(2), (other,)))
        assert await opened.store.traces.transition(FIRST, whole.leaf) == whole
        assert await opened.store.traces.transition(SECOND, whole.leaf) is None
    finally:
        await opened.store.close()


@in_loop
async def test_contents_that_come_after_many_copies_of_a_peer_are_in_the_transition(make: Make) -> None:
    """A peer that sends as many copies of a leaf as are kept takes no content from the receipts of its readers."""
    whole = a_transition(1)
    bare = tuple(replace(state, content=None) for state in whole.outputs[1:])
    first = Consistent(replace(whole, outputs=(whole.outputs[0], *bare)))
    rest = Consistent(replace(whole, outputs=(replace(whole.outputs[0], content=None), *whole.outputs[1:])))
    opened = await Opened(await make()).start()
    try:
        for number in range(COPIES_MAX):
            await opened.write(FIRST, StatesReceived(digest(number), (first,)))
        await opened.write(FIRST, StatesReceived(digest(COPIES_MAX), (rest,)))
        assert await opened.store.traces.transition(FIRST, whole.leaf) == whole
    finally:
        await opened.store.close()


@in_loop
async def test_what_is_to_be_carried_out_is_kept_until_it_is_settled(make: Make) -> None:
    opened = await Opened(await make()).start()
    book = opened.store.carried
    try:
        first, second = (
            TransitionPrepared(NodeName("a"), a_prepared(a_transition(n), 1_000), Party("a@A")) for n in (1, 2)
        )
        await book.add(FIRST, first, "key 1")
        await book.add(FIRST, first, "another key")
        await book.add(FIRST, second, "key 2")
        found = {each.idempotency_key: each for each in await book.open(10, 10)}
        assert {key: each.record for key, each in found.items()} == {"key 1": first, "key 2": second}
        assert len(await book.open(10, 1)) == len(await book.open(1, 10)) == 1
        assert await book.find(Query()) == ()
        await book.note_chained(found["key 1"], intent_id(8))
        await book.note_refused(found["key 2"], "no")
        assert await book.find(Query()) == ((intent_id(1), intent_id(8)),)
        asked = {"eq": [{"field": "chainedTransactionID", "value": intent_id(8).hex()}]}
        assert await book.find(Query.parse(asked)) == ((intent_id(1), intent_id(8)),)
        assert await book.with_intent(intent_id(1)) == await book.with_intent(intent_id(8))
        assert await book.with_intent(intent_id(2)) == ()
        again = {each.idempotency_key: (each.chained, each.refusal) for each in await book.open(10, 10)}
        assert again == {"key 1": (intent_id(8), None), "key 2": (None, "no")}
        for each in found.values():
            await book.settle(each)
        assert await book.open(10, 10) == ()
        # It is settled once, and is found all the same.
        await book.add(FIRST, first, "a third key")
        assert await book.open(10, 10) == ()
        assert await book.find(Query()) == ((intent_id(1), intent_id(8)),)
    finally:
        await opened.store.close()


@in_loop
async def test_rounds_are_found_by_intent_and_nonce(make: Make) -> None:
    opened = await Opened(await make()).start()
    traces = opened.store.traces
    try:
        one, two = a_dispatch(1, 0, (a_transition(1), a_transition(2))), a_dispatch(2, 1, (a_transition(2, 1),))
        for dispatch in (one, two):
            await opened.write(OWN, dispatch)
        assert await traces.dispatches(intent_id(2)) == ((0, one), (1, two))
        assert await traces.dispatches(intent_id(9)) == ()
        assert (await traces.dispatch(1), await traces.dispatch(5)) == (two, None)
        mine = Query.parse({"eq": [{"field": "publicTransactionID", "value": 1}], "sort": ["transactionID"]})
        assert await traces.find_dispatched(mine) == ((0, intent_id(1)), (0, intent_id(2)))
        assert len(await traces.find_dispatched(Query())) == 3
        assert await traces.mined(one) is None
        mined = (MinedTransaction(0, MinedStatus.SUCCEEDED), MinedTransaction(1, MinedStatus.FAILED))
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, mined=mined)
        await opened.write(OWN, BlocksIndexed(0, (block,)))
        assert (await traces.mined(one), await traces.mined(two)) == ((True, 10), (False, 10))
        three = a_dispatch(3, 2, (a_transition(3),))
        await opened.write(OWN, three)
        first, second, third = await traces.latest_rounds(5)
        assert first == LatestRound(0, one.round.contract, one.round.digest, 2, MinedStatus.SUCCEEDED, 1, 10)
        assert (second.nonce, second.status, second.transition_count) == (1, MinedStatus.FAILED, 1)
        assert (third.nonce, third.status, third.height, third.block_time_s) == (2, None, None, None)
        assert await traces.latest_rounds(1) == (third,)
    finally:
        await opened.store.close()


@in_loop
async def test_what_its_user_was_given_tells_what_it_did(make: Make) -> None:
    opened = await Opened(await make()).start()
    submissions = opened.store.submissions
    try:
        prepared = a_prepared(a_transition(1), 1)
        leaf = prepared.transition.leaf
        for number in (1, 2):
            asked = StoredSubmission(intent_id(number), 0, False, SubmitMode.EXTERNAL, Party("alice@node1"))
            with submissions.accompanying(asked, ()):
                await opened.write(FIRST, IntentAccepted(an_intent(number)))
        assert await submissions.find(Query(), is_prepared=True) == ()
        await opened.write(FIRST, signed(prepared.transition), TransitionIssued(prepared, 900))
        assert [each.id for each in await submissions.find(Query(), is_prepared=True)] == [intent_id(1)]
        outcome = LedgerOutcome(intent_id(1), leaf, digest(1), LedgerStatus.COMMITTED)
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((FIRST, outcome),))
        later = ChainBlock(2, BlockHash(b"2"), BlockHash(b"1"), 11)
        await opened.write(OWN, BlocksIndexed(0, (block, later)))
        assert await submissions.find(Query(), is_prepared=True) == ()
        # Whoever committed it.
        assert await opened.store.traces.transition(FIRST, leaf) == prepared.transition
    finally:
        await opened.store.close()
