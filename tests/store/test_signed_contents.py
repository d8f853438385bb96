"""What a party signed is in its node's store, with all contents, until the chain cannot commit it any more.

A coordinator may commit what is endorsed without asking its sender for permission, and distribute nothing. Then the
sender's own node is the only honest one that may have the contents.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from rota.chain.effects import BlocksIndexed
from rota.exchange.effects import StatesReceived
from rota.machine.effects import FindStates, IntentAccepted, IntentFinalised, Record, TransitionPrepared
from rota.model.blocks import ChainBlock
from rota.model.consistency import Consistent
from rota.model.types import DelegationNumber, Digest, Leaf, Outcome, Receipt, State, StateId, Transition
from rota.node.events import StatesFound
from rota.node.private_states import SEEN_PART
from rota.ports import StateStatus
from rota.sequencer.sent_intent import Permission
from rota.store.database import Reading, Statement
from rota.store.encoding import decode_permission, encode
from rota.store.transitions import COPIES_MAX, FOUND_BYTES_MAX
from tests.store.kit import (
    FIRST,
    NODE,
    PEER,
    Make,
    Opened,
    a_dispatch,
    a_prepared,
    a_transition,
    again,
    an_intent,
    digest,
    in_loop,
    opened_on,
    permitted,
    signed,
)
from tests.store.test_listening import block, commit, number_all

EXPIRED = BlocksIndexed(0, (block(1, time_s=1_001), block(2, time_s=1_002)))


def contents_of(*transitions: Transition) -> tuple[State, ...]:
    return tuple(state for made in transitions for state in made.outputs if state.content is not None)


async def held(opened: Opened, *transitions: Transition) -> tuple[State, ...]:
    return await opened.store.states(FIRST, [state.id for made in transitions for state in made.outputs])


async def count(opened: Opened, table: str) -> int:
    def rows() -> Reading[list[tuple[object, ...]]]:
        return (yield Statement(f"SELECT 1 FROM {table}"))

    return len(await opened.store._database.read(rows()))


@in_loop
async def test_contents_of_an_unpermitted_commit_are_in_the_senders_store_also_after_a_restart(make: Make) -> None:
    database, made = await make(), a_transition(1)
    async with opened_on(database) as opened:
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(made))
    async with opened_on(again(database)) as opened:
        await commit(opened, 1, made)
        assert (await opened.store.unspent_states(FIRST)).states == contents_of(made)
        assert await opened.store.transitions_of(FIRST, (made.leaf,)) == (made,)
        assert await number_all(opened) == [(1, made.intent)]


@in_loop
async def test_permission_adds_no_contents(make: Make) -> None:
    async with opened_on(await make()) as opened:
        made = a_transition(1)
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(made), permitted(made))
        assert await count(opened, "transitions") == 1
        [restored] = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
        assert restored.permission == Permission(DelegationNumber(1, 1), PEER, made.leaf, made.valid_until_s)


@in_loop
async def test_version_that_has_expired_is_deleted_with_its_contents(make: Make) -> None:
    async with opened_on(await make()) as opened:
        dead, alive, theirs = a_transition(1), replace(a_transition(1, 1), valid_until_s=1_003), a_transition(2)
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(dead), signed(alive))
        await opened.write(FIRST, StatesReceived(digest(1), (theirs,)))
        await opened.write(FIRST, EXPIRED)
        await opened.store.listening.forget_expired()
        [restored] = (await opened.store.restore((FIRST,))).contracts[FIRST].intents
        assert [version.leaf for version in restored.versions] == [alive.leaf]
        assert await held(opened, dead, alive, theirs) == contents_of(alive, theirs), "a peer's bound is not ours"
        assert await opened.store.transitions_of(FIRST, (dead.leaf, alive.leaf)) == (alive,)


@in_loop
async def test_users_do_not_see_states_of_versions_that_were_given_up(make: Make) -> None:
    async with opened_on(await make()) as opened:
        first, second, reverted, open_ = a_transition(1), a_transition(1, 1), a_transition(2), a_transition(3)
        accepted = [IntentAccepted(an_intent(number)) for number in (1, 2, 3)]
        await opened.write(FIRST, *accepted, *map(signed, (first, second, reverted, open_)))

        async def seen(status: StateStatus) -> set[Leaf]:
            return {each.state.id.leaf for each in (await opened.store.archive.page(FIRST, status, None, 100)).states}

        for status in (StateStatus.ALL, StateStatus.UNCONFIRMED):
            assert await seen(status) == {first.leaf, second.leaf, reverted.leaf, open_.leaf}, "each may be committed"
        ended = Receipt(reverted.intent, Outcome.REVERTED, "no funds")
        await opened.write(FIRST, IntentFinalised(ended))
        await commit(opened, 1, second)
        assert await seen(StateStatus.ALL) == {second.leaf, open_.leaf}
        assert await seen(StateStatus.UNCONFIRMED) == {open_.leaf}


@in_loop
async def test_version_on_the_chain_keeps_its_contents_when_its_bound_has_passed(make: Make) -> None:
    async with opened_on(await make()) as opened:
        made = a_transition(1)
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(made))
        late = ChainBlock(2, block(2).hash, block(1).hash, 1_001)
        last = ChainBlock(3, block(3).hash, block(2).hash, 1_002)
        await opened.write(FIRST, BlocksIndexed(0, (block(1, made), late, last)))
        await opened.store.listening.forget_expired()
        assert (await opened.store.unspent_states(FIRST)).states == contents_of(made)
        assert await number_all(opened) == [(1, made.intent)]


@in_loop
async def test_version_that_is_signed_again_lives_until_the_later_bound(make: Make) -> None:
    async with opened_on(await make()) as opened:
        made = a_transition(1)
        later = replace(made, valid_until_s=2_000)
        await opened.write(FIRST, IntentAccepted(an_intent(1)), signed(made), signed(later), signed(made))
        await opened.write(FIRST, EXPIRED)
        await opened.store.listening.forget_expired()
        assert await held(opened, made) == contents_of(made)
        await commit(opened, 2, made)
        assert await number_all(opened) == [(1, made.intent)]


def test_permission_of_an_older_release_is_read() -> None:
    """It held the transition itself."""
    made = a_transition(1)
    number = DelegationNumber(1, 2)
    written = msgspec.msgpack.encode((number, PEER, made))
    assert decode_permission(written) == Permission(number, PEER, made.leaf, made.valid_until_s)
    assert decode_permission(encode(Permission(number, PEER, made.leaf, 7))) == Permission(number, PEER, made.leaf, 7)


@in_loop
async def test_part_that_a_peer_sent_first_does_not_take_the_place_of_what_an_endorser_has_seen_whole(
    make: Make,
) -> None:
    """Who commits its own transition sends an endorser a part of it, under its leaf: others get it whole there."""
    async with opened_on(await make()) as opened:
        made = a_transition(9)
        states = tuple(State(StateId(made.leaf, n), bytes([n]) * 32, (PEER,), b"%d" % n) for n in range(2))
        whole = Consistent(replace(made, outputs=states))
        part = Consistent(replace(made, outputs=(states[0], replace(states[1], content=None))))
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (part,)))
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (whole,), SEEN_PART))
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (part,), SEEN_PART))
        found = await opened.ask(FindStates(FIRST, PEER, (made.leaf,)))
        assert found == StatesFound(FIRST, PEER, Digest(made.leaf), (whole,))


@in_loop
async def test_copy_with_false_lists_does_not_keep_the_states_from_who_may_see_them(make: Make) -> None:
    """No leaf binds the lists. Whoever asks gets the copy that has the most for it, and of that what it may see."""
    async with opened_on(await make()) as opened:
        made = a_transition(9)
        states = tuple(State(StateId(made.leaf, n), bytes([n]) * 32, (NODE, PEER), b"%d" % n) for n in range(2))
        whole = Consistent(replace(made, outputs=states))
        false = Consistent(replace(made, outputs=tuple(replace(each, distribution=(NODE,)) for each in states)))
        await opened.write(FIRST, StatesReceived(digest(1), (false,)))
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (false,)))
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (whole,), SEEN_PART))
        found = await opened.ask(FindStates(FIRST, PEER, (made.leaf,)))
        assert found == StatesFound(FIRST, PEER, Digest(made.leaf), (whole,))


@in_loop
async def test_copy_that_a_peer_sent_before_takes_no_place_of_what_was_dispatched_or_prepared(make: Make) -> None:
    """A sender knows the digest of its round before that is dispatched, and sends its coordinator false lists."""
    async with opened_on(await make()) as opened:
        one, two = (replace(made, outputs=made.outputs[:1]) for made in (a_transition(1), a_transition(2)))
        dispatch, prepared = a_dispatch(1, 0, (one,)), TransitionPrepared(PEER, a_prepared(two, 1_000))
        for made, name, record in ((one, digest(1), dispatch), (two, Digest(two.leaf), prepared)):
            false = replace(made, outputs=tuple(replace(each, distribution=(NODE,)) for each in made.outputs))
            await opened.write(FIRST, StatesReceived(name, (Consistent(false),)))
            await opened.write(FIRST, record)
            found = await opened.ask(FindStates(FIRST, PEER, (made.leaf,)))
            assert found == StatesFound(FIRST, PEER, name, (made,))


@in_loop
async def test_copy_with_a_false_signature_is_not_given_in_the_place_of_what_this_node_knows_by_itself(
    make: Make,
) -> None:
    """A sender that lost its disk would not know its own work by it, and report a payment that happened as reverted."""
    async with opened_on(await make()) as opened:
        seen, sent = (
            Consistent(replace(made, outputs=made.outputs[:1])) for made in (a_transition(1), a_transition(2))
        )
        own: list[Record] = [StatesReceived(Digest(seen.leaf), (seen,), SEEN_PART), a_dispatch(1, 0, (sent,))]
        for made, record in zip((seen, sent), own, strict=True):
            false = Consistent(replace(made, signature=b"false"))
            await opened.write(FIRST, StatesReceived(digest(7), (false,)))
            await opened.write(FIRST, record)
            await opened.write(FIRST, StatesReceived(digest(8), (false,)))
            found = await opened.ask(FindStates(FIRST, PEER, (made.leaf,)))
            assert isinstance(found, StatesFound)
            assert found.transitions == (made,)


@in_loop
async def test_copies_of_one_leaf_that_peers_send_are_bounded(make: Make) -> None:
    """To answer who asks for the leaf, all of them are read."""
    async with opened_on(await make()) as opened:
        made = Consistent(replace(a_transition(9), outputs=a_transition(9).outputs[:1]))
        for number in range(1, COPIES_MAX + 3):
            await opened.write(FIRST, StatesReceived(digest(number), (made,)))
        assert await count(opened, "transitions") == COPIES_MAX
        await opened.write(FIRST, StatesReceived(Digest(made.leaf), (made,), SEEN_PART))
        await opened.write(FIRST, a_dispatch(100, 0, (made,)))
        assert await count(opened, "transitions") == COPIES_MAX + 2, "what is our own always has a place"
        found = await opened.ask(FindStates(FIRST, PEER, (made.leaf,)))
        assert found == StatesFound(FIRST, PEER, Digest(made.leaf), (made,)), "and is given first"


@in_loop
async def test_answer_to_a_peer_that_asks_for_many_large_transitions_is_bounded(make: Make) -> None:
    async with opened_on(await make()) as opened:
        large = tuple(
            replace(made, outputs=(replace(made.outputs[0], content=b"c" * (FOUND_BYTES_MAX // 3)),))
            for made in (a_transition(number) for number in range(1, 7))
        )
        await opened.write(FIRST, StatesReceived(digest(1), tuple(map(Consistent, large))))
        found = await opened.ask(FindStates(FIRST, PEER, tuple(made.leaf for made in large)))
        assert isinstance(found, StatesFound)
        assert found.transitions == large[:3], "who wants the others asks again"
        assert await opened.store.transitions_of(FIRST, [made.leaf for made in large]) == large
