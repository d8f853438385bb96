"""Coins that are spent by nullifiers, and the commitments of transitions in the order of the chain."""

from __future__ import annotations

from dataclasses import replace

from rota.calldata import nullifier_reference
from rota.chain.effects import BlocksIndexed
from rota.exchange.effects import StatesReceived
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.digests import domain_separator, keccak, void_leaf
from rota.model.types import BlockHash, ContractAddress, Digest, IntentId, Leaf, State, StateId, Transition
from rota.node.node import OWN
from rota.ports import LeafCommitments, OutcomePlace, StateStatus
from rota.ports.commitments import BEFORE_ALL
from tests.store.kit import CONTRACTS, FIRST, NODE, SECOND, Make, Opened, in_loop, opened_on

OURS, THEIRS = b"coin of ours", b"coin of somebody else"
NULLIFIER = keccak(OURS)


def nullifier_of(_contract: ContractAddress, state: State) -> bytes | None:
    """What the owner's node works out."""
    return NULLIFIER if state.content == OURS else None


def transition(number: int, *contents: bytes, inputs: tuple[StateId, ...] = ()) -> Transition:
    leaf = Leaf(keccak(b"leaf %d" % number))
    states = tuple(State(StateId(leaf, n), keccak(each), (NODE,), each) for n, each in enumerate(contents))
    return Transition(IntentId(b"%016d" % number), leaf, inputs, (), states)


def block(height: int, *committed: Transition, fork: str = "a") -> ChainBlock:
    outcomes = tuple(
        (FIRST, LedgerOutcome(made.intent, made.leaf, Digest(made.leaf), LedgerStatus.COMMITTED, inputs=made.inputs))
        for made in committed
    )
    return ChainBlock(
        height, BlockHash(f"{fork}{height}".encode()), BlockHash(f"{fork}{height - 1}".encode()), height, outcomes
    )


async def index(opened: Opened, parted_at: int, *blocks: ChainBlock) -> None:
    await opened.write(OWN, BlocksIndexed(parted_at, blocks))


async def receive(opened: Opened, *transitions: Transition) -> None:
    await opened.write(FIRST, StatesReceived(Digest(transitions[0].leaf), tuple(map(Consistent, transitions))))


async def unspent(opened: Opened) -> list[bytes | None]:
    return [state.content for state in (await opened.store.unspent_states(FIRST)).states]


MADE = transition(1, OURS, THEIRS)
SPEND = transition(2, b"change", inputs=(nullifier_reference(NULLIFIER),))
STRANGE = transition(3, b"other", inputs=(nullifier_reference(keccak(b"of nobody here")),))


@in_loop
async def test_coin_is_spent_with_its_nullifier_and_given_back_by_a_reorganisation(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        await receive(opened, MADE)
        await index(opened, 0, block(1, MADE))
        changes = await opened.store.state_changes(FIRST, 0)
        assert len(changes.held) == 2
        await index(opened, 1, block(2, STRANGE, SPEND))
        assert await unspent(opened) == [THEIRS]
        spent = await opened.store.state_changes(FIRST, changes.as_of)
        assert spent.gone == (MADE.outputs[0].id,)
        await index(opened, 1, block(2, fork="b"))
        assert await unspent(opened) == [OURS, THEIRS]
        back = await opened.store.state_changes(FIRST, spent.as_of)
        assert [state.content for state in back.held] == [OURS]


@in_loop
async def test_coin_that_arrives_after_it_was_spent_is_spent(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        await index(opened, 0, block(1, MADE), block(2, SPEND))
        await receive(opened, MADE)
        await receive(opened, MADE)
        assert await unspent(opened) == [THEIRS]
        await index(opened, 1, block(2, fork="b"))
        assert await unspent(opened) == [OURS, THEIRS]


AGAIN, ONCE_MORE = transition(4, OURS, OURS), transition(5, OURS)


async def twins(opened: Opened, made: Transition) -> dict[int, list[StateId]]:
    found = await opened.store.traces.twins(FIRST, made.leaf)
    return {state.output: [each.id for each in earlier] for state, earlier in found.items()}


@in_loop
async def test_coin_with_the_nullifier_of_one_that_was_known_before_is_its_twin(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        first, again, also = MADE.outputs[0].id, *(state.id for state in AGAIN.outputs)
        await receive(opened, AGAIN)
        await receive(opened, MADE)
        assert await twins(opened, AGAIN) == {}, "neither is on the chain"
        await index(opened, 0, block(1, MADE))
        assert await twins(opened, AGAIN) == await twins(opened, MADE) == {}
        await index(opened, 1, block(2, AGAIN))
        assert await twins(opened, AGAIN) == {0: [first], 1: [first, again]}
        assert await twins(opened, MADE) == {}
        await index(opened, 2, block(3, SPEND, ONCE_MORE))
        await receive(opened, ONCE_MORE)
        assert await twins(opened, ONCE_MORE) == {0: [first, again, also]}
        # The first one is gone, and comes back behind the others.
        await index(opened, 0, block(1, fork="b"), block(2, AGAIN, fork="b"))
        assert await twins(opened, AGAIN) == {1: [again]}
        await index(opened, 2, block(3, MADE, fork="b"))
        assert await twins(opened, MADE) == {0: [again, also]}
        assert await twins(opened, AGAIN) == {1: [again]}


@in_loop
async def test_coin_that_was_shown_does_not_become_the_twin_of_one_that_arrives_late(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        await index(opened, 0, block(1, MADE), block(2, AGAIN))
        await receive(opened, AGAIN)
        assert await twins(opened, AGAIN) == {1: [AGAIN.outputs[0].id]}
        await receive(opened, MADE)
        assert await twins(opened, AGAIN) == {1: [AGAIN.outputs[0].id]}
        assert await twins(opened, MADE) == {0: [state.id for state in AGAIN.outputs]}


@in_loop
async def test_state_is_found_by_its_nullifier_and_shows_who_spent_it(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        await receive(opened, MADE)
        await index(opened, 0, block(1, MADE), block(2, SPEND))
        by_nullifier = nullifier_reference(NULLIFIER)
        (found,) = await opened.store.states(FIRST, (by_nullifier, nullifier_reference(keccak(b"unknown"))))
        assert found == MADE.outputs[0]
        page = await opened.store.archive.page(FIRST, StateStatus.ALL, None, 10)
        told = {each.state.content: (each.nullifier, each.is_spent, each.spent_by) for each in page.states}
        assert told == {OURS: (NULLIFIER, True, SPEND.intent), THEIRS: (None, False, None)}


def committing(number: int, *words: bytes) -> tuple[Transition, LeafCommitments]:
    made = transition(number)
    return made, LeafCommitments(FIRST, made.leaf, tuple(keccak(word) for word in words))


@in_loop
async def test_commitments_come_in_the_order_of_the_chain_and_reorganisations_are_told(make: Make) -> None:
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        store = opened.store.commitments
        made = [committing(number, b"%d a" % number, b"%d b" % number) for number in range(4)]
        await store.keep([each for _, each in made])
        await store.keep([made[0][1]])
        first, second, third, fourth = (each for each, _ in made)
        intent = IntentId(b"an empty one    ")
        separator = domain_separator(CONTRACTS[0].chain_id, FIRST)
        void = Transition(intent, void_leaf(separator, intent))
        await index(opened, 0, block(1, second, void), block(2, first))
        page = await store.page(FIRST, BEFORE_ALL, 0, 2)
        assert ([each.words for each in page.transitions], page.is_complete) == ([made[1][1].words, ()], False)
        assert page.parted_at is None
        rest = await store.page(FIRST, page.transitions[-1].at, page.as_of, 2)
        assert [(each.at, each.words) for each in rest.transitions] == [(OutcomePlace(2, 0), made[0][1].words)]
        assert rest.is_complete

        await index(opened, 2, block(3, third))
        await index(opened, 1, block(2, fourth, fork="b"))
        told = await store.page(FIRST, OutcomePlace(2, 0), rest.as_of)
        assert (told.parted_at, [each.words for each in told.transitions]) == (1, [made[3][1].words])
        quiet = await store.page(FIRST, told.transitions[-1].at, told.as_of)
        assert (quiet.parted_at, quiet.transitions, quiet.as_of) == (None, (), told.as_of)


@in_loop
async def test_transition_that_makes_no_coin_leaves_nothing_among_the_commitments(make: Make) -> None:
    """A withdrawal of whole coins makes no coin, and the other owners still prove against the tree."""
    withdrawal = transition(1, inputs=(StateId(transition(0).leaf, 0),))
    made, kept = committing(2, b"a coin")
    async with opened_on(await make(), nullifier_of=nullifier_of) as opened:
        await opened.store.commitments.keep([kept])
        await index(opened, 0, block(1, withdrawal), block(2, made))
        page = await opened.store.commitments.page(FIRST, BEFORE_ALL, 0)
        assert [each.words for each in page.transitions] == [(), kept.words]


@in_loop
async def test_outcomes_of_final_blocks_that_come_later_stand_behind_those_of_other_contracts(make: Make) -> None:
    """A node got a contract when its index had passed rounds of it."""
    late, spend = transition(7, b"late"), transition(8, inputs=(StateId(transition(7).leaf, 0),))
    async with opened_on(await make()) as opened:
        await receive(opened, late)
        others = replace(block(1), outcomes=tuple((SECOND, outcome) for _, outcome in block(1, MADE).outcomes))
        await index(opened, 0, others, block(2), block(3), block(4))
        assert await unspent(opened) == []
        as_of = (await opened.store.state_changes(FIRST, 0)).as_of
        await opened.store.make_up((block(1, late),))
        assert await unspent(opened) == [b"late"]
        assert [state.content for state in (await opened.store.state_changes(FIRST, as_of)).held] == [b"late"]
        assert await opened.store.heights_with_outcomes(FIRST, 0, 9) == frozenset({1})
        assert await opened.store.heights_with_outcomes(SECOND, 0, 9) == frozenset({1})
        await opened.store.make_up((block(2, spend),))
        assert await unspent(opened) == []
