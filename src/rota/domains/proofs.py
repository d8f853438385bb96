"""Proved transitions, as domains describe them: the contracts that verify them, the statements, and the prover."""

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
    are the arguments of its constructor behind the verifiers. The hash of its code covers them.
    """

    contract: str
    verifiers: tuple[str, ...]
    terms: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim(Generic[C]):
    """A transition that was assembled here, with all its contents: it is to be proved, and never leaves the node.

    `binding` is the value of the transition that the proof has to bind. All spent states belong to `sender`, whose
    secret is included. `calls` are those that the transition has the ledger make, `reads` states that it names without
    spending them by that name. `tree` has the commitments of all states made, as far as this node's index is, and
    `roster` the owners of states.
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
    """Makes proofs, which takes longer than the event loop may wait."""

    def prove(self, statement: object) -> Awaitable[bytes]:
        """A proof of a domain's statement. An exception when it is not true, or cannot be proved now."""

    def prepare(self, circuits: Sequence[object]) -> Awaitable[None]:
        """Prepare for proofs of these circuits. An exception when that cannot be done now."""
