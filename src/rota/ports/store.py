"""What a node keeps, whole: the core's records, and the tables of the families beside them."""

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
    """An intent of this node as its users ask for it. `sequence` orders by acceptance.

    The receipt is there when it is final. Height, leaf and base-ledger transaction are those of its commit as the index
    has it, final or not; `transaction` is the hash, and empty when it is not known. Of a deployment they are those of
    the factory's word. `issued` is what its user was given of an external one, `place` that of its receipt in the order
    of this node.
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
    """What changed of the states that a node holds of a contract, up to the change with this number.

    `is_complete` when nothing has changed after that; else more is to be asked for.
    """

    as_of: int
    held: tuple[State, ...] = ()
    gone: tuple[StateId, ...] = ()
    is_complete: bool = True


class StatePlace(NamedTuple):
    """Where on the chain a state was made: by which block and transition of it, as which output."""

    height: int
    place: int
    output: int


@dataclass(frozen=True, slots=True)
class StatePage:
    """Some unspent states in the order of the chain, and behind which to go on; nothing when these were the last.

    `as_of` is the latest change when they were read: whoever reads several pages follows the changes since the first.
    """

    as_of: int
    states: tuple[State, ...]
    last: StatePlace | None = None


class AccountBook(Protocol):
    """Which account an operator chose to pay for a contract."""

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Durable on return. `Unavailable` when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class QuarantinedContract:
    """A contract whose records the database rejected, and why: no run loads it before it is released."""

    contract: ContractAddress
    reason: str
    quarantined_at_ms: int


class QuarantineBook(Protocol):
    """Which contracts are quarantined."""

    async def list(self) -> tuple[QuarantinedContract, ...]:
        """All of them, the earliest first. `Unavailable` when the store is away."""
        ...

    async def release(self, contract: ContractAddress) -> None:
        """The next run loads it again. Durable on return; `Unavailable` when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class Written(Event):
    """So many more of the orders to write are durable, in the order in which they were given."""

    count: int


class Store(Protocol):
    """What a node remembers across a restart (protocol §8). Orders are answered as events, in whatever time it takes.

    Every `Persist` is answered by `Written`: the store writes in the order in which it was ordered, and repeats a write
    until it is done. What it cannot write at all ends the run. Every `LookUpIntents` is answered by `IntentsLookedUp`,
    which knows of all that was told as durable when it was asked.
    """

    @property
    def wound_back(self) -> str:
        """Says that an older copy of the database was found at the start; empty when none was."""
        ...

    async def start(self) -> None:
        """Open it, and bring its schema up to date. `Unavailable` when it is away."""
        ...

    async def close(self) -> None:
        """Write what was ordered, and give it back."""
        ...

    async def add_contract(self, known: KnownContract) -> None:
        """From now on this node has this contract: before any record or block names it. `Unavailable` when not."""
        ...

    async def contracts(self) -> tuple[KnownContract, ...]:
        """All contracts of this node."""
        ...

    async def contract(self, address: ContractAddress) -> KnownContract | None:
        """One of them, with its genesis. `Unavailable` when it is away."""
        ...

    async def contracts_with_work(self) -> tuple[ContractAddress, ...]:
        """Those of which something is unfinished: a node begins with them and loads the others when asked."""
        ...

    async def restore(self, contracts: Sequence[ContractAddress]) -> StoredNode:
        """What a new life of the node finds, and of its contracts these. `Unavailable` when it is away."""
        ...

    async def state_changes(self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE) -> StateChanges:
        """What is held of a contract now that was not at the change `since`, and what is no longer held.

        Held is what is committed, unspent and here with its bytes. At most `limit` states, or one change if that has
        more of them. `Unavailable` when the store is away.
        """
        ...

    async def states_since(
        self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE, *, on_chain: bool = False
    ) -> tuple[int, tuple[State, ...]]:
        """States with their bytes that changed after `since`, spent or not, and up to which change; none when none did.

        As many as of `state_changes`, in the order of their changes; of one change in the order of the chain, and what
        is not on it last: a state comes before those that stand on it, but for what arrived late. With `on_chain` only
        those that the chain has: any peer can make up others.
        """
        ...

    async def transaction(self, intent: IntentId) -> StoredTransaction | None:
        """An intent of this node, and what became of it. `Unavailable` when the store is away."""
        ...

    async def transactions(self, after: IntentId | None, limit: int) -> tuple[StoredTransaction, ...]:
        """The intents of this node, latest first; those that follow this one in that order, none if it is not ours.

        At most `TRANSACTIONS_MAX` at a time. `Unavailable` when the store is away.
        """
        ...

    async def unfinished_count(self) -> int:
        """How many intents of this node have no final outcome. `Unavailable` when the store is away."""
        ...

    async def heights_with_outcomes(self, contract: ContractAddress, first: int, last: int) -> frozenset[int]:
        """The blocks of this range, both ends included, in which something became of a contract's transitions."""
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
        """What was committed up to this height and of which this node holds no state; the earliest first."""
        ...

    async def receipt_of(self, intent: IntentId) -> Receipt | None:
        """The final outcome of an intent of this node, if it has one. `Unavailable` when it is away."""
        ...

    async def unspent_states(
        self, contract: ContractAddress, after: StatePlace | None = None, limit: int = STATES_A_PAGE
    ) -> StatePage:
        """The states of this contract that are on the chain and unspent, and that this node holds; some at a time.

        As the index has it, final or not; in the order in which they were committed, and then of their outputs.
        `Unavailable` when it is away.
        """
        ...

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these states that this node holds, also spent ones and such as are not on the chain.

        A nullifier stands for the state that it spends. In the order asked for. `Unavailable` when it is away.
        """
        ...

    async def transitions_of(
        self, contract: ContractAddress, leaves: Sequence[Leaf], bytes_max: int | None = None
    ) -> tuple[Transition, ...]:
        """The transitions of these leaves that this node dispatched, permitted, prepared or was sent.

        With what it has of their states. No more are read once those that were found have `bytes_max`, if that is
        given. `Unavailable` when the store is away.
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
        """What users asked for."""
        ...

    @property
    def traces(self) -> TraceStore:
        """What the sequencer left of private transactions."""
        ...

    @property
    def public(self) -> PublicStore:
        """What users do on the base ledger itself."""
        ...

    @property
    def key_names(self) -> KeyNames:
        """The identifiers of keys."""
        ...

    @property
    def accounts(self) -> AccountBook:
        """Which accounts pay for contracts."""
        ...

    @property
    def archive(self) -> Archive:
        """Private states, for users."""
        ...

    @property
    def mail(self) -> Mail:
        """Messages of groups, and what is owed to peers."""
        ...

    @property
    def groups(self) -> Groups:
        """The privacy groups of this node."""
        ...

    @property
    def commitments(self) -> CommitmentStore:
        """What transitions of proved contracts commit to."""
        ...

    @property
    def proofs(self) -> ProofBook:
        """Proofs that were made and may be wanted again."""
        ...

    @property
    def carried(self) -> CarriedStore:
        """Transitions that other private contracts carry out."""
        ...

    @property
    def triggers(self) -> TriggerBook:
        """What automation remembers."""
        ...

    async def chain(self) -> StoredChain:
        """The chain that earlier runs of this node used."""
        ...

    async def use_chain(self, confirmations: int, genesis: BlockHash | None) -> None:
        """From now on this many confirmations make a block final; the next run finds both."""
        ...

    def perform(self, effect: StoreEffect) -> None:
        """Begin to do this. A record that it does not know is an assertion."""
        ...

    @property
    def quarantine(self) -> QuarantineBook:
        """The contracts that no run loads."""
        ...

    @property
    def writes_failed(self) -> int:
        """How many attempts to write came to nothing."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps the store from us, for an operator; empty when nothing does."""
        ...
