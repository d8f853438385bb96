"""Effects and records that several packages share. Effects are values; the running node or the simulator performs them.

Effects leave in the order in which they were ordered. Those behind a `Persist`, of this step and of later ones, leave
when its records are durable (protocol §8).
"""

from __future__ import annotations

from rota.model.frozen import dataclass
from rota.model.types import (
    ContractAddress,
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
from rota.wire.messages import Envelope, PreparedTransaction


class Effect:
    """An order that the running node or the simulator carries out."""

    __slots__ = ()


class Record:
    """Data that a syncpoint makes durable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SendMessage(Effect):
    """Send a message to a peer; it may be lost."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Persist(Effect):
    """Write these records in one database transaction, before any other effect of this step or of a later one."""

    contract: ContractAddress
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ReplyToUser(Effect):
    """Answer a user's request; an empty error means that the request was accepted, durably."""

    reply_to: str
    intent: IntentId
    error: str = ""
    # The same request may be accepted later.
    is_temporary: bool = False
    # The field of the request that the error is about, if any.
    field: str = ""


@dataclass(frozen=True, slots=True)
class ReportReceipt(Effect):
    """An intent of this node has its final outcome."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class ReportVerifier(Effect):
    """The answer to `VerifierWanted`: a party's verifier, as its own node reports it; empty for an unknown party.

    `announced` is whether that node's users have used the party, None when it did not report that.
    """

    contract: ContractAddress
    party: Party
    verifier: str
    announced: bool | None = None


@dataclass(frozen=True, slots=True)
class FindStates(Effect):
    """Find in the store the transitions of these leaves, with the states that the peer may see."""

    contract: ContractAddress
    peer: NodeName
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class LookUpVerifier(Effect):
    """Look up the verifier of a party of this node, and on request whether users here have used the party.

    The answer goes to `peer`.
    """

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId
    party: Party
    asks_announced: bool = False


@dataclass(frozen=True, slots=True)
class DispatchRound(Effect):
    """Dispatch this round as a base-ledger transaction, through the node's submitter."""

    contract: ContractAddress
    digest: Digest
    leaves: tuple[Leaf, ...]
    transitions: tuple[Transition, ...]
    senders: tuple[NodeName, ...]
    signatures: tuple[tuple[NodeName, bytes], ...]
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class IntentAccepted(Record):
    """Intent accepted: recorded before the user gets its id."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class TransitionPrepared(Record):
    """Prepared at the coordinator: recorded before it is sent to its sender, until that acknowledges it."""

    sender: NodeName
    prepared: PreparedTransaction
    party: Party = Party("")


@dataclass(frozen=True, slots=True)
class IntentFinalised(Record):
    """Finalised off chain: recorded before it is reported."""

    receipt: Receipt
