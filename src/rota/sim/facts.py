"""Facts that can be observed from outside: messages, writes, answers and receipts of nodes, and ledger outcomes.

The invariants (protocol §10) are judged from these facts alone. The simulator reports them as they occur; a test of a
real cluster may derive them from logs. Facts of one node come in the order in which they happened there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from rota.chain.effects import RoundDispatch
from rota.machine.effects import Record
from rota.model.types import (
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    StateId,
    Transition,
    Tried,
)
from rota.wire.messages import CoordinatorState, Envelope


class RememberedIntent(NamedTuple):
    """The state of an intent that is not final, as restored when a node starts."""

    permitted: Leaf | None
    is_parked: bool
    is_ending: bool
    issued: Leaf | None = None


class Remembered(NamedTuple):
    """The state that a node restored from its disk at a start.

    `unacknowledged` are the prepared transitions that it still has to send to their senders, `signed_away` those for
    which it reserves states as an endorser.
    """

    incarnation: int
    next_nonces: Mapping[ContractAddress, int]
    intents: Mapping[IntentId, RememberedIntent]
    owed: frozenset[NodeName]
    unacknowledged: frozenset[Leaf] = frozenset()
    signed_away: frozenset[Leaf] = frozenset()
    proposals: frozenset[tuple[NodeName, IntentId]] = frozenset()


class Started(NamedTuple):
    """A node began a run."""

    node: NodeName
    remembered: Remembered


class Stopped(NamedTuple):
    """A run of a node ended; its memory is lost."""

    node: NodeName
    at_ms: int = 0


class Hung(NamedTuple):
    """A node, or its disk, does nothing from now on, until it resumes or stops."""

    node: NodeName


class Resumed(NamedTuple):
    """A hung node resumed."""

    node: NodeName
    at_ms: int


class Sent(NamedTuple):
    """A node sent a message to another; it may be lost."""

    node: NodeName
    peer: NodeName
    envelope: Envelope


class Recorded(NamedTuple):
    """A record is durable."""

    node: NodeName
    contract: ContractAddress
    record: Record


class HeightReached(NamedTuple):
    """A node's index reached this height; the node acts on it, and holds its messages until that is durable."""

    node: NodeName
    height: int


class FactoryOrdered(NamedTuple):
    """A node has the factory called for a deployment of its user."""

    node: NodeName
    deployment: IntentId
    signers: tuple[ContractAddress, ...]


class Deployed(NamedTuple):
    """The factory has deployed a contract under this id, or a reorganisation has undone it.

    `is_strange` if the deployer took the id and is no node of the network.
    """

    deployment: IntentId
    contract: ContractAddress
    is_undone: bool = False
    is_strange: bool = False


class ContractsKnown(NamedTuple):
    """At the end: the contracts that a node has."""

    node: NodeName
    contracts: frozenset[ContractAddress]


class Request(Enum):
    """The requests of users."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    RESUME = "resume"


class Cause(Enum):
    """The causes in a plan that may end an intent without its effect."""

    CANCELLED = "its user cancels it"
    REFUSED = "enough endorsers refuse it"
    FAILS_AT_ASSEMBLY = "the domain reverts it at its assembly"
    FAILS_ON_LEDGER = "it fails on the ledger"
    MAY_EXPIRE = "its user has to commit it"
    UNKNOWN_PARTY = "it names a party that nobody knows"
    ID_TAKEN = "a stranger deploys a contract under its id"
    NODE_REFUSES = "a node that the contract needs does not take it"
    FACTORY_REFUSES = "the factory does not deploy it"
    DOMAIN = "its domain judges it"


class Wanted(NamedTuple):
    """A user is about to submit an intent; without causes, only a dependency may prevent its effect."""

    node: NodeName
    intent: Intent
    causes: frozenset[Cause]


class DomainSaid(NamedTuple):
    """A shipped domain gave a reason for not assembling, or not endorsing, an intent."""

    intent: IntentId
    reason: str


class WorkloadEnded(NamedTuple):
    """At the end: how much of a domain's workload was committed, and the flaws that the workload found."""

    domain: str
    committed_count: int
    flaws: tuple[str, ...]


class Asked(NamedTuple):
    """A user's request has reached a running node."""

    node: NodeName
    reply_to: str
    at_ms: int


class Answered(NamedTuple):
    """A node answered a user's request, with any result."""

    node: NodeName
    reply_to: str
    at_ms: int


class Promised(NamedTuple):
    """A node acknowledged a user's request."""

    node: NodeName
    request: Request
    intent: IntentId


class Reported(NamedTuple):
    """A node reported the outcome of an intent to its user."""

    node: NodeName
    receipt: Receipt


class BrokenFinality(NamedTuple):
    """A node reported to its users that the receipts of these intents no longer hold."""

    node: NodeName
    intents: tuple[IntentId, ...]


class ReceiptRead(NamedTuple):
    """At the end: the outcome that a node returns for an intent of its own; `None` while it is open."""

    node: NodeName
    intent: IntentId
    outcome: Outcome | None


class NonceRead(NamedTuple):
    """At the end: a node's next nonce, that of its account on the chain, and the number of open dispatches."""

    node: NodeName
    own: int
    on_chain: int
    open_count: int


class Assembled(NamedTuple):
    """A domain made a transition, with the bytes of all its states."""

    node: NodeName
    contract: ContractAddress
    transition: Transition


class Signed(NamedTuple):
    """A party of a node signed a leaf of an intent; reported only in worlds with liars."""

    node: NodeName
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf


class Expected(NamedTuple):
    """A user submits a valid intent and will not cancel it: only a lie could prevent its effect."""

    node: NodeName
    intent: IntentId


class Received(NamedTuple):
    """A node received a message that it accepts, at a time by its own clock."""

    node: NodeName
    peer: NodeName
    envelope: Envelope
    local_ms: int


class ConnectionChanged(NamedTuple):
    """A node noticed that a connection was lost or made."""

    node: NodeName
    peer: NodeName
    is_up: bool
    local_ms: int


class ContractReset(NamedTuple):
    """A node loads a contract from its store; what it knew of its peers there is lost."""

    node: NodeName
    contract: ContractAddress


class Endorsed(NamedTuple):
    """An endorser signed a round for a coordinator, at a time by its own clock."""

    node: NodeName
    contract: ContractAddress
    coordinator: NodeName
    request_id: RequestId
    digest: Digest
    local_ms: int = 0


class Declined(NamedTuple):
    """An endorser rejected a coordinator's request because of its own index: its height, or that it has stalled."""

    node: NodeName
    contract: ContractAddress
    coordinator: NodeName


class Approved(NamedTuple):
    """An endorser approved a round with these leaves, because the plan of their transactions names it."""

    node: NodeName
    contract: ContractAddress
    leaves: tuple[Leaf, ...]


class Cosigned(NamedTuple):
    """Parties that a transaction's plan adds have signed its leaf."""

    node: NodeName
    contract: ContractAddress
    leaf: Leaf
    parties: tuple[Party, ...]


class PassedOver(NamedTuple):
    """A node lists in a message the members that it cannot reach or has demoted; the message is not sent yet."""

    node: NodeName
    contract: ContractAddress
    tried: tuple[Tried, ...]


class SteppedAside(NamedTuple):
    """A coordinator leaves its role and names its successor."""

    node: NodeName
    contract: ContractAddress
    successor: NodeName


class Submitted(NamedTuple):
    """A node sent a base-ledger transaction to the chain."""

    node: NodeName
    dispatch: RoundDispatch


class BlockMined(NamedTuple):
    """The chain has a new block; its commits were reported before."""

    height: int
    time_s: int


class Committed(NamedTuple):
    """The ledger committed a transition in a block."""

    contract: ContractAddress
    height: int
    transition: Transition


class Reorganised(NamedTuple):
    """The chain removed this many of its latest blocks; their transitions are reported as undone, latest first."""

    depth: int


class Undone(NamedTuple):
    """The effect of a transition was undone with its block."""

    contract: ContractAddress
    height: int
    transition: Transition


# A queue's name, its length, and its bound.
Queue = tuple[str, int, int]


class Measured(NamedTuple):
    """The lengths and bounds of a node's queues."""

    node: NodeName
    queues: tuple[Queue, ...]


class FaultsEnded(NamedTuple):
    """All faults have ended: from now on the network must come to rest."""

    at_ms: int


class CalmPassed(NamedTuple):
    """A time without faults, new intents and time jumps has passed; the open intents then that wait for nothing."""

    for_ms: int
    waiting: tuple[IntentId, ...]


class Quiet(NamedTuple):
    """All intents have ended, or never will; the messages sent during some time after that, by kind."""

    is_at_rest: bool
    after_ms: int
    for_ms: int
    said: Mapping[str, int]


class Skipped(NamedTuple):
    """The ledger skipped a transition."""

    intent: IntentId
    reason: str


class RunEnded(NamedTuple):
    """The run is over; the invariants conclude next."""

    at_ms: int


class HeartbeatSeen(NamedTuple):
    """A coordinator sent its state; reported once per heartbeat, even if no other node can receive it."""

    node: NodeName
    contract: ContractAddress
    state: CoordinatorState
    height: int
    at_ms: int


class Indexed(NamedTuple):
    """At the end: the height of a node's index on its disk, and the unspent states there."""

    node: NodeName
    contract: ContractAddress
    height: int
    unspent: frozenset[StateId]


class LedgerStood(NamedTuple):
    """At the end: the ledger's own height and unspent states."""

    contract: ContractAddress
    height: int
    unspent: frozenset[StateId]


Fact = (
    Started
    | Stopped
    | Hung
    | Resumed
    | Sent
    | Recorded
    | HeightReached
    | Wanted
    | DomainSaid
    | WorkloadEnded
    | Asked
    | Answered
    | Promised
    | Reported
    | BrokenFinality
    | ReceiptRead
    | NonceRead
    | Assembled
    | Signed
    | Expected
    | Received
    | ConnectionChanged
    | ContractReset
    | Declined
    | Endorsed
    | Approved
    | Cosigned
    | PassedOver
    | SteppedAside
    | Submitted
    | FactoryOrdered
    | Deployed
    | ContractsKnown
    | BlockMined
    | Committed
    | Reorganised
    | Undone
    | Measured
    | FaultsEnded
    | CalmPassed
    | Quiet
    | Skipped
    | RunEnded
    | HeartbeatSeen
    | Indexed
    | LedgerStood
)
