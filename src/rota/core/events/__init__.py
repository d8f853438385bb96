"""All that a step may be told from outside. The machines' own events stand in their files."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rota.core.consistency import Consistent
from rota.core.machine import Event
from rota.frozen import dataclass
from rota.messages import AssemblyOutcome, Envelope, Refusal
from rota.types import (
    NO_ATTESTERS,
    Attesters,
    AwaitedLeaf,
    CallFailure,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Party,
    RequestId,
    StateId,
    Transition,
)


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed; the next deadline may have come."""


# From the network.


@dataclass(frozen=True, slots=True)
class MessageReceived(Event):
    """A message of the authenticated node at the other end of a connection."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class PeerSpoke(Event):
    """A peer sent a message about a contract that the node itself takes: for the contract it is a sign of life."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """The connection no longer carries both ways (protocol §4.1)."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class ConnectionMade(Event):
    """The connection carries both ways again."""

    peer: NodeName


# From the node's chain index.


class LedgerStatus(Enum):
    """What the ledger made of one transition of a base-ledger transaction."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """One transition's outcome as indexed. `is_contention` classifies a failure (§4.2); `failure` names a failed call.

    `inputs` are the states that a committed one has spent; `transaction` is the hash of the base-ledger transaction
    that it was in, when that is known. Where in its block the ledger told of it is only shown.
    """

    intent: IntentId
    leaf: Leaf
    digest: Digest
    status: LedgerStatus
    reason: str = ""
    is_contention: bool = False
    inputs: tuple[StateId, ...] = ()
    transaction: bytes = b""
    transaction_index: int | None = field(default=None, compare=False)
    log_index: int | None = field(default=None, compare=False)
    failure: CallFailure | None = None

    @property
    def is_counted(self) -> bool:
        """A call of the transition failed: nobody else was first, and its transaction did not revert as a whole."""
        return self.status is LedgerStatus.SKIPPED and not self.is_contention


@dataclass(frozen=True, slots=True)
class BlockIndexed(Event):
    """This node's index has reached a height, with these outcomes of this contract."""

    height: int
    chain_time_s: int
    outcomes: tuple[LedgerOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class BlocksRemoved(Event):
    """A reorganisation took these outcomes of this contract back; the index stands at `height` again."""

    height: int
    outcomes: tuple[LedgerOutcome, ...]


@dataclass(frozen=True, slots=True)
class OutcomesFinal(Event):
    """The chain is final up to this chain time, with these outcomes: receipts may be reported."""

    chain_time_s: int
    outcomes: tuple[LedgerOutcome, ...]


@dataclass(frozen=True, slots=True)
class LedgerLost(Event):
    """Raised by the node: its index has not reached the ledger, or its store has taken no write, for `ledger_grace`."""


@dataclass(frozen=True, slots=True)
class LedgerBack(Event):
    """This node's index has reached the ledger, and its store takes writes, again."""


# From users and operators.


@dataclass(frozen=True, slots=True)
class IntentSubmitted(Event):
    """A user asks for a private transaction; the reply goes to `reply_to` once it is persisted.

    The node says which of the intents that it depends on are final already.
    """

    reply_to: str
    intent: Intent
    known_outcomes: tuple[tuple[IntentId, Outcome], ...] = ()


@dataclass(frozen=True, slots=True)
class ResumeRequested(Event):
    """A user resumes a parked intent."""

    reply_to: str
    intent: IntentId


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """A user gives an intent up."""

    reply_to: str
    intent: IntentId


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """Raised by an operator: the node is to stop; it hands its role over first."""


# Results of effects.


class Result(Event):
    """What comes back from the domain, the signer and the key store."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AssemblyFinished(Result):
    """The domain has assembled one intent of an order, or says why not; `request_id` is the order's."""

    request_id: RequestId
    intent: IntentId
    outcome: AssemblyOutcome
    transition: Transition | None = None
    reason: str = ""
    code: str = ""
    attesters: Attesters = NO_ATTESTERS


@dataclass(frozen=True, slots=True)
class AssemblyFailed(Result):
    """The domain or the signer failed on one intent of a slot: a fault of the world, not of the intent.

    `error` is what the domain raised, for the operator's log; nothing is decided by it. `lacks_states`: the domain
    needs a state that is not here yet.
    """

    request_id: RequestId
    intent: IntentId
    reason: str
    error: Exception | None = field(default=None, compare=False, repr=False)
    lacks_states: bool = False


@dataclass(frozen=True, slots=True)
class FailureJudged(Result):
    """The sender's own domain says whether an intent whose version failed on the ledger is worth another attempt."""

    intent: IntentId
    leaf: Leaf
    is_worth_retrying: bool


@dataclass(frozen=True, slots=True)
class TransitionSigned(Result):
    """The `from` party has signed the leaf of a transition, by this order; and the cosigners, in their order."""

    request_id: RequestId
    intent: IntentId
    signature: bytes
    cosignatures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class SignatureVerified(Result):
    """Whether a leaf that we are asked to permit bears the signature of our own party."""

    request_id: RequestId
    intent: IntentId
    is_ours: bool


@dataclass(frozen=True, slots=True)
class RoundChecked(Result):
    """The domain has checked a round for this endorser: a signature, or what it refuses.

    Or it cannot judge: it lacks these states, which it may see and which our index does not know as spent; or it failed
    on these leaves. The peer chose the request's id: `digest` says which round was checked.
    """

    peer: NodeName
    request_id: RequestId
    signature: bytes = b""
    refusals: tuple[Refusal, ...] = ()
    missing: tuple[StateId, ...] = ()
    unjudged: tuple[Leaf, ...] = ()
    digest: Digest = Digest(b"")


@dataclass(frozen=True, slots=True)
class EndorsementVerified(Result):
    """Whether an endorser's signature over a round is its own."""

    peer: NodeName
    digest: Digest
    signature: bytes
    is_valid: bool


@dataclass(frozen=True, slots=True)
class PartiesVerified(Result):
    """The leaves without their party's signature, and those whose party's verifier is not known; the others have it."""

    request_id: RequestId
    false: tuple[Leaf, ...] = ()
    unknown: tuple[Leaf, ...] = ()


@dataclass(frozen=True, slots=True)
class EndorsersVerified(Result):
    """Whether each of the signatures in question is its endorser's own, in their order."""

    request_id: RequestId
    are_valid: tuple[bool, ...]
    intent: IntentId | None = None


@dataclass(frozen=True, slots=True)
class VerifierLookedUp(Result):
    """The key store's answer for a party of this node; empty when there is none.

    `announced` says whether users of this node have used the party, None when that is not known now.
    """

    peer: NodeName
    request_id: RequestId
    party: Party
    verifier: str
    announced: bool | None = None


@dataclass(frozen=True, slots=True)
class VerifierWanted(Result):
    """Whoever checks a signature, or assembles, has to know which verifier this party has in the contract.

    With `asks_announced` its node is asked also where the verifier is known: whether its users have used the party.
    """

    party: Party
    asks_announced: bool = False


@dataclass(frozen=True, slots=True)
class Persisted(Event):
    """The records of a step are durable."""

    token: int


@dataclass(frozen=True, slots=True)
class PersistFailed(Event):
    """The records of a step were not written, and what the step asked for was not done."""

    token: int
    reason: str


# From the submitter.


@dataclass(frozen=True, slots=True)
class RoundDispatched(Event):
    """The dispatch syncpoint is durable: the round has a signer and a nonce."""

    digest: Digest
    signer: str
    nonce: int


@dataclass(frozen=True, slots=True)
class RoundDispatchFailed(Event):
    """The dispatch write failed; it is to be tried again."""

    digest: Digest
    reason: str


@dataclass(frozen=True, slots=True)
class RoundSubmitted(Event):
    """The round's base-ledger transaction was sent to the chain."""

    digest: Digest
    submission_count: int


# To a whole node.


@dataclass(frozen=True, slots=True)
class ForContract(Event):
    """An event of one contract."""

    contract: ContractAddress
    event: Event


@dataclass(frozen=True, slots=True)
class IntentsLookedUp(Event):
    """The store's answer: the intent that has the key, the outcomes of those that are final, and the unfinished.

    A leaf is confirmed when a final block commits it, and reverted when one commits something else under its id.
    """

    token: int
    existing: IntentId | None = None
    outcomes: tuple[tuple[IntentId, Outcome], ...] = ()
    unfinished: tuple[IntentId, ...] = ()
    leaves: tuple[tuple[AwaitedLeaf, Outcome], ...] = ()


@dataclass(frozen=True, slots=True)
class PublicTransactionEnded(Event):
    """A public transaction of this node has its final outcome, which is durable: private ones may depend on it."""

    intent: IntentId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class StatesWanted(Event):
    """This node lacks the private states that these leaves made, if it may see any: its peers are to be asked."""

    contract: ContractAddress
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class TransitionsShown(Event):
    """A member has sent these transitions, or our own store has them; for a sender that doubts whose a leaf is."""

    peer: NodeName
    transitions: tuple[Consistent, ...]


@dataclass(frozen=True, slots=True)
class StatesFound(Event):
    """The store's answer to `FindStates`: transitions of one round, as the peer may see them."""

    contract: ContractAddress
    peer: NodeName
    digest: Digest
    transitions: tuple[Transition, ...]
