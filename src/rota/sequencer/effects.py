"""Effects and records of a sequencer; those that other packages share are in `rota.machine.effects`."""

from __future__ import annotations

from typing import NamedTuple

from rota.machine.effects import Effect, Record
from rota.model.consistency import Authorised, Consistent
from rota.model.frozen import dataclass
from rota.model.types import (
    Attesters,
    CallFailure,
    ContractAddress,
    DelegationNumber,
    Digest,
    Intent,
    IntentId,
    KeptStates,
    Leaf,
    NodeName,
    Party,
    RequestId,
    Transition,
)
from rota.wire.messages import EndorserSignature, PreparedTransaction, Snapshot


@dataclass(frozen=True, slots=True)
class ReportPrepared(Effect):
    """An external intent of this node is endorsed: its user may have it committed; repeated after a restart."""

    contract: ContractAddress
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class AssembleIntents(Effect):
    """Have the domain assemble these intents, one after the other, on this snapshot at this height.

    A transition with a preparation may be valid until `prepared_valid_until_s`, any other until `valid_until_s`.
    """

    contract: ContractAddress
    request_id: RequestId
    intents: tuple[Intent, ...]
    snapshot: Snapshot
    height: int
    valid_until_s: int
    prepared_valid_until_s: int


@dataclass(frozen=True, slots=True)
class SignTransition(Effect):
    """Have the `from` party sign an assembled leaf, and until when it may be committed (trust rule 3).

    Where transitions are proved, the intent's own key signs it, to which the nonce leads, and a proof is made of it.
    """

    contract: ContractAddress
    request_id: RequestId
    intent: IntentId
    party: Party
    leaf: Leaf
    valid_until_s: int
    nonce: bytes = b""
    cosigners: tuple[Party, ...] = ()  # Parties of the same node that sign the same.


@dataclass(frozen=True, slots=True)
class JudgeFailure(Effect):
    """Ask the sender's own domain whether an intent whose version failed on the ledger is worth another attempt."""

    contract: ContractAddress
    intent: Intent
    leaf: Leaf
    failure: CallFailure


@dataclass(frozen=True, slots=True)
class VerifySignature(Effect):
    """Verify whether this leaf bears our party's signature, with this end of its validity."""

    contract: ContractAddress
    request_id: RequestId
    intent: IntentId
    party: Party
    leaf: Leaf
    valid_until_s: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifyParties(Effect):
    """Verify which transitions bear the signatures of the party beside them and of those their plans add."""

    contract: ContractAddress
    request_id: RequestId
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    attesters: tuple[Attesters, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckRound(Effect):
    """Have the domain check these transitions on top of one another, and sign the digest if all are right.

    `makers` are the known transitions that made their states which are not on the chain. A state that is in neither,
    and not in the store, is missing. The domain also judges whether each has the `attesters` that it needs.
    """

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId
    digest: Digest
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    valid_until_s: int
    makers: tuple[Transition, ...] = ()
    attesters: tuple[Attesters, ...] = ()
    approvals: tuple[EndorserSignature, ...] = ()
    asks_approval: bool = False


@dataclass(frozen=True, slots=True)
class VerifyEndorsement(Effect):
    """Verify whether this endorser signed that round. One wrong signature would fail the whole ledger transaction."""

    contract: ContractAddress
    peer: NodeName
    digest: Digest
    signature: bytes


class Signed(NamedTuple):
    """A digest with the signature of an endorser, to be verified."""

    endorser: NodeName
    digest: Digest
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifyEndorsers(Effect):
    """Verify which of these their endorsers signed: refusals, with the intent by its sender, and hand-overs."""

    contract: ContractAddress
    request_id: RequestId
    signed: tuple[Signed, ...]
    intent: IntentId | None = None


@dataclass(frozen=True, slots=True)
class DistributeStates(Effect):
    """Send the states of a leaf of ours to all on the lists: the node that committed it need not have done so."""

    contract: ContractAddress
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class StoreStates(Effect):
    """Store states that this endorser has seen: they are on the chain, and no node has sent them."""

    contract: ContractAddress
    transition: Consistent


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
class EndingDecided(Record):
    """The intent ends for this reason when no version of it can be committed any more; a cancel is one reason."""

    intent: IntentId
    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class LeavesSigned(Record):
    """Versions that parties of ours signed for one slot, with all contents: recorded before they leave.

    A node that gets one endorsed may commit it without permission, so from now on this node must have the contents.
    """

    transitions: tuple[Authorised, ...]


@dataclass(frozen=True, slots=True)
class PermissionGranted(Record):
    """Permission granted: recorded before the answer leaves. The leaf's states are durable since it was signed."""

    intent: IntentId
    number: DelegationNumber
    delegate: NodeName
    leaf: Leaf
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class PreparedAcknowledged(Record):
    """The sender has that prepared transition, or does not need it: it is not sent again."""

    intent: IntentId
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class TransitionIssued(Record):
    """Prepared at the sender: recorded before it is acknowledged and given to the user.

    After `void_after_s` no version of the intent is valid: none is signed after this one.
    """

    prepared: PreparedTransaction
    void_after_s: int


@dataclass(frozen=True, slots=True)
class PreparedEndorsed(Record):
    """A round's prepared transitions are endorsed: recorded before the signature leaves. Their states are reserved."""

    kept: tuple[KeptStates, ...]
