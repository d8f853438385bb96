"""The tree of commitments: its root whatever the order of work, and paths that lead there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.zeto.poseidon import poseidon
from rota.domains.zeto.tree import EMPTY, Tree, node_of, root_of


def leaves(count: int) -> list[int]:
    return [1000 + number for number in range(count)]


def test_small_trees_have_the_roots_that_the_decision_says() -> None:
    assert Tree().root == EMPTY
    assert Tree([7]).root == 7
    assert Tree([7, 8]).root == poseidon(7, 8, 0, 0, capacity=1)
    assert Tree([7, 8, 9, 10, 11]).root == node_of((node_of((7, 8, 9, 10)), node_of((11, 0, 0, 0)), 0, 0))


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), max_size=8))
def test_leaves_in_pieces_make_the_same_tree(pieces: list[int]) -> None:
    tree, added = Tree(), 0
    for piece in pieces:
        tree.extend(leaves(added + piece)[added:])
        added += piece
        assert tree.root == Tree(leaves(added)).root


@given(st.integers(1, 40), st.data())
def test_a_path_leads_from_its_leaf_to_the_root(count: int, data: st.DataObject) -> None:
    tree = Tree(leaves(count))
    position = data.draw(st.integers(0, count - 1))
    assert root_of(1000 + position, tree.path(position)) == tree.root
    if count > 1:
        assert root_of(999, tree.path(position)) is None


@pytest.mark.slow
@given(st.integers(0, 40), st.data())
def test_a_tree_that_is_cut_is_as_it_was(count: int, data: st.DataObject) -> None:
    tree = Tree(leaves(count))
    kept = data.draw(st.integers(0, count))
    tree.cut(kept)
    assert (len(tree), tree.root) == (kept, Tree(leaves(kept)).root)
    tree.extend(leaves(count)[kept:])
    assert tree.root == Tree(leaves(count)).root
