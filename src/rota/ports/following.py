"""What users asked for and what became of it: ABIs, submissions, traces of rounds, public transactions."""

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

# Earlier states that one nullifier spends, which are looked at.
TWINS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class StoredAbi:
    """An ABI that users stored or submitted: the hash by which it is known, and its entries as JSON."""

    hash: bytes
    written: bytes


class AbiStore(Protocol):
    """The ABIs that users of this node stored. All: `Unavailable` when the store is away."""

    async def add(self, entries: Sequence[Entry]) -> bytes:
        """Remember an ABI, and each of its entries; its hash."""
        ...

    async def get(self, hash_: bytes) -> StoredAbi | None:
        """The ABI of this hash."""
        ...

    async def find(self, query: Query) -> tuple[StoredAbi, ...]:
        """Those that are looked for. `Rejected` names what is wrong with the query."""
        ...

    async def entries(self, kind: str, key: bytes) -> tuple[Entry, ...]:
        """What was ever stored of this kind: functions and errors by selector, events by topic."""
        ...


# In UTF-8. Databases index keys: PostgreSQL takes no row of more than 2,704 bytes into an index.
KEY_BYTES_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """An idempotency key as a request gives it.

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
    """What a user asked for, as it was asked; `data` is JSON. `number` orders those of a node by their acceptance.

    One that was changed has what it asked for before, the oldest first; each of these has the time at which it was
    asked for as that of its acceptance, and `changed_at_ms` is when the present one was. `late` are changes that came
    too late: the present one is in a block.
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
        """The same, which asks for this from now on. It keeps its key and what it depends on."""
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
        """The same, of whose changes the last ones came too late."""
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
        """All that it ever asked for, each with the time at which it was asked for."""
        asked_at_ms = self.accepted_at_ms if self.changed_at_ms is None else self.changed_at_ms
        present = replace(self, accepted_at_ms=asked_at_ms, changed_at_ms=None, earlier=(), late=())
        return (*self.earlier, present, *self.late)


@dataclass(frozen=True, slots=True)
class Ask:
    """What an update asks for, which is to be stored with it, and the ABI that came with it."""

    submission: StoredSubmission
    abi: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The transactions of this node that one depends on, and those that depend on it."""

    depends_on: tuple[IntentId, ...] = ()
    prerequisite_of: tuple[IntentId, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedLeaves:
    """What became of leaves for good, and the time up to which the chain is final."""

    outcomes: Mapping[AwaitedLeaf, Outcome]
    final_time_s: int


class SubmissionStore(Protocol):
    """What users of this node asked for. All: `Unavailable` when the store is away."""

    def accompanying(self, submission: StoredSubmission, abi: Sequence[Entry]) -> AbstractContextManager[None]:
        """Meanwhile the write that accepts this intent notes what its user asked for, and the ABI that came with it."""
        ...

    async def get(self, intent: IntentId) -> StoredSubmission | None:
        """What was asked for under this id."""
        ...

    async def with_key(self, key: str, parties: PartyNames | None = None) -> IntentId | None:
        """The transaction that has this idempotency key, the node's own first; perhaps only one of these parties."""
        ...

    async def using(self, key: SubmissionKey) -> IntentId | None:
        """The transaction that keeps a request from using this key."""
        ...

    async def find(
        self, query: Query, is_open: bool = False, is_prepared: bool = False
    ) -> tuple[StoredSubmission, ...]:
        """Those that are looked for, the latest first if no order is asked for.

        Perhaps only such as have not ended; or of these only those that their users can have committed.
        """
        ...

    async def find_ended(self, query: Query) -> tuple[NumberedReceipt, ...]:
        """The receipts that a query looks for, the latest first if no order is asked for."""
        ...

    async def dependencies(self, intent: IntentId) -> Dependencies:
        """What it depends on, and what depends on it."""
        ...


class NumberedDispatch(NamedTuple):
    """A round that this node sent, and the number that clients know it by."""

    number: int
    dispatch: RoundDispatch


class Dispatched(NamedTuple):
    """An intent was in the round that this node sent under this number."""

    number: int
    intent: IntentId


class PublicBinding(NamedTuple):
    """A base-ledger transaction by the number that clients know it by, and a transaction that it is for."""

    local_id: int
    intent: IntentId


@dataclass(frozen=True, slots=True)
class LatestRound:
    """A round that this node sent: how many transitions it has, and what the chain made of it once a block has it."""

    nonce: int
    contract: ContractAddress
    digest: bytes
    transition_count: int
    status: MinedStatus | None = None
    height: int | None = None
    block_time_s: int | None = None
    account: ContractAddress = SHARED_ACCOUNT


class TraceStore(Protocol):
    """What the sequencer left of private transactions. All: `Unavailable` when the store is away."""

    async def transition(self, contract: ContractAddress, leaf: Leaf) -> Transition | None:
        """What this node has of a transition: dispatched, received, or prepared for its user."""
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
        """Whether a transaction of this node succeeded; nothing while no block has it.

        With it comes the time of that block, as long as the node keeps it.
        """
        ...

    async def find_dispatched(self, query: Query) -> tuple[Dispatched, ...]:
        """Which intents went to the ledger in which rounds, as a query looks for them."""
        ...

    async def waiting_dispatch(self, transaction_hash: bytes) -> RoundDispatch | None:
        """The round that this node sent under this hash, while no block has it."""
        ...

    async def latest_rounds(self, limit: int) -> tuple[LatestRound, ...]:
        """The rounds that this node sent last, the oldest of them first."""
        ...


class PublicStore(Protocol):
    """Transactions of users on the base ledger itself. All: `Unavailable` when the store is away."""

    async def accept(self, submission: StoredSubmission, transaction: PublicTransaction, abi: Sequence[Entry]) -> None:
        """Durable on return, with a number. It may be given again."""
        ...

    async def save(self, transactions: Sequence[PublicTransaction], asks: Sequence[Ask] = ()) -> None:
        """How they stand now, and what updates of them ask for, in one write; durable on return."""
        ...

    async def submission(self, intent: IntentId) -> StoredSubmission | None:
        """What its user asked for."""
        ...

    async def open(self) -> tuple[PublicTransaction, ...]:
        """Those that have not ended, in their order."""
        ...

    async def accounts(self) -> tuple[ContractAddress, ...]:
        """The accounts of transactions that were given nonces."""
        ...

    async def reopen(self, account: ContractAddress, nonce: int) -> None:
        """The chain took back this nonce and all that follow: transactions that ended with them are open again.

        Their receipts are marked as ones that no longer hold, until they end again.
        """
        ...

    async def next_nonce(self, account: ContractAddress) -> int:
        """The nonce that follows all that this node ever gave to transactions of this account."""
        ...

    async def get(self, intent: IntentId) -> PublicTransaction | None:
        """The one with this id."""
        ...

    async def numbered(self, number: int) -> PublicTransaction | None:
        """The one with this number."""
        ...

    async def find(self, query: Query, account: ContractAddress, is_open: bool = False) -> tuple[PublicBinding, ...]:
        """Users' own and rounds of this account that are looked for, the latest first if no order is asked for.

        Perhaps only such as are in no block yet. A round counts once for each intent in it.
        """
        ...

    async def outcomes(self, intents: Sequence[IntentId]) -> Mapping[IntentId, Outcome]:
        """How these transactions of this node ended, public or private, as far as they have."""
        ...

    async def ended_leaves(self, leaves: Sequence[AwaitedLeaf]) -> EndedLeaves:
        """What became of these leaves, whichever node they are of."""
        ...
