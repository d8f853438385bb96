"""The kit for domains: the `Domain` class, the questions that a host asks it, and its answers.

A domain defines the meaning of private transactions. It is a class without state of its own; a contract is an instance
of it on the ledger with a configuration. In the order in which a transaction meets it:

        deploy      a user's constructor arguments -> the coordinators and endorsers, and the contract's configuration
        configure   the configuration in a genesis -> nothing, or `Rejected` when this node cannot work with it
        init        a user's request, before it gets an id -> the parties whose addresses are needed, or `Rejected`
        assemble    an intent and the available states -> the states spent, read and made; or why the intent fails
        prepare     an intent that its user brings to the ledger -> the one account that may commit it, and a condition
        endorse     another party's transition, with all states that it touches -> nothing, or `Refused`
        plan        the same transition -> its attesters besides the contract's k of n, at the sender and each endorser
        carry       an endorsed transition that another private contract decides about -> the request to that contract
        is_worth_retrying   a call on the public ledger that failed -> whether another attempt may succeed
        call        a question about the states that this node holds -> an answer; no transaction
        receipt     a committed transition, as far as this node may see it -> its effects, for users

All of them are pure: time, ids and salts come as values, and the same question has the same answer on every node.
The `memory` that a domain has of a contract only saves work: it may be lost at any time and changes no answer.
`assemble` runs on the sender's node, `endorse` on each endorser's. `endorse` must judge the result of `assemble` from
the transition alone, because the intent itself stays with its sender: an endorser gets all that it needs in the states,
or in an info that goes with them. A transition is valid from its own inputs and reads, whatever else commits (ledger).

The type of an error determines its effect: `Rejected` in `init` refuses the user's request, and while assembling it
reverts the intent, as `Reverted` does. Any other exception is the domain's own failure, and is retried.
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
# Enough random bytes to draw a number below any 256-bit order without a noticeable bias.
ENTROPY_BYTES: Final = 48

# The code of a `Reverted`: a state that the request names is not there, as when another transaction was faster.
NOT_ACTIVE: Final = "CONTRACT_NOT_ACTIVE"

C = TypeVar("C", bound=Record)
R = TypeVar("R", bound=Record)


class Refused(Exception):
    """An endorser does not sign a transition; the message is the reason."""


class Lacking(Exception):
    """A state that is needed exists but is not known here: the caller may fetch it and ask again."""

    def __init__(self, state: StateId) -> None:
        super().__init__(f"output {state.output} of 0x{state.leaf.hex()} is not here yet")
        self.state = state


class Behind(Exception):
    """A later state exists than those that are here: it comes soon, and the caller may ask again."""


@dataclass(frozen=True, slots=True)
class History:
    """All states that this node knows, by id: spent, not yet on the chain, or not available for other reasons.

    Domains whose states refer to their predecessors find these here.
    """

    find: Callable[[StateId], Known[Record] | None]

    def get(self, state: StateId) -> Known[Record]:
        """The state with this id. `Lacking` when it is not known."""
        found = self.find(state)
        if found is None:
            raise Lacking(state)
        return found


NO_HISTORY: Final = History(lambda _: None)


@dataclass(frozen=True, slots=True)
class Reserve:
    """The public token (ERC-20) that a contract's states are made of and turned into, and its balances on the chain.

    `account` is the sender's own address there, `balance` its balance, `allowed` how much of it the contract may take,
    and `held` the contract's balance; None is not known.
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
    """An intent, and the states on which it can be assembled."""

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
    """A transition for an endorser to judge, with the records of all states that it touches.

    `available` returns the states that the endorser itself considers available before this transition; they must not
    be changed.
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
    """A user's query without a transaction; answered from the states that this node holds."""

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

    This node's own index shows the failure. `call.verdict` is the answer of this node's own Ethereum node to the same
    call, repeated on the state after that block.
    """

    contract: Contract
    configuration: C
    sender: Party
    function: str
    arguments: Record
    call: CallFailure


# Answers of a domain.


@dataclass(frozen=True, slots=True)
class Assembled:
    """The effect of an intent. `info` goes to its readers; it is nothing on the ledger that could be spent."""

    spends: tuple[StateId, ...] = ()
    reads: tuple[StateId, ...] = ()
    makes: tuple[NewState, ...] = ()
    info: tuple[NewState, ...] = ()
    calls: tuple[Call, ...] = ()
    lock: Locking | None = None


@dataclass(frozen=True, slots=True)
class Reverted:
    """The intent cannot succeed: it ends with this reason.

    `code` is for programs: `NOT_ACTIVE` when a state that the request names is spent, or never existed.
    """

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Parked:
    """The intent may succeed after an action of its user: it waits until it is resumed."""

    reason: str


Outcome: TypeAlias = Assembled | Reverted | Parked


@dataclass(frozen=True, slots=True)
class Deployment(Generic[C]):
    """A new contract: its plan, or plans of other modes (`alternatives`), its configuration and its members."""

    plan: AttestationPlan
    configuration: C
    members: tuple[Party, ...]
    alternatives: tuple[AttestationPlan, ...] = ()


class Domain(ABC, Generic[C]):
    """The meaning of private transactions. Subclasses declare their records, then answer the questions.

    `functions` are those that users may request, by name, each with the record of its arguments; `views` those that
    they may `call`. `states` are the records of states and infos.
    """

    name: ClassVar[str]
    constructor: ClassVar[type[Record]]
    configuration: ClassVar[type[Record]]
    functions: ClassVar[Mapping[str, type[Record]]]
    views: ClassVar[Mapping[str, type[Record]]] = {}
    states: ClassVar[tuple[type[Record], ...]]
    # The possible ledgers of its contracts where transitions are proved; none where endorsers sign.
    ledgers: ClassVar[tuple[ProvedLedger, ...]] = ()
    # Whether the bytes of its states leave a node only encrypted to the key of their reader.
    is_encrypted: ClassVar[bool] = False
    # Whether a node offers it only if its operator enables it, by `for_tests = true` in `[domains.NAME]`.
    is_for_tests: ClassVar[bool] = False
    # The functions that need the `reserve`; a contract without a token has none.
    moving: ClassVar[frozenset[str]] = frozenset()
    # The gas limit of the calls of one transition. Calls run as the ledger contract: 0 forbids them (ledger).
    calls_gas_max: ClassVar[int] = 0
    # Whether assemblies use `call_gas`: estimates of the gas that calls need, by target and data.
    estimates_calls: ClassVar[bool] = False
    # Whether its transitions change locks on the ledger; its `states` then have `locking.Permitted`. Endorsers of other
    # domains refuse every transition that changes one.
    changes_locks: ClassVar[bool] = False
    # Whether its users supply code: a node then runs it in worker processes, within budgets.
    runs_code: ClassVar[bool] = False

    def set_up(self, settings: Mapping[str, object]) -> None:
        """Apply the settings of a node's operator, in `[domains.NAME]`; called once, before all other questions.

        `Rejected` names the key. Settings change a node's behaviour, never a contract's meaning: other nodes have
        others.
        """
        for key in settings:
            raise Rejected(key, f"must be left out: {self.name} has no settings")

    @abstractmethod
    def deploy(self, arguments: Record, sender: Party) -> Deployment[C]:
        """The contract that the constructor's arguments ask for. `Rejected` when it is not possible."""

    def configure(self, configuration: C, contract: Contract) -> None:
        """Check the configuration of a genesis against its contract. `Rejected` when it is wrong."""

    def memory(self, configuration: C, contract: Contract) -> object:
        """The cache of a contract at one node; it may be lost at any time."""
        return None

    def learn(self, memory: object, state: Known[Record]) -> None:
        """Add a state that this node knows, spent or not; each comes before its successors."""

    def ledger_of(self, configuration: C) -> ProvedLedger | None:
        """The ledger of a contract with this configuration; None for `Endorsed`, whose code the factory has."""
        return None

    def stands_for(self, record: Record) -> StandsFor | None:
        """The lock record that this state stands for; None for other states. The record's end spends the state."""
        return None

    def verifier_of(self, secret: bytes) -> str:
        """The verifier of a party in contracts with proofs, by which others know it, from the party's secret there."""
        raise NotImplementedError(f"{self.name} proves nothing")

    def commitments(self, made: tuple[tuple[Record, bytes], ...]) -> tuple[bytes, ...]:
        """The words that the ledger needs of new states beside their hashes, given each record with its salt."""
        return ()

    def statement(self, claim: Claim[C]) -> object | None:
        """The statement that a `Prover` proves of a transition; None when the issuer's signature is needed instead.

        `Behind` when the tree does not have the needed commitments yet.
        """
        return None

    def circuits(self, configuration: C) -> tuple[object, ...]:
        """The circuits that a `Prover` prepares when a node gets such a contract, the most used first."""
        return ()

    def nullifier(
        self, configuration: C, state: Known[Record], secret_of: Callable[[Party], bytes | None]
    ) -> bytes | None:
        """The word that spends a state in place of its id; None where its id does, or where its owner is not ours."""
        return None

    def is_owned(self, state: Known[Record], secret_of: Callable[[Party], bytes | None]) -> bool:
        """Whether a state that names a party of this node as its owner is really that party's to spend.

        Without endorsers a sender may write any name into a state. This node cannot check it for other nodes' parties.
        """
        return True

    def tree_of(self, configuration: C) -> CommitmentTree | None:
        """An empty tree for a contract whose proofs refer to one; None for others."""
        return None

    def roster_of(self, configuration: C) -> Roster | None:
        """An empty roster for a contract whose ledger has one; None for others."""
        return None

    def shown_with(self, statement: object) -> Roots:
        """The roots that a proof of this statement refers to and that go to the ledger with it."""
        return Roots()

    def encrypt(self, content: bytes, record: Record | None, recipient: Recipient, entropy: bytes) -> bytes:
        """The bytes of a state, encrypted for one of its readers. `Rejected` when that reader has no key.

        `entropy` are `ENTROPY_BYTES` random bytes, drawn for this call only.
        """
        raise NotImplementedError(f"{self.name} encrypts nothing")

    def decrypt(self, encrypted: bytes, recipient: Recipient, secret: bytes) -> bytes:
        """Decrypt bytes that were encrypted for one of our parties, given its secret. `Rejected` when they were not."""
        raise NotImplementedError(f"{self.name} encrypts nothing")

    def is_signed_too(self, claim: Claim[C]) -> bool:
        """Whether the ledger needs the signature of the sender's own address before the proof."""
        return False

    def is_issuers(self, configuration: C, sender: Party, call: bytes) -> bool:
        """Whether the issuer has to sign this call of the ledger, which is a transaction of the sender's own.

        `Rejected` when the issuer must not sign such a call.
        """
        return False

    @abstractmethod
    def init(self, request: Request[C]) -> tuple[Party, ...]:
        """Validate a request before it gets an id. Returns the parties whose verifiers are needed; or `Rejected`."""

    @abstractmethod
    def assemble(self, work: Assembly[C]) -> Outcome:
        """The effect of the intent, given the available states."""

    def prepare(self, work: Assembly[C]) -> Preparation | None:
        """The one account that may commit a transaction that its user brings to the ledger; None when any may."""
        return None

    @abstractmethod
    def endorse(self, proposal: Proposal[C]) -> None:
        """Judge a transition. `Refused` when it breaks the rules."""

    def may_act(self, configuration: C, party: Party) -> bool:
        """Whether endorsers void intents of this party; `endorse` judges all else. By default any party may."""
        return True

    def plan(self, proposal: Proposal[C]) -> TransactionPlan:
        """The attesters of this transition besides the contract's k of n; none by default.

        The sender's node asks when it has assembled, and each endorser when it judges: an endorser refuses a transition
        with fewer attesters. So the plan follows from the transition and the records that it touches alone;
        `available`, `history`, `verifiers` and `memory` of the proposal are empty here. `Rejected` when no plan is
        possible.
        """
        return NO_PLAN

    def carrier(self, configuration: C) -> Carrier | None:
        """The private contract that decides about every transition and carries it out; None where there is none.

        A contract with a carrier is notarised: its one endorser's node asks the carrier.
        """
        return None

    def parties_to_carry(self, work: Carrying[C]) -> tuple[Party, ...]:
        """The parties whose addresses `carry` needs."""
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
        default a call that its target still refuses, or that has no target, is not repeated.
        """
        return failure.call.verdict not in (CallVerdict.REFUSED, CallVerdict.NO_CONTRACT)

    def call(self, question: Question[C]) -> object:
        """Answer a view, as JSON. `Rejected` when it cannot be answered."""
        raise Rejected("function", f"{self.name} has no view {question.function!r}")

    def receipt(self, settled: Settled[C]) -> dict[str, object]:
        """The description of a committed transition for users, as JSON."""
        return {}

    def explain(self, arguments: Record, revert: bytes) -> str | None:
        """The reason with which a public contract refused a transaction's call; None when its error is not known."""
        return None

    @classmethod
    def schemas(cls) -> tuple[Schema, ...]:
        """The schemas of its states."""
        return tuple(schema_of(record_type) for record_type in cls.states)


# A party has no such name, so coins for it would have no owner: an address in an Ethereum wallet is no party.
_LOOKS_LIKE_KEY: Final = re.compile("0[xX][0-9a-fA-F]{16,}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128}(..)?")


def party_of(field: str, text: str, node: NodeName) -> Party:
    """The party that a user names; one without a node belongs to the user's own. `Rejected` when it is no name."""
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
    """The addition to a balance that this node does not know whole: that it is unknown, and which nodes know it."""
    nodes = dict.fromkeys(node_of(party) for party in informed)
    return {} if node_of(asker) in nodes else {"unknown": True, "knownBy": [*nodes]}
