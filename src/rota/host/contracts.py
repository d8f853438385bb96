"""The common part of all questions to a domain: a contract with its domain, its held states, and background."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from rota.calldata import NO_CONDITION, nullifier_reference
from rota.domains.available import Known, Shelf, known_in
from rota.domains.base import Carrier, Domain, History, Reserve, Roster
from rota.domains.contents import schemas_of
from rota.domains.locking import StandsFor
from rota.domains.records import Record
from rota.model.frozen import dataclass
from rota.model.types import (
    Call,
    Contract,
    ContractAddress,
    NodeName,
    Party,
    Preparation,
    State,
    StateId,
    address_bytes,
)

REASON_LETTERS_MAX: Final = 1_000
# The estimated gas of a call on the public ledger, by its target and data.
CallGas: TypeAlias = Mapping[tuple[ContractAddress, bytes], int]
SALT_KEY_BYTES: Final = 32

# A hosted domain's configuration is of the domain's own class, which only the domain knows.
AnyDomain = Domain[Any]
Held = Mapping[StateId, State]
SecretOf = Callable[[Party], bytes | None]


def _nobodys(_: Party) -> bytes | None:
    return None


def _not_here(_: StateId) -> State | None:
    return None


@dataclass(frozen=True, slots=True)
class Background:
    """Other knowledge of a node: any state whose bytes it has, spent ones among them, and the verifiers of parties.

    `reserves` has the chain's balances of senders whose states are made of public tokens or turned into them.
    `call_gas` has estimates of the gas that calls on the public ledger need, `roster` the owners of the contract's
    states.
    """

    recall: Callable[[StateId], State | None] = _not_here
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    reserves: Mapping[Party, Reserve] = field(default_factory=dict)
    call_gas: CallGas = field(default_factory=dict)
    roster: Roster | None = None


NO_BACKGROUND: Final = Background()


@dataclass(frozen=True, slots=True)
class Hosted:
    """A contract with its domain, ready for questions. `salt_key` is this node's secret for the salts of its states.

    `memory` is the domain's own, of this contract at one node. `secret_of` has the secrets of this node's own parties.
    """

    contract: Contract
    domain: AnyDomain
    configuration: Record
    separator: bytes
    salt_key: bytes
    memory: object = None
    secret_of: SecretOf = _nobodys

    def __post_init__(self) -> None:
        assert len(self.salt_key) == SALT_KEY_BYTES, f"a salt key is {SALT_KEY_BYTES} bytes, not {len(self.salt_key)}"

    @property
    def known(self) -> Mapping[str, type[Record]]:
        """The record classes of its states, by the names of their schemas."""
        return schemas_of(self.domain.states)

    @property
    def carrier(self) -> Carrier | None:
        """The private contract that decides about its transitions and carries them out, if it has one."""
        return self.domain.carrier(self.configuration)

    @property
    def carried_preparation(self) -> Preparation | None:
        """The preparation of a transition that a carrier carries out: for its own ledger. None without a carrier."""
        return Preparation(self.contract.address, NO_CONDITION) if self.carrier is not None else None

    # Questions about states that other parties made. This is the one place where any exception of a domain about such
    # a state means that the domain does not know it.

    def spent_as(self, state: Known[Record]) -> StateId | None:
        """The reference that spends this state: its id, or a nullifier. None where that is unknown."""
        try:
            nullifier = self.domain.nullifier(self.configuration, state, self.secret_of)
            return state.id if nullifier is None else nullifier_reference(nullifier)
        except Exception:
            return None

    def stands_for(self, state: Known[Record]) -> StandsFor | None:
        """The record of a lock that this state stands for, if it is such a state."""
        try:
            return self.domain.stands_for(state.record)
        except Exception:
            return None

    def is_committed_as(self, state: Known[Record], commitment: bytes) -> bool:
        """Whether this is the ledger's own commitment to the state."""
        try:
            return self.domain.commitments(((state.record, state.salt),)) == (commitment,)
        except Exception:
            return False

    def is_owned(self, state: Known[Record]) -> bool:
        """Whether the party that it names as its owner can spend it, as far as this node can check."""
        try:
            return self.domain.is_owned(state, self.secret_of)
        except Exception:
            return False

    def learn(self, state: Known[Record]) -> None:
        """Add the state to the domain's memory."""
        with suppress(Exception):
            self.domain.learn(self.memory, state)

    def at_another_node(self) -> Hosted:
        """The same contract with an empty memory."""
        return replace(self, memory=self.domain.memory(self.configuration, self.contract))

    def bare(self) -> Hosted:
        """The same contract as a value that can be sent to another process: without memory and parties' secrets."""
        return replace(self, memory=None, secret_of=_nobodys)


def shelf_of(hosted: Hosted, held: Held, node: NodeName) -> Shelf:
    """The held states, decoded. A frequent caller passes a `Shelf` as `held`, which costs nothing."""
    if isinstance(held, Shelf):
        return held
    return shelved(hosted, held.values(), node)


def shelved(hosted: Hosted, states: Iterable[State], node: NodeName) -> Shelf:
    """These states, found by their ids and by the references that spend them."""
    return Shelf(hosted.known, (state.as_seen_by(node) for state in states), hosted.spent_as)


def history_of(hosted: Hosted, node: NodeName, *places: Callable[[StateId], State | None]) -> History:
    """The states in these places, searched in this order."""

    def find(reference: StateId) -> Known[Record] | None:
        found = (known for look in places if (known := known_of(hosted, look(reference), node)) is not None)
        return next(found, None)

    return History(find)


def known_of(hosted: Hosted, state: State | None, node: NodeName) -> Known[Record] | None:
    return known_in(hosted.known, state.as_seen_by(node)) if state is not None else None


def told_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def flaw_of_calls(hosted: Hosted, calls: Iterable[Call]) -> str:
    """Why the ledger would revert a whole commit for these calls; empty if it would not."""
    ledger = address_bytes(hosted.contract.address)
    return "it calls the ledger that is to commit it" if any(address_bytes(each.to) == ledger for each in calls) else ""


def bounded(reason: str) -> str:
    return reason[:REASON_LETTERS_MAX] or "no reason was given"
