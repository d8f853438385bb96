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
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from rota.command_types import Checkpoint, Completion, CompletionFilter, CompletionPage, Period
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
    peers: tuple[PeerMeasurements, ...] = ()


class Operations(Protocol):
    """What operators and the machines that watch for them ask. Answered from memory, at once."""

    def readiness(self) -> tuple[str, ...]:
        """What is missing before this node can serve, each as a sentence that says how to mend it; empty when ready."""
        ...

    def measurements(self) -> Measurements:
        """The figures of this moment."""
        ...


class Node(Transactions, Sequencing, Contracts, HasCommands, Operations, Protocol):
    """The whole of it; what the server is given."""

    @property
    def name(self) -> NodeName:
        """The node's name, which is its transport identity."""
        ...
