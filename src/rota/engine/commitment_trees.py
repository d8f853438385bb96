"""The trees of commitments that proofs are about, one for each contract that has one; each as this node's index is.

The store has what every transition commits to, in the order of the chain. A tree that is asked for is in memory and is
brought up to date with every question: cut where the chain was reorganised, and then grown. After a restart it is
worked out anew. The contracts that were not asked for longest are forgotten.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.domains.base import CommitmentTree
from rota.host import Hosted
from rota.model.types import ContractAddress
from rota.ports import CommitmentPage, CommitmentStore, CommittedWords, LeafCommitments, OutcomePlace
from rota.ports.commitments import BEFORE_ALL

TREES_KEPT_MAX: Final = 64
TRANSITIONS_A_STEP: Final = 16


@dataclass(slots=True)
class _Grown:
    """A tree, the places of the transitions that are in it, how many commitments each left, and what it knows of."""

    hosted: Hosted
    tree: CommitmentTree
    places: list[OutcomePlace] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    as_of: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class CommitmentTrees:
    """Of one node. `may_have_tree` says of which contracts commitments are worth keeping."""

    def __init__(self, store: CommitmentStore, may_have_tree: Callable[[ContractAddress], bool]) -> None:
        self._store: Final = store
        self._may_have_tree: Final = may_have_tree
        self._kept: Final[OrderedDict[ContractAddress, _Grown]] = OrderedDict()

    async def keep(self, commitments: Sequence[LeafCommitments]) -> None:
        """What blocks that are about to be indexed have. `Unavailable` when the store is away."""
        await self._store.keep([each for each in commitments if self._may_have_tree(each.contract)])

    def forget(self, contract: ContractAddress) -> None:
        """The store has earlier transitions than those in the tree: the next question builds it again."""
        self._kept.pop(contract, None)

    async def of(self, hosted: Hosted) -> CommitmentTree | None:
        """The tree of a contract now, if it has one; it changes with the next question. `Unavailable` without store."""
        contract = hosted.contract.address
        grown = self._kept.get(contract)
        if grown is None or grown.hosted is not hosted:
            tree = hosted.domain.tree_of(hosted.configuration)
            if tree is None:
                return None
            grown = self._kept[contract] = _Grown(hosted, tree)
        self._kept.move_to_end(contract)
        if len(self._kept) > TREES_KEPT_MAX:
            self._kept.popitem(last=False)
        async with grown.turn:
            await self._bring_up_to_date(contract, grown)
        return grown.tree

    async def _bring_up_to_date(self, contract: ContractAddress, grown: _Grown) -> None:
        is_complete = False
        while not is_complete:
            after = grown.places[-1] if grown.places else BEFORE_ALL
            page = await self._store.page(contract, after, grown.as_of)
            _cut(grown, page)
            for start in range(0, len(page.transitions), TRANSITIONS_A_STEP):
                _grow(grown, page.transitions[start : start + TRANSITIONS_A_STEP])
                # A node of a tree takes a millisecond: a long history must not keep the event loop from its sockets.
                await asyncio.sleep(0)
            is_complete = page.is_complete


def _cut(grown: _Grown, page: CommitmentPage) -> None:
    """What was taken back goes."""
    if page.parted_at is not None:
        kept = bisect_right(grown.places, page.parted_at, key=lambda place: place.height)
        del grown.places[kept:], grown.counts[kept:]
        grown.tree.cut(grown.counts[-1] if kept else 0)
    grown.as_of = page.as_of


def _grow(grown: _Grown, transitions: Sequence[CommittedWords]) -> None:
    grown.tree.extend([made for _, made in transitions])
    for at, made in transitions:
        before = grown.counts[-1] if grown.counts else 0
        grown.places.append(at)
        grown.counts.append(before + len(made))
