"""Trees of commitments follow the index: however the chain grows and is cut, and from nothing after a restart."""

from __future__ import annotations

import random
from pathlib import Path

from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.membership import Members
from rota.domains.zeto.tree import Tree
from rota.engine.commitment_trees import CommitmentTrees
from rota.model.types import Transition
from rota.ports import LeafCommitments
from rota.store.database import Reading, Statement
from tests.domains.kit import hosted_by
from tests.store.kit import FIRST, SECOND, in_loop, new_sqlite, opened_on
from tests.store.test_nullifiers import block, index, transition

BLOCKS = 60


def coins_of(made: Transition) -> list[int]:
    chance = random.Random(made.leaf)
    return [chance.randrange(1, 2**200) for _ in range(chance.randrange(1, 6))]


def committed(made: Transition) -> LeafCommitments:
    return LeafCommitments(FIRST, made.leaf, tuple(coin.to_bytes(32, "big") for coin in coins_of(made)))


@in_loop
async def test_tree_is_that_of_the_chain_after_every_block_and_every_reorganisation(tmp_path: Path) -> None:
    hosted = hosted_by(Zeto(), {"tokenName": "Zeto_AnonNullifier"}, address=FIRST)
    chance = random.Random(7)
    async with opened_on(new_sqlite(tmp_path), contracts=(hosted.contract,)) as opened:
        trees = CommitmentTrees(opened.store.commitments, lambda contract: contract == FIRST)
        chain: list[list[Transition]] = []
        for number in range(BLOCKS):
            # A cut is no deeper than what the index keeps (`CONFIG`).
            kept = max(0, len(chain) - chance.choice((0, 0, 0, 1, 3)))
            made = [transition(10 * number + n) for n in range(chance.randrange(3))]
            # What was taken back may come again.
            lost = [each for taken_back in chain[kept:] for each in taken_back]
            made += chance.sample(lost, min(1, len(lost)))
            del chain[kept:]
            chain.append(made)
            await trees.keep([committed(each) for each in made])
            await index(opened, kept, block(kept + 1, *made, fork=f"{number} "))
            if chance.random() < 0.7:
                tree = await trees.of(hosted)
                assert isinstance(tree, Members)
                coins = [coin for each in chain for made in each for coin in coins_of(made)]
                assert (len(tree), tree.root) == (len(coins), Tree(coins).root)
        anew = await CommitmentTrees(opened.store.commitments, lambda _: True).of(hosted)
        assert isinstance(anew, Members)
        tree = await trees.of(hosted)
        assert isinstance(tree, Members)
        assert anew.root == tree.root
        assert len(tree) > 50


@in_loop
async def test_tree_that_is_forgotten_has_what_the_index_had_passed_by(tmp_path: Path) -> None:
    hosted = hosted_by(Zeto(), {"tokenName": "Zeto_AnonNullifier"}, address=FIRST)
    async with opened_on(new_sqlite(tmp_path), contracts=(hosted.contract,)) as opened:
        trees = CommitmentTrees(opened.store.commitments, lambda contract: contract == FIRST)
        early, late = transition(1), transition(2)
        await trees.keep([committed(early), committed(late)])
        await index(opened, 0, block(1), block(2, late), block(3), block(4))
        assert isinstance(await trees.of(hosted), Members)
        await opened.store.make_up((block(1, early),))
        trees.forget(FIRST)
        tree = await trees.of(hosted)
        assert isinstance(tree, Members)
        assert tree.root == Tree([*coins_of(early), *coins_of(late)]).root
        trees.forget(SECOND)


@in_loop
async def test_commitments_of_contracts_without_a_tree_are_not_kept(tmp_path: Path) -> None:
    plain = hosted_by(Zeto(), {"tokenName": "Zeto_Anon"}, address=SECOND)
    async with opened_on(new_sqlite(tmp_path)) as opened:
        trees = CommitmentTrees(opened.store.commitments, lambda contract: contract == FIRST)
        assert await trees.of(plain) is None
        made = transition(1)
        await trees.keep([committed(made)._replace(contract=SECOND), committed(made)])
        assert await opened.store.read(contracts_kept()) == [FIRST]


def contracts_kept() -> Reading[list[object]]:
    rows = yield Statement("SELECT contract FROM commitments")
    return [contract for (contract,) in rows]
