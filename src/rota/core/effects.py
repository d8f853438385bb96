"""All that a step may ask for. Effects are values; whoever runs the core performs them.

A `Persist` governs what stands behind it in a step's list, up to the next one: those effects leave only when
its records are durable, and so do those of later steps of the same contract (protocol §8). When the write
fails they are dropped and `PersistFailed` is told: everything that was dropped is repeated by its own rule. A receipt,
which is told once, stands before all writes: what it rests on is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.messages import Envelope, Snapshot
from rota.types import (
    ContractAddress,
    DelegationNumber,
    Digest,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    Receipt,
    RequestId,
    Transition,
)


class Effect:
    """An order to the world around the core."""

    __slots__ = ()


class Record:
    """Something that a syncpoint makes durable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SendMessage(Effect):
    """Send to a peer; it may be lost."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Persist(Effect):
    """Write these records in one database transaction, before any other effect of this step."""

    contract: ContractAddress
    token: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ReplyToUser(Effect):
    """Answer a user's request; an empty error means that it was taken."""

    reply_to: str
    intent: IntentId
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReportReceipt(Effect):
    """An intent of this node has its final outcome."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class AssembleIntents(Effect):
    """Have the domain assemble these intents, one after the other, on this snapshot at this height."""

    contract: ContractAddress
    request_id: RequestId
    intents: tuple[Intent, ...]
    snapshot: Snapshot
    height: int
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class SignTransition(Effect):
    """Have the `from` party sign the leaf of what was assembled."""

    contract: ContractAddress
    request_id: RequestId
    intent: IntentId
    party: Party
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class VerifySignature(Effect):
    """Does this leaf bear our party's signature?"""

    contract: ContractAddress
    request_id: RequestId
    intent: IntentId
    party: Party
    leaf: Leaf
    signature: bytes


@dataclass(frozen=True, slots=True)
class CheckRound(Effect):
    """Have the domain check these transitions on top of one another, and sign the digest if all are right."""

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId
    digest: Digest
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class LookUpVerifier(Effect):
    """Which verifier has this party of our own node? The answer goes to `peer`."""

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId
    party: Party


@dataclass(frozen=True, slots=True)
class DispatchRound(Effect):
    """Make this round a base-ledger transaction: to the node's submitter."""

    contract: ContractAddress
    digest: Digest
    leaves: tuple[Leaf, ...]
    transitions: tuple[Transition, ...]
    senders: tuple[NodeName, ...]
    signatures: tuple[tuple[NodeName, bytes], ...]
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class SubmitTransaction(Effect):
    """Send a dispatched round to the chain, with its nonce; sending it again changes nothing."""

    dispatch: RoundDispatch


# Records.


@dataclass(frozen=True, slots=True)
class NodeStarted(Record):
    """A new life of the node: durable before its first message."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class RoundDispatch(Record):
    """The dispatch syncpoint: a round with its signer and nonce, its states, and whom they concern."""

    round: DispatchRound
    signer: str
    nonce: int


@dataclass(frozen=True, slots=True)
class StatesReceived(Record):
    """State received: then the acknowledgement leaves."""

    digest: Digest
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class StatesAcknowledged(Record):
    """Acknowledged: the receiver has these states, and they are not sent to it again."""

    digest: Digest
    peer: NodeName


@dataclass(frozen=True, slots=True)
class IntentAccepted(Record):
    """Intent accepted: then the user gets its id."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class IntentParked(Record):
    """The domain parked it; it waits for the user."""

    intent: IntentId
    reason: str


@dataclass(frozen=True, slots=True)
class IntentResumed(Record):
    """The user resumed it."""

    intent: IntentId


@dataclass(frozen=True, slots=True)
class CancelAccepted(Record):
    """The user cancelled it; it ends when no version of it can happen any more."""

    intent: IntentId


@dataclass(frozen=True, slots=True)
class PermissionGranted(Record):
    """Permission granted: then the answer leaves. It holds the states that the leaf makes."""

    intent: IntentId
    number: DelegationNumber
    delegate: NodeName
    transition: Transition


@dataclass(frozen=True, slots=True)
class IntentFinalised(Record):
    """Finalised off chain: then it is told."""

    receipt: Receipt
