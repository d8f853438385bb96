"""What can be seen of a network from outside: what nodes said, wrote, answered and reported, and what the ledger did.

The invariants (protocol §10) are judged from these facts alone. The simulator tells them as they happen; a test of a
real cluster may tell them from logs. Facts of one node come in the order in which they happened there.
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
    """What a new life of a node knows of an intent that is not final."""

    permitted: Leaf | None
    is_parked: bool
    is_ending: bool
    issued: Leaf | None = None


class Remembered(NamedTuple):
    """What a new life of a node found on its disk.

    `unacknowledged` are the prepared transitions that it still has to send to their senders, `signed_away` those for
    which it keeps states as an endorser.
    """

    incarnation: int
    next_nonces: Mapping[ContractAddress, int]
    intents: Mapping[IntentId, RememberedIntent]
    owed: frozenset[NodeName]
    unacknowledged: frozenset[Leaf] = frozenset()
    signed_away: frozenset[Leaf] = frozenset()
    proposals: frozenset[tuple[NodeName, IntentId]] = frozenset()


class Started(NamedTuple):
    """A node began a new life."""

    node: NodeName
    remembered: Remembered


class Stopped(NamedTuple):
    """A node's life ended: its memory is gone."""

    node: NodeName
    at_ms: int = 0


class Hung(NamedTuple):
    """A node does nothing from now on, until it resumes or stops; or its disk does nothing."""

    node: NodeName


class Resumed(NamedTuple):
    """A node that hung goes on."""

    node: NodeName
    at_ms: int


class Sent(NamedTuple):
    """A message left a node for another; it may be lost."""

    node: NodeName
    peer: NodeName
    envelope: Envelope


class Recorded(NamedTuple):
    """A record is durable."""

    node: NodeName
    contract: ContractAddress
    record: Record


class HeightReached(NamedTuple):
    """A node's index stands at this height: the node acts on it, and its messages wait until that is durable."""

    node: NodeName
    height: int


class FactoryOrdered(NamedTuple):
    """A node has the factory called for a deployment of its own."""

    node: NodeName
    deployment: IntentId
    signers: tuple[ContractAddress, ...]


class Deployed(NamedTuple):
    """The factory has deployed a contract under this id, or a reorganisation has taken it back.

    `is_strange` where somebody has it deployed who is no node of the network and has taken the id.
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
    """What a user may ask for."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    RESUME = "resume"


class Cause(Enum):
    """What the plan put into the world that may end an intent without its effect."""

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
    """A user is about to ask for an intent; without a cause nothing stands against it but what it depends on."""

    node: NodeName
    intent: Intent
    causes: frozenset[Cause]


class DomainSaid(NamedTuple):
    """A shipped domain said why it does not make, or does not endorse, what a user wants."""

    intent: IntentId
    reason: str


class WorkloadEnded(NamedTuple):
    """At the end: how much of a domain's workload was committed, and what the workload finds wrong."""

    domain: str
    committed_count: int
    flaws: tuple[str, ...]


class Asked(NamedTuple):
    """A user's request has reached a node that runs."""

    node: NodeName
    reply_to: str
    at_ms: int


class Answered(NamedTuple):
    """A node answered a user's request, whatever it said."""

    node: NodeName
    reply_to: str
    at_ms: int


class Promised(NamedTuple):
    """A user was told that a request was taken."""

    node: NodeName
    request: Request
    intent: IntentId


class Reported(NamedTuple):
    """A user was told how an intent ended."""

    node: NodeName
    receipt: Receipt


class BrokenFinality(NamedTuple):
    """A node told its users that the receipts of these intents no longer hold."""

    node: NodeName
    intents: tuple[IntentId, ...]


class ReceiptRead(NamedTuple):
    """At the end: what a node answers of an intent of its own; nothing while it has not ended."""

    node: NodeName
    intent: IntentId
    outcome: Outcome | None


class NonceRead(NamedTuple):
    """At the end: a node's next nonce, that of its account on the chain, and how many dispatches are open."""

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
    """A party of a node signed a leaf of an intent; told where nodes lie."""

    node: NodeName
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf


class Expected(NamedTuple):
    """A user asks for what is valid and will not cancel it: nothing but a lie could keep it from happening."""

    node: NodeName
    intent: IntentId


class Received(NamedTuple):
    """A message reached a node that takes it, at a time by its own clock."""

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
    """A node reads a contract from its store: what it remembered of its peers there is gone."""

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
    """An endorser rejected a coordinator's request because of where its own index stands, or that it stands still."""

    node: NodeName
    contract: ContractAddress
    coordinator: NodeName


class Approved(NamedTuple):
    """An endorser approved a round with these leaves, because the plan of its transactions names it."""

    node: NodeName
    contract: ContractAddress
    leaves: tuple[Leaf, ...]


class Cosigned(NamedTuple):
    """Parties that the plan of a transaction adds signed its leaf."""

    node: NodeName
    contract: ContractAddress
    leaf: Leaf
    parties: tuple[Party, ...]


class PassedOver(NamedTuple):
    """A node lists to others the members that it cannot reach, or has demoted: decided, not sent yet."""

    node: NodeName
    contract: ContractAddress
    tried: tuple[Tried, ...]


class SteppedAside(NamedTuple):
    """A coordinator leaves its role, and says who is to follow it."""

    node: NodeName
    contract: ContractAddress
    successor: NodeName


class Submitted(NamedTuple):
    """A base-ledger transaction left its node for the chain."""

    node: NodeName
    dispatch: RoundDispatch


class BlockMined(NamedTuple):
    """The chain has a new block; what it committed was told before."""

    height: int
    time_s: int


class Committed(NamedTuple):
    """The ledger committed a transition in a block."""

    contract: ContractAddress
    height: int
    transition: Transition


class Reorganised(NamedTuple):
    """The chain took so many of its latest blocks back; their transitions are told as undone, latest first."""

    depth: int


class Undone(NamedTuple):
    """What a transition did on the ledger was taken back with its block."""

    contract: ContractAddress
    height: int
    transition: Transition


# A queue's name, how long it is, and how long it may be.
Queue = tuple[str, int, int]


class Measured(NamedTuple):
    """How long the queues of a node were, and how long each may be."""

    node: NodeName
    queues: tuple[Queue, ...]


class FaultsEnded(NamedTuple):
    """Everything is mended: from now on the network must come to rest."""

    at_ms: int


class CalmPassed(NamedTuple):
    """A while passed without faults, new intents and jumps of time; what is open then and waits for nothing."""

    for_ms: int
    waiting: tuple[IntentId, ...]


class Quiet(NamedTuple):
    """Everything has ended, or never will; what nodes said to one another in a time after that, by kind."""

    is_at_rest: bool
    after_ms: int
    for_ms: int
    said: Mapping[str, int]


class Skipped(NamedTuple):
    """The ledger skipped a transition."""

    intent: IntentId
    reason: str


class RunEnded(NamedTuple):
    """The run is over: judgement follows."""

    at_ms: int


class HeartbeatSeen(NamedTuple):
    """A coordinator said in which state it is; told once a heartbeat, also for one that only itself can hear."""

    node: NodeName
    contract: ContractAddress
    state: CoordinatorState
    height: int
    at_ms: int


class Indexed(NamedTuple):
    """At the end: where a node's index stands, and which states are unspent on its disk."""

    node: NodeName
    contract: ContractAddress
    height: int
    unspent: frozenset[StateId]


class LedgerStood(NamedTuple):
    """At the end: where the ledger itself stands."""

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
