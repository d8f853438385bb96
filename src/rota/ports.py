"""What the runtime needs of the world, as protocols; adapters are found by their shape.

An adapter is given orders and answers by events, as the core's effects ask for and its events tell. It never
raises at whoever orders: what the world could not do is not answered, and the core asks again by its own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rota.core.effects import (
    FetchBlocks,
    FindStates,
    LoadContract,
    LookUpIntents,
    Persist,
    SignDispatch,
    SubmitTransaction,
)
from rota.core.machine import Event
from rota.core.node import StoredNode
from rota.types import Contract, ContractAddress, IntentId, NodeName, Receipt, State, StateId

LedgerEffect: TypeAlias = FetchBlocks | SignDispatch | SubmitTransaction
StoreEffect: TypeAlias = Persist | LookUpIntents | LoadContract | FindStates
Tell: TypeAlias = Callable[[Event], None]


class Unavailable(Exception):
    """The world did not do what it was asked to do; the same may go well later."""


class UnknownKey(Unavailable):
    """There is no key of this name here; an operator may add it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who signs the rounds of a contract on the chain: each endorser's node and address in set order, and how many."""

    endorsers: tuple[tuple[NodeName, ContractAddress], ...]
    threshold: int


class Contracts(Protocol):
    """The contracts whose rounds are of interest to this node; they may become more while it runs."""

    def addresses(self) -> tuple[ContractAddress, ...]:
        """All of them."""
        ...

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        """Who signs its rounds; nothing when it is not known."""
        ...


class Deployments(Protocol):
    """Which intents deployed the contracts of this node: an endorser's key is derived from that (`keys.names`)."""

    def deployment_of(self, contract: ContractAddress) -> IntentId | None:
        """The id under which the factory deployed it; nothing when it is not known."""
        ...


class Signer(Protocol):
    """Holds keys by their names (`keys.names`): submitters, of which `SignDispatch` names one, parties, endorsers."""

    def address_of(self, signer: str) -> ContractAddress:
        """The address that stands for what it signs. `UnknownKey` when there is no such key."""
        ...

    async def sign(self, signer: str, digest: bytes) -> bytes:
        """The 65-byte signature of a 32-byte hash: r, s, recovery id 0 or 1. `Unavailable` when it cannot."""
        ...


class Ledger(Protocol):
    """A base ledger. What it sees and what became of its orders it tells as events."""

    async def run(self) -> None:
        """Follow the chain until cancelled."""
        ...

    def perform(self, effect: LedgerEffect) -> None:
        """Begin to do this; an order that is being done already is not done twice."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps the chain from us, for an operator; empty when nothing does."""
        ...


class Store(Protocol):
    """What a node remembers across a restart (protocol §8). Orders are answered as events, in whatever time it takes.

    Every `Persist` is answered by `Persisted` or `PersistFailed`; what is written is written in the order in which
    it was ordered. Every `LookUpIntents` is answered by `IntentsLookedUp`, which knows of all that was told as
    durable when it was asked.
    """

    async def start(self) -> None:
        """Open it, and bring its schema up to date. `Unavailable` when it is away."""
        ...

    async def close(self) -> None:
        """Write what was ordered, and give it back."""
        ...

    async def add_contract(self, contract: Contract) -> None:
        """From now on this node has this contract: before any record or block names it. `Unavailable` when not."""
        ...

    async def contracts(self) -> tuple[Contract, ...]:
        """All contracts of this node."""
        ...

    async def contracts_with_work(self) -> tuple[ContractAddress, ...]:
        """Those of which something is unfinished: a node begins with them and loads the others when asked."""
        ...

    async def restore(self, contracts: Sequence[ContractAddress]) -> StoredNode:
        """What a new life of the node finds, and of its contracts these. `Unavailable` when it is away."""
        ...

    async def receipt_of(self, intent: IntentId) -> Receipt | None:
        """The final outcome of an intent of this node, if it has one. `Unavailable` when it is away."""
        ...

    async def unspent_states(self, contract: ContractAddress) -> tuple[State, ...]:
        """The states of this contract that are on the chain and unspent, and that this node holds.

        As the index has it, final or not; in the order in which they were committed, and then of their outputs.
        `Unavailable` when it is away.
        """
        ...

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these states that this node holds, also spent ones and such as are not on the chain.

        In the order asked for. `Unavailable` when it is away.
        """
        ...

    def perform(self, effect: StoreEffect) -> None:
        """Begin to do this. A record that it does not know is an assertion."""
        ...

    @property
    def trouble(self) -> str:
        """What keeps the store from us, for an operator; empty when nothing does."""
        ...
