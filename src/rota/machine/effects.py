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
    """Write these records in one database transaction, before any other effect of this step or of a later one."""

    contract: ContractAddress
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ReplyToUser(Effect):
    """Answer a user's request; an empty error means that it was taken, and that this is durable."""

    reply_to: str
    intent: IntentId
    error: str = ""
    # The same request may be taken later.
    is_temporary: bool = False
    # The field of the request that the error is about, if it is about one.
    field: str = ""


@dataclass(frozen=True, slots=True)
class ReportReceipt(Effect):
    """An intent of this node has its final outcome."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class ReportVerifier(Effect):
    """The answer to `VerifierWanted`: by its own node's word this verifier stands for a party; empty for a stranger.

    `announced` says whether that node's users have used the party, None when it did not say.
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
    """Which verifier has this party of our own node, and if that is asked, have our users used it?

    The answer goes to `peer`.
    """

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId
    party: Party
    asks_announced: bool = False


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
class IntentAccepted(Record):
    """Intent accepted: then the user gets its id."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class TransitionPrepared(Record):
    """Prepared at the coordinator: then it is sent to its sender, until that acknowledges it."""

    sender: NodeName
    prepared: PreparedTransaction
    party: Party = Party("")


@dataclass(frozen=True, slots=True)
class IntentFinalised(Record):
    """Finalised off chain: then it is told."""

    receipt: Receipt
