"""Receipts that no longer hold, because the chain took back final blocks: marked, told and put back, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import BlocksIndexed, FinalityBroken, RecallDispatches, UndoneCommit
from rota.chain.events import DispatchesRecalled
from rota.chain.public_transaction import Ending, Mined
from rota.directory.effects import ContractTaken
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import (
    FINALITY_BROKEN,
    FINALITY_BROKEN_REASON,
    NO_CONTRACT,
    NO_LEAF,
    BlockHash,
    ContractAddress,
    Leaf,
    Outcome,
    Receipt,
    Transition,
)
from rota.node.node import OWN
from rota.ports import BASE_LEDGER, undone_leaf
from tests.store.kit import (
    CONTRACTS,
    FIRST,
    SECOND,
    Make,
    Opened,
    a_deployed,
    a_dispatch,
    a_known,
    a_transition,
    again,
    an_intent,
    digest,
    in_loop,
    intent_id,
    opened_on,
)
from tests.store.test_listening import accept_and_permit, block, commit, number_all
from tests.store.test_submissions import PUBLIC, WAITING, ended, like


def lost(height: int, *transitions: Transition) -> FinalityBroken:
    """The block at this height is gone, and those above; it was final."""
    undone = tuple(UndoneCommit(height, FIRST, each.intent, each.leaf) for each in transitions)
    return FinalityBroken(height - 1, height, undone)


async def lose(opened: Opened, height: int, *transitions: Transition) -> None:
    """Empty blocks come in its place."""
    indexed = BlocksIndexed(height - 1, (block(height), block(height + 1)))
    await opened.write(OWN, lost(height, *transitions), indexed)


@in_loop
async def test_confirmed_receipt_of_a_lost_final_block_is_never_reported_again(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (made,) = await accept_and_permit(opened, 1)
        await commit(opened, 1, made)
        assert (await opened.store.receipt_of(made.intent)) == Receipt(made.intent, Outcome.CONFIRMED, leaf=made.leaf)
        await lose(opened, 1, made)
        broken = Receipt(made.intent, Outcome.REVERTED, FINALITY_BROKEN_REASON, made.leaf, code=FINALITY_BROKEN)
        assert await opened.store.receipt_of(made.intent) == broken
        shown = await opened.store.transaction(made.intent)
        assert shown is not None
        assert shown.receipt == broken
        assert shown.height is None
        assert await opened.store.unfinished_count() == 0
        assert (await opened.store.restore((FIRST,))).contracts[FIRST].intents == ()


@in_loop
async def test_listener_is_told_by_a_new_number_when_a_receipt_is_undone_and_when_it_returns(make: Make) -> None:
    async with opened_on(await make()) as opened:
        one, two = await accept_and_permit(opened, 1, 2)
        await commit(opened, 1, one, two)
        assert await number_all(opened) == [(1, one.intent), (2, two.intent)]
        await lose(opened, 1, one)
        assert await number_all(opened) == [(2, two.intent), (3, one.intent)]
        place = await opened.store.listening.receipt_number(FIRST, one.intent)
        assert place is not None
        assert place.is_undone
        assert await opened.store.listening.due(500) == ()
        await opened.write(OWN, BlocksIndexed(2, (block(3, one), block(4))))
        assert await number_all(opened) == [(2, two.intent), (4, one.intent)]
        place = await opened.store.listening.receipt_number(FIRST, one.intent)
        assert place is not None
        assert place.leaf == one.leaf
        receipt = await opened.store.receipt_of(one.intent)
        assert receipt is not None
        assert receipt.outcome is Outcome.CONFIRMED


@in_loop
async def test_undone_receipt_counts_until_an_operator_acknowledges_it_or_it_returns(make: Make) -> None:
    async with opened_on(await make()) as opened:
        one, two = await accept_and_permit(opened, 1, 2)
        await commit(opened, 1, one, two)
        listening = opened.store.listening
        assert await listening.undone_count() == 0
        await lose(opened, 1, one, two)
        assert await listening.undone_count() == 2
        await opened.write(OWN, BlocksIndexed(2, (block(3, one), block(4))))
        assert await listening.undone_count() == 1
        await listening.acknowledge_undone()
        assert await listening.undone_count() == 0
        receipt = await opened.store.receipt_of(two.intent)
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN


@in_loop
async def test_undone_receipt_is_found_as_failed(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (made,) = await accept_and_permit(opened, 1)
        await commit(opened, 1, made)
        await number_all(opened)
        assert await ended(opened.store, like(success=True)) == [made.intent]
        await lose(opened, 1, made)
        await number_all(opened)
        assert await ended(opened.store, like(success=True)) == []
        assert await ended(opened.store, like(success=False)) == [made.intent]


@in_loop
async def test_public_transaction_of_a_lost_block_is_marked_for_the_operator(make: Make) -> None:
    async with opened_on(await make()) as opened:
        store = opened.store
        await store.public.accept(PUBLIC, WAITING, ())
        (public,) = await store.public.open()
        mined = Mined(b"h" * 32, 1, b"b" * 32, 0, True)
        await store.public.save((replace(public, ending=Ending(True, 5, mined=mined)),))
        await number_all(opened)
        await lose(opened, 1)
        assert await store.listening.undone_count() == 1
        assert await number_all(opened) == [(2, PUBLIC.id)]
        place = await store.listening.receipt_number(BASE_LEDGER, PUBLIC.id)
        assert place is not None
        assert place.is_undone
        assert place.type == "public"


@in_loop
async def test_receipt_of_another_node_is_marked_too(make: Make) -> None:
    async with opened_on(await make()) as opened:
        foreign = a_transition(7)
        await opened.write(FIRST, StatesReceived(digest(1), (foreign,)))
        await commit(opened, 1, foreign)
        assert await number_all(opened) == [(1, foreign.intent)]
        await lose(opened, 1, foreign)
        assert await number_all(opened) == [(2, foreign.intent)]
        place = await opened.store.listening.receipt_number(FIRST, foreign.intent)
        assert place is not None
        assert place.leaf == undone_leaf(foreign.intent)
        await opened.write(OWN, BlocksIndexed(2, (block(3, foreign), block(4))))
        assert await number_all(opened) == [(3, foreign.intent)]


@in_loop
async def test_commit_of_the_same_id_in_another_contract_keeps_no_receipt_from_being_marked(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (made,) = await accept_and_permit(opened, 1)
        lie = a_transition(1, 1)
        await opened.write(SECOND, StatesReceived(digest(2), (lie,)))
        used = LedgerOutcome(lie.intent, lie.leaf, digest(2), LedgerStatus.COMMITTED)
        both = block(1, made)
        both = replace(both, outcomes=((SECOND, used), *both.outcomes))
        await opened.write(FIRST, BlocksIndexed(0, (both, block(2))))
        await number_all(opened)
        undone = (UndoneCommit(1, SECOND, lie.intent, lie.leaf), UndoneCommit(1, FIRST, made.intent, made.leaf))
        await opened.write(OWN, FinalityBroken(0, 1, undone), BlocksIndexed(0, (block(1), block(2))))
        receipt = await opened.store.receipt_of(made.intent)
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN
        await number_all(opened)
        place = await opened.store.listening.receipt_number(FIRST, made.intent)
        assert place is not None
        assert place.is_undone


@in_loop
async def test_voided_intent_whose_void_is_undone_is_marked_and_put_back(make: Make) -> None:
    async with opened_on(await make()) as opened:
        contract = CONTRACTS[0]
        void = void_leaf(domain_separator(contract.chain_id, contract.address), intent_id(1))
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        voided = _committed(1, void)
        await opened.write(OWN, BlocksIndexed(0, (voided, block(2))))
        ended = Receipt(intent_id(1), Outcome.REVERTED, "cancelled")
        await opened.write(FIRST, IntentFinalised(ended))
        assert await number_all(opened) == [(1, intent_id(1))]
        broken = FinalityBroken(0, 1, (UndoneCommit(1, FIRST, intent_id(1), void),))
        await opened.write(OWN, broken, BlocksIndexed(0, (block(1), block(2))))
        receipt = await opened.store.receipt_of(intent_id(1))
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN
        assert await number_all(opened) == [(2, intent_id(1))]
        await opened.write(OWN, BlocksIndexed(2, (_committed(3, void), block(4))))
        assert await opened.store.receipt_of(intent_id(1)) == ended
        assert await number_all(opened) == [(3, intent_id(1))]


@in_loop
async def test_liar_that_voids_or_deploys_under_the_same_id_elsewhere_puts_no_receipt_back(make: Make) -> None:
    """The id of the intent is public. Its user would take it for voided, although a version of it may be committed."""
    async with opened_on(await make()) as opened:
        void, false = (
            void_leaf(domain_separator(contract.chain_id, contract.address), intent_id(1)) for contract in CONTRACTS
        )
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        await opened.write(OWN, BlocksIndexed(0, (_committed(1, void), block(2))))
        await opened.write(FIRST, IntentFinalised(Receipt(intent_id(1), Outcome.REVERTED, "cancelled")))
        assert await number_all(opened) == [(1, intent_id(1))]
        broken = FinalityBroken(0, 1, (UndoneCommit(1, FIRST, intent_id(1), void),))
        await opened.write(OWN, broken, BlocksIndexed(0, (block(1), block(2))))
        assert await number_all(opened) == [(2, intent_id(1))]
        deployed = ChainBlock(4, BlockHash(b"4"), BlockHash(b"3"), 10, deployments=(a_deployed(1),))
        await opened.write(OWN, BlocksIndexed(2, (_committed(3, false, SECOND), deployed, block(5))))
        receipt = await opened.store.receipt_of(intent_id(1))
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN
        assert await number_all(opened) == [(2, intent_id(1))]


def _committed(height: int, leaf: Leaf, contract: ContractAddress = FIRST) -> ChainBlock:
    outcome = LedgerOutcome(intent_id(1), leaf, digest(1), LedgerStatus.COMMITTED)
    return ChainBlock(height, BlockHash(b"v%d" % height), BlockHash(b"p"), 10, ((contract, outcome),))


@in_loop
async def test_deployment_that_is_undone_is_marked_and_put_back(make: Make) -> None:
    async with opened_on(await make()) as opened:
        deployment = an_intent(1, contract=NO_CONTRACT)
        await opened.write(NO_CONTRACT, IntentAccepted(deployment))
        made = a_deployed(1)
        has_it = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, deployments=(made,))
        await opened.write(OWN, BlocksIndexed(0, (has_it, block(2))), ContractTaken(a_known(1)))
        ended = Receipt(deployment.id, Outcome.CONFIRMED, contract=made.contract)
        await opened.write(NO_CONTRACT, IntentFinalised(ended))
        broken = FinalityBroken(0, 1, (UndoneCommit(1, NO_CONTRACT, deployment.id, NO_LEAF),))
        await opened.write(OWN, broken, BlocksIndexed(0, (block(1), block(2))))
        receipt = await opened.store.receipt_of(deployment.id)
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN
        # Any account that sees the id may deploy another contract under it.
        others = ChainBlock(3, BlockHash(b"o"), BlockHash(b"2"), 12, deployments=(a_deployed(1, version=7),))
        await opened.write(OWN, BlocksIndexed(2, (others, block(4))))
        assert await opened.store.receipt_of(deployment.id) == receipt
        assert await opened.store.listening.undone_count() == 1
        again = ChainBlock(3, BlockHash(b"3"), BlockHash(b"2"), 12, deployments=(made,))
        await opened.write(OWN, BlocksIndexed(2, (again, block(4))))
        assert await opened.store.receipt_of(deployment.id) == ended
        assert await opened.store.listening.undone_count() == 0


@in_loop
async def test_second_deployment_under_one_id_in_a_block_does_not_take_the_place_of_the_first(make: Make) -> None:
    """The factory tells of two when a constructor that it runs deploys under the same id."""
    async with opened_on(await make()) as opened:
        deployment = an_intent(1, contract=NO_CONTRACT)
        await opened.write(NO_CONTRACT, IntentAccepted(deployment))
        ours, strangers = a_deployed(1), a_deployed(1, version=7)
        both = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, deployments=(ours, strangers))
        await opened.write(OWN, BlocksIndexed(0, (both, *(block(height) for height in range(2, 20)))))
        assert (await opened.store.restore((FIRST,))).deployments.deployed == (ours,)


@in_loop
async def test_deployment_whose_receipt_is_written_after_its_block_is_lost_is_marked_at_once(make: Make) -> None:
    async with opened_on(await make()) as opened:
        deployment = an_intent(1, contract=NO_CONTRACT)
        await opened.write(NO_CONTRACT, IntentAccepted(deployment))
        made = a_deployed(1)
        has_it = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, deployments=(made,))
        await opened.write(OWN, BlocksIndexed(0, (has_it, block(2))), ContractTaken(a_known(1)))
        broken = FinalityBroken(0, 1, (UndoneCommit(1, NO_CONTRACT, deployment.id, NO_LEAF),))
        await opened.write(OWN, broken, BlocksIndexed(0, (block(1), block(2))))
        assert await opened.store.listening.undone_count() == 0
        ended = Receipt(deployment.id, Outcome.CONFIRMED, contract=made.contract)
        await opened.write(NO_CONTRACT, IntentFinalised(ended))
        receipt = await opened.store.receipt_of(deployment.id)
        assert receipt is not None
        assert receipt.code == FINALITY_BROKEN
        assert await opened.store.listening.undone_count() == 1
        # The next life looks for it on the chain.
        assert (await opened.store.restore((FIRST,))).deployments.undone == (deployment.id,)
        again = ChainBlock(3, BlockHash(b"3"), BlockHash(b"2"), 12, deployments=(made,))
        await opened.write(OWN, BlocksIndexed(2, (again, block(4))))
        assert await opened.store.receipt_of(deployment.id) == ended
        assert (await opened.store.restore((FIRST,))).deployments.undone == ()


@pytest.mark.parametrize("has_expired", [False, True])
@in_loop
async def test_void_whose_receipt_is_written_after_its_block_is_lost_is_marked_while_a_version_is_valid(
    make: Make, has_expired: bool
) -> None:
    async with opened_on(await make()) as opened:
        contract, (made,) = CONTRACTS[0], await accept_and_permit(opened, 1)
        void = void_leaf(domain_separator(contract.chain_id, contract.address), intent_id(1))
        await opened.write(OWN, BlocksIndexed(0, (_committed(1, void), block(2))))
        broken = FinalityBroken(0, 1, (UndoneCommit(1, FIRST, intent_id(1), void),))
        later_s = made.valid_until_s + 1 if has_expired else 11
        await opened.write(OWN, broken, BlocksIndexed(0, (block(1), block(2, time_s=later_s))))
        ended = Receipt(intent_id(1), Outcome.REVERTED, "cancelled")
        await opened.write(FIRST, IntentFinalised(ended))
        receipt = await opened.store.receipt_of(intent_id(1))
        assert receipt is not None
        assert receipt.code == ("" if has_expired else FINALITY_BROKEN)
        assert await opened.store.listening.undone_count() == (0 if has_expired else 1)
        await opened.write(OWN, BlocksIndexed(2, (_committed(3, void), block(4))))
        assert await opened.store.receipt_of(intent_id(1)) == ended
        assert await opened.store.listening.undone_count() == 0


@in_loop
async def test_chain_that_becomes_shorter_takes_no_final_receipt_back_and_a_restart_knows_what_was_final(
    make: Make,
) -> None:
    database = await make()
    confirmed = Config(confirmations=2)
    async with opened_on(database, confirmed) as opened:
        (made,) = await accept_and_permit(opened, 1)
        await opened.write(FIRST, BlocksIndexed(0, (block(1), block(2, made), block(3), block(4))))
        receipt = await opened.store.receipt_of(made.intent)
        assert receipt is not None
        await opened.write(FIRST, BlocksIndexed(2, (block(3),)))
        assert await opened.store.receipt_of(made.intent) == receipt
    async with opened_on(again(database), confirmed) as opened:
        assert (await opened.store.restore((FIRST,))).final_height == 2
        assert await opened.store.receipt_of(made.intent) == receipt
        await opened.write(OWN, lost(2, made), BlocksIndexed(1, (block(2), block(3))))
        assert (await opened.store.restore((FIRST,))).final_height == 1


@in_loop
async def test_reverted_receipt_that_the_chain_confirms_is_told_by_a_new_number(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (made,) = await accept_and_permit(opened, 1)
        await opened.write(FIRST, IntentFinalised(Receipt(made.intent, Outcome.REVERTED, "expired")))
        assert await number_all(opened) == [(1, made.intent)]
        await commit(opened, 1, made)
        assert await number_all(opened) == [(2, made.intent)]
        receipt = await opened.store.receipt_of(made.intent)
        assert receipt is not None
        assert receipt.outcome is Outcome.CONFIRMED


@in_loop
async def test_block_that_was_not_final_marks_nothing(make: Make) -> None:
    async with opened_on(await make()) as opened:
        (made,) = await accept_and_permit(opened, 1)
        await opened.write(OWN, BlocksIndexed(0, (block(1, made),)))
        await opened.write(OWN, BlocksIndexed(0, (block(1),)))
        assert await opened.store.receipt_of(made.intent) is None
        assert [each.intent.id for each in (await opened.store.restore((FIRST,))).contracts[FIRST].intents] == [
            made.intent
        ]


@in_loop
async def test_dispatches_are_recalled_by_their_nonces(make: Make) -> None:
    async with opened_on(await make()) as opened:
        first, second = a_dispatch(1, 0, (a_transition(1),)), a_dispatch(2, 1, (a_transition(2),))
        await opened.write(OWN, first)
        await opened.write(OWN, second)
        assert await opened.ask(RecallDispatches((1, 5))) == DispatchesRecalled((1, 5), (second,))
