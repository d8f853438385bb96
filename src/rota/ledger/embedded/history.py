"""The chain's blocks, by number and hash, and the position of each transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rota.ledger.embedded.blocks import Block, Receipt, may_hold
from rota.ledger.embedded.errors import LIMIT_EXCEEDED, RpcError
from rota.revm import Emitted


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Selects logs of any of these addresses, with any of these topics at each position; empty allows all."""

    addresses: tuple[bytes, ...] = ()
    topics: tuple[tuple[bytes, ...], ...] = ()

    def may_match(self, bloom: bytes) -> bool:
        """Return whether a block with this bloom may have such logs; false is certain."""
        return all(
            not wanted or any(may_hold(bloom, each) for each in wanted) for wanted in (self.addresses, *self.topics)
        )

    def matches(self, log: Emitted) -> bool:
        if self.addresses and log.address not in self.addresses:
            return False
        if len(self.topics) > len(log.topics):
            return False
        return all(not wanted or topic in wanted for wanted, topic in zip(self.topics, log.topics, strict=False))


@dataclass(frozen=True, slots=True)
class PlacedLog:
    """A log and its position."""

    block: Block
    receipt: Receipt
    position: int  # among the logs of the block
    log: Emitted


class History:
    """Blocks from the oldest that is kept to the head, without a gap."""

    def __init__(self, blocks_max: int, transactions_max: int) -> None:
        self._blocks_max: Final = blocks_max
        self._transactions_max: Final = transactions_max
        self._blocks: Final[deque[Block]] = deque()
        self._by_hash: Final[dict[bytes, Block]] = {}
        self._receipts: Final[dict[bytes, Receipt]] = {}

    @property
    def head(self) -> Block:
        return self._blocks[-1]

    @property
    def oldest_number(self) -> int:
        return self._blocks[0].number

    def by_number(self, number: int) -> Block | None:
        """Return the block with this number, if it exists and is still kept."""
        place = number - self.oldest_number
        return self._blocks[place] if 0 <= place < len(self._blocks) else None

    def by_hash(self, block_hash: bytes) -> Block | None:
        return self._by_hash.get(block_hash)

    def receipt(self, transaction_hash: bytes) -> Receipt | None:
        return self._receipts.get(transaction_hash)

    def append(self, block: Block) -> None:
        """Add a new head; drop the oldest blocks when there are too many."""
        assert not self._blocks or block.header.parent_hash == self.head.hash, "a block stands on the head"
        self._blocks.append(block)
        self._by_hash[block.hash] = block
        for receipt in block.receipts:
            self._receipts[receipt.transaction.hash] = receipt
        while len(self._blocks) > 1 and (
            len(self._blocks) > self._blocks_max or len(self._receipts) > self._transactions_max
        ):
            self._forget(self._blocks.popleft())

    def pop(self) -> Block:
        """Remove and return the head."""
        block = self._blocks.pop()
        self._forget(block)
        return block

    def logs(
        self, wanted: LogFilter, first: int, last: int, logs_max: int, range_max: int | None
    ) -> Sequence[PlacedLog]:
        """Return the wanted logs of these blocks; raise `RpcError` beyond the limits."""
        if range_max is not None and last - first + 1 > range_max:
            raise RpcError(LIMIT_EXCEEDED, f"query exceeds max block range {range_max}: it has {last - first + 1}")
        found: list[PlacedLog] = []
        start = max(first - self.oldest_number, 0)
        for block in islice(self._blocks, start, max(last - self.oldest_number + 1, start)):
            if block.receipts and wanted.may_match(block.header.bloom):
                found += logs_of(block, wanted)
                if len(found) > logs_max:
                    raise RpcError(LIMIT_EXCEEDED, f"query returned more than {logs_max} results")
        return found

    def _forget(self, block: Block) -> None:
        del self._by_hash[block.hash]
        for receipt in block.receipts:
            del self._receipts[receipt.transaction.hash]


def logs_of(block: Block, wanted: LogFilter) -> Iterator[PlacedLog]:
    """Yield the wanted logs of one block."""
    for receipt in block.receipts:
        for place, log in enumerate(receipt.logs):
            if wanted.matches(log):
                yield PlacedLog(block, receipt, receipt.first_log_position + place, log)
