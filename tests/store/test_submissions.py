"""What users asked for is kept as they asked for it, and found as they look for it; the same on both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from rota.abi.codec import entries_of, hash_of
from rota.chain.effects import BlocksIndexed
from rota.chain.public_transaction import Ending, Mined, PublicTransaction, Version, Wish
from rota.domains.base import PARTY_BYTES_MAX
from rota.domains.queries import Query
from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.types import (
    AwaitedLeaf,
    BlockHash,
    ContractAddress,
    Fees,
    IntentId,
    NodeName,
    Outcome,
    Party,
    Receipt,
    Rejected,
    SubmitMode,
    Transition,
)
from rota.node.effects import LookUpIntents
from rota.node.events import IntentsLookedUp
from rota.node.node import OWN
from rota.ports import (
    KEY_BYTES_MAX,
    Ask,
    Dependencies,
    PartyNames,
    PublicBinding,
    StoredSubmission,
    SubmissionKey,
    Unavailable,
)
from rota.store import DatabaseStore
from rota.store.write_queue import RecordRejected
from tests.store.kit import (
    CONFIG,
    FIRST,
    NOW_MS,
    SECOND,
    Make,
    Opened,
    a_dispatch,
    a_transition,
    again,
    an_intent,
    digest,
    in_loop,
    intent_id,
    leaf,
    opened_on,
    signed,
)

ABI = entries_of([{"type": "function", "name": "set", "inputs": [{"name": "x", "type": "uint256"}]}], "abi")
ALICE = Party("alice@node1")
PRIVATE = StoredSubmission(
    intent_id(1), NOW_MS, False, SubmitMode.AUTO, ALICE, "noto", FIRST, "mint()", b'{"a":1}', idempotency_key="k\0ey"
)
PUBLIC = StoredSubmission(
    intent_id(2),
    NOW_MS,
    True,
    SubmitMode.AUTO,
    ALICE,
    "",
    None,
    "",
    b"[]",
    hash_of(ABI),
    "public key",
    (intent_id(1),),
    21_000,
    2**200,
    2**70,
    1,
)
ACCOUNT = ContractAddress("0x" + "aa" * 20)
SUBMITTER = ContractAddress("0x" + "bb" * 20)
WAITING = PublicTransaction(0, PUBLIC.id, ALICE, ACCOUNT, None, b"code", 2**200, 0, Wish(gas=5), (intent_id(1),))
SIGNED = Version(Fees(3, 2), 21_000, b"raw", b"h" * 32, 7)


def found(*submissions: StoredSubmission) -> list[IntentId]:
    return [each.id for each in submissions]


async def accept(opened: Opened, submission: StoredSubmission) -> None:
    with opened.store.submissions.accompanying(submission, ()):
        intent = an_intent(int.from_bytes(submission.id, "big"), key=submission.idempotency_key)
        await opened.write(FIRST, IntentAccepted(intent))


def like(**fields: object) -> Query:
    return Query.parse({"eq": [{"field": name.rstrip("_"), "value": value} for name, value in fields.items()]})


@in_loop
async def test_what_was_asked_for_is_kept_and_shown_when_it_is_accepted(make: Make) -> None:
    opened = await Opened(await make()).start()
    store = opened.store
    try:
        await accept(opened, PRIVATE)
        await store.public.accept(PUBLIC, WAITING, ABI)
        assert await store.submissions.get(PRIVATE.id) == replace(PRIVATE, number=1)
        assert await store.submissions.get(PUBLIC.id) == replace(PUBLIC, number=2)
        assert await store.submissions.get(intent_id(9)) is None
        assert await store.abis.get(hash_of(ABI)) is not None
        assert found(*await store.submissions.find(Query())) == [PUBLIC.id, PRIVATE.id]
        for query in (like(type="private"), like(domain="noto"), like(to=FIRST), like(idempotencyKey="k\0ey")):
            assert found(*await store.submissions.find(query)) == [PRIVATE.id]
        for query in (like(type="public"), like(abiReference="0x" + hash_of(ABI).hex()), like(sequence=2)):
            assert found(*await store.submissions.find(query)) == [PUBLIC.id]
        assert len(await store.submissions.find(like(from_="alice@node1", submitMode="auto"))) == 2
    finally:
        await store.close()


@in_loop
async def test_submission_is_one_record_with_its_key_and_what_is_done(make: Make) -> None:
    opened = await Opened(await make()).start()
    store = opened.store
    try:
        # A write that was in doubt is given again, and is there once.
        for _ in range(2):
            await accept(opened, PRIVATE)
            await store.public.accept(PUBLIC, WAITING, ())
        assert found(*await store.submissions.find(Query())) == [PUBLIC.id, PRIVATE.id]
        assert len(await store.public.open()) == 1
        # The database itself does not give a key twice, whatever kind has it, and stores nothing of the second.
        other, key = replace(PUBLIC, id=intent_id(5)), PRIVATE.idempotency_key
        for taken in (other, replace(other, idempotency_key=key)):
            with pytest.raises(Unavailable):
                await store.public.accept(taken, replace(WAITING, id=taken.id), ())
        assert found(*await store.submissions.find(Query())) == [PUBLIC.id, PRIVATE.id]
        assert len(await store.public.open()) == 1
    finally:
        await store.close()


@in_loop
async def test_longest_key_that_a_node_takes_is_stored_with_any_characters(make: Make) -> None:
    """An index of PostgreSQL has a limit, and compresses what it can: these characters it cannot."""
    drawn = Random(1)
    key = "".join(chr(drawn.randrange(0x10000, 0x110000)) for _ in range(KEY_BYTES_MAX // 4))
    owner = Party("a" * (PARTY_BYTES_MAX - len("@node1")) + "@node1")
    opened = await Opened(await make()).start()
    try:
        await accept(opened, replace(PRIVATE, idempotency_key=key))
        await accept(opened, replace(PRIVATE, id=intent_id(3), sender=owner, idempotency_key=key, key_owner=owner))
        assert len(await opened.store.submissions.find(Query())) == 2
    finally:
        await opened.store.close()


@pytest.mark.parametrize("key", [PRIVATE.idempotency_key, "public key"])
def test_database_gives_no_key_twice_whatever_the_node_orders(make: Make, key: str) -> None:
    """The node looks for the key first; if it missed one, the run ends rather than have two transactions with it."""

    @in_loop
    async def scenario() -> None:
        database = await make()
        opened = await Opened(database).start()
        ended: list[BaseException] = []
        opened.store.failed = ended.append
        await accept(opened, PRIVATE)
        await opened.store.public.accept(PUBLIC, WAITING, ())
        taken = replace(PRIVATE, id=intent_id(6), idempotency_key=key)
        with opened.store.submissions.accompanying(taken, ()):
            opened.order(FIRST, IntentAccepted(an_intent(6)))
            while not ended:
                await asyncio.sleep(0)
        assert [type(each) for each in ended] == [RecordRejected]
        await opened.store.close()
        async with opened_on(again(database)) as reopened:
            assert found(*await reopened.store.submissions.find(Query())) == [PUBLIC.id, PRIVATE.id]
            assert await reopened.store.transaction(intent_id(6)) is None

    scenario()


@in_loop
@pytest.mark.parametrize("has_succeeded", [True, False])
async def test_private_transaction_that_depends_on_a_public_one_learns_its_outcome(
    make: Make, has_succeeded: bool
) -> None:
    async with opened_on(await make()) as opened:
        store, waiting = opened.store, replace(an_intent(6), depends_on=(PUBLIC.id,))
        asked = LookUpIntents(1, "", (PUBLIC.id, intent_id(9)))
        await store.public.accept(PUBLIC, WAITING, ())
        await opened.write(FIRST, IntentAccepted(waiting))
        looked_up = await store._database.read(store._asking.look_up(asked))
        assert (looked_up.outcomes, looked_up.unfinished) == ((), (PUBLIC.id,))
        assert (await store.restore([FIRST])).contracts[FIRST].outcomes == ()
        (public,) = await store.public.open()
        await store.public.save((replace(public, ending=Ending(has_succeeded, 5)),))
        ended = ((PUBLIC.id, Outcome.CONFIRMED if has_succeeded else Outcome.REVERTED),)
        looked_up = await store._database.read(store._asking.look_up(asked))
        assert (looked_up.outcomes, looked_up.unfinished) == (ended, ())
        assert (await store.restore([FIRST])).contracts[FIRST].outcomes == ended


@in_loop
async def test_leaf_is_judged_by_what_a_final_block_commits_under_its_id(make: Make) -> None:
    """Only its own contract counts, and the intent may be any node's. Dependents are stored with their leaves."""
    done, other = (LedgerOutcome(intent_id(n), leaf(n), digest(n), LedgerStatus.COMMITTED) for n in (1, 2))
    first = ChainBlock(1, BlockHash(b"1" * 32), BlockHash(b"0" * 32), 5, ((FIRST, done), (FIRST, other)))
    second = ChainBlock(2, BlockHash(b"2" * 32), first.hash, 8)
    right = AwaitedLeaf(FIRST, done.intent, done.leaf, 900)
    strange = AwaitedLeaf(FIRST, other.intent, done.leaf, 900)
    elsewhere, unknown = replace(right, contract=SECOND), replace(right, intent=intent_id(9))
    asked = (right, strange, elsewhere, unknown)
    async with opened_on(await make(), config=replace(CONFIG, confirmations=1)) as opened:
        store, waiting = opened.store, replace(an_intent(6), awaits=(right,))
        public = replace(WAITING, awaits=(right,))
        await store.public.accept(replace(PUBLIC, awaits=(right,)), public, ())
        (kept,) = await store.public.open()
        submission = await store.submissions.get(PUBLIC.id)
        assert submission is not None
        assert (kept.awaits, submission.awaits) == ((right,), (right,))
        await opened.write(FIRST, IntentAccepted(waiting))
        (restored,) = (await store.restore([FIRST])).contracts[FIRST].intents
        assert restored.intent == waiting
        await opened.write(OWN, BlocksIndexed(0, (first,)))
        assert (await store.public.ended_leaves(asked)).outcomes == {}, "its block is not final"
        await opened.write(OWN, BlocksIndexed(1, (second,)))
        ended = {right: Outcome.CONFIRMED, strange: Outcome.REVERTED}
        found = await store.public.ended_leaves(asked)
        assert (found.outcomes, found.final_time_s) == (ended, first.time_s)
        looked_up = await store._database.read(store._asking.look_up(LookUpIntents(1, "", (), asked)))
        assert looked_up == IntentsLookedUp(1, leaves=tuple(ended.items()))


@in_loop
async def test_keys_and_dependencies_are_found(make: Make) -> None:
    opened = await Opened(await make()).start()
    submissions = opened.store.submissions
    try:
        assert await submissions.with_key("k\0ey") is None
        await accept(opened, PRIVATE)
        await opened.store.public.accept(PUBLIC, WAITING, ())
        assert await submissions.with_key("k\0ey") == PRIVATE.id
        assert await submissions.with_key("k\ufffdey") is None
        assert await submissions.with_key("public key") == PUBLIC.id
        assert await submissions.dependencies(PUBLIC.id) == Dependencies((PRIVATE.id,), ())
        assert await submissions.dependencies(PRIVATE.id) == Dependencies((), (PUBLIC.id,))
        changed = replace(PUBLIC, to=FIRST, function="set(uint256)", data=b"[5]", abi=hash_of(ABI), gas=7)
        first = await submissions.get(PUBLIC.id)
        assert first is not None
        once = first.changed(changed, 7)
        await opened.store.public.save((), [Ask(once, ABI)])
        assert await submissions.get(PUBLIC.id) == once
        assert (once.gas, once.number, once.accepted_at_ms, once.changed_at_ms, once.earlier) == (
            7,
            2,
            NOW_MS,
            7,
            (first,),
        )
        twice = once.changed(replace(changed, gas=8, value_wei=2**200), 9)
        for submission in (twice, twice.with_late(1), twice.with_late(2)):
            await opened.store.public.save((), [Ask(submission)])
            assert await submissions.get(PUBLIC.id) == submission
        assert twice.with_late(1) == replace(once, late=twice.with_late(1).late)
        assert twice.with_late(2) == replace(first, late=twice.with_late(2).late)
        assert [each.gas for each in twice.with_late(2).late] == [7, 8]
        assert twice.with_late(2).with_late(0) == twice
    finally:
        await opened.store.close()


@in_loop
async def test_key_of_a_party_is_apart_from_those_of_others(make: Make) -> None:
    async with opened_on(await make()) as opened:
        submissions, node = opened.store.submissions, NodeName("node1")
        senders = [Party(f"{name}@node1") for name in ("bob", "shop.one", "alice")]
        bobs, shops, free = [
            StoredSubmission(
                intent_id(n + 1), NOW_MS, True, SubmitMode.AUTO, sender, data=b"[]", idempotency_key="key",
                key_owner=sender if n < 2 else "",
            )
            for n, sender in enumerate(senders)
        ]  # fmt: skip
        for n, each in enumerate((bobs, shops, free)):
            wanted = PublicTransaction(0, each.id, each.sender, ACCOUNT, None, b"", 0, n)
            assert await submissions.using(SubmissionKey("key", each.sender, is_partys=True)) is None
            await opened.store.public.accept(each, wanted, ())
            for is_partys in (True, False):
                found = await submissions.using(SubmissionKey("key", each.sender, is_partys))
                assert found == each.id, "a request of the same sender uses its key, whoever repeats it"
        carol = Party("carol@node1")
        assert await submissions.using(SubmissionKey("key", carol, is_partys=True)) is None
        assert await submissions.using(SubmissionKey("key", carol)) == free.id
        assert await submissions.with_key("key") == free.id
        many = tuple(f"party{n}" for n in range(200))
        for patterns, own in [
            (("alice",), free.id), (("bob",), bobs.id), (("shop.*",), shops.id), (("carol", "bo", "sho.*"), None),
            ((*many, "shop.*"), shops.id), (("bob.*", "shop"), None), (many, None),
        ]:  # fmt: skip
            assert await submissions.with_key("key", PartyNames(patterns, node)) == own
        twice = replace(bobs, id=intent_id(9))
        wanted = PublicTransaction(0, twice.id, twice.sender, ACCOUNT, None, b"", 0, 9)
        with pytest.raises(Unavailable):
            await opened.store.public.accept(twice, wanted, ())


async def ended(store: DatabaseStore, query: Query) -> list[IntentId]:
    """The ids of the receipts that a query finds."""
    return [each.intent for each in await store.submissions.find_ended(query)]


@in_loop
async def test_what_has_not_ended_is_found(make: Make) -> None:
    opened = await Opened(await make()).start()
    store = opened.store
    try:
        for number in (1, 3):
            await accept(opened, replace(PRIVATE, id=intent_id(number), idempotency_key=""))
        await store.public.accept(PUBLIC, WAITING, ())
        (public,) = await store.public.open()
        assert len(await store.submissions.find(Query(), is_open=True)) == 3
        await opened.write(FIRST, signed(Transition(intent_id(1), leaf(1), valid_until_s=1_000)))
        committed = LedgerOutcome(intent_id(1), leaf(1), digest(1), LedgerStatus.COMMITTED)
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((FIRST, committed),))
        await opened.write(OWN, BlocksIndexed(0, (block,)))
        assert len(await store.submissions.find(Query(), is_open=True)) == 3
        later = ChainBlock(2, BlockHash(b"2"), BlockHash(b"1"), 11)
        await opened.write(OWN, BlocksIndexed(1, (later,)))
        await opened.write(FIRST, IntentFinalised(Receipt(intent_id(3), Outcome.REVERTED, "no")))
        assert found(*await store.submissions.find(Query(), is_open=True)) == [PUBLIC.id]
        await store.public.save((replace(public, ending=Ending(False, 5, "no")),))
        assert await store.submissions.find(Query(), is_open=True) == ()
        await store.listening.number([(each, "noto") for each in await store.listening.due(500)])
        assert set(await ended(store, Query())) == {intent_id(number) for number in (1, 2, 3)}
        assert await ended(store, like(type="public", success=False)) == [PUBLIC.id]
        assert await ended(store, like(type="private", success=False)) == [intent_id(3)]
        assert await ended(store, like(id=str(UUID(bytes=PUBLIC.id)))) == [PUBLIC.id]
        assert await ended(store, like(success=True)) == [intent_id(1)]
        assert set(await ended(store, like(source=FIRST))) == {intent_id(1), intent_id(3)}
        asked = [intent_id(number) for number in (1, 2, 3, 4)]
        assert await store.public.outcomes(asked) == {
            intent_id(1): Outcome.CONFIRMED,
            intent_id(2): Outcome.REVERTED,
            intent_id(3): Outcome.REVERTED,
        }
    finally:
        await store.close()


@in_loop
async def test_public_transaction_is_kept_as_it_stands(make: Make) -> None:
    opened = await Opened(await make()).start()
    public = opened.store.public
    try:
        await public.accept(PUBLIC, WAITING, ())
        asked = replace(PUBLIC, id=intent_id(5), idempotency_key="another key")
        await public.accept(asked, replace(WAITING, id=intent_id(5), to=FIRST, depends_on=()), ())
        first, second = await public.open()
        assert (first, second.number) == (replace(WAITING, number=1, created_at_ms=NOW_MS), 2)
        assert await public.open() == (first, second)
        signed = replace(first, nonce=7, versions=(SIGNED,), given_up="why")
        await public.save((signed,))
        assert await public.get(first.id) == signed == await public.numbered(1)
        mined = Mined(SIGNED.hash, 12, b"b" * 32, 3, True, FIRST)
        ended = replace(signed, ending=Ending(True, 9, mined=mined))
        await public.save((ended,))
        assert await public.open() == (second,)
        assert await public.get(first.id) == ended
        first_found, second_found = PublicBinding(2, first.id), PublicBinding(4, second.id)
        for query in (like(nonce=7), like(success=True), like(contractAddress=FIRST), like(localId=2)):
            assert await public.find(query, SUBMITTER) == (first_found,)
        assert await public.find(like(to=FIRST), SUBMITTER) == (second_found,)
        for query in (like(from_=ACCOUNT), like(sender=PUBLIC.sender), like(transactionType="public"), Query()):
            assert await public.find(query, SUBMITTER) == (second_found, first_found)
        assert await public.find(Query(), SUBMITTER, is_open=True) == (second_found,)
        for query in (like(from_=SUBMITTER), like(transaction=str(UUID(bytes=intent_id(9)))), like(sender="bob@node1")):
            assert await public.find(query, SUBMITTER) == ()
        with pytest.raises(Rejected, match="must be one of localId, transaction"):
            await public.find(like(transactionHash="0x" + SIGNED.hash.hex()), SUBMITTER)
        assert await public.numbered(9) is None
        with_receipts = opened.store.listening.with_receipts
        assert await with_receipts(0, 12, 5) == {12: frozenset({SIGNED.hash})}
        assert await with_receipts(13, 20, 5) == {} == await with_receipts(0, 11, 5)
    finally:
        await opened.store.close()


@in_loop
async def test_rounds_are_found_beside_public_transactions_once_for_each_intent(make: Make) -> None:
    opened = await Opened(await make()).start()
    store = opened.store
    try:
        await accept(opened, PRIVATE)
        await store.public.accept(PUBLIC, WAITING, ())
        # The second intent is another node's. The third has the id of one of ours, in another contract.
        one = a_dispatch(1, 0, (a_transition(1), a_transition(7)))
        two = a_dispatch(2, 1, (a_transition(1),), SECOND)
        await opened.write(OWN, one)
        await opened.write(OWN, two)
        own, other = PublicBinding(1, PRIVATE.id), PublicBinding(1, intent_id(7))
        user, strange = PublicBinding(2, PUBLIC.id), PublicBinding(3, PRIVATE.id)
        find = store.public.find
        assert await find(Query(), SUBMITTER) == (strange, user, own, other)
        assert await find(Query(limit=2), SUBMITTER) == (strange, user)
        assert await find(Query.parse({"sort": ["localId"], "limit": 3}), SUBMITTER) == (own, other, user)
        assert await find(like(sender=ALICE), SUBMITTER) == (user, own)
        assert await find(like(sender=ALICE, transactionType="private", to=FIRST), SUBMITTER) == (own,)
        assert await find(like(from_=one.signer, nonce=0), SUBMITTER) == (own, other)
        assert await find(like(from_=SUBMITTER, nonce=0), SUBMITTER) == ()
        assert await find(like(from_=SUBMITTER), ACCOUNT) == ()
        assert await find(like(transaction=str(UUID(bytes=intent_id(7)))), SUBMITTER) == (other,)
        mined = (MinedTransaction(0, MinedStatus.SUCCEEDED),)
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, mined=mined)
        assert await store.traces.waiting_dispatch(one.hash) == one
        await opened.write(OWN, BlocksIndexed(0, (block,)))
        assert await find(like(success=True), SUBMITTER) == (own, other)
        assert await find(Query(), SUBMITTER, is_open=True) == (strange, user)
        assert await store.traces.waiting_dispatch(two.hash) == two
        assert await store.traces.waiting_dispatch(b"another") is None
    finally:
        await store.close()
