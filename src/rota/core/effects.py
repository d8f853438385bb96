"""All that a step may ask for. Effects are values; whoever runs the core performs them.

A `Persist` governs what stands behind it in a step's list, up to the next one: those effects leave only when
its records are durable, and so do those of later steps of the same contract (protocol §8). When the write
fails they are dropped and `PersistFailed` is told: everything that was dropped is repeated by its own rule. A receipt,
which is told once, stands before all writes: what it rests on is durable.
"""

from __future__ import annotations

from typing import NamedTuple

from rota.core.consent import Decision
from rota.core.consistency import Authorised, Consistent
from rota.core.events.chain import ChainBlock
from rota.core.signed import Signed as Signed
from rota.frozen import dataclass
from rota.messages import EndorserSignature, Envelope, PreparedTransaction, Snapshot
from rota.types import (
    Attesters,
    AwaitedLeaf,
    CallFailure,
    ContractAddress,
    DelegationNumber,
    Digest,
    Fees,
    Intent,
    IntentId,
    KeptStates,
    KnownContract,
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


class Report(Effect):
    """Tells a user what is durable already: no write governs it."""

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
class ReplyToUser(Report):
    """Answer a user's request; an empty error means that it was taken, and that this is durable."""

    reply_to: str
    intent: IntentId
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReportReceipt(Report):
    """An intent of this node has its final outcome."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class ReportFinalityBroken(Report):
    """The chain took back blocks that were final: all above `parted_at`, up to `final_height` they had been reported.

    The receipts of these intents no longer hold, and are marked in the store.
    """

    parted_at: int
    final_height: int
    intents: tuple[IntentId, ...]


@dataclass(frozen=True, slots=True)
class ReportPrepared(Report):
    """An external intent of this node is endorsed: its user has it committed; may be told again after a restart."""

    contract: ContractAddress
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class ReportVerifier(Report):
    """The answer to `VerifierWanted`: by its own node's word this verifier stands for a party; empty for a stranger.

    `announced` says whether that node's users have used the party, None when it did not say.
    """

    contract: ContractAddress
    party: Party
    verifier: str
    announced: bool | None = None


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
    """Have the `from` party sign the leaf of what was assembled, and until when it may be committed (trust rule 3).

    Where transitions are proved, the intent's own key signs it, which the nonce leads to, and a proof is made of it.
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
    """Does this leaf bear our party's signature, with this end of its validity?"""

    contract: ContractAddress
    request_id: RequestId
    intent: IntentId
    party: Party
    leaf: Leaf
    valid_until_s: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifyParties(Effect):
    """Which of these transitions bear the signatures of the party beside them and of those that their plans add?"""

    contract: ContractAddress
    request_id: RequestId
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    attesters: tuple[Attesters, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckRound(Effect):
    """Have the domain check these transitions on top of one another, and sign the digest if all are right.

    `makers` made what they spend or read and is not on the chain, as far as we know them. What is in neither, and not
    in the store, is missing. Whether each has the `attesters` that it needs the domain says, too.
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
    """Did this endorser sign that round? One wrong signature would fail the whole transaction on the ledger."""

    contract: ContractAddress
    peer: NodeName
    digest: Digest
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifyEndorsers(Effect):
    """Which of these did their endorsers sign? Asked of refusals, with the intent by its sender, and of hand-overs."""

    contract: ContractAddress
    request_id: RequestId
    signed: tuple[Signed, ...]
    intent: IntentId | None = None


@dataclass(frozen=True, slots=True)
class FindStates(Effect):
    """Find in the store the transitions of these leaves, with the states that the peer may see."""

    contract: ContractAddress
    peer: NodeName
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class DistributeStates(Effect):
    """Send what this leaf of ours makes to all on the lists: who committed it need not have done so."""

    contract: ContractAddress
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class StoreStates(Effect):
    """Write what this endorser has seen: it is on the chain, and nobody has sent it."""

    contract: ContractAddress
    transition: Consistent


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
class LookUpIntents(Effect):
    """Ask the store: which intent has this key, if any, what became of these intents of ours, and of these leaves?"""

    token: int
    key: str
    intents: tuple[IntentId, ...]
    leaves: tuple[AwaitedLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadContract(Effect):
    """Load a contract from the store: its configuration, unfinished intents, and dispatches without an outcome."""

    contract: ContractAddress


@dataclass(frozen=True, slots=True)
class FetchBlocks(Effect):
    """Ask the chain for these blocks, both ends included; told as `BlocksFetched`, or not at all.

    With what the factory deployed in them under the ids that are awaited, and with the rounds of those contracts.
    """

    first: int
    last: int
    awaited: tuple[IntentId, ...] = ()


@dataclass(frozen=True, slots=True)
class SignDispatch(Effect):
    """Have the node's signer sign the base-ledger transaction of a round, with this nonce and these fees."""

    round: DispatchRound
    signer: str
    nonce: int
    fees: Fees


@dataclass(frozen=True, slots=True)
class RecallDeliveries(Effect):
    """Read from the store the first deliveries that a peer has not acknowledged, as many as fit, at least one."""

    peer: NodeName
    number: int
    count_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class RecallDispatches(Effect):
    """Find in the store what this node dispatched with these nonces. Told as `DispatchesRecalled`, or not at all.

    The chain has taken back final blocks that used them, or knows less of our nonces than we do.
    """

    nonces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SubmitTransaction(Effect):
    """Send a signed base-ledger transaction to the chain; sending it again changes nothing."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class JudgeProposal(Effect):
    """Would this node have this contract, and with which address would it endorse? Told as `ProposalJudged`.

    `peer` proposes it; it may be our own node. With `signers` it is to be judged with those of all endorsers.
    """

    peer: NodeName
    request_id: RequestId
    deployment: IntentId
    genesis: bytes
    factory: ContractAddress
    signers: tuple[ContractAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFactory(Effect):
    """Have the factory deploy this contract, unless it has used the id already; told as `FactoryCalled` or refused.

    Calling it again changes nothing: a deployment's id is used once.
    """

    deployment: IntentId
    genesis: bytes
    signers: tuple[ContractAddress, ...]
    threshold: int
    ledger: bytes = b""


@dataclass(frozen=True, slots=True)
class ListContracts(Effect):
    """Which of our contracts are open to this peer, in the order of their addresses, after this one? `ContractsListed`.

    At most `CONTRACTS_LISTED_MAX`.
    """

    peer: NodeName
    request_id: RequestId
    after: ContractAddress


@dataclass(frozen=True, slots=True)
class SiftContracts(Effect):
    """Which of these contracts, that a peer says we may have, do we lack? Told as `ContractsSifted`."""

    peer: NodeName
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class FindGenesis(Effect):
    """A peer wants to know what this contract is. Told as `GenesisFound` if we have it."""

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class AcquireContract(Effect):
    """Have this contract from now on, if the chain says that it was deployed so. Told as `AcquisitionEnded`.

    Without `has_consent` it is only verified: our operator has not agreed to the part that it gives to this node.
    """

    contract: ContractAddress
    peer: NodeName
    deployment: IntentId
    genesis: bytes
    has_consent: bool = True


@dataclass(frozen=True, slots=True)
class ContractWanted(Effect):
    """Our operator has agreed to a contract of which this peer told us: to the node, which asks the peer again."""

    contract: ContractAddress
    peer: NodeName


@dataclass(frozen=True, slots=True)
class TakeInContract(Effect):
    """From now on this node has this contract, which is in its store: look for its rounds, and host it."""

    known: KnownContract


# Records.


@dataclass(frozen=True, slots=True)
class NodeStarted(Record):
    """A new life of the node: durable before its first message."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class StoreTried(Record):
    """Nothing of its own: a node whose writes fail finds out whether it can write at all."""


@dataclass(frozen=True, slots=True)
class RoundDispatch(Record):
    """The dispatch syncpoint: a round as a signed transaction with its nonce, its states, and whom they concern."""

    round: DispatchRound
    signer: str
    nonce: int
    fees: Fees = Fees(0, 0)
    transaction: bytes = b""
    hash: bytes = b""


@dataclass(frozen=True, slots=True)
class DispatchRepriced(Record):
    """Re-priced: the same nonce and payload for more; then it is sent."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class BlocksIndexed(Record):
    """Block indexed: what the index has above `parted_at` goes, and these blocks come in its place."""

    parted_at: int
    blocks: tuple[ChainBlock, ...]


class UndoneCommit(NamedTuple):
    """What a final block did that was taken back: a contract's leaf, or, without a leaf, a deployment."""

    height: int
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class FinalityBroken(Record):
    """Finality broken: the receipts of these no longer hold. Before the `BlocksIndexed` that takes the blocks back."""

    parted_at: int
    final_height: int
    undone: tuple[UndoneCommit, ...]


@dataclass(frozen=True, slots=True)
class StatesReceived(Record):
    """State received: then the acknowledgement leaves. Without a peer it is what our own endorser has seen."""

    digest: Digest
    transitions: tuple[Consistent, ...]
    part: int = 0
    peer: NodeName | None = None


@dataclass(frozen=True, slots=True)
class StatesAcknowledged(Record):
    """Acknowledged: the receiver has these states, and they are not sent to it again."""

    digest: Digest
    peer: NodeName
    part: int = 0


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
class EndingDecided(Record):
    """It ends for this reason when no version of it can happen any more; a cancel is one reason."""

    intent: IntentId
    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class LeavesSigned(Record):
    """What parties of ours signed for one slot, with all contents: then it leaves.

    Whoever gets it endorsed may commit it without asking us, so that from now on our own node must have the contents.
    """

    transitions: tuple[Authorised, ...]


@dataclass(frozen=True, slots=True)
class PermissionGranted(Record):
    """Permission granted: then the answer leaves. What the leaf makes is durable since it was signed."""

    intent: IntentId
    number: DelegationNumber
    delegate: NodeName
    leaf: Leaf
    valid_until_s: int


@dataclass(frozen=True, slots=True)
class TransitionPrepared(Record):
    """Prepared at the coordinator: then it is sent to its sender, until that acknowledges it."""

    sender: NodeName
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class PreparedAcknowledged(Record):
    """The sender has that prepared transition, or has no use for it: it is not sent again."""

    intent: IntentId
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class TransitionIssued(Record):
    """Prepared at the sender: then it is acknowledged and given to the user.

    After `void_after_s` no version of the intent is valid: none is signed after this one.
    """

    prepared: PreparedTransaction
    void_after_s: int


@dataclass(frozen=True, slots=True)
class PreparedEndorsed(Record):
    """A round's prepared transitions are endorsed: then the signature leaves. No other intent gets these states."""

    kept: tuple[KeptStates, ...]


@dataclass(frozen=True, slots=True)
class IntentFinalised(Record):
    """Finalised off chain: then it is told."""

    receipt: Receipt


# Records of deployments.


@dataclass(frozen=True, slots=True)
class DeploymentAgreed(Record):
    """Agreed (deployer): all know who signs. Then the factory is called, with these addresses and no others."""

    deployment: IntentId
    signers: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A contract that a peer wants us to have, and with which address we endorse in it, if we do.

    `request_id` is the latest by which it was proposed, `signers` are there when all endorsers have said theirs.
    `received_at_s` is chain time: it is forgotten by age. `decision` is what our operator said to it, who was asked at
    `asked_at_s` of chain time and may have given a reason. `contract` is set when it is on the chain already and the
    peer only told us of it. The endorser's address is told to nobody before the operator has agreed.
    """

    peer: NodeName
    deployment: IntentId
    genesis: bytes
    request_id: RequestId
    received_at_s: int
    endorser: ContractAddress | None = None
    signers: tuple[ContractAddress, ...] = ()
    decision: Decision = Decision.GIVEN
    asked_at_s: int = 0
    reason: str = ""
    contract: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class DeploymentProposed(Record):
    """Proposed, or decided by the operator (member): then the answer leaves."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ProposalForgotten(Record):
    """Withdrawn by its proposer, or too old."""

    peer: NodeName
    deployment: IntentId


@dataclass(frozen=True, slots=True)
class ContractTaken(Record):
    """The chain has a contract that was proposed to us or by us: durable with the block that says so."""

    known: KnownContract
