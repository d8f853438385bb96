"""Transitions that are proved, as domains describe them: by which contracts, with which statement, and by whom."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Generic, Protocol, TypeVar

from rota.domains.available import Known
from rota.domains.records import Record
from rota.domains.trees import CommitmentTree, Roster
from rota.model.frozen import dataclass
from rota.model.types import Call, Party, Preparation, StateId

C = TypeVar("C", bound=Record)


@dataclass(frozen=True, slots=True)
class ProvedLedger:
    """A contract of the chain whose code the deployer gives to the factory, and the verifiers of its proofs, by name.

    Where endorsers sign, it has no verifiers, and the first argument of its constructor is the one endorser. `terms`
    are what its constructor takes behind the verifiers. Its code's hash covers them.
    """

    contract: str
    verifiers: tuple[str, ...]
    terms: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim(Generic[C]):
    """A transition that was assembled here, with all that is in it: it is to be proved, and never leaves the node.

    `binding` is what the proof has to bind of the transition. All spent states belong to `sender`, whose secret is
    here too. `calls` are what it has the ledger call, `reads` states that it names
    without spending them by that name. `tree` has the commitments of all that was made, as far as this node's index is,
    and `roster` who may own states.
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
    roster: Roster | None = None


class Prover(Protocol):
    """Makes proofs, in a time that the event loop must not wait for."""

    def prove(self, statement: object) -> Awaitable[bytes]:
        """A proof of what a domain states. An exception when it is not true, or cannot be proved now."""

    def prepare(self, circuits: Sequence[object]) -> Awaitable[None]:
        """Make ready for proofs of these circuits. An exception when that cannot be done now."""
