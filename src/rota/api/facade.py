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

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from rota.types import ContractAddress, IntentId, Leaf, Mode, NodeName, Party, Rotation, SubmitMode

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
AbiEntry: TypeAlias = Mapping[str, JsonValue]


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


# Types.


@dataclass(frozen=True, slots=True)
class AbiView:
    """An ABI that users stored."""

    hash: bytes
    abi: tuple[AbiEntry, ...]


@dataclass(frozen=True, slots=True)
class DecodedData:
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

    async def decode_call(self, call_data: bytes, data_format: str) -> DecodedData:
        """A call, by whatever ABI was stored. `Rejected` when none fits."""
        ...

    async def decode_error(self, revert_data: bytes, data_format: str) -> DecodedData:
        """What a contract reverted with."""
        ...

    async def decode_event(self, topics: Sequence[bytes], data: bytes, data_format: str) -> DecodedData:
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


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of a history."""

    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a transaction is, what it waits for since when, and who is in the way: nodes, of which several may be.

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


# Contracts.


class Contracts(Protocol):
    """How a contract comes to its members."""

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """The address with which this node endorses in the contract that this intent deploys."""
        ...

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Have the contract from now on. `Rejected` when genesis and chain do not agree."""
        ...


# Keys.


@dataclass(frozen=True, slots=True)
class KeySegment:
    """One step on the way to an identifier, and its number among those beside it."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class KeyVerifier:
    """By what others know a key: an address, of this type, for this algorithm."""

    verifier: str
    type: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """An identifier, where its key is, and its verifier."""

    identifier: str
    wallet: str
    handle: str
    path: tuple[KeySegment, ...]
    verifier: KeyVerifier


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A place in the tree of identifiers: a key, a branch, or both."""

    is_key: bool
    has_children: bool
    parent: str
    path: str
    name: str
    index: int
    wallet: str
    handle: str
    verifiers: tuple[KeyVerifier, ...]


class Keys(Protocol):
    """The keys of this node's parties, by their identifiers."""

    def wallets(self) -> tuple[str, ...]:
        """Where keys come from."""
        ...

    async def resolve(self, identifier: str, algorithm: str, verifier_type: str) -> KeyMapping:
        """The key of an identifier; there is one for every name."""
        ...

    async def reverse(self, algorithm: str, verifier_type: str, verifier: str) -> KeyMapping | None:
        """The key that has this verifier, if it was asked for or used before."""
        ...

    async def query(self, query: JsonValue) -> tuple[KeyEntry, ...]:
        """The identifiers that were asked for or used, which a QueryJSON looks for."""
        ...

    async def sign(
        self, identifier: str, algorithm: str, verifier_type: str, payload_type: str, payload: bytes
    ) -> bytes:
        """A signature of this payload."""
        ...


class HasKeys(Protocol):
    """A node that has keys."""

    @property
    def keys(self) -> Keys:
        """The keys of its parties."""
        ...


# Privacy groups.


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A privacy group that is to be. Members without a node are of this one."""

    domain: str
    members: tuple[str, ...]
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, JsonValue] = field(default_factory=dict)
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A privacy group. Its contract is there when it is deployed, and `deployment` is the transaction that does it."""

    id: bytes
    domain: str
    created_at_ms: int
    name: str
    members: tuple[Party, ...]
    properties: Mapping[str, str]
    configuration: Mapping[str, str]
    schema: bytes
    deployment: IntentId
    contract: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A private contract in a group is to be called, or without `to` deployed. Only types have been looked at.

    `function` is an entry of an ABI, or the name or signature of one in `abi`; without it `input` is call data as hex.
    """

    domain: str
    group: bytes
    sender: str
    to: ContractAddress | None = None
    function: AbiEntry | str | None = None
    input: JsonValue = None
    abi: tuple[AbiEntry, ...] = ()
    bytecode: bytes = b""
    gas: int = 0
    value: int = 0
    idempotency_key: str = ""
    data_format: str = ""


class Groups(Protocol):
    """Privacy groups, and the private contracts in them."""

    async def create(self, wanted: NewGroup) -> GroupView:
        """A new group: its id is given when it is durable that it will be deployed."""
        ...

    async def with_id(self, domain: str, group: bytes) -> GroupView | None:
        """The group of this id."""
        ...

    async def with_address(self, contract: ContractAddress) -> GroupView | None:
        """The group whose contract this is."""
        ...

    async def query(self, query: JsonValue, member: str = "") -> tuple[GroupView, ...]:
        """The groups that a QueryJSON looks for, with this member if one is named."""
        ...

    async def send(self, call: GroupCall) -> IntentId:
        """A transaction in a group; the id is given when it is durable."""
        ...

    async def call(self, call: GroupCall) -> JsonValue:
        """What a private contract answers now, without a transaction."""
        ...


class HasGroups(Protocol):
    """A node that has privacy groups."""

    @property
    def groups(self) -> Groups:
        """Its groups."""
        ...


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
    contracts_learned_total: int | None = None
    contracts_refused_total: int | None = None
    geneses_asked_total: int | None = None
    geneses_given_total: int | None = None
    peers: tuple[PeerMeasurements, ...] = ()
    triggers: tuple[TriggerView, ...] = ()
    automation_transactions_total: int | None = None
    ledger_transactions_total: int | None = None


class Operations(Protocol):
    """What operators and the machines that watch for them ask. Answered from memory, at once."""

    def readiness(self) -> tuple[str, ...]:
        """What is missing before this node can serve, each as a sentence that says how to mend it; empty when ready."""
        ...

    def measurements(self) -> Measurements:
        """The figures of this moment."""
        ...


class Node(
    Transactions, Settling, Sequencing, Contracts, HasTypes, HasKeys, HasGroups, HasTriggers, Operations, Protocol
):
    """The whole of it; what the server is given."""

    @property
    def name(self) -> NodeName:
        """The node's name, which is its transport identity."""
        ...
