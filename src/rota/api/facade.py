"""The node as users and operators see it: one protocol per family of methods, and the values that they exchange.

Theory of operation. `api` imports no adapter and no runtime. The runtime implements `Node` and hands itself in; a
family of methods is typed by the protocol that it needs and no more, so that a family can be added without
touching the others.

What holds for all of them:

- What a user may mend is raised as `Rejected`. What the world did not do is raised as `rota.ports.Unavailable`.
  What is not there, or not yet, is `None`.
- Times are milliseconds of the Unix epoch, by this node's clock. They are for reading and never compared across nodes;
  the runtime translates the core's own clock, which starts anywhere.
- A caller may stop waiting: its coroutine is then cancelled. What was begun may be done all the same.
- Submissions that are begun in an order are accepted in that order, so that one user's batch keeps its order without
  waiting for the disk between two of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from rota.api.chain import HasChain
from rota.api.keyring import HasKeys
from rota.api.network import HasNetwork
from rota.api.privacy_groups import HasGroups, MessageDefinition, MessageView
from rota.api.ring import LeaderChange, RingView
from rota.api.self_view import HasItself
from rota.api.states import HasStates
from rota.api.values import AbiEntry as AbiEntry
from rota.api.values import JsonValue as JsonValue
from rota.command_types import Checkpoint, Completion, CompletionFilter, CompletionPage, Period
from rota.types import ContractAddress, IntentId, Leaf, Mode, NodeName, Party, Rotation, SubmitMode

EVENTS_A_BATCH: Final = 50
BATCH_TIMEOUT_MS: Final = 500


# Transactions.


class TransactionType(Enum):
    """What a transaction is for: a private contract, or the base ledger itself."""

    PRIVATE = "private"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class GasOptions:
    """What a user wants of the base-ledger transaction; what is not given the node decides."""

    gas: int | None = None
    value_wei: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """What a user asks for, as it was asked: only the types of its fields have been looked at.

    `sender` is a party's text, `alice` or `alice@node1`. Without `to` it is a deployment: of a private contract in
    `domain`, or of `bytecode`. `function` is a name, a signature or empty, and is looked up in `abi`, or in the ABI
    that `abi_reference` names. `data` is a list or an object of the function's parameters, hex text of the call data,
    or None.
    """

    type: TransactionType
    sender: str
    domain: str = ""
    to: ContractAddress | None = None
    function: str = ""
    data: JsonValue = None
    abi: tuple[AbiEntry, ...] = ()
    abi_reference: bytes = b""
    bytecode: bytes = b""
    idempotency_key: str = ""
    depends_on: tuple[IntentId, ...] = ()
    submit_mode: SubmitMode = SubmitMode.AUTO
    options: GasOptions = GasOptions()


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction that this node accepted. `sender` is whole (`alice@node1`), `function` is a signature."""

    id: IntentId
    accepted_at_ms: int
    type: TransactionType
    sender: Party
    submit_mode: SubmitMode
    domain: str = ""
    to: ContractAddress | None = None
    function: str = ""
    data: JsonValue = None
    abi_reference: bytes = b""
    idempotency_key: str = ""
    depends_on: tuple[IntentId, ...] = ()
    options: GasOptions = GasOptions()


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """The final outcome of a transaction of this node; once shown it never changes.

    `sequence` orders the receipts of this node. `contract` is the address that a deployment made. Where on the chain it
    was committed is there when it was; a failure always has a readable message.
    """

    id: IntentId
    success: bool
    indexed_at_ms: int
    sequence: int
    domain: str = ""
    leaf: Leaf | None = None
    contract: ContractAddress | None = None
    failure_message: str = ""
    revert_data: bytes = b""
    block_number: int | None = None
    transaction_hash: bytes | None = None
    transaction_index: int | None = None
    log_index: int | None = None
    source: ContractAddress | None = None

    def __post_init__(self) -> None:
        assert self.success != bool(self.failure_message), "a failure has a message, a success has none"


class Transactions(Protocol):
    """Submitting transactions and following them."""

    async def submit(self, submission: Submission) -> IntentId:
        """Accept it: the id is given when it is durable. An idempotency key that was used is `errors.key_used`."""
        ...

    async def transaction(self, intent: IntentId) -> TransactionView | None:
        """What was accepted under this id."""
        ...

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        """How it ended."""
        ...

    async def resume(self, intent: IntentId) -> None:
        """Let a parked transaction go on. `Rejected` with its state when it is not parked."""
        ...

    async def cancel(self, intent: IntentId) -> None:
        """Give a transaction up: from now on it ends. `Rejected` with its state when it cannot be given up."""
        ...

    def receipts(self, after_sequence: int) -> AsyncIterator[ReceiptView]:
        """All receipts with a greater sequence number, in order: those that are there, then those that come.

        One is released only when this node holds the private states that belong to it.
        """
        ...


# Listeners.


class ReceiverLeft(Exception):
    """Whoever was given something has left before it could say that it has taken it."""


Definition = TypeVar("Definition")
Item = TypeVar("Item")
Offered = TypeVar("Offered", contravariant=True)


@dataclass(frozen=True, slots=True)
class Batch(Generic[Item]):
    """What a listener has for one of its receivers: in order, and after all that was acknowledged."""

    id: int
    items: tuple[Item, ...]


class Receiver(Protocol[Offered]):
    """Takes a listener's batches, one at a time."""

    async def take(self, batch: Offered) -> bool:
        """Whether it is acknowledged; what is not is given again. `ReceiverLeft` when nobody is there any more."""
        ...


@dataclass(frozen=True, slots=True)
class Listener(Generic[Definition]):
    """What an application follows, durably: under its name, from where it last acknowledged."""

    name: str
    created_at_ms: int
    is_started: bool
    definition: Definition


class Listeners(Protocol[Definition, Item]):
    """The listeners of one kind. A name that is not known is `Rejected`, and so is one that is taken."""

    async def create(self, name: str, definition: Definition, is_started: bool) -> None:
        """Have it from now on; durable when this returns."""
        ...

    async def listener(self, name: str) -> Listener[Definition] | None:
        """The one of this name."""
        ...

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[Definition], ...]:
        """Those that a QueryJSON over name, created and started looks for; by name, unless it says otherwise."""
        ...

    async def start(self, name: str) -> None:
        """Its receivers are given batches from now on."""
        ...

    async def stop(self, name: str) -> None:
        """No further batch is given; one that is out may still be acknowledged."""
        ...

    async def delete(self, name: str) -> None:
        """It is forgotten, with all that it had still to give."""
        ...

    async def attach(self, name: str, receiver: Receiver[Batch[Item]]) -> Callable[[], None]:
        """Give its batches to this receiver; several take turns. What is returned is called when it leaves."""
        ...


class IncompleteReceipts(Enum):
    """What becomes of receipts whose states are not all here. Here there are none: one is released when it is whole."""

    BLOCK_CONTRACT = "block_contract"
    PROCESS = "process"
    COMPLETE_ONLY = "complete_only"


@dataclass(frozen=True, slots=True)
class ReceiptDefinition:
    """Which receipts a listener gets: those after a number, of a type, of a domain; with the domain's own or not."""

    sequence_above: int | None = None
    type: TransactionType | None = None
    domain: str | None = None
    has_domain_receipts: bool = False
    incomplete: IncompleteReceipts = IncompleteReceipts.BLOCK_CONTRACT


@dataclass(frozen=True, slots=True)
class EventSource:
    """Events with these ABI entries, of one contract or of any."""

    abi: tuple[Mapping[str, Any], ...]
    address: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """Which events a listener gets, from which block on (None: from where the chain stands now), and how many at once.

    A batch that is not full is given after `batch_timeout_ms`.
    """

    sources: tuple[EventSource, ...]
    from_block: int | None = 0
    batch_size: int = EVENTS_A_BATCH
    batch_timeout_ms: int = BATCH_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class EventView:
    """An event of the base ledger, decoded. `signature` is its first topic, `solidity_signature` as people write it."""

    block_number: int
    transaction_index: int
    log_index: int
    transaction_hash: bytes
    signature: bytes
    solidity_signature: str
    address: ContractAddress
    data: JsonValue


@dataclass(frozen=True, slots=True)
class EventListenerStatus:
    """Whether it still goes through the past, and the block up to which all was acknowledged."""

    is_catching_up: bool
    block_number: int


class Listening(Protocol):
    """Following what ends and what happens."""

    @property
    def receipt_listeners(self) -> Listeners[ReceiptDefinition, AnyReceipt]:
        """Those that get receipts."""
        ...

    @property
    def event_listeners(self) -> Listeners[EventDefinition, EventView]:
        """Those that get events of the base ledger."""
        ...

    async def event_listener_status(self, name: str) -> EventListenerStatus | None:
        """How far one of them is; nothing when there is none of this name."""
        ...


class MessageListening(Protocol):
    """Following what members of groups tell each other."""

    @property
    def message_listeners(self) -> Listeners[MessageDefinition, MessageView]:
        """Those that get messages."""
        ...


# Following.


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


AnyReceipt: TypeAlias = ReceiptView | FullReceipt


@dataclass(frozen=True, slots=True)
class FullTransaction:
    """A transaction with all that this node knows of it."""

    transaction: TransactionView
    receipt: ReceiptView | None = None
    public: tuple[PublicView, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedView:
    """What an external transaction's user gives to whoever commits it: a public transaction, and what it does."""

    id: IntentId
    domain: str
    to: ContractAddress
    transaction: Submission
    metadata: JsonValue
    states: TransactionStates


@dataclass(frozen=True, slots=True)
class DependenciesView:
    """What a transaction depends on, and what depends on it."""

    depends_on: tuple[IntentId, ...]
    prerequisite_of: tuple[IntentId, ...]


@dataclass(frozen=True, slots=True)
class DispatchView:
    """That a private transaction went to the base ledger with a public one."""

    id: str
    transaction: IntentId
    public_transaction: int


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
        """The same with all that is known of each."""
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

    async def dispatch(self, dispatch_id: str) -> DispatchView | None:
        """A dispatch by its id."""
        ...

    async def query_dispatches(self, query: JsonValue) -> tuple[DispatchView, ...]:
        """Those that a QueryJSON looks for."""
        ...


class HasFollowing(Protocol):
    """A node whose transactions can be followed."""

    @property
    def following(self) -> Following:
        """What became of them."""
        ...


# Types.


@dataclass(frozen=True, slots=True)
class AbiView:
    """An ABI that users stored."""

    hash: bytes
    abi: tuple[AbiEntry, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What bytes mean: the values as JSON text in the style that was asked for, and the entry that says so."""

    data: str
    summary: str
    definition: AbiEntry
    signature: str


class Types(Protocol):
    """What bytes on the chain mean, and who parties are there."""

    async def store_abi(self, abi: Sequence[AbiEntry]) -> bytes:
        """Remember an ABI; the hash by which it is known."""
        ...

    async def stored_abi(self, hash_: bytes) -> AbiView | None:
        """The ABI of this hash."""
        ...

    async def query_abis(self, query: JsonValue) -> tuple[AbiView, ...]:
        """The ABIs that a QueryJSON looks for."""
        ...

    async def decode_call(self, call_data: bytes, data_format: str) -> Decoded:
        """A call, by whatever ABI was stored. `Rejected` when none fits."""
        ...

    async def decode_error(self, revert_data: bytes, data_format: str) -> Decoded:
        """What a contract reverted with."""
        ...

    async def decode_event(self, topics: Sequence[bytes], data: bytes, data_format: str) -> Decoded:
        """An event."""
        ...

    async def resolve_verifier(self, identifier: str, algorithm: str, verifier_type: str) -> str:
        """The address of a party of any node."""
        ...


class HasTypes(Protocol):
    """A node that knows what bytes mean."""

    @property
    def types(self) -> Types:
        """What it knows."""
        ...


# Settlements.


@dataclass(frozen=True, slots=True)
class DraftView:
    """What a transaction would do, before it is submitted. `id` is set aside for it.

    `receipt` is what its receipt would tell, `openings` what other nodes are to be shown of it, in the order asked for.
    """

    id: IntentId
    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]
    openings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedView:
    """Somebody's draft: its contract, its core as this node has worked it out, and what its receipt would tell us."""

    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NamedLeg:
    """Prepared transitions of one contract by their cores: what legs are bound to one another by."""

    contract: ContractAddress
    cores: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LegView:
    """An endorsed transition that waits for its committer, with all that it takes to commit it.

    `call` commits it alone, where that may be; nothing is left of it when `valid_until_s` has passed in chain time.
    """

    contract: ContractAddress
    core: bytes
    payload: bytes
    auth: bytes
    condition: bytes
    committer: ContractAddress | None
    valid_until_s: int
    call: bytes


class Settling(Protocol):
    """Transactions of several contracts that happen together or not at all."""

    async def draft(self, submission: Submission, readers: tuple[str, ...]) -> DraftView:
        """What it would do now. Its id is kept for `bind` while this process lives."""
        ...

    async def examine(self, opening: bytes) -> ExaminedView:
        """What a draft that a user of ours was shown would do."""
        ...

    async def bind(self, draft: IntentId, legs: tuple[NamedLeg, ...], idempotency_key: str) -> IntentId:
        """Submit what was drafted, held to all legs. It is reverted if it would no longer do what was drafted."""
        ...

    async def leg(self, intent: IntentId) -> LegView | None:
        """What was prepared of a transaction; nothing as long as it is not endorsed, and once it has ended."""
        ...


# The sequencer.


class SequencerRole(Enum):
    """In which role this node knows of a transaction."""

    SENDER = "sender"
    COORDINATOR = "coordinator"
    OBSERVER = "observer"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a transaction is and what that means, what it waits for since when, and which nodes are in the way.

    Since when is not known of what ended in an earlier life of the node. A deployment has no contract before it ends.
    """

    id: IntentId
    role: SequencerRole
    state: str
    contract: ContractAddress | None = None
    since_ms: int | None = None
    waits_for: str = ""
    blocked_by: tuple[NodeName, ...] = ()
    detail: str = ""
    history: tuple[Moment, ...] = ()
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many transactions are in one state."""

    state: str
    count: int


@dataclass(frozen=True, slots=True)
class ContractSummary:
    """One contract in a list. `is_loaded` tells whether its sequencer is in memory; a sleeping one has no states."""

    contract: ContractAddress
    domain: str
    mode: Mode
    is_loaded: bool
    coordinator_state: str = ""
    sender_state: str = ""
    active_coordinator: NodeName | None = None
    sending_count: int = 0
    coordinating_count: int = 0


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """Who coordinates a contract as this node sees it, and what this node does for it.

    `active_since_ms` is since when this node follows that coordinator. `sending` counts our users' transactions,
    `coordinating` those that we coordinate, by the states of the two machines, in the order in which they are passed.
    """

    contract: ContractAddress
    domain: str
    mode: Mode
    rotation: Rotation
    committee: tuple[NodeName, ...]
    endorsers: tuple[NodeName, ...]
    threshold: int
    height: int
    block_range: int
    range_size: int
    ranking: tuple[NodeName, ...]
    active_coordinator: NodeName | None
    active_since_ms: int | None
    coordinator_state: str
    coordinator_since_ms: int
    sender_state: str
    sending: tuple[StateCount, ...] = ()
    coordinating: tuple[StateCount, ...] = ()
    silent: tuple[NodeName, ...] = ()


class Sequencing(Protocol):
    """What the sequencer does, and why it waits."""

    async def explain(self, intent: IntentId) -> Explanation | None:
        """Where a transaction is, also when it has ended; nothing when this node does not know it."""
        ...

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        """How a contract stands; nothing when this node does not have it."""
        ...

    async def contracts(self, after: ContractAddress | None, limit: int) -> tuple[ContractSummary, ...]:
        """This node's contracts by address, those after this one, at most so many."""
        ...

    async def ring(self, contract: ContractAddress) -> RingView | None:
        """Where its committee stands, and who leads when; nothing when this node does not have it."""
        ...

    async def leaders(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Who has coordinated it in this life of the node, the oldest first, as far as that is remembered."""
        ...


# The live feed.


class Step(NamedTuple):
    """A milestone on a transaction's way; `by` is whose doing it was, where it was another node's."""

    milestone: str
    at_ms: int
    by: NodeName | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """How many heartbeats of a contract's coordinator came from a node."""

    contract: ContractAddress
    node: NodeName
    count: int


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """A transaction has come to a milestone; `state` is where it is at this node now, empty where it is no more.

    `by` is whose doing it was, where it was another node's. `steps` are all milestones since the last update.
    """

    id: IntentId
    at_ms: int
    contract: ContractAddress | None = None
    milestone: str = ""
    state: str = ""
    by: NodeName | None = None
    detail: str = ""
    has_failed: bool = False
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundChange:
    """A round that this node submits: dispatched, or what the chain made of its transaction."""

    nonce: int
    state: str
    contract: ContractAddress | None = None
    digest: bytes = b""
    transaction_count: int = 0
    height: int | None = None
    gas_used: int | None = None
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class MilestoneCount:
    """How often a milestone was seen."""

    milestone: str
    count: int


@dataclass(frozen=True, slots=True)
class FeedUpdate:
    """What changed since the last one; a snapshot has all. With a gap something was left out before it.

    Of more transactions than there is room for some are only counted.
    """

    number: int
    at_ms: int
    height: int
    is_snapshot: bool = False
    has_gap: bool = False
    contracts: tuple[ContractSummary, ...] = ()
    contracts_omitted: int = 0
    transactions: tuple[TransactionChange, ...] = ()
    transactions_omitted: int = 0
    rounds: tuple[RoundChange, ...] = ()
    peers: tuple[PeerMeasurements, ...] = ()
    counts: tuple[MilestoneCount, ...] = ()
    heartbeats: tuple[Heartbeats, ...] = ()


class Watching(Protocol):
    """Watching a node live."""

    def watch(self, interval_ms: int) -> AsyncIterator[FeedUpdate]:
        """A snapshot, then what changes, at most once in an interval. `Rejected` when too many follow."""
        ...


# Contracts.


class Contracts(Protocol):
    """How a contract comes to its members."""

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """The address with which this node endorses in the contract that this intent deploys."""
        ...

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Have the contract from now on. `Rejected` when genesis and chain do not agree."""
        ...


# Commands.


@dataclass(frozen=True, slots=True)
class CommandSubmission:
    """A command as it was submitted: only the types of its fields have been looked at.

    `transaction` is what it does. Without a period it is the maximum duration; without a submission id one is made.
    """

    application_id: str
    command_id: str
    party: str
    act_as: tuple[str, ...]
    transaction: Submission
    submission_id: str = ""
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A command was handed over: there will be one completion of it."""

    submission_id: str
    transaction: IntentId


@dataclass(frozen=True, slots=True)
class CommandConfiguration:
    """What submitters may rely on."""

    maximum_duration_ms: int


class Commands(Protocol):
    """Commands that happen once, and how they ended. What is not done is raised as `CommandRejected`."""

    async def submit(self, submission: CommandSubmission) -> Acknowledgement:
        """Answered when it is handed over; the outcome is a completion."""
        ...

    async def submit_and_wait(self, submission: CommandSubmission) -> Completion:
        """Answered when its outcome is durable. A rejection that is found out at once is raised."""
        ...

    def subscription(self, application_id: str, parties: Sequence[str], begin_exclusive: int) -> CompletionFilter:
        """Whose completions may be read from here on; whether that can be had is looked at now."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, limit: int) -> CompletionPage:
        """What there is after an offset, in its order, and how far it was read; at once, perhaps empty."""
        ...

    async def published(self, after: int) -> None:
        """Until the end lies beyond this offset."""
        ...

    async def end(self) -> Checkpoint:
        """Where the stream of completions ends now."""
        ...

    async def prune(self, offset: int) -> int:
        """Forget completions up to this offset; up to where they are forgotten now."""
        ...

    def configuration(self) -> CommandConfiguration:
        """What holds now."""
        ...

    def configurations(self) -> AsyncIterator[CommandConfiguration]:
        """What holds now, and then each change of it."""
        ...


class HasCommands(Protocol):
    """A node that takes commands."""

    @property
    def name(self) -> NodeName:
        """The node's name."""
        ...

    @property
    def commands(self) -> Commands:
        """They."""


# Automation.


@dataclass(frozen=True, slots=True)
class Spread:
    """Times counted by bounds: each count is of those that exceed the bound before and not their own, the last of those
    beyond all."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """A task that was refused too often, and the last reason."""

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class TriggerView:
    """A trigger at this node. `strategy` is the one that is used now, `wanted_strategy` the one that was configured.

    Counts are of this life of the process: `won` is what our transactions performed by the ledger's word, `lost` what
    somebody else's did first, `skipped` what was done before we began, `failed` what is not done.
    """

    name: str
    strategy: str
    wanted_strategy: str
    is_paused: bool
    is_member: bool
    members: int
    waiting: int
    at_work: int
    won: int
    lost: int
    skipped: int
    failed: int
    breaker: str
    breaker_opened_total: int
    expected_task_duration_ms: int
    polling_interval_ms: int
    parallel_tasks: int
    slot_ms: int
    durations: Spread
    waits: Spread
    trouble: str = ""
    set_aside: tuple[SetAside, ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """What a run that an operator asked for came to: tasks by outcome, and the last failure."""

    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str = ""


class Triggers(Protocol):
    """The triggers that this node runs. `Rejected` where there is none of a name."""

    def list(self) -> tuple[TriggerView, ...]:
        """All of them, as they are now."""
        ...

    async def pause(self, name: str) -> None:
        """Begin nothing more of it, also after a restart. Durable on return."""
        ...

    async def resume(self, name: str) -> None:
        """Begin again, with what was set aside too. Durable on return; one that the configuration pauses is paused
        again after a restart."""
        ...

    async def run_once(self, name: str) -> TriggerRun:
        """Attempt what is ready, now and without delay, paused or not."""
        ...


class HasTriggers(Protocol):
    """A node that runs triggers."""

    @property
    def triggers(self) -> Triggers:
        """Its triggers."""
        ...


# Operators.


@dataclass(frozen=True, slots=True)
class PeerMeasurements:
    """One connection to another node."""

    node: NodeName
    is_connected: bool
    queued_messages: int
    dropped_messages_total: int


@dataclass(frozen=True, slots=True)
class Measurements:
    """A node's figures at one moment. What ends in `_total` only grows within one life of the process.

    None means that the node does not know, as the ledger's height while the ledger is away: then no figure is shown.
    """

    index_height: int | None = None
    ledger_height: int | None = None
    is_ledger_lost: bool | None = None
    contracts: int | None = None
    contracts_loaded: int | None = None
    coordinators_active: int | None = None
    intents_open: int | None = None
    sending: tuple[StateCount, ...] = ()
    coordinating: tuple[StateCount, ...] = ()
    intents_accepted_total: int | None = None
    receipts_confirmed_total: int | None = None
    receipts_reverted_total: int | None = None
    rounds_dispatched_total: int | None = None
    rounds_unconfirmed: int | None = None
    submissions_total: int | None = None
    deliveries_open: int | None = None
    writes_open: int | None = None
    writes_failed_total: int | None = None
    steps_total: int | None = None
    commands_in_flight: int | None = None
    commands_accepted_total: int | None = None
    commands_rejected_total: int | None = None
    commands_duplicate_total: int | None = None
    completions_end: int | None = None
    contracts_learned_total: int | None = None
    contracts_refused_total: int | None = None
    geneses_asked_total: int | None = None
    geneses_given_total: int | None = None
    certificate_valid_until_s: int | None = None
    contracts_in_arrears: int | None = None
    peers: tuple[PeerMeasurements, ...] = ()
    triggers: tuple[TriggerView, ...] = ()
    automation_transactions_total: int | None = None
    ledger_transactions_total: int | None = None


class Operations(Protocol):
    """What operators and the machines that watch for them ask. Answered from memory, at once."""

    def readiness(self) -> tuple[str, ...]:
        """What is missing before this node can serve, each as a sentence that says how to mend it; empty when ready."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """What does not keep this node from serving now and will, each as a sentence that says how to mend it."""
        ...

    def measurements(self) -> Measurements:
        """The figures of this moment."""
        ...


class Node(
    Transactions,
    Listening,
    Settling,
    Sequencing,
    Watching,
    Contracts,
    HasTypes,
    HasFollowing,
    HasKeys,
    HasGroups,
    MessageListening,
    HasStates,
    HasNetwork,
    HasChain,
    HasCommands,
    HasTriggers,
    HasItself,
    Operations,
    Protocol,
):
    """The whole of it; what the server is given."""

    @property
    def name(self) -> NodeName:
        """The node's name, which is its transport identity."""
        ...
