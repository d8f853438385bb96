"""What a node holds of a contract: more than a page of it, followed as it changes, also by several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from rota.chain.effects import BlocksIndexed
from rota.domains.noto import Noto
from rota.domains.noto.records import Coin
from rota.domains.records import OCTETS_MAX
from rota.engine.held_states import HeldStates, state_pages, unspent_pages
from rota.engine.recalling import Recalled, ask_in_steps
from rota.exchange.effects import StatesReceived
from rota.host import Background, Checked, UserCall, assemble, checking
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.types import BlockHash, ContractAddress, Digest, State, Transition, node_of
from rota.node.node import OWN
from rota.ports import STATES_A_PAGE, STATES_PAGE_BYTES_MAX, StateChanges, StatePage, StatePlace, Unavailable
from tests.domains.kit import ADDRESS, ALICE, BOB, NOTARY, assembly_order, intent, round_of, transition_of
from tests.domains.town import Town
from tests.store.kit import Opened, in_loop, new_sqlite

NODE1 = node_of(NOTARY)
COINS = STATES_A_PAGE + 7
BLOCK_COINS = 300
LONG_COINS = 56


def block(height: int, transitions: list[Transition]) -> ChainBlock:
    outcomes = tuple(
        (ADDRESS, LedgerOutcome(made.intent, made.leaf, Digest(made.leaf), LedgerStatus.COMMITTED, inputs=made.inputs))
        for made in transitions
    )
    return ChainBlock(height, BlockHash(b"%d" % height), BlockHash(b"%d" % (height - 1)), height, outcomes)


async def commit(opened: Opened, height: int, transitions: list[Transition]) -> None:
    """The states arrive, and the chain has them."""
    received = StatesReceived(Digest(transitions[0].leaf), tuple(map(Consistent, transitions)))
    await opened.write(ADDRESS, received)
    await opened.write(OWN, BlocksIndexed(height - 1, (block(height, transitions),)))


@in_loop
async def test_more_than_a_page_is_held_and_followed(tmp_path: Path) -> None:
    town = Town(Noto(), {"notary": NOTARY}, NOTARY)
    opened = await Opened(new_sqlite(tmp_path)).start((town.hosted.contract,))
    try:
        asked = [intent(town.hosted, 1_000 + n, UserCall(NOTARY, "mint", [ALICE, 1])) for n in range(COINS)]
        minted = [transition_of(each) for each in assemble(town.hosted, assembly_order(asked), {}, NODE1)]
        for height, start in enumerate(range(0, COINS, BLOCK_COINS), 1):
            await commit(opened, height, minted[start : start + BLOCK_COINS])
        pages = [page async for page in unspent_pages(opened.store, ADDRESS)]
        assert [len(page.states) for page in pages] == [STATES_A_PAGE, 7]
        assert [state.id for page in pages for state in page.states] == [each.outputs[0].id for each in minted]
        assert sum([len(states) async for _, states in state_pages(opened.store, ADDRESS)]) == COINS

        held = HeldStates(NODE1, opened.store)
        shelves = await asyncio.gather(*(held.of(town.hosted) for _ in range(3)))
        assert all(len(list(shelf.find(Coin, {"owner": ALICE}))) == COINS for shelf in shelves)

        for made in minted[-3:]:
            town.commit(made)
        paid = town.do(ALICE, "transfer", [BOB, 3])
        await commit(opened, COINS // BLOCK_COINS + 2, [paid])
        shelf = await held.of(town.hosted)
        assert len(list(shelf.find(Coin, {"owner": ALICE}))) == COINS - 3
        assert [coin.record.amount for coin in shelf.find(Coin, {"owner": BOB})] == [3]
    finally:
        await opened.store.close()


@pytest.mark.slow
@in_loop
async def test_coins_with_long_data_take_bounded_memory_and_are_spent_like_others(tmp_path: Path) -> None:
    """A payer chooses the data, and the notary and the payee hold them for as long as the coin is unspent."""
    town = Town(Noto(), {"notary": NOTARY}, NOTARY)
    opened = await Opened(new_sqlite(tmp_path)).start((town.hosted.contract,))
    try:
        call = UserCall(NOTARY, "mint", [ALICE, 1, "0x" + "11" * OCTETS_MAX])
        asked = [intent(town.hosted, 1_000 + n, call) for n in range(LONG_COINS)]
        minted = [transition_of(each) for each in assemble(town.hosted, assembly_order(asked), {}, NODE1)]
        size_bytes = [sum(len(state.content or b"") for state in made.outputs) for made in minted]
        assert sum(size_bytes) > 3 * STATES_PAGE_BYTES_MAX
        held = HeldStates(NODE1, opened.store)
        await held.of(town.hosted)
        for height, start in enumerate(range(0, LONG_COINS, 4), 1):
            await commit(opened, height, minted[start : start + 4])
        most = STATES_PAGE_BYTES_MAX + 4 * max(size_bytes)
        pages = [page.states async for page in unspent_pages(opened.store, ADDRESS)]
        assert [state.id for page in pages for state in page] == [made.outputs[0].id for made in minted]
        since = [states async for _, states in state_pages(opened.store, ADDRESS)]
        assert sorted(state.id for page in since for state in page) == sorted(made.outputs[0].id for made in minted)
        changed = await opened.store.state_changes(ADDRESS, 0)
        assert not changed.is_complete
        for states in (*pages, *since, changed.held):
            assert sum(len(state.content or b"") for state in states) <= most

        for shelf in (await held.of(town.hosted), await HeldStates(NODE1, opened.store).of(town.hosted)):
            assert len(list(shelf.find(Coin, {"owner": ALICE}))) == LONG_COINS
            assert sum(len(state.content or b"") for state in shelf.values()) < max(size_bytes)
        for made in minted[-3:]:
            town.commit(made)
        paid = town.do(ALICE, "transfer", [BOB, 3])
        order = round_of(town.hosted, (paid,), (ALICE,))

        def judging(recalled: Recalled) -> Generator[None, None, Checked]:
            return checking(town.hosted, order, shelf, NODE1, Background(recalled.find))

        assert await ask_in_steps(opened.store, ADDRESS, judging) == Checked()
    finally:
        await opened.store.close()


class Failing:
    """A store that is away when it is asked for the second page, once."""

    def __init__(self, states: tuple[State, ...]) -> None:
        self.states = states
        self.is_away = True

    async def unspent_states(self, _: ContractAddress, after: StatePlace | None = None) -> StatePage:
        if after is None:
            return StatePage(1, (self.states[0],), StatePlace(1, 0, 0))
        if self.is_away:
            self.is_away = False
            raise Unavailable("the store is away")
        return StatePage(1, self.states[1:])

    async def state_changes(self, _: ContractAddress, since: int) -> StateChanges:
        return StateChanges(since, (), ())


@in_loop
async def test_what_was_spent_after_a_first_look_that_failed_is_not_held() -> None:
    town = Town(Noto(), {"notary": NOTARY}, NOTARY)
    states = tuple(town.do(NOTARY, "mint", [ALICE, amount]).outputs[0] for amount in (1, 2, 3))
    store = Failing(states)
    held = HeldStates(NODE1, cast(Any, store))
    with pytest.raises(Unavailable):
        await held.of(town.hosted)
    store.states = states[1:]  # The first is spent before the next look.
    shelf = await held.of(town.hosted)
    assert sorted(coin.record.amount for coin in shelf.find(Coin, {"owner": ALICE})) == [2, 3]
