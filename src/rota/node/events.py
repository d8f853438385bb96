"""Events of the node itself: answers of its store, outcomes of public transactions, missing states."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome
from rota.model.frozen import dataclass
from rota.model.types import (
    AwaitedLeaf,
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Transition,
)
from rota.sequencer.sequencer import StoredContract


@dataclass(frozen=True, slots=True)
class ContractLoaded(Event):
    """The answer to `LoadContract`; also how a node learns of a new contract."""

    contract: Contract
    stored: StoredContract


@dataclass(frozen=True, slots=True)
class ContractMissing(Event):
    """There is no such contract in this node's store."""

    contract: ContractAddress


# To a whole node.


@dataclass(frozen=True, slots=True)
class ForContract(Event):
    """An event of one contract."""

    contract: ContractAddress
    event: Event


@dataclass(frozen=True, slots=True)
class IntentsLookedUp(Event):
    """The store's answer: the intent that has the key, the outcomes of those that are final, and the unfinished.

    A leaf is confirmed when a final block commits it, and reverted when one commits something else under its id.
    """

    token: int
    existing: IntentId | None = None
    outcomes: tuple[tuple[IntentId, Outcome], ...] = ()
    unfinished: tuple[IntentId, ...] = ()
    leaves: tuple[tuple[AwaitedLeaf, Outcome], ...] = ()


@dataclass(frozen=True, slots=True)
class PublicTransactionEnded(Event):
    """A public transaction of this node has its final outcome, which is durable: private ones may depend on it."""

    intent: IntentId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RoundsMadeUp(Event):
    """Earlier final outcomes of a contract that this node got later are durable; the index had passed them."""

    contract: ContractAddress
    outcomes: tuple[LedgerOutcome, ...]


@dataclass(frozen=True, slots=True)
class StatesWanted(Event):
    """This node lacks the private states of these leaves, if it may see any, and is to ask its peers."""

    contract: ContractAddress
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class StatesFound(Event):
    """The store's answer to `FindStates`: transitions of one round, as the peer may see them."""

    contract: ContractAddress
    peer: NodeName
    digest: Digest
    transitions: tuple[Transition, ...]
