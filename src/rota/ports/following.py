"""Requests of users and their results: ABIs, submissions, traces of rounds, public transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from rota.abi.codec import Entry
from rota.chain.effects import RoundDispatch
from rota.chain.public_transaction import PublicTransaction
from rota.domains.queries import Query
from rota.model.blocks import MinedStatus
from rota.model.types import (
    SHARED_ACCOUNT,
    AwaitedLeaf,
    ContractAddress,
    IntentId,
    Leaf,
    Outcome,
    Party,
    State,
    StateId,
    SubmitMode,
    Transition,
)
from rota.ports.listening import NumberedReceipt
from rota.ports.parties import PartyNames

# Earlier states with the same nullifier that are examined.
TWINS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class StoredAbi:
    """An ABI that users stored or submitted: its hash, and its entries as JSON."""

    hash: bytes
    written: bytes


class AbiStore(Protocol):
    """The ABIs that users of this node stored. All methods: `Unavailable` when the store is away."""

    async def add(self, entries: Sequence[Entry]) -> bytes:
        """Store an ABI and each of its entries; returns its hash."""
        ...

    async def get(self, hash_: bytes) -> StoredAbi | None:
        """The ABI of this hash."""
        ...

    async def find(self, query: Query) -> tuple[StoredAbi, ...]:
        """The ABIs that match a query. `Rejected` names the error in the query."""
        ...

    async def entries(self, kind: str, key: bytes) -> tuple[Entry, ...]:
        """Every stored entry of this kind: functions and errors by selector, events by topic."""
        ...


# In UTF-8. Databases index keys: PostgreSQL takes no row of more than 2,704 bytes into an index.
KEY_BYTES_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """An idempotency key of a request.

    The key of a caller that is held to parties belongs to the party that sends (`is_partys`): no other party can occupy
    it or find out whether it is used. Callers that act for every party share their keys. Requests of one sender share
    them in any case, as a caller may repeat a request with another credential.
    """

    text: str
    sender: Party
    is_partys: bool = False

    @property
    def common(self) -> str:
        """The key, if callers that act for every party share it."""
        return "" if self.is_partys else self.text

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Two requests with a name in common use the same key. Without a text there is no key."""
        own = (self.sender, self.text)
        return frozenset((own,) if self.is_partys else (own, ("", self.text))) if self.text else frozenset()


NO_KEY: Final = SubmissionKey("", Party(""))


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """A user's request as it was sent; `data` is JSON. `number` is the order of acceptance at a node.

    `earlier` requests of an updated one come oldest first; each has its time of request as the time of acceptance, and
    `changed_at_ms` is the time of the present one. `late` are updates that came too late: the present request is in a
    block.
    """

    id: IntentId
    accepted_at_ms: int
    is_public: bool
    submit_mode: SubmitMode
    sender: Party
    domain: str = ""
    to: ContractAddress | None = None
    function: str = ""
    data: bytes = b"null"
    abi: bytes = b""
    idempotency_key: str = ""
    depends_on: tuple[IntentId, ...] = ()
    gas: int | None = None
    value_wei: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None
    number: int = 0
    changed_at_ms: int | None = None
    earlier: tuple[StoredSubmission, ...] = ()
    late: tuple[StoredSubmission, ...] = ()
    awaits: tuple[AwaitedLeaf, ...] = ()
    # The party that the key belongs to, if it does not belong to the node. Written once and not read again.
    key_owner: str = ""

    def changed(self, asked: StoredSubmission, now_ms: int) -> StoredSubmission:
        """The submission after an update. It keeps its key and its dependencies."""
        return replace(
            asked,
            accepted_at_ms=self.accepted_at_ms,
            idempotency_key=self.idempotency_key,
            depends_on=self.depends_on,
            awaits=self.awaits,
            number=self.number,
            changed_at_ms=now_ms,
            earlier=self._every(),
            late=(),
        )

    def with_late(self, count: int) -> StoredSubmission:
        """The submission whose last `count` updates came too late."""
        every = self._every()
        place = len(every) - 1 - count
        assert place >= 0, "the first request is no change"
        present = every[place]
        return replace(
            present,
            accepted_at_ms=self.accepted_at_ms,
            changed_at_ms=present.accepted_at_ms if place else None,
            earlier=every[:place],
            late=every[place + 1 :],
        )

    def _every(self) -> tuple[StoredSubmission, ...]:
        """Every request of it, each with its time."""
        asked_at_ms = self.accepted_at_ms if self.changed_at_ms is None else self.changed_at_ms
        present = replace(self, accepted_at_ms=asked_at_ms, changed_at_ms=None, earlier=(), late=())
        return (*self.earlier, present, *self.late)


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of an update, which is stored with it, and the ABI that came with it."""

    submission: StoredSubmission
    abi: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The transactions of this node that a transaction depends on, and those that depend on it."""

    depends_on: tuple[IntentId, ...] = ()
    prerequisite_of: tuple[IntentId, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedLeaves:
    """Final results of leaves, and the time up to which the chain is final."""

    outcomes: Mapping[AwaitedLeaf, Outcome]
    final_time_s: int


class SubmissionStore(Protocol):
    """Requests of this node's users. All methods: `Unavailable` when the store is away."""

    def accompanying(self, submission: StoredSubmission, abi: Sequence[Entry]) -> AbstractContextManager[None]:
        """Within it, the write that accepts this intent also writes the user's request and the ABI in it."""
        ...

    async def get(self, intent: IntentId) -> StoredSubmission | None:
        """The request under this id."""
        ...

    async def with_key(self, key: str, parties: PartyNames | None = None) -> IntentId | None:
        """The transaction with this idempotency key, the node's own first; with `parties`, only of one of them."""
        ...

    async def using(self, key: SubmissionKey) -> IntentId | None:
        """The transaction because of which a request cannot use this key."""
        ...

    async def find(
        self, query: Query, is_open: bool = False, is_prepared: bool = False
    ) -> tuple[StoredSubmission, ...]:
        """The submissions that match a query, the latest first by default.

        Optionally only unfinished ones, or of these only those that their users can commit.
        """
        ...

    async def find_ended(self, query: Query) -> tuple[NumberedReceipt, ...]:
        """The receipts that match a query, the latest first by default."""
        ...

    async def dependencies(self, intent: IntentId) -> Dependencies:
        """The transactions that it depends on, and those that depend on it."""
        ...


class NumberedDispatch(NamedTuple):
    """A round that this node sent, and its number in the API."""

    number: int
    dispatch: RoundDispatch


class Dispatched(NamedTuple):
    """An intent was in the round that this node sent under this number."""

    number: int
    intent: IntentId


class PublicBinding(NamedTuple):
    """A base-ledger transaction by its number in the API, and a transaction that it carries."""

    local_id: int
    intent: IntentId


@dataclass(frozen=True, slots=True)
class LatestRound:
    """A round that this node sent: its number of transitions, and its outcome once a block has it."""

    nonce: int
    contract: ContractAddress
    digest: bytes
    transition_count: int
    status: MinedStatus | None = None
    height: int | None = None
    block_time_s: int | None = None
    account: ContractAddress = SHARED_ACCOUNT


class TraceStore(Protocol):
    """Traces of private transactions in the sequencer. All methods: `Unavailable` when the store is away."""

    async def transition(self, contract: ContractAddress, leaf: Leaf) -> Transition | None:
        """This node's copy of a transition: dispatched, received, or prepared for its user."""
        ...

    async def twins(self, contract: ContractAddress, leaf: Leaf) -> Mapping[StateId, tuple[State, ...]]:
        """For each state of a committed transition those that were known and on the chain before it, and that the
        nullifier of this state spends as well; at most `TWINS_MAX` of them.
        """
        ...

    async def dispatches(self, intent: IntentId) -> tuple[NumberedDispatch, ...]:
        """The rounds of this node with a transition of this intent."""
        ...

    async def dispatch(self, number: int) -> RoundDispatch | None:
        """The round that this node sent under this number."""
        ...

    async def mined(self, dispatch: RoundDispatch) -> tuple[bool, int | None] | None:
        """Whether a transaction of this node succeeded; `None` while no block has it.

        It comes with the time of that block, as long as the node keeps it.
        """
        ...

    async def find_dispatched(self, query: Query) -> tuple[Dispatched, ...]:
        """The intents and their rounds that match a query."""
        ...

    async def waiting_dispatch(self, transaction_hash: bytes) -> RoundDispatch | None:
        """The round with this transaction hash, while no block has it."""
        ...

    async def latest_rounds(self, limit: int) -> tuple[LatestRound, ...]:
        """The rounds that this node sent last, in order."""
        ...


class PublicStore(Protocol):
    """Users' transactions on the base ledger. All methods: `Unavailable` when the store is away."""

    async def accept(self, submission: StoredSubmission, transaction: PublicTransaction, abi: Sequence[Entry]) -> None:
        """Store it with a number; durable on return. It may be repeated."""
        ...

    async def save(self, transactions: Sequence[PublicTransaction], asks: Sequence[Ask] = ()) -> None:
        """Store the present state of transactions, and the requests of updates, in one write; durable on return."""
        ...

    async def submission(self, intent: IntentId) -> StoredSubmission | None:
        """The user's request."""
        ...

    async def open(self) -> tuple[PublicTransaction, ...]:
        """Unfinished ones, in order."""
        ...

    async def accounts(self) -> tuple[ContractAddress, ...]:
        """The accounts of transactions that have nonces."""
        ...

    async def reopen(self, account: ContractAddress, nonce: int) -> None:
        """The chain took back this nonce and all later ones: transactions that ended with them are open again.

        Their receipts are marked as undone until they end again.
        """
        ...

    async def next_nonce(self, account: ContractAddress) -> int:
        """The nonce after all that this node ever gave to transactions of this account."""
        ...

    async def get(self, intent: IntentId) -> PublicTransaction | None:
        """The transaction with this id."""
        ...

    async def numbered(self, number: int) -> PublicTransaction | None:
        """The transaction with this number."""
        ...

    async def find(self, query: Query, account: ContractAddress, is_open: bool = False) -> tuple[PublicBinding, ...]:
        """Users' transactions and rounds of this account that match a query, the latest first by default.

        With `is_open` only those that are in no block yet. A round counts once for each intent in it.
        """
        ...

    async def outcomes(self, intents: Sequence[IntentId]) -> Mapping[IntentId, Outcome]:
        """The outcomes of these transactions of this node, public or private, that have ended."""
        ...

    async def ended_leaves(self, leaves: Sequence[AwaitedLeaf]) -> EndedLeaves:
        """The final results of these leaves, of any node."""
        ...
