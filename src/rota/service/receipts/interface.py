"""Outcomes and effects of transactions; calls of contracts without a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, NodeName
from rota.ports import Chained
from rota.rpc.values import JsonValue
from rota.service.submissions.interface import ReceiptView, Submission, TransactionType, TransactionView


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of a history."""

    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class PublicSubmission:
    """A signed version of a base-ledger transaction."""

    at_ms: int
    hash: bytes
    fee_max_wei: int
    tip_wei: int


@dataclass(frozen=True, slots=True)
class PublicView:
    """A base-ledger transaction of this node, and the transaction that it executes."""

    local_id: int
    transaction: IntentId
    type: TransactionType
    sender: str
    account: ContractAddress
    to: ContractAddress | None
    data: bytes
    created_at_ms: int
    dispatcher: str
    nonce: int | None = None
    value_wei: int = 0
    gas: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None
    completed_at_ms: int | None = None
    transaction_hash: bytes | None = None
    success: bool | None = None
    revert_data: bytes = b""
    submissions: tuple[PublicSubmission, ...] = ()
    activity: tuple[Moment, ...] = ()
    contract: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class StateView:
    """A private state, with the fields that this node may see."""

    id: bytes
    created_at_ms: int
    domain: str
    schema: bytes
    contract: ContractAddress
    data: JsonValue


@dataclass(frozen=True, slots=True)
class TransactionStates:
    """The states of a transaction: those that this node has, and the ids of the missing ones."""

    spent: tuple[StateView, ...] = ()
    read: tuple[StateView, ...] = ()
    confirmed: tuple[StateView, ...] = ()
    info: tuple[StateView, ...] = ()
    missing_spent: tuple[bytes, ...] = ()
    missing_read: tuple[bytes, ...] = ()
    missing_confirmed: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FullReceipt:
    """A receipt with all data that this node has about it."""

    receipt: ReceiptView
    states: TransactionStates | None = None
    domain_receipt: JsonValue = None
    domain_receipt_error: str = ""
    public: tuple[PublicView, ...] = ()
    chained: tuple[Chained, ...] = ()


AnyReceipt: TypeAlias = ReceiptView | FullReceipt


@dataclass(frozen=True, slots=True)
class ActivityView:
    """An action of a node as coordinator of a transaction: `subject` is the id of the dispatch."""

    subject: str
    at_ms: int
    node: NodeName


@dataclass(frozen=True, slots=True)
class FullTransaction:
    """A transaction with all data that this node has about it.

    `history` has the requests that updates replaced, `activity` this node's actions as its coordinator.
    """

    transaction: TransactionView
    receipt: ReceiptView | None = None
    public: tuple[PublicView, ...] = ()
    history: tuple[TransactionView, ...] = ()
    activity: tuple[ActivityView, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedView:
    """A prepared external transaction for its committer: a public transaction, and its effects.

    `abi` is the hash of its ABI, which is stored.
    """

    id: IntentId
    domain: str
    to: ContractAddress
    transaction: Submission
    abi: bytes
    metadata: JsonValue
    states: TransactionStates


@dataclass(frozen=True, slots=True)
class DependenciesView:
    """The dependencies of a transaction, and the transactions that depend on it."""

    depends_on: tuple[IntentId, ...]
    prerequisite_of: tuple[IntentId, ...]
    awaits: tuple[AwaitedLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class DispatchView:
    """A dispatch of a private transaction to the base ledger with a public one."""

    id: str
    transaction: IntentId
    public_transaction: int


@dataclass(frozen=True, slots=True)
class ChainedDispatchView:
    """A private transaction that is carried out by one of another private contract (`chained`), or not at all."""

    id: str
    transaction: IntentId
    chained: IntentId


class Following(Protocol):
    """Outcomes and effects of transactions; calls of contracts without a transaction."""

    async def full(self, intent: IntentId) -> FullTransaction | None:
        """Return a transaction with all data that this node has about it."""
        ...

    async def with_key(self, key: str) -> TransactionView | None:
        """Return the transaction that has this idempotency key."""
        ...

    async def query(self, query: JsonValue, is_open: bool = False) -> tuple[TransactionView, ...]:
        """Return the transactions that a QueryJSON matches; with `is_open` only those that have not ended."""
        ...

    async def query_full(self, query: JsonValue, is_open: bool = False) -> tuple[FullTransaction, ...]:
        """Query the transactions of this node, with receipts and base-ledger transactions."""
        ...

    async def query_receipts(self, query: JsonValue) -> tuple[ReceiptView, ...]:
        """Return the receipts that a QueryJSON matches."""
        ...

    async def full_receipt(self, intent: IntentId) -> FullReceipt | None:
        """Return the receipt with all data that this node has about it."""
        ...

    async def states(self, intent: IntentId) -> TransactionStates | None:
        """Return the private states of a transaction that is on the chain."""
        ...

    async def domain_receipt(self, domain: str, intent: IntentId) -> JsonValue:
        """Return the receipt that the domain makes of a transaction; None when it is not on the chain."""
        ...

    async def prepared(self, intent: IntentId) -> PreparedView | None:
        """Return an external transaction that can be committed."""
        ...

    async def query_prepared(self, query: JsonValue) -> tuple[PreparedView, ...]:
        """Return the external transactions that can be committed and that a QueryJSON matches."""
        ...

    async def dependencies(self, intent: IntentId) -> DependenciesView | None:
        """Return the dependencies of a transaction and its dependents."""
        ...

    async def call(self, submission: Submission, block: str | int, data_format: str) -> str:
        """Call a contract, private or public, without a transaction; returns the answer as JSON text."""
        ...

    async def update(self, intent: IntentId, submission: Submission) -> IntentId:
        """Replace the request of a public transaction that is under way."""
        ...

    async def public_transaction(self, local_id: int) -> PublicView | None:
        """Return a base-ledger transaction by its number."""
        ...

    async def query_public(self, query: JsonValue, is_open: bool = False) -> tuple[PublicView, ...]:
        """Return the base-ledger transactions that a QueryJSON matches; with `is_open` only those in no block yet.

        A round of private transactions is listed once for each of them.
        """
        ...

    async def public_with_nonce(self, account: ContractAddress, nonce: int) -> PublicView | None:
        """Return the base-ledger transaction with this nonce, if it is for a transaction that the caller may see."""
        ...

    async def public_with_hash(self, transaction_hash: bytes) -> PublicView | None:
        """Return the base-ledger transaction with this hash, if it is for a transaction that the caller may see."""
        ...

    async def dispatch(self, dispatch_id: str) -> DispatchView | None:
        """Return a dispatch by its id."""
        ...

    async def query_dispatches(self, query: JsonValue) -> tuple[DispatchView, ...]:
        """Return the dispatches that a QueryJSON matches."""
        ...

    async def chained_dispatch(self, dispatch_id: str) -> ChainedDispatchView | None:
        """Return a chained dispatch by its id."""
        ...

    async def query_chained_dispatches(self, query: JsonValue) -> tuple[ChainedDispatchView, ...]:
        """Return the chained dispatches that a QueryJSON matches."""
        ...


class HasFollowing(Protocol):
    """A node whose transactions can be followed."""

    @property
    def following(self) -> Following:
        """The outcomes of its transactions."""
        ...
