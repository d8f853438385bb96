"""The store of a node: the core's records, and the tables of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from rota.chain.effects import RecallDispatches
from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import FindStates, Persist
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.frozen import dataclass
from rota.model.types import (
    NO_LEAF,
    BlockHash,
    ContractAddress,
    Intent,
    IntentId,
    KnownContract,
    Leaf,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents
from rota.node.stored import StoredNode
from rota.ports.beside import ProofBook, TriggerBook
from rota.ports.carrying import CarriedStore
from rota.ports.commitments import CommitmentStore
from rota.ports.following import AbiStore, PublicStore, SubmissionStore, TraceStore
from rota.ports.groups import Archive, Groups, KeyNames, Mail
from rota.ports.listening import ListeningStore, NumberedReceipt
from rota.wire.messages import PreparedTransaction

TRANSACTIONS_MAX: Final = 1_000
STATES_A_PAGE: Final = 1_000
# Or so many bytes: one state may have half a MiB.
STATES_PAGE_BYTES_MAX: Final = 8_388_608
StoreEffect: TypeAlias = Persist | LookUpIntents | LoadContract | FindStates | RecallDeliveries | RecallDispatches


@dataclass(frozen=True, slots=True)
class StoredChain:
    """The chain that earlier runs of this node used: how many confirmations, and the hash of its block 0, if known."""

    confirmations: int | None = None
    genesis: BlockHash | None = None


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """An intent of this node. `sequence` orders by acceptance.

    The receipt is there when it is final. Height, leaf and base-ledger transaction are those of its commit as the index
    has it, final or not; `transaction` is the hash, and empty when it is not known. Of a deployment they are those of
    the factory's log. `issued` is the prepared transition that the user of an external intent got, `place` the place of
    the receipt in the order of this node.
    """

    intent: Intent
    sequence: int
    accepted_at_ms: int
    receipt: Receipt | None = None
    height: int | None = None
    leaf: Leaf = NO_LEAF
    transaction: bytes = b""
    parked_reason: str | None = None
    ending_reason: str | None = None
    issued: PreparedTransaction | None = None
    place: NumberedReceipt | None = None
    transaction_index: int | None = None
    log_index: int | None = None


@dataclass(frozen=True, slots=True)
class StateChanges:
    """Changes of the states that a node holds of a contract, up to the change with this number.

    `is_complete` when there are no later changes.
    """

    as_of: int
    held: tuple[State, ...] = ()
    gone: tuple[StateId, ...] = ()
    is_complete: bool = True


class StatePlace(NamedTuple):
    """The place on the chain where a state was made: block, transition and output."""

    height: int
    place: int
    output: int


@dataclass(frozen=True, slots=True)
class StatePage:
    """Some unspent states in the order of the chain, and the place after which the next come; `None` on the last page.

    `as_of` is the latest change at that time: a reader of several pages then follows the changes since the first page.
    """

    as_of: int
    states: tuple[State, ...]
    last: StatePlace | None = None


class AccountBook(Protocol):
    """The accounts that an operator chose to pay for contracts."""

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Durable on return. `Unavailable` when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class QuarantinedContract:
    """A contract whose records the database rejected, and why: no run loads it until an operator releases it."""

    contract: ContractAddress
    reason: str
    quarantined_at_ms: int


class QuarantineBook(Protocol):
    """The quarantined contracts."""

    async def list(self) -> tuple[QuarantinedContract, ...]:
        """All of them, the earliest first. `Unavailable` when the store is away."""
        ...

    async def release(self, contract: ContractAddress) -> None:
        """Let the next run load it. Durable on return; `Unavailable` when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class Written(Event):
    """This number of further write orders is durable, in the order in which they were given."""

    count: int


class Store(Protocol):
    """The durable memory of a node (protocol §8). Events answer orders, after any time.

    `Written` answers every `Persist`: the store writes in the order of the orders, and repeats a write until it is
    done. A write that it cannot do at all ends the run. `IntentsLookedUp` answers every `LookUpIntents`, and includes
    all that was reported as durable at the time of the question.
    """

    @property
    def wound_back(self) -> str:
        """Why the database seems to be an older copy; empty when it does not."""
        ...

    async def start(self) -> None:
        """Open it, and bring its schema up to date. `Unavailable` when it is away."""
        ...

    async def close(self) -> None:
        """Write all orders, and close it."""
        ...

    async def add_contract(self, known: KnownContract) -> None:
        """Add a contract, before any record or block names it. `Unavailable` when it is not written."""
        ...

    async def contracts(self) -> tuple[KnownContract, ...]:
        """All contracts of this node."""
        ...

    async def contract(self, address: ContractAddress) -> KnownContract | None:
        """One of them, with its genesis. `Unavailable` when it is away."""
        ...

    async def contracts_with_work(self) -> tuple[ContractAddress, ...]:
        """The contracts with unfinished work: a node starts with them and loads the others on demand."""
        ...

    async def restore(self, contracts: Sequence[ContractAddress]) -> StoredNode:
        """All that a new run of the node needs, and the records of these contracts. `Unavailable` when it is away."""
        ...

    async def state_changes(self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE) -> StateChanges:
        """The states of a contract that are held now and were not at the change `since`, and those no longer held.

        A held state is committed, unspent and here with its bytes. At most `limit` states, or one change if that has
        more of them. `Unavailable` when the store is away.
        """
        ...

    async def states_since(
        self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE, *, on_chain: bool = False
    ) -> tuple[int, tuple[State, ...]]:
        """States with their bytes that changed after `since`, spent or not, and the last change that was read.

        As many as of `state_changes`, in the order of their changes; within one change in the order of the chain,
        states off the chain last. A state comes before the states that are built on it, unless it arrived late. With
        `on_chain` only those on the chain: any peer can make up others.
        """
        ...

    async def transaction(self, intent: IntentId) -> StoredTransaction | None:
        """An intent of this node, with its receipt if there is one. `Unavailable` when the store is away."""
        ...

    async def transactions(self, after: IntentId | None, limit: int) -> tuple[StoredTransaction, ...]:
        """The intents of this node, latest first, after the given one in that order; none if the node does not have
        that.

        At most `TRANSACTIONS_MAX` at a time. `Unavailable` when the store is away.
        """
        ...

    async def unfinished_count(self) -> int:
        """How many intents of this node have no final outcome. `Unavailable` when the store is away."""
        ...

    async def heights_with_outcomes(self, contract: ContractAddress, first: int, last: int) -> frozenset[int]:
        """The blocks of this range, both ends included, with outcomes of a contract's transitions."""
        ...

    async def make_up(self, blocks: Sequence[ChainBlock]) -> None:
        """Write the outcomes of a contract in final blocks that the index passed before it had the contract.

        `Unavailable` when it was not written, `WriteInDoubt` when that is not known.
        """
        ...

    async def standing_states(
        self, contract: ContractAddress, limit: int, skip: int = 0, is_own: bool = False
    ) -> tuple[State, ...]:
        """The unspent states on the chain that the end of a lock's record spends, the oldest first.

        Perhaps only those that intents of this node made.
        """
        ...

    async def leaves_without_states(
        self, contract: ContractAddress, last: int, limit: int, skip: int = 0
    ) -> tuple[Leaf, ...]:
        """Leaves committed up to this height of which this node holds no state; the earliest first."""
        ...

    async def receipt_of(self, intent: IntentId) -> Receipt | None:
        """The final outcome of an intent of this node, if it has one. `Unavailable` when it is away."""
        ...

    async def unspent_states(
        self, contract: ContractAddress, after: StatePlace | None = None, limit: int = STATES_A_PAGE
    ) -> StatePage:
        """Unspent states of this contract on the chain that this node holds; some at a time.

        In the order in which they were committed, and then of their outputs; the index may not be final.
        """
        ...

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these states that this node holds, also spent ones and ones that are not on the chain.

        A nullifier stands for the state that it spends. In the order of the request. `Unavailable` when it is away.
        """
        ...

    async def transitions_of(
        self, contract: ContractAddress, leaves: Sequence[Leaf], bytes_max: int | None = None
    ) -> tuple[Transition, ...]:
        """The transitions of these leaves that this node dispatched, permitted, prepared or received.

        With the states that this node has of them. Reading stops after `bytes_max`, if that is given. `Unavailable`
        when the store is away.
        """
        ...

    @property
    def listening(self) -> ListeningStore:
        """The order of receipts, and the listeners that follow it."""
        ...

    @property
    def abis(self) -> AbiStore:
        """The ABIs that users stored."""
        ...

    @property
    def submissions(self) -> SubmissionStore:
        """Requests of users."""
        ...

    @property
    def traces(self) -> TraceStore:
        """Traces of private transactions in the sequencer."""
        ...

    @property
    def public(self) -> PublicStore:
        """Users' transactions on the base ledger."""
        ...

    @property
    def key_names(self) -> KeyNames:
        """The identifiers of keys."""
        ...

    @property
    def accounts(self) -> AccountBook:
        """The accounts that pay for contracts."""
        ...

    @property
    def archive(self) -> Archive:
        """Private states, for users."""
        ...

    @property
    def mail(self) -> Mail:
        """Group messages, and deliveries to peers."""
        ...

    @property
    def groups(self) -> Groups:
        """The privacy groups of this node."""
        ...

    @property
    def commitments(self) -> CommitmentStore:
        """The commitments of proved contracts."""
        ...

    @property
    def proofs(self) -> ProofBook:
        """Proofs that may be needed again."""
        ...

    @property
    def carried(self) -> CarriedStore:
        """Transitions that other private contracts carry out."""
        ...

    @property
    def triggers(self) -> TriggerBook:
        """The records of automation."""
        ...

    async def chain(self) -> StoredChain:
        """The chain that earlier runs of this node used."""
        ...

    async def use_chain(self, confirmations: int, genesis: BlockHash | None) -> None:
        """Record how many confirmations make a block final, and the chain; the next run finds both."""
        ...

    def perform(self, effect: StoreEffect) -> None:
        """Begin to carry this out. An unknown record is an assertion error."""
        ...

    @property
    def quarantine(self) -> QuarantineBook:
        """The contracts that no run loads."""
        ...

    @property
    def writes_failed(self) -> int:
        """The number of failed attempts to write."""
        ...

    @property
    def trouble(self) -> str:
        """Why the store is away, for an operator; empty when it is not."""
        ...
