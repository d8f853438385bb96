"""What became of transactions, and what they did; and questions that are no transactions."""

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
    """A base-ledger transaction of this node, and the transaction that it is for."""

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
    """A private state as far as this node may see it."""

    id: bytes
    created_at_ms: int
    domain: str
    schema: bytes
    contract: ContractAddress
    data: JsonValue


@dataclass(frozen=True, slots=True)
class TransactionStates:
    """The states of a transaction: those that this node has, and the ids of those that it has not."""

    spent: tuple[StateView, ...] = ()
    read: tuple[StateView, ...] = ()
    confirmed: tuple[StateView, ...] = ()
    info: tuple[StateView, ...] = ()
    missing_spent: tuple[bytes, ...] = ()
    missing_read: tuple[bytes, ...] = ()
    missing_confirmed: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FullReceipt:
    """A receipt with all that this node knows of it."""

    receipt: ReceiptView
    states: TransactionStates | None = None
    domain_receipt: JsonValue = None
    domain_receipt_error: str = ""
    public: tuple[PublicView, ...] = ()
    chained: tuple[Chained, ...] = ()


AnyReceipt: TypeAlias = ReceiptView | FullReceipt


@dataclass(frozen=True, slots=True)
class ActivityView:
    """A node, as the coordinator of a transaction, dispatched it: `subject` is the id of the dispatch."""

    subject: str
    at_ms: int
    node: NodeName


@dataclass(frozen=True, slots=True)
class FullTransaction:
    """A transaction with all that this node knows of it.

    `history` is what it asked for before it was changed, `activity` what this node did as its coordinator.
    """

    transaction: TransactionView
    receipt: ReceiptView | None = None
    public: tuple[PublicView, ...] = ()
    history: tuple[TransactionView, ...] = ()
    activity: tuple[ActivityView, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedView:
    """What an external transaction's user gives to whoever commits it: a public transaction, and what it does.

    `abi` is the hash of the ABI that comes with it, which is stored.
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
    """That a private transaction went to the base ledger with a public one."""

    id: str
    transaction: IntentId
    public_transaction: int


@dataclass(frozen=True, slots=True)
class ChainedDispatchView:
    """That a private transaction is carried out by one of another private contract (`chained`), or not at all."""

    id: str
    transaction: IntentId
    chained: IntentId


class Following(Protocol):
    """What became of transactions, and what they did; and questions that are no transactions."""

    async def full(self, intent: IntentId) -> FullTransaction | None:
        """A transaction with all that is known of it."""
        ...

    async def with_key(self, key: str) -> TransactionView | None:
        """The transaction that has this idempotency key."""
        ...

    async def query(self, query: JsonValue, is_open: bool = False) -> tuple[TransactionView, ...]:
        """Those that a QueryJSON looks for; perhaps only those that have not ended."""
        ...

    async def query_full(self, query: JsonValue, is_open: bool = False) -> tuple[FullTransaction, ...]:
        """Query the transactions of this node, with receipts and base-ledger transactions."""
        ...

    async def query_receipts(self, query: JsonValue) -> tuple[ReceiptView, ...]:
        """The receipts that a QueryJSON looks for."""
        ...

    async def full_receipt(self, intent: IntentId) -> FullReceipt | None:
        """How it ended, with all that is known of it."""
        ...

    async def states(self, intent: IntentId) -> TransactionStates | None:
        """The private states of a transaction that is on the chain."""
        ...

    async def domain_receipt(self, domain: str, intent: IntentId) -> JsonValue:
        """What its domain tells of it; nothing when it is not on the chain."""
        ...

    async def prepared(self, intent: IntentId) -> PreparedView | None:
        """An external transaction that can be committed."""
        ...

    async def query_prepared(self, query: JsonValue) -> tuple[PreparedView, ...]:
        """Those external ones that can be committed and that a QueryJSON looks for."""
        ...

    async def dependencies(self, intent: IntentId) -> DependenciesView | None:
        """What it depends on, and what depends on it."""
        ...

    async def call(self, submission: Submission, block: str | int, data_format: str) -> str:
        """Ask a contract, private or public, without a transaction; the answer as JSON text."""
        ...

    async def update(self, intent: IntentId, submission: Submission) -> IntentId:
        """A public transaction that is under way asks for this from now on."""
        ...

    async def public_transaction(self, local_id: int) -> PublicView | None:
        """A base-ledger transaction by its number."""
        ...

    async def query_public(self, query: JsonValue, is_open: bool = False) -> tuple[PublicView, ...]:
        """Base-ledger transactions that a QueryJSON looks for; perhaps only those that are in no block yet.

        A round of private transactions is there once for each of them.
        """
        ...

    async def public_with_nonce(self, account: ContractAddress, nonce: int) -> PublicView | None:
        """The base-ledger transaction that this node gave this nonce, for a transaction that the caller may see."""
        ...

    async def public_with_hash(self, transaction_hash: bytes) -> PublicView | None:
        """The base-ledger transaction of this node that has this hash, for a transaction that the caller may see."""
        ...

    async def dispatch(self, dispatch_id: str) -> DispatchView | None:
        """A dispatch by its id."""
        ...

    async def query_dispatches(self, query: JsonValue) -> tuple[DispatchView, ...]:
        """Those that a QueryJSON looks for."""
        ...

    async def chained_dispatch(self, dispatch_id: str) -> ChainedDispatchView | None:
        """A chained dispatch by its id."""
        ...

    async def query_chained_dispatches(self, query: JsonValue) -> tuple[ChainedDispatchView, ...]:
        """Those that a QueryJSON looks for."""
        ...


class HasFollowing(Protocol):
    """A node whose transactions can be followed."""

    @property
    def following(self) -> Following:
        """What became of them."""
        ...
