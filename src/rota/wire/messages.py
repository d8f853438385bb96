"""The messages between nodes, one frozen type each (protocol §6).

A message's author is the peer at the other end of the connection, never a field. Ages travel as
milliseconds and order as (incarnation, number): clocks jump, so no message holds a time to compare.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, NamedTuple

from rota.model.frozen import dataclass
from rota.model.types import (
    NO_ATTESTERS,
    NO_LEAF,
    Attesters,
    BlockHash,
    ContractAddress,
    DelegationNumber,
    Digest,
    Fees,
    FlushPoint,
    HeartbeatNumber,
    Intent,
    IntentId,
    KeptStates,
    Leaf,
    NodeName,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
    Tried,
)
from rota.model.types import EndorserSignature as EndorserSignature
from rota.model.types import Holding as Holding

PROTOCOL_VERSION = (2, 0)
STATE_REQUEST_LEAVES_MAX = 64
HOLDINGS_ASKED_MAX = 64
REFUSAL_KEPT_MAX = 4
# Each may have a text of four kibibytes. Further ones go in another heartbeat of the same number.
SUBMITTED_LISTED_MAX = 512


class CoordinatorState(Enum):
    """The state of a coordinator in its heartbeats; its own table is in `sequencer/coordinator.py`."""

    IDLE = "Idle"
    OBSERVING = "Observing"
    STANDBY = "Standby"
    ELECT = "Elect"
    PREPARED = "Prepared"
    ACTIVE = "Active"
    FLUSH = "Flush"
    CLOSING = "Closing"

    # Each state exists once, so its address identifies it; Enum would hash the name at every table look-up.
    __hash__ = object.__hash__


class Message:
    """The content of an envelope."""

    __slots__ = ()


class Reply(Message):
    """A message that answers another, and names it by the id that all its copies have."""

    __slots__ = ()
    answered_id: ClassVar[str] = "request_id"

    @property
    def in_reply_to(self) -> RequestId:
        """The id of the message that it answers."""
        found: RequestId = getattr(self, self.answered_id)
        return found


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message in transit, with the author's data that every message carries."""

    contract: ContractAddress
    message_id: RequestId
    incarnation: int
    height: int
    body: Message
    no_ledger: bool = False
    correlation_id: RequestId | None = None
    protocol_version: tuple[int, int] = PROTOCOL_VERSION

    def of_version(self, version: tuple[int, int]) -> Envelope:
        """Return the same envelope from an author of another version."""
        return Envelope(
            self.contract,
            self.message_id,
            self.incarnation,
            self.height,
            self.body,
            self.no_ledger,
            self.correlation_id,
            version,
        )


# Delegation: a Command (repeated until it is accepted or rejected).


@dataclass(frozen=True, slots=True)
class Delegation:
    """One intent of a delegation command, with the number of this hand-over and the reverts so far.

    One that is being voided is to be assembled again, whatever its state here (protocol §4.3).
    """

    intent: Intent
    number: DelegationNumber
    revert_count: int = 0
    is_voiding: bool = False


@dataclass(frozen=True, slots=True)
class DelegationCommand(Message):
    """A sender delegates intents; `tried` lists the members that it could not reach."""

    command_id: RequestId
    delegations: tuple[Delegation, ...]
    tried: tuple[Tried, ...] = ()


class Answer(Enum):
    """The answer to one intent of an accepted command (protocol §4.2)."""

    ACCEPTED = "accepted"
    HELD = "held"
    FULL = "full"
    DISPATCHED = "dispatched"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"


class IntentAnswer(NamedTuple):
    """The answer to one intent of a command; a rejected one has its reason."""

    intent: IntentId
    answer: Answer
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DelegationAccepted(Reply):
    """The delegate coordinates; `heartbeat` is the number of its latest heartbeat at that moment."""

    answered_id: ClassVar[str] = "command_id"
    command_id: RequestId
    answers: tuple[IntentAnswer, ...]
    heartbeat: HeartbeatNumber


class Rejection(Enum):
    """Why a delegation is rejected as a whole, or a round neither endorsed nor judged.

    An endorser rejects a round by a rule of §5, for lack of states, or because its domain failed (`UNAVAILABLE`).
    """

    MISMATCHED_BLOCK_HEIGHT = "MismatchedBlockHeight"
    NOT_PREFERRED_COORDINATOR = "NotPreferredCoordinator"
    NO_LEDGER = "NoLedger"
    NOT_ALLOWED = "NotAllowed"
    MISSING_STATES = "MissingStates"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True)
class DelegationRejected(Reply):
    """The delegate does not coordinate: the heights differ, or `active` is preferred, or it has no ledger."""

    answered_id: ClassVar[str] = "command_id"
    command_id: RequestId
    rejection: Rejection
    provided_height: int = 0
    observed_height: int = 0
    active: NodeName | None = None
    active_age_ms: int = 0
    active_number: HeartbeatNumber = HeartbeatNumber(0, 0)


# Assembly: a Request.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of a slot's assembly: the locked states, and the states that are not yet on the chain."""

    locks: tuple[StateId, ...] = ()
    states: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class AssembleRequest(Message):
    """Assemble these intents of yours, in order, on this snapshot (protocol §7)."""

    request_id: RequestId
    intents: tuple[IntentId, ...]
    snapshot: Snapshot


class AssemblyOutcome(Enum):
    """The domain's result for an intent."""

    ASSEMBLED = "assembled"
    REVERTED = "reverted"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class AssemblyResult:
    """One intent of a slot: its signed transition with the attesters that its plan adds, or why there is none."""

    intent: IntentId
    outcome: AssemblyOutcome
    number: DelegationNumber
    transition: Transition | None = None
    reason: str = ""
    attesters: Attesters = NO_ATTESTERS


@dataclass(frozen=True, slots=True)
class AssembleResponse(Reply):
    """The results of a slot, in the order of its request, and how long they took."""

    request_id: RequestId
    results: tuple[AssemblyResult, ...]
    took_ms: int = 0


class ErrorCode(Enum):
    """Why a sender refuses to assemble an intent or to permit its dispatch."""

    NOT_CURRENT_DELEGATE = "NotCurrentDelegate"
    UNKNOWN_INTENT = "UnknownIntent"
    FINAL_INTENT = "FinalIntent"
    CANCELLED = "Cancelled"
    FAILED = "Failed"
    STALE_DELEGATION = "StaleDelegation"
    STATES_MISSING = "StatesMissing"
    WRONG_LEAF = "WrongLeaf"
    CONTENTION = "Contention"


class IntentError(NamedTuple):
    """The error of one intent of a request."""

    intent: IntentId
    code: ErrorCode
    text: str = ""


@dataclass(frozen=True, slots=True)
class AssembleError(Reply):
    """Intents of a slot that this sender does not assemble for this coordinator."""

    request_id: RequestId
    errors: tuple[IntentError, ...]


# Endorsement: a Request.


@dataclass(frozen=True, slots=True)
class EndorsementRequest(Message):
    """Check these transitions in order and sign their round's digest once (protocol §7).

    `makers` are transitions outside the round, without an outcome, whose states its members spend or read: those about
    which the coordinator has not asked this endorser, or that it reports as missing. `nonces` are those of the members'
    intents, and prove that the ids are their parties'. `attesters` are those of each member, or of none, and name the
    same endorsers: those are asked for approvals first.
    """

    request_id: RequestId
    digest: Digest
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    valid_until_s: int
    tried: tuple[Tried, ...] = ()
    makers: tuple[Transition, ...] = ()
    nonces: tuple[bytes, ...] = ()
    attesters: tuple[Attesters, ...] = ()
    approvals: tuple[EndorserSignature, ...] = ()
    asks_approval: bool = False


class Refusal(NamedTuple):
    """A transition that an endorser does not sign, and why.

    A judgement of the leaf is signed (`digests.refusal_digest`). An objection to the round, or to
    how the transition was shown, is not signed and ends no intent. Nor is a refusal with `kept`: the states that it
    spends or reads are reserved for these prepared transitions.
    """

    intent: IntentId
    reason: str
    kept: tuple[KeptStates, ...] = ()
    leaf: Leaf = NO_LEAF
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class EndorsementResponse(Reply):
    """The signature over the whole round, or over its approval; or the transitions of it that are refused."""

    request_id: RequestId
    digest: Digest
    signature: bytes = b""
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class EndorsementError(Reply):
    """Not a refusal: by §5 this endorser cannot accept the coordinator now; it names the one that it accepts.

    Or it lacks states without which it cannot judge: `missing` are the leaves that made them. Or its domain failed:
    `unjudged` are the leaves on which it did.
    """

    request_id: RequestId
    rejection: Rejection
    accepted: NodeName | None = None
    accepted_number: HeartbeatNumber = HeartbeatNumber(0, 0)
    missing: tuple[Leaf, ...] = ()
    unjudged: tuple[Leaf, ...] = ()


# Permission to dispatch: a Request.


@dataclass(frozen=True, slots=True)
class DispatchItem:
    """One leaf for which permission is requested; the states are sent only to a sender that lost them."""

    intent: IntentId
    number: DelegationNumber
    leaf: Leaf
    signature: bytes
    valid_until_s: int
    transition: Transition | None = None


@dataclass(frozen=True, slots=True)
class DispatchConfirmationRequest(Message):
    """Request for permission to dispatch these leaves of yours in this round."""

    request_id: RequestId
    digest: Digest
    items: tuple[DispatchItem, ...]


@dataclass(frozen=True, slots=True)
class DispatchConfirmationResponse(Reply):
    """Permission for these intents, each for the requested leaf."""

    request_id: RequestId
    intents: tuple[IntentId, ...]


@dataclass(frozen=True, slots=True)
class DispatchConfirmationError(Reply):
    """No permission for these intents."""

    request_id: RequestId
    errors: tuple[IntentError, ...]


# Availability: Notifications.


class ListedIntent(NamedTuple):
    """An intent of the receiver that a coordinator holds, with its state there."""

    intent: IntentId
    state: str


@dataclass(frozen=True, slots=True)
class MissingEndorser:
    """An endorser without an answer for a round with intents of the receiver: for how long, and its last answer."""

    endorser: NodeName
    age_ms: int
    said: str = ""


@dataclass(frozen=True, slots=True)
class CoordinatorHeartbeat(Message):
    """I coordinate, in this state, and I hold these intents of yours.

    A whole list has all of them. Another has the changes since the heartbeat before it, and the intents that are gone;
    count and digest are of the list as it is now, so that a receiver that missed one notices and requests the whole.
    """

    number: HeartbeatNumber
    state: CoordinatorState
    intents: tuple[ListedIntent, ...] = ()
    successor: NodeName | None = None
    refused: NodeName | None = None
    is_whole: bool = True
    gone: tuple[IntentId, ...] = ()
    count: int = 0
    digest: int = 0
    missing: tuple[MissingEndorser, ...] = ()


@dataclass(frozen=True, slots=True)
class ListingRequest(Message):
    """I have missed a heartbeat: send the whole list of my intents with you."""

    number: HeartbeatNumber


@dataclass(frozen=True, slots=True)
class SubmittedIntent:
    """A dispatched intent of the receiver, and the progress of its base-ledger transaction."""

    intent: IntentId
    leaf: Leaf
    signer: str
    nonce: int
    submission_count: int
    submitted_age_ms: int = 0
    activity: str = ""
    hash: bytes = b""
    fees: Fees = Fees(0, 0)


@dataclass(frozen=True, slots=True)
class SubmitterHeartbeat(Message):
    """I submit these dispatched intents of yours."""

    number: HeartbeatNumber
    intents: tuple[SubmittedIntent, ...]


@dataclass(frozen=True, slots=True)
class Startup(Message):
    """I am available again; this claims no rank (protocol §4.4). A ReliableNotification."""

    startup_id: RequestId


@dataclass(frozen=True, slots=True)
class StartupAcknowledgement(Reply):
    """Sent for every copy of a Startup."""

    answered_id: ClassVar[str] = "startup_id"
    startup_id: RequestId


# Hand-over: a Request.


class HandoverReason(Enum):
    """Why a coordinator asks another to yield."""

    OUTRANKS = "outranks"
    TRIED = "tried"


@dataclass(frozen=True, slots=True)
class HandoverRequest(Message):
    """Yield, and send me your open flush points."""

    request_id: RequestId
    reason: HandoverReason


@dataclass(frozen=True, slots=True)
class HandedOver:
    """One flush point and its transition; a state's bytes only to nodes on its list (S8)."""

    point: FlushPoint
    transition: Transition


@dataclass(frozen=True, slots=True)
class HandedRound:
    """An endorsed round: its signatures prove to the new coordinator the flush points that are in it."""

    leaves: tuple[Leaf, ...]
    valid_until_s: int
    signatures: tuple[EndorserSignature, ...]


@dataclass(frozen=True, slots=True)
class Handover(Reply):
    """The old coordinator's open flush points, with their rounds; empty if nothing is to be flushed."""

    request_id: RequestId
    points: tuple[HandedOver, ...] = ()
    rounds: tuple[HandedRound, ...] = ()


# Outcomes of dispatched intents: Notifications that only speed things up.


@dataclass(frozen=True, slots=True)
class TransactionDispatched(Message):
    """These leaves of yours have a signer and a nonce."""

    digest: Digest
    intents: tuple[SubmittedIntent, ...]


@dataclass(frozen=True, slots=True)
class TransactionReverted(Message):
    """The coordinator has given up on this intent, because endorsers refused its leaf or the ledger does.

    The sender ends it only by signed refusals of more than n - k endorsers, or by its own index.
    """

    intent: IntentId
    number: DelegationNumber
    leaf: Leaf
    reason: str
    refusals: tuple[EndorserSignature, ...] = ()


# Private states to their parties: assured data distribution, persisted on both sides.


@dataclass(frozen=True, slots=True)
class StateDistribution(Message):
    """The states of a dispatched round that the receiver may see; digest and part are the same on every repeat."""

    digest: Digest
    transitions: tuple[Transition, ...]
    part: int = 0


@dataclass(frozen=True, slots=True)
class StateDistributionAcknowledgement(Message):
    """The states of that part of the round are durable here; sent for every copy."""

    digest: Digest
    part: int = 0


@dataclass(frozen=True, slots=True)
class StateRequest(Message):
    """Send me again the states of these leaves, as far as I may see them."""

    leaves: tuple[Leaf, ...]


# Prepared transitions to their senders: assured, persisted on both sides; the leaf is the same on every repeat.


@dataclass(frozen=True, slots=True)
class PreparedTransaction(Message):
    """An endorsed transition of yours, with its round and all other data that a committer needs (protocol §4.2).

    It is stored unchanged, so that it too keeps fields that only a newer version understands.
    """

    digest: Digest
    leaves: tuple[Leaf, ...]
    valid_until_s: int
    signatures: tuple[EndorserSignature, ...]
    transition: Transition
    unknown: bytes = b""


@dataclass(frozen=True, slots=True)
class PreparedTransactionAcknowledgement(Message):
    """That leaf is durable here, or not needed; sent for every copy."""

    intent: IntentId
    leaf: Leaf


# Verifiers of parties: a Request.


@dataclass(frozen=True, slots=True)
class VerifierRequest(Message):
    """Request for the verifier of this party of yours; with `asks_announced` also whether your users have used it."""

    request_id: RequestId
    party: Party
    asks_announced: bool = False


@dataclass(frozen=True, slots=True)
class VerifierResponse(Reply):
    """The party's verifier; empty when there is no such party here.

    `announced` is whether users of this node have used the party; None when that was not requested, or is not given.
    """

    request_id: RequestId
    party: Party
    verifier: str = ""
    announced: bool | None = None


# A contract to its members, before it is on the chain: a Request in two turns, and Notifications.


@dataclass(frozen=True, slots=True)
class DeploymentProposal(Message):
    """A contract that the factory is to deploy under this id: accept or refuse it. Repeated until it is answered.

    First without `signers`: an endorser answers with its address. Then with those of all endorsers, in their order.
    """

    request_id: RequestId
    deployment: IntentId
    genesis: bytes
    factory: ContractAddress
    signers: tuple[ContractAddress, ...] = ()


class Verdict(Enum):
    """A node's decision about a contract that is proposed to it."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class DeploymentAnswer(Reply):
    """Accepted: it is durable here, with the address of an endorser. Refused: never. Busy: ask again; and the reason.

    `asked_since_s` is set while the node's operator has to answer: the chain time at which the operator was asked.
    """

    request_id: RequestId
    deployment: IntentId
    verdict: Verdict
    endorser: ContractAddress | None = None
    reason: str = ""
    asked_since_s: int = 0


@dataclass(frozen=True, slots=True)
class ContractTakenIn(Message):
    """The contract that you proposed under this id is on the chain, and we have it."""

    deployment: IntentId


@dataclass(frozen=True, slots=True)
class DeploymentWithdrawn(Message):
    """The contract proposed under this id will not be deployed: forget it."""

    deployment: IntentId


# Contracts that a node should have and lacks: Requests (decision 32).

CONTRACTS_LISTED_MAX = 1_024


@dataclass(frozen=True, slots=True)
class ContractsRequest(Message):
    """Request for the contracts that I may have: those whose addresses come after this one, in order."""

    request_id: RequestId
    after: ContractAddress


@dataclass(frozen=True, slots=True)
class ContractsResponse(Reply):
    """The next of them; when they are fewer than `CONTRACTS_LISTED_MAX`, there are no more."""

    request_id: RequestId
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class GenesisRequest(Message):
    """Request for the genesis of this envelope's contract, which you named and I lack."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class GenesisResponse(Reply):
    """Its genesis, whose hash is on the chain, and the intent that deployed it."""

    request_id: RequestId
    deployment: IntentId
    genesis: bytes


# Messages of privacy groups: assured, durable on both sides. They are not part of sequencing or of the core.


@dataclass(frozen=True, slots=True)
class GroupMessage(Message):
    """A message of a group's member to the others; the envelope names the group's contract. `content` is JSON."""

    id: IntentId
    sent_at_ms: int
    topic: str
    content: bytes
    correlation_id: IntentId | None = None


@dataclass(frozen=True, slots=True)
class GroupMessageAcknowledgement(Message):
    """The message is durable here."""

    id: IntentId


# Holders of a transaction's states: asked when its receipt is final, for users who read at another node (api.md).
# They are not part of sequencing or of the core.


@dataclass(frozen=True, slots=True)
class HoldingsRequest(Message):
    """Request whether you have indexed this block and hold the states of these leaves."""

    request_id: RequestId
    height: int
    block_hash: BlockHash
    holdings: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class HoldingsResponse(Reply):
    """The block is indexed here, and the states of these leaves are durable."""

    request_id: RequestId
    leaves: tuple[Leaf, ...]
