"""What the runtime needs of the world, as protocols; adapters are found by their shape.

An adapter is given orders and answers by events, as the core's effects ask for and its events tell. It never
raises at whoever orders: what the world could not do is not answered, and the core asks again by its own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from rota.abi import Entry
from rota.command_types import ChangeId, CompletionFilter, CompletionPage
from rota.commands.effects import Closing, InFlight
from rota.commands.periods import Acceptance, Stream
from rota.core.effects import (
    FetchBlocks,
    FindStates,
    LoadContract,
    LookUpIntents,
    Persist,
    RoundDispatch,
    SendMessage,
    SignDispatch,
    SubmitTransaction,
)
from rota.core.machine import Event
from rota.core.node import StoredNode
from rota.core.public_transaction import PublicTransaction
from rota.domains.pente.groups import DescribedGroup
from rota.domains.queries import Query
from rota.messages import PreparedTransaction
from rota.types import (
    NO_LEAF,
    ContractAddress,
    Intent,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    SubmitMode,
    Transition,
)

TRANSACTIONS_MAX: Final = 1_000
STATES_A_PAGE: Final = 1_000

LedgerEffect: TypeAlias = FetchBlocks | SignDispatch | SubmitTransaction
StoreEffect: TypeAlias = Persist | LookUpIntents | LoadContract | FindStates
Tell: TypeAlias = Callable[[Event], None]


class Unavailable(Exception):
    """The world did not do what it was asked to do; the same may go well later."""


class UnknownKey(Unavailable):
    """There is no key of this name here; an operator may add it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who signs the rounds of a contract on the chain: each endorser's node and address in set order, and how many."""

    endorsers: tuple[tuple[NodeName, ContractAddress], ...]
    threshold: int


@dataclass(frozen=True, slots=True)
class NumberedReceipt:
    """A receipt's place in the order of this node; `type` is `private` or `public`."""

    sequence: int
    intent: IntentId
    contract: ContractAddress
    leaf: Leaf
    type: str
    domain: str
    numbered_at_ms: int


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """An intent of this node as its users ask for it. `sequence` orders by acceptance.

    The receipt is there when it is final. Height, leaf and base-ledger transaction are those of its commit as the index
    has it, final or not; `transaction` is the hash, and empty when it is not known. `issued` is what its user was given
    of an external one, `place` that of its receipt in the order of this node.
    """

    intent: Intent
    sequence: int
    accepted_at_ms: int
    receipt: Receipt | None = None
    height: int | None = None
    leaf: Leaf = NO_LEAF
    transaction: bytes = b""
    parked_reason: str | None = None
    ending_reason: str | None = None
    issued: PreparedTransaction | None = None
    place: NumberedReceipt | None = None


@dataclass(frozen=True, slots=True)
class DueReceipt:
    """A receipt that is final and complete and has no number yet. A deployment comes with its intent.

    What ended off the chain has its intent's id in the place of a leaf.
    """

    intent: IntentId
    contract: ContractAddress
    leaf: Leaf
    deployment: Intent | None = None


class ListenerPosition(NamedTuple):
    """How far a listener is: a sequence number, or a block and the place of a log in it."""

    number: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class StoredListener:
    """A listener that an application made; its definition is JSON that its family reads."""

    kind: str
    name: str
    created_at_ms: int
    is_started: bool
    definition: bytes
    acknowledged: ListenerPosition


@dataclass(frozen=True, slots=True)
class StateChanges:
    """What changed of the states that a node holds of a contract, up to the change with this number.

    `is_complete` when nothing has changed after that; else more is to be asked for.
    """

    as_of: int
    held: tuple[State, ...] = ()
    gone: tuple[StateId, ...] = ()
    is_complete: bool = True


class StatePlace(NamedTuple):
    """Where on the chain a state was made: by which block and transition of it, as which output."""

    height: int
    place: int
    output: int


@dataclass(frozen=True, slots=True)
class StatePage:
    """Some unspent states in the order of the chain, and behind which to go on; nothing when these were the last.

    `as_of` is the latest change when they were read: whoever reads several pages follows the changes since the first.
    """

    as_of: int
    states: tuple[State, ...]
    last: StatePlace | None = None


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


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """What a user asked for, as it was asked; `data` is JSON. `number` orders those of a node by their acceptance."""

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


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a transaction depends on, and what depends on it."""

    depends_on: tuple[IntentId, ...] = ()
    prerequisite_of: tuple[IntentId, ...] = ()


class SubmissionStore(Protocol):
    """What users of this node asked for. All: `Unavailable` when the store is away."""

    async def add(self, submission: StoredSubmission, abi: Sequence[Entry]) -> None:
        """Note what a private transaction asks for, whose intent is being accepted; and the ABI that came with it."""
        ...

    async def change(self, submission: StoredSubmission, abi: Sequence[Entry]) -> None:
        """It asks for something else now; number and time stay."""
        ...

    async def forget(self, intent: IntentId) -> None:
        """It was not accepted."""
        ...

    async def get(self, intent: IntentId) -> StoredSubmission | None:
        """What was asked for under this id."""
        ...

    async def public_with_key(self, key: str) -> IntentId | None:
        """The public transaction that has this idempotency key."""
        ...

    async def with_key(self, key: str) -> IntentId | None:
        """The transaction that has this idempotency key."""
        ...

    async def find(
        self, query: Query, is_open: bool = False, is_prepared: bool = False
    ) -> tuple[StoredSubmission, ...]:
        """Those that are looked for, the latest first if no order is asked for.

        Perhaps only such as have not ended; or of these only those that their users can have committed.
        """
        ...

    async def find_ended(self, query: Query) -> tuple[IntentId, ...]:
        """Those that have a receipt that is looked for, the latest first if no order is asked for."""
        ...

    async def dependencies(self, intent: IntentId) -> Dependencies:
        """What it depends on, and what depends on it."""
        ...


class Dispatched(NamedTuple):
    """An intent was in the round that this node sent with this nonce."""

    nonce: int
    intent: IntentId


class TraceStore(Protocol):
    """What the sequencer left of private transactions. All: `Unavailable` when the store is away."""

    async def transition(self, contract: ContractAddress, leaf: Leaf) -> Transition | None:
        """What this node has of a transition: dispatched, received, or prepared for its user."""
        ...

    async def dispatches(self, intent: IntentId) -> tuple[RoundDispatch, ...]:
        """The rounds of this node with a transition of this intent."""
        ...

    async def dispatch(self, nonce: int) -> RoundDispatch | None:
        """The round that this node sent with this nonce."""
        ...

    async def mined(self, nonce: int) -> tuple[bool, int | None] | None:
        """Whether this node's transaction with this nonce succeeded; nothing while no block has it.

        With it comes the time of that block, as long as the node keeps it.
        """
        ...

    async def find_dispatched(self, query: Query) -> tuple[Dispatched, ...]:
        """Which intents went to the ledger with which nonces, as a query looks for them."""
        ...


class PublicStore(Protocol):
    """Transactions of users on the base ledger itself. All: `Unavailable` when the store is away."""

    async def accept(
        self, submission: StoredSubmission, transaction: PublicTransaction, abi: Sequence[Entry]
    ) -> PublicTransaction:
        """Durable on return, with the number that it got."""
        ...

    async def save(self, transactions: Sequence[PublicTransaction]) -> None:
        """How they stand now; durable on return."""
        ...

    async def open(self) -> tuple[PublicTransaction, ...]:
        """Those that have not ended, in their order."""
        ...

    async def get(self, intent: IntentId) -> PublicTransaction | None:
        """The one with this id."""
        ...

    async def numbered(self, number: int) -> PublicTransaction | None:
        """The one with this number."""
        ...

    async def find(self, query: Query) -> tuple[PublicTransaction, ...]:
        """Those that are looked for, the latest first if no order is asked for."""
        ...

    async def outcomes(self, intents: Sequence[IntentId]) -> Mapping[IntentId, Outcome]:
        """How these transactions of this node ended, public or private, as far as they have."""
        ...


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A place in the tree of key identifiers; without an address it is only a branch.

    `place` numbers what has the same parent, in the order in which it came.
    """

    path: str
    parent: str
    name: str
    place: int
    address: ContractAddress | None = None
    handle: str = ""
    has_children: bool = False


class KeyNames(Protocol):
    """Which keys users asked for, so that an address leads back to its identifier. All: `Unavailable` when away."""

    async def at(self, paths: Sequence[str]) -> tuple[StoredKey, ...]:
        """Those of these that are there, in the order asked for."""
        ...

    async def with_address(self, address: ContractAddress) -> StoredKey | None:
        """The key that has this address."""
        ...

    async def next_place(self, parent: str) -> int:
        """The number of the next one under this parent."""
        ...

    async def add(self, keys: Sequence[StoredKey]) -> None:
        """Remember these, durably; one that is there as a branch becomes a key as well."""
        ...

    async def find(self, query: Query) -> tuple[StoredKey, ...]:
        """Those that are looked for. `domains.records.Rejected` names what is wrong with the query."""
        ...


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A privacy group that this node knows; its contract is there when the node has it."""

    domain: str
    group: DescribedGroup
    created_at_ms: int
    deployment: IntentId
    contract: ContractAddress | None = None


class Groups(Protocol):
    """The privacy groups of this node. All: `Unavailable` when the store is away."""

    async def with_id(self, domain: str, group: bytes) -> StoredGroup | None:
        """The group of this id."""
        ...

    async def with_contract(self, contract: ContractAddress) -> StoredGroup | None:
        """The group whose contract this is."""
        ...

    async def find(self, query: Query, member: Party | None = None) -> tuple[StoredGroup, ...]:
        """Those that are looked for, with this member. `Rejected` names what is wrong with the query."""
        ...


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What a member of a group told the others. `sequence` is this node's own order."""

    id: bytes
    sequence: int
    domain: str
    group: bytes
    node: NodeName
    sent_at_ms: int
    received_at_ms: int
    topic: str
    content: bytes
    correlation_id: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredMail:
    """What is sent to a peer until it says that it has it: `reference` is a message's id or a state's leaf."""

    id: bytes
    peer: NodeName
    kind: str
    contract: ContractAddress
    reference: bytes
    created_at_ms: int
    sequence: int = 0
    acknowledged_at_ms: int | None = None


class Mail(Protocol):
    """Messages of groups, and what is owed to peers beside what the core owes. All: `Unavailable` when away."""

    async def add(self, message: StoredMessage, mail: Sequence[StoredMail]) -> None:
        """Have this message, in the order of this node, and owe it to these; one that is there stays as it is."""
        ...

    async def owe(self, mail: StoredMail) -> None:
        """Owe a peer something that is no message."""
        ...

    async def acknowledge(self, peer: NodeName, reference: bytes, now_ms: int) -> None:
        """The peer has this."""
        ...

    async def open_for(self, peer: NodeName, limit: int) -> tuple[tuple[StoredMail, StoredMessage | None], ...]:
        """What a peer is owed, the oldest first, with the messages."""
        ...

    async def open_counts(self) -> Mapping[NodeName, int]:
        """Who is owed anything, and how much."""
        ...

    async def message(self, message: bytes) -> StoredMessage | None:
        """A message by its id."""
        ...

    async def messages(self, query: Query) -> tuple[StoredMessage, ...]:
        """Those that are looked for. `Rejected` names what is wrong with the query."""
        ...

    async def messages_after(self, sequence: int, limit: int) -> tuple[StoredMessage, ...]:
        """The next ones in this node's order."""
        ...

    async def latest_sequence(self) -> int:
        """The number of the latest message; 0 when there is none."""
        ...

    async def sent(self, query: Query) -> tuple[StoredMail, ...]:
        """What is or was owed, also by the core. `Rejected` names what is wrong with the query."""
        ...


class StateStatus(Enum):
    """Which states are asked for; what is available is here the same as what is confirmed and unspent."""

    AVAILABLE = "available"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    SPENT = "spent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ArchivedState:
    """A private state that this node has, since when, and who made and spent it, as far as that is known."""

    state: State
    created_at_ms: int
    is_committed: bool
    made_by: IntentId | None
    is_spent: bool
    spent_by: IntentId | None


class ArchivePage(NamedTuple):
    """Some of them, and behind which the next ones are; nothing when there are no more."""

    states: tuple[ArchivedState, ...]
    next_after: StateId | None


class Archive(Protocol):
    """The private states that this node has, for users. All: `Unavailable` when the store is away."""

    async def page(
        self, contract: ContractAddress, status: StateStatus, after: StateId | None, limit: int
    ) -> ArchivePage:
        """The next states of a contract, in the order of their ids."""
        ...

    async def made_by(self, intent: IntentId) -> tuple[Leaf, ...]:
        """What is known as made by a transaction."""
        ...

    async def with_leaves(self, contract: ContractAddress, leaves: Sequence[Leaf]) -> tuple[ArchivedState, ...]:
        """All that these made and this node has."""
        ...

    async def by_hand(self, contract: ContractAddress) -> tuple[ArchivedState, ...]:
        """What users gave to this node."""
        ...

    async def store_by_hand(self, contract: ContractAddress, state: State, now_ms: int) -> None:
        """Have a state that no contract made; it is never on the chain, and no domain is shown it."""
        ...

    async def schemas_seen(self, schemas: Sequence[bytes], now_ms: int) -> Mapping[bytes, int]:
        """Since when each schema is known; those that were not are from now on."""
        ...


@dataclass(frozen=True, slots=True)
class StoredAnnouncement:
    """How a node said that it takes part in automation: the account that it acts with, the triggers that it ranks."""

    node: NodeName
    account: ContractAddress
    ranked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredTriggers:
    """What automation left: paused triggers, tasks set aside (trigger, task, reason), and what nodes announced."""

    paused: tuple[str, ...] = ()
    set_aside: tuple[tuple[str, str, str], ...] = ()
    announcements: tuple[StoredAnnouncement, ...] = ()


class TriggerBook(Protocol):
    """What automation remembers. All: `Unavailable` when the store is away."""

    async def restore(self) -> StoredTriggers:
        """All of it."""
        ...

    async def keep_pause(self, trigger: str, is_paused: bool) -> None:
        """Paused, or not any more."""
        ...

    async def keep_set_aside(self, trigger: str, task: str, reason: str | None) -> None:
        """Set aside for a reason, or not any more."""
        ...

    async def keep_announcement(self, announced: StoredAnnouncement) -> None:
        """What a node last said of itself."""
        ...


class Contracts(Protocol):
    """The contracts whose rounds are of interest to this node; they may become more while it runs."""

    def addresses(self) -> tuple[ContractAddress, ...]:
        """All of them."""
        ...

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        """Who signs its rounds; nothing when it is not known."""
        ...


class Deployments(Protocol):
    """Which intents deployed the contracts of this node: an endorser's key is derived from that (`keys.names`)."""

    def deployment_of(self, contract: ContractAddress) -> IntentId | None:
        """The id under which the factory deployed it; nothing when it is not known."""
        ...


class Signer(Protocol):
    """Holds keys by their names (`keys.names`): submitters, of which `SignDispatch` names one, parties, endorsers."""

    def address_of(self, signer: str) -> ContractAddress:
        """The address that stands for what it signs. `UnknownKey` when there is no such key."""
        ...

    async def sign(self, signer: str, digest: bytes) -> bytes:
        """The 65-byte signature of a 32-byte hash: r, s, recovery id 0 or 1. `Unavailable` when it cannot."""
        ...


class Ledger(Protocol):
    """A base ledger. What it sees and what became of its orders it tells as events."""

    async def run(self) -> None:
        """Follow the chain until cancelled."""
        ...

    def perform(self, effect: LedgerEffect) -> None:
        """Begin to do this; an order that is being done already is not done twice."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps the chain from us, for an operator; empty when nothing does."""
        ...


class Store(Protocol):
    """What a node remembers across a restart (protocol §8). Orders are answered as events, in whatever time it takes.

    Every `Persist` is answered by `Persisted` or `PersistFailed`; what is written is written in the order in which
    it was ordered. Every `LookUpIntents` is answered by `IntentsLookedUp`, which knows of all that was told as
    durable when it was asked.
    """

    async def start(self) -> None:
        """Open it, and bring its schema up to date. `Unavailable` when it is away."""
        ...

    async def close(self, forget_from: int | None = None) -> None:
        """Write what was ordered, and give it back.

        With `forget_from` the next life's index goes through the chain again from this block on, unless that fails.
        """
        ...

    async def add_contract(self, known: KnownContract) -> None:
        """From now on this node has this contract: before any record or block names it. `Unavailable` when not."""
        ...

    async def contracts(self) -> tuple[KnownContract, ...]:
        """All contracts of this node."""
        ...

    async def contracts_with_work(self) -> tuple[ContractAddress, ...]:
        """Those of which something is unfinished: a node begins with them and loads the others when asked."""
        ...

    async def restore(self, contracts: Sequence[ContractAddress]) -> StoredNode:
        """What a new life of the node finds, and of its contracts these. `Unavailable` when it is away."""
        ...

    async def state_changes(self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE) -> StateChanges:
        """What is held of a contract now that was not at the change `since`, and what is no longer held.

        Held is what is committed, unspent and here with its bytes. At most `limit` states, or one change if that has
        more of them. `Unavailable` when the store is away.
        """
        ...

    async def states_since(
        self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE
    ) -> tuple[int, tuple[State, ...]]:
        """States with their bytes that changed after `since`, spent or not, and up to which change; none when none did.

        As many as of `state_changes`, in the order of their changes; of one change in the order of the chain, and what
        is not on it last: a state comes before those that stand on it, but for what arrived late.
        """
        ...

    async def transaction(self, intent: IntentId) -> StoredTransaction | None:
        """An intent of this node, and what became of it. `Unavailable` when the store is away."""
        ...

    async def transaction_with_key(self, key: str) -> StoredTransaction | None:
        """The intent that has this idempotency key; the latest, if there are several. `Unavailable` when away."""
        ...

    async def transactions(self, after: IntentId | None, limit: int) -> tuple[StoredTransaction, ...]:
        """The intents of this node, latest first; those that follow this one in that order, none if it is not ours.

        At most `TRANSACTIONS_MAX` at a time. `Unavailable` when the store is away.
        """
        ...

    async def unfinished_count(self) -> int:
        """How many intents of this node have no final outcome. `Unavailable` when the store is away."""
        ...

    async def heights_with_outcomes(self, contract: ContractAddress, first: int, last: int) -> frozenset[int]:
        """The blocks of this range, both ends included, in which something became of a contract's transitions."""
        ...

    async def leaves_without_states(
        self, contract: ContractAddress, last: int, limit: int, skip: int = 0
    ) -> tuple[Leaf, ...]:
        """What was committed up to this height and of which this node holds no state; the earliest first."""
        ...

    async def receipt_of(self, intent: IntentId) -> Receipt | None:
        """The final outcome of an intent of this node, if it has one. `Unavailable` when it is away."""
        ...

    async def unspent_states(
        self, contract: ContractAddress, after: StatePlace | None = None, limit: int = STATES_A_PAGE
    ) -> StatePage:
        """The states of this contract that are on the chain and unspent, and that this node holds; some at a time.

        As the index has it, final or not; in the order in which they were committed, and then of their outputs.
        `Unavailable` when it is away.
        """
        ...

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these states that this node holds, also spent ones and such as are not on the chain.

        In the order asked for. `Unavailable` when it is away.
        """
        ...

    @property
    def listening(self) -> ListeningStore:
        """The order of receipts, and the listeners that follow it."""
        ...

    @property
    def abis(self) -> AbiStore:
        """The ABIs that users stored."""
        ...

    @property
    def submissions(self) -> SubmissionStore:
        """What users asked for."""
        ...

    @property
    def traces(self) -> TraceStore:
        """What the sequencer left of private transactions."""
        ...

    @property
    def public(self) -> PublicStore:
        """What users do on the base ledger itself."""
        ...

    @property
    def key_names(self) -> KeyNames:
        """The identifiers of keys."""
        ...

    @property
    def archive(self) -> Archive:
        """Private states, for users."""
        ...

    @property
    def mail(self) -> Mail:
        """Messages of groups, and what is owed to peers."""
        ...

    @property
    def groups(self) -> Groups:
        """The privacy groups of this node."""
        ...

    @property
    def triggers(self) -> TriggerBook:
        """What automation remembers."""
        ...

    def perform(self, effect: StoreEffect) -> None:
        """Begin to do this. A record that it does not know is an assertion."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps the store from us, for an operator; empty when nothing does."""
        ...


class ListeningStore(Protocol):
    """The order of receipts, and the listeners that follow it. `Unavailable` when the store is away."""

    async def due(self) -> tuple[DueReceipt, ...]:
        """What is final and complete and has no number yet; some of it, in the order of the chain."""
        ...

    async def number(self, receipts: Sequence[tuple[DueReceipt, str]]) -> None:
        """Give these the next numbers, in this order; with each comes its domain. Nothing has two numbers."""
        ...

    async def forget_expired(self) -> None:
        """What could be committed up to a time that has passed, and was not, will have no receipt."""
        ...

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        """Those with greater numbers, in order."""
        ...

    async def receipt_number(self, intent: IntentId) -> NumberedReceipt | None:
        """The place of a receipt in the order, if it has one."""
        ...

    async def commit_of(self, receipt: NumberedReceipt) -> tuple[int, bytes] | None:
        """The block that committed it, and the hash of the base-ledger transaction."""
        ...

    async def add_listener(self, listener: StoredListener) -> bool:
        """Have it from now on; whether there was none of its kind and name."""
        ...

    async def listener(self, kind: str, name: str) -> StoredListener | None:
        """The one of this name."""
        ...

    async def listeners(self, kind: str) -> tuple[StoredListener, ...]:
        """All of a kind, by name."""
        ...

    async def start_listener(self, kind: str, name: str, is_started: bool) -> None:
        """Whether it is given batches from now on."""
        ...

    async def note_acknowledged(self, kind: str, name: str, position: ListenerPosition) -> None:
        """All up to there need not be sent again."""
        ...

    async def remove_listener(self, kind: str, name: str) -> None:
        """It is no more."""
        ...


class CommandStore(Protocol):
    """What commands need remembered, in the store of their node. Each raises `Unavailable` when it is away.

    A write is one database transaction, durable on return. One that raised may have happened; written again in the same
    words it changes nothing.
    """

    async def restore(self) -> tuple[Stream, tuple[InFlight, ...]]:
        """What a new life finds: where the stream of completions stands, and what is in flight."""
        ...

    async def write_in_flight(self, submission: InFlight) -> None:
        """Insert it if its change is absent."""
        ...

    async def remove_in_flight(self, submission: InFlight) -> None:
        """Nothing came of it."""
        ...

    async def latest_acceptances(self, changes: Sequence[ChangeId]) -> dict[ChangeId, Acceptance]:
        """The latest acceptance of each of these changes that has one."""
        ...

    async def write_completions(self, closings: Sequence[Closing]) -> None:
        """Completions, the acceptances among them, and their submissions no longer in flight."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, end: int, limit: int) -> CompletionPage:
        """Those after an offset and up to an end, in their order, and how far they were read."""
        ...

    async def pruning_point(self, offset: int, horizon_ms: int) -> tuple[int, int]:
        """When the completion at this offset was published, and the latest that was before the horizon."""
        ...

    async def prune(self, offset: int, published_at_ms: int) -> None:
        """Forget completions and acceptances up to this offset, and note that."""
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """What is registered of a node: where it listens, and the SHA-256 of the certificate that it shows.

    While a certificate is being exchanged there are two of them; `next_fingerprint` is empty otherwise.
    """

    endpoint: str
    fingerprint: bytes
    next_fingerprint: bytes = b""

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """All that are good now."""
        return (self.fingerprint, self.next_fingerprint) if self.next_fingerprint else (self.fingerprint,)


class Registry(Protocol):
    """Which nodes there are. It may change at any time, and is asked often: the answer is at hand."""

    def registrations(self) -> Mapping[NodeName, Registration]:
        """All nodes, this one among them."""
        ...


class Peers(Protocol):
    """The other nodes. What they say and whether they can be spoken to is told as events.

    A message of a peer is told only between `ConnectionMade` and `ConnectionLost` of that peer, in the order in
    which it was said, and once.
    """

    async def run(self) -> None:
        """Keep connected to every registered node until cancelled, then part from them within a bound."""
        ...

    def send(self, order: SendMessage) -> None:
        """Say this to a peer as soon as it can be told; it may be lost."""
        ...

    def troubles(self) -> Mapping[NodeName, str]:
        """For an operator: what keeps us from each node that we are not connected to."""
        ...
