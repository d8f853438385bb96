"""Blocks in, outcomes out, undo: this node's own index of the chain (ledger).

Theory of operation. The chain repeatedly reports its latest block. The index fetches the blocks
between its own latest block and that one, beginning with one that it has. Where the
chains part, the index's blocks above were reorganised away: they are undone first, latest first, and then the
new blocks are taken. Such a change is one record, and effects that depend on it leave the node after it, so that no
message ever reports more than a restarted node would know.

A node behind a load balancer sees latest blocks that are older than its own. One that the index has is
ignored; a shorter chain is believed only when no other has been seen for `stale_head_ms`, and for much longer if
it would take back final blocks and shows no others in their place. A request is repeated
after `request_timeout_ms` if its answer brings nothing, because it is too old or not one chain;
an answer to an earlier request is ignored. Where the chains part
below the last block that one request could include, the index first looks for that place, in growing
steps, and then goes up from it, `fetch_blocks_max` at a time. Blocks become final at the depth of
`confirmations`. A change that parts below them breaks finality: reported outcomes in the removed blocks no
longer hold, and one record in the same write shows that.

A new run has no ledger until it has caught up with it. The chain's latest block was once the index's latest one: when
that is `ledger_grace_ms` ago, the ledger is lost. So an index that is always a block behind a fast chain has its
ledger; and a process that was suspended at that moment first waits for the chain's latest block.
"""

from __future__ import annotations

from itertools import pairwise

from rota.chain.effects import FetchBlocks, FinalityBroken, UndoneCommit
from rota.chain.events import BlocksFetched, HeadSeen
from rota.model.blocks import ChainBlock, LedgerStatus
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import NO_CONTRACT, NO_LEAF, BlockHash

# Times `stale_head_ms` for which a chain must stay so short that final blocks are gone without others in their place.
FINAL_PATIENCE = 15


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The height at which the chains part, the removed blocks, latest first, and the added ones, earliest first."""

    parted_at: int
    removed: tuple[ChainBlock, ...]
    added: tuple[ChainBlock, ...]

    @property
    def height(self) -> int:
        """The height of the index after it."""
        return self.added[-1].height if self.added else self.parted_at


class ChainIndex:
    """The latest blocks of the chain as this node has recorded them; the last one is its latest."""

    def __init__(
        self, config: Config, now_ms: int, stored: tuple[ChainBlock, ...], final_height: int | None = None
    ) -> None:
        self.config = config
        self.blocks = list(stored)
        # The chain may have become shorter since: final blocks stay final until they are gone.
        depth = self._depth_of_finality()
        self.final_height = depth if final_height is None else max(depth, final_height)
        self.head: HeadSeen | None = None
        self.base_fee_wei = 0
        self.is_lost = True
        self.is_forked = False
        self._reached_ms = now_ms - config.ledger_grace_ms
        self._ahead: tuple[int, int] | None = None
        self._lower_since_ms: int | None = None
        self._asked: FetchBlocks | None = None
        self._asked_ms: int | None = None
        self._steps_back = 0

    @property
    def height(self) -> int:
        """The height of the latest block that is indexed."""
        return self.blocks[-1].height if self.blocks else 0

    def unfinal(self) -> tuple[ChainBlock, ...]:
        """Return the blocks that a restarted node processes again: their receipts were not reported."""
        return self.above(self.final_height)

    def above(self, height: int) -> tuple[ChainBlock, ...]:
        """Return the stored blocks above this height."""
        return tuple(self.blocks[self._place_above(height) :])

    # From the chain.

    def take_head(self, now_ms: int, head: HeadSeen) -> None:
        """Take the chain's latest block, or that of an Ethereum node that lags behind."""
        self.head = head
        self.base_fee_wei = head.base_fee_wei
        if head.height >= self.height:
            self._lower_since_ms = None
        elif self._lower_since_ms is None:
            self._lower_since_ms = now_ms
        self._note_reached(now_ms)

    def take_blocks(self, now_ms: int, event: BlocksFetched) -> IndexChange | None:
        """Return the change by these blocks where the chains part; None if they do not fit: ask again later."""
        blocks, asked = event.blocks, self._asked
        if asked is None or (blocks and blocks[0].height != asked.first):
            return None
        self._asked, self._asked_ms = None, now_ms
        if not blocks or not _is_one_chain(blocks):
            return None
        if not self.blocks:
            return self._begin_change(IndexChange(blocks[0].height - 1, (), blocks))
        known = {block.height: block.hash for block in self.blocks[self._place_above(blocks[0].height - 1) :]}
        shared = [block.height for block in blocks if known.get(block.height) == block.hash]
        if not shared:
            self._step_back(blocks[0])
            return None
        removed = tuple(reversed(self.blocks[self._place_above(shared[-1]) :]))
        added = tuple(block for block in blocks if block.height > shared[-1])
        change = IndexChange(shared[-1], removed, added)
        if self._is_better(now_ms, change) or (added and self._goes_on_above(asked, blocks)):
            return self._begin_change(change)
        self._steps_back = 0
        if not added and self._goes_on_above(asked, blocks):
            self._steps_back, self._asked_ms = len(removed), None
        return None

    def take_change(self, now_ms: int, change: IndexChange) -> None:
        """Apply the change."""
        kept = len(self.blocks) - len(change.removed)
        self.blocks[kept:] = change.added
        self.final_height = min(self.final_height, change.parted_at)
        self._steps_back = 0
        self._lower_since_ms = None
        if self._ahead is not None and self._ahead[0] <= self.height:
            self._reached_ms, self._ahead = self._ahead[1], None
        self._note_reached(now_ms)

    def broken_by(self, change: IndexChange) -> FinalityBroken | None:
        """Return the effects of final blocks that this change takes back, or None.

        It counts only if the chain has another block in the place of a lost one, or the block had an effect that
        concerns this node. One without effect, and whose place is not known yet, may still be there: the index looks
        for the fork from a block that it is sure of, and keeps only some.
        """
        if not change.removed:
            return None
        final_height = self.final_height
        final = [block for block in change.removed if block.height <= final_height]
        now = {block.height: block.hash for block in change.added}
        is_replaced = any(now.get(block.height, block.hash) != block.hash for block in final)
        if not is_replaced and not any(block.outcomes or block.deployments or block.mined for block in final):
            return None
        undone = [
            UndoneCommit(block.height, contract, outcome.intent, outcome.leaf)
            for block in reversed(final)
            for contract, outcome in block.outcomes
            if outcome.status is LedgerStatus.COMMITTED
        ]
        undone += [
            UndoneCommit(block.height, NO_CONTRACT, made.intent, NO_LEAF)
            for block in reversed(final)
            for made in block.deployments
        ]
        return FinalityBroken(change.parted_at, final_height, tuple(undone))

    def take_final(self) -> tuple[ChainBlock, ...]:
        """Return the blocks that have reached the final depth, earliest first; forget old ones."""
        depth = self._depth_of_finality()
        final = tuple(self.blocks[self._place_above(self.final_height) : self._place_above(depth)])
        self.final_height = max(self.final_height, depth)
        excess = len(self.blocks) - self.config.index_window_max
        if excess > 0:
            del self.blocks[:excess]
        return final

    # Next steps.

    def next_fetch(self, now_ms: int) -> FetchBlocks | None:
        """Return the next request, one at a time, repeated without an answer; else None."""
        if self.head is None:
            return None
        if not self._is_news(now_ms):
            self._asked_ms = None
            return None
        if self._asked_ms is not None and now_ms - self._asked_ms < self.config.request_timeout_ms:
            return None
        first = self.config.index_from_height
        if self.blocks:
            place = max(0, len(self.blocks) - 1 - self._steps_back)
            first = min(self.blocks[place].height, self.head.height)
        self._asked = FetchBlocks(first, min(self.head.height, first + self.config.fetch_blocks_max))
        self._asked_ms = now_ms
        return self._asked

    def has_just_been_lost(self, now_ms: int) -> bool:
        """Whether the ledger is lost since `ledger_grace_ms` have passed; True once for each loss."""
        late_ms = now_ms - self._reached_ms - self.config.ledger_grace_ms
        if self.is_lost or late_ms < 0:
            return False
        if late_ms >= self.config.request_timeout_ms:
            self._reached_ms = now_ms + self.config.request_timeout_ms - self.config.ledger_grace_ms
            return False
        self.is_lost = True
        return True

    def has_just_come_back(self, now_ms: int) -> bool:
        """Whether the ledger is reached again; True once for each loss."""
        if not self.is_lost or now_ms - self._reached_ms >= self.config.ledger_grace_ms:
            return False
        self.is_lost = False
        return True

    def next_due_ms(self) -> int | None:
        """Return when to check again."""
        lost_ms = None if self.is_lost else self._reached_ms + self.config.ledger_grace_ms
        if self._asked_ms is not None:
            again_ms = self._asked_ms + self.config.request_timeout_ms
        elif self._lower_since_ms is not None:
            again_ms = self._lower_since_ms + self._patience_ms(self._is_behind_final_blocks)
        else:
            return lost_ms
        return again_ms if lost_ms is None else min(lost_ms, again_ms)

    def _is_news(self, now_ms: int) -> bool:
        """Whether the latest block is not one of ours, or has been below ours for long."""
        head = self.head
        assert head is not None, "nothing is news before the chain was heard of"
        if head.height < self.height:
            return self._is_lower_believed(now_ms, self._is_behind_final_blocks)
        return self.hash_at(head.height) != head.hash

    @property
    def _is_behind_final_blocks(self) -> bool:
        """Whether the latest block is one of ours, below the final ones: the Ethereum node may lag behind."""
        assert self.head is not None, "a latest block that is lower was heard of"
        return self.head.height < self.final_height and self.hash_at(self.head.height) == self.head.hash

    def _is_lower_believed(self, now_ms: int, takes_final: bool) -> bool:
        since_ms = self._lower_since_ms
        return since_ms is not None and now_ms - since_ms >= self._patience_ms(takes_final)

    def _patience_ms(self, takes_final: bool) -> int:
        return self.config.stale_head_ms * (FINAL_PATIENCE if takes_final else 1)

    def _only_lacks_final_blocks(self, change: IndexChange) -> bool:
        """Whether it would take back final blocks, and is not as long as the first of these."""
        final = [block.height for block in change.removed if block.height <= self.final_height]
        return bool(final) and change.height < final[-1]

    def _is_better(self, now_ms: int, change: IndexChange) -> bool:
        """Whether the chain is longer than ours, or another one of the same length, or has been shorter for long."""
        if change.height == self.height:
            return bool(change.removed)
        takes_final = self._only_lacks_final_blocks(change)
        return change.height > self.height or self._is_lower_believed(now_ms, takes_final)

    def _goes_on_above(self, asked: FetchBlocks, blocks: tuple[ChainBlock, ...]) -> bool:
        """Whether the answer is part of a chain at least as long as ours, cut off by the limit of one request."""
        assert self.head is not None, "what is answered was asked for"
        return blocks[-1].height == asked.last < self.head.height and self.head.height >= self.height

    def _note_reached(self, now_ms: int) -> None:
        """Note whether the index has the latest known block; if not, note since when the chain is ahead."""
        assert self.head is not None, "reached is what was heard of"
        if self.hash_at(self.head.height) == self.head.hash:
            self._reached_ms, self._ahead, self.is_forked = now_ms, None, False
        elif self._ahead is None:
            self._ahead = (self.head.height, now_ms)

    def hash_at(self, height: int) -> BlockHash | None:
        """Return the hash of our block at this height, or None if it is not stored."""
        blocks = self.blocks
        if blocks and blocks[-1].height == height:
            return blocks[-1].hash  # The usual case.
        place = self._place_above(height) - 1
        return blocks[place].hash if place >= 0 and blocks[place].height == height else None

    def _place_above(self, height: int) -> int:
        """Return the place of our first block above this height, searched from the latest, where it mostly is."""
        blocks = self.blocks
        place = len(blocks)
        while place > 0 and blocks[place - 1].height > height:
            place -= 1
        return place

    def _step_back(self, first: ChainBlock) -> None:
        """The chains part further down: fetch from an earlier block, in growing steps, down to the last stored one."""
        self._steps_back = min(self._steps_back * 2 + 1, len(self.blocks))
        if first.height <= self.blocks[0].height:
            self.is_forked = True
        else:
            self._asked_ms = None

    def _begin_change(self, change: IndexChange) -> IndexChange:
        self._asked_ms = None
        self.is_forked = False
        return change

    def _depth_of_finality(self) -> int:
        return self.height - self.config.confirmations


def _is_one_chain(blocks: tuple[ChainBlock, ...]) -> bool:
    """Whether neighbours name one another; an answer that was put together while the chain changed is not one chain."""
    return all(
        (above.height > below.height + 1 or above.parent == below.hash) and above.height > below.height
        for below, above in pairwise(blocks)
    )
