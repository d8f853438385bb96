"""Transactions that wait for a block, by sender and nonce.

A transaction is *executable* when its nonce is the sender's next and its fee covers the base fee; one after a gap waits
for the missing nonces. A second transaction with the same sender and nonce replaces the first if it pays a tenth more,
in both fees. The best-paying goes first, each sender's in the order of nonces; of equals, the earlier one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from rota.ledger.embedded.errors import rejected
from rota.ledger.embedded.fees import cost_max, effective_price, max_fee, max_tip
from rota.ledger.transaction import SignedTransaction

REPLACEMENT_PERCENT: Final = 110


@dataclass(frozen=True, slots=True)
class Waiting:
    """A transaction in the pool, its sender, and its order of arrival."""

    signed: SignedTransaction
    sender: bytes
    arrival: int

    @property
    def nonce(self) -> int:
        return self.signed.transaction.nonce


class Pool:
    """All waiting transactions."""

    def __init__(self, waiting_max: int, per_sender_max: int) -> None:
        self._waiting_max: Final = waiting_max
        self._per_sender_max: Final = per_sender_max
        self._by_hash: Final[dict[bytes, Waiting]] = {}
        self._by_sender: Final[dict[bytes, dict[int, Waiting]]] = {}
        # Updated with each change: adding it up for each arrival would make a long queue slow.
        self._costs: Final[dict[bytes, int]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_hash)

    def get(self, transaction_hash: bytes) -> Waiting | None:
        return self._by_hash.get(transaction_hash)

    def all(self) -> tuple[Waiting, ...]:
        """Return all of them, in order of arrival."""
        return tuple(sorted(self._by_hash.values(), key=lambda waiting: waiting.arrival))

    def add(self, signed: SignedTransaction, sender: bytes) -> Waiting:
        """Add a transaction, perhaps as a replacement; raise `RpcError` when it is refused."""
        if signed.hash in self._by_hash:
            raise rejected("already known")
        of_sender = self._by_sender.get(sender, {})
        replaced = of_sender.get(signed.transaction.nonce)
        if replaced is not None:
            if not _outbids(signed, replaced.signed):
                raise rejected("replacement transaction underpriced")
            self.remove(replaced.signed.hash)
        elif len(self) >= self._waiting_max or len(of_sender) >= self._per_sender_max:
            raise rejected("txpool is full")
        waiting = Waiting(signed, sender, self._arrivals)
        self._arrivals += 1
        self._by_hash[signed.hash] = waiting
        self._by_sender.setdefault(sender, {})[waiting.nonce] = waiting
        self._costs[sender] = self._costs.get(sender, 0) + cost_max(signed.transaction)
        return waiting

    def remove(self, transaction_hash: bytes) -> bool:
        """Remove a transaction; return whether it was there."""
        waiting = self._by_hash.pop(transaction_hash, None)
        if waiting is None:
            return False
        of_sender = self._by_sender[waiting.sender]
        del of_sender[waiting.nonce]
        self._costs[waiting.sender] -= cost_max(waiting.signed.transaction)
        if not of_sender:
            del self._by_sender[waiting.sender], self._costs[waiting.sender]
        return True

    def clear(self) -> None:
        self._by_hash.clear()
        self._by_sender.clear()
        self._costs.clear()

    def next_nonce(self, sender: bytes, nonce: int) -> int:
        """Return the first nonce from `nonce` on without a waiting transaction."""
        of_sender = self._by_sender.get(sender, {})
        while nonce in of_sender:
            nonce += 1
        return nonce

    def queued_cost(self, sender: bytes, but_nonce: int) -> int:
        """Return the most that the sender's transactions cost, without the one with this nonce."""
        same = self._by_sender.get(sender, {}).get(but_nonce)
        return self._costs.get(sender, 0) - (0 if same is None else cost_max(same.signed.transaction))

    def executable(self, nonce_of: Callable[[bytes], int], base_fee_wei: int) -> Iterator[Waiting]:
        """Yield executable transactions, best first; a sender's next only once `nonce_of` has passed the previous."""
        heap: list[tuple[int, int, Waiting]] = []

        def offer(sender: bytes) -> None:
            waiting = self._by_sender.get(sender, {}).get(nonce_of(sender))
            if waiting is not None and max_fee(waiting.signed.transaction) >= base_fee_wei:
                tip = effective_price(waiting.signed.transaction, base_fee_wei) - base_fee_wei
                heapq.heappush(heap, (-tip, waiting.arrival, waiting))

        for sender in list(self._by_sender):
            offer(sender)
        while heap:
            *_, waiting = heapq.heappop(heap)
            yield waiting
            if nonce_of(waiting.sender) > waiting.nonce:
                offer(waiting.sender)


def _outbids(new: SignedTransaction, old: SignedTransaction) -> bool:
    return all(
        fee(new.transaction) * 100 >= fee(old.transaction) * REPLACEMENT_PERCENT and fee(new.transaction) > 0
        for fee in (max_fee, max_tip)
    )
