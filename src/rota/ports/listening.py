"""The order of receipts, and listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from rota.model.blocks import LedgerOutcome
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, Intent, IntentId, Leaf

# Stands for the contract in receipts of base-ledger transactions.
BASE_LEDGER: Final = ContractAddress("")


def undone_leaf(intent: IntentId) -> Leaf:
    """Stands for the leaf of a receipt that no longer holds; no transition has a leaf of this length."""
    return Leaf(b"undone" + intent)


@dataclass(frozen=True, slots=True)
class NumberedReceipt:
    """A receipt and its place in the order of this node; `type` is `private` or `public`."""

    sequence: int
    intent: IntentId
    contract: ContractAddress
    leaf: Leaf
    type: str
    domain: str
    numbered_at_ms: int

    @property
    def is_undone(self) -> bool:
        """It has this number because it no longer holds."""
        return self.leaf == undone_leaf(self.intent)


@dataclass(frozen=True, slots=True)
class DueReceipt:
    """A receipt that is final and complete and has no number yet. A deployment comes with its intent.

    A receipt without a transition on the chain has its intent's id for a leaf, and one that no longer holds
    `undone_leaf`. With `is_changed` it had a number before, and its result on the chain has changed.
    """

    intent: IntentId
    contract: ContractAddress
    leaf: Leaf
    deployment: Intent | None = None
    is_changed: bool = False


class ListenerPosition(NamedTuple):
    """The position of a listener: a sequence number, or a block and the place of a log in it."""

    number: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class StoredListener:
    """A listener of an application; its definition is JSON that its family reads."""

    kind: str
    name: str
    created_at_ms: int
    is_started: bool
    definition: bytes
    acknowledged: ListenerPosition


class ListeningStore(Protocol):
    """The order of receipts, and the listeners that follow it. All methods: `Unavailable` when the store is away."""

    async def due(self, most: int) -> tuple[DueReceipt, ...]:
        """At most `most` of the final and complete receipts without a number, in the order of the chain."""
        ...

    async def number(self, receipts: Sequence[tuple[DueReceipt, str]]) -> None:
        """Give these the next numbers, in this order; each comes with its domain.

        No receipt has two numbers. One that changed because its result on the chain did has only the later one.
        """
        ...

    async def forget_expired(self) -> None:
        """Delete expected receipts of transitions that have expired without a commit."""
        ...

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        """Receipts with greater numbers, in order."""
        ...

    async def latest_receipts(self, limit: int) -> tuple[NumberedReceipt, ...]:
        """Receipts with the greatest numbers, in order."""
        ...

    async def receipt_number(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        """The place in the order of the receipt of an intent of this contract, if it has one.

        A public transaction has `BASE_LEDGER` for its contract, and a deployment `NO_CONTRACT`.
        """
        ...

    async def receipts_of(self, intent: IntentId) -> tuple[NumberedReceipt, ...]:
        """The receipts under this id in all contracts, in order: an id is unique within its contract only."""
        ...

    async def commit_of(self, receipt: NumberedReceipt) -> tuple[int, LedgerOutcome] | None:
        """The block that committed it, and its outcome there."""
        ...

    async def with_receipts(self, first: int, last: int, most: int) -> Mapping[int, frozenset[bytes]]:
        """Hashes of base-ledger transactions in these blocks that have a receipt here, by block: the latest so many."""
        ...

    async def undone_count(self) -> int:
        """The number of receipts that no longer hold and that no operator has acknowledged."""
        ...

    async def may_return(self, intent: IntentId) -> bool:
        """Of a transaction of this node whose receipt no longer holds: whether the chain may still commit it."""
        ...

    async def acknowledge_undone(self) -> None:
        """An operator acknowledges them; they stay marked."""
        ...

    async def add_listener(self, listener: StoredListener) -> None:
        """Store a listener. An existing one of its kind and name is not changed."""
        ...

    async def listener(self, kind: str, name: str) -> StoredListener | None:
        """The listener with this name."""
        ...

    async def listeners(self, kind: str) -> tuple[StoredListener, ...]:
        """All of a kind, by name."""
        ...

    async def start_listener(self, kind: str, name: str, is_started: bool) -> None:
        """Start or stop the deliveries to it."""
        ...

    async def note_acknowledged(self, kind: str, name: str, position: ListenerPosition) -> None:
        """Receipts or logs up to there are not sent again."""
        ...

    async def remove_listener(self, kind: str, name: str) -> None:
        """Delete it."""
        ...
