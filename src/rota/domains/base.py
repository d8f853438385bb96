"""The kit: what a domain is, what it is asked, and what it answers.

A domain says what private transactions mean. It is a class without state of its own; a contract is an instance of it
on the ledger with a configuration. In the order in which a transaction meets it:

    deploy      a user's constructor arguments -> who coordinates and endorses, and the contract's configuration
    configure   that configuration, as it stands in the genesis -> is it one that we can work with?
    init        a user's request, before it gets an id -> is it right, and which parties have to be known?
    assemble    an intent and the states that are available -> what is spent, read and made; or a reason why not
    prepare     an intent that its user brings to the ledger -> who alone may commit it, and on what condition
    endorse     somebody's transition, with all states that it touches -> nothing, or `Refused`
    plan        the same transition -> who attests it besides the contract's k of n, at the sender and each endorser
    carry       an endorsed transition that another private contract decides about -> what that contract is asked for
    is_worth_retrying   a call on the public ledger that failed -> whether another attempt may succeed
    call        a question about the states that this node holds -> an answer; no transaction
    receipt     what a committed transition did, as far as this node may see it -> for its users

All of them are pure: time, ids and salts come as values, and the same question has the same answer on every node.
What a domain keeps in its `memory` of a contract only saves work: it may be lost at any time and changes no answer.
`assemble` runs on the sender's node, `endorse` on each endorser's. What `assemble` makes, `endorse` must judge from
the transition alone, for the intent itself stays with its sender: what an endorser has to know is in the states, or in
an info that goes with them. A transition is valid from its own inputs and reads, whatever else commits (ledger).

Whose fault an error is decides what becomes of it: `Rejected` in `init` refuses the user's request, and while
assembling it reverts the intent, as `Reverted` does. Any other exception is the domain's own failure, and is retried.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from rota.domains.available import Available, Known, Shelf
from rota.domains.carrying import Carrier, Carrying, CarryingCall
from rota.domains.contents import NewState, Recipient, Role, name_of, schema_of
from rota.domains.locking import Locking, SettledLock, StandsFor
from rota.domains.plans import NO_PLAN, AttestationPlan, TransactionPlan
from rota.domains.proofs import Claim, ProvedLedger, Prover
from rota.domains.records import Record, Rejected, Schema
from rota.domains.trees import CommitmentTree, Roots, Roster
from rota.model.frozen import dataclass
from rota.model.types import (
    Call,
    CallFailure,
    CallVerdict,
    Contract,
    ContractAddress,
    IntentId,
    NodeName,
    Party,
    Preparation,
    StateId,
    SubmitMode,
    node_of,
)

__all__ = [
    "ENTROPY_BYTES",
    "INPUTS_MAX",
    "NOT_ACTIVE",
    "OUTPUTS_MAX",
    "READS_MAX",
    "Assembled",
    "Assembly",
    "AttestationPlan",
    "Available",
    "Behind",
    "Carrier",
    "Carrying",
    "CarryingCall",
    "Claim",
    "CommitmentTree",
    "Deployment",
    "Domain",
    "Failure",
    "History",
    "Known",
    "Lacking",
    "NewState",
    "Outcome",
    "Parked",
    "Proposal",
    "ProvedLedger",
    "Prover",
    "Question",
    "Recipient",
    "Refused",
    "Rejected",
    "Request",
    "Reserve",
    "Reverted",
    "Roots",
    "Roster",
    "Settled",
    "TransactionPlan",
    "party_of",
]

INPUTS_MAX: Final = 15
READS_MAX: Final = 15
OUTPUTS_MAX: Final = 15
PARTY_BYTES_MAX: Final = 255
# So many random bytes are enough to draw a number below any 256-bit order from, and none is likelier than others.
ENTROPY_BYTES: Final = 48

# The code of a `Reverted`: a state that the request names is not there, as when another one was faster.
NOT_ACTIVE: Final = "CONTRACT_NOT_ACTIVE"

C = TypeVar("C", bound=Record)
R = TypeVar("R", bound=Record)


class Refused(Exception):
    """An endorser does not sign a transition, and why."""


class Lacking(Exception):
    """A state that is needed is not known here, though it was made: whoever asks may get it and ask again."""

    def __init__(self, state: StateId) -> None:
        super().__init__(f"output {state.output} of 0x{state.leaf.hex()} is not here yet")
        self.state = state


class Behind(Exception):
    """Something has a later state than those that are here: it comes soon, and whoever asks may ask again."""


@dataclass(frozen=True, slots=True)
class History:
    """Every state that this node knows, by its id: spent, or not yet on the chain, or not available for other reasons.

    A domain whose states stand on their predecessors finds them here.
    """

    find: Callable[[StateId], Known[Record] | None]

    def get(self, state: StateId) -> Known[Record]:
        """This state. `Lacking` when it is not known."""
        found = self.find(state)
        if found is None:
            raise Lacking(state)
        return found


NO_HISTORY: Final = History(lambda _: None)


@dataclass(frozen=True, slots=True)
class Reserve:
    """The public token (ERC-20) that a contract's states are made of and turned into, and what the chain has of it.

    `account` is the sender's own address there, `balance` what it has, `allowed` how much of it the contract may take,
    and `held` what the contract has; None is not known.
    """

    token: ContractAddress
    account: ContractAddress
    balance: int | None = None
    allowed: int | None = None
    held: int | None = None


# Questions to a domain. `verifiers` has the known addresses of parties, `memory` the value of `Domain.memory`.


@dataclass(frozen=True, slots=True)
class Request(Generic[C]):
    """A user's request to a contract, before it is an intent."""

    contract: Contract
    configuration: C
    sender: Party
    function: str
    arguments: Record
    submit_mode: SubmitMode = SubmitMode.AUTO


@dataclass(frozen=True, slots=True)
class Assembly(Generic[C]):
    """An intent, and what it can be assembled on."""

    contract: Contract
    configuration: C
    separator: bytes
    intent: IntentId
    sender: Party
    function: str
    arguments: Record
    submit_mode: SubmitMode
    states: Available
    history: History = NO_HISTORY
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    memory: Any = None
    reserve: Reserve | None = None
    call_gas: Mapping[tuple[ContractAddress, bytes], int] = field(default_factory=dict)
    roster: Roster | None = None


@dataclass(frozen=True, slots=True)
class Proposal(Generic[C]):
    """A transition that an endorser is to judge, with the records of all that it touches.

    `available` tells which states the endorser itself takes to be available before this transition; they must not be
    changed.
    """

    contract: Contract
    configuration: C
    separator: bytes
    intent: IntentId
    sender: Party
    spends: tuple[Known[Record], ...]
    reads: tuple[Known[Record], ...]
    makes: tuple[NewState, ...]
    calls: tuple[Call, ...] = ()
    preparation: Preparation | None = None
    available: Callable[[], Available] = lambda: Available(Shelf({}))
    history: History = NO_HISTORY
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    memory: Any = None
    lock: Locking | None = None

    def created(self, record_type: type[R]) -> tuple[R, ...]:
        """The states of one kind that it makes."""
        return tuple(
            made.record for made in self.makes if made.role is Role.STATE and isinstance(made.record, record_type)
        )

    def only(self, record_type: type[R]) -> R:
        """The one state that it makes, which is of this kind. `Refused` when it makes others, or none."""
        states = [made for made in self.makes if made.role is Role.STATE]
        found = self.created(record_type)
        if len(states) != 1 or len(found) != 1:
            raise Refused(f"one {name_of(record_type)} is made, and nothing else")
        return found[0]

    def told(self, record_type: type[R]) -> R:
        """The one info of this kind. `Refused` when there is none, or more than one."""
        found = [made.record for made in self.makes if made.role is Role.INFO and isinstance(made.record, record_type)]
        if len(found) != 1:
            raise Refused(f"one {name_of(record_type)} is needed, not {len(found)}")
        return found[0]


@dataclass(frozen=True, slots=True)
class Question(Generic[C]):
    """What a user asks without a transaction; answered from what this node holds."""

    contract: Contract
    configuration: C
    asker: Party
    function: str
    arguments: Record
    states: Available
    history: History = NO_HISTORY
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    memory: Any = None


@dataclass(frozen=True, slots=True)
class Settled(Generic[C]):
    """A committed transition, as far as this node may see it, `is_whole` or not; `sender` is an own party's address."""

    contract: Contract
    configuration: C
    intent: IntentId
    spent: tuple[Known[Record], ...]
    read: tuple[Known[Record], ...]
    made: tuple[Known[Record], ...]
    told: tuple[Known[Record], ...]
    is_whole: bool
    sender: str = ""
    addresses: Mapping[Party, str] | None = None  # Of parties in its records, for clients; None where names are wanted.
    lock: SettledLock | None = None


@dataclass(frozen=True, slots=True)
class Failure(Generic[C]):
    """An intent of a party of this node, and the call on the public ledger for which the ledger skipped it.

    This node's own index shows the failure. `call.verdict` says what this node's own Ethereum node answered when it was
    asked to make the call again on the state after that block.
    """

    contract: Contract
    configuration: C
    sender: Party
    function: str
    arguments: Record
    call: CallFailure


# What a domain answers.


@dataclass(frozen=True, slots=True)
class Assembled:
    """What an intent does. `info` is told to its readers and is nothing on the ledger that could be spent."""

    spends: tuple[StateId, ...] = ()
    reads: tuple[StateId, ...] = ()
    makes: tuple[NewState, ...] = ()
    info: tuple[NewState, ...] = ()
    calls: tuple[Call, ...] = ()
    lock: Locking | None = None


@dataclass(frozen=True, slots=True)
class Reverted:
    """It cannot succeed: the intent ends with this reason.

    `code` tells programs more: `NOT_ACTIVE` when a state that the request names is spent, or never was.
    """

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Parked:
    """It may succeed when its user has done something: it waits until it is resumed."""

    reason: str


Outcome: TypeAlias = Assembled | Reverted | Parked


@dataclass(frozen=True, slots=True)
class Deployment(Generic[C]):
    """What a new contract is to be: its plan, or one of another mode (`alternatives`), configuration and members."""

    plan: AttestationPlan
    configuration: C
    members: tuple[Party, ...]
    alternatives: tuple[AttestationPlan, ...] = ()


class Domain(ABC, Generic[C]):
    """What a private transaction means. Subclasses say what they know, then answer what they are asked.

    `functions` are what users may ask for, by name, each with the record of its arguments; `views` what they may
    `call`. `states` are the records that states and infos hold.
    """

    name: ClassVar[str]
    constructor: ClassVar[type[Record]]
    configuration: ClassVar[type[Record]]
    functions: ClassVar[Mapping[str, type[Record]]]
    views: ClassVar[Mapping[str, type[Record]]] = {}
    states: ClassVar[tuple[type[Record], ...]]
    # The ledgers that its contracts may have where transitions are proved; none where endorsers sign.
    ledgers: ClassVar[tuple[ProvedLedger, ...]] = ()
    # Whether the bytes of its states leave a node only encrypted to the key of who may read them.
    is_encrypted: ClassVar[bool] = False
    # Whether a node has it only where its operator says so, by `for_tests = true` in `[domains.NAME]`.
    is_for_tests: ClassVar[bool] = False
    # The functions that need to know the `reserve`; of a contract that was given no token there is none.
    moving: ClassVar[frozenset[str]] = frozenset()
    # Calls run as the ledger contract: a domain that makes none lets none pass (ledger).
    calls_gas_max: ClassVar[int] = 0
    # Whether assemblies use `call_gas`: estimates of the gas that calls need, by target and data.
    estimates_calls: ClassVar[bool] = False
    # Whether its transitions change locks on the ledger; its `states` then have `locking.Permitted`. Endorsers of other
    # domains refuse every transition that changes one.
    changes_locks: ClassVar[bool] = False
    # Whether its users bring code of their own: a node then has it answered in worker processes, within budgets.
    runs_code: ClassVar[bool] = False

    def set_up(self, settings: Mapping[str, object]) -> None:
        """What the operator of a node has set for it, in `[domains.NAME]`; once, before anything else is asked.

        `Rejected` names the key. It changes what a node does, never what a contract means: others have other settings.
        """
        for key in settings:
            raise Rejected(key, f"must be left out: {self.name} has no settings")

    @abstractmethod
    def deploy(self, arguments: Record, sender: Party) -> Deployment[C]:
        """What the constructor's arguments ask for. `Rejected` when they cannot be had."""

    def configure(self, configuration: C, contract: Contract) -> None:
        """Hold the configuration of a genesis against the contract that it comes with. `Rejected` when it is wrong."""

    def memory(self, configuration: C, contract: Contract) -> object:
        """What it keeps of a contract at one node, so as not to work it out again; it may be lost at any time."""
        return None

    def learn(self, memory: object, state: Known[Record]) -> None:
        """A state that this node knows, spent or not; each before those that stand on it."""

    def ledger_of(self, configuration: C) -> ProvedLedger | None:
        """The ledger of a contract with this configuration; None for `Endorsed`, whose code the factory has."""
        return None

    def stands_for(self, record: Record) -> StandsFor | None:
        """Of a state that stands for the record of a lock: which. The record's end spends the state."""
        return None

    def verifier_of(self, secret: bytes) -> str:
        """By what others know a party in contracts whose transitions are proved, given the party's secret there."""
        raise NotImplementedError(f"{self.name} proves nothing")

    def commitments(self, made: tuple[tuple[Record, bytes], ...]) -> tuple[bytes, ...]:
        """What the ledger has to be told of new states beside their hashes, given each with its salt: words."""
        return ()

    def statement(self, claim: Claim[C]) -> object | None:
        """What a `Prover` has to prove of a transition; nothing when the issuer's signature is wanted instead.

        `Behind` when the tree does not have what it needs, or not yet.
        """
        return None

    def circuits(self, configuration: C) -> tuple[object, ...]:
        """What a `Prover` makes itself ready for when a node gets such a contract, the most used first."""
        return ()

    def nullifier(
        self, configuration: C, state: Known[Record], secret_of: Callable[[Party], bytes | None]
    ) -> bytes | None:
        """The word that spends a state in place of its id; nothing where its id does, or who owns it is not of here."""
        return None

    def is_owned(self, state: Known[Record], secret_of: Callable[[Party], bytes | None]) -> bool:
        """Whether a state that names a party of this node as its owner is that party's to spend.

        Where nobody endorses, a sender may write any name into a state. Of other nodes' parties nothing is known here.
        """
        return True

    def tree_of(self, configuration: C) -> CommitmentTree | None:
        """An empty tree for a contract whose proofs are about one."""
        return None

    def roster_of(self, configuration: C) -> Roster | None:
        """An empty roster for a contract whose ledger has one."""
        return None

    def shown_with(self, statement: object) -> Roots:
        """The roots that a proof of this statement is for, which the ledger is shown."""
        return Roots()

    def encrypt(self, content: bytes, record: Record | None, recipient: Recipient, entropy: bytes) -> bytes:
        """The bytes of a state for one of its readers alone. `Rejected` when there is no key to encrypt them to.

        `entropy` are `ENTROPY_BYTES` random bytes, drawn for this once.
        """
        raise NotImplementedError(f"{self.name} encrypts nothing")

    def decrypt(self, encrypted: bytes, recipient: Recipient, secret: bytes) -> bytes:
        """What was encrypted for one of our parties, given its secret. `Rejected` when it was not."""
        raise NotImplementedError(f"{self.name} encrypts nothing")

    def is_signed_too(self, claim: Claim[C]) -> bool:
        """Whether the ledger wants the signature of the sender's own address before the proof."""
        return False

    def is_issuers(self, configuration: C, sender: Party, call: bytes) -> bool:
        """Whether this call of the ledger, a transaction of the sender's own, is one that the issuer has to sign.

        `Rejected` when the issuer must not sign such a call.
        """
        return False

    @abstractmethod
    def init(self, request: Request[C]) -> tuple[Party, ...]:
        """Validate a request before it gets an id; tell the parties whose verifiers must be known. Or `Rejected`."""

    @abstractmethod
    def assemble(self, work: Assembly[C]) -> Outcome:
        """What the intent does, given the states that are available."""

    def prepare(self, work: Assembly[C]) -> Preparation | None:
        """Who alone may commit what a user brings to the ledger itself; nothing when anybody may."""
        return None

    @abstractmethod
    def endorse(self, proposal: Proposal[C]) -> None:
        """Judge a transition. `Refused` when it is against the rules."""

    def may_act(self, configuration: C, party: Party) -> bool:
        """Whether endorsers void intents of this party; `endorse` judges all else. By default any party may."""
        return True

    def plan(self, proposal: Proposal[C]) -> TransactionPlan:
        """Who attests this transition besides the contract's k of n; nobody by default.

        The sender's node asks when it has assembled, and each endorser when it judges: an endorser refuses a transition
        that is shown with fewer. So it follows from the transition and the records that it touches alone; of a proposal
        `available`, `history`, `verifiers` and `memory` are empty here. `Rejected` when no plan is possible.
        """
        return NO_PLAN

    def carrier(self, configuration: C) -> Carrier | None:
        """The private contract that decides about every transition and carries it out; none where there is no such.

        A contract that has one is notarised: its one endorser's node asks the carrier.
        """
        return None

    def parties_to_carry(self, work: Carrying[C]) -> tuple[Party, ...]:
        """Whose addresses `carry` needs."""
        return ()

    def carry(self, work: Carrying[C]) -> CarryingCall:
        """The transaction of the carrier that makes `work.call`, and so commits the transition. Or `Rejected`."""
        raise NotImplementedError(f"{self.name} has no carrier")

    def ended_lock(self, work: Carrying[C]) -> bytes | None:
        """The lock that a committed transition ended by its delegate's public call; none for all others."""
        return None

    def parties_to_notify(self, work: Carrying[C]) -> tuple[Party, ...]:
        """Whose addresses `notify` needs."""
        return ()

    def notify(self, work: Carrying[C], delegate: ContractAddress) -> CarryingCall:
        """The transaction of the carrier that records the end of a lock, which `delegate` has ended. Or `Rejected`."""
        raise NotImplementedError(f"{self.name} has no carrier")

    def is_worth_retrying(self, failure: Failure[C]) -> bool:
        """Whether an intent that failed on the ledger may succeed if it is assembled and dispatched again.

        If not, the intent ends with the ledger's reason. Retries are limited by `revert_retry_max` in any case. By
        default a call that its target still refuses, or that has no target, is not made again.
        """
        return failure.call.verdict not in (CallVerdict.REFUSED, CallVerdict.NO_CONTRACT)

    def call(self, question: Question[C]) -> object:
        """Answer a view, as JSON. `Rejected` when it cannot be answered."""
        raise Rejected("function", f"{self.name} has no view {question.function!r}")

    def receipt(self, settled: Settled[C]) -> dict[str, object]:
        """What users are told of a committed transition, as JSON."""
        return {}

    def explain(self, arguments: Record, revert: bytes) -> str | None:
        """What a public contract said that a transaction had called in vain; nothing when its words are not known."""
        return None

    @classmethod
    def schemas(cls) -> tuple[Schema, ...]:
        """The schemas of its states."""
        return tuple(schema_of(record_type) for record_type in cls.states)


# Nobody has such a name, so that coins for it would be nobody's: what an Ethereum wallet shows is no party.
_LOOKS_LIKE_KEY: Final = re.compile("0[xX][0-9a-fA-F]{16,}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128}(..)?")


def party_of(field: str, text: str, node: NodeName) -> Party:
    """The party that a user means; one without a node is of the user's own. `Rejected` when it is no name."""
    name, separator, home = text.rpartition("@")
    party = text if separator else f"{text}@{node}"
    is_name = bool(text) and (not separator or (bool(name) and bool(home))) and text.isprintable() and " " not in text
    if not is_name or len(party.encode()) > PARTY_BYTES_MAX or party.count("@") != 1:
        raise Rejected(field, f"must be a party such as alice@node1, not {text!r}")
    if _LOOKS_LIKE_KEY.fullmatch(name if separator else text):
        advice = "pay the party by the name that its node knows, such as alice@node1"
        raise Rejected(field, f"must be a party, not an address, key or hash ({text!r}): {advice}")
    return Party(party)


def unknown_elsewhere(asker: Party, informed: Sequence[Party]) -> dict[str, object]:
    """What is added to a balance that this node does not know whole: that it is unknown, and which nodes know it."""
    nodes = dict.fromkeys(node_of(party) for party in informed)
    return {} if node_of(asker) in nodes else {"unknown": True, "knownBy": [*nodes]}
