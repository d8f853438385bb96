"""Attestation: the plan of a contract, which its chain checks, and the additions of one transaction's plan."""

from __future__ import annotations

from typing import Final

from rota.model.frozen import dataclass
from rota.model.types import Mode, NodeName, Party, node_of


@dataclass(frozen=True, slots=True)
class AttestationPlan:
    """The endorsers and coordinators of a contract, and how many endorsers sign a round. Fixed at deployment."""

    endorsers: tuple[Party, ...]
    threshold: int
    mode: Mode
    committee: tuple[NodeName, ...]

    @classmethod
    def proofs(cls, issuer: Party) -> AttestationPlan:
        """Proofs convince the ledger, and every sender coordinates its own. The issuer's node signs for new coins."""
        return cls((issuer,), 0, Mode.SENDER, (node_of(issuer),))

    @classmethod
    def notary(cls, notary: Party) -> AttestationPlan:
        """One party endorses everything and must submit it, so its node is the only coordinator."""
        return cls((notary,), 1, Mode.STATIC, (node_of(notary),))

    @classmethod
    def some_of(cls, members: tuple[Party, ...], threshold: int | None = None) -> AttestationPlan:
        """`threshold` members endorse, by default all; their nodes take turns as coordinators."""
        nodes = tuple(dict.fromkeys(node_of(member) for member in members))
        return cls(members, len(nodes) if threshold is None else threshold, Mode.RING, nodes)

    @property
    def endorser_nodes(self) -> tuple[NodeName, ...]:
        """The endorsers' nodes, each once: a node endorses for all of its parties with one signature."""
        return tuple(dict.fromkeys(node_of(endorser) for endorser in self.endorsers))


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """The parties that attest one transaction besides the k of n endorsers of its contract, which the chain counts.

    `signers` are parties of the sender's node: they sign the transition as its sender does. `endorsers` are endorsing
    parties of the contract: all of their nodes approve the transition before any endorser signs it. `submitter` is the
    party whose node must submit it, which is possible where one node coordinates: in `static` and `sender` mode.
    """

    signers: tuple[Party, ...] = ()
    endorsers: tuple[Party, ...] = ()
    submitter: Party | None = None


NO_PLAN: Final = TransactionPlan()
