"""Transitions that are proved, and states that are encrypted on their way, as domains describe them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rota.domains.available import Known
from rota.domains.records import Record
from rota.model.types import Call, ContractAddress, Party, Preparation, StateId

C = TypeVar("C", bound=Record)


@dataclass(frozen=True, slots=True)
class ProvedLedger:
    """A contract of the chain that has each transition proved, and the contracts that verify its proofs, by name.

    `terms` are what its constructor takes behind the verifiers. Its code's hash covers them.
    """

    contract: str
    verifiers: tuple[str, ...]
    terms: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim(Generic[C]):
    """A transition that was assembled here, with all that is in it: it is to be proved, and never leaves the node.

    `binding` is what the proof has to bind of the transition. All spent states belong to `sender`, whose secret is
    here too. `calls` are what it has the ledger call, `reads` states that it names
    without spending them by that name. `tree` has the commitments of all that was made, as far as this node's index is.
    """

    configuration: C
    sender: Party
    secret: bytes
    binding: bytes
    spends: tuple[Known[Record], ...] = ()
    makes: tuple[Known[Record], ...] = ()
    preparation: Preparation | None = None
    calls: tuple[Call, ...] = ()
    reads: tuple[StateId, ...] = ()
    tree: CommitmentTree | None = None


class CommitmentTree(Protocol):
    """What a ledger keeps of all commitments that were ever made, in their order. The host lets it grow with the chain.

    What it is good for only its domain knows: a proof shows that something is in it.
    """

    def __len__(self) -> int:
        """How many there are."""

    def extend(self, commitments: Sequence[Sequence[bytes]]) -> None:
        """These came, of each of some transitions those that it made."""

    def cut(self, count: int) -> None:
        """Only so many are there after all."""


class Prover(Protocol):
    """Makes proofs, in a time that the event loop must not wait for."""

    def prove(self, statement: object) -> Awaitable[bytes]:
        """A proof of what a domain states. An exception when it is not true, or cannot be proved now."""

    def prepare(self, circuits: Sequence[object]) -> Awaitable[None]:
        """Make ready for proofs of these circuits. An exception when that cannot be done now."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A reader of the bytes of a state, and the state: the encrypted bytes serve no other reader."""

    party: Party
    contract: ContractAddress
    state: StateId
