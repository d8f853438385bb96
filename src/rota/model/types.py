"""Values that all packages share: ids, states, transitions, contracts, receipts.

All of them are frozen: a value that two machines hold is the same value. Time is integer
milliseconds, chain time integer seconds, and neither is ever compared across nodes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, IntEnum
from typing import Final, NamedTuple, NewType, TypeAlias

from rota.model.frozen import dataclass

NodeName = NewType("NodeName", str)
Party = NewType("Party", str)
ContractAddress = NewType("ContractAddress", str)
IntentId = NewType("IntentId", bytes)
Leaf = NewType("Leaf", bytes)
Digest = NewType("Digest", bytes)
BlockHash = NewType("BlockHash", bytes)

NO_LEAF = Leaf(b"")
INTENT_ID_USED: Final = "INTENT_ID_USED"
FINALITY_BROKEN: Final = "FINALITY_BROKEN"
FINALITY_BROKEN_REASON: Final = (
    f"{FINALITY_BROKEN}: the chain took back the final block that had it; it may return, so find out before you submit "
    "it again"
)
# The contract of messages about one that has no address yet; no contract can be deployed to this address.
NO_CONTRACT = ContractAddress("0x" + "ff" * 20)
# A submitting account is named by the contract whose own account it is; this names the shared one.
SHARED_ACCOUNT = ContractAddress("")
CALL_BYTES_MAX: Final = 65_535
CALL_GAS_MAX: Final = 2**32 - 1
CONDITION_BYTES: Final = 32
LOCK_WORD_BYTES: Final = 32
LOCK_EXPIRY_MAX: Final = 2**64 - 1
# The delegate of a lock that has none.
NO_DELEGATE: Final = ContractAddress("0x" + "00" * 20)

_ADDRESS: Final = re.compile("0x([0-9a-f]{40})")


def intent_text(intent: IntentId) -> str:
    """Return an intent's id in the form that users know: a UUID."""
    text = intent.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def address_bytes(address: ContractAddress) -> bytes:
    """Return the 20 bytes of an address, which is always written as 0x and lower-case digits."""
    match = _ADDRESS.fullmatch(address)
    assert match, f"an address is 0x and 40 lower-case hex digits, not {address!r}"
    return bytes.fromhex(match[1])


def is_address(text: str) -> bool:
    """Whether a text is an address in that form."""
    return _ADDRESS.fullmatch(text) is not None


class Rejected(Exception):
    """The caller's error: the wrong field, and the correction."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class HeartbeatNumber(NamedTuple):
    """Orders the heartbeats of one node for one contract, across its restarts."""

    incarnation: int
    sequence: int


NEVER_HEARD = HeartbeatNumber(0, 0)


class DelegationNumber(NamedTuple):
    """Orders the delegations of one intent; a restarted sender's is always the greater (protocol §4.3)."""

    incarnation: int
    counter: int


class RequestId(NamedTuple):
    """Orders the requests of one node, across its restarts."""

    incarnation: int
    counter: int


class StateId(NamedTuple):
    """A state, named by the leaf that made it and its number among that leaf's outputs (ledger)."""

    leaf: Leaf
    output: int


class Tried(NamedTuple):
    """A member that a node could not reach, or has demoted, and the latest heartbeat number that it had from it."""

    node: NodeName
    number: HeartbeatNumber
    is_demoted: bool = False


class FlushPoint(NamedTuple):
    """A transition that must have its outcome before a new coordinator may begin (protocol §4.1)."""

    digest: Digest
    intent: IntentId


class Fees(NamedTuple):
    """The offer of a base-ledger transaction for a unit of gas (EIP-1559)."""

    most_wei: int
    tip_wei: int


class Mode(Enum):
    """The nodes that may coordinate a contract; set by its domain (protocol §2)."""

    SENDER = "sender"
    STATIC = "static"
    RING = "ring"


class Rotation(Enum):
    """When a sender consults the ranking again (protocol §3)."""

    STICKY = "sticky"
    STRICT = "strict"


class SubmitMode(Enum):
    """The way in which an intent's transition gets to the base ledger (protocol §4.2).

    `AUTO`: the coordinator's submitter. `EXTERNAL`: the program to which its user gives the prepared transition.
    `CARRIED`: another private contract, which the endorser's node asks.
    """

    AUTO = "auto"
    EXTERNAL = "external"
    CARRIED = "carried"


def node_of(party: Party) -> NodeName:
    """Return the node of a party: the part after the last @ of `alice@node1`."""
    return NodeName(party.rpartition("@")[2])


@dataclass(frozen=True, slots=True)
class SequencingChoice:
    """Terms of sequencing that a deployment asks for.

    None: the domain sets the mode, and the node's configuration the other two.
    """

    mode: Mode | None = None
    rotation: Rotation | None = None
    range_size: int | None = None


NOTHING_CHOSEN: Final = SequencingChoice()
RANGE_SIZE_MAX: Final = 2**32

# The proposer of a contract chooses them, and a node computes every place when it first ranks.
VIRTUAL_NODES_MAX: Final = 65_536
RING_PLACES_MAX: Final = 131_072


@dataclass(frozen=True, slots=True)
class Contract:
    """A private contract's own configuration, fixed at its creation and the same on all nodes (protocol §2)."""

    address: ContractAddress
    committee: tuple[NodeName, ...]
    endorsers: tuple[NodeName, ...]
    threshold: int
    mode: Mode = Mode.RING
    rotation: Rotation = Rotation.STICKY
    range_size: int = 100
    virtual_nodes: int = 1024
    chain_id: int = 1337

    def __post_init__(self) -> None:
        _require(bool(self.committee), "committee", "at least one node")
        _require(len(set(self.committee)) == len(self.committee), "committee", "distinct nodes")
        _require(self.mode is not Mode.STATIC or len(self.committee) == 1, "committee", "one node in static mode")
        _require(len(set(self.endorsers)) == len(self.endorsers), "endorsers", "distinct nodes")
        _require(0 <= self.threshold <= len(self.endorsers), "threshold", f"from 0 to {len(self.endorsers)}")
        # A genesis is taken in with at most `RANGE_SIZE_MAX` and `virtual_nodes_max`; older releases took in longer
        # ranges and more places, which are stored.
        _require(1 <= self.range_size < 1 << 64, "range_size", f"from 1 to {(1 << 64) - 1} blocks")
        _require(self.virtual_nodes >= 1, "virtual_nodes", "at least 1")

    @property
    def virtual_nodes_max(self) -> int:
        """The most places of a member with which a node takes this contract in."""
        shared = RING_PLACES_MAX // len(self.committee)
        return min(VIRTUAL_NODES_MAX, shared) if self.mode is Mode.RING else VIRTUAL_NODES_MAX

    @property
    def spare(self) -> int:
        """The number of endorsers that may refuse, n - k; with more refusals a round cannot be endorsed."""
        return len(self.endorsers) - self.threshold

    @property
    def insiders(self) -> frozenset[NodeName] | None:
        """The nodes that may know of it and have states of it; `None` where any node may."""
        return frozenset((*self.committee, *self.endorsers)) if self.mode is Mode.RING else None

    def range_at(self, height: int) -> int:
        """The block range that a height lies in."""
        return height // self.range_size


def _require(holds: bool, field: str, right: str) -> None:
    if not holds:
        raise ValueError(f"{field}: must be {right}")


@dataclass(frozen=True, slots=True)
class KnownContract:
    """A contract of this node: its genesis, and its deployment on the chain.

    `signers` are the addresses of its endorsers, in the order of `contract.endorsers`. It was deployed at one height of
    the chain, and the chain had another when this node took it in. `source` is the peer that it came from.
    `unconfirmed` are the endorsers that have not confirmed that the address in `signers` is theirs. `has_rounds` means
    that the store has its rounds in earlier blocks, too.
    """

    contract: Contract
    deployment: IntentId
    signers: tuple[ContractAddress, ...]
    genesis: bytes = b""
    deployed_at: int = 0
    taken_in_at: int = 0
    source: NodeName | None = None
    unconfirmed: tuple[NodeName, ...] = ()
    has_rounds: bool = False

    def told_by(self, peer: NodeName) -> KnownContract:
        """Return the same contract from this peer, whose answer confirms its own address."""
        return replace(self, source=peer, unconfirmed=tuple(node for node in self.contract.endorsers if node != peer))


@dataclass(frozen=True, slots=True)
class AwaitedLeaf:
    """A private transaction of any node, by the leaf that its contract has to commit under its id.

    Only that leaf counts: another leaf under the id is another transaction. After `valid_until_s`,
    in final chain time, it is no longer awaited.
    """

    contract: ContractAddress
    intent: IntentId
    leaf: Leaf
    valid_until_s: int = 0


# An id names a transaction of this node, private or public.
Dependency: TypeAlias = IntentId | AwaitedLeaf


@dataclass(frozen=True, slots=True)
class Intent:
    """A user's request for one private transaction; in `NO_CONTRACT` it is one for a contract, and has its genesis.

    `nonce` proves the party's right to the id: it opens the page that the id is on (`digests.page_of`). Only
    coordinator and endorsers get it. `depends_on` and `awaits` stay at the sender's node.
    """

    id: IntentId
    contract: ContractAddress
    sender: Party
    payload: bytes
    depends_on: tuple[IntentId, ...] = ()
    parties: tuple[Party, ...] = ()
    idempotency_key: str = ""
    submit_mode: SubmitMode = SubmitMode.AUTO
    nonce: bytes = b""
    awaits: tuple[AwaitedLeaf, ...] = ()

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """All transactions that must succeed first."""
        return (*self.depends_on, *self.awaits)

    @property
    def is_external(self) -> bool:
        """Whether its endorsed transition is prepared, and no coordinator submits it."""
        return self.submit_mode is not SubmitMode.AUTO

    def as_delegated(self) -> Intent:
        """Return the part that a coordinator gets: its party, and not the request, which its sender assembles."""
        return Intent(self.id, self.contract, self.sender, b"", submit_mode=self.submit_mode, nonce=self.nonce)


@dataclass(frozen=True, slots=True)
class State:
    """A private state. Its bytes are given only to nodes on its list; others know its id alone (S8).

    `unknown` has fields of a newer version that this one does not understand: as private as the content.
    """

    id: StateId
    commitment: bytes
    distribution: tuple[NodeName, ...]
    content: bytes | None = None
    unknown: bytes = b""

    def hides_from(self, node: NodeName) -> bool:
        """Whether it has bytes that the node may not see."""
        return (self.content is not None or self.unknown != b"") and node not in self.distribution

    def as_seen_by(self, node: NodeName) -> State:
        """Return this state, without its bytes where the node may not see them."""
        return replace(self, content=None, unknown=b"") if self.hides_from(node) else self


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the ledger contract makes for a transition, with exactly this much gas and no value."""

    to: ContractAddress
    gas: int
    data: bytes = b""

    def __post_init__(self) -> None:
        address_bytes(self.to)
        assert 0 <= self.gas <= CALL_GAS_MAX, f"a call's gas is from 0 to {CALL_GAS_MAX}, not {self.gas}"
        assert len(self.data) <= CALL_BYTES_MAX, f"a call's data is at most {CALL_BYTES_MAX} bytes"


@dataclass(frozen=True, slots=True)
class Preparation:
    """The only account that may commit a prepared transition, and the condition that it has to pass."""

    committer: ContractAddress
    condition: bytes

    def __post_init__(self) -> None:
        address_bytes(self.committer)
        size = len(self.condition)
        assert size == CONDITION_BYTES, f"a word is {CONDITION_BYTES} bytes, not {size}"


class LockKind(IntEnum):
    """The change of a lock's record by a transition, with the contract's number for it."""

    SET = 1
    DELEGATE = 2
    SPENT = 3
    CANCELLED = 4
    HOLD = 5
    RELEASE = 6


# The kinds that name a new delegate.
NAMING_DELEGATE: Final = frozenset((LockKind.SET, LockKind.DELEGATE, LockKind.HOLD))
# The kinds that make a record, with the time at which it expires.
MAKING_RECORD: Final = frozenset((LockKind.SET, LockKind.HOLD))
NO_LOCK_ID: Final = bytes(LOCK_WORD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChange:
    """The change of a lock's record on the ledger by a transition (`Lockable.sol`).

    `presumed` is the delegate that the record must have; the ledger skips the transition if it has another. `SET` makes
    a record, or replaces it: `delegate` may commit the transition with the leaf `spends` until `expires_at_s`, or the
    one with the leaf `cancels`; later any account may commit the second. `DELEGATE` names another delegate. `SPENT` and
    `CANCELLED` remove the record.

    Two kinds are of a ledger whose coins can be locked (`ProvedLocks.sol`). `HOLD` makes a record of the first output,
    so that its id is zero. `RELEASE` removes the record of the one input after `expires_at_s`; its id is the
    commitment of that coin.
    """

    kind: LockKind
    lock: bytes
    presumed: ContractAddress = NO_DELEGATE
    delegate: ContractAddress = NO_DELEGATE
    expires_at_s: int = 0
    spends: Leaf = NO_LEAF
    cancels: Leaf = NO_LEAF

    def __post_init__(self) -> None:
        address_bytes(self.presumed)
        address_bytes(self.delegate)
        is_set, has_end = self.kind is LockKind.SET, self.kind in MAKING_RECORD
        assert len(self.lock) == LOCK_WORD_BYTES, f"a lock's id is {LOCK_WORD_BYTES} bytes, not {len(self.lock)}"
        size = LOCK_WORD_BYTES if is_set else 0
        assert len(self.spends) == len(self.cancels) == size, f"a leaf of {self.kind.name} is {size} bytes"
        assert 0 <= self.expires_at_s <= (LOCK_EXPIRY_MAX if has_end else 0), "only a new record has an end"
        assert self.kind in NAMING_DELEGATE or self.delegate == NO_DELEGATE, "the end of a lock names no new delegate"


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of an intent's assembly: the states it spends, reads and makes, and its info.

    `unknown` has fields of a newer version that this one does not understand: they are passed on, and no leaf binds
    them.
    """

    intent: IntentId
    leaf: Leaf
    inputs: tuple[StateId, ...] = ()
    reads: tuple[StateId, ...] = ()
    outputs: tuple[State, ...] = ()
    info: tuple[bytes, ...] = ()
    valid_until_s: int = 0
    signature: bytes = b""
    calls: tuple[Call, ...] = ()
    preparation: Preparation | None = None
    unknown: bytes = b""
    lock: LockChange | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it only uses its intent up, and so voids every other version of it (ledger)."""
        is_stateless = not (self.inputs or self.reads or self.outputs or self.info)
        return is_stateless and not (self.calls or self.preparation or self.lock)

    def signed(self, signature: bytes) -> Transition:
        """Return this transition with its party's signature; spelled out, as `replace` takes four times as long."""
        return Transition(
            intent=self.intent,
            leaf=self.leaf,
            inputs=self.inputs,
            reads=self.reads,
            outputs=self.outputs,
            info=self.info,
            valid_until_s=self.valid_until_s,
            signature=signature,
            calls=self.calls,
            preparation=self.preparation,
            unknown=self.unknown,
            lock=self.lock,
        )

    def as_seen_by(self, node: NodeName) -> Transition:
        """Return this transition, with the bytes of those states only that the node may see."""
        for state in self.outputs:
            if state.hides_from(node):
                return replace(self, outputs=tuple(each.as_seen_by(node) for each in self.outputs))
        return self


class PartySignature(NamedTuple):
    """A party and its signature of a leaf and a bound; empty before it has signed."""

    party: Party
    signature: bytes = b""


class EndorserSignature(NamedTuple):
    """One endorser's signature: over a round's digest, its approval of one, or its refusal of a leaf."""

    endorser: NodeName
    signature: bytes


@dataclass(frozen=True, slots=True)
class Attesters:
    """The parties and endorsers that the plan of a transaction adds to its contract's k of n (protocol §4.2).

    `signers` are parties of the sender's node that sign leaf and bound as the `from` party does. `endorsers` are
    endorsers of the contract, each of which approves the round before any endorser signs it. No leaf binds them:
    endorsers compute them from the transition and refuse fewer.
    """

    signers: tuple[PartySignature, ...] = ()
    endorsers: tuple[NodeName, ...] = ()

    def signed(self, signatures: tuple[bytes, ...]) -> Attesters:
        """Return the same with the signatures of the signers, in their order."""
        pairs = zip(self.signers, signatures, strict=True)
        return Attesters(tuple(PartySignature(each.party, signature) for each, signature in pairs), self.endorsers)


NO_ATTESTERS: Final = Attesters()
# The most that may be added to one transaction. Each endorser verifies the signature of each party.
COSIGNERS_MAX: Final = 4
REQUIRED_MAX: Final = 16


class Holding(NamedTuple):
    """A leaf, and the proof that its author has a content of it that the asked node may see (`holding_proof`)."""

    leaf: Leaf
    proof: Digest


class KeptStates(NamedTuple):
    """The reservation of a prepared transition until its intent has an outcome or its validity has ended (ledger)."""

    intent: IntentId
    leaf: Leaf
    inputs: tuple[StateId, ...]
    valid_until_s: int


class SignedLeaf(NamedTuple):
    """A version of an intent that its party signed, and until when the chain may commit it (trust rule 1)."""

    intent: IntentId
    leaf: Leaf
    valid_until_s: int


class CallVerdict(Enum):
    """The answer of our own Ethereum node when a call that failed in a block is made again on the state after it."""

    UNKNOWN = "unknown"
    SUCCEEDS = "succeeds"
    REFUSED = "refused"
    NO_CONTRACT = "no contract"


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The call on the public ledger for which a transition was skipped; `number` counts from 0.

    `revert` holds what the target reverted with, as far as that is known, and is bounded.
    """

    number: int = 0
    to: ContractAddress | None = None
    verdict: CallVerdict = CallVerdict.UNKNOWN
    revert: bytes = b""


class Outcome(Enum):
    """The outcome of an intent."""

    CONFIRMED = "confirmed"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The final outcome of an intent; once reported it never changes (S1), unless the chain takes back final blocks.

    A deployment's has the contract it made. `code` is `FINALITY_BROKEN` when the earlier report no longer holds.
    `code` is `INTENT_ID_USED` when another leaf than its party's uses the intent's id on the chain: that leaf is in
    `leaf`, and to submit the intent again is not safe before its user has checked it.
    """

    intent: IntentId
    outcome: Outcome
    reason: str = ""
    leaf: Leaf = NO_LEAF
    contract: ContractAddress | None = None
    code: str = ""
