"""Records of transitions that another private contract carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rota.domains.queries import Query
from rota.machine.effects import TransitionPrepared
from rota.model.types import ContractAddress, Digest, IntentId, Leaf


class Chained(NamedTuple):
    """A transaction, and the transaction of another private contract that carries it out."""

    intent: IntentId
    chained: IntentId


@dataclass(frozen=True, slots=True)
class StoredCarried:
    """A prepared transition that another contract is to carry out, by a transaction under this idempotency key.

    `chained` is that transaction once it is submitted; `refusal` is why the transition is not carried out.
    """

    contract: ContractAddress
    record: TransitionPrepared
    idempotency_key: str
    chained: IntentId | None = None
    refusal: str | None = None

    @property
    def key(self) -> tuple[ContractAddress, Leaf, Digest]:
        """Identifies the version: a leaf that is endorsed again is in another round."""
        return self.contract, self.record.prepared.transition.leaf, self.record.prepared.digest


class CarriedStore(Protocol):
    """The transitions to be carried out. All methods: `Unavailable` when the store is away."""

    async def add(self, contract: ContractAddress, record: TransitionPrepared, key: str) -> None:
        """Record a transition that the transaction submitted under this key is to carry out; the first key stays."""
        ...

    async def open(self, of_one: int, limit: int) -> tuple[StoredCarried, ...]:
        """Unsettled transitions, at most `of_one` of each sender's node in a contract.

        Senders and contracts take turns; of one sender the earliest come first.
        """
        ...

    async def is_on_chain(self, contract: ContractAddress, intent: IntentId, leaf: Leaf) -> bool:
        """Whether a block, final or not, has this leaf of an intent."""
        ...

    async def note_chained(self, carried: StoredCarried, chained: IntentId) -> None:
        """Record the transaction that is to carry it out."""
        ...

    async def note_refused(self, carried: StoredCarried, reason: str) -> None:
        """Record that it is not carried out; its sender gets the reason until its intent has ended."""
        ...

    async def settle(self, carried: StoredCarried) -> None:
        """Its intent has ended, or this version has expired. A transition without a transaction is deleted."""
        ...

    async def find(self, query: Query) -> tuple[Chained, ...]:
        """The pairs that match a query."""
        ...

    async def with_intent(self, intent: IntentId) -> tuple[Chained, ...]:
        """The pairs with this intent on either side."""
        ...
