"""The commitment trees that proofs refer to, one for each contract that has one, as of this node's chain index.

The store has the commitments of every transition, in chain order. A tree that is requested is kept in memory and is
updated by each request: truncated where the chain was reorganised, then extended. After a restart it is rebuilt from
the store. The least recently requested contracts are evicted.
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
    """A tree, the places of its transitions, its leaf count after each, and the change up to which it is current."""

    hosted: Hosted
    tree: CommitmentTree
    places: list[OutcomePlace] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    as_of: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class CommitmentTrees:
    """The trees of one node. `may_have_tree` decides for which contracts commitments are stored."""

    def __init__(self, store: CommitmentStore, may_have_tree: Callable[[ContractAddress], bool]) -> None:
        self._store: Final = store
        self._may_have_tree: Final = may_have_tree
        self._kept: Final[OrderedDict[ContractAddress, _Grown]] = OrderedDict()

    async def keep(self, commitments: Sequence[LeafCommitments]) -> None:
        """Store the commitments of blocks that are about to be indexed.

        `Unavailable` when the store is not reachable.
        """
        await self._store.keep([each for each in commitments if self._may_have_tree(each.contract)])

    def forget(self, contract: ContractAddress) -> None:
        """Evict a contract's tree, which lacks earlier transitions of the store; the next request rebuilds it."""
        self._kept.pop(contract, None)

    async def of(self, hosted: Hosted) -> CommitmentTree | None:
        """Return the contract's current tree, or None if it has none. The next request changes it.

        `Unavailable` when the store is not reachable.
        """
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
                # A node of a tree takes a millisecond: a long history must not block the event loop.
                await asyncio.sleep(0)
            is_complete = page.is_complete


def _cut(grown: _Grown, page: CommitmentPage) -> None:
    """Remove the transitions that a reorganisation took back."""
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
